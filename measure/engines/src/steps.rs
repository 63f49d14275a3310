//! The steps of one engine. Each runs in a process of its own.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::hint::black_box;
use std::io::{self, BufRead, Write};
use std::rc::Rc;
use std::time::Duration;
use std::{fs, iter};

use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};
use workload::contents::{body, first_wrong};

use crate::engine::{Engine, Source};
use crate::foyer_engine::FoyerEngine;
use crate::larder_engine::LarderEngine;
use crate::task::{Message, Step, Task};
use crate::trace::{Item, up_to};

/// Number of clients that send requests concurrently, each one at a time.
const CLIENTS: usize = 16;

/// Number of objects that are looked up for the first hit after a start.
const PROBES: usize = 64;

/// Time after which the search for a first hit is given up.
const FIRST_HIT_MAX: Duration = Duration::from_secs(60);

/// Fraction of the memory whose objects are looked up for hits in memory.
const HOT_SHARE: u64 = 8;

/// Share of the lookups that the expected tier must serve for a rate of that tier.
const TIER_SHARE: f64 = 0.9;

/// Number of bodies whose generation and comparison are timed.
const TIMED_BODIES: usize = 2_000;

/// Runs the task on standard input.
///
/// # Errors
/// The task cannot be read, or the engine failed.
pub fn run() -> Result<(), String> {
    // An interrupted program must not leave engines running.
    let bound = set_parent_process_death_signal(Some(Signal::KILL));
    bound.map_err(|error| format!("death signal: {error}"))?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(|error| format!("task: {error}"))?;
    let task: Task = serde_json::from_str(&line).map_err(|error| format!("task: {error}"))?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("runtime: {error}"))?;
    LocalSet::new().block_on(&runtime, async {
        match &*task.engine {
            "larder" => step::<LarderEngine>(&task).await,
            "foyer" => step::<FoyerEngine>(&task).await,
            other => Err(format!("no engine {other}")),
        }
    })
}

async fn step<E: Engine>(task: &Task) -> Result<(), String> {
    let figures = match task.step {
        Step::Load => load::<E>(task).await?,
        Step::Serve => serve::<E>(task).await?,
        Step::Read => read::<E>(task).await?,
    };
    let figures = figures.into_iter().map(|(name, value)| (name.to_owned(), value));
    send(&Message::Done(figures.collect()))
}

fn send(message: &Message) -> Result<(), String> {
    let text = serde_json::to_string(message).map_err(|error| format!("message: {error}"))?;
    writeln!(io::stdout(), "{text}").map_err(|error| format!("message: {error}"))
}

/// Returns the CPU seconds of all threads of this process, user and system.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns a count of this process in a file of `/proc/self`.
fn kernel_count(file: &str, name: &str) -> Result<u64, String> {
    let path = format!("/proc/self/{file}");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name));
    let found = rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    found.ok_or_else(|| format!("{path} has no number {name}"))
}

fn resident_bytes(name: &str) -> Result<f64, String> {
    kernel_count("status", name).map(|kib| (kib << 10) as f64)
}

/// CPU seconds per byte that the program itself spends on bodies.
struct BodyCost {
    generate: f64,
    compare: f64,
}

impl BodyCost {
    fn measure(items: &[Item]) -> BodyCost {
        let (mut generate, mut compare, mut bytes) = (0.0, 0.0, 0);
        for item in items.iter().take(TIMED_BODIES) {
            let began = cpu_seconds();
            let body = black_box(body(&item.object()));
            let generated = cpu_seconds();
            black_box(first_wrong(&item.object(), 0, &body));
            generate += generated - began;
            compare += cpu_seconds() - generated;
            bytes += item.size;
        }
        BodyCost { generate: generate / bytes as f64, compare: compare / bytes as f64 }
    }
}

/// Counts of requests.
#[derive(Default)]
struct Tally {
    memory_hits: u64,
    disk_hits: u64,
    misses: u64,
    wrong: u64,
    stored: u64,
    stored_bytes: u64,
    refused: u64,
}

/// An engine under test with the counts of its requests.
struct Bench<E: Engine> {
    engine: Rc<E>,
    tally: Rc<RefCell<Tally>>,
    /// Bytes of resident memory before the engine was opened.
    resident_before: f64,
}

