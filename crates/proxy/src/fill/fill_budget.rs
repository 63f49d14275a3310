//! The windows of all running fills together: bodies in memory on their way to clients.
//!
//! It exists so that many fetches with slow clients do not take more memory than was granted. Past
//! half of the limit a window keeps only what the store cannot give back yet; past the limit
//! requests that would begin a further fetch for the cache bypass it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::observe::metrics::{Samples, Source};

/// Bytes in windows, shared by all workers.
pub(crate) struct FillBudget {
    bytes: AtomicU64,
    limit: u64,
}

impl FillBudget {
    /// Makes a budget of about `limit` bytes.
    pub fn new(limit: u64) -> FillBudget {
        FillBudget { bytes: AtomicU64::new(0), limit }
    }

    /// Returns whether the limit is reached: no further fetch should begin to fill the cache.
    pub fn full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.limit
    }

    /// Returns how many bytes one window may keep although the store could give them back: `most`,
    /// or `least` when room is scarce.
    pub fn keep(&self, least: u64, most: u64) -> u64 {
        let crowded = self.bytes.load(Ordering::Relaxed) >= self.limit / 2;
        if crowded { least } else { most.max(least) }
    }

    /// Counts bytes that entered a window.
    pub fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that left a window.
    pub fn subtract(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The metrics of the windows.
pub(crate) struct WindowFigures(pub Arc<FillBudget>);

impl Source for WindowFigures {
    fn samples(&self, out: &mut Samples) {
        let bytes = self.0.bytes.load(Ordering::Relaxed);
        let help = "Bytes of bodies in the windows of running fetches, part of `memory`.";
        out.gauge("larder_fill_window_bytes", help, &[], bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_shrink_at_half_of_the_limit_and_none_begins_past_it() {
        let fill_budget = FillBudget::new(1000);
        assert_eq!(fill_budget.keep(10, 100), 100);
        fill_budget.add(500);
        assert_eq!(fill_budget.keep(10, 100), 10);
        assert!(!fill_budget.full());
        fill_budget.add(500);
        assert!(fill_budget.full());
        fill_budget.subtract(501);
        assert_eq!(fill_budget.keep(10, 100), 100);
    }
}
