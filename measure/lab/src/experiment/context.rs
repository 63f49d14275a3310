//! The context of an experiment: its scale, its seeds, threads for its variants, and a progress
//! meter.
//!
//! Guarantees: results are in the order of the variants and do not depend on the number of threads.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::Failed;

/// The scale of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Takes a moment: shows that every part works; the numbers mean nothing. For tests.
    Smoke,
    /// Takes seconds: shows the rough shape of the results.
    Quick,
    /// The paper's sizes, or as close as half an hour for a whole paper allows.
    Full,
}

impl Scale {
    /// Returns the name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Scale::Smoke => "smoke",
            Scale::Quick => "quick",
            Scale::Full => "full",
        }
    }
}

/// The progress of a run; may be read from other threads meanwhile.
#[derive(Debug, Default)]
pub struct Meter(Mutex<Vec<Arc<Gauge>>>);

#[derive(Debug)]
struct Gauge {
    label: String,
    /// Number of steps; 0 until the variant has reported it.
    total: AtomicU64,
    done: AtomicU64,
    state: AtomicUsize,
}

const WAITING: usize = 0;
const RUNNING: usize = 1;
const FINISHED: usize = 2;

impl Gauge {
    fn fraction(&self) -> f64 {
        if self.state.load(Ordering::Relaxed) == FINISHED {
            return 1.0;
        }
        let total = self.total.load(Ordering::Relaxed).max(1) as f64;
        (self.done.load(Ordering::Relaxed) as f64 / total).min(1.0)
    }
}

impl Meter {
    /// Returns the share of the run that is done, from 0 to 1. All variants have equal weight.
    pub fn fraction(&self) -> f64 {
        let gauges = self.gauges();
        let done: f64 = gauges.iter().map(|gauge| gauge.fraction()).sum();
        done / gauges.len().max(1) as f64
    }

    /// Returns the labels of the running variants.
    pub fn running(&self) -> Vec<String> {
        let gauges = self.gauges();
        let running = gauges.iter().filter(|gauge| gauge.state.load(Ordering::Relaxed) == RUNNING);
        running.map(|gauge| gauge.label.clone()).collect()
    }

    fn gauges(&self) -> MutexGuard<'_, Vec<Arc<Gauge>>> {
        // The gauges hold numbers only, so they stay valid after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, label: String) -> Arc<Gauge> {
        let (total, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let gauge = Arc::new(Gauge { label, total, done, state: AtomicUsize::new(WAITING) });
        self.gauges().push(Arc::clone(&gauge));
        gauge
    }
}

/// The context of a run.
pub struct Context<'a> {
    name: &'a str,
    scale: Scale,
    jobs: usize,
    meter: &'a Meter,
}

impl<'a> Context<'a> {
    /// Creates the context of the experiment `name`, with at most `jobs` variants at a time (at
    /// least one).
    pub fn new(name: &'a str, scale: Scale, jobs: usize, meter: &'a Meter) -> Context<'a> {
        Context { name, scale, jobs: jobs.max(1), meter }
    }

    /// Returns the scale of the run.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// Returns one of the two values, by the scale. It decides how many cases are compared:
    /// [`Scale::Smoke`] compares the same ones as [`Scale::Quick`].
    pub fn pick<T>(&self, quick: T, full: T) -> T {
        match self.scale {
            Scale::Smoke | Scale::Quick => quick,
            Scale::Full => full,
        }
    }

    /// Returns one of the three values, by the scale. It decides the size of each run.
    pub fn size<T>(&self, smoke: T, quick: T, full: T) -> T {
        match self.scale {
            Scale::Smoke => smoke,
            Scale::Quick => quick,
            Scale::Full => full,
        }
    }

    /// Returns the seed of this experiment: fixed, and different for each experiment. Randomness
    /// that all variants must share (the workload) uses it.
    pub fn seed(&self) -> u64 {
        seed_of(self.name)
    }

    /// Runs the variants, several at a time, each on a thread of its own with its own state, and
    /// returns their results in order. List long variants first. The error names the first variant
    /// that failed.
    pub fn variants<L, I, T>(
        &mut self,
        variants: impl IntoIterator<Item = (L, I)>,
        run: impl Fn(&Variant, I) -> Result<T, Failed> + Sync,
    ) -> Result<Vec<T>, Failed>
    where
        L: Display,
        I: Send,
        T: Send,
    {
        let waiting: Vec<Mutex<Option<(Variant, I)>>> = variants
            .into_iter()
            .map(|(label, input)| {
                let label = label.to_string();
                let seed = seed_of(&format!("{}/{label}", self.name));
                let variant = Variant { seed, gauge: self.meter.add(label) };
                Mutex::new(Some((variant, input)))
            })
            .collect();
        let results: Vec<Mutex<Option<Result<T, Failed>>>> =
            waiting.iter().map(|_| Mutex::new(None)).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let places = waiting.get(index).zip(results.get(index));
                let Some((place, result)) = places else { break };
                let Some((variant, input)) = locked(place).take() else { break };
                variant.gauge.state.store(RUNNING, Ordering::Relaxed);
                let came = run(&variant, input);
                variant.gauge.state.store(FINISHED, Ordering::Relaxed);
                let named = |why| Failed(format!("{}: {why}", variant.label()));
                *locked(result) = Some(came.map_err(named));
            }
        };
        thread::scope(|scope| {
            for _ in 0..self.jobs.min(waiting.len()) {
                scope.spawn(work);
            }
        });
        let taken = results
            .into_iter()
            .filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner));
        taken.collect()
    }
}

