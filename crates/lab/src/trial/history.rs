//! What was asked of a store, and what it may therefore answer: now, after a kill, after a power
//! loss. This is the specification that trials check against.
//!
//! The changes of one key are made one after another; reads may run beside them.

use std::collections::{BTreeMap, BTreeSet};

use super::content::State;

/// A moment: later ones are larger.
pub type Stamp = u64;

/// How a store came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// In good order.
    Stop,
    /// The process was killed: what the device has taken stays.
    Kill,
    /// Power was lost: what was not flushed may be lost, wholly or in part.
    Power,
    /// The store gave its device up before: what was refused may be found, and what the device
    /// could not be told may come back. Purges that were answered hold.
    GivenUp,
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

impl Change {
    fn state(self) -> Option<State> {
        match self {
            Change::Stored(state) | Change::Refreshed(state) => Some(state),
            Change::Removed | Change::Purged => None,
        }
    }
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
    /// Moments at which everything that returned within had reached the device: after, up to.
    settled: Vec<(Stamp, Stamp)>,
    /// Flushes that succeeded: begin and end.
    flushes: Vec<(Stamp, Stamp)>,
    /// The last version given to a body.
    version: u32,
    now: Stamp,
}

impl History {
    /// A new moment.
    pub fn stamp(&mut self) -> Stamp {
        self.now += 1;
        self.now
    }

    /// The state that the next insertion under `key` makes.
    pub fn next_state(&mut self, key: u32, len: u64) -> State {
        self.version += 1;
        State { key, version: self.version, meta: 0, len }
    }

    fn begin(&mut self, key: u32, change: Change) -> Begun {
        let begun = self.stamp();
        let events = self.events.entry(key).or_default();
        events.push(Event { change, begun, returned: None, refused: false });
        Begun { key, number: events.len() - 1 }
    }

    /// A body is about to be stored.
    pub fn store(&mut self, state: State) -> Begun {
        self.begin(state.key, Change::Stored(state))
    }

    /// Metadata are about to be replaced.
    pub fn refresh(&mut self, state: State) -> Begun {
        self.begin(state.key, Change::Refreshed(state))
    }

    /// The key is about to be removed.
    pub fn remove(&mut self, key: u32) -> Begun {
        self.begin(key, Change::Removed)
    }

    /// The key is about to be purged.
    pub fn purge(&mut self, key: u32) -> Begun {
        self.begin(key, Change::Purged)
    }

    fn event(&mut self, begun: Begun) -> &mut Event {
        let events = self.events.get_mut(&begun.key).expect("it has begun");
        &mut events[begun.number]
    }

    /// The store said that it was done.
    pub fn returned(&mut self, begun: Begun) {
        let now = self.stamp();
        self.event(begun).returned = Some(now);
    }

    /// The store refused: it never was.
    pub fn refused(&mut self, begun: Begun) {
        self.event(begun).refused = true;
    }

    /// Everything that returned after `after` has reached the device.
    pub fn settle(&mut self, after: Stamp) {
        let now = self.stamp();
        self.settled.push((after, now));
    }

    /// A flush that began at `begin` succeeded.
    pub fn flushed(&mut self, begin: Stamp) {
        let end = self.stamp();
        self.flushes.push((begin, end));
    }

    /// All keys that anything was asked of.
    pub fn keys(&self) -> Vec<u32> {
        self.events.keys().copied().collect()
    }

    /// What the store must answer now, unless it has evicted it. Nothing may be under way.
    pub fn current(&self, key: u32) -> Option<State> {
        self.events.get(&key)?.iter().rfind(|event| !event.refused)?.change.state()
    }

    /// What a read that began at `from` may find now, besides nothing.
    pub fn during(&self, key: u32, from: Stamp) -> BTreeSet<State> {
        let Some(events) = self.events.get(&key) else { return BTreeSet::new() };
        let alive = || events.iter().enumerate().filter(|(_, event)| !event.refused);
        let is_before = |event: &Event| event.returned.is_some_and(|returned| returned <= from);
        let first = alive().rfind(|(_, event)| is_before(event)).map_or(0, |(number, _)| number);
        alive()
            .filter(|(number, _)| *number >= first)
            .filter_map(|(_, event)| event.change.state())
            .collect()
    }

    /// Whether `at` outlives this end now, supposing that it had reached the device then.
    fn outlives(&self, at: Stamp, end: End) -> bool {
        match end {
            End::Stop | End::Kill => true,
            End::GivenUp => false,
            End::Power => self.flushes.iter().any(|(begin, _)| *begin >= at),
        }
    }

