//! A store on a memory device, with an executor of one thread and a clock that moves only when
//! everything waits for it: hours of the store pass in milliseconds, and the same seed gives the
//! same run.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use device::{ManualClock, MemoryDevice};
use larder_store::{
    Entry, FetchToken, FormatOptions, LayoutName, LocalityOptions, Lookup, OpenError, Options,
    ReadError, Refusal, Store, WritePolicy,
};
pub use store_oracle::LookupResult;
use store_oracle::{Client, End, History, State, key};

use crate::probe::Probe;

pub type TestStore = Store<Probe, ManualClock>;
pub type TestEntry = Entry<Probe, ManualClock>;

/// Wall-clock time at the start, in Unix seconds.
const START: u64 = 1_700_000_000;

/// The process was killed: everything that the device accepted remains.
pub const KILL: End = End { power: false, given_up: false };
/// Power was lost: data that were not flushed may be lost, wholly or in part.
pub const POWER: End = End { power: true, given_up: false };
/// The device failed: the store may have given it up.
pub const FAILURE: End = End { power: false, given_up: true };

/// A running store, its clock and the history of its operations.
pub struct Rig {
    background: Background,
    client: Client<Probe, ManualClock>,
    pub probe: Probe,
    pub clock: ManualClock,
    pub store: TestStore,
    pub history: Rc<RefCell<History>>,
    options: Options,
}

thread_local! {
    /// Layout and packet of this test's caches.
    static LAYOUT: Cell<(LayoutName, u32)> = const { Cell::new((LayoutName::Cluster, 0)) };
    /// Locality buffers of this test's caches.
    static LOCALITY: Cell<Option<LocalityOptions>> = const { Cell::new(None) };
}

/// Sets the layout of this test's caches from now on, and the bytes of their packets.
pub fn use_layout(layout: LayoutName, packet: u32) {
    LAYOUT.set((layout, packet));
}

/// Returns the layout of this test's caches.
pub fn layout() -> LayoutName {
    LAYOUT.get().0
}

/// Gives this test's caches locality buffers from now on.
pub fn use_locality() {
    LOCALITY.set(Some(LocalityOptions { buffers: 8, bytes: 16 << 10 }));
}

/// Returns how many crash points there are for each one tried: a slot space writes more often and
/// takes longer to check.
pub fn rarity() -> u32 {
    if LAYOUT.get().0 == LayoutName::Cluster { 1 } else { 8 }
}

/// Returns the number of seeds for a long test: fewer on a slot space, for the same reason.
pub fn fewer(seeds: usize) -> usize {
    if LAYOUT.get().0 == LayoutName::Cluster { seeds } else { seeds.div_ceil(4) }
}

/// Returns a memory device with a new cache.
pub fn formatted(len: u64, cluster_size: u32) -> MemoryDevice {
    // A slot space is read completely after a crash, so keep it small.
    let len = if LAYOUT.get().0 == LayoutName::Cluster { len } else { len.min(24 << 20) };
    let memory = MemoryDevice::new(len, 512);
    let format = FormatOptions {
        layout: LAYOUT.get().0,
        cluster_size: Some(cluster_size),
        ..FormatOptions::default()
    };
    let formatting = larder_store::format_with_seed(&memory, &format, [7; 48], START);
    now_or_never(formatting).unwrap();
    memory
}

/// Returns the default options with little memory.
pub fn product() -> Options {
    let (packet, locality) = (LAYOUT.get().1, LOCALITY.get());
    Options { memory: 2 << 20, packet, locality, ..Options::default() }
}

/// Returns the options of the UCFS paper, with objects of any size.
pub fn ucfs() -> Options {
    Options { memory: 2 << 20, object_max: None, packet: LAYOUT.get().1, ..Options::ucfs() }
}

impl Rig {
    /// Opens the cache on `memory`.
    pub fn open(memory: MemoryDevice, options: Options) -> Rig {
        Rig::open_probe(Probe::new(memory), options, START).unwrap()
    }

    /// Opens the cache on a device with a probe.
    pub fn open_probe(probe: Probe, options: Options, unix_seconds: u64) -> Result<Rig, OpenError> {
        let clock = ManualClock::new(unix_seconds);
        let devices = vec![Rc::new(probe.clone())];
        let opening = Store::open(devices, clock.clone(), options.clone());
        let opened = drive(&mut Background::none(), &clock, opening);
        let store = opened.map_err(|error| error.reason)?;
        let running = store.clone();
        let background = Background::new(async move { running.run_background().await });
        let history = Rc::clone(&probe.history);
        let client = Client {
            store: store.clone(),
            history: Rc::clone(&history),
            clock: clock.clone(),
            random: fastrand::Rng::with_seed(1),
            own: Vec::new(),
            all: 0,
            steady: true,
        };
        Ok(Rig { background, client, probe, clock, store, history, options })
    }

