//! A cache on a simulated disk under a stream of requests, as fast as the processor permits.
//!
//! The engine is the product's, with everything it decides: index, memory tier, layout, eviction,
//! read queue, journal and recovery; the drive is a model of `sim`; time is virtual. A request is
//! a lookup, and after a miss the insertion of what was not found, as from an origin that answers
//! at once. Requests come one after another at a fixed distance (an open loop), however long the
//! disk takes; only so many may be under way, and who comes then waits.
//!
//! It promises: equal parameters and requests give the same history, step by step; every body that
//! the engine hands out is checked.

pub(crate) mod clients;
mod requests;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use device::{Clock, Counts, Nanos};
use sim::drives::Drive;
use sim::{Executor, FaultPlan, Handle, SimDisk};
use store::{Content, FormatOptions, Hint, Key, Lookup, Options, Refusal, Source, Stats, Store};

use crate::workload::contents;
use crate::workload::contents::mix;
use crate::workload::request::Object;
use clients::Lanes;
pub use requests::{Popularity, Population, Trace};

/// Wall time of the beginning, in unix seconds.
const START: u64 = 1_700_000_000;
/// The metadata of every object: about as much as the head of an answer takes.
const META: &[u8] = &[b'm'; 300];

/// What bodies are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bodies {
    /// Bytes that follow from the object: copied, checksummed, stored, read back and compared.
    Bytes,
    /// A length and an id ([`store::Content`]): the same decisions and the same requests to the
    /// device, without the copying, checksumming and comparing of bytes.
    Elided,
}

impl Bodies {
    /// The body of `object`.
    fn of(self, object: &Object) -> Content {
        match self {
            Bodies::Bytes => contents::body(object).into(),
            Bodies::Elided => Content::Elided { id: content_id(object), len: object.size as usize },
        }
    }
}

/// Where the bytes of an object begin, far from those of any other.
fn content_id(object: &Object) -> u64 {
    mix(u64::from(object.id) << 32 | u64::from(object.version))
}

/// What is simulated.
#[derive(Clone)]
pub struct Parameters {
    /// Chooses which of several tasks goes first and which of two simultaneous events; `None`: the
    /// one that came first.
    pub seed: Option<u64>,
    /// How the engine works.
    pub options: Options,
    /// How its cache is laid out.
    pub format: FormatOptions,
    /// Bytes of the device.
    pub len: u64,
    /// What bodies are made of.
    pub bodies: Bodies,
    /// Virtual nanoseconds between two requests.
    pub interval: Nanos,
    /// Requests that may be under way at a time.
    pub under_way: usize,
}

/// What came of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests.
    pub requests: u64,
    /// Answered from memory.
    pub memory_hits: u64,
    /// Answered by the disk.
    pub disk_hits: u64,
    /// Not found.
    pub misses: u64,
    /// Of those, stored.
    pub stored: u64,
    /// Of those, refused.
    pub refused: u64,
    /// Hits whose body was lost on the way out.
    pub cut: u64,
    /// Bytes of bodies that were handed out.
    pub bytes: u64,
    /// Virtual nanoseconds of all requests from arrival to answer, added up.
    pub latency: u64,
}

impl Tally {
    /// The share of requests that were hits, 0 to 1.
    pub fn hit_ratio(&self) -> f64 {
        (self.memory_hits + self.disk_hits) as f64 / self.requests.max(1) as f64
    }

    /// The share of requests that read the disk or brought something to be written to it, 0 to 1.
    pub fn disk_share(&self) -> f64 {
        (self.disk_hits + self.misses) as f64 / self.requests.max(1) as f64
    }
}

/// See the module.
pub struct Simulation {
    executor: Executor,
    disk: SimDisk,
    server: Rc<Server>,
}

/// What the lanes share.
struct Server {
    clock: Handle,
    store: Store<SimDisk, Handle>,
    bodies: Bodies,
    population: Population,
    tally: Cell<Tally>,
    wrong: RefCell<Option<String>>,
}

impl Simulation {
    /// An empty cache on `drive` for the objects of `population`.
    ///
    /// # Errors
    /// The parameters do not fit the device.
    pub fn new(
        parameters: &Parameters,
        drive: Box<dyn Drive>,
        population: Population,
    ) -> Result<Simulation, String> {
        let executor = Executor::new(parameters.seed, START);
        let clock = executor.handle();
        let options = sim::Options {
            block: 4096,
            len: Some(parameters.len),
            power_loss: false,
            ..sim::Options::default()
        };
        let disk = SimDisk::new(clock.clone(), drive, options);
        let device = Rc::new(disk.clone());
        let options = parameters.options.clone();
        let format = FormatOptions {
            memory: options.memory,
            superblock_far: false,
            labels: false,
            ..parameters.format
        };
        let opened = executor.run(async {
            let formatted = store::format(&*device, &format, [7; 48], START).await;
            formatted.map_err(|error| error.to_string())?;
            let opened = Store::open(vec![device], clock.clone(), options).await;
            opened.map_err(|(_, error)| error.to_string())
        });
        let store = opened?;
        let background = store.clone();
        clock.spawn(async move { background.run_background().await });
        let tally = Cell::default();
        let (bodies, wrong) = (parameters.bodies, RefCell::default());
        let server = Server { clock, store, bodies, population, tally, wrong };
        let server = Rc::new(server);
        Ok(Simulation { executor, disk, server })
    }