    /// The first moment at which what returned at `at` was on the device for sure.
    fn settled_after(&self, at: Stamp) -> Option<Stamp> {
        let settled = self.settled.iter().find(|(after, upto)| *after < at && at <= *upto);
        settled.map(|(_, upto)| *upto)
    }

    /// What may be found under `key` after this end, besides nothing.
    pub fn permitted(&self, key: u32, end: End) -> BTreeSet<State> {
        let mut permitted = BTreeSet::new();
        let events = self.events.get(&key).map(Vec::as_slice).unwrap_or_default();
        for event in events {
            if event.refused && end != End::GivenUp {
                continue;
            }
            let certain = event.returned.is_some_and(|returned| self.outlives(returned, end));
            match event.change {
                Change::Purged if event.returned.is_some() => permitted.clear(),
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
                    let settled = event.returned.and_then(|returned| self.settled_after(returned));
                    if settled.is_some_and(|settled| self.outlives(settled, end)) {
                        permitted.clear();
                    }
                    permitted.insert(state);
                }
            }
        }
        permitted
    }

    /// What must be found under `key` after this end, if nothing was evicted.
    pub fn required(&self, key: u32, end: End) -> Option<State> {
        let events = self.events.get(&key)?;
        let event = events.iter().rfind(|event| !event.refused)?;
        let settled = self.settled_after(event.returned?)?;
        event.change.state().filter(|_| self.outlives(settled, end))
    }

    /// What is known after an end: each key is in one of the states that were permitted, or is not
    /// there; what was required still is.
    pub fn after(&self, end: End) -> History {
        let mut after = History { version: self.version, now: self.now, ..History::default() };
        let start = after.stamp();
        for key in self.keys() {
            after.events.entry(key).or_default();
            match self.required(key, end) {
                Some(state) => {
                    let begun = after.store(state);
                    after.returned(begun);
                }
                None => self.permitted(key, end).into_iter().for_each(|state| {
                    after.store(state);
                }),
            }
        }
        after.settle(start);
        let flush = after.stamp();
        after.flushed(flush);
        after
    }

    /// After `key` was found to be in this state, or absent, once and for all.
    pub fn found(&mut self, key: u32, state: Option<State>) {
        let begun = match state {
            Some(state) => self.store(state),
            None => self.purge(key),
        };
        self.returned(begun);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(history: &mut History) -> State {
        let state = history.next_state(1, 10);
        let begun = history.store(state);
        history.returned(begun);
        state
    }

    #[test]
    fn a_kill_leaves_the_last_or_nothing_and_a_power_loss_all_since_the_flush() {
        let mut history = History::default();
        let (first, second) = (stored(&mut history), stored(&mut history));
        assert_eq!(history.permitted(1, End::Kill), BTreeSet::from([second]));
        assert_eq!(history.permitted(1, End::Power), BTreeSet::from([first, second]));
        assert_eq!(history.required(1, End::Kill), None);
        history.settle(0);
        assert_eq!(history.required(1, End::Kill), Some(second));
        assert_eq!(history.required(1, End::Power), None);
        let begin = history.stamp();
        history.flushed(begin);
        assert_eq!(history.required(1, End::Power), Some(second));
        assert_eq!(history.permitted(1, End::Power), BTreeSet::from([second]));
        let purge = history.purge(1);
        history.returned(purge);
        assert_eq!(history.permitted(1, End::Power), BTreeSet::new());
        let third = stored(&mut history);
        let after = history.after(End::Power);
        assert_eq!(after.during(1, after.now), BTreeSet::from([third]));
    }

    #[test]
    fn a_read_beside_changes_sees_one_of_them() {
        let mut history = History::default();
        let first = stored(&mut history);
        let from = history.stamp();
        let second = history.next_state(1, 10);
        let begun = history.store(second);
        assert_eq!(history.during(1, from), BTreeSet::from([first, second]));
        history.returned(begun);
        let after = history.stamp();
        assert_eq!(history.during(1, from), BTreeSet::from([first, second]));
        assert_eq!(history.during(1, after), BTreeSet::from([second]));
        let third = history.next_state(1, 10);
        let begun = history.store(third);
        history.refused(begun);
        assert_eq!(history.during(1, after), BTreeSet::from([second]));
    }
}
