//! The operations on a store and the results that they permit: now, after a kill, after a power
//! loss. This is the specification that trials check against.
//!
//! The changes of one key are made one after another; reads may run beside them.

use std::collections::{BTreeMap, BTreeSet};

use sim::SurvivalGuarantee;
use store::Mode;

use super::content::{State, Sweep};

/// A moment in logical time; later moments are larger.
pub type Stamp = u64;

/// How a session of a store ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Power was lost: data that were not flushed may be lost, wholly or in part. Otherwise the
    /// process was killed or stopped in order, and all writes that the device accepted remain.
    pub power: bool,
    /// The store had given up its device: refused changes may be found, and changes that could not
    /// be written since its first error may be undone. Acknowledged purges still hold.
    pub given_up: bool,
}

#[cfg(test)]
impl End {
    const KILL: End = End { power: false, given_up: false };
    const POWER: End = End { power: true, given_up: false };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// A new body replaced everything before.
    Stored(State),
    /// New metadata for the stored body.
    Refreshed(State),
    /// Removed; a power loss may undo it.
    Removed,
    /// Purged; nothing may undo it.
    Purged,
    /// Purged if the sweep concerns it; nothing may undo that.
    Swept(Sweep, Mode),
}

impl Change {
    fn state(self) -> Option<State> {
        match self {
            Change::Stored(state) | Change::Refreshed(state) => Some(state),
            Change::Removed | Change::Purged | Change::Swept(..) => None,
        }
    }

