//! Starts the proxy: opens the store, starts the workers and waits until they have drained.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;
use std::{io, thread};

use crate::server::wall_clock::WallClock;
use device::AnyDevice;
use net::clock::TokioClock;
use net::network::Network;
use tokio::runtime;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinHandle, spawn_local};
use tokio::time::timeout;

use crate::admin::backend::{AdminSetup, AdminTask, ProxyBackend};
use crate::admin::process_status::CertificateFigures;
use crate::admin::server_status::ServerFigures;
use crate::client::reclaimer::{Ask, ConnectionReclaimer};
use crate::downstream::connection_limit::{AcceptGuard, ConnectionLimit};
use crate::downstream::listener;
use crate::downstream::listener::{Accepted, Listener};
use crate::downstream::listener_changes::{ListenerChanges, ListenerReceiver};
use crate::fill::fill_budget::WindowFigures;
use crate::fleet_control::stream;
use crate::fleet_control::upkeep;
use crate::fleet_control::upkeep::FleetSetup;
use crate::object::buffers::BufferFigures;
use crate::observe::metrics::Metrics;
use crate::observe::observer::Observer;
use crate::options::control::Control;
use crate::peers::purge_stream::{PurgeStream, StreamFigures};
use crate::peers::status::FleetFigures;
use crate::server::acceptor::Acceptor;
use crate::server::cache_opening::{CacheSource, OpenState};
use crate::server::worker::{Process, Worker};
use crate::server::{cache_opening, handover, health_checks, reclaimer};
use crate::services::{Services, Shared};

/// Number of tasks that a worker runs between two polls for I/O events. A task answers up to eight
/// requests that arrived together, so a request that arrives meanwhile waits for up to eight such
/// tasks.
const EVENT_INTERVAL: u32 = 8;

/// Everything a proxy needs to run.
pub struct Setup {
    /// The clock of the proxy.
    pub clock: TokioClock,
    /// The network used to connect to origins.
    pub network: Network,
    /// The options, and the switch to draining.
    pub control: Control,
    /// Sockets to accept clients from. They already listen, so that the caller reports an address
    /// in use or a privileged port.
    pub listeners: Vec<Listener>,
    /// Replaces the listeners.
    pub listener_changes: ListenerChanges,
    /// Number of worker threads, at least one.
    pub workers: usize,
    /// Receives a report of every request.
    pub observer: Arc<dyn Observer>,
    /// The cache.
    pub cache: CacheSource,
    /// The fleet that this proxy is a node of, if any.
    pub fleet: Option<FleetSetup>,
    /// The stream of purges that several sites share, if any.
    pub stream: Option<Arc<PurgeStream>>,
    /// The admin interface, if any.
    pub admin: Option<AdminSetup>,
    /// Called once, when the first worker begins to accept clients.
    pub accepting: Box<dyn FnOnce() + Send>,
    /// Called at most once, when the store has been released for another process
    /// ([`Control::hand_over`]) while responses that do not need it are still being sent.
    pub released: Box<dyn FnOnce() + Send>,
}

/// Creates the devices of the worker with the given number. Called once on each worker's thread,
/// within its runtime, so that it can start the task that drives a ring. Returns the same devices
/// in the same order on each worker.
pub type Devices = dyn Fn(usize) -> io::Result<Vec<Rc<AnyDevice>>> + Send + Sync;

/// The cache of a proxy.
pub struct CacheSetup {
    /// The devices, already formatted and checked.
    pub devices: Box<Devices>,
    /// The options of the store.
    pub options: store::Options,
    /// True if another process may have answered requests that invalidate, without the store: then
    /// everything stored needs validation.
    pub is_doubted: bool,
    /// Called once when the store is open, before the first client is accepted.
    pub opened: Box<dyn FnOnce(&store::StoreShare) + Send>,
}

/// How a proxy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything is saved and the next start is immediately complete; also returned without a
    /// cache.
    Saved,
    /// A device could not be closed cleanly: the next start recovers it.
    Unsaved,
}

/// Serves until [`Control::drain`] is called and all workers have drained. Blocks the calling
/// thread.
///
/// # Errors
///
/// Fails if a thread, a runtime or a listener cannot be created; nothing is served then. A cache
/// that cannot be opened is not an error: it is logged, and every request is passed through.
pub fn run(setup: Setup) -> io::Result<Ended> {
    let mut workers = Vec::new();
    for start in prepare(setup)? {
        let name = format!("worker-{}", start.index);
        let (tell, told) = std::sync::mpsc::channel();
        let work = move || {
            // The receiver is waiting.
            let _ = tell.send(work(start));
        };
        thread::Builder::new().name(name).spawn(work)?;
        workers.push(told);
    }
    // Do not join the threads: the kernel keeps a thread whose device hangs until the device
    // responds.
    let ended = |told: Receiver<_>| {
        told.recv().unwrap_or_else(|_| Err(io::Error::other("a worker panicked")))
    };
    together(workers.into_iter().map(ended))
}

