//! A test of a proxy on a machine at a rate; each test runs once for all experiments that need it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use device::{Clock, Nanos};
use sim::{Executor, Handle};
use tokio::sync::Semaphore;

use super::load::{FILLS, Load};
use super::machine::{Machine, MachineClass};
use super::proxy::{Answer, Costs, Proxy, Squid, Unified};
use crate::experiment::{Context, Failed, Parameter, Scale, Variant};
use crate::space::manager::{Calls, SpaceError};

/// The seed, the same in all experiments.
const SEED: u64 = 2_001;

/// Processor time in nanoseconds for a request, and for a call delegated to DISKD.
const REQUEST: Nanos = 1_600_000;
const MESSAGE: Nanos = 100_000;

/// Squid looks for DISKD's replies when the network wakes it, which happens this often per request,
/// and at the latest after this time in seconds.
const WAKES: f64 = 8.0;
const LOOKS: f64 = 0.01;

/// Number of requests in flight during the fill: enough to keep the disks busy.
const FILLING: usize = 16;

/// Share of the plateau's requests after which the measurement starts.
const SETTLED: f64 = 0.1;

/// A rate counts as delivered if the requests take at most this share longer than they should.
const LATE: f64 = 0.02;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum System {
    Squid,
    Unified,
}

impl System {
    pub(super) const BOTH: [System; 2] = [System::Squid, System::Unified];

    pub(super) fn name(self) -> &'static str {
        match self {
            System::Squid => "Squid-2.4",
            System::Unified => "UNIFIED",
        }
    }
}

/// A change of the paper's set-up, to measure its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Modification {
    Paper,
    /// UNIFIED's process continues while the disk reads.
    Asynchronous,
    /// Drives acknowledge writes from the medium.
    WriteThrough,
    /// Metadata is written later, too, as with soft updates.
    LaterMetadata,
    /// Reads do not update access times.
    NoAccessTimes,
    /// Both, as operators of caches mount their file systems.
    Mounted,
    /// A request takes twice the processor time.
    SlowProcessor,
    /// A call delegated to DISKD takes no processor time.
    FreeCalls,
    /// A call delegated to DISKD takes three times the processor time.
    DearCalls,
}

