//! A store on a memory device, with an executor of one thread and a clock that moves only when
//! everything waits for it: hours of the store pass in milliseconds, and the same seed gives the
//! same run.

use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use device::{ManualClock, MemoryDevice};
use store::{
    Entry, FetchToken, FormatOptions, Hint, LayoutName, LocalityOptions, Lookup, OpenError,
    Options, ReadError, Refusal, Store, WritePolicy,
};

use crate::content::{State, key};
use crate::history::History;
use crate::probe::Probe;

pub type TestStore = Store<Probe, ManualClock>;
pub type TestEntry = Entry<Probe, ManualClock>;

/// The clock's start.
const START: u64 = 1_700_000_000;
/// A body is written in chunks of this many bytes.
const CHUNK: usize = 10_000;

/// What a lookup found, verified byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Nothing,
    /// The whole object.
    Whole(State),
    /// Its head and a part of its body; then an error.
    Cut(State),
}

impl Seen {
    pub fn state(self) -> Option<State> {
        match self {
            Seen::Nothing => None,
            Seen::Whole(state) | Seen::Cut(state) => Some(state),
        }
    }
}

/// A running store, its clock and what was asked of it.
pub struct Rig {
    background: Background,
    pub probe: Probe,
    pub clock: ManualClock,
    pub store: TestStore,
    pub history: History,
    options: Options,
}

thread_local! {
    /// The layout and packet that this test's caches have.
    static LAYOUT: Cell<(LayoutName, u32)> = const { Cell::new((LayoutName::Cluster, 0)) };
    /// Its locality buffers.
    static LOCALITY: Cell<Option<LocalityOptions>> = const { Cell::new(None) };
}

/// From here on this test's caches have this layout, and packets of so many bytes.
pub fn use_layout(layout: LayoutName, packet: u32) {
    LAYOUT.set((layout, packet));
}

/// The layout of this test's caches.
pub fn layout() -> LayoutName {
    LAYOUT.get().0
}

/// From here on this test's caches have locality buffers.
pub fn use_locality() {
    LOCALITY.set(Some(LocalityOptions { buffers: 8, bytes: 16 << 10 }));
}

/// Of so many points at which it may crash, a cache crashes at one: a slot space writes more often,
/// and takes longer to look through.
pub fn rarity() -> u32 {
    if LAYOUT.get().0 == LayoutName::Cluster { 1 } else { 8 }
}

/// So many seeds of a long test, or some of them where it takes longer, for the same reason.
pub fn fewer(seeds: usize) -> usize {
    if LAYOUT.get().0 == LayoutName::Cluster { seeds } else { seeds.div_ceil(4) }
}

/// A memory device with a new cache on it.
pub fn formatted(len: u64, cluster_size: u32) -> MemoryDevice {
    // A slot space is read whole after a crash: a smaller one tells as much in less time.
    let len = if LAYOUT.get().0 == LayoutName::Cluster { len } else { len.min(24 << 20) };
    let memory = MemoryDevice::new(len, 512);
    let format = FormatOptions {
        layout: LAYOUT.get().0,
        cluster_size: Some(cluster_size),
        ..FormatOptions::default()
    };
    let formatting = store::format_with_seed(&memory, &format, [7; 48], START);
    now_or_never(formatting).unwrap();
    memory
}

/// The product's options with the memory of a small machine.
pub fn product() -> Options {
    let (packet, locality) = (LAYOUT.get().1, LOCALITY.get());
    Options { memory: 2 << 20, packet, locality, ..Options::default() }
}

/// The paper's, but with objects of any size.
pub fn ucfs() -> Options {
    Options { memory: 2 << 20, object_max: None, packet: LAYOUT.get().1, ..Options::ucfs() }
}

impl Rig {
    /// Opens the cache on `memory`.
    pub fn open(memory: MemoryDevice, options: Options) -> Rig {
        Rig::open_probe(Probe::new(memory), options, START).unwrap()
    }

    /// Opens the cache on a device that is watched already.
    pub fn open_probe(probe: Probe, options: Options, unix_seconds: u64) -> Result<Rig, OpenError> {
        let clock = ManualClock::new(unix_seconds);
        let devices = vec![Rc::new(probe.clone())];
        let opening = Store::open(devices, clock.clone(), options.clone());
        let opened = drive(&mut Background::none(), &clock, opening);
        let store = opened.map_err(|error| error.reason)?;
        let running = store.clone();
        let background = Background::new(async move { running.run_background().await });
        let history = History::default();
        Ok(Rig { background, probe, clock, store, history, options })
    }

