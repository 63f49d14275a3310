//! Changes of the listeners while clients are served.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::downstream::listener::Listener;

/// Longest wait for a worker to close its handles of removed listeners.
const CLOSING: Duration = Duration::from_secs(1);

/// The listeners that a worker serves from now on.
pub(crate) struct NewListeners {
    pub listeners: Vec<Listener>,
    /// Dropped when the worker has closed its handles of the others.
    pub closed: std::sync::mpsc::Sender<()>,
}

type Sender = mpsc::UnboundedSender<NewListeners>;
pub(crate) type ListenerReceiver = mpsc::UnboundedReceiver<NewListeners>;

/// Handle on the listeners of all workers of one [`crate::run()`]. Cheap to clone.
///
/// It holds no listener itself, so that a port is closed once the workers have closed it.
#[derive(Clone, Default)]
pub struct ListenerChanges(Arc<Mutex<Vec<Sender>>>);

impl ListenerChanges {
    /// Prepares that clients are accepted from these listeners only. Handles of listeners served so
    /// far keep them.
    ///
    /// # Errors
    ///
    /// Fails if clients are not served yet, or if the process has no free descriptor.
    pub fn prepare(&self, listeners: &[Listener]) -> io::Result<ListenerChange> {
        let senders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if senders.iter().all(Sender::is_closed) {
            return Err(io::Error::other("clients are not served yet; try again"));
        }
        let set = |sender: &Sender| {
            let all = listeners.iter().map(|listener| {
                listener.socket.set_nonblocking()?;
                listener.try_clone()
            });
            Ok((sender.clone(), all.collect::<io::Result<Vec<_>>>()?))
        };
        senders.iter().map(set).collect::<io::Result<Vec<_>>>().map(ListenerChange)
    }

    /// Returns what each of `workers` workers receives the changed listeners from.
    pub(crate) fn receivers(&self, workers: usize) -> Vec<ListenerReceiver> {
        let (senders, receivers) = (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = senders;
        receivers
    }
}

/// A change of the listeners that cannot fail any more.
#[must_use]
pub struct ListenerChange(Vec<(Sender, Vec<Listener>)>);

impl ListenerChange {
    /// Accepts clients from the new listeners, under the options in force, and closes the others.
    /// Blocks until they are closed, so that their addresses can be used again.
    pub fn apply(self) {
        let (closed, all_closed) = std::sync::mpsc::channel();
        for (sender, listeners) in self.0 {
            // A worker that has ended accepts nothing.
            let _ = sender.send(NewListeners { listeners, closed: closed.clone() });
        }
        drop(closed);
        // Nothing is sent: the wait ends when the last worker drops its end.
        let _ = all_closed.recv_timeout(CLOSING);
    }
}
