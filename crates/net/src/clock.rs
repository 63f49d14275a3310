//! Real time for the store, through tokio's timer.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use device::{Clock, Nanos};

/// The clock of the product. All clones, on all threads, count from the same start.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioClock;

fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

impl Clock for TokioClock {
    fn now(&self) -> Nanos {
        // Nanoseconds of 64 bits last for 584 years.
        start().elapsed().as_nanos() as Nanos
    }

    fn unix_seconds(&self) -> u64 {
        // A clock set before 1970 counts as 1970.
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    async fn sleep_until(&self, deadline: Nanos) {
        let deadline = start() + Duration::from_nanos(deadline);
        tokio::time::sleep_until(deadline.into()).await;
    }
}
