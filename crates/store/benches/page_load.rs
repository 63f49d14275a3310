//! Pages on the engine: 32 sessions request pages and the objects embedded in them, one by one,
//! from a cache that evicts all the time.
//!
//! `cargo bench -p larder-store --bench page_load -- FILE [--size MiB] [--memory MiB]
//! [--requests N] [--warm-up N] [--arms ARM,…] [--keys pages|random] [--origin MS]
//! [--operations N] [--batch BYTES] [--tier-admission all|second-use]`
//!
//! A page and its objects share a directory. Most visits are to pages visited before, the sooner
//! the likelier, so that popularity drifts. Sizes are lognormal: median 3.3 KB, mean 12 KB. What
//! misses is fetched, which takes the origin 2 ms (`--origin`), and then stored: what sessions
//! store is mixed in time, as in a proxy. A session that misses what another is fetching waits as
//! long and stores nothing. With `--keys random` every object has a directory of its own: the
//! engine is not told what is related.
//!
//! With `--operations` the cache lies on a loop device over FILE that the kernel holds to so many
//! reads and as many writes a second once the warm-up has ended; the kernel's own counts are
//! printed as well, and have to keep to the limit. That needs root and a control group with the
//! throttle of block devices; where it is not permitted nothing is measured. FILE, the device and
//! the group are gone in the end, also after an error or a signal; a kill leaves the group, empty.
//!
//! Printed for each fifth of the counted requests: hits, requests a second, processor time of the
//! thread for each request (engine, load and ring), operations of the device for each request,
//! reads for each request and for each hit from the device (what came along included), and writes
//! and bytes written for what was stored. `--batch` and `--tier-admission` change that option of
//! every arm. An arm is written as `support/arm.rs` says.

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]
// A benchmark reads the clock; the crate's ban is for the engine.
#![allow(clippy::disallowed_methods)]

mod support;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use larder_store::{Kind, Options, TierAdmission};
use testkit::loop_device::{Blocks, LoopDevice};
use testkit::pages::{self, Visits, body_len};
use testkit::throttle::{Limit, Throttle};

use support::Engine;
use support::arm::Arm;
use support::figures::{Count, Moment, Outcome, report};
use support::objects::{filler, metadata, read_whole, store_fetched};
use support::pages::Keys;

/// Sessions, each of which has one request under way.
const SESSIONS: usize = 32;
/// Parts of the counted requests that are reported one by one.
const PARTS: usize = 5;
/// By how much the kernel may pass the limit: its slices of time are whole operations.
const SLACK: f64 = 1.05;

struct Settings {
    path: PathBuf,
    size: u64,
    memory: u64,
    warm_up: usize,
    requests: usize,
    keys: Keys,
    origin: Duration,
    operations: Option<u32>,
    batch: Option<u32>,
    tier: Option<TierAdmission>,
}

impl Settings {
    fn options(&self, arm: &Arm, records: usize) -> Options {
        let mut options = arm.options(records, self.memory);
        options.batch = self.batch.unwrap_or(options.batch);
        options.tier_admission = self.tier.unwrap_or(options.tier_admission);
        options
    }
}

/// State that the sessions share.
struct Load {
    visits: Visits,
    until: usize,
    count: Count,
    /// Objects that are being fetched.
    fetched: BTreeSet<u64>,
}

impl Load {
    /// Counts one more request, unless there were enough.
    fn begin(&mut self) -> bool {
        let begins = self.count.requests < self.until;
        self.count.requests += usize::from(begins);
        begins
    }
}

type Shared = Rc<RefCell<Load>>;

async fn request(
    cache: &Engine,
    load: &Shared,
    settings: &Settings,
    number: u64,
    filler: &Bytes,
) -> Outcome {
    let key = settings.keys.key(number);
    if read_whole(cache, &key).await {
        return Outcome::Hit;
    }
    let first = load.borrow_mut().fetched.insert(number);
    let token = cache.begin_fetch(&key);
    if !settings.origin.is_zero() {
        tokio::time::sleep(settings.origin).await;
    }
    if !first {
        return Outcome::Followed;
    }
    let body = filler.slice(..body_len(number));
    let kind = if pages::is_page(number) { Kind::Html } else { Kind::Other };
    let stored = store_fetched(cache, &token, &key, metadata(filler), body, kind).await;
    load.borrow_mut().fetched.remove(&number);
    if stored { Outcome::Stored } else { Outcome::Refused }
}

async fn session(cache: Engine, load: Shared, settings: Rc<Settings>) {
    let filler = filler();
    loop {
        let page = load.borrow_mut().visits.next();
        for number in pages::objects(page) {
            if !load.borrow_mut().begin() {
                return;
            }
            let outcome = request(&cache, &load, &settings, number, &filler).await;
            load.borrow_mut().count.add(outcome, body_len(number));
        }
    }
}

