//! How the process steers running workers: one switch from serving to draining, and the options
//! in force. Cheap to clone, usable from any thread and from signal handling code.

use std::sync::Arc;

use tokio::sync::watch;

use crate::options::Options;

/// A handle on all workers of one [`crate::run()`].
#[derive(Clone)]
pub struct Control {
    state: watch::Sender<State>,
}

#[derive(Clone)]
pub(crate) struct State {
    pub options: Arc<Options>,
    pub draining: bool,
}

impl Control {
    /// A control with its first options, not draining.
    pub fn new(options: Options) -> Control {
        let state = State { options: Arc::new(options), draining: false };
        Control { state: watch::Sender::new(state) }
    }

    /// Stops accepting and begins to drain: running answers get [`ClientLimits::drain`] to end,
    /// then they and all tunnels are cut. [`crate::run()`] returns afterwards.
    ///
    /// [`ClientLimits::drain`]: crate::options::ClientLimits::drain
    pub fn drain(&self) {
        self.state.send_modify(|state| state.draining = true);
    }

    /// True once [`Control::drain`] was called.
    pub fn draining(&self) -> bool {
        self.state.borrow().draining
    }

    /// The options in force.
    pub fn options(&self) -> Arc<Options> {
        self.state.borrow().options.clone()
    }

    /// Replaces the options: connections accepted and requests begun from now on use them.
    pub fn reload(&self, options: Options) {
        self.state.send_modify(|state| state.options = Arc::new(options));
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }
}
