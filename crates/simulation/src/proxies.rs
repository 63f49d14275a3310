//! A proxy of a world: started, held, drained, killed, and started again with its old disk.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use device::{AnyDevice, OtherDevice};
use membership::static_list::{Listed, StaticList};
use proxy::downstream::handshake::{FleetProtocol, ListenerProtocol};
use proxy::options::Options;
use proxy::peers::node::{Node, NodeOptions};
use proxy::{
    AdminSetup, CacheSetup, CacheSource, Control, Ended, FleetSetup, Listener, Observer, Setup,
    TokioClock, Unobserved, run_here,
};
use sim::network::Host;
use sim::{Contents, SimDisk, TokioDisk, Uniform};
use tokio::sync::watch;
use tokio::task::{JoinHandle, LocalSet, spawn_local};

use crate::adapters::Deposited;
use crate::{World, listen, network_of};

/// Time for which a node that does not respond remains a member.
const SILENCE: Duration = Duration::from_secs(3);

/// A disk with a cache on it. A clone is another handle on the same disk.
#[derive(Clone)]
pub struct Cache {
    disk: TokioDisk,
    len: u64,
    /// Bytes of memory of the cache.
    pub memory: u64,
}

impl Cache {
    /// Returns an empty cache of `len` bytes.
    ///
    /// # Panics
    ///
    /// `len` is too small.
    pub async fn new(world: &World, len: u64, memory: u64) -> Cache {
        Cache::numbered(world, len, memory, 0).await
    }

    /// Returns an empty cache of `len` bytes. The `number` sets it apart from other caches of the
    /// world in the random bytes that are drawn when a cache is formatted.
    ///
    /// # Panics
    ///
    /// `len` is too small.
    pub async fn numbered(world: &World, len: u64, memory: u64, number: u32) -> Cache {
        let cache = Cache::with(world, len, memory, Contents::new());
        let options = store::FormatOptions { memory, ..store::FormatOptions::default() };
        let mut entropy = [(world.seed % 251) as u8; 48];
        let drawn = entropy.chunks_exact_mut(4).flat_map(|word| word.iter_mut().zip(0..4));
        drawn.for_each(|(byte, at)| *byte ^= number.to_le_bytes()[at]);
        let formatted =
            store::format_with_seed(&cache.disk, &options, entropy, crate::BEGINNING).await;
        formatted.expect("the disk takes a cache");
        cache
    }

    fn with(world: &World, len: u64, memory: u64, contents: Contents) -> Cache {
        let handle = world.disks.clone();
        let options = sim::Options { block: 4096, ..sim::Options::default() };
        let drive = Box::new(Uniform::fast(len));
        let disk = SimDisk::with_contents(handle.clone(), drive, options, contents);
        Cache { disk: TokioDisk::new(disk, handle, world.began), len, memory }
    }

    /// Returns the disk, to inject faults.
    pub fn disk(&self) -> &SimDisk {
        self.disk.disk()
    }

    /// Returns the cache as found after the process is killed now.
    pub fn after_kill(&self, world: &World, seed: u64) -> Cache {
        Cache::with(world, self.len, self.memory, self.disk().crash_process(seed))
    }

    /// Returns the cache as found after a power loss now.
    pub fn after_power_loss(&self, world: &World, seed: u64) -> Cache {
        Cache::with(world, self.len, self.memory, self.disk().crash_power(seed))
    }

    fn setup(&self) -> CacheSetup {
        let device = Deposited::new(AnyDevice::Other(OtherDevice::new(self.disk.clone())));
        CacheSetup {
            is_doubted: false,
            devices: Box::new(move |_| Ok(vec![Rc::new(device.get()?)])),
            options: store::Options {
                memory: self.memory,
                purge_log: true,
                ..store::Options::default()
            },
            opened: Box::new(|_| ()),
        }
    }
}

/// Configuration of a proxy to be started.
pub struct Proxy {
    /// The host on which it runs.
    pub host: Host,
    /// The port at which it listens.
    pub port: u16,
    /// Serving options. The name lookup is replaced by that of the world's network.
    pub options: Options,
    /// Number of workers, all of them in the one thread.
    pub workers: usize,
    /// The cache, if any.
    pub cache: Option<Cache>,
    /// The clock; `None`: the world's.
    pub clock: Option<TokioClock>,
    /// Observer of every request.
    pub observer: Arc<dyn Observer>,
    /// The admin interface, if any.
    pub admin: Option<AdminSetup>,
    /// The proxy's fleet node with the list of members, if any. It listens for other nodes at its
    /// address.
    pub node: Option<(NodeOptions, Vec<Listed>)>,
    /// How often the node says hello to each other one.
    pub hello_every: Duration,
}