    /// Takes over the history of a store that crashed: what is found now is what counts, and what
    /// is not may never come back.
    pub fn adopt(&mut self, crashed: &History) {
        self.history.version = self.history.version.max(crashed.version);
        for number in crashed.keys() {
            let (seen, now) = (self.look(number), self.probe.watch.stamp());
            match seen {
                Seen::Nothing => {
                    let begun = self.history.purge(number, now);
                    self.history.returned(begun, now);
                }
                Seen::Whole(state) => {
                    let begun = self.history.store(state, now);
                    self.history.returned(begun, now);
                }
                // Its missing pieces may or may not be found the next time.
                Seen::Cut(state) => _ = self.history.store(state, now),
            }
        }
        self.settle_durably();
    }

    /// Drives `future` to its end, moving the clock whenever everything waits for it.
    pub fn run<T>(&mut self, future: impl Future<Output = T>) -> T {
        drive(&mut self.background, &self.clock, future)
    }

    /// Polls `future` so often, letting everything else run in between, and drops it.
    pub fn drop_after<T>(&mut self, polls: u32, future: impl Future<Output = T>) {
        let mut future = pin!(future);
        for _ in 0..polls {
            if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                break;
            }
            self.background.run();
        }
    }

    /// Begins to look the key up, does `meanwhile` while its read is under way, then lets the
    /// read go on.
    pub fn look_while(&mut self, number: u32, meanwhile: impl FnOnce(&mut Rig)) -> Seen {
        let (store, wanted) = (self.store.clone(), key(number));
        self.probe.watch.stall_read();
        let mut lookup = Box::pin(store.lookup(&wanted));
        let polled = lookup.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "the lookup needs a read");
        meanwhile(self);
        self.probe.watch.resume_read();
        match self.run(lookup) {
            Lookup::Hit(entry) => self.verify(number, &entry),
            Lookup::Miss => Seen::Nothing,
        }
    }

    /// Lets time pass, and everything that is due happen.
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

    /// Lets everything that was done reach the device.
    pub fn settle(&mut self) {
        self.pass(self.options.durability_bound * 3);
        let now = self.probe.watch.stamp();
        if self.options.write_policy == WritePolicy::OnInsert {
            self.history.settle(now);
        }
    }

    /// Lets everything that was done become durable.
    pub fn settle_durably(&mut self) {
        self.settle();
        self.pass(self.options.flush_interval * 2);
    }

    /// Ends in good order, and leaves the device.
    pub fn stop(mut self) -> (Probe, History) {
        let store = self.store.clone();
        self.run(store.shutdown());
        let now = self.probe.watch.stamp();
        self.history.settle(now);
        self.probe.watch.count_as_flushed(now);
        (self.probe, self.history)
    }

    /// Ends in good order and starts again.
    pub fn reopen(self) -> Rig {
        let options = self.options.clone();
        let now = device::Clock::unix_seconds(&self.clock);
        let (probe, history) = self.stop();
        let mut rig = Rig::open_probe(probe, options, now).unwrap();
        rig.history = history;
        rig
    }

    /// The state that the next insertion under `key` makes.
    pub fn next_state(&mut self, key: u32, len: u64) -> State {
        self.history.version += 1;
        State { key, version: self.history.version, meta: 0, len }
    }

    /// Stores a new body of `len` bytes under the key with this number.
    pub fn insert(&mut self, number: u32, len: u64) -> Result<State, Refusal> {
        let state = self.next_state(number, len);
        let token = self.store.begin_fetch(&key(number));
        self.insert_with(&token, state).map(|()| state)
    }

    /// Stores `state` with a token that may be older.
    pub fn insert_with(&mut self, token: &FetchToken, state: State) -> Result<(), Refusal> {
        let begun = self.history.store(state, self.probe.watch.stamp());
        let store = self.store.clone();
        let result = self.run(insert(&store, token, state));
        match result {
            Ok(()) => self.history.returned(begun, self.probe.watch.stamp()),
            Err(_) => self.history.refused(begun),
        }
        result
    }

    /// Begins to store a body, and gives up half-way.
    pub fn abort(&mut self, number: u32, len: u64) {
        let state = self.next_state(number, len);
        let store = self.store.clone();
        self.run(async {
            let key = key(number);
            let token = store.begin_fetch(&key);
            let hint = Hint::default();
            if let Ok(mut writer) = store.insert(&token, &key, state.meta_bytes(), hint).await {
                _ = writer.write(state.body().slice(..len as usize / 2)).await;
            }
        });
    }

    /// Replaces the metadata of what is under the key, if anything is.
    pub fn refresh(&mut self, number: u32) -> Result<Option<State>, Refusal> {
        let store = self.store.clone();
        let token = store.begin_fetch(&key(number));
        let Lookup::Hit(entry) = self.run(store.lookup(&key(number))) else { return Ok(None) };
        self.refresh_entry(&token, &entry)
    }

    /// Replaces the metadata of `entry`.
    pub fn refresh_entry(
        &mut self,
        token: &FetchToken,
        entry: &TestEntry,
    ) -> Result<Option<State>, Refusal> {
        let old = State::from_meta(entry.meta());
        let state = State { meta: old.meta + 1, ..old };
        let begun = self.history.refresh(state, self.probe.watch.stamp());
        let (store, meta) = (self.store.clone(), state.meta_bytes());
        let result = self.run(store.replace_meta(token, &key(old.key), entry, meta));
        match result {
            Ok(()) => self.history.returned(begun, self.probe.watch.stamp()),
            Err(_) => self.history.refused(begun),
        }
        result.map(|()| Some(state))
    }

    pub fn remove(&mut self, number: u32) -> bool {
        let begun = self.history.remove(number, self.probe.watch.stamp());
        let store = self.store.clone();
        let removed = self.run(store.remove(&key(number)));
        self.history.returned(begun, self.probe.watch.stamp());
        removed
    }

    pub fn purge(&mut self, number: u32) -> Result<bool, Refusal> {
        let begun = self.history.purge(number, self.probe.watch.stamp());
        let store = self.store.clone();
        let result = self.run(store.purge(&key(number)));
        // A purge that failed has removed the object from memory; it may come back, or not.
        if result.is_ok() {
            self.history.returned(begun, self.probe.watch.stamp());
        }
        result
    }

    /// Removes the key as the answer to an unsafe request does.
    pub fn invalidate(&mut self, number: u32) -> Result<(), Refusal> {
        let begun = self.history.purge(number, self.probe.watch.stamp());
        let store = self.store.clone();
        let result = self.run(async { store.invalidate(&[key(number)], None).await });
        if result.is_ok() {
            self.history.returned(begun, self.probe.watch.stamp());
        }
        result
    }

    /// The entry under the key.
    pub fn entry(&mut self, number: u32) -> Option<TestEntry> {
        let store = self.store.clone();
        match self.run(store.lookup(&key(number))) {
            Lookup::Hit(entry) => Some(entry),
            Lookup::Miss => None,
        }
    }

    /// What is under the key, every byte verified.
    pub fn look(&mut self, number: u32) -> Seen {
        let Some(entry) = self.entry(number) else { return Seen::Nothing };
        self.verify(number, &entry)
    }

    /// Reads all of an entry and verifies every byte.
    pub fn verify(&mut self, number: u32, entry: &TestEntry) -> Seen {
        let state = State::from_meta(entry.meta());
        assert_eq!((state.key, state.len), (number, entry.len()), "the object of another key");
        if self.read(entry, state, 0..state.len) { Seen::Whole(state) } else { Seen::Cut(state) }
    }

    /// Reads a range of an entry and verifies it; false when it was cut short.
    pub fn read(&mut self, entry: &TestEntry, state: State, range: std::ops::Range<u64>) -> bool {
        let expected = state.body().slice(range.start as usize..range.end as usize);
        let (bytes, error) = self.run(collect(entry, range));
        assert_eq!(bytes, expected[..bytes.len()], "a wrong byte of {state:?}");
        assert_eq!(error.is_none(), bytes.len() == expected.len(), "a silent end of {state:?}");
        error.is_none()
    }

    /// Checks every key against the present: what is found is current; with `all`, it is found.
    pub fn check_all(&mut self, all: bool) {
        for number in self.history.keys().collect::<Vec<_>>() {
            let seen = self.look(number);
            let current = self.history.current(number);
            assert!(seen.state().is_none_or(|seen| Some(seen) == current), "{seen:?}, {current:?}");
            let complete = current.map_or(Seen::Nothing, Seen::Whole);
            assert!(!all || seen == complete, "{seen:?} instead of {current:?}");
        }
    }
}

/// The value of a future that waits for nothing but a memory device.
pub fn now_or_never<T>(future: impl Future<Output = T>) -> T {
    drive(&mut Background::none(), &ManualClock::new(START), future)
}

async fn insert(store: &TestStore, token: &FetchToken, state: State) -> Result<(), Refusal> {
    // Every other insertion knows its length before.
    let size = state.version.is_multiple_of(2).then_some(state.len);
    let hint = Hint { size, ..Hint::default() };
    let mut writer = store.insert(token, &key(state.key), state.meta_bytes(), hint).await?;
    let mut body = state.body();
    while !body.is_empty() {
        writer.write(body.split_to(CHUNK.min(body.len()))).await?;
    }
    writer.commit().await
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

    /// Polls it once; false when it waits or has ended.
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

    /// True when it was raised since the last time.
    fn lower(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Polls `future` and the background in turns, whichever was woken; when neither was, moves the
/// clock. Panics when nothing can move any more.
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
        let next = clock.next_deadline().expect("everything waits, and nobody for the clock");
        clock.advance(next.saturating_sub(now));
    }
}
