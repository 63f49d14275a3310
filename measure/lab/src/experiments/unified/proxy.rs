//! The two proxies: Squid 2.4 with DISKD (U8), and Squid 2.3 with UNIFIED, which here is the
//! product's engine (U1 to U6) in a file of the same file system.
//!
//! Both are a single process that handles one request at a time. Squid 2.4 delegates calls to the
//! processes of DISKD and continues meanwhile. Each call costs it a message and a reply, which it
//! notices when the network wakes it, or every ten milliseconds. Squid 2.3 makes its calls itself
//! and waits for disk reads (section 3.1); so does UNIFIED, unless configured otherwise. The file
//! system takes writes into its memory. A stored response has been forwarded when it is stored
//! (section 5.3). Evictions run while no request waits for them.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use device::{Clock, Nanos};
use sim::Handle;
use sim::ffs::{Ffs, FileDevice};
use store::{Lookup, Options, Refusal, Source, Stats, Store, TierShares};
use tokio::sync::{Mutex, Notify};

use super::machine::Machine;
use crate::space::engine;
use crate::space::engine::key;
use crate::space::file_caches::{Diskd, Limits, Machine as FullSize};
use crate::space::manager::{Calls, Read, SpaceError, SpaceManager};
use crate::space::modelled_directory::ModelledFiles;
use workload::contents::Bodies;
use workload::request::{Object, Request};
use workload::two_level::{Operation, TwoLevel};

/// Bytes that the engine stores besides a body: header, key and metadata, and half a slot on
/// average that stays empty at the end.
const RECORD: u64 = 440 + 256;

/// Bytes of a typical body; the overhead of records for it determines the size of the engine's
/// file.
const BODY: u64 = 11_000;

/// Longer than any run.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3_600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    MemoryHit,
    DiskHit,
    Miss,
}

/// Processor times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    pub(super) request: Nanos,
    /// A call delegated to another process: a message, its reply, and the context switches.
    pub(super) message: Nanos,
    /// Delay until the proxy notices the reply to such a call.
    pub(super) notice: Nanos,
}

struct Process {
    clock: Handle,
    turn: Mutex<()>,
}

impl Process {
    async fn compute(&self, time: Nanos) {
        let _turn = self.turn.lock().await;
        self.wait(time).await;
    }

    async fn wait(&self, time: Nanos) {
        self.clock.sleep_until(self.clock.now() + time).await;
    }
}

pub(super) enum Proxy {
    Squid(Box<Squid>),
    Unified(Unified),
}

impl Proxy {
    /// Serves a request; a server that has to be asked takes `delay`.
    pub(super) async fn answer(
        self: &Rc<Self>,
        request: &Request,
        delay: Nanos,
    ) -> Result<Answer, SpaceError> {
        match &**self {
            Proxy::Squid(squid) => squid.answer(request, delay, self).await,
            Proxy::Unified(unified) => unified.answer(request, delay).await,
        }
    }

    /// Returns the calls to the file system so far.
    pub(super) fn calls(&self) -> Calls {
        match self {
            Proxy::Squid(squid) => {
                let calls = squid.manager.calls();
                // Each file begins with a separate write of the object's metadata, into the first
                // block, which costs no disk access.
                Calls { writes: calls.writes + calls.creates, ..calls }
            }
            Proxy::Unified(unified) => {
                let counts = unified.device.counts();
                Calls { reads: counts.reads, writes: counts.writes, ..Calls::default() }
            }
        }
    }

    /// Returns the number of requests to the drives so far.
    pub(super) fn accesses(&self) -> u64 {
        match self {
            Proxy::Squid(squid) => squid.disks.iter().map(|ffs| ffs.counts().requests()).sum(),
            Proxy::Unified(unified) => unified.device.file_system().counts().requests(),
        }
    }

    /// Returns the number of objects that were missing on the disk or could not be stored.
    pub(super) fn lost(&self) -> u64 {
        match self {
            Proxy::Squid(squid) => squid.lost.get(),
            Proxy::Unified(unified) => unified.refused.get(),
        }
    }
}

