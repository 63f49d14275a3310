//! The accuracy with which this machine wakes a waiting thread, which limits that of an open loop's
//! schedule.

use std::time::{Duration, Instant};

use rustix::thread::set_current_timer_slack;
use serde::Serialize;

use super::latencies::Latencies;

/// How much later than requested waits end, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TimerAccuracy {
    /// The median.
    pub median_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The maximum.
    pub max_us: f64,
}

/// Number of measured waits, and their requested length.
const WAITS: u32 = 200;
const WAIT: Duration = Duration::from_micros(500);

/// Measures the accuracy with the same wait that the generator uses. Takes a tenth of a second.
pub fn measure_timer(mut wait: impl FnMut(Duration)) -> TimerAccuracy {
    // Requests the best accuracy; by default the kernel merges wake-ups within 50 µs.
    let _ = set_current_timer_slack(std::num::NonZeroU64::new(1));
    let mut late = Latencies::new();
    for _ in 0..WAITS {
        let begin = Instant::now();
        wait(WAIT);
        let over = begin.elapsed().saturating_sub(WAIT);
        late.record(over.as_nanos() as u64);
    }
    TimerAccuracy {
        median_us: late.percentile(50.0) / 1e3,
        p99_us: late.percentile(99.0) / 1e3,
        max_us: late.max() / 1e3,
    }
}

#[test]
fn a_wait_that_is_late_is_seen() {
    let late = measure_timer(|time| std::thread::sleep(time + Duration::from_millis(1)));
    assert!(late.median_us >= 990.0 && late.p99_us >= late.median_us, "{late:?}");
}