    fn sweep(self) -> Option<(Sweep, Mode)> {
        match self {
            Change::Swept(sweep, mode) => Some((sweep, mode)),
            _ => None,
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

/// Identifies an event that is recorded in the history.
#[derive(Clone, Copy)]
pub struct Begun {
    key: u32,
    number: usize,
}

/// All operations on a store, by key.
#[derive(Clone, Default)]
pub struct History {
    events: BTreeMap<u32, Vec<Event>>,
    /// Intervals (after, up to): everything that returned within one had reached the device at its
    /// end.
    settled: Vec<(Stamp, Stamp)>,
    /// Begin and end of the flushes that succeeded.
    flushes: Vec<(Stamp, Stamp)>,
    /// The first and the last error of the device.
    trouble: Option<(Stamp, Stamp)>,
    /// When the session began.
    start: Stamp,
    /// When the device first acknowledged a write that went astray.
    astray: Option<Stamp>,
    /// States from before this moment need not be found any more.
    floor: Stamp,
    /// The weakest guarantee of all fault plans so far: damage remains on a device.
    guarantee: Option<SurvivalGuarantee>,
    /// The last version assigned to a body.
    version: u32,
    now: Stamp,
}

impl History {
    /// Returns a new moment.
    pub fn stamp(&mut self) -> Stamp {
        self.now += 1;
        self.now
    }

    /// Returns the state that the next insertion under `key` makes.
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

    /// Records that a body is about to be stored.
    pub fn store(&mut self, state: State) -> Begun {
        self.begin(state.key, Change::Stored(state))
    }

    /// Records that metadata are about to be replaced.
    pub fn refresh(&mut self, state: State) -> Begun {
        self.begin(state.key, Change::Refreshed(state))
    }

    /// Records that the key is about to be removed.
    pub fn remove(&mut self, key: u32) -> Begun {
        self.begin(key, Change::Removed)
    }

    /// Records that the key is about to be purged.
    pub fn purge(&mut self, key: u32) -> Begun {
        self.begin(key, Change::Purged)
    }

    /// Records that everything that `sweep` concerns is about to be purged.
    pub fn sweep(&mut self, sweep: Sweep, mode: Mode) -> Vec<Begun> {
        self.keys().into_iter().map(|key| self.begin(key, Change::Swept(sweep, mode))).collect()
    }

    /// Records that the store acknowledged a sweep.
    pub fn all_returned(&mut self, begun: Vec<Begun>) {
        let now = self.stamp();
        for begun in begun {
            self.event(begun).returned = Some(now);
        }
    }

    fn event(&mut self, begun: Begun) -> &mut Event {
        let events = self.events.get_mut(&begun.key).expect("it has begun");
        &mut events[begun.number]
    }

    /// Records that the store acknowledged the event.
    pub fn returned(&mut self, begun: Begun) {
        let now = self.stamp();
        self.event(begun).returned = Some(now);
    }

    /// Records that the store refused the event, which therefore has no effect.
    pub fn refused(&mut self, begun: Begun) {
        self.event(begun).refused = true;
    }

    /// Records that an operation of the device failed.
    pub fn failed(&mut self) {
        let now = self.stamp();
        self.trouble = Some((self.trouble.map_or(now, |(first, _)| first), now));
    }

    /// Records that a write went astray. If it is the last write of the journal before a crash, no
    /// later block shows that one is missing. Everything acknowledged since then may be lost,
    /// purges included.
    pub fn goes_astray(&mut self) {
        let now = self.stamp();
        self.astray = self.astray.or(Some(now));
    }

    /// Records that damage hit the journal. If it hit the last block before a crash, recovery takes
    /// that block for one that was never fully written. Everything acknowledged in this session may
    /// be lost, purges included.
    pub fn journal_damaged(&mut self) {
        self.astray = Some(self.start);
    }

    fn told(&self, at: Stamp) -> bool {
        self.astray.is_none_or(|astray| at < astray)
    }

    /// Records that everything that returned since the last error has reached the device.
    pub fn settle(&mut self) {
        let now = self.stamp();
        self.settled.push((self.trouble.map_or(0, |(_, last)| last), now));
    }

    /// Records that a flush that began at `begin` succeeded.
    pub fn flushed(&mut self, begin: Stamp) {
        let end = self.stamp();
        self.flushes.push((begin, end));
    }

    /// Records that any object may have been evicted or lost with an error: no state from before
    /// has to be found any more.
    pub fn forget_requirements(&mut self) {
        self.floor = self.stamp();
    }

    /// Records that faults occur on the device from now on, under which this guarantee holds.
    pub fn weaken(&mut self, guarantee: SurvivalGuarantee) {
        self.guarantee = self.guarantee.max(Some(guarantee));
    }

    /// Returns the guarantee under all faults so far.
    pub fn guarantee(&self) -> SurvivalGuarantee {
        self.guarantee.unwrap_or(SurvivalGuarantee::Durable)
    }

    /// Returns all keys that any operation was about.
    pub fn keys(&self) -> Vec<u32> {
        self.events.keys().copied().collect()
    }

    /// Returns the state that a lookup must return now, unless it was evicted. No operation may be
    /// running.
    pub fn current(&self, key: u32) -> Option<State> {
        let mut events = self.events.get(&key)?.iter();
        events.rfind(|event| !event.refused && event.change.sweep().is_none())?.change.state()
    }

    /// Returns the states that a read that began at `from` may find now; it may also find nothing.
    pub fn during(&self, key: u32, from: Stamp) -> BTreeSet<State> {
        let Some(events) = self.events.get(&key) else { return BTreeSet::new() };
        let alive = || {
            let events = events.iter().enumerate();
            events.filter(|(_, event)| !event.refused && event.change.sweep().is_none())
        };
        let swept = |number: usize, state: State| {
            events[number..].iter().any(|event| {
                matches!(event.change, Change::Swept(sweep, Mode::Hard) if sweep.concerns(state))
                    && event.returned.is_some_and(|returned| returned <= from)
            })
        };
        let is_before = |event: &Event| event.returned.is_some_and(|returned| returned <= from);
        let first = alive().rfind(|(_, event)| is_before(event)).map_or(0, |(number, _)| number);
        alive()
            .filter(|(number, _)| *number >= first)
            .filter_map(|(number, event)| Some((number, event.change.state()?)))
            .filter(|(number, state)| !swept(*number, *state))
            .map(|(_, state)| state)
            .collect()
    }

    /// Returns whether `state`, found by a read that began at `from`, must count as outdated, and
    /// whether it may.
    pub fn outdated(&self, state: State, from: Stamp) -> (bool, bool) {
        let events = self.events.get(&state.key).map(Vec::as_slice).unwrap_or_default();
        let made = |event: &Event| event.change.state() == Some(state) && !event.refused;
        let Some(number) = events.iter().rposition(made) else { return (false, true) };
        let begun = events[number].begun;
        let (mut must, mut may) = (false, false);
        for (other, event) in events.iter().enumerate() {
            if !matches!(event.change, Change::Swept(by, Mode::Soft) if by.concerns(state)) {
                continue;
            }
            let told = event.returned.is_some_and(|at| at <= from && self.told(at));
            must |= other > number && told;
            may |= other > number || event.returned.is_none_or(|returned| returned > begun);
        }
        (must, may)
    }

    /// Returns whether a purge may have concerned any of `states` of a key, the last of which is
    /// `events[number]`.
    fn may_be_swept(&self, events: &[Event], number: usize, states: &[Option<State>]) -> bool {
        let begun = events[number].begun;
        events.iter().enumerate().any(|(other, event)| {
            let concerned = event.change.sweep().is_some_and(|(sweep, _)| {
                states.iter().flatten().any(|state| sweep.concerns(*state))
            });
            let late = other > number || event.returned.is_none_or(|returned| returned > begun);
            concerned && late
        })
    }

    /// Returns whether `state` may be found where `permitted` states may be. After damage or
    /// errors, a record of newer metadata may be unreadable, so that older metadata are found.
    pub fn tolerates(&self, permitted: &BTreeSet<State>, state: State) -> bool {
        let older = |newer: &State| newer.version == state.version && state.meta < newer.meta;
        let damaged = self.guarantee() > SurvivalGuarantee::Durable;
        permitted.contains(&state) || damaged && permitted.iter().any(older)
    }

    /// Returns whether a change that had reached the device by `at` survives `end`.
    fn outlives(&self, at: Stamp, end: End) -> bool {
        let told = !end.given_up || self.trouble.is_none_or(|(first, _)| at < first);
        told && self.told(at) && (!end.power || self.flushes.iter().any(|(begin, _)| *begin >= at))
    }

    /// Returns the first moment at which everything that returned at `at` was certainly on the
    /// device.
    fn settled_after(&self, at: Stamp) -> Option<Stamp> {
        let settled = self.settled.iter().find(|(after, upto)| *after < at && at <= *upto);
        settled.map(|(_, upto)| *upto)
    }

    /// Removes from `permitted` the states that an acknowledged purge removes. `latest` is the
    /// present state, if it is certain. The states that it replaced do not come back, unless it was
    /// lost by damage.
    fn sweep_away(
        &self,
        permitted: &mut BTreeSet<State>,
        sweep: Sweep,
        mode: Mode,
        latest: Option<State>,
    ) {
        let sound = self.guarantee() == SurvivalGuarantee::Durable;
        let present = latest.filter(|state| sound && sweep.concerns(*state));
        match (mode, present) {
            (Mode::Hard, Some(_)) => permitted.clear(),
            (Mode::Hard, None) => permitted.retain(|state| !sweep.concerns(*state)),
            (Mode::Soft, Some(present)) => {
                permitted.retain(|state| *state == present || sweep.concerns(*state));
            }
            (Mode::Soft, None) => {}
        }
    }

    /// Returns the states that may be found under `key` after `end`; there may also be none.
    pub fn permitted(&self, key: u32, end: End) -> BTreeSet<State> {
        let mut permitted = BTreeSet::new();
        let events = self.events.get(&key).map(Vec::as_slice).unwrap_or_default();
        let mut last: Option<&Event> = None;
        for event in events {
            if event.refused && !end.given_up {
                continue;
            }
            if !event.refused && event.change.sweep().is_none() {
                last = Some(event);
            }
            let certain = event.returned.is_some_and(|returned| self.outlives(returned, end));
            match event.change {
                Change::Purged if event.returned.is_some_and(|at| self.told(at)) => {
                    permitted.clear();
                }
                Change::Swept(sweep, mode) => {
                    if event.returned.is_some_and(|at| self.told(at)) {
                        let last =
                            last.filter(|last| last.returned.is_some_and(|at| at < event.begun));
                        let latest = last.and_then(|last| last.change.state());
                        self.sweep_away(&mut permitted, sweep, mode, latest);
                    }
                }
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

    /// Returns the state that must be found under `key` after `end`, if nothing was evicted.
    pub fn required(&self, key: u32, end: End) -> Option<State> {
        let events = self.events.get(&key)?;
        let (number, event) = events
            .iter()
            .enumerate()
            .rfind(|(_, event)| !event.refused && event.change.sweep().is_none())?;
        let returned = event.returned?;
        // Metadata are lost with the body that they belong to.
        let body = events[..=number]
            .iter()
            .rfind(|event| !event.refused && matches!(event.change, Change::Stored(_)))?;
        if body.returned? <= self.floor {
            return None;
        }
        let states = [event.change.state(), body.change.state()];
        if self.may_be_swept(events, number, &states) {
            return None;
        }
        let settled = self.settled_after(returned)?;
        event.change.state().filter(|_| self.outlives(settled, end))
    }

    /// Describes all that is known of a key and the device, for a finding.
    pub fn explain(&self, key: u32) -> String {
        let events = self.events.get(&key).map(Vec::as_slice).unwrap_or_default();
        let mut text = String::new();
        for Event { change, begun, returned, refused } in events {
            text += &format!(
                "\n    {change:?}, begun {begun}, returned {returned:?}, refused {refused}"
            );
        }
        let flushes = &self.flushes[self.flushes.len().saturating_sub(3)..];
        let settled = &self.settled[self.settled.len().saturating_sub(3)..];
        text + &format!(
            "\n    settled {settled:?}, flushed {flushes:?}, trouble {:?}, astray {:?}, floor {}",
            self.trouble, self.astray, self.floor
        )
    }

    /// Returns the history with which the next session starts: each key is in one of the permitted
    /// states or absent; each required state is still there.
    pub fn after(&self, end: End) -> History {
        let mut after = History {
            version: self.version,
            now: self.now,
            guarantee: self.guarantee,
            ..History::default()
        };
        for key in self.keys() {
            after.events.entry(key).or_default();
            match self.required(key, end) {
                Some(state) => {
                    let begun = after.store(state);
                    after.returned(begun);
                }
                None => {
                    let states = self.permitted(key, end);
                    states.iter().for_each(|state| _ = after.store(*state));
                    states.into_iter().for_each(|state| self.keep_mark(&mut after, state));
                }
            }
        }
        after.settle();
        let flush = after.stamp();
        after.flushed(flush);
        after.start = after.stamp();
        after
    }

    /// Carries over to the next session whether `state` is outdated.
    fn keep_mark(&self, after: &mut History, state: State) {
        let (must, may) = self.outdated(state, Stamp::MAX);
        if may {
            let mark = after.begin(state.key, Change::Swept(Sweep::Only(state), Mode::Soft));
            if must {
                after.returned(mark);
            }
        }
    }

    /// Records that `key` was found in this state, or absent; earlier states are no longer
    /// possible.
    pub fn found(&mut self, key: u32, state: Option<State>) {
        let marks = state.map(|state| (state, self.outdated(state, Stamp::MAX)));
        let begun = match state {
            Some(state) => self.store(state),
            None => self.purge(key),
        };
        self.returned(begun);
        if let Some((state, (must, true))) = marks {
            let mark = self.begin(key, Change::Swept(Sweep::Only(state), Mode::Soft));
            if must {
                self.returned(mark);
            }
        }
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
        assert_eq!(history.permitted(1, End::KILL), BTreeSet::from([second]));
        assert_eq!(history.permitted(1, End::POWER), BTreeSet::from([first, second]));
        assert_eq!(history.required(1, End::KILL), None);
        history.settle();
        assert_eq!(history.required(1, End::KILL), Some(second));
        assert_eq!(history.required(1, End::POWER), None);
        let begin = history.stamp();
        history.flushed(begin);
        assert_eq!(history.required(1, End::POWER), Some(second));
        assert_eq!(history.permitted(1, End::POWER), BTreeSet::from([second]));
        let purge = history.purge(1);
        history.returned(purge);
        assert_eq!(history.permitted(1, End::POWER), BTreeSet::new());
        let third = stored(&mut history);
        let after = history.after(End::POWER);
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