async fn run(cache: &Engine, load: &Shared, settings: &Rc<Settings>, requests: usize) -> Count {
    {
        let mut load = load.borrow_mut();
        load.count = Count::default();
        load.until = requests;
    }
    let session = |_| session(cache.clone(), Rc::clone(load), Rc::clone(settings));
    support::side_by_side(SESSIONS, session).await;
    load.borrow().count
}

/// Measures an arm on FILE, or on a loop device over it.
async fn measure(arm: &Arm, settings: &Rc<Settings>) -> Result<(), String> {
    let Some(operations) = settings.operations else {
        let _file = support::TemporaryFile::at(&settings.path)?;
        return measure_on(&settings.path, None, arm, settings).await;
    };
    let disk = LoopDevice::over(&settings.path, settings.size, Blocks::Sparse)?;
    measure_on(disk.path(), Some((&disk, operations)), arm, settings).await
}

async fn measure_on(
    path: &Path,
    held: Option<(&LoopDevice, u32)>,
    arm: &Arm,
    settings: &Rc<Settings>,
) -> Result<(), String> {
    let records = (settings.size / u64::from(support::arm::MEAN_OBJECT)) as usize * 2;
    let options = settings.options(arm, records);
    let (cache, device) = support::open(path, settings.size, &arm.format(records), options).await;
    let visits = Visits::with_seed(7);
    let load = Load { visits, until: 0, count: Count::default(), fetched: BTreeSet::new() };
    let load = Rc::new(RefCell::new(load));
    let hold =
        |(disk, operations): (&LoopDevice, u32)| Throttle::hold(disk, Limit::both(operations));
    // What is not permitted is said before the warm-up.
    drop(held.map(hold).transpose()?);
    run(&cache, &load, settings, settings.warm_up).await;
    eprintln!("{arm}: warm");
    let throttle = held.map(hold).transpose()?;
    let now = || Moment::now(&cache, &device, held.map(|(disk, _)| disk));
    let begin = now();
    let (mut all, mut before) = (Count::default(), now());
    for part in 1..=PARTS {
        let count = run(&cache, &load, settings, settings.requests / PARTS).await;
        let after = now();
        report(&format!("{arm} {part}/{PARTS}"), &before, &after, &count);
        all.merge(&count);
        before = after;
    }
    drop(throttle);
    report(&format!("{arm} in all"), &begin, &before, &all);
    println!("{:?} {:?}", before.stats.reads, before.stats.read_cost);
    println!("{:?}", before.stats.counters);
    cache.shutdown().await;
    match (held, before.rates(&begin)) {
        (Some((_, operations)), Some(rates)) => expect_held(operations, rates),
        _ => Ok(()),
    }
}

/// Says whether the kernel kept to the limit.
fn expect_held(operations: u32, (reads, writes): (f64, f64)) -> Result<(), String> {
    if reads.max(writes) > f64::from(operations) * SLACK {
        return Err(format!(
            "the device was not held to {operations} operations a second: {reads:.0} reads, \
             {writes:.0} writes"
        ));
    }
    Ok(())
}

fn settings() -> (Settings, Vec<Arm>) {
    let mut arguments = std::env::args().skip(1).filter(|word| word != "--bench");
    let path = arguments.next().expect("usage: page_load FILE [--size MiB] …").into();
    let mut settings = Settings {
        path,
        size: 1 << 30,
        memory: 64 << 20,
        warm_up: 600_000,
        requests: 500_000,
        keys: Keys::Pages,
        origin: Duration::from_millis(2),
        operations: None,
        batch: None,
        tier: None,
    };
    let mut arms = Arm::list("cluster");
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_else(|| panic!("{name} wants a value"));
        let number = || value.parse::<u64>().unwrap_or_else(|_| panic!("{name}: a number"));
        let small = || value.parse::<u32>().unwrap_or_else(|_| panic!("{name}: a number"));
        match name.as_str() {
            "--size" => settings.size = number() << 20,
            "--memory" => settings.memory = number() << 20,
            "--requests" => settings.requests = number() as usize,
            "--warm-up" => settings.warm_up = number() as usize,
            "--keys" => settings.keys = Keys::from_name(&value).expect("--keys: pages or random"),
            "--origin" => settings.origin = Duration::from_millis(number()),
            "--operations" => settings.operations = Some(small()),
            "--batch" => settings.batch = Some(small()),
            "--tier-admission" => settings.tier = Some(support::tier_admission(&value)),
            "--arms" => arms = Arm::list(&value),
            _ => panic!("{name} is no option"),
        }
    }
    (settings, arms)
}

fn main() -> ExitCode {
    let (settings, arms) = settings();
    let settings = Rc::new(settings);
    for arm in arms {
        let done = support::on_runtime(measure(&arm, &settings)).and_then(|done| done);
        if let Err(reason) = done {
            eprintln!("NOT MEASURED: {arm}: {reason}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
