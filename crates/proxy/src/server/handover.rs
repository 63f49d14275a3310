//! Releases the store while the process still serves, because another process takes over and waits
//! for it.
//!
//! Leases mark the requests that need the store, so tunnels, responses that are only passed through
//! and idle connections do not hold it. There are two kinds:
//!
//! * *Brief* leases delay the release by at most [`GRACE`]; their holders can continue without the
//!   store.
//! * *Firm* leases delay it until the drain ends. They are held by a response that is read from the
//!   store and that no origin could complete, and by an unsafe request, whose response may
//!   invalidate stored objects.
//!
//! After the grace period fills stop storing, and their clients still receive all bytes. A client
//! that lags behind its fill's window holds a firm lease.
//!
//! Guarantee: once the store has been released, this process neither reads nor writes it, and it
//! sends no response to an unsafe request whose effect on the store would be lost.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::object::store::Store;
use crate::server::worker::Worker;

/// Time for brief leases to end. Shorter than the time that the next process lets its clients wait
/// for the store.
const GRACE: Duration = Duration::from_secs(1);

/// Interval between two checks.
const LOOK: Duration = Duration::from_millis(10);

/// Waits until this worker does not need the store or `drained` is set, then takes the store from
/// the worker.
pub(crate) async fn release(worker: &Worker, drained: &Cell<bool>) -> Option<Store> {
    let leases = &worker.services.leases;
    let (clock, begun) = (worker.services.clock, worker.services.clock.instant());
    let mut tick = interval(LOOK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let in_grace = clock.since(begun) < GRACE;
        if !in_grace && !leases.is_ending() {
            leases.end_writing();
            worker.services.shared.fills.wake();
        }
        let waits = leases.are_firm()
            || in_grace && (leases.are_brief() || worker.connections.expects_request());
        if !waits || drained.get() {
            break;
        }
    }
    let store = worker.services.store()?;
    leases.release();
    worker.services.set_store(None);
    Some(store)
}
