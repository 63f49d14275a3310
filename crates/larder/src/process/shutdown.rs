//! The end of the process in order.

use std::sync::Arc;
use std::thread;

use cli::units;
use proxy::Control;

use crate::process::upgrade::Upgrader;

/// Begins the end, for signals and for the admin interface.
#[derive(Clone)]
pub struct Shutdown {
    pub control: Control,
    pub upgrader: Arc<Upgrader>,
}

impl Shutdown {
    /// Announces the end, waits for `drain-delay`, and lets running requests finish. If it had been
    /// announced before, the wait is over. `asked_by` names who wants it.
    pub fn begin(&self, asked_by: &str) {
        let client = self.control.options().client.clone();
        let (delay, drain) = (client.drain_delay, units::duration(client.drain));
        if self.control.leave() && !delay.is_zero() {
            let delay_text = units::duration(delay);
            log::info!(
                "{asked_by}: /readyz says that this process drains; stopping in {delay_text}"
            );
            thread::sleep(delay);
        }
        if !self.control.draining() {
            log::info!(
                "{asked_by}: stopping; running requests have {drain} to finish; a second signal \
                 stops at once"
            );
        }
        self.control.drain();
        self.upgrader.close();
    }

    /// Ends without waiting for clients.
    pub fn cut(&self, asked_by: &str) {
        log::info!("{asked_by}: stopping; running requests are cut");
        self.control.leave();
        self.control.cut();
        self.upgrader.close();
    }
}