/// One of the variants that an experiment compares.
pub struct Variant {
    seed: u64,
    gauge: Arc<Gauge>,
}

impl Variant {
    /// Returns the label.
    pub fn label(&self) -> &str {
        &self.gauge.label
    }

    /// Returns a fixed seed, different for each variant of each experiment, for randomness that
    /// variants need not share.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Sets the total number of steps.
    pub fn total(&self, steps: u64) {
        self.gauge.total.store(steps, Ordering::Relaxed);
    }

    /// Adds to the number of steps done.
    pub fn advance(&self, steps: u64) {
        self.gauge.done.fetch_add(steps, Ordering::Relaxed);
    }

    /// Returns the items, counted as they are consumed; also sets the total.
    pub fn watch<'a, I>(&'a self, total: u64, items: I) -> impl Iterator<Item = I::Item> + 'a
    where
        I: IntoIterator + 'a,
    {
        self.total(total);
        items.into_iter().inspect(|_| self.advance(1))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn seed_of(text: &str) -> u64 {
    // 31 bits: short to print and to type.
    xxh3_64(text.as_bytes()) >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_come_back_in_order_whatever_the_number_of_threads() {
        let run = |jobs| {
            let meter = Meter::default();
            let mut context = Context::new("x", Scale::Quick, jobs, &meter);
            let variants = (0..50).map(|number| (number, number));
            let results = context.variants(variants, |variant, number| {
                let steps = variant.watch(1_000 * (50 - number), 0..1_000 * (50 - number));
                Ok((variant.label().to_owned(), variant.seed(), steps.sum::<u64>()))
            });
            assert_eq!(meter.fraction(), 1.0);
            results.unwrap()
        };
        let one = run(1);
        assert_eq!(one, run(4));
        assert_eq!((one[3].0.as_str(), one[3].2), ("3", 47_000 * 46_999 / 2));
        let seeds: std::collections::BTreeSet<u64> = one.iter().map(|(_, seed, _)| *seed).collect();
        assert_eq!(seeds.len(), 50, "each arm has its own seed");
    }

    #[test]
    fn an_arm_that_fails_is_named() {
        let meter = Meter::default();
        let mut context = Context::new("x", Scale::Full, 2, &meter);
        let variants = [("good", 1), ("bad", 0), ("worse", 0)];
        let result = context.variants(variants, |_, number| match number {
            0 => Err(Failed::from("no room")),
            number => Ok(number),
        });
        assert_eq!(result, Err(Failed("bad: no room".to_owned())));
    }

    #[test]
    fn a_meter_counts_every_arm_alike() {
        let meter = Meter::default();
        let (first, second) = (meter.add("first".into()), meter.add("second".into()));
        first.total.store(10, Ordering::Relaxed);
        first.done.store(5, Ordering::Relaxed);
        first.state.store(RUNNING, Ordering::Relaxed);
        second.total.store(1_000, Ordering::Relaxed);
        assert_eq!(meter.fraction(), 0.25);
        assert_eq!(meter.running(), ["first"]);
    }
}