impl<E: Engine> Clone for Bench<E> {
    fn clone(&self) -> Bench<E> {
        Bench { engine: Rc::clone(&self.engine), tally: Rc::clone(&self.tally), ..*self }
    }
}

impl<E: Engine> Bench<E> {
    async fn open(task: &Task) -> Result<Bench<E>, String> {
        let resident_before = resident_bytes("VmRSS:")?;
        let engine = E::open(&task.directory, &task.plan, task.step == Step::Load).await?;
        Ok(Bench { engine: Rc::new(engine), tally: Rc::default(), resident_before })
    }

    /// Looks `item` up and counts the result; returns whether it was a hit.
    async fn get(&self, item: &Item, verifies: bool) -> bool {
        let found = self.engine.get(item, verifies).await;
        let mut tally = self.tally.borrow_mut();
        tally.wrong += u64::from(found.is_some_and(|hit| hit.wrong));
        let count = match found.map(|hit| hit.source) {
            Some(Source::Memory) => &mut tally.memory_hits,
            Some(Source::Disk) => &mut tally.disk_hits,
            None => &mut tally.misses,
        };
        *count += 1;
        found.is_some()
    }

    async fn put(&self, item: &Item) {
        let is_stored = self.engine.put(item, body(&item.object())).await;
        let mut tally = self.tally.borrow_mut();
        tally.refused += u64::from(!is_stored);
        tally.stored += u64::from(is_stored);
        tally.stored_bytes += if is_stored { item.size } else { 0 };
    }

    /// Sends the requests as a cache does: a miss is followed by an insertion.
    async fn replay(&self, requests: &[Item]) -> Result<Tally, String> {
        let request = async |bench: Bench<E>, item: Item| {
            if !bench.get(&item, true).await {
                bench.put(&item).await;
            }
        };
        self.concurrently(requests, request).await
    }

    /// Calls `work` for every item, [`CLIENTS`] at a time; returns the counts.
    async fn concurrently<F, W>(&self, items: &[Item], work: F) -> Result<Tally, String>
    where
        F: Fn(Bench<E>, Item) -> W + Copy + 'static,
        W: Future<Output = ()> + 'static,
    {
        self.tally.take();
        let items: Rc<[Item]> = items.into();
        let next = Rc::new(Cell::new(0));
        let client = || {
            let (bench, items, next) = (self.clone(), Rc::clone(&items), Rc::clone(&next));
            spawn_local(async move {
                while let Some(item) = items.get(next.replace(next.get() + 1)) {
                    work(bench.clone(), *item).await;
                }
            })
        };
        let clients: Vec<_> = iter::repeat_with(client).take(CLIENTS).collect();
        for client in clients {
            client.await.map_err(|error| format!("a client failed: {error}"))?;
        }
        Ok(self.tally.take())
    }

    /// Returns those of `items` that the index has.
    fn held<'a>(&self, items: impl Iterator<Item = &'a Item>) -> Vec<Item> {
        items.filter(|item| self.engine.knows(item)).copied().collect()
    }

    /// Returns the bytes of resident memory that the engine takes beside bodies.
    fn overhead(&self) -> Result<f64, String> {
        let bodies = self.engine.memory_bytes() as f64;
        Ok(resident_bytes("VmRSS:")? - self.resident_before - bodies)
    }

    /// Looks up `items` three times and then `lookups` of them in turn; returns the hits in memory
    /// by CPU second of the latter.
    async fn hit_memory(&self, items: &[Item], lookups: u64) -> Option<f64> {
        for item in items.iter().cycle().take(3 * items.len()) {
            self.get(item, false).await;
        }
        self.tally.take();
        let began = cpu_seconds();
        for item in items.iter().cycle().take(lookups as usize) {
            self.get(item, false).await;
        }
        let (spent, hits) = (cpu_seconds() - began, self.tally.take().memory_hits as f64);
        (hits >= TIER_SHARE * lookups as f64).then(|| hits / spent)
    }
}

