//! The caches to replay on the engine, and the conclusions from their results: settings, a reason
//! for each, and what the log cannot show.

use store::LayoutName;
use store::policy::{AdmissionName, PolicyName};

use super::format::{count, percent, points, size};
use super::sizes::Bound;
use super::{Curves, Goal, NoAdvice, Part, PolicyOutcome, Prices, Sizes};
use crate::advise::access_log::AccessLog;
use crate::advise::log_replay::{Measured, Row, Setup, System};

/// Difference of hit ratios that counts; half of it where policies are compared.
const POINT: f64 = 0.01;

/// How many times a disk must have been filled before the log says much about its size.
pub const TURNOVERS: f64 = 2.0;

/// The share of the mean request time that another layout or policy must save to be advised.
const WORTH: f64 = 0.02;

/// Maximum bytes written with second-hit admission, as a share of those written when every object
/// is admitted, for it to be advised.
const FEWER_WRITES: f64 = 0.7;

/// Maximum loss of hits that second-hit admission may cost, as a share of requests.
const FEWER_HITS: f64 = 0.005;

/// Number of objects below which a sample is rough.
const FEW_OBJECTS: f64 = 5_000.0;

/// Minimum number of objects that the replayed cache of a sample must hold for its layouts to be
/// compared: in a smaller one, the fixed sizes of clusters and buffers dominate.
const HELD: f64 = 2_000.0;

/// Why a setting is advised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The setting's name in the configuration.
    pub setting: &'static str,
    /// The reason in one sentence, with its numbers.
    pub why: String,
}

/// The advice.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The advised cache.
    pub setup: Setup,
    /// One reason for each choice.
    pub reasons: Vec<Reason>,
    /// Questions that the log cannot answer, one sentence each.
    pub doubts: Vec<String>,
}

/// Returns the setups to replay: every layout at the chosen sizes, also with the best policy if it
/// beats LRU; the default with second-hit admission; the default with half and twice the disk.
pub fn candidates(
    sizes: &Sizes,
    policies: &[PolicyOutcome],
    goal: Goal,
    most_disk: u64,
) -> Vec<Setup> {
    let new = |system| Setup {
        mean_object: sizes.mean_object,
        ..Setup::new(system, sizes.memory, sizes.disk)
    };
    let mut setups: Vec<Setup> = LayoutName::ALL.map(|layout| new(System::Layout(layout))).to_vec();
    let (best, gain) = best_policy(policies, goal);
    if gain >= POINT / 2.0 {
        let slots = LayoutName::ALL.map(System::Layout).into_iter();
        let with = |system| Setup { policy: Some(best), ..new(system) };
        setups.extend(slots.filter(|system| system.takes_policy()).map(with));
    }
    let default = new(System::Layout(LayoutName::Cluster));
    setups.push(Setup { admission: Some(AdmissionName::SecondHit), ..default });
    for disk in [sizes.disk / 2, sizes.disk.saturating_mul(2)] {
        if (store::CACHE_SIZE_MIN..=most_disk).contains(&disk) {
            setups.push(Setup { disk, ..default });
        }
    }
    setups
}

/// Returns the best policy and its gain in hits over LRU.
fn best_policy(policies: &[PolicyOutcome], goal: Goal) -> (PolicyName, f64) {
    let hits = |outcome: &PolicyOutcome| goal.of(outcome.hits);
    let lru = policies.iter().find(|outcome| outcome.policy == PolicyName::Lru).map_or(0.0, hits);
    let best = policies.iter().max_by(|one, other| hits(one).total_cmp(&hits(other)));
    best.map_or((PolicyName::Lru, 0.0), |best| (best.policy, hits(best) - lru))
}

/// All measurements.
pub struct Evidence<'a> {
    /// The log.
    pub log: &'a AccessLog,
    /// The curves of the log.
    pub curves: &'a Curves,
    /// The sizes chosen from the curves.
    pub sizes: &'a Sizes,
    /// Results of the policies at the chosen disk size.
    pub policies: &'a [PolicyOutcome],
    /// Results of the candidates.
    pub rows: &'a [Row],
    /// The ratio to maximise.
    pub goal: Goal,
    /// The prices by which the sizes were chosen.
    pub prices: Prices,
}

