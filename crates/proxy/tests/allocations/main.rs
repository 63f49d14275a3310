//! Counts the allocations of one request in the proxy, on all of its threads, by route. Prints the
//! counts and checks them against bounds, so that increases are noticed.
//!
//! With `LARDER_STACKS=words` it also prints where one request of each route allocates: for each
//! call stack, the functions whose names contain one of the words, which are separated by commas.

#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use device::{AnyDevice, MemoryDevice};
use net::address::Locals;
use proxy::downstream::handshake::ListenerProtocol;
use proxy::observe::front_kind::FrontKind;
use proxy::observe::observer::Unobserved;
use proxy::options::Options;
use proxy::origin::site::Front;
use proxy::rules::access::Access;
use proxy::{CacheSetup, CacheSource, Control, ListenSocket, Listener, Network, Setup, TokioClock};
use testkit::client::Client;
use testkit::origin::{Origin, Then, ok};

/// Number of requests counted together, after as many that are not counted.
const REQUESTS: u64 = 100;

/// Number of counts per route; the minimum is taken. Work that depends on the clock (the date of
/// each second, writes to the device) adds to some of them, and more on a slow machine.
const ROUNDS: u64 = 8;

/// Additional fields of each request.
const FIELDS: &str = "Accept-Encoding: gzip, deflate, br\r\nAccept: text/html, */*;q=0.8\r\n";

static COUNT: AtomicU64 = AtomicU64::new(0);

/// True if the call stack of each allocation is recorded.
static KEEPS_STACKS: AtomicBool = AtomicBool::new(false);

static STACKS: Mutex<Vec<(usize, Backtrace)>> = Mutex::new(Vec::new());

thread_local! {
    /// Set on the threads of clients and origins.
    static IGNORED: Cell<bool> = const { Cell::new(false) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: usize) {
    if IGNORED.try_with(Cell::get).unwrap_or(true) {
        return;
    }
    COUNT.fetch_add(1, Ordering::Relaxed);
    if KEEPS_STACKS.load(Ordering::Relaxed) {
        IGNORED.set(true);
        STACKS.lock().unwrap().push((bytes, Backtrace::force_capture()));
        IGNORED.set(false);
    }
}

/// Prints where `request` allocates, if the environment asks for it.
fn print_stacks(outcome: &str, request: impl FnOnce()) {
    let Ok(words) = std::env::var("LARDER_STACKS") else { return };
    KEEPS_STACKS.store(true, Ordering::Relaxed);
    request();
    KEEPS_STACKS.store(false, Ordering::Relaxed);
    for (bytes, stack) in STACKS.lock().unwrap().drain(..) {
        let stack = stack.to_string();
        let named = stack.lines().filter(|line| words.split(',').any(|word| line.contains(word)));
        println!("{outcome}: {bytes} bytes");
        named.for_each(|line| println!("    {}", line.trim()));
    }
}

// SAFETY: every call is forwarded to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: the caller upholds the contract.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Starts a forward proxy with one worker and no observer; it ends with the process.
fn start_proxy() -> SocketAddr {
    let device = MemoryDevice::new(256 << 20, 4096);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let format = store::FormatOptions::default();
    runtime.block_on(store::format_with_seed(&device, &format, [7; 48], 1_700_000_000)).unwrap();
    let access = Access::new(FrontKind::Forward, Locals::of_this_machine().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let setup = Setup {
        clock: TokioClock::system(),
        network: Network::System,
        control: Control::new(Options::new(Front::forward(), Arc::new(access))),
        listeners: vec![Listener {
            socket: ListenSocket::Tcp(listener),
            protocol: Arc::new(ListenerProtocol::default()),
        }],
        listener_changes: Default::default(),
        workers: 1,
        observer: Arc::new(Unobserved),
        cache: CacheSource::Now(Box::new(CacheSetup {
            is_doubted: false,
            devices: Box::new(move |_| Ok(vec![Rc::new(AnyDevice::Memory(device.clone()))])),
            options: store::Options { memory: 64 << 20, ..store::Options::default() },
            opened: Box::new(|_| ()),
        })),
        admin: None,
        accepting: Box::new(|| ()),
        fleet: None,
        stream: None,
        released: Box::new(|| ()),
    };
    thread::spawn(move || proxy::run(setup));
    address
}

/// Returns the allocations of one request to `url`: the mean of the round with the fewest.
fn of_each(client: &mut Client, outcome: &str, url: impl Fn(u64) -> String) -> f64 {
    for number in 0..REQUESTS {
        client.get_with(&url(number), FIELDS);
    }
    let counts = (1..=ROUNDS).map(|round| {
        let before = COUNT.load(Ordering::Relaxed);
        for number in round * REQUESTS..(round + 1) * REQUESTS {
            let answer = client.get_with(&url(number), FIELDS);
            assert!(answer.whole && answer.detail() == outcome, "{}", answer.head);
        }
        COUNT.load(Ordering::Relaxed) - before
    });
    let least = counts.min().unwrap();
    print_stacks(outcome, || drop(client.get_with(&url((ROUNDS + 1) * REQUESTS), FIELDS)));
    least as f64 / REQUESTS as f64
}

#[test]
fn a_request_allocates_within_its_bound() {
    IGNORED.set(true);
    let body = "x".repeat(2000);
    let origin = Origin::scripted(move |asked, stream| {
        IGNORED.set(true);
        let fields = match &*asked.path {
            "/private" => "Cache-Control: no-store\r\n",
            "/varied" => "Cache-Control: max-age=600\r\nVary: Accept-Encoding, Accept\r\n",
            _ => "Cache-Control: max-age=600\r\nETag: \"a\"\r\n",
        };
        stream.write_all(ok(fields, &body).as_bytes()).unwrap();
        Then::Stay
    });
    let address = {
        IGNORED.set(false);
        let address = start_proxy();
        IGNORED.set(true);
        address
    };
    let mut client = Client::connect(address);
    let hit = of_each(&mut client, "HIT_RAM", |_| origin.url("/kept"));
    let varied = of_each(&mut client, "HIT_RAM", |_| origin.url("/varied"));
    let passed = of_each(&mut client, "MISS", |_| origin.url("/private"));
    let stored = of_each(&mut client, "MISS", |number| origin.url(&format!("/new/{number}")));
    println!("allocations of a hit: {hit:.1}, on a variant {varied:.1}");
    println!("passed on: {passed:.1}, a miss: {stored:.1}");
    // With a margin for occasional growth.
    assert!(hit < 1.0 && varied < 1.0, "a hit from memory allocates nothing");
    assert!(passed < 18.0 && stored < 38.0, "more than there were");
}
