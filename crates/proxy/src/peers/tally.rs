//! Results of the questions to one other node.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counts, shared by all views of the node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    hits: AtomicU64,
    fetched: AtomicU64,
    absent: AtomicU64,
    failed: AtomicU64,
}

/// The result of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// It had the document stored.
    Hit,
    /// It fetched the document.
    Fetched,
    /// It had no answer.
    Absent,
    /// It could not be reached, or did not answer in time.
    Failed,
}

impl Told {
    pub const ALL: [(Told, &'static str); 4] = [
        (Told::Hit, "hit"),
        (Told::Fetched, "fetched"),
        (Told::Absent, "absent"),
        (Told::Failed, "failed"),
    ];
}

impl Tally {
    /// Counts one question.
    pub fn count(&self, told: Told) {
        self.of(told).fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many had this result.
    pub fn total(&self, told: Told) -> u64 {
        self.of(told).load(Ordering::Relaxed)
    }

    fn of(&self, told: Told) -> &AtomicU64 {
        let Counts { hits, fetched, absent, failed } = &*self.0;
        match told {
            Told::Hit => hits,
            Told::Fetched => fetched,
            Told::Absent => absent,
            Told::Failed => failed,
        }
    }
}