    /// From now on things go wrong with the disk as `plan` says.
    pub fn set_plan(&self, plan: FaultPlan) {
        self.disk.set_plan(plan);
    }

    /// Lets the requests for these objects come, and says what came of them.
    ///
    /// # Errors
    /// What the engine handed out is wrong, or it hangs.
    pub fn serve(
        &self,
        requests: impl Iterator<Item = u32> + 'static,
        parameters: &Parameters,
    ) -> Result<Tally, String> {
        self.server.tally.set(Tally::default());
        let lanes = Lanes::new(self.server.clock.clone(), parameters.interval, requests);
        let done = lanes.run(parameters.under_way, {
            let server = Rc::clone(&self.server);
            move |object| {
                let server = Rc::clone(&server);
                async move { server.request(object).await }
            }
        });
        self.executor.try_run(Nanos::MAX, done).map_err(|stop| stop.to_string())?;
        match self.server.wrong.borrow_mut().take() {
            Some(wrong) => Err(wrong),
            None => Ok(self.server.tally.get()),
        }
    }

    /// Lets virtual time pass.
    pub fn pass(&self, time: Nanos) {
        self.executor.pass(time);
    }

    /// Virtual nanoseconds since the beginning.
    pub fn now(&self) -> Nanos {
        self.server.clock.now()
    }

    /// A digest of every step so far: tasks, events, device requests, answers.
    pub fn history(&self) -> u64 {
        self.server.clock.history()
    }

    /// What was done on the device so far.
    pub fn counts(&self) -> Counts {
        self.disk.counts()
    }

    /// The engine's own figures.
    pub fn stats(&self) -> Stats {
        self.server.store.stats()[0]
    }
}

impl Server {
    async fn request(&self, number: u32) {
        let arrived = self.clock.now();
        let object = self.population.object(number);
        let key = self.population.key(number);
        let mut tally = Tally { requests: 1, ..Tally::default() };
        match self.store.lookup(&key).await {
            Lookup::Hit(entry) => {
                match entry.source() {
                    Source::Ram => tally.memory_hits = 1,
                    Source::Disk => tally.disk_hits = 1,
                }
                let mut at = 0;
                let mut body = entry.body(0..entry.len());
                while let Some(part) = body.next_content().await {
                    let Ok(content) = part else { break };
                    self.check(&object, at, &content);
                    at += content.len() as u64;
                }
                tally.bytes = at;
                tally.cut = u64::from(at < object.size);
            }
            Lookup::Miss => {
                tally.misses = 1;
                match self.insert(&key, &object).await {
                    Ok(()) => tally.stored = 1,
                    Err(_) => tally.refused = 1,
                }
            }
        }
        tally.latency = self.clock.now() - arrived;
        self.clock.note(tally.disk_hits | tally.misses << 1 | tally.stored << 2 | tally.cut << 3);
        self.add(tally);
    }

    fn check(&self, object: &Object, at: u64, content: &Content) {
        let wrong = match content {
            Content::Bytes(bytes) => contents::first_wrong(object, at, bytes),
            Content::Elided { id, .. } => {
                (*id != content_id(object).wrapping_add(at)).then_some(at)
            }
        };
        if let Some(position) = wrong {
            let wrong = format!("object {} is wrong at byte {position}", object.id);
            self.wrong.borrow_mut().get_or_insert(wrong);
        }
    }

    async fn insert(&self, key: &Key, object: &Object) -> Result<(), Refusal> {
        let token = self.store.begin_fetch(key);
        let hint = Hint { size: Some(object.size), ..Hint::default() };
        let meta = Bytes::from_static(META);
        let mut writer = self.store.insert(&token, key, meta, hint).await?;
        writer.write(self.bodies.of(object)).await?;
        writer.commit().await
    }

    fn add(&self, more: Tally) {
        let all = self.tally.get();
        self.tally.set(Tally {
            requests: all.requests + more.requests,
            memory_hits: all.memory_hits + more.memory_hits,
            disk_hits: all.disk_hits + more.disk_hits,
            misses: all.misses + more.misses,
            stored: all.stored + more.stored,
            refused: all.refused + more.refused,
            cut: all.cut + more.cut,
            bytes: all.bytes + more.bytes,
            latency: all.latency + more.latency,
        });
    }
}
