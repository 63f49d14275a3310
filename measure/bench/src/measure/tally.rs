//! The requests of a phase: their number, their outcomes and their times.

use std::collections::BTreeMap;

use super::latencies::Latencies;
use crate::object::ServedFrom;

/// The source of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The cache: the origin was not asked.
    Hit,
    /// The cache, after the origin was asked to validate the response.
    Validated,
    /// The origin.
    Miss,
}

/// A request that got a response.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// The source of the response.
    pub outcome: Outcome,
    /// Bytes of its body.
    pub bytes: u64,
    /// Nanoseconds from when the request was due to the end of the response.
    pub since_due: u64,
    /// Nanoseconds from when the request was sent.
    pub since_sent: u64,
    /// True if an infinite cache would have had the response.
    pub is_repeat: bool,
    /// Where it came from, as far as its fields say.
    pub served_from: ServedFrom,
}

/// The counts and times of a phase.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Requests that came due.
    pub offered: u64,
    /// Number of hits.
    pub hits: u64,
    /// Number of [`Outcome::Validated`] responses.
    pub validated: u64,
    /// Number of [`Outcome::Miss`] responses.
    pub misses: u64,
    /// Bytes of all bodies.
    pub bytes: u64,
    /// Bytes of the bodies of hits.
    pub hit_bytes: u64,
    /// Responses that an infinite cache would have had.
    pub repeats: u64,
    /// Bytes of the bodies of these responses.
    pub repeat_bytes: u64,
    /// Responses by where they came from.
    pub served_from: BTreeMap<ServedFrom, u64>,
    /// Requests without a response or without a usable one, by kind of error.
    pub errors: BTreeMap<String, u64>,
    /// Requests that the client or the origin aborted on purpose.
    pub aborted: u64,
    /// Requests that were sent once more, because the server had closed the kept connection.
    pub asked_again: u64,
    /// Wrong responses.
    pub failures: u64,
    /// Requests that came due and were never sent.
    pub unsent: u64,
    /// Times from when requests were due: corrected for coordinated omission.
    pub corrected: Latencies,
    /// Times from when requests were sent.
    pub uncorrected: Latencies,
    /// Times of hits, from when they were sent.
    pub hit_time: Latencies,
    /// Times of misses, from when they were sent.
    pub miss_time: Latencies,
    /// Delays between due time and dispatch, which are the generator's own.
    pub lateness: Latencies,
}

impl Tally {
    /// Returns the number of responses of any kind.
    pub fn answered(&self) -> u64 {
        self.hits + self.validated + self.misses
    }

    /// Returns the number of failed requests.
    pub fn errors(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Counts a response.
    pub fn add(&mut self, answered: &Answered) {
        let Answered { outcome, bytes, since_due, since_sent, is_repeat, served_from } = *answered;
        *self.served_from.entry(served_from).or_default() += 1;
        self.bytes += bytes;
        match outcome {
            Outcome::Hit => {
                self.hits += 1;
                self.hit_bytes += bytes;
                self.hit_time.record(since_sent);
            }
            Outcome::Validated => self.validated += 1,
            Outcome::Miss => {
                self.misses += 1;
                self.miss_time.record(since_sent);
            }
        }
        if is_repeat {
            self.repeats += 1;
            self.repeat_bytes += bytes;
        }
        self.corrected.record(since_due);
        self.uncorrected.record(since_sent);
    }

    /// Counts a failed request.
    pub fn add_error(&mut self, kind: &str) {
        match self.errors.get_mut(kind) {
            Some(count) => *count += 1,
            None => {
                self.errors.insert(kind.to_owned(), 1);
            }
        }
    }

    /// Counts a request that timed out: it took at least as long as it waited.
    pub fn add_timeout(&mut self, kind: &str, since_due: u64, since_sent: u64) {
        self.add_error(kind);
        self.corrected.record(since_due);
        self.uncorrected.record(since_sent);
    }

    /// Counts a request that was never sent, `waited` nanoseconds after it was due: it took at
    /// least that long.
    pub fn add_unsent(&mut self, waited: u64) {
        self.unsent += 1;
        self.corrected.record(waited);
    }
}

#[test]
fn answers_count_where_they_belong() {
    let mut tally = Tally::default();
    let answered = Answered {
        outcome: Outcome::Hit,
        bytes: 10,
        since_due: 5_000,
        since_sent: 2_000,
        is_repeat: true,
        served_from: ServedFrom::Memory,
    };
    tally.add(&answered);
    tally.add(&Answered { outcome: Outcome::Miss, is_repeat: false, ..answered });
    tally.add(&Answered { outcome: Outcome::Validated, ..answered });
    tally.add_error("reset");
    tally.add_error("reset");
    tally.add_unsent(7_000_000);
    tally.add_timeout("timed out", 6_000, 3_000);
    assert_eq!((tally.answered(), tally.hits, tally.misses, tally.validated), (3, 1, 1, 1));
    assert_eq!((tally.bytes, tally.hit_bytes, tally.repeats, tally.repeat_bytes), (30, 10, 2, 20));
    assert_eq!((tally.errors(), tally.unsent), (3, 1));
    assert_eq!((tally.corrected.count(), tally.uncorrected.count()), (5, 4));
    assert!(tally.corrected.max() > 6.9e6 && tally.uncorrected.max() < 3.1e3);
}