/// Draws the conclusions.
///
/// # Errors
/// The engine could not run any of the candidates.
pub fn decide(evidence: &Evidence<'_>) -> Result<Verdict, NoAdvice> {
    let sizes = evidence.sizes;
    let tried: Vec<(&Setup, &Measured)> = evidence
        .rows
        .iter()
        .filter(|row| row.setup.disk == sizes.disk)
        .filter_map(|row| Some((&row.setup, row.result.as_ref().ok()?)))
        .collect();
    let all = || tried.iter().filter(|(setup, _)| setup.admission.is_none());
    let cost = |measured: &Measured| evidence.cost(measured);
    let best = all().min_by(|one, other| cost(one.1).total_cmp(&cost(other.1)));
    let Some(best) = best else {
        let why = evidence.rows.iter().find_map(|row| row.result.as_ref().err());
        return Err(NoAdvice(format!(
            "the engine runs with none of the chosen sizes: {}",
            why.map_or("", String::as_str)
        )));
    };
    let default = all().find(|(setup, _)| is_default(setup)).unwrap_or(best);
    let better = 1.0 - cost(best.1) / cost(default.1).max(f64::MIN_POSITIVE);
    let few = evidence.few_held();
    let chosen = if better >= WORTH && few.is_none() { best } else { default };
    let mut setup = *chosen.0;
    let mut reasons = vec![evidence.disk(), evidence.memory()];
    reasons.push(match few {
        Some(held) => Reason {
            setting: "layout",
            why: format!(
                "the default: the cache replayed for the sample holds about {} objects, too few \
                 to compare layouts; use a larger --sample",
                count(held)
            ),
        },
        None => evidence.layout(chosen, default, best, all().count()),
    });
    reasons.push(evidence.policy(&setup));
    let second = tried.iter().find(|(setup, _)| setup.admission.is_some());
    if let Some((_, second)) = second.filter(|_| is_default(&setup) && few.is_none()) {
        let (is_worth, reason) = evidence.admission(chosen.1, second);
        reasons.push(reason);
        setup.admission = is_worth.then_some(AdmissionName::SecondHit);
    }
    reasons.extend(evidence.mean_object());
    Ok(Verdict { setup, reasons, doubts: evidence.doubts(chosen.1) })
}

fn is_default(setup: &Setup) -> bool {
    setup.system == System::Layout(LayoutName::Cluster)
}

