//! One session of a cache: opening, concurrent clients, and an end; also the state that the next
//! session inherits.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use device::{Clock, Extent, Nanos, SharedMemory};
use fastrand::Rng;
use sim::{Contents, Executor, FaultPlan, SimDisk, Stop, SurvivalGuarantee, Uniform};
use store::{
    DeviceError, Event, FormatOptions, Inspector, OpenError, Options, SharedMemorySource, Store,
};

use super::Report;
use super::client::{Client, LookupResult, TestedStore};
use super::content::TrialLabels;
use super::oracle::{End, History};
use super::recording_device::RecordingDevice;
use super::variant::Variant;

const MIB: u64 = 1 << 20;
const SECOND: Nanos = 1_000_000_000;
/// An operation that takes longer than this has hung.
const PATIENCE: Nanos = 3_600 * SECOND;
/// Start of the first session, in Unix seconds.
const START: u64 = 1_700_000_000;

/// The set-up that all sessions of a trial share.
pub struct TestSetup {
    /// The variant under test.
    pub variant: Variant,
    /// Initial size of the device in bytes.
    pub len: u64,
    /// Size in bytes that the device may grow to.
    pub room: u64,
    /// Block size of the device in bytes.
    pub block: u32,
    /// The options that the cache is created with.
    pub format: FormatOptions,
    /// Number of keys in use.
    pub keys: u32,
    /// The history at the end of the last session, for findings.
    before: RefCell<Option<History>>,
    /// A fault occurred on the device, or a session did not end in order. Since then a damaged
    /// record need not be an error of the store.
    tainted: Cell<bool>,
    /// Memory that outlives a killed process, once it was opened.
    memory: Arc<Mutex<Option<SharedMemory>>>,
}

impl TestSetup {
    /// Draws a random set-up; some devices are too small for the objects stored, some are large.
    pub fn draw(variant: Variant, random: &mut Rng) -> TestSetup {
        let len = [8, 12, 24, 64][random.usize(..4)] * MIB;
        TestSetup {
            variant,
            len,
            room: len + 32 * MIB,
            block: [512, 4096][random.usize(..2)],
            format: variant.format_by(random),
            keys: random.u32(4..80),
            before: RefCell::default(),
            tainted: Cell::new(false),
            memory: Arc::default(),
        }
    }

    /// Returns a fixed set-up with a device of `len` bytes.
    pub fn plain(variant: Variant, len: u64) -> TestSetup {
        let format = FormatOptions { cluster_size: Some(32 << 10), ..variant.format() };
        TestSetup {
            variant,
            len,
            room: len + 32 * MIB,
            block: 512,
            format,
            keys: 16,
            before: RefCell::default(),
            tainted: Cell::new(false),
            memory: Arc::default(),
        }
    }

    /// Returns the source of memory that outlives a killed process.
    pub(super) fn shared_memory(&self) -> SharedMemorySource {
        let memory = Arc::clone(&self.memory);
        Arc::new(move |_, _, len| {
            let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
            let same = memory.take().filter(|memory| memory.size() == len);
            let memory = memory.insert(same.unwrap_or_else(|| SharedMemory::simulated(len)));
            memory.reopen().ok_or_else(|| std::io::ErrorKind::Unsupported.into())
        })
    }