impl Modification {
    pub(super) fn name(self) -> &'static str {
        match self {
            Modification::Paper => "as set up",
            Modification::Asynchronous => "UNIFIED does not wait for reads",
            Modification::WriteThrough => "drives without write caching",
            Modification::LaterMetadata => "metadata written later",
            Modification::NoAccessTimes => "no access times",
            Modification::Mounted => "metadata written later and no access times",
            Modification::SlowProcessor => "a processor half as fast",
            Modification::FreeCalls => "calls left to DISKD cost the processor nothing",
            Modification::DearCalls => "calls left to DISKD cost the processor 0.3 ms",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Case {
    pub(super) end: MachineClass,
    pub(super) system: System,
    pub(super) rate: u32,
    pub(super) modification: Modification,
    /// Factor by which requests come faster.
    haste: u32,
    /// Divisor of all sizes and of the number of requests.
    divisor: u32,
    /// Divisor of the plateau's length.
    part: u32,
    /// How many times the cache is filled before.
    fills: u64,
}

impl Case {
    /// Returns the paper's test at the size for the scale.
    pub(super) fn new(context: &Context<'_>, end: MachineClass, system: System, rate: u32) -> Case {
        let (divisor, part, fills) = match context.scale() {
            Scale::Smoke => (128, 64, 1),
            Scale::Quick => (128, 4, 1),
            Scale::Full => (1, 4, FILLS),
        };
        Case {
            end,
            system,
            rate,
            modification: Modification::Paper,
            haste: 1,
            divisor,
            part,
            fills,
        }
    }

    pub(super) fn varied(self, modification: Modification) -> Case {
        Case { modification, ..self }
    }

    /// Returns a case with four times as many requests as the machine can serve by the paper; the
    /// working set is that of the paper's rate.
    pub(super) fn flooded(context: &Context<'_>, end: MachineClass, system: System) -> Case {
        let rate = match (end, system) {
            (MachineClass::Low, System::Squid) => 50,
            (MachineClass::Low, System::Unified) => 120,
            (MachineClass::High, System::Squid) => 170,
            (MachineClass::High, System::Unified) => 250,
        };
        Case { haste: 4, ..Case::new(context, end, system, rate) }
    }

    fn machine(&self) -> Machine {
        let write_through = self.modification == Modification::WriteThrough;
        let mounted = self.modification == Modification::Mounted;
        let synchronous = self.modification != Modification::LaterMetadata && !mounted;
        let access_time = self.modification != Modification::NoAccessTimes && !mounted;
        let (end, divisor) = (self.end, self.divisor);
        Machine { end, divisor, write_through, synchronous, access_time }
    }

    /// Returns the mean seconds until Squid looks; wake-ups are a Poisson process.
    fn notice(&self) -> f64 {
        let wakes = WAKES * f64::from(self.rate * self.haste);
        (1.0 - (-wakes * LOOKS).exp()) / wakes
    }

    async fn proxy(&self, clock: &Handle) -> Result<Proxy, SpaceError> {
        let slower = if self.modification == Modification::SlowProcessor { 2 } else { 1 };
        let notice = (self.notice() * 1e9) as Nanos;
        let message = match self.modification {
            Modification::FreeCalls => 0,
            Modification::DearCalls => 3 * MESSAGE,
            _ => MESSAGE * slower,
        };
        let costs = Costs { request: REQUEST * slower, message, notice };
        let machine = self.machine();
        Ok(match self.system {
            System::Squid => Proxy::Squid(Box::new(Squid::new(clock, &machine, costs).await?)),
            System::Unified => {
                let blocks = self.modification != Modification::Asynchronous;
                Proxy::Unified(Unified::new(clock, &machine, costs, blocks).await?)
            }
        })
    }

    fn run(&self, variant: &Variant) -> Result<Run, Failed> {
        let executor = Executor::new(None, 1_000_000_000);
        let clock = executor.handle();
        let test = executor.try_run(Nanos::MAX, self.test(&clock, variant));
        let test = test.map_err(|stop| Failed(stop.to_string()))?;
        test.map_err(|why| Failed(why.to_string()))
    }

    async fn test(&self, clock: &Handle, variant: &Variant) -> Result<Run, SpaceError> {
        let mut load = Load::new(self.rate, self.divisor, SEED);
        let fill = load.fill(self.fills * self.machine().cache());
        let len = load.plateau_len(self.part);
        variant.total(fill.len() as u64 + len);
        let proxy = Rc::new(self.proxy(clock).await?);
        let before = proxy.calls();
        let filling = Crowd::new(clock, &proxy, FILLING);
        for request in &fill {
            filling.send(*request, 0, false).await;
            variant.advance(1);
        }
        filling.end().await?;
        let filled = proxy.calls() - before;
        let accesses = proxy.accesses();
        let crowd = Crowd::new(clock, &proxy, load.under_way());
        let begun = clock.now();
        let (mut due, settled) = (begun, (len as f64 * SETTLED) as u64);
        let mut answered = (begun, 0);
        for number in 0..len {
            let Some(timed) = load.next() else { break };
            if number == settled {
                answered = (clock.now(), crowd.answered());
            }
            due += timed.gap / u64::from(self.haste);
            if due > clock.now() {
                clock.sleep_until(due).await;
            }
            crowd.send(timed.request, timed.delay, number >= settled).await;
            variant.advance(1);
        }
        let late = clock.now() - due;
        let (since, before_settled) = answered;
        let answered = (crowd.answered() - before_settled) as f64;
        let achieved = answered * 1e9 / (clock.now() - since).max(1) as f64;
        let tally = crowd.end().await?;
        if proxy.lost() * 100 > fill.len() as u64 {
            let why = format!("{} objects were lost or not stored", proxy.lost());
            return Err(SpaceError::Engine(why));
        }
        let plateau = proxy.calls() - before - filled;
        let (fill, part) = (fill.len() as u64, self.part);
        Ok(Run {
            requests: self.whole(fill, len),
            calls: Scaled { filled, plateau, part, divisor: self.divisor },
            tally,
            achieved,
            delivered: late as f64 <= LATE * (due - begun) as f64,
            accesses: (proxy.accesses() - accesses) as f64 / len as f64,
        })
    }

    /// Returns the number of requests of fill and plateau together, at full size.
    fn whole(&self, fill: u64, plateau: u64) -> f64 {
        (fill + plateau * u64::from(self.part)) as f64 * f64::from(self.divisor)
    }
}

struct Crowd {
    clock: Handle,
    proxy: Rc<Proxy>,
    permits: Rc<Semaphore>,
    most: u32,
    state: Rc<RefCell<(Tally, Option<SpaceError>)>>,
    answered: Rc<Cell<u64>>,
}

impl Crowd {
    /// Creates a crowd with at most `most` requests in flight.
    fn new(clock: &Handle, proxy: &Rc<Proxy>, most: usize) -> Crowd {
        Crowd {
            clock: clock.clone(),
            proxy: Rc::clone(proxy),
            permits: Rc::new(Semaphore::new(most)),
            most: most as u32,
            state: Rc::default(),
            answered: Rc::default(),
        }
    }

    /// Sends a request as soon as the limit permits.
    async fn send(&self, request: workload::request::Request, delay: Nanos, counted: bool) {
        while self.permits.try_acquire().map(|permit| permit.forget()).is_err() {
            if let Ok(permit) = self.permits.acquire().await {
                permit.forget();
                break;
            }
        }
        let (proxy, permits) = (Rc::clone(&self.proxy), Rc::clone(&self.permits));
        let (clock, state) = (self.clock.clone(), Rc::clone(&self.state));
        let answered = Rc::clone(&self.answered);
        drop(self.clock.spawn(async move {
            let begun = clock.now();
            let answer = proxy.answer(&request, delay).await;
            let mut state = state.borrow_mut();
            match answer {
                Ok(answer) if counted => state.0.add(answer, clock.now() - begun),
                Ok(_) => {}
                Err(why) => _ = state.1.get_or_insert(why),
            }
            answered.set(answered.get() + 1);
            permits.add_permits(1);
        }));
    }

    /// Returns the number of requests with a response.
    fn answered(&self) -> u64 {
        self.answered.get()
    }

    /// Waits until all have completed.
    async fn end(self) -> Result<Tally, SpaceError> {
        drop(self.permits.acquire_many(self.most).await);
        let (tally, error) = self.state.take();
        error.map_or(Ok(tally), Err)
    }
}

/// Response times, as Polygraph's client measures them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Memory hits, disk hits and misses: their number and their total time in nanoseconds.
    each: [(u64, Nanos); 3],
}

impl Tally {
    fn add(&mut self, answer: Answer, time: Nanos) {
        let of = &mut self.each[answer as usize];
        of.0 += 1;
        of.1 += time;
    }

