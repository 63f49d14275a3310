//! A proxy of a world: started, drained, killed, and started again with its old disk.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use device::{AnyDevice, OtherDevice};
use membership::static_list::{Listed, StaticList};
use proxy::downstream::handshake::{FleetProtocol, ListenerProtocol};
use proxy::options::Options;
use proxy::peers::node::{Node, NodeOptions};
use proxy::{
    AdminSetup, CacheSetup, CacheSource, Control, Ended, FleetSetup, Listener, Observer, Setup,
    Unobserved, run_here,
};
use sim::network::Host;
use sim::{Contents, SimDisk, TokioDisk, Uniform};
use tokio::task::{JoinHandle, LocalSet, spawn_local};

use crate::adapters::Deposited;
use crate::{World, listen, network_of};

/// How long a node that does not answer is still a member.
const SILENCE: Duration = Duration::from_secs(3);

/// A disk with a cache on it. A clone is another handle on the same disk.
#[derive(Clone)]
pub struct Cache {
    disk: TokioDisk,
    len: u64,
    /// Bytes of memory that the cache has.
    pub memory: u64,
}

impl Cache {
    /// An empty cache of so many bytes.
    ///
    /// # Panics
    ///
    /// When that is too little.
    pub async fn new(world: &World, len: u64, memory: u64) -> Cache {
        let cache = Cache::with(world, len, memory, Contents::new());
        let options = store::FormatOptions { memory, ..store::FormatOptions::default() };
        let entropy = [(world.seed % 251) as u8; 48];
        let formatted = store::format(&cache.disk, &options, entropy, crate::BEGINNING).await;
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

    /// The disk, for faults.
    pub fn disk(&self) -> &SimDisk {
        self.disk.disk()
    }

    /// What is found when the process was killed just now.
    pub fn after_kill(&self, world: &World, seed: u64) -> Cache {
        Cache::with(world, self.len, self.memory, self.disk().crash_process(seed))
    }

    /// What is found when power was lost just now.
    pub fn after_power_loss(&self, world: &World, seed: u64) -> Cache {
        Cache::with(world, self.len, self.memory, self.disk().crash_power(seed))
    }

    fn setup(&self) -> CacheSetup {
        let device = Deposited::new(AnyDevice::Other(OtherDevice::new(self.disk.clone())));
        CacheSetup {
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

/// A proxy that is to be started.
pub struct Proxy {
    /// Where it runs.
    pub host: Host,
    /// Where it listens.
    pub port: u16,
    /// How it serves. Names are looked up in the world's network, whatever is said here.
    pub options: Options,
    /// Workers, all of them in the one thread.
    pub workers: usize,
    /// Its cache, if it has one.
    pub cache: Option<Cache>,
    /// Told of every request.
    pub observer: Arc<dyn Observer>,
    /// The admin interface, if it has one.
    pub admin: Option<AdminSetup>,
    /// The node of a fleet that it is, if it is one: it listens for the others at its address.
    pub node: Option<(NodeOptions, Vec<Listed>)>,
}

impl Proxy {
    /// One with a worker, without a cache.
    pub fn new(host: Host, port: u16, options: Options) -> Proxy {
        let observer = Arc::new(Unobserved);
        Proxy { host, port, options, workers: 1, cache: None, observer, admin: None, node: None }
    }

    /// Starts it; it accepts clients as soon as its cache is open.
    ///
    /// # Errors
    ///
    /// When somebody listens there already.
    pub fn start(self, world: &World) -> io::Result<Running> {
        let Proxy { host, port, mut options, workers, cache, observer, admin, node } = self;
        options.upstream.lookup = world.lookup();
        let control = Control::new(options);
        let mut listeners = vec![Listener {
            socket: listen(&host, port)?,
            manners: Arc::new(ListenerProtocol::default()),
        }];
        let node = match node {
            None => None,
            Some((options, list)) => {
                let fleet = Some(FleetProtocol { tls: None });
                let manners = ListenerProtocol { fleet, ..ListenerProtocol::default() };
                let socket = listen(&host, options.own.address.port())?;
                listeners.push(Listener { socket, manners: Arc::new(manners) });
                let own = options.own.clone();
                let node = Node::new(options, world.lookup(), world.clock);
                let now = world.clock.running();
                let list = StaticList::new(own, &list, SILENCE, now).map_err(io::Error::other)?;
                let list = Arc::new(list);
                Some(FleetSetup {
                    node,
                    members: Box::new(move || Ok(list.clone())),
                    has_seeds: true,
                    hello_every: Duration::from_millis(500),
                })
            }
        };
        let fleet_node = node.as_ref().map(|fleet| fleet.node.clone());
        let setup = Setup {
            clock: world.clock,
            network: network_of(&host),
            control: control.clone(),
            listeners,
            workers,
            observer,
            cache: CacheSource::from(cache.map(|cache| cache.setup())),
            admin,
            fleet: node,
            accepting: Box::new(|| ()),
            released: Box::new(|| ()),
        };
        // What it begins belongs to it, and ends with it.
        let task = spawn_local(async { LocalSet::new().run_until(run_here(setup)).await });
        Ok(Running { control, node: fleet_node, task })
    }
}

/// A proxy that runs.
pub struct Running {
    /// Its options, and the switch to draining.
    pub control: Control,
    /// The node of a fleet that it is.
    pub node: Option<Arc<Node>>,
    task: JoinHandle<io::Result<Ended>>,
}

impl Running {
    /// Drains it and waits for its end.
    ///
    /// # Panics
    ///
    /// When it cannot end.
    pub async fn stop(self) -> Ended {
        self.control.drain();
        self.task.await.expect("no worker panics").expect("a proxy ends")
    }

    /// Kills it: nothing of it runs any more, its sockets are closed.
    pub async fn kill(self) {
        self.task.abort();
        // It was cancelled.
        let _ = self.task.await;
    }
}