/// Squid 2.4 with a DISKD process for each cache directory.
pub(super) struct Squid {
    process: Process,
    costs: Costs,
    cache: RefCell<TwoLevel>,
    manager: Diskd<ModelledFiles>,
    /// Objects in use: operations on one object run one after another.
    busy: RefCell<HashSet<u32>>,
    freed: Notify,
    lost: Cell<u64>,
    disks: Vec<Ffs>,
}

impl Squid {
    /// Creates a Squid with empty caches on the drives of `machine`.
    pub(super) async fn new(
        clock: &Handle,
        machine: &Machine,
        costs: Costs,
    ) -> Result<Squid, SpaceError> {
        let disks = machine.file_systems(clock)?;
        let files = disks.iter().cloned().map(ModelledFiles::new);
        let manager = Diskd::new(files, FullSize::CALLS, Limits::default()).await?;
        Ok(Squid {
            process: Process { clock: clock.clone(), turn: Mutex::new(()) },
            costs,
            cache: RefCell::new(TwoLevel::new(machine.memory(), machine.capacity())),
            manager,
            busy: RefCell::default(),
            freed: Notify::new(),
            lost: Cell::new(0),
            disks,
        })
    }

    async fn answer(
        &self,
        request: &Request,
        delay: Nanos,
        proxy: &Rc<Proxy>,
    ) -> Result<Answer, SpaceError> {
        if request.uncacheable {
            self.process.compute(self.costs.request).await;
            self.process.wait(delay).await;
            return Ok(Answer::Miss);
        }
        let mut operations = Vec::new();
        let hits = self.cache.borrow().counts().memory_hits;
        self.cache.borrow_mut().request(request, &mut operations);
        let in_memory = self.cache.borrow().counts().memory_hits > hits;
        let messages: u64 = operations.iter().map(calls).sum();
        self.process.compute(self.costs.request + messages * self.costs.message).await;
        if in_memory {
            return Ok(Answer::MemoryHit);
        }
        let mut answer = Answer::Miss;
        for operation in operations {
            // The close is not waited for.
            let noticed = (calls(&operation) - 1) * self.costs.notice;
            match operation {
                Operation::Delete(object) => {
                    let proxy = Rc::clone(proxy);
                    // An error here occurs again at the next call of the request.
                    drop(self.process.clock.spawn(async move {
                        let Proxy::Squid(squid) = &*proxy else { return };
                        let _claim = squid.lock_object(object.id).await;
                        drop(squid.manager.delete(&object).await);
                    }));
                }
                Operation::Store(object) => {
                    self.process.wait(delay).await;
                    let _claim = self.lock_object(object.id).await;
                    self.manager.store(&object, zeros(object.size)).await?;
                    self.process.wait(noticed).await;
                }
                Operation::Read(object) => {
                    let _claim = self.lock_object(object.id).await;
                    let read = self.manager.read(&object).await?;
                    self.lost.set(self.lost.get() + u64::from(read == Read::Gone));
                    self.process.wait(noticed).await;
                    answer = Answer::DiskHit;
                }
            }
        }
        Ok(answer)
    }

    async fn lock_object(&self, id: u32) -> ObjectLock<'_> {
        while !self.busy.borrow_mut().insert(id) {
            self.freed.notified().await;
        }
        ObjectLock { squid: self, id }
    }
}

/// Exclusive use of an object.
struct ObjectLock<'a> {
    squid: &'a Squid,
    id: u32,
}

impl Drop for ObjectLock<'_> {
    fn drop(&mut self) {
        self.squid.busy.borrow_mut().remove(&self.id);
        self.squid.freed.notify_waiters();
    }
}

/// Returns the number of calls of an operation.
fn calls(operation: &Operation) -> u64 {
    match operation {
        Operation::Delete(_) => 1,
        Operation::Store(Object { size, .. }) => 3 + size.div_ceil(FullSize::CALLS.write),
        Operation::Read(Object { size, .. }) => 2 + size.div_ceil(FullSize::CALLS.read),
    }
}

/// Returns `len` zero bytes; the model uses lengths only.
fn zeros(len: u64) -> Bytes {
    static ZEROS: [u8; 1 << 20] = [0; 1 << 20];
    match ZEROS.get(..len as usize) {
        Some(zeros) => Bytes::from_static(zeros),
        None => vec![0; len as usize].into(),
    }
}