    fn mean_ms(&self, of: &[Answer]) -> f64 {
        let sums = of.iter().map(|answer| self.each[*answer as usize]);
        let (count, time) = sums.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1));
        time as f64 / 1e6 / count.max(1) as f64
    }

    fn share(&self, of: &[Answer]) -> f64 {
        let all: u64 = self.each.iter().map(|(count, _)| count).sum();
        let these: u64 = of.iter().map(|answer| self.each[*answer as usize].0).sum();
        these as f64 / all.max(1) as f64
    }
}

/// Calls of a shortened test.
#[derive(Clone, Copy, Debug)]
struct Scaled {
    filled: Calls,
    plateau: Calls,
    part: u32,
    divisor: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Number of requests of the whole test at full size.
    pub(super) requests: f64,
    calls: Scaled,
    tally: Tally,
    /// Responses per second in the plateau.
    pub(super) achieved: f64,
    /// True if the rate was sustained.
    pub(super) delivered: bool,
    /// Requests to the drives per request of the plateau.
    pub(super) accesses: f64,
}

impl Run {
    /// Returns the mean time of a hit in milliseconds.
    pub(super) fn hit_ms(&self) -> f64 {
        self.tally.mean_ms(&[Answer::MemoryHit, Answer::DiskHit])
    }

    /// Returns the mean time of a miss in milliseconds.
    pub(super) fn miss_ms(&self) -> f64 {
        self.tally.mean_ms(&[Answer::Miss])
    }

    /// Returns the mean of hit time and miss time, weighted by their shares (section 5.4).
    pub(super) fn response_ms(&self) -> f64 {
        let hits = self.hit_ratio();
        self.hit_ms() * hits + self.miss_ms() * (1.0 - hits)
    }

    /// Returns hits divided by requests.
    pub(super) fn hit_ratio(&self) -> f64 {
        self.tally.share(&[Answer::MemoryHit, Answer::DiskHit])
    }

    /// Returns a count of calls, selected by `of`, extrapolated to the whole test at full size.
    pub(super) fn calls(&self, of: impl Fn(&Calls) -> u64) -> f64 {
        let Scaled { filled, plateau, part, divisor } = &self.calls;
        (of(filled) + of(plateau) * u64::from(*part)) as f64 * f64::from(*divisor)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {} req/s", self.system.name(), self.end.name(), self.rate)?;
        match self.modification {
            Modification::Paper => Ok(()),
            other => write!(f, ", {}", other.name()),
        }
    }
}

type Slot = Arc<OnceLock<Result<Run, Failed>>>;

static RUNS: Mutex<Option<HashMap<Case, Slot>>> = Mutex::new(None);

/// Returns the result of a case; runs it if it is new.
fn run_once(variant: &Variant, case: Case) -> Result<Run, Failed> {
    let slot = {
        let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(runs.get_or_insert_default().entry(case).or_default())
    };
    slot.get_or_init(|| case.run(variant)).clone()
}

