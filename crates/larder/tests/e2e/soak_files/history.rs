//! Which states were possible at which time, as far as the code that changed them can tell: a
//! change happens at some moment between the start and the end of the calls that make it.

use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use testkit::body;

/// Time for which ended states are kept: longer than any request takes.
const KEPT: Duration = Duration::from_secs(120);

/// The content at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Absent,
    /// A file that the server may not read.
    Unreadable,
    /// The beginning of the stream of a seed, with one of these lengths.
    Bytes {
        seed: u64,
        length: RangeInclusive<u64>,
    },
}

impl Content {
    /// Returns a file at rest.
    pub fn bytes(seed: u64, length: u64) -> Content {
        Content::Bytes { seed, length: length..=length }
    }

    /// Returns a file that grows to this length.
    pub fn growing(seed: u64, length: RangeInclusive<u64>) -> Content {
        Content::Bytes { seed, length }
    }

    /// Returns whether this may be that file at rest.
    pub fn may_be(&self, file: &Content) -> bool {
        match (self, file) {
            (Content::Bytes { seed, length }, Content::Bytes { seed: of, length: at }) => {
                length.contains(at.end()) && (seed == of || *at.end() == 0)
            }
            _ => self == file,
        }
    }

    /// Returns whether these bytes are the part from `offset` on of a content of `total` bytes.
    pub fn holds(&self, total: u64, offset: u64, bytes: &[u8]) -> bool {
        let Content::Bytes { seed, length } = self else { return false };
        length.contains(&total) && body::difference(*seed, offset, bytes).is_none()
    }
}

#[derive(Debug)]
struct State<T> {
    value: T,
    /// Earliest time at which it may have begun.
    since: Instant,
    /// Latest time at which it may have ended.
    until: Option<Instant>,
}

/// The states of a thing, with the current one last.
#[derive(Debug)]
pub struct History<T>(Mutex<Vec<State<T>>>);

impl<T: Clone + PartialEq> History<T> {
    /// Returns a history with one state.
    pub fn new(value: T) -> History<T> {
        History(Mutex::new(vec![State { value, since: Instant::now(), until: None }]))
    }

    /// Returns the state after all changes that were begun.
    pub fn last(&self) -> T {
        self.states().last().expect("there is always one").value.clone()
    }

    /// Records that a change through these states begins.
    pub fn begin(&self, values: impl IntoIterator<Item = T>) {
        let since = Instant::now();
        let states = values.into_iter().map(|value| State { value, since, until: None });
        self.states().extend(states);
    }

    /// Records that the change is done: only the last state remains.
    pub fn end(&self) {
        let now = Instant::now();
        let mut states = self.states();
        let last = states.len() - 1;
        states[..last].iter_mut().for_each(|state| _ = state.until.get_or_insert(now));
        states.retain(|state| state.until.is_none_or(|until| now - until < KEPT));
    }

    /// Returns all states that may have held at some moment of this time.
    pub fn possible(&self, from: Instant, to: Instant) -> Vec<T> {
        let states = self.states();
        let is_within =
            |state: &&State<T>| state.since <= to && state.until.is_none_or(|until| until >= from);
        states.iter().filter(is_within).map(|state| state.value.clone()).collect()
    }

    fn states(&self) -> MutexGuard<'_, Vec<State<T>>> {
        // A panicking client has only read.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
