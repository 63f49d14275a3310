//! Control over running workers: a switch from serving to draining, and the options in force. Cheap
//! to clone; usable from any thread and from signal handling code.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, watch};

use crate::downstream::listener::Listener;
use crate::options::Options;

/// Handle on all workers of one [`crate::run()`].
#[derive(Clone)]
pub struct Control {
    state: watch::Sender<State>,
    /// Carries changed listeners to each worker. No handle stays in a channel, so that a port is
    /// closed once the workers have closed it.
    listeners: Arc<Mutex<Vec<ListenerSender>>>,
}

type ListenerSender = mpsc::UnboundedSender<Vec<Listener>>;

#[derive(Clone)]
pub(crate) struct State {
    pub options: Arc<Options>,
    pub draining: bool,
    pub handed_over: bool,
}

impl Control {
    /// Creates a control with the first options, not draining.
    pub fn new(options: Options) -> Control {
        let state = State { options: Arc::new(options), draining: false, handed_over: false };
        Control { state: watch::Sender::new(state), listeners: Arc::default() }
    }

    /// Stops accepting and begins to drain: running responses get [`ClientLimits::drain`] to
    /// finish, then they and all tunnels are cut. [`crate::run()`] returns afterwards.
    ///
    /// [`ClientLimits::drain`]: crate::client::limits::ClientLimits::drain
    pub fn drain(&self) {
        self.state.send_modify(|state| state.draining = true);
    }

    /// Drains in favour of another process. That process already has the listening sockets: it
    /// accepts new clients and takes over the admin interface.
    pub fn hand_over(&self) {
        self.state.send_modify(|state| {
            state.draining = true;
            state.handed_over = true;
        });
    }

    /// Cancels a drain after [`crate::run()`] has returned. It may then be called again.
    pub fn resume(&self) {
        self.state.send_modify(|state| {
            state.draining = false;
            state.handed_over = false;
        });
    }

    pub(crate) fn hands_over(&self) -> bool {
        self.state.borrow().handed_over
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

    /// Prepares that clients are accepted from these listeners only. Handles of listeners served so
    /// far keep them.
    ///
    /// # Errors
    ///
    /// Fails if clients are not served yet, or if the process has no free descriptor.
    pub fn change_listeners(&self, listeners: &[Listener]) -> io::Result<ListenerChange> {
        let senders = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        if senders.iter().all(ListenerSender::is_closed) {
            return Err(io::Error::other("clients are not served yet; try again"));
        }
        let set = |sender: &ListenerSender| {
            let all = listeners.iter().map(|listener| {
                listener.socket.set_nonblocking()?;
                listener.try_clone()
            });
            Ok((sender.clone(), all.collect::<io::Result<Vec<_>>>()?))
        };
        senders.iter().map(set).collect::<io::Result<Vec<_>>>().map(ListenerChange)
    }

    /// Returns what each of `workers` workers receives the changed listeners from.
    pub(crate) fn listener_changes(
        &self,
        workers: usize,
    ) -> Vec<mpsc::UnboundedReceiver<Vec<Listener>>> {
        let (senders, receivers) = (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
        *self.listeners.lock().unwrap_or_else(PoisonError::into_inner) = senders;
        receivers
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }
}

/// A change of the listeners that cannot fail any more.
#[must_use]
pub struct ListenerChange(Vec<(ListenerSender, Vec<Listener>)>);

impl ListenerChange {
    /// Accepts clients from the new listeners, under the options in force, and closes the others.
    pub fn apply(self) {
        for (sender, listeners) in self.0 {
            // A worker that has ended accepts nothing.
            let _ = sender.send(listeners);
        }
    }
}
