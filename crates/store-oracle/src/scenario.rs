//! A store on a simulated disk, driven by a test case by case. Each result is checked against the
//! history as in a trial.
//!
//! Guarantees: a result that the history does not permit is reported as an error at once.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use device::{Clock, Nanos};
use fastrand::Rng;
use sim::{Contents, Executor, Fault, FaultPlan, Stop, Uniform};
use store::{Labels, Options, Store, WritePolicy};

use super::client::{Client, LookupResult, TestedStore};
use super::content::TrialLabels;
use super::oracle::{End, History};
use super::recording_device::RecordingDevice;
use super::run::TestSetup;
use super::variant::Variant;

/// Wall-clock time at the start of a scenario, in Unix seconds.
const START: u64 = 1_700_000_000;
/// First of the key numbers used to fill the device; above all numbers that tests choose.
const FILLERS: u32 = 1 << 20;

/// A store on a simulated disk, driven by a test.
pub struct Scenario {
    setup: Rc<TestSetup>,
    options: Options,
    executor: Executor,
    /// The simulated disk.
    pub disk: RecordingDevice,
    /// The store under test.
    pub store: TestedStore,
    /// The operations on the store.
    pub history: Rc<RefCell<History>>,
    fillers: u32,
}

impl Scenario {
    /// Creates a new cache of `len` bytes.
    ///
    /// # Errors
    /// Why it cannot be created.
    pub fn new(variant: Variant, len: u64) -> Result<Scenario, String> {
        let setup = Rc::new(TestSetup::plain(variant, len));
        let labels = Some(Arc::new(TrialLabels) as Arc<dyn Labels>);
        let shared_memory = Some(setup.shared_memory());
        let options = Options { memory: 2 << 20, labels, shared_memory, ..(variant.options)() };
        let contents = setup.formatted()?;
        Scenario::open(setup, options, contents, History::default())
    }

    fn open(
        setup: Rc<TestSetup>,
        options: Options,
        contents: Contents,
        history: History,
    ) -> Result<Scenario, String> {
        let executor = Executor::new(None, START);
        let disk = setup.disk(&executor, Uniform::fast(setup.room), setup.len, contents);
        let history = Rc::new(RefCell::new(history));
        let disk = RecordingDevice::new(disk, Rc::clone(&history));
        let devices = vec![Rc::new(disk.clone())];
        let store = executor.run(Store::open(devices, executor.handle(), options.clone()));
        let store = store.map_err(|error| error.reason.to_string())?;
        let background = store.clone();
        executor.handle().spawn(async move { background.run_background().await });
        Ok(Scenario { setup, options, executor, disk, store, history, fillers: FILLERS })
    }

    /// Sets how long the next openings wait for recovery.
    pub fn set_recovery_wait(&mut self, wait: Duration) {
        self.options.recovery_wait = wait;
    }

    /// Sets the memory of the next openings, in bytes.
    pub fn set_memory(&mut self, bytes: u64) {
        self.options.memory = bytes;
    }

    /// Sets the write policy of the next openings.
    pub fn set_write_policy(&mut self, policy: WritePolicy) {
        self.options.write_policy = policy;
    }

    /// Returns a client of this store.
    pub fn client(&self) -> Client {
        Client {
            store: self.store.clone(),
            history: Rc::clone(&self.history),
            clock: self.executor.handle(),
            random: Rng::with_seed(1),
            own: Vec::new(),
            all: 0,
            steady: false,
        }
    }

    /// Runs a client.
    pub fn run<T>(&self, does: impl AsyncFnOnce(&mut Client) -> T) -> T {
        let mut client = self.client();
        self.executor.run(does(&mut client))
    }

