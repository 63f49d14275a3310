//! The listeners of one worker: a task accepts from each. A reload may add and remove listeners.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, spawn_local};

use crate::downstream::handshake::ListenerProtocol;
use crate::downstream::listener;
use crate::downstream::listener::{Accepted, Listener};
use crate::downstream::listener_changes::{ListenerReceiver, NewListeners};
use crate::options::control::Control;
use crate::server::worker::Worker;

/// Accepts clients at a set of listeners, for its worker and the peers of that.
pub(crate) struct Acceptor {
    worker: Rc<Worker>,
    peers: Rc<[mpsc::UnboundedSender<Accepted>]>,
    control: Control,
    running: Vec<Accepting>,
}

/// One listener while clients are accepted from it.
struct Accepting {
    /// All handles of a listener share it, so that it identifies the listener.
    protocol: Arc<ListenerProtocol>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Accepting {
    fn is_of(&self, listener: &Listener) -> bool {
        Arc::ptr_eq(&self.protocol, &listener.protocol)
    }
}

impl Acceptor {
    pub fn new(
        worker: Rc<Worker>,
        peers: Rc<[mpsc::UnboundedSender<Accepted>]>,
        control: Control,
    ) -> Acceptor {
        Acceptor { worker, peers, control, running: Vec::new() }
    }

    /// Accepts from these listeners as well.
    ///
    /// # Errors
    ///
    /// Fails if the runtime rejects a socket; the other listeners are served.
    pub fn add(&mut self, listeners: Vec<Listener>) -> io::Result<()> {
        let mut outcome = Ok(());
        for listener in listeners {
            if !self.running.iter().any(|one| one.is_of(&listener)) {
                outcome = outcome.and(self.start(listener));
            }
        }
        outcome
    }

    /// Stops accepting from other listeners. Returns their tasks, which end. Connections accepted
    /// so far stay.
    fn keep(&mut self, listeners: &[Listener]) -> Vec<Accepting> {
        let is_gone = |one: &mut Accepting| !listeners.iter().any(|listener| one.is_of(listener));
        let gone: Vec<Accepting> = self.running.extract_if(.., is_gone).collect();
        for one in &gone {
            one.stop.send_replace(true);
        }
        gone
    }

    fn start(&mut self, listener: Listener) -> io::Result<()> {
        let protocol = listener.protocol.clone();
        let (stop, stopped) = watch::channel(false);
        let (connections, listener) = (self.worker.connections.clone(), listener.into_tokio()?);
        let accept = listener::accept(connections, listener, self.peers.clone(), stopped);
        self.running.push(Accepting { protocol, stop, task: spawn_local(accept) });
        Ok(())
    }

    /// Applies changes until `stopped`, then stops accepting. Returns when no task accepts.
    pub async fn follow(
        mut self,
        mut changes: ListenerReceiver,
        mut stopped: watch::Receiver<bool>,
    ) {
        loop {
            let NewListeners { listeners, closed } = tokio::select! {
                biased;
                _ = stopped.wait_for(|&stopped| stopped) => break,
                Some(new) = changes.recv() => new,
            };
            // A new listener may need the options that came with it.
            self.worker.connections.set_options(self.control.options());
            let gone = self.keep(&listeners);
            if let Err(error) = self.add(listeners) {
                log::error!("worker {}: cannot accept connections: {error}", self.worker.index);
            }
            end(gone).await;
            drop(closed);
        }
        let all = self.keep(&[]);
        end(all).await;
    }
}

/// Waits for the tasks of listeners that were told to stop.
async fn end(all: Vec<Accepting>) {
    for one in all {
        // Only a panic ends it early, and a panic is logged.
        let _ = one.task.await;
    }
}