impl Evidence<'_> {
    /// Returns the mean time of a request in milliseconds.
    fn cost(&self, measured: &Measured) -> f64 {
        measured.waited_ms + self.prices.miss_ms * (1.0 - self.hits(measured))
    }

    fn hits(&self, measured: &Measured) -> f64 {
        match self.goal {
            Goal::Requests => measured.hit_ratio,
            Goal::Bytes => measured.byte_hit_ratio,
        }
    }

    /// Returns the number of objects that the sample's cache holds, if they are too few to compare
    /// layouts.
    fn few_held(&self) -> Option<f64> {
        let rate = self.log.sampling().rate();
        let held = self.sizes.disk as f64 * rate / self.sizes.mean.max(1) as f64;
        // At most the objects of the sample.
        let held = held.min(self.log.summary().objects as f64 * rate);
        (rate < 1.0 && held < HELD).then_some(held)
    }

    fn on_disk(&self, disk: u64) -> f64 {
        self.goal.of(self.curves.at(disk, Part::Second))
    }

    fn in_memory(&self, memory: u64) -> f64 {
        self.goal.of(self.sizes.memory_hits(self.curves, memory, Part::Second))
    }

    fn disk(&self) -> Reason {
        let (disk, goal) = (self.sizes.disk, self.goal);
        let [half, this, double] = [disk / 2, disk, disk * 2].map(|disk| self.on_disk(disk));
        let why = format!(
            "{} serve {} of the {goal} in the second half of the log (LRU), half the size {}, \
             twice the size {}: {}",
            size(disk),
            percent(this),
            percent(half),
            percent(double),
            end(
                self.sizes.disk_bound,
                "a larger one costs more than the misses that it saves",
                "--max-disk, the drive or the memory for the index"
            )
        );
        Reason { setting: "cache-size", why }
    }

    fn memory(&self) -> Reason {
        let (memory, goal) = (self.sizes.memory, self.goal);
        let [half, this, double] =
            [memory / 2, memory, memory * 2].map(|memory| self.in_memory(memory));
        let why = format!(
            "of {}, {} are for objects and serve {} of the {goal} without the disk, half the \
             memory {}, twice the memory {}: {}",
            size(memory),
            size(self.sizes.objects_in(memory)),
            percent(this),
            percent(half),
            percent(double),
            end(
                self.sizes.memory_bound,
                "more costs more than the disk reads that it saves",
                "--max-memory or the size of the disk"
            )
        );
        let all = this + POINT / 2.0 >= self.on_disk(self.sizes.disk);
        let why = match all {
            true => format!("{why}; the disk adds little except after a restart"),
            false => why,
        };
        Reason { setting: "memory", why }
    }

    fn layout(
        &self,
        chosen: &(&Setup, &Measured),
        default: &(&Setup, &Measured),
        best: &(&Setup, &Measured),
        tried: usize,
    ) -> Reason {
        let told = |(setup, measured): &(&Setup, &Measured)| {
            let policy = if is_default(setup) { "" } else { setup.policy_name() };
            format!(
                "{:.2} ms with {} ({} hits, {:.1} s of disk time)",
                self.cost(measured),
                format!("{} {policy}", setup.system).trim_end(),
                percent(self.hits(measured)),
                measured.disk_seconds
            )
        };
        let counted = format!("a mean request, with {} ms per miss, takes", self.prices.miss_ms);
        let why = if chosen.0 != default.0 {
            format!(
                "the best of {tried} that the engine replayed: {counted} {}, and {}, the default",
                told(chosen),
                told(default)
            )
        } else if best.0 == default.0 {
            format!("the best of {tried} that the engine replayed: {counted} {}", told(default))
        } else {
            format!(
                "the default: {counted} {}, and the best of {tried}, {}, saves less than {}",
                told(default),
                told(best),
                percent(WORTH)
            )
        };
        Reason { setting: "layout", why }
    }

    fn policy(&self, setup: &Setup) -> Reason {
        let (best, gain) = best_policy(self.policies, self.goal);
        let gain = match gain >= POINT / 2.0 {
            true => format!("{best} would hit {} more than LRU", points(gain)),
            false => format!("no policy hits {} more than LRU", points(POINT / 2.0)),
        };
        let why = match setup.system.takes_policy() {
            false => format!(
                "as a policy alone, in a cache of the disk's size, {gain}; the layout cluster \
                 evicts by references and takes no policy"
            ),
            true => format!("as a policy alone, in a cache of the disk's size, {gain}"),
        };
        Reason { setting: "store.policy", why }
    }

    fn admission(&self, all: &Measured, second: &Measured) -> (bool, Reason) {
        let fewer = second.written_bytes as f64 / all.written_bytes.max(1) as f64;
        let lost = self.hits(all) - self.hits(second);
        let is_worth = fewer <= FEWER_WRITES && lost <= FEWER_HITS && all.written_bytes > 0;
        let what = format!(
            "storing objects only at their second fetch writes {} instead of {} and hits {} \
             instead of {}",
            size(second.written_bytes),
            size(all.written_bytes),
            percent(self.hits(second)),
            percent(self.hits(all))
        );
        let why = match is_worth {
            true => format!("{what}: this saves writes and loses little"),
            false => format!(
                "{what}: it would pay with at most {} of the bytes and {} fewer hits",
                percent(FEWER_WRITES),
                points(FEWER_HITS)
            ),
        };
        (is_worth, Reason { setting: "store.admission", why })
    }

    fn mean_object(&self) -> Option<Reason> {
        let mean = self.sizes.mean_object?;
        let why = format!(
            "objects of this log take {} on average, far from the default: an index sized for {} \
             each has enough entries and wastes no memory",
            size(self.sizes.mean),
            size(u64::from(mean))
        );
        Some(Reason { setting: "store.mean-object", why })
    }

    /// Returns the questions that the log cannot answer.
    fn doubts(&self, chosen: &Measured) -> Vec<String> {
        let (log, sizes) = (self.log, self.sizes);
        let summary = log.summary();
        let mut doubts = Vec::new();
        let turnovers = self.curves.turnovers(sizes.disk);
        if turnovers < TURNOVERS {
            let hours = summary.seconds / 3_600.0 * TURNOVERS / turnovers.max(0.01);
            let long = match log.has_times() {
                true => format!("; one of about {hours:.0} hours would"),
                false => String::new(),
            };
            doubts.push(format!(
                "The log is too short for {}: it stores that size {turnovers:.1} times, and below \
                 {TURNOVERS} little is ever replaced. It does not show the effect of a larger \
                 disk{long}.",
                size(sizes.disk)
            ));
        }
        let requests = (summary.requests / 2).max(1) as f64 * log.sampling().rate();
        let hit = self.hits(chosen);
        // Adds one hit and one miss (Laplace): no hit, or only hits, in a few requests says little.
        let likely = (hit * requests + 1.0) / (requests + 2.0);
        let coarse = 1.96 * (likely * (1.0 - likely) / requests).sqrt().min(0.5);
        if coarse > POINT / 2.0 {
            doubts.push(format!(
                "The second half has {} requests: hit ratios are accurate to {} at best, and \
                 neighbouring sizes cannot be distinguished.",
                count(requests),
                points(coarse)
            ));
        }
        if log.sampling().rate() < 1.0 {
            let objects = summary.objects as f64 * log.sampling().rate();
            let rough = if objects < FEW_OBJECTS { ", which is rough" } else { "" };
            doubts.push(format!(
                "Everything is estimated from {} of the objects, about {}{rough}; times of disk \
                 hits are those of the smaller cache, which has at least 8M of disk and 2M of \
                 memory.",
                percent(log.sampling().rate()),
                count(objects)
            ));
        }
        let curve = self.on_disk(sizes.disk);
        if (curve - hit).abs() > 2.0 * POINT {
            doubts.push(format!(
                "The engine hits {}, where the curve of LRU says {}: sizes were chosen by the \
                 curve, which ignores layouts and the largest object.",
                percent(hit),
                percent(curve)
            ));
        }
        if self.on_disk(u64::MAX) < POINT {
            doubts.push(format!(
                "A cache of any size would serve less than {} of the {} in the second half: this \
                 log does not justify one.",
                percent(POINT),
                self.goal
            ));
        }
        if chosen.refused > 0 {
            doubts.push(format!(
                "{} requests were for objects that are not stored: larger than a quarter of the \
                 disk (store.max-object).",
                count(chosen.refused as f64)
            ));
        }
        doubts
    }
}

fn end(bound: Bound, price: &str, limits: &str) -> String {
    match bound {
        Bound::Price => price.to_owned(),
        Bound::Limit => format!("limited by {limits}"),
        Bound::Least => "the minimum is enough".to_owned(),
    }
}
