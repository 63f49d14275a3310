//! The requests of a phase: how many, what became of them, and how long they took.

use std::collections::BTreeMap;

use super::latencies::Latencies;

/// Where an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The cache: the origin was not asked.
    Hit,
    /// The cache, after the origin was asked whether it still holds.
    Validated,
    /// The origin.
    Miss,
}

/// An answered request.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// Where the answer came from.
    pub outcome: Outcome,
    /// Bytes of its body.
    pub bytes: u64,
    /// Nanoseconds from when the request was due to the end of the answer.
    pub since_due: u64,
    /// Nanoseconds from when it was sent.
    pub since_sent: u64,
    /// An infinite cache would have had it.
    pub is_repeat: bool,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Requests that came due.
    pub offered: u64,
    /// Answers by where they came from.
    pub hits: u64,
    /// See [`Outcome::Validated`].
    pub validated: u64,
    /// See [`Outcome::Miss`].
    pub misses: u64,
    /// Bytes of all bodies, and of those of hits.
    pub bytes: u64,
    /// See `bytes`.
    pub hit_bytes: u64,
    /// Answered requests that an infinite cache would have had, and the bytes of their bodies.
    pub repeats: u64,
    /// See `repeats`.
    pub repeat_bytes: u64,
    /// Requests that were not answered, or not with what was asked for, by kind.
    pub errors: BTreeMap<String, u64>,
    /// Requests that were given up on purpose, here or by the origin.
    pub aborted: u64,
    /// Answers that are lies.
    pub failures: u64,
    /// Requests that were due and never sent.
    pub unsent: u64,
    /// From when requests were due: corrected for coordinated omission.
    pub corrected: Latencies,
    /// From when they were sent.
    pub uncorrected: Latencies,
    /// Of hits, from when they were sent.
    pub hit_time: Latencies,
    /// Of misses, from when they were sent.
    pub miss_time: Latencies,
    /// How late requests were taken up that were due: the generator's own.
    pub lateness: Latencies,
}

impl Tally {
    /// Answers, whatever they are.
    pub fn answered(&self) -> u64 {
        self.hits + self.validated + self.misses
    }

    /// Requests without a right answer.
    pub fn errors(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Counts an answer.
    pub fn add(&mut self, answered: &Answered) {
        let Answered { outcome, bytes, since_due, since_sent, is_repeat } = *answered;
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

    /// Counts a request that went wrong.
    pub fn add_error(&mut self, kind: &str) {
        match self.errors.get_mut(kind) {
            Some(count) => *count += 1,
            None => {
                self.errors.insert(kind.to_owned(), 1);
            }
        }
    }

    /// Counts a request that was never sent, `waited` nanoseconds after it was due: it took at
    /// least as long.
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
    };
    tally.add(&answered);
    tally.add(&Answered { outcome: Outcome::Miss, is_repeat: false, ..answered });
    tally.add(&Answered { outcome: Outcome::Validated, ..answered });
    tally.add_error("reset");
    tally.add_error("reset");
    tally.add_unsent(7_000_000);
    assert_eq!((tally.answered(), tally.hits, tally.misses, tally.validated), (3, 1, 1, 1));
    assert_eq!((tally.bytes, tally.hit_bytes, tally.repeats, tally.repeat_bytes), (30, 10, 2, 20));
    assert_eq!((tally.errors(), tally.unsent), (2, 1));
    assert_eq!((tally.corrected.count(), tally.uncorrected.count()), (4, 3));
    assert!(tally.corrected.max() > 6.9e6 && tally.uncorrected.max() < 3e3);
}
