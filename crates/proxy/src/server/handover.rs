//! Letting go of the store while the process still serves: another one takes over and waits for it.
//!
//! Who needs the store is known here, so that tunnels, answers that are only passed on and
//! connections that wait do not hold it. Needs come in two kinds. *Brief* ones are waited for only
//! for [`GRACE`]: they can go on without the store. *Firm* ones are waited for until the drain
//! ends: an answer that is read from the store and that no origin could go on with, an unsafe
//! request, whose answer may make invalid what is stored. After the grace fills stop storing (their
//! clients get all the same bytes); a client that lags behind its fill's window is a firm need.
//!
//! It promises: nothing is read or written here once the store has been let go of, and no answer to
//! an unsafe request is given here whose effect on the store would be lost.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::fill::store_lease::Stage;
use crate::object::stored_response::Store;
use crate::server::worker::Worker;

/// Time for what could go on without the store to end with it. Less than the next process makes its
/// clients wait for it.
const GRACE: Duration = Duration::from_secs(1);

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Waits until nobody on this worker needs the store, or until `drained`; takes it from the worker.
pub(crate) async fn let_go(worker: &Worker, drained: &Cell<bool>) -> Option<Store> {
    let leases = &worker.services.leases;
    let (clock, begun) = (worker.services.clock, worker.services.clock.instant());
    let mut tick = interval(LOOK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let in_grace = clock.since(begun) < GRACE;
        if !in_grace && !leases.is_ending() {
            leases.stage.set(Stage::Ending);
            worker.services.shared.fills.wake();
            leases.followed.borrow().iter().flatten().for_each(|fill| fill.wake());
        }
        let waits = leases.are_firm()
            || in_grace && (leases.brief.get() > 0 || worker.connections.has_fresh());
        if !waits || drained.get() {
            break;
        }
    }
    let store = worker.services.store()?;
    leases.stage.set(Stage::Released);
    worker.services.set_store(None);
    Some(store)
}
