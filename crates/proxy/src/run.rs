//! The way in: opens the store, starts the workers and waits until they have drained.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use device::AnyDevice;
use tokio::runtime;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{LocalSet, spawn_local};

use crate::account::Observer;
use crate::cache::Store;
use crate::clock::TokioClock;
use crate::control::Control;
use crate::fills::Fills;
use crate::headers::Via;
use crate::labels::ObjectLabels;
use crate::listener::{self, Accepted, Listener};
use crate::operator::{AdminSetup, Operator};
use crate::windows::{WindowFigures, Windows};
use crate::worker::{Shared, Worker};

/// Everything a proxy needs to run.
pub struct Setup {
    /// Options and the switch to draining.
    pub control: Control,
    /// Sockets to accept clients from, already listening (so that an address in use, or a
    /// privileged port, is the caller's to report).
    pub listeners: Vec<Listener>,
    /// Worker threads, at least one.
    pub workers: usize,
    /// Told of every request.
    pub observer: Arc<dyn Observer>,
    /// The cache; `None`: everything is passed on.
    pub cache: Option<CacheSetup>,
    /// The admin interface; `None`: there is none.
    pub admin: Option<AdminSetup>,
}

/// Makes the devices of the worker with the given number: called once on each worker's thread,
/// within its runtime and `LocalSet`, so that it can start what drives a ring. The same devices in
/// the same order on each.
pub type Devices = dyn Fn(usize) -> io::Result<Vec<Rc<AnyDevice>>> + Send + Sync;

/// The cache of a proxy.
pub struct CacheSetup {
    /// The devices, formatted and checked before.
    pub devices: Box<Devices>,
    /// How they are used.
    pub options: store::Options,
    /// Called once when the store is open, before the first client is let in.
    pub opened: Box<dyn FnOnce(&store::StoreShare) + Send>,
}

/// How a proxy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything is saved, the next start is complete at once. Also without a cache.
    Saved,
    /// A device could not be ended in order: the next start recovers it.
    Unsaved,
}

/// Serves until [`Control::drain`] was called and all workers have drained. Blocks its thread.
///
/// # Errors
///
/// When a thread, a runtime or a listener cannot be had; nothing is served then. A cache that
/// cannot be opened is no error: it is logged, and everything is passed on.
pub fn run(setup: Setup) -> io::Result<Ended> {
    let Setup { control, listeners, workers, observer, cache, mut admin } = setup;
    let workers = workers.max(1);
    let options = control.options();
    let shared = Arc::new(Shared {
        observer,
        room: Arc::new(Semaphore::new(options.client.connections.max(1))),
        short_of_descriptors: AtomicBool::new(false),
        crowded: AtomicBool::new(false),
        loads: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
        via: Via::new(&options.pseudonym),
        pseudonym: options.pseudonym.clone(),
        fills: Fills::new(),
        windows: Arc::new(Windows::new(cache.as_ref().map_or(0, |cache| cache.options.memory / 8))),
        running: AtomicUsize::new(workers),
    });
    if let Some(admin) = &admin {
        admin.metrics.add_source(Box::new(WindowFigures(shared.windows.clone())));
    }
    let (peers, inboxes): (Vec<_>, Vec<_>) =
        (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
    for listener in &listeners {
        listener.socket.set_nonblocking()?;
    }
    let (devices, mut opening) = match cache {
        Some(CacheSetup { devices, options: mut cache, opened }) => {
            let tags = options.purging.tags.clone();
            cache.labels = Some(Arc::new(ObjectLabels { tags }));
            (Some(Arc::from(devices)), Some(Opening { options: cache, opened }))
        }
        None => (None, None),
    };
    let share = watch::Sender::new(Sharing::Opening);
    let mut threads = Vec::with_capacity(workers);
    for (index, inbox) in inboxes.into_iter().enumerate() {
        let listeners = listeners.iter().map(Listener::try_clone).collect::<io::Result<_>>()?;
        let start = Start {
            index,
            shared: shared.clone(),
            control: control.clone(),
            listeners,
            inbox,
            peers: peers.clone(),
            devices: devices.clone(),
            opening: opening.take(),
            share: share.clone(),
            admin: admin.take(),
        };
        let name = format!("worker-{index}");
        threads.push(thread::Builder::new().name(name).spawn(move || work(start))?);
    }
    // From here on only the workers hold the listening sockets: when they drain, the ports close.
    drop((listeners, peers));
    let mut result = Ok(Ended::Saved);
    for thread in threads {
        let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a worker panicked")));
        result = match (result, ended) {
            (Ok(Ended::Saved), ended) => ended,
            (other, _) => other,
        };
    }
    result
}

/// What the first worker does for all: it opens the store.
struct Opening {
    options: store::Options,
    opened: Box<dyn FnOnce(&store::StoreShare) + Send>,
}

/// How far the opening has come, for the other workers.
#[derive(Clone)]
enum Sharing {
    Opening,
    /// `None`: there is no store.
    Done(Option<store::StoreShare>),
}

struct Start {
    index: usize,
    shared: Arc<Shared>,
    control: Control,
    listeners: Vec<Listener>,
    inbox: mpsc::UnboundedReceiver<Accepted>,
    peers: Vec<mpsc::UnboundedSender<Accepted>>,
    devices: Option<Arc<Devices>>,
    opening: Option<Opening>,
    share: watch::Sender<Sharing>,
    admin: Option<AdminSetup>,
}

/// Counts a worker as ended, however it ends.
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Release);
    }
}