pub(super) fn runs(context: &mut Context<'_>, cases: &[Case]) -> Result<Vec<Run>, Failed> {
    context.variants(cases.iter().map(|case| (case, *case)), run_once)
}

/// Returns the paper's rates on a machine; a quick run has some of them.
pub(super) fn rates(context: &Context<'_>, end: MachineClass) -> &'static [u32] {
    match (context.scale(), end) {
        (Scale::Smoke | Scale::Quick, MachineClass::Low) => &[10, 50],
        (Scale::Smoke | Scale::Quick, MachineClass::High) => &[50, 170],
        (Scale::Full, MachineClass::Low) => &[10, 20, 30, 40, 50, 100, 120],
        (Scale::Full, MachineClass::High) => &[50, 100, 150, 170, 200, 250],
    }
}

pub(super) fn note(context: &Context<'_>) -> String {
    let case = Case::new(context, MachineClass::Low, System::Squid, 0);
    let (divisor, part) = (case.divisor, case.part);
    match divisor {
        1 => format!("As large as the paper's; one part in {part} of the plateau."),
        _ => format!(
            "Sampled: one part in {divisor} of all sizes and requests, and one in {part} of the \
             plateau, on drives as they are: another machine than the paper's."
        ),
    }
}

pub(super) const PARAMETERS: [Parameter; 11] = [
    Parameter {
        name: "scale",
        value: "the paper's, but for the plateau, of which a quarter is run (quick: 1/128 of \
                caches, memory, file systems, name cache, working set, requests and sync interval \
                beside drives as they are, which is another machine; filled once only, a quarter \
                of the plateau, some of the rates)",
        from: "section 5; the rest is ours: time",
    },
    Parameter {
        name: "load",
        value: "PolyMix-3: filled with twice the cache, then ramps and two plateaus as one; \
                Poisson arrivals, 5% reloads, at most 4 requests under way for each robot of 0.4 \
                requests a second",
        from: "section 2; the rules of PolyMix-3",
    },
    Parameter {
        name: "server delay",
        value: "normal, mean 2.5 s, deviation 1 s",
        from: "section 5.3",
    },
    Parameter {
        name: "low-end machine",
        value: "100 MB of cache memory, one ST320414A, 48 MB for files",
        from: "section 5; the last is ours: unstated",
    },
    Parameter {
        name: "high-end machine",
        value: "300 MB of cache memory, five ST39102LW (one cache directory each; striped by 64 \
                KB for UNIFIED), 400 MB for files",
        from: "section 5, a drive of that class; stripe and the last are ours: unstated",
    },
    Parameter {
        name: "disk cache",
        value: "10 GB, which hold 720,000 objects, LRU, in both systems; UNIFIED's file is 90% \
                full",
        from: "section 5; tables 1 and 2 leave 720,000 objects, which was set after a first \
               comparison; how full is ours: unstated",
    },
    Parameter {
        name: "file system",
        value: "FreeBSD's UFS, metadata synchronous, access times",
        from: "section 4; docs/research/models.md",
    },
    Parameter {
        name: "calls of Squid-2.4",
        value: "writes of 8,192 bytes, reads of 4,096, by one DISKD process for each directory; a \
                file begins with a write of its metadata",
        from: "section 3.1; the write of metadata is Squid's, and was added after a first \
               comparison of table 2",
    },
    Parameter {
        name: "UNIFIED's process",
        value: "does nothing else while it reads; what it writes the file system has in memory",
        from: "section 3.1: Squid-2.3's calls are synchronous",
    },
    Parameter {
        name: "processor",
        value: "1.6 ms a request, one at a time; 0.1 ms a call that is left to DISKD",
        from: "ours: the proxies of section 3.1 with up to 500 and 780 req/s need at most 2 and \
               1.3 ms; the call is an estimate, which table 3 varies",
    },
    Parameter {
        name: "answers of DISKD",
        value: "seen when the network wakes Squid, 8 times a request, or after 10 ms",
        from: "ours: Squid asks for quick polling with DISKD; the 8 is an estimate, made after a \
               first comparison",
    },
];

/// Explains why Squid-2.4 sustains less on the low-end machine than in the paper; `squid` is a run
/// that could not sustain its rate there.
pub(super) fn one_disk(squid: &Run) -> String {
    format!(
        "On one IDE disk Squid keeps less than in the paper: a request comes to {:.1} accesses of \
         {:.1} ms here, and the paper's 50 requests a second leave 20 ms for all of them. How its \
         file system was mounted the paper does not say: what access times and synchronous \
         metadata have to do with it is in the full run of table 3.",
        squid.accesses,
        1_000.0 / (squid.achieved * squid.accesses),
    )
}