/// Squid 2.3 with UNIFIED: the product's engine.
pub(super) struct Unified {
    process: Process,
    costs: Costs,
    /// True if the process is blocked while it reads.
    blocks: bool,
    device: Rc<FileDevice>,
    store: Store<FileDevice, Handle>,
    refused: Cell<u64>,
}

impl Unified {
    /// Creates an empty cache in one file on the drives of `machine`.
    pub(super) async fn new(
        clock: &Handle,
        machine: &Machine,
        costs: Costs,
        blocks: bool,
    ) -> Result<Unified, SpaceError> {
        let error = |what: &dyn std::fmt::Display| SpaceError::Engine(what.to_string());
        let preset = store::preset("unified").ok_or_else(|| error(&"no preset `unified`"))?;
        let mut options = Options {
            // A single list, as in Squid.
            tier_shares: TierShares { hot: 0, medium: 90 },
            // New objects wait for space; an empty cache is scanned before the run begins.
            stall_bound: NEVER,
            // Writes are whole chunks; the host handles pages.
            write_page: 512,
            recovery_wait: NEVER,
            memory: 2 * machine.memory() + (8 << 20),
            ..preset.options.clone()
        };
        let fill = u64::from(options.fill_percent.unwrap_or(90));
        let objects = machine.capacity() * (BODY + RECORD) / BODY * 100 / fill;
        let len = (objects * 102 / 100 + (1 << 20)).next_multiple_of(8_192);
        let ffs = machine.striped(clock)?;
        let file = FileDevice::preallocate(&ffs, "cache", len);
        let device = Rc::new(file.map_err(|error| SpaceError::file("make", "cache", error))?);
        let open = |options: &Options| {
            engine::create(Rc::clone(&device), clock.clone(), &preset.format, options.clone())
        };
        // Other memory grows in proportion, so the second iteration is exact.
        for _ in 0..2 {
            let stats = open(&options).await?.stats();
            let tier = stats.first().map_or(0, |stats: &Stats| stats.tier_capacity as i64);
            let missing = (machine.memory() as i64 - tier) * 8 / 5;
            options.memory = options.memory.saturating_add_signed(missing);
        }
        let store = open(&options).await?;
        let background = store.clone();
        drop(clock.spawn(async move { background.run_background().await }));
        let process = Process { clock: clock.clone(), turn: Mutex::new(()) };
        Ok(Unified { process, costs, blocks, device, store, refused: Cell::new(0) })
    }

    async fn answer(&self, request: &Request, delay: Nanos) -> Result<Answer, SpaceError> {
        let mut turn = Some(self.process.turn.lock().await);
        self.process.wait(self.costs.request).await;
        if !self.blocks {
            turn = None;
        }
        if !request.uncacheable {
            match self.find(request).await? {
                Some(Source::Ram) => return Ok(Answer::MemoryHit),
                Some(Source::Disk) => return Ok(Answer::DiskHit),
                None => {}
            }
        }
        drop(turn);
        self.process.wait(delay).await;
        if !request.uncacheable {
            // The file system's memory takes it; no request waits for the disk.
            match self.keep(request).await {
                Ok(()) => {}
                Err(Refusal::Offline) => {
                    return Err(SpaceError::Engine("its device was given up".to_owned()));
                }
                Err(_) => self.refused.set(self.refused.get() + 1),
            }
        }
        Ok(Answer::Miss)
    }

    /// Looks up the current version; returns where it was found.
    async fn find(&self, request: &Request) -> Result<Option<Source>, SpaceError> {
        let object = request.object();
        let Lookup::Hit(entry) = self.store.lookup(&key(&object)).await else { return Ok(None) };
        let is_there = entry.stamp() == object.version && engine::read(&entry, &object).await?;
        Ok(is_there.then(|| entry.source()))
    }

    async fn keep(&self, request: &Request) -> Result<(), Refusal> {
        let object = request.object();
        let body = Bodies::Elided.parts(&object, usize::MAX);
        engine::insert(&self.store, &key(&object), &object, body).await
    }
}