    /// Empties the memory that outlives a killed process, as a loss of power does.
    pub(super) fn empty_memory(&self) {
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(super) fn disk(
        &self,
        executor: &Executor,
        drive: Uniform,
        len: u64,
        contents: Contents,
    ) -> SimDisk {
        let options = sim::Options { block: self.block, len: Some(len), ..sim::Options::default() };
        SimDisk::with_contents(executor.handle(), Box::new(drive), options, contents)
    }

    /// Returns whether damage to a device with these contents hit the journal.
    fn journal_damaged(&self, len: u64, contents: &Contents, damage: &[Extent]) -> bool {
        if damage.is_empty() {
            return false;
        }
        let executor = Executor::new(None, START);
        let disk = self.disk(&executor, Uniform::fast(self.room), len, contents.clone());
        // Without superblocks nothing is found anyway.
        let Ok(inspector) = executor.run(Inspector::open(&disk)) else { return false };
        let areas = inspector.superblock().areas.clone();
        let journal = areas.into_iter().find(|(name, _)| *name == "journal");
        journal.is_some_and(|(_, journal)| {
            damage.iter().any(|hit| hit.offset < journal.end() && journal.offset < hit.end())
        })
    }

    /// Returns the contents of a device with a new cache on it.
    ///
    /// # Errors
    /// Why it cannot be created.
    pub fn formatted(&self) -> Result<Contents, String> {
        let executor = Executor::new(None, START);
        let drive = Uniform::fast(self.room);
        let disk = self.disk(&executor, drive, self.len, Contents::new());
        executor
            .run(store::format_with_seed(&disk, &self.format, [7; 48], START))
            .map_err(|error| error.to_string())?;
        Ok(disk.crash_process(0))
    }
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// An orderly stop.
    Stop,
    /// The process is killed between two steps, or after this many nanoseconds of the last phase.
    Kill(Option<Nanos>),
    /// Power is lost, at the same moments as for `Kill`.
    Power(Option<Nanos>),
}

/// One session, drawn at random or made by hand for a test of one case.
pub struct Session<'a> {
    /// The set-up of its trial.
    pub setup: &'a TestSetup,
    /// Size of the device in bytes.
    pub len: u64,
    /// Seed of all random choices in the session.
    pub seed: u64,
    /// Options that the store is opened with.
    pub options: Options,
    /// The simulated drive.
    pub drive: Uniform,
    /// The faults.
    pub plan: FaultPlan,
    /// True if faults occur from the opening on; otherwise they begin with the first client.
    pub plan_at_opening: bool,
    /// True if all keys are checked before clients start; otherwise clients run beside recovery.
    pub check_first: bool,
    /// Number of concurrent clients.
    pub clients: u32,
    /// Number of phases; clients are idle after each.
    pub phases: u32,
    /// Maximum number of steps of one client in one phase.
    pub steps: u32,
    /// How the session ends.
    pub close: SessionEnd,
}

