//! The release of the store while the process still serves: another process takes over and waits
//! for it.
//!
//! Leases say which requests need the store, so that tunnels, answers that are only passed on and
//! connections that wait do not hold it. There are two kinds. *Brief* leases are waited for only
//! for [`GRACE`]: their holders can go on without the store. *Firm* ones are waited for until the
//! drain ends: an answer that is read from the store and that no origin could supply the rest of,
//! an unsafe request, whose answer may make invalid what is stored. After the grace fills stop
//! storing (their clients get all the same bytes); a client that lags behind its fill's window
//! holds a firm one.
//!
//! It promises: nothing is read or written here once the store has been released, and no answer to
//! an unsafe request is given here whose effect on the store would be lost.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::object::store::Store;
use crate::server::worker::Worker;

/// Time for the holders of brief leases to end. Less than the next process makes its clients wait
/// for the store.
const GRACE: Duration = Duration::from_secs(1);

/// Pause between two checks.
const LOOK: Duration = Duration::from_millis(10);

/// Waits until nothing on this worker needs the store, or until `drained`; takes it from the
/// worker.
pub(crate) async fn let_go(worker: &Worker, drained: &Cell<bool>) -> Option<Store> {
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
        let waits =
            leases.are_firm() || in_grace && (leases.are_brief() || worker.connections.has_fresh());
        if !waits || drained.get() {
            break;
        }
    }
    let store = worker.services.store()?;
    leases.release();
    worker.services.set_store(None);
    Some(store)
}