/// Runs the proxy like [`run`], but within the calling `LocalSet` with all workers on its thread.
/// For simulations, where the runtime's clock is virtual. If the future is dropped, tasks that the
/// workers have spawned stay in the `LocalSet`.
///
/// # Errors
///
/// See [`run`].
pub async fn run_here(setup: Setup) -> io::Result<Ended> {
    let workers: Vec<_> = prepare(setup)?
        .into_iter()
        .map(|start| {
            let running = Running(start.process.clone());
            spawn_local(async move {
                let _running = running;
                Box::pin(serve(start)).await
            })
        })
        .collect();
    let mut ended = Vec::with_capacity(workers.len());
    for worker in workers {
        ended.push(worker.await.unwrap_or_else(|error| Err(io::Error::other(error))));
    }
    together(ended)
}

/// Returns the first result other than `Saved`, if any. Consumes the whole iterator, so it waits
/// for all workers.
fn together(all: impl IntoIterator<Item = io::Result<Ended>>) -> io::Result<Ended> {
    let mut result = Ok(Ended::Saved);
    for ended in all {
        if matches!(result, Ok(Ended::Saved)) {
            result = ended;
        }
    }
    result
}

/// Adds the figures that every proxy has.
fn add_figures(metrics: &Metrics, requests: &Shared, control: &Control, clock: TokioClock) {
    metrics.add_source(Box::new(WindowFigures(requests.fill_budget.clone())));
    metrics.add_source(Box::new(BufferFigures(requests.buffers.clone())));
    let of = control.clone();
    metrics.set_sites(Box::new(move || of.options().front.slots().clone()));
    metrics.add_source(Box::new(ServerFigures(control.clone(), clock)));
    metrics.add_source(Box::new(CertificateFigures(control.clone())));
}

/// Creates the starting state of each worker. Afterwards only the workers hold the listening
/// sockets, so the ports close when they drain.
fn prepare(setup: Setup) -> io::Result<Vec<Start>> {
    let Setup { clock, network, control, listeners, workers, observer, cache, fleet, .. } = setup;
    let (mut admin, accepting, released) = (setup.admin, setup.accepting, setup.released);
    let workers = workers.max(1);
    let changes = setup.listener_changes.receivers(workers);
    let options = control.options();
    let (reclaimer, asked) = ConnectionReclaimer::new(workers, options.client.connections);
    let node = fleet.as_ref().map(|fleet| fleet.node.clone());
    let shared = (node, setup.stream);
    let mut fleet = fleet;
    let requests = Arc::new(Shared::new(&options, clock, observer, cache.memory() / 8, shared));
    if let (Some(admin), Some(node)) = (&admin, &requests.node) {
        admin.metrics.add_source(Box::new(FleetFigures(node.clone())));
    }
    if let (Some(admin), Some(stream)) = (&admin, &requests.stream) {
        admin.metrics.add_source(Box::new(StreamFigures(stream.clone(), clock)));
    }
    if let Some(admin) = &admin {
        add_figures(&admin.metrics, &requests, &control, clock);
    }
    let process = Arc::new(Process {
        requests,
        connection_limit: Arc::new(ConnectionLimit::new(
            workers,
            options.client.connections,
            reclaimer,
        )),
        clock,
        network,
        wall_clock: WallClock::new(clock),
        failures: Arc::default(),
        overruns: Arc::default(),
        running: AtomicUsize::new(workers),
        may_close: watch::Sender::new(false),
        holding: AtomicUsize::new(workers),
    });
    let (peers, inboxes): (Vec<_>, Vec<_>) =
        (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
    for listener in &listeners {
        listener.socket.set_nonblocking()?;
    }
    let (setup, patience) = cache.split();
    let (mut setup, mut accepting, mut released) = (Some(setup), Some(accepting), Some(released));
    let share = watch::Sender::new(OpenState::Opening);
    let mut starts = Vec::with_capacity(workers);
    for (index, ((inbox, asked), changes)) in
        inboxes.into_iter().zip(asked).zip(changes).enumerate()
    {
        starts.push(Start {
            index,
            process: process.clone(),
            control: control.clone(),
            listeners: listeners.iter().map(Listener::try_clone).collect::<io::Result<_>>()?,
            changes,
            inbox,
            asked,
            peers: peers.clone(),
            setup: setup.take(),
            patience,
            share: share.clone(),
            admin: admin.take(),
            fleet: fleet.take(),
            accepting: accepting.take(),
            released: released.take(),
        });
    }
    Ok(starts)
}

/// Tells that the store has been released.
type Tell = Box<dyn FnOnce() + Send>;

struct Start {
    index: usize,
    process: Arc<Process>,
    control: Control,
    listeners: Vec<Listener>,
    /// Receives the listeners that replace these.
    changes: ListenerReceiver,
    inbox: mpsc::UnboundedReceiver<Accepted>,
    asked: mpsc::UnboundedReceiver<Ask>,
    peers: Vec<mpsc::UnboundedSender<Accepted>>,
    /// Set for the first worker only.
    setup: Option<oneshot::Receiver<Option<CacheSetup>>>,
    patience: Option<Duration>,
    share: watch::Sender<OpenState>,
    /// Set for the first worker only.
    admin: Option<AdminSetup>,
    /// Set for the first worker only.
    fleet: Option<FleetSetup>,
    accepting: Option<Box<dyn FnOnce() + Send>>,
    /// Set for the first worker only.
    released: Option<Tell>,
}

/// Counts a worker as ended on drop, however the worker ends.
struct Running(Arc<Process>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Release);
    }
}