impl<'a> Session<'a> {
    /// Draws a random session.
    pub fn draw(setup: &'a TestSetup, random: &mut Rng, len: u64, seed: u64) -> Session<'a> {
        let plan_at_opening = random.u8(..4) == 0;
        let moment = random.bool().then(|| 1 << random.u64(16..33));
        let mut options = setup.variant.options_by(random);
        // Draws from a copy, so that the other choices of a seed stay the same.
        if random.clone().bool() {
            options.shared_memory = Some(setup.shared_memory());
        }
        Session {
            setup,
            len,
            seed,
            options,
            drive: Uniform {
                sectors: setup.room / sim::drives::SECTOR,
                depth: random.usize(1..32),
                request: random.u64(10_000..8_000_000),
                sector: random.u64(0..2_000),
                flush: random.u64(10_000..20_000_000),
            },
            plan: setup.variant.survivable(FaultPlan::draw(random, len, setup.block, 80)),
            plan_at_opening,
            check_first: !plan_at_opening && random.u8(..4) > 0,
            clients: random.u32(1..5),
            phases: random.u32(1..4),
            steps: random.u32(1..30),
            close: match random.u8(..8) {
                0 | 1 => SessionEnd::Stop,
                2..5 => SessionEnd::Kill(moment),
                _ => SessionEnd::Power(moment),
            },
        }
    }

    /// Returns a session without faults that only checks all keys.
    pub fn quiet(setup: &'a TestSetup, len: u64, seed: u64) -> Session<'a> {
        Session {
            setup,
            len,
            seed,
            options: Options {
                memory: 2 << 20,
                labels: Some(Arc::new(TrialLabels)),
                ..(setup.variant.options)()
            },
            drive: Uniform::fast(setup.room),
            plan: FaultPlan::none(),
            plan_at_opening: false,
            check_first: true,
            clients: 1,
            phases: 0,
            steps: 1,
            close: SessionEnd::Stop,
        }
    }

    /// Runs the session on `contents`, whose `history` is known. Returns the contents and the
    /// history for the next session; appends a line on this session to `sessions`.
    ///
    /// # Errors
    /// A description of the store's error.
    pub fn live(
        &mut self,
        contents: Contents,
        history: History,
        report: &mut Report,
        sessions: &mut Vec<String>,
    ) -> Result<(Contents, History), String> {
        if self.plan != FaultPlan::none() {
            self.setup.tainted.set(true);
        }
        let mut random = Rng::with_seed(self.seed);
        let order = (random.u8(..8) > 0).then(|| random.u64(..));
        let executor = Executor::new(order, START + random.u64(..1_000_000));
        let disk = self.setup.disk(&executor, self.drive, self.len, contents);
        let mut running =
            Running::new(self, executor, disk, Rc::new(RefCell::new(history)), random);
        let result = running.run(self, report).and_then(|end| {
            let damaged = running.damaged;
            if damaged > 0 && !self.setup.tainted.get() {
                return Err(format!("{damaged} records are damaged on a device that is sound"));
            }
            Ok(end)
        });
        if !running.stopped {
            self.setup.tainted.set(true);
        }
        report.sessions += 1;
        let counts = running.disk.disk.counts();
        report.operations += counts.reads + counts.writes + counts.flushes;
        report.errors += counts.errors;
        report.history = report.history.rotate_left(9) ^ running.executor.handle().history();
        let events = running.events.lock().unwrap_or_else(PoisonError::into_inner).join("; ");
        let (unit, policy) = (self.options.read_unit, self.options.write_policy);
        let told = if events.is_empty() { "nothing" } else { &events };
        sessions.push(format!(
            "life {}: {policy:?}, {unit:?}, {} MiB, {} clients, faults {:?}, end {:?}; \
             told: {told}",
            sessions.len() + 1,
            self.len >> 20,
            self.clients,
            self.plan.faults,
            self.close,
        ));
        let end = result?;
        let tear = running.random.u64(..);
        let contents = match end.power {
            true => {
                self.setup.empty_memory();
                running.disk.disk.crash_power(tear)
            }
            false => running.disk.disk.crash_process(tear),
        };
        let mut before = running.history.take();
        let damage = running.disk.disk.damage();
        if self.setup.journal_damaged(self.len, &contents, &damage) {
            before.journal_damaged();
        }
        let leaves = !Variant::bounded(&self.options) && !running.stopped;
        if leaves || running.given_up() {
            // With `WritePolicy::OnEvict`, an object that is read leaves its cluster, which may be
            // reused at once. A device that was given up starts empty.
            before.forget_requirements();
        }
        let history = before.after(end);
        self.setup.before.replace(Some(before));
        Ok((contents, history))
    }
}

/// A running session.
struct Running {
    executor: Executor,
    disk: RecordingDevice,
    history: Rc<RefCell<History>>,
    random: Rng,
    options: Options,
    /// The events that the store reported, as text.
    events: Arc<Mutex<Vec<String>>>,
    /// True once the store reported that it gave up the device or started empty.
    given_up: Arc<Mutex<bool>>,
    /// Number of records that the store reported as evicted or lost so far.
    losses: u64,
    /// Number of records that the store has found damaged so far.
    damaged: u64,
    /// True once the store stopped in order.
    stopped: bool,
}

impl Running {
    fn new(
        session: &Session<'_>,
        executor: Executor,
        disk: SimDisk,
        history: Rc<RefCell<History>>,
        random: Rng,
    ) -> Running {
        let events: Arc<Mutex<Vec<String>>> = Arc::default();
        let given_up: Arc<Mutex<bool>> = Arc::default();
        let (told, gone) = (Arc::clone(&events), Arc::clone(&given_up));
        let on_event = move |event: Event| {
            if matches!(event, Event::Offline { .. } | Event::StartedEmpty { .. }) {
                *gone.lock().unwrap_or_else(PoisonError::into_inner) = true;
            }
            told.lock().unwrap_or_else(PoisonError::into_inner).push(event.to_string());
        };
        let options = Options { on_event: Arc::new(on_event), ..session.options.clone() };
        let disk = RecordingDevice::new(disk, Rc::clone(&history));
        Running {
            executor,
            disk,
            history,
            random,
            options,
            events,
            given_up,
            losses: 0,
            damaged: 0,
            stopped: false,
        }
    }

    fn given_up(&self) -> bool {
        *self.given_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_plan(&mut self, session: &Session<'_>) {
        self.disk.disk.set_plan(session.plan.clone());
        self.history.borrow_mut().weaken(session.plan.guarantee());
    }

    fn guarantee(&self) -> SurvivalGuarantee {
        self.history.borrow().guarantee()
    }

    /// Returns the end of the session as known so far.
    fn end(&self, close: SessionEnd) -> End {
        End { power: matches!(close, SessionEnd::Power(_)), given_up: self.given_up() }
    }

    fn run(&mut self, session: &Session<'_>, report: &mut Report) -> Result<End, String> {
        if session.plan_at_opening {
            self.set_plan(session);
        }
        let Some(store) = self.open()? else { return Ok(self.end(session.close)) };
        let background = store.clone();
        self.executor.handle().spawn(async move { background.run_background().await });
        if session.check_first {
            self.check_all(session, &store, report)?;
        }
        if !session.plan_at_opening {
            self.set_plan(session);
        }
        for phase in 0..session.phases {
            let last = phase + 1 == session.phases;
            let moment = match session.close {
                SessionEnd::Kill(moment) | SessionEnd::Power(moment) if last => moment,
                _ => None,
            };
            let whole = self.phase(session, &store, moment)?;
            self.note_losses(&store);
            if !whole {
                return Ok(self.end(session.close));
            }
        }
        if session.close == SessionEnd::Stop {
            self.stop(session, &store)?;
            self.note_losses(&store);
        }
        if self.given_up() && self.guarantee() == SurvivalGuarantee::Durable {
            return Err("the device was given up, though nothing failed".to_owned());
        }
        Ok(self.end(session.close))
    }

    /// Runs `future`; returns `None` if the fault plan halts the simulation.
    fn drive<T>(&self, what: &str, future: impl Future<Output = T>) -> Result<Option<T>, String> {
        match self.executor.try_run(PATIENCE, future) {
            Ok(value) => Ok(Some(value)),
            Err(Stop::Halted) => Ok(None),
            Err(stop) => Err(format!("{what}: {stop}")),
        }
    }

    fn open(&mut self) -> Result<Option<TestedStore>, String> {
        let device = vec![Rc::new(self.disk.clone())];
        let opening = Store::open(device, self.executor.handle(), self.options.clone());
        let failing = self.guarantee() != SurvivalGuarantee::Durable;
        match self.drive("opening", opening)? {
            None => Ok(None),
            Some(Ok(store)) => Ok(Some(store)),
            Some(Err(DeviceError {
                reason: OpenError::IndexTooLarge { index, memory }, ..
            })) => Err(format!("the trial's memory is too small: {index} of {memory}")),
            Some(Err(_)) if failing => {
                *self.given_up.lock().unwrap_or_else(PoisonError::into_inner) = true;
                Ok(None)
            }
            Some(Err(error)) => Err(format!("it cannot be opened: {}", error.reason)),
        }
    }

    fn client(&mut self, store: &TestedStore, own: Vec<u32>, all: u32) -> Client {
        Client {
            store: store.clone(),
            history: Rc::clone(&self.history),
            clock: self.executor.handle(),
            random: self.random.fork(),
            own,
            all,
            steady: false,
        }
    }

    /// Returns what the previous session knew of a key.
    fn explain(&self, session: &Session<'_>, key: u32) -> String {
        let before = session.setup.before.borrow();
        before.as_ref().map(|before| before.explain(key)).unwrap_or_default()
    }

    /// Waits for recovery, then looks up every key. Each state found must be permitted, and each
    /// required state must be found. From then on the history contains exactly these states.
    fn check_all(
        &mut self,
        session: &Session<'_>,
        store: &TestedStore,
        report: &mut Report,
    ) -> Result<(), String> {
        let (share, clock) = (store.share(), self.executor.handle());
        let recovered = async {
            while !share.recovered() {
                clock.sleep_until(clock.now() + SECOND / 100).await;
            }
        };
        self.drive("recovery", recovered)?;
        self.account(store)?;
        self.note_losses(store);
        let keys = self.history.borrow().keys();
        let mut client = self.client(store, keys.clone(), 1);
        for number in keys {
            let seen = self.drive("a lookup", client.look(number))?;
            let seen = seen.ok_or("halted without reason")?;
            let seen = seen.map_err(|what| what + &self.explain(session, number))?;
            self.note_losses(store);
            // This history was made when the last session ended.
            let required = self.history.borrow().required(number, END_OF_NOTHING);
            if let Some(required) = required {
                if seen == LookupResult::Whole(required) {
                    report.kept += 1;
                } else if self.guarantee() < SurvivalGuarantee::Truthful && !self.given_up() {
                    let before = self.explain(session, number);
                    return Err(format!("{required:?} was durable, {seen:?} is found{before}"));
                }
            }
            let mut history = self.history.borrow_mut();
            match seen {
                // A record evicted meanwhile is still current: if power is lost, the note of its
                // eviction may be lost too.
                LookupResult::Nothing if self.losses > 0 => {}
                LookupResult::Nothing => history.found(number, None),
                LookupResult::Whole(state) => history.found(number, Some(state)),
                // Its missing pieces may or may not be found the next time.
                LookupResult::Cut(_) => {}
            }
        }
        if self.losses > 0 {
            // An object may have been found in memory, where it was read before its record was
            // lost.
            self.history.borrow_mut().forget_requirements();
        }
        self.rest(store)
    }

    /// Runs the clients concurrently; returns false if the session ended meanwhile.
    fn phase(
        &mut self,
        session: &Session<'_>,
        store: &TestedStore,
        moment: Option<Nanos>,
    ) -> Result<bool, String> {
        let all = session.setup.keys;
        let tasks: Vec<_> = (0..session.clients)
            .map(|number| {
                let own: BTreeSet<u32> =
                    (0..all).filter(|k| k % session.clients == number).collect();
                let own = own.into_iter().collect::<Vec<u32>>();
                let steps = self.random.u32(..=session.steps);
                let client = self.client(store, own, all);
                self.executor.handle().spawn(client.work(steps))
            })
            .collect();
        let working = async {
            for task in tasks {
                task.await?;
            }
            Ok::<(), String>(())
        };
        let patience = moment.unwrap_or(PATIENCE);
        match self.executor.try_run(patience, working) {
            Ok(result) => result?,
            Err(Stop::Halted) => return Ok(false),
            Err(Stop::Late) if moment.is_some() => return Ok(false),
            Err(stop) => return Err(format!("clients at work: {stop}")),
        }
        self.note_losses(store);
        self.account(store)?;
        match self.random.u8(..4) {
            0 => {}
            1 => self.executor.pass(self.random.u64(..2 * SECOND)),
            2 => self.rest(store)?,
            _ => {
                self.rest(store)?;
                let interval = self.options.flush_interval.as_nanos() as Nanos;
                self.executor.pass(2 * interval);
            }
        }
        self.note_losses(store);
        Ok(true)
    }

    /// Waits until all writes have reached the device; records in the history if they did.
    fn rest(&mut self, store: &TestedStore) -> Result<(), String> {
        let bound = self.options.durability_bound.as_nanos() as Nanos;
        let mut quiet = 0;
        for _ in 0..40 {
            self.executor.pass(3 * bound);
            let stats = store.stats();
            let written =
                stats.iter().all(|stats| stats.unwritten_bytes == 0 && stats.staged_bytes == 0);
            let idle = self.disk.disk.counts().in_flight == 0 && written;
            quiet = if idle { quiet + 1 } else { 0 };
            if quiet == 2 {
                break;
            }
        }
        self.account(store)?;
        self.note_losses(store);
        if quiet == 2 && Variant::bounded(&self.options) && !self.given_up() {
            self.history.borrow_mut().settle();
        }
        Ok(())
    }

    fn stop(&mut self, session: &Session<'_>, store: &TestedStore) -> Result<(), String> {
        self.note_losses(store);
        let recovered = store.share().recovered();
        let Some(whole) = self.drive("the stop", store.shutdown())? else { return Ok(()) };
        if !whole && recovered && session.plan == FaultPlan::none() {
            return Err("it could not be stopped in order, though nothing failed".to_owned());
        }
        self.stopped = whole;
        if whole {
            let mut history = self.history.borrow_mut();
            history.settle();
            let begin = history.stamp();
            history.flushed(begin);
        }
        Ok(())
    }

    fn account(&self, store: &TestedStore) -> Result<(), String> {
        let account = store.account().into_iter().collect::<Result<Vec<_>, _>>();
        account.map(|_| ()).map_err(|error| error.to_string())
    }

    /// Notes whether any record was evicted or lost with an error.
    fn note_losses(&mut self, store: &TestedStore) {
        let mut losses = 0;
        self.damaged = 0;
        for stats in store.stats() {
            let counters = stats.counters;
            self.damaged += counters.damaged_records;
            let lost = counters.evicted_records
                + counters.one_timer_clusters
                + counters.evicted_clusters
                + counters.index_displaced
                + counters.lost_records
                + counters.dropped_unwritten
                + counters.incomplete_objects
                + counters.purges_merged;
            losses += lost;
        }
        if losses > self.losses {
            self.losses = losses;
            self.history.borrow_mut().forget_requirements();
        }
    }
}

/// The history of a session contains the states required at the end of the last one as if they had
/// been stored and flushed at its beginning, so no further loss is assumed.
const END_OF_NOTHING: End = End { power: false, given_up: false };
