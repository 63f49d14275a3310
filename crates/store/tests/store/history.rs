//! What was asked of a store, and what it may therefore answer: now, after a kill, after a power
//! loss. This is the specification that the other tests check against.

use std::collections::{BTreeMap, BTreeSet};

use crate::content::State;
use crate::probe::Stamp;

/// How a store came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process was killed: what the device has taken stays.
    Kill,
    /// Power was lost: what was not flushed may be lost, wholly or in part.
    Power,
    /// The device failed before: what was refused may be found, what it could not be told may
    /// come back. Purges that were answered hold.
    Failure,
    /// Bytes at rest were changed: any state that ever was may be found, but nothing else.
    Damage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// A new body, in place of everything before.
    Stored(State),
    /// Other metadata beside the body that is there.
    Refreshed(State),
    /// Removed; a power loss may undo it.
    Removed,
    /// Purged; nothing may undo it.
    Purged,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    change: Change,
    begun: Stamp,
    returned: Option<Stamp>,
    refused: bool,
}

/// The name of an event that has begun.
#[derive(Clone, Copy)]
pub struct Begun {
    key: u32,
    number: usize,
}

/// Everything that was asked, by key.
#[derive(Clone, Default)]
pub struct History {
    events: BTreeMap<u32, Vec<Event>>,
    /// Moments at which everything before them had reached the device.
    settled: Vec<Stamp>,
    /// Flushes: begin and end.
    pub flushes: Vec<(Stamp, Stamp)>,
    /// The last version given to a body.
    pub version: u32,
}

impl History {
    fn begin(&mut self, key: u32, change: Change, begun: Stamp) -> Begun {
        let events = self.events.entry(key).or_default();
        events.push(Event { change, begun, returned: None, refused: false });
        Begun { key, number: events.len() - 1 }
    }

    pub fn store(&mut self, state: State, begun: Stamp) -> Begun {
        self.begin(state.key, Change::Stored(state), begun)
    }

    pub fn refresh(&mut self, state: State, begun: Stamp) -> Begun {
        self.begin(state.key, Change::Refreshed(state), begun)
    }

    pub fn remove(&mut self, key: u32, begun: Stamp) -> Begun {
        self.begin(key, Change::Removed, begun)
    }

    pub fn purge(&mut self, key: u32, begun: Stamp) -> Begun {
        self.begin(key, Change::Purged, begun)
    }

    /// The store said that it was done.
    pub fn returned(&mut self, begun: Begun, at: Stamp) {
        self.events.get_mut(&begun.key).unwrap()[begun.number].returned = Some(at);
    }

    /// The store refused: it never was.
    pub fn refused(&mut self, begun: Begun) {
        self.events.get_mut(&begun.key).unwrap()[begun.number].refused = true;
    }

    /// Everything up to `at` has reached the device.
    pub fn settle(&mut self, at: Stamp) {
        self.settled.push(at);
    }

    /// What is known after a kill at `now`: each key is in one of the states that were permitted
    /// then, or is not there. Stamps count from the beginning.
    pub fn after_kill(&self, now: Stamp) -> History {
        let mut after = History { version: self.version, ..History::default() };
        for key in self.keys() {
            after.events.entry(key).or_default();
            for state in self.permitted(key, Crash::Kill, now) {
                after.store(state, 0);
            }
        }
        after
    }

    pub fn keys(&self) -> impl Iterator<Item = u32> {
        self.events.keys().copied()
    }

    /// What the store must answer now, unless it has evicted it.
    pub fn current(&self, key: u32) -> Option<State> {
        match self.events.get(&key)?.iter().rfind(|event| !event.refused)?.change {
            Change::Stored(state) | Change::Refreshed(state) => Some(state),
            Change::Removed | Change::Purged => None,
        }
    }

    /// Whether `at` outlives a crash at `now`, supposing that it had reached the device then.
    fn outlives(&self, at: Stamp, crash: Crash, now: Stamp) -> bool {
        match crash {
            Crash::Kill => at <= now,
            Crash::Failure | Crash::Damage => false,
            Crash::Power => self.flushes.iter().any(|(begin, end)| *begin >= at && *end <= now),
        }
    }

    /// The first moment at which what was done by `at` was on the device for sure.
    fn settled_after(&self, at: Stamp) -> Option<Stamp> {
        self.settled.iter().copied().find(|settled| *settled >= at)
    }

    /// What may be found under `key` after a crash at `now`, besides nothing.
    pub fn permitted(&self, key: u32, crash: Crash, now: Stamp) -> BTreeSet<State> {
        let mut permitted = BTreeSet::new();
        let events = self.events.get(&key).map(Vec::as_slice).unwrap_or_default();
        let failed = crash == Crash::Failure || crash == Crash::Damage;
        for event in events.iter().filter(|event| event.begun <= now) {
            if event.refused && !failed {
                continue;
            }
            let returned = event.returned.filter(|returned| *returned <= now);
            let certain = returned.is_some_and(|returned| self.outlives(returned, crash, now));
            match event.change {
                Change::Purged if returned.is_some() && crash != Crash::Damage => permitted.clear(),
                Change::Removed | Change::Purged if certain => permitted.clear(),
                Change::Removed | Change::Purged => {}
                Change::Stored(state) => {
                    if certain {
                        permitted.clear();
                    }
                    permitted.insert(state);
                }
                Change::Refreshed(state) => {
                    // Older metadata may come back until the newer ones are on the device.
                    let settled = returned.and_then(|returned| self.settled_after(returned));
                    if settled.is_some_and(|settled| self.outlives(settled, crash, now)) {
                        permitted.clear();
                    }
                    permitted.insert(state);
                }
            }
        }
        permitted
    }

    /// What must be found under `key` after a crash at `now`, if nothing was evicted.
    pub fn required(&self, key: u32, crash: Crash, now: Stamp) -> Option<State> {
        let events = self.events.get(&key)?;
        let event = events.iter().rfind(|event| event.begun <= now && !event.refused)?;
        let settled = self.settled_after(event.returned?)?;
        match event.change {
            Change::Stored(state) | Change::Refreshed(state) => {
                (settled <= now && self.outlives(settled, crash, now)).then_some(state)
            }
            Change::Removed | Change::Purged => None,
        }
    }
}