fn work(start: Start) -> io::Result<Ended> {
    let _running = Running(start.process.clone());
    let mut builder = runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().event_interval(EVENT_INTERVAL).build_local(<_>::default())?;
    let ended = runtime.block_on(serve(start));
    // A file system lookup that hangs must not delay the end: it changes nothing.
    runtime.shutdown_background();
    ended
}

async fn serve(start: Start) -> io::Result<Ended> {
    let Start { index, process, control, listeners, inbox, asked, peers, admin, .. } = start;
    let tell = start.accepting;
    let worker = Worker::new(index, process.clone(), control.options());
    let accepts = AcceptGuard::new(process.connection_limit.clone());
    let reclaimer = spawn_local(reclaimer::answer(worker.clone(), asked));
    let detached = spawn_local(detached(worker.services.clone()));
    let fleet = start.fleet.map(|fleet| FleetTask::start(&worker.services, fleet));
    let stream = process.requests.stream.clone().filter(|_| index == 0);
    let stream = stream
        .map(|stream| spawn_local(stream::follow(worker.services.clone(), stream)).abort_handle());
    let arrival = store_arrives(worker.clone(), start.setup, start.share.clone());
    let mut arrival = spawn_local(arrival);
    let arrived = match start.patience {
        None => (&mut arrival).await.is_ok(),
        Some(patience) => timeout(patience, &mut arrival).await.is_ok(),
    };
    if !arrived {
        log::warn!("serving without the cache until it is released; invalidations are in memory");
    }
    let (stop, stopped) = watch::channel(false);
    let mut acceptor = Acceptor::new(worker.clone(), peers.into(), control.clone());
    acceptor.add(listeners)?;
    let accepting = spawn_local(acceptor.follow(start.changes, stopped));
    let inbox = spawn_local(listener::serve_assigned(worker.connections.clone(), inbox));
    let admin = admin.map(|admin| {
        let reclaimer = process.connection_limit.reclaimer.clone();
        ProxyBackend::start(admin, worker.services.clone(), reclaimer, control.clone())
    });
    let admin = admin.transpose()?;
    if index == 0 {
        check_health(&process, &control);
    }
    let background = [&inbox, &reclaimer, &arrival].map(JoinHandle::abort_handle);
    if let Some(tell) = tell {
        tell();
    }
    worker.sweep(control.subscribe()).await;
    let (said, is_said) = oneshot::channel();
    let (fleet, left) = match fleet {
        Some(fleet) if !control.hands_over() => (None, fleet.leave(said)),
        fleet => {
            drop(said);
            (fleet, None)
        }
    };
    until_ports_may_close(&process, (index == 0).then_some(is_said)).await;
    stop.send_replace(true);
    // Only a panic ends it early, and a panic is logged.
    let _ = accepting.await;
    drop(accepts);
    let ended = match control.hands_over() {
        true => {
            let tasks = (admin, fleet, stream.clone());
            drain_for_next(&worker, &control, (&start.share, start.released), tasks).await
        }
        false => drain_for_good(&worker, &control, admin).await,
    };
    background.iter().chain(&stream).for_each(AbortHandle::abort);
    detached.abort();
    if let Some(left) = left {
        // Peers that are not told in time detect that this node is gone.
        let _ = timeout(LEAVE_TIME, left).await;
    }
    match ended {
        Some(ended) => Ok(ended),
        None => Ok(close_store(&worker).await),
    }
}

/// Drains, then ends the admin interface, which reports the drain until then.
/// How the store ends is not known then.
async fn drain_for_good(
    worker: &Worker,
    control: &Control,
    admin: Option<AdminTask>,
) -> Option<Ended> {
    worker.connections.drain(|| control.is_cut()).await;
    let _ = timeout(ADMIN_TIME, admin?.end()).await;
    None
}