    /// Opens the cache that a crash left on `memory`, with the history up to then.
    pub fn after_crash(memory: MemoryDevice, options: Options, history: &History, end: End) -> Rig {
        let rig = Rig::open(memory, options);
        rig.history.replace(history.after(end));
        rig
    }

    /// Looks up every key of the history, which then contains exactly the states found.
    pub fn adopt(&mut self) {
        for number in self.keys() {
            let seen = self.look(number);
            let mut history = self.history.borrow_mut();
            match seen {
                LookupResult::Nothing => history.found(number, None),
                LookupResult::Whole(state) => history.found(number, Some(state)),
                // Its missing pieces may or may not be found the next time.
                LookupResult::Cut(state) => _ = history.store(state),
            }
        }
        self.settle_durably();
    }

    /// Returns the keys of the history.
    pub fn keys(&self) -> Vec<u32> {
        self.history.borrow().keys()
    }

    /// Returns the state that a lookup must find now, unless it was evicted.
    pub fn current(&self, number: u32) -> Option<State> {
        self.history.borrow().current(number)
    }

    /// Drives `future` to its end. Advances the clock when everything waits for it.
    pub fn run<T>(&mut self, future: impl Future<Output = T>) -> T {
        drive(&mut self.background, &self.clock, future)
    }

    /// Polls `future` `polls` times, with everything else running in between, and drops it.
    pub fn drop_after<T>(&mut self, polls: u32, future: impl Future<Output = T>) {
        let mut future = pin!(future);
        for _ in 0..polls {
            if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                break;
            }
            self.background.run();
        }
    }

    /// Looks the key up and calls `meanwhile` while the read of the lookup is under way.
    pub fn look_while(&mut self, number: u32, meanwhile: impl FnOnce(&mut Rig)) -> LookupResult {
        let (store, wanted) = (self.store.clone(), key(number));
        self.probe.watch.stall_read();
        let mut lookup = Box::pin(store.lookup(&wanted));
        let polled = lookup.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "the lookup needs a read");
        meanwhile(self);
        self.probe.watch.resume_read();
        match self.run(lookup) {
            Lookup::Hit(entry) => self.verify(number, &entry),
            Lookup::Miss => LookupResult::Nothing,
        }
    }

    /// Advances the clock by `time` and runs everything that is due.
    pub fn pass(&mut self, time: Duration) {
        let end = device::Clock::now(&self.clock) + time.as_nanos() as u64;
        self.background.run();
        let mut waits = 0;
        while let Some(next) = self.clock.next_deadline().filter(|next| *next <= end) {
            waits += 1;
            assert!(waits < 100_000, "the background waits for what has passed");
            self.clock.advance(next.saturating_sub(device::Clock::now(&self.clock)));
            self.background.run();
        }
        self.clock.advance(end - device::Clock::now(&self.clock));
        self.background.run();
    }

    /// Waits until all writes have reached the device.
    pub fn settle(&mut self) {
        self.pass(self.options.durability_bound * 3);
        if self.options.write_policy == WritePolicy::OnInsert {
            self.history.borrow_mut().settle();
        }
    }

    /// Waits until all writes are durable.
    pub fn settle_durably(&mut self) {
        self.settle();
        self.pass(self.options.flush_interval * 2);
    }

    /// Stops the store in order and returns the device, which has the history.
    pub fn stop(mut self) -> Probe {
        let store = self.store.clone();
        self.run(store.shutdown());
        let mut history = self.history.borrow_mut();
        history.settle();
        let begin = history.stamp();
        history.flushed(begin);
        self.probe
    }

    /// Stops the store in order and opens it again.
    pub fn reopen(self) -> Rig {
        let options = self.options.clone();
        let now = device::Clock::unix_seconds(&self.clock);
        Rig::open_probe(self.stop(), options, now).unwrap()
    }

    /// Returns the state that the next insertion under `key` makes.
    pub fn next_state(&mut self, key: u32, len: u64) -> State {
        self.history.borrow_mut().next_state(key, len)
    }

    /// Runs an operation of the client.
    fn client<T>(&mut self, does: impl AsyncFnOnce(&mut Client<Probe, ManualClock>) -> T) -> T {
        drive(&mut self.background, &self.clock, does(&mut self.client))
    }

    /// Stores a new body of `len` bytes under the key with this number.
    pub fn insert(&mut self, number: u32, len: u64) -> Result<State, Refusal> {
        self.client(async |client| client.insert(number, len).await)
    }

    /// Stores `state` with a token that may be older.
    pub fn insert_with(&mut self, token: &FetchToken, state: State) -> Result<(), Refusal> {
        self.client(async |client| client.insert_with(token, state).await)
    }

    /// Begins to store a body and gives up half-way.
    pub fn abort(&mut self, number: u32, len: u64) {
        self.client(async |client| client.abort(number, len).await);
    }

    /// Replaces the metadata of the object under the key, if there is one.
    pub fn refresh(&mut self, number: u32) -> Result<Option<State>, Refusal> {
        let token = self.store.begin_fetch(&key(number));
        let Some(entry) = self.entry(number) else { return Ok(None) };
        self.refresh_entry(&token, &entry)
    }

    /// Replaces the metadata of `entry`.
    pub fn refresh_entry(
        &mut self,
        token: &FetchToken,
        entry: &TestEntry,
    ) -> Result<Option<State>, Refusal> {
        let old = State::from_meta(entry.meta()).unwrap();
        self.client(async |client| client.refresh_entry(token, entry, old).await).map(Some)
    }

    pub fn remove(&mut self, number: u32) -> bool {
        self.client(async |client| client.remove(number).await)
    }

    pub fn purge(&mut self, number: u32) -> Result<bool, Refusal> {
        self.client(async |client| client.purge(number).await)
    }

    /// Removes the key as the response to an unsafe request does.
    pub fn invalidate(&mut self, number: u32) -> Result<(), Refusal> {
        self.client(async |client| client.invalidate(number).await)
    }

    /// Returns the entry under the key.
    pub fn entry(&mut self, number: u32) -> Option<TestEntry> {
        let store = self.store.clone();
        match self.run(store.lookup(&key(number))) {
            Lookup::Hit(entry) => Some(entry),
            Lookup::Miss => None,
        }
    }

    /// Looks the key up and verifies every byte.
    pub fn look(&mut self, number: u32) -> LookupResult {
        let Some(entry) = self.entry(number) else { return LookupResult::Nothing };
        self.verify(number, &entry)
    }

    /// Reads all of an entry and verifies every byte.
    pub fn verify(&mut self, number: u32, entry: &TestEntry) -> LookupResult {
        let state = store_oracle::state_of(entry, number).unwrap();
        self.run(store_oracle::read_whole(entry, state)).unwrap()
    }

    /// Reads a range of an entry and verifies it; returns false if it was cut short.
    pub fn read(&mut self, entry: &TestEntry, state: State, range: std::ops::Range<u64>) -> bool {
        self.run(store_oracle::read(entry, state, range)).unwrap()
    }

    /// Checks that every object found is the current one; with `all`, that every one is found.
    pub fn check_all(&mut self, all: bool) {
        for number in self.keys() {
            let seen = self.look(number);
            let current = self.current(number);
            assert!(seen.state().is_none_or(|seen| Some(seen) == current), "{seen:?}, {current:?}");
            let complete = current.map_or(LookupResult::Nothing, LookupResult::Whole);
            assert!(!all || seen == complete, "{seen:?} instead of {current:?}");
        }
    }
}

