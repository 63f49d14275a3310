//! A proxy in this process, on ephemeral ports, for one test.

use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use device::{AnyDevice, MemoryDevice};
use net::address::Locals;
use proxy::admin::guard::Guard;
use proxy::downstream::handshake::ListenerProtocol;
use proxy::observe::access_log::Format;
use proxy::observe::event::Event;
use proxy::observe::metrics::Metrics;
use proxy::observe::outcome::Outcome;
use proxy::options::Options;
use proxy::origin::site::{Front, Site, Source};
use proxy::rules::access::Access;
use proxy::{
    AdminSetup, CacheSetup, CacheSource, Control, Ended, ListenSocket, Listener, Network, Observer,
    RequestRecord, Setup, TokioClock,
};
use testkit::client::Client;
use upstream::servers::group::Group;
use upstream::settings::endpoint::Endpoint;

pub struct Rig {
    pub address: SocketAddr,
    /// Address of its admin interface.
    pub admin: SocketAddr,
    pub control: Control,
    pub seen: Arc<Seen>,
    pub device: MemoryDevice,
    thread: Option<JoinHandle<Ended>>,
}

/// Memory of a cache in bytes, for tests that do not depend on it.
const MEMORY: u64 = 32 << 20;

/// Returns an empty cache in memory.
pub fn empty_cache() -> MemoryDevice {
    empty_cache_of(64 << 20)
}

/// Returns an empty cache of `len` bytes in memory.
pub fn empty_cache_of(len: u64) -> MemoryDevice {
    let device = MemoryDevice::new(len, 4096);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let options = store::FormatOptions::default();
    runtime.block_on(store::format_with_seed(&device, &options, [7; 48], 1_700_000_000)).unwrap();
    device
}

/// Records of the proxy's observer.
#[derive(Default)]
pub struct Seen {
    pub outcomes: Mutex<Vec<(Outcome, u64, bool)>>,
    pub refused: Mutex<Vec<Option<u16>>>,
    pub urls: Mutex<Vec<String>>,
    pub metrics: Metrics,
}

impl Observer for Seen {
    fn log_format(&self) -> Option<Arc<Format>> {
        Some(Arc::new(Format::Combined))
    }

    fn finished(&self, finished: &RequestRecord<'_>) {
        let entry = (finished.outcome, finished.body_bytes, finished.complete);
        self.urls.lock().unwrap().push(finished.texts.unwrap().url().to_owned());
        self.outcomes.lock().unwrap().push(entry);
    }

    fn connection(&self, opened: bool) {
        let event = if opened { Event::ConnectionOpened } else { Event::ConnectionClosed };
        self.metrics.count(event, 1);
    }

    fn count(&self, event: Event, n: u64) {
        self.metrics.count(event, n);
    }

    fn refused(
        &self,
        _client: SocketAddr,
        status: Option<http::StatusCode>,
        _why: &dyn std::fmt::Display,
    ) {
        self.refused.lock().unwrap().push(status.map(|s| s.as_u16()));
    }
}

