//! The way in: starts the workers and waits until they have drained.

use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread;

use tokio::runtime;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{LocalSet, spawn_local};

use crate::account::Observer;
use crate::control::Control;
use crate::headers::Via;
use crate::listener::{self, Accepted};
use crate::worker::{Shared, Worker};

/// Everything a proxy needs to run.
pub struct Setup {
    /// Options and the switch to draining.
    pub control: Control,
    /// Sockets to accept clients from, already listening (so that an address in use, or a
    /// privileged port, is the caller's to report).
    pub listeners: Vec<TcpListener>,
    /// Worker threads, at least one.
    pub workers: usize,
    /// Told of every request.
    pub observer: Arc<dyn Observer>,
}

/// Serves until [`Control::drain`] was called and all workers have drained. Blocks its thread.
///
/// # Errors
///
/// When a thread, a runtime or a listener cannot be had; nothing is served then.
pub fn run(setup: Setup) -> io::Result<()> {
    let Setup { control, listeners, workers, observer } = setup;
    let workers = workers.max(1);
    let options = control.options();
    let shared = Arc::new(Shared {
        observer,
        room: Arc::new(Semaphore::new(options.client.connections.max(1))),
        loads: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
        via: Via::new(&options.pseudonym),
        pseudonym: options.pseudonym.clone(),
    });
    let (peers, inboxes): (Vec<_>, Vec<_>) =
        (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
    for listener in &listeners {
        listener.set_nonblocking(true)?;
    }
    let mut threads = Vec::with_capacity(workers);
    for (index, inbox) in inboxes.into_iter().enumerate() {
        let listeners = listeners.iter().map(TcpListener::try_clone).collect::<io::Result<_>>()?;
        let start = Start {
            index,
            shared: shared.clone(),
            control: control.clone(),
            listeners,
            inbox,
            peers: peers.clone(),
        };
        let name = format!("worker-{index}");
        threads.push(thread::Builder::new().name(name).spawn(move || work(start))?);
    }
    // From here on only the workers hold the listening sockets: when they drain, the ports close.
    drop((listeners, peers));
    let mut result = Ok(());
    for thread in threads {
        let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a worker panicked")));
        result = result.and(ended);
    }
    result
}

struct Start {
    index: usize,
    shared: Arc<Shared>,
    control: Control,
    listeners: Vec<TcpListener>,
    inbox: mpsc::UnboundedReceiver<Accepted>,
    peers: Vec<mpsc::UnboundedSender<Accepted>>,
}

fn work(start: Start) -> io::Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async move {
        let Start { index, shared, control, listeners, inbox, peers } = start;
        let worker = Worker::new(index, shared, control.options());
        let peers: Rc<[_]> = peers.into();
        let mut accepting = Vec::new();
        for listener in listeners {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            accepting.push(spawn_local(listener::accept(worker.clone(), listener, peers.clone())));
        }
        let inbox = spawn_local(listener::take_over(worker.clone(), inbox));
        worker.sweep(control.subscribe()).await;
        for task in accepting {
            task.abort();
        }
        worker.drain().await;
        inbox.abort();
        Ok(())
    })
}