fn work(start: Start) -> io::Result<Ended> {
    let _running = Running(start.shared.clone());
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, serve(start))
}

async fn serve(mut start: Start) -> io::Result<Ended> {
    let store = store_of_worker(&mut start).await;
    let Start { index, shared, control, listeners, inbox, peers, admin, .. } = start;
    let worker = Worker::new(index, shared.clone(), control.options(), store.clone());
    let peers: Rc<[_]> = peers.into();
    let mut accepting = Vec::new();
    for listener in listeners {
        let accept = listener::accept(worker.clone(), listener.into_tokio()?, peers.clone());
        accepting.push(spawn_local(accept));
    }
    let inbox = spawn_local(listener::take_over(worker.clone(), inbox));
    if let Some(admin) = admin {
        Operator::start(admin, worker.clone(), control.clone())?;
    }
    worker.sweep(control.subscribe()).await;
    for task in accepting {
        task.abort();
    }
    worker.drain().await;
    inbox.abort();
    let Some(store) = store.filter(|_| index == 0) else { return Ok(Ended::Saved) };
    // The others may still be writing: the store ends when they have.
    while shared.running.load(Ordering::Acquire) > 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(if store.shutdown().await { Ended::Saved } else { Ended::Unsaved })
}

/// Opens the store on the first worker, makes a handle on it on the others.
async fn store_of_worker(start: &mut Start) -> Option<Store> {
    let devices = start.devices.take()?;
    let made = devices(start.index);
    if let Some(Opening { options, opened }) = start.opening.take() {
        let store = match made {
            Ok(devices) => open(devices, options).await,
            Err(error) => {
                log::error!("SERVING WITHOUT A CACHE: a device cannot be used: {error}");
                None
            }
        };
        let share = store.as_ref().map(Store::share);
        if let Some(share) = &share {
            opened(share);
        }
        start.share.send_replace(Sharing::Done(share));
        return store;
    }
    let mut share = start.share.subscribe();
    let done = share.wait_for(|share| matches!(share, Sharing::Done(_))).await.ok()?.clone();
    let Sharing::Done(Some(share)) = done else { return None };
    let attached = made
        .and_then(|devices| Store::attach(&share, devices, TokioClock).map_err(io::Error::other));
    attached
        .inspect_err(|error| {
            log::error!("worker {} serves without the cache: {error}", start.index);
        })
        .ok()
}

async fn open(devices: Vec<Rc<AnyDevice>>, options: store::Options) -> Option<Store> {
    match Store::open(devices, TokioClock, options).await {
        Ok(store) => {
            let background = store.clone();
            spawn_local(async move { background.run_background().await });
            Some(store)
        }
        Err((number, error)) => {
            log::error!("SERVING WITHOUT A CACHE: device {number} cannot be opened: {error}");
            None
        }
    }
}