/// Waits until a condition holds, on however slow a machine.
pub fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !condition() {
        assert!(began.elapsed().as_secs() < 20, "never happened: {what}");
        thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Default number of workers of a proxy.
const WORKERS: usize = 2;

impl Rig {
    pub fn forward() -> Rig {
        Rig::forward_with(|_| ())
    }

    pub fn forward_with(change: impl FnOnce(&mut Options)) -> Rig {
        Rig::forward_with_on(empty_cache(), change)
    }

    pub fn forward_with_on(device: MemoryDevice, change: impl FnOnce(&mut Options)) -> Rig {
        let access = Access::new(
            proxy::observe::front_kind::FrontKind::Forward,
            Locals::of_this_machine().unwrap(),
        );
        let mut options = Options::new(Front::forward(), Arc::new(access));
        change(&mut options);
        Rig::start(options, device, MEMORY)
    }

    /// Starts a forward proxy on an existing cache.
    pub fn forward_on(device: MemoryDevice) -> Rig {
        let access = Access::new(
            proxy::observe::front_kind::FrontKind::Forward,
            Locals::of_this_machine().unwrap(),
        );
        Rig::start(Options::new(Front::forward(), Arc::new(access)), device, MEMORY)
    }

    /// Starts a forward proxy on an existing cache with `memory` bytes of memory.
    pub fn forward_with_memory(device: MemoryDevice, memory: u64) -> Rig {
        let access = Access::new(
            proxy::observe::front_kind::FrontKind::Forward,
            Locals::of_this_machine().unwrap(),
        );
        Rig::start(Options::new(Front::forward(), Arc::new(access)), device, memory)
    }

    /// Starts a reverse proxy with one site for every host.
    pub fn reverse(upstream: SocketAddr, pass_host: bool) -> Rig {
        Rig::start(reverse_options(upstream, pass_host), empty_cache(), MEMORY)
    }

    /// Starts a reverse proxy with one site for every host and one worker.
    pub fn reverse_of_one_worker(upstream: SocketAddr) -> Rig {
        let (options, store) = (reverse_options(upstream, true), of_memory(MEMORY));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let protocol = ListenerProtocol::default();
        Rig::start_with((listener, protocol), options, empty_cache(), store, 1)
    }

    /// Starts a reverse proxy with one site for every host, fetched from `source`.
    pub fn reverse_to(source: impl Into<Source>, change: impl FnOnce(&mut Options)) -> Rig {
        let mut options = options_to(source, true);
        change(&mut options);
        Rig::start(options, empty_cache(), MEMORY)
    }

    /// Starts a reverse proxy that sends either the client's `Host` or the server's own.
    pub fn reverse_as(group: Group, pass_host: bool) -> Rig {
        Rig::start(options_to(group, pass_host), empty_cache(), MEMORY)
    }

    /// Starts a reverse proxy on an existing cache.
    pub fn reverse_on(upstream: SocketAddr, device: MemoryDevice) -> Rig {
        Rig::start(reverse_options(upstream, true), device, MEMORY)
    }

    fn start(options: Options, device: MemoryDevice, memory: u64) -> Rig {
        Rig::start_on(TcpListener::bind("127.0.0.1:0").unwrap(), options, device, memory)
    }

    /// Starts a proxy on a listener whose address the options need.
    pub fn start_at(listener: TcpListener, options: Options) -> Rig {
        Rig::start_on(listener, options, empty_cache(), MEMORY)
    }

    /// Starts a reverse proxy whose clients may use HTTP/2 with prior knowledge.
    pub fn h2c(upstream: SocketAddr) -> Rig {
        Rig::h2c_with(upstream, |_| ())
    }

    pub fn h2c_with(upstream: SocketAddr, change: impl FnOnce(&mut Options)) -> Rig {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let protocol = ListenerProtocol { h2c: true, ..ListenerProtocol::default() };
        let mut options = reverse_options(upstream, true);
        change(&mut options);
        Rig::start_with((listener, protocol), options, empty_cache(), of_memory(MEMORY), WORKERS)
    }

    fn start_on(listener: TcpListener, options: Options, device: MemoryDevice, memory: u64) -> Rig {
        let protocol = ListenerProtocol::default();
        Rig::start_with((listener, protocol), options, device, of_memory(memory), WORKERS)
    }

    fn start_with(
        (listener, protocol): (TcpListener, ListenerProtocol),
        options: Options,
        device: MemoryDevice,
        store: store::Options,
        workers: usize,
    ) -> Rig {
        let address = listener.local_addr().unwrap();
        let admin_listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let admin = admin_listener.local_addr().unwrap();
        let control = Control::new(options);
        let seen = Arc::new(Seen::default());
        let setup = Setup {
            clock: TokioClock::system(),
            network: Network::System,
            control: control.clone(),
            listeners: vec![Listener {
                socket: ListenSocket::Tcp(listener),
                protocol: Arc::new(protocol),
            }],
            listener_changes: Default::default(),
            workers,
            observer: seen.clone(),
            cache: CacheSource::Now(Box::new(CacheSetup {
                is_doubted: false,
                devices: {
                    let device = device.clone();
                    Box::new(move |_| Ok(vec![Rc::new(AnyDevice::Memory(device.clone()))]))
                },
                options: store,
                opened: Box::new(|_| ()),
            })),
            admin: Some(AdminSetup {
                listener: ListenSocket::Tcp(admin_listener),
                guard: Guard::default(),
                metrics: Arc::default(),
                act: Arc::new(|_| Err("there is no process".to_owned())),
                facts: Arc::new(|| serde_json::Value::Null),
                trouble: Box::new(|| None),
            }),
            accepting: Box::new(|| ()),
            fleet: None,
            stream: None,
            released: Box::new(|| ()),
        };
        let thread = thread::spawn(move || proxy::run(setup).unwrap());
        Rig { address, admin, control, seen, device, thread: Some(thread) }
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// Drains the proxy and waits until it has ended.
    pub fn stop(&mut self) {
        self.control.drain();
        if let Some(thread) = self.thread.take() {
            assert_eq!(thread.join().unwrap(), Ended::Saved);
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.control.drain();
    }
}

fn of_memory(memory: u64) -> store::Options {
    store::Options { memory, ..store::Options::default() }
}

fn reverse_options(upstream: SocketAddr, pass_host: bool) -> Options {
    let origin = Endpoint::plain(&upstream.ip().to_string(), upstream.port());
    options_to(Group::one(origin), pass_host)
}

fn options_to(source: impl Into<Source>, pass_host: bool) -> Options {
    let site = Site::new("main", source).with_pass_host(pass_host);
    let access = Access::new(
        proxy::observe::front_kind::FrontKind::Reverse,
        Locals::of_this_machine().unwrap(),
    );
    Options::new(Front::reverse(vec![site]), Arc::new(access))
}
