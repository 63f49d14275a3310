//! What was true at which time, as far as those who changed it can tell: a change happens at some
//! moment between the beginning and the end of the calls that make it.

use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::body;

/// Ended states are kept for so long: longer than any request takes.
const KEPT: Duration = Duration::from_secs(120);

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Absent,
    /// A file that the server may not read.
    Unreadable,
    /// The beginning of the stream of a seed, of one of these lengths.
    Bytes {
        seed: u64,
        length: RangeInclusive<u64>,
    },
}

impl Content {
    /// A file at rest.
    pub fn bytes(seed: u64, length: u64) -> Content {
        Content::Bytes { seed, length: length..=length }
    }

    /// A file that grows to this length.
    pub fn growing(seed: u64, length: RangeInclusive<u64>) -> Content {
        Content::Bytes { seed, length }
    }

    /// Whether this may be that file at rest.
    pub fn may_be(&self, file: &Content) -> bool {
        match (self, file) {
            (Content::Bytes { seed, length }, Content::Bytes { seed: of, length: at }) => {
                length.contains(at.end()) && (seed == of || *at.end() == 0)
            }
            _ => self == file,
        }
    }

    /// Whether these bytes are a part from `offset` on of all, `total` in number.
    pub fn holds(&self, total: u64, offset: u64, bytes: &[u8]) -> bool {
        let Content::Bytes { seed, length } = self else { return false };
        length.contains(&total) && body::difference(*seed, offset, bytes).is_none()
    }
}

#[derive(Debug)]
struct State<T> {
    value: T,
    /// It was not so before.
    since: Instant,
    /// It was not so afterwards.
    until: Option<Instant>,
}

/// The states of something, the last one as it is now.
#[derive(Debug)]
pub struct History<T>(Mutex<Vec<State<T>>>);

impl<T: Clone + PartialEq> History<T> {
    /// Begins with a state.
    pub fn new(value: T) -> History<T> {
        History(Mutex::new(vec![State { value, since: Instant::now(), until: None }]))
    }

    /// The state after all changes that were begun.
    pub fn last(&self) -> T {
        self.states().last().expect("there is always one").value.clone()
    }

    /// Notes that a change through these states begins.
    pub fn begin(&self, values: impl IntoIterator<Item = T>) {
        let since = Instant::now();
        let states = values.into_iter().map(|value| State { value, since, until: None });
        self.states().extend(states);
    }

    /// Notes that the change is done: only the last state is left.
    pub fn end(&self) {
        let now = Instant::now();
        let mut states = self.states();
        let last = states.len() - 1;
        states[..last].iter_mut().for_each(|state| _ = state.until.get_or_insert(now));
        states.retain(|state| state.until.is_none_or(|until| now - until < KEPT));
    }

    /// Whatever may have been true at some moment of this time.
    pub fn possible(&self, from: Instant, to: Instant) -> Vec<T> {
        let states = self.states();
        let is_within =
            |state: &&State<T>| state.since <= to && state.until.is_none_or(|until| until >= from);
        states.iter().filter(is_within).map(|state| state.value.clone()).collect()
    }

    fn states(&self) -> MutexGuard<'_, Vec<State<T>>> {
        // A client that panics has read only.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