/// Waits until the other nodes of a fleet know that this one leaves, for a moment at most. The
/// first worker, whose `is_said` ends then, tells the others.
async fn until_ports_may_close(process: &Process, is_said: Option<oneshot::Receiver<()>>) {
    let Some(is_said) = is_said else {
        let mut may_close = process.may_close.subscribe();
        let _ = timeout(SAY_TIME, may_close.wait_for(|may_close| *may_close)).await;
        return;
    };
    let _ = timeout(SAY_TIME, is_said).await;
    process.may_close.send_replace(true);
}

/// Closes the store on the first worker once the others, which may still be writing, have ended.
async fn close_store(worker: &Worker) -> Ended {
    let Some(store) = worker.services.store().filter(|_| worker.index == 0) else {
        return Ended::Saved;
    };
    while worker.process.running.load(Ordering::Acquire) > 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    if store.shutdown().await { Ended::Saved } else { Ended::Unsaved }
}

/// Time for the admin interface to answer the requests that have come, in addition to the drain.
const ADMIN_TIME: Duration = Duration::from_secs(2);

/// Time for a node to leave its fleet, in addition to the drain.
const LEAVE_TIME: Duration = Duration::from_secs(3);

/// Maximum time from the begin of a drain until the ports close, in which a node says to its peers
/// that it leaves.
const SAY_TIME: Duration = Duration::from_secs(1);

/// The process's membership in a fleet while it runs.
struct FleetTask {
    /// Takes what is to be dropped when the peers have been told.
    leave: oneshot::Sender<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl FleetTask {
    fn start(services: &Rc<Services>, fleet: FleetSetup) -> FleetTask {
        let (leave, told) = oneshot::channel();
        FleetTask { leave, task: spawn_local(upkeep::run(services.clone(), fleet, told)) }
    }

    /// Lets the node leave the fleet and returns the task to wait for; `None` if it has ended.
    /// `said` is dropped when the peers have been told.
    fn leave(self, said: oneshot::Sender<()>) -> Option<JoinHandle<()>> {
        self.leave.send(said).is_ok().then_some(self.task)
    }

    /// Ends the membership, whose addresses are free afterwards, without a word to the peers:
    /// another process continues it.
    async fn end(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// Starts the active health checks of the upstream servers.
fn check_health(process: &Process, control: &Control) {
    let (observer, network) = (process.requests.observer.clone(), process.network.clone());
    spawn_local(health_checks::run(control.subscribe(), observer, process.clock, network));
}

/// Runs the fetches that no request drives any more.
async fn detached(services: Rc<Services>) {
    services.detached.run().await;
}

/// Drains for another process, which gets the store as soon as this one no longer needs it. On the
/// first worker returns how the store ended, or `None` if it had not been opened yet.
async fn drain_for_next(
    worker: &Worker,
    control: &Control,
    (share, tell): (&watch::Sender<OpenState>, Option<Tell>),
    (admin, fleet, stream): (Option<AdminTask>, Option<FleetTask>, Option<AbortHandle>),
) -> Option<Ended> {
    let process = &worker.process;
    let drained = Cell::new(false);
    let lease = worker.services.leases.lease_until_grace();
    let drain = async {
        let patience = worker.services.options().client.drain;
        let admin = async {
            if let Some(admin) = admin {
                let _ = timeout(patience, admin.end()).await;
            }
            drop(lease);
        };
        tokio::join!(worker.connections.drain(|| control.is_cut()), admin);
        drained.set(true);
    };
    let release = async {
        let held = match worker.services.awaits_store() {
            true => None,
            false => handover::release(worker, &drained).await,
        };
        process.holding.fetch_sub(1, Ordering::AcqRel);
        let held = held.zip(tell);
        // A worker that has ended, for whatever reason, holds nothing.
        while held.is_some()
            && process.holding.load(Ordering::Acquire) > 0
            && process.running.load(Ordering::Acquire) > 1
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if let Some(stream) = stream {
            stream.abort();
            while !stream.is_finished() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        // Purges that were under way have been told by it.
        if let Some(fleet) = fleet {
            fleet.end().await;
        }
        let (store, tell) = held?;
        let saved = store.shutdown().await;
        share.send_replace(OpenState::Done(None));
        tell();
        Some(if saved { Ended::Saved } else { Ended::Unsaved })
    };
    let (ended, ()) = tokio::join!(release, drain);
    ended
}

/// Gives the worker its handle on the store once the store is open, if there is one.
async fn store_arrives(
    worker: Rc<Worker>,
    setup: Option<oneshot::Receiver<Option<CacheSetup>>>,
    share: watch::Sender<OpenState>,
) {
    let clock = worker.process.clock;
    let store = match setup {
        Some(setup) => {
            cache_opening::open_first(setup, clock, &worker.process.requests, &share).await
        }
        None => cache_opening::attach(worker.index, clock, share.subscribe()).await,
    };
    worker.services.set_store(store);
}
