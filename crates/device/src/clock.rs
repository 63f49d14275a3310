//! Time as the engine sees it: it comes from outside, so that a simulator can own it.

use std::future::Future;

/// Nanoseconds of a monotonic clock, from an arbitrary start.
pub type Nanos = u64;

/// A source of time. Monotonic time orders and bounds waits; wall time dates things on disk.
pub trait Clock: Clone + 'static {
    /// Monotonic nanoseconds.
    fn now(&self) -> Nanos;

    /// Seconds since 1970-01-01 UTC, as the system believes.
    fn unix_seconds(&self) -> u64;

    /// Completes when [`Clock::now`] has reached `deadline`.
    fn sleep_until(&self, deadline: Nanos) -> impl Future<Output = ()>;
}
