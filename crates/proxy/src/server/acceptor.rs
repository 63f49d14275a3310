//! The listeners of one worker: a task accepts from each. A reload may add and remove listeners.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, spawn_local};

use crate::downstream::handshake::ListenerProtocol;
use crate::downstream::listener;
use crate::downstream::listener::{Accepted, Listener};
use crate::downstream::listener_changes::ListenerReceiver;
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

impl Acceptor {
    pub fn new(
        worker: Rc<Worker>,
        peers: Rc<[mpsc::UnboundedSender<Accepted>]>,
        control: Control,
    ) -> Acceptor {
        Acceptor { worker, peers, control, running: Vec::new() }
    }

    /// Accepts from these listeners, and no longer from others. Connections accepted so far stay.
    ///
    /// # Errors
    ///
    /// Fails if the runtime rejects a socket; the other listeners are served.
    pub fn set(&mut self, listeners: Vec<Listener>) -> io::Result<()> {
        let is_same =
            |one: &Accepting, other: &Listener| Arc::ptr_eq(&one.protocol, &other.protocol);
        self.running.retain(|one| {
            let stays = listeners.iter().any(|listener| is_same(one, listener));
            one.stop.send_replace(!stays);
            stays
        });
        let mut outcome = Ok(());
        for listener in listeners {
            if !self.running.iter().any(|one| is_same(one, &listener)) {
                outcome = outcome.and(self.start(listener));
            }
        }
        outcome
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
            let listeners = tokio::select! {
                biased;
                _ = stopped.wait_for(|&stopped| stopped) => break,
                Some(listeners) = changes.recv() => listeners,
            };
            // A new listener may need the options that came with it.
            self.worker.connections.set_options(self.control.options());
            if let Err(error) = self.set(listeners) {
                log::error!("worker {}: cannot accept connections: {error}", self.worker.index);
            }
        }
        for one in &self.running {
            one.stop.send_replace(true);
        }
        for one in self.running {
            // Only a panic ends it early, and a panic is logged.
            let _ = one.task.await;
        }
    }
}