/// Returns the value of a future that waits only for a memory device.
pub fn now_or_never<T>(future: impl Future<Output = T>) -> T {
    drive(&mut Background::none(), &ManualClock::new(START), future)
}

pub async fn collect(entry: &TestEntry, range: std::ops::Range<u64>) -> (Bytes, Option<ReadError>) {
    let mut body = entry.body(range);
    let mut bytes = BytesMut::new();
    while let Some(chunk) = body.next().await {
        match chunk {
            Ok(chunk) => bytes.extend_from_slice(&chunk),
            Err(error) => return (bytes.freeze(), Some(error)),
        }
    }
    (bytes.freeze(), None)
}

/// A future that is polled only when it was woken.
struct Background {
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    woken: Arc<Flag>,
}

impl Background {
    fn none() -> Background {
        Background { future: None, woken: Flag::raised() }
    }

    fn new(future: impl Future<Output = ()> + 'static) -> Background {
        Background { future: Some(Box::pin(future)), woken: Flag::raised() }
    }

    /// Polls it once; returns false if it waits or has ended.
    fn step(&mut self) -> bool {
        let Some(future) = self.future.as_mut().filter(|_| self.woken.lower()) else {
            return false;
        };
        let waker = Waker::from(Arc::clone(&self.woken));
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            self.future = None;
        }
        true
    }

    fn run(&mut self) {
        let steps = (0..100_000).take_while(|_| self.step()).count();
        assert!(steps < 100_000, "the background spins");
    }
}

struct Flag(AtomicBool);

impl Flag {
    fn raised() -> Arc<Flag> {
        Arc::new(Flag(AtomicBool::new(true)))
    }

    /// Returns whether it was raised since the last call.
    fn lower(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Polls `future` and the background when they are woken, and advances the clock when neither is.
/// Panics when nothing can go on.
fn drive<T>(
    background: &mut Background,
    clock: &ManualClock,
    future: impl Future<Output = T>,
) -> T {
    let mut future = pin!(future);
    let woken = Flag::raised();
    let waker = Waker::from(Arc::clone(&woken));
    let start = device::Clock::now(clock);
    loop {
        let polled = woken.lower();
        if polled && let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker))
        {
            return value;
        }
        if background.step() || polled {
            continue;
        }
        let now = device::Clock::now(clock);
        assert!(now - start < 3_600_000_000_000, "nothing came of it in an hour");
        let next = clock.next_deadline().expect("everything waits, and nothing for the clock");
        clock.advance(next.saturating_sub(now));
    }
}