type Named = Vec<(&'static str, f64)>;

async fn load<E: Engine>(task: &Task) -> Result<Named, String> {
    let plan = &task.plan;
    let trace = plan.trace();
    let cost = BodyCost::measure(&trace.objects);
    let bench = &Bench::<E>::open(task).await?;
    let written_before = kernel_count("io", "write_bytes:")?;
    let (first, second) = trace.requests.split_at(trace.requests.len() / 2);
    let warm_up = bench.replay(first).await?;
    let counted = bench.replay(second).await?;
    bench.engine.settle().await;
    let written = kernel_count("io", "write_bytes:")? - written_before;
    let objects = bench.held(trace.objects.iter()).len();
    let overhead = bench.overhead()?;
    let hot = trace.latest(plan.memory / HOT_SHARE);
    let memory_hit_rate = bench.hit_memory(&hot, plan.requests).await;

    let fresh = up_to(plan.file_size / 2, trace.fresh.iter());
    let began = cpu_seconds();
    let put = async |bench: Bench<E>, item: Item| bench.put(&item).await;
    let inserted = bench.concurrently(&fresh, put).await?;
    bench.engine.settle().await;
    let generated: u64 = fresh.iter().map(|item| item.size).sum();
    let spent = cpu_seconds() - began - cost.generate * generated as f64;

    let hits = (counted.memory_hits + counted.disk_hits) as f64;
    let stored_bytes = (warm_up.stored_bytes + counted.stored_bytes) as f64;
    let peak = resident_bytes("VmHWM:")? - bench.resident_before;
    bench.engine.close().await?;
    let refused = 100.0 * inserted.refused as f64 / fresh.len() as f64;
    let mut figures = vec![
        ("hit_percent", 100.0 * hits / (hits + counted.misses as f64)),
        ("insert_rate", inserted.stored as f64 / spent),
        ("memory_per_object", overhead / objects as f64),
        ("memory_peak_mib", peak / f64::from(1 << 20)),
        ("write_ratio", written as f64 / stored_bytes),
        ("wrong", (warm_up.wrong + counted.wrong) as f64),
    ];
    figures.extend(memory_hit_rate.map(|rate| ("memory_hit_rate", rate)));
    figures.extend(E::REPORTS_REFUSALS.then_some(("refused_percent", refused)));
    Ok(figures)
}

/// Serves the trace until the process is killed.
async fn serve<E: Engine>(task: &Task) -> Result<Named, String> {
    let trace = task.plan.trace();
    let bench = Bench::<E>::open(task).await?;
    bench.replay(&trace.requests[..trace.requests.len() / 4]).await?;
    let mut probes = bench.held(trace.objects.iter().chain(&trace.fresh));
    let held = probes.len() as u64;
    fastrand::Rng::with_seed(task.plan.seed).shuffle(&mut probes);
    probes.truncate(PROBES);
    send(&Message::Serving { held, probes })?;
    loop {
        bench.replay(&trace.requests).await?;
    }
}

/// Reads everything in the cache once, in random order.
async fn read<E: Engine>(task: &Task) -> Result<Named, String> {
    let bench = &Bench::<E>::open(task).await?;
    if !task.probes.is_empty() {
        let search = timeout(FIRST_HIT_MAX, async {
            for probe in task.probes.iter().cycle() {
                if bench.get(probe, true).await {
                    break;
                }
                // Recovery runs on this thread.
                sleep(Duration::ZERO).await;
            }
        });
        search.await.map_err(|_| "no object was found after the start".to_owned())?;
        send(&Message::FirstHit)?;
    }
    bench.engine.settle().await;
    let overhead = bench.overhead()?;
    let trace = task.plan.trace();
    let cost = BodyCost::measure(&trace.objects);
    let mut held = bench.held(trace.objects.iter().chain(&trace.fresh));
    fastrand::Rng::with_seed(task.plan.seed).shuffle(&mut held);
    let began = cpu_seconds();
    let get = async |bench: Bench<E>, item: Item| _ = bench.get(&item, true).await;
    let tally = bench.concurrently(&held, get).await?;
    let compared: u64 = held.iter().map(|item| item.size).sum();
    let spent = cpu_seconds() - began - cost.compare * compared as f64;
    bench.engine.close().await?;
    let (disk_hits, hits) = (tally.disk_hits, tally.memory_hits + tally.disk_hits);
    let mut figures = vec![
        ("found", (hits - tally.wrong) as f64),
        ("wrong", tally.wrong as f64),
        ("memory_per_object", overhead / held.len() as f64),
    ];
    if disk_hits as f64 >= TIER_SHARE * held.len() as f64 {
        figures.push(("disk_hit_rate", disk_hits as f64 / spent));
    }
    Ok(figures)
}