impl Proxy {
    /// Returns a proxy with one worker and no cache.
    pub fn new(host: Host, port: u16, options: Options) -> Proxy {
        let observer = Arc::new(Unobserved);
        Proxy {
            host,
            port,
            options,
            workers: 1,
            cache: None,
            clock: None,
            observer,
            admin: None,
            node: None,
            hello_every: Duration::from_millis(500),
        }
    }

    /// Starts the proxy. It accepts clients as soon as its cache is open.
    ///
    /// # Errors
    ///
    /// Another listener has the port.
    pub fn start(self, world: &World) -> io::Result<Running> {
        let Proxy { host, port, mut options, workers, cache, clock, observer, .. } = self;
        let Proxy { admin, node, hello_every, .. } = self;
        let clock = clock.unwrap_or(world.clock);
        options.upstream.lookup = world.lookup();
        let control = Control::new(options);
        let mut listeners = vec![Listener {
            socket: listen(&host, port)?,
            protocol: Arc::new(ListenerProtocol::default()),
        }];
        let node = match node {
            None => None,
            Some((options, list)) => {
                let fleet = Some(Arc::new(FleetProtocol::default()));
                let protocol = ListenerProtocol { fleet, ..ListenerProtocol::default() };
                let socket = listen(&host, options.own.address.port())?;
                listeners.push(Listener { socket, protocol: Arc::new(protocol) });
                let own = options.own.clone();
                let node = Node::new(options, world.lookup(), clock);
                let now = clock.running();
                let list = StaticList::new(own, &list, SILENCE, now).map_err(io::Error::other)?;
                let list = Arc::new(list);
                Some(FleetSetup {
                    node,
                    members: Box::new(move || Ok(list.clone())),
                    has_seeds: true,
                    hello_every,
                })
            }
        };
        let fleet_node = node.as_ref().map(|fleet| fleet.node.clone());
        let setup = Setup {
            clock,
            network: network_of(&host),
            control: control.clone(),
            listeners,
            listener_changes: Default::default(),
            workers,
            observer,
            cache: CacheSource::from(cache.map(|cache| cache.setup())),
            admin,
            fleet: node,
            stream: None,
            accepting: Box::new(|| ()),
            released: Box::new(|| ()),
        };
        // The proxy's tasks run in this set and end with it.
        let (held, is_held) = watch::channel(false);
        let task = spawn_local(unless_held(is_held, async {
            LocalSet::new().run_until(run_here(setup)).await
        }));
        Ok(Running { control, node: fleet_node, held, task })
    }
}

/// Runs a process, but polls none of its tasks while it is held; their events wait.
async fn unless_held<T>(mut held: watch::Receiver<bool>, process: impl Future<Output = T>) -> T {
    let mut process = Box::pin(process);
    while held.wait_for(|held| !held).await.is_ok() {
        let mut change = Box::pin(held.wait_for(|held| *held));
        let ended = poll_fn(|cx| match change.as_mut().poll(cx) {
            Poll::Ready(change) => Poll::Ready(change.map(|_| None)),
            Poll::Pending => process.as_mut().poll(cx).map(|ended| Ok(Some(ended))),
        });
        match ended.await {
            Ok(Some(ended)) => return ended,
            Ok(None) => {}
            // The sender is gone, so the process can no longer be held.
            Err(_) => break,
        }
    }
    process.await
}

/// A running proxy.
pub struct Running {
    /// Changes its options and starts draining.
    pub control: Control,
    /// Its fleet node, if any.
    pub node: Option<Arc<Node>>,
    held: watch::Sender<bool>,
    task: JoinHandle<io::Result<Ended>>,
}

impl Running {
    /// Suspends the proxy, like a suspended machine: its sockets stay open, and none of its tasks
    /// runs. Kernel and disk continue.
    pub fn hold(&self) {
        self.held.send_replace(true);
    }

    /// Resumes the proxy: timers that expired meanwhile fire at once.
    pub fn release(&self) {
        self.held.send_replace(false);
    }

    /// Drains the proxy and waits for its end.
    ///
    /// # Panics
    ///
    /// A worker panics, or the proxy ends with an error.
    pub async fn stop(self) -> Ended {
        self.control.drain();
        self.task.await.expect("no worker panics").expect("a proxy ends")
    }

    /// Kills the proxy: all of its tasks are dropped and its sockets closed.
    pub async fn kill(self) {
        self.task.abort();
        // The result is always a cancellation.
        let _ = self.task.await;
    }
}
