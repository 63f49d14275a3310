//! Control over running workers: a switch from serving to draining, and the options in force. Cheap
//! to clone; usable from any thread and from signal handling code.

use std::sync::Arc;

use tokio::sync::watch;

use crate::options::Options;

/// Handle on all workers of one [`crate::run()`].
#[derive(Clone)]
pub struct Control {
    state: watch::Sender<State>,
}

#[derive(Clone)]
pub(crate) struct State {
    pub options: Arc<Options>,
    /// True from the announcement of the end on, when the proxy still accepts clients.
    pub leaving: bool,
    pub draining: bool,
    pub handed_over: bool,
    /// True if the drain does not wait for clients.
    pub is_cut: bool,
}

impl Control {
    /// Creates a control with the first options, not draining.
    pub fn new(options: Options) -> Control {
        let options = Arc::new(options);
        let state =
            State { options, leaving: false, draining: false, handed_over: false, is_cut: false };
        Control { state: watch::Sender::new(state) }
    }

    /// Makes `/readyz` say that the proxy drains, while it still accepts clients: balancers get
    /// time to send them elsewhere. Returns false if that had been said before.
    pub fn leave(&self) -> bool {
        let mut is_first = false;
        self.state.send_if_modified(|state| {
            is_first = !std::mem::replace(&mut state.leaving, true) && !state.draining;
            false
        });
        is_first
    }

    /// Stops accepting and begins to drain: running responses get [`ClientLimits::drain`] to
    /// finish, then they and all tunnels are cut. [`crate::run()`] returns afterwards.
    ///
    /// [`ClientLimits::drain`]: crate::client::limits::ClientLimits::drain
    pub fn drain(&self) {
        self.state.send_modify(|state| state.draining = true);
    }

    /// Drains without waiting for clients: running responses are cut.
    pub fn cut(&self) {
        self.state.send_modify(|state| {
            state.draining = true;
            state.is_cut = true;
        });
    }

    /// Drains in favour of another process. That process already has the listening sockets: it
    /// accepts new clients and takes over the admin interface.
    pub fn hand_over(&self) {
        self.state.send_modify(|state| {
            state.draining = true;
            state.handed_over = true;
        });
    }

    /// Stops to wait for clients in a drain in favour of another process, which has failed. Does
    /// nothing in any other state.
    pub fn cut_handover(&self) {
        self.state.send_if_modified(|state| {
            state.is_cut |= state.handed_over;
            state.handed_over
        });
    }

    /// Cancels a drain after [`crate::run()`] has returned. It may then be called again.
    pub fn resume(&self) {
        self.state.send_modify(|state| {
            state.draining = false;
            state.handed_over = false;
            state.is_cut = false;
        });
    }

    pub(crate) fn hands_over(&self) -> bool {
        self.state.borrow().handed_over
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.state.borrow().is_cut
    }

    /// Returns whether the end has been announced or begun.
    pub fn leaving(&self) -> bool {
        let state = self.state.borrow();
        state.leaving || state.draining
    }

    /// Returns whether the workers drain.
    pub fn draining(&self) -> bool {
        self.state.borrow().draining
    }

    /// Returns the options in force.
    pub fn options(&self) -> Arc<Options> {
        self.state.borrow().options.clone()
    }

    /// Replaces the options. They apply to connections accepted and requests begun from now on. The
    /// known health of servers is kept.
    pub fn reload(&self, mut options: Options) {
        options.adopt(&self.options());
        self.state.send_modify(|state| state.options = Arc::new(options));
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }
}