    /// Runs a client until its next device operation after `operations`; returns `None` if it got
    /// that far.
    ///
    /// # Errors
    /// The client hangs.
    pub fn run_until<T>(
        &self,
        operations: u64,
        does: impl AsyncFnOnce(&mut Client) -> T,
    ) -> Result<Option<T>, String> {
        self.disk.disk.set_plan(FaultPlan::one(Fault::Halt { after: operations }));
        let mut client = self.client();
        let result = self.executor.try_run(Nanos::MAX, does(&mut client));
        self.disk.disk.set_plan(FaultPlan::none());
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Stop::Halted) => Ok(None),
            Err(stop) => Err(stop.to_string()),
        }
    }

    /// Looks up the key and verifies the object.
    ///
    /// # Errors
    /// The object that was found may not be there.
    pub fn look(&self, number: u32) -> Result<LookupResult, String> {
        self.run(async |client| client.look(number).await)
    }

    /// Lets this much time pass.
    pub fn pass(&self, time: Duration) {
        self.executor.pass(time.as_nanos() as Nanos);
    }

    /// Waits until all writes have reached the device.
    pub fn settle(&self) {
        let bound = self.options.durability_bound.max(self.options.flush_interval / 2);
        self.executor.pass(3 * bound.as_nanos() as Nanos);
        if Variant::bounded(&self.options) {
            self.history.borrow_mut().settle();
        }
    }

    /// Waits until all writes are durable.
    pub fn settle_durably(&self) {
        self.settle();
        self.executor.pass(2 * self.options.flush_interval.as_nanos() as Nanos);
    }

    /// Stores other objects until `number` is no longer found and everything else that was there
    /// has been replaced.
    ///
    /// # Errors
    /// `number` stays, or an object that may not be there is found.
    pub fn crowd_out(&mut self, number: u32) -> Result<(), String> {
        for round in 0..400 {
            for _ in 0..8 {
                let filler = self.fillers;
                self.fillers += 1;
                // Looks it up once more, so that it outlives objects that were never read.
                _ = self.run(async |client| client.insert(filler, 20_000).await);
                self.look(filler)?;
            }
            self.executor.pass(self.executor.handle().now() % 7 * 100_000_000);
            if round > 100 && self.look(number)? == LookupResult::Nothing {
                return Ok(());
            }
        }
        Err(format!("key {number} is still there after {} objects", self.fillers - FILLERS))
    }

    /// Stops the store in order and opens it again.
    ///
    /// # Errors
    /// The store does not stop in order or does not open.
    pub fn stop(self) -> Result<Scenario, String> {
        if !self.executor.run(self.store.shutdown()) {
            return Err("it did not stop in order".to_owned());
        }
        {
            let mut history = self.history.borrow_mut();
            history.settle();
            let begin = history.stamp();
            history.flushed(begin);
        }
        self.crash(false, 1)
    }

    /// Kills the process or cuts its power; `seed` determines which writes are torn. Opens the
    /// store again.
    ///
    /// # Errors
    /// The store does not open.
    pub fn crash(self, power: bool, seed: u64) -> Result<Scenario, String> {
        let contents = match power {
            true => {
                self.setup.empty_memory();
                self.disk.disk.crash_power(seed)
            }
            false => self.disk.disk.crash_process(seed),
        };
        let end = End { power, given_up: false };
        let history = self.history.borrow().after(end);
        let Scenario { setup, options, fillers, .. } = self;
        let mut scenario = Scenario::open(setup, options, contents, history)?;
        scenario.fillers = fillers;
        Ok(scenario)
    }

    /// Checks every key; with `all`, every required state must be found.
    ///
    /// # Errors
    /// The first error found.
    pub fn check(&self, all: bool) -> Result<(), String> {
        for account in self.store.account() {
            account.map_err(|error| error.to_string())?;
        }
        let keys = self.history.borrow().keys();
        for number in keys {
            let end = End { power: false, given_up: false };
            let required = self.history.borrow().required(number, end);
            let seen = self.look(number)?;
            if let Some(required) = required.filter(|_| all)
                && seen != LookupResult::Whole(required)
            {
                return Err(format!("{required:?} was durable, {seen:?} is found"));
            }
        }
        Ok(())
    }
}
