//! The loads under which systems are compared.

use std::time::Duration;

use crate::load::{LoadOptions, PhaseKind, Sizes, Workload};
use crate::run::{End, Pace, PhasePlan};

/// A load.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The name in tables.
    pub name: &'static str,
    /// The name on the command line.
    pub id: &'static str,
    /// One line about what it shows.
    pub about: &'static str,
    /// The requests.
    pub load: LoadOptions,
    /// How the cache is filled before the measurement.
    fill: Option<End>,
    /// Number of connections, if it differs from the other scenarios.
    pub connections: Option<usize>,
}

impl Scenario {
    /// Returns the phase that fills the cache.
    pub fn fill(&self) -> Option<PhasePlan> {
        self.fill.map(|end| plan("fill", PhaseKind::Fill, end))
    }

    /// Returns the approximate size of an object in bytes; those of pages have a mean of 11 KB.
    pub fn object_bytes(&self) -> u64 {
        match (&self.load.workload, self.load.sizes) {
            (Workload::Generated(_), _) => 11_000,
            (_, Sizes::Fixed(size)) => size,
            _ => 11_000,
        }
    }

    /// Returns a phase that is measured.
    pub fn round(&self, time: Duration) -> PhasePlan {
        plan("round", PhaseKind::Steady, End::After(time))
    }
}

fn plan(name: &str, kind: PhaseKind, end: End) -> PhasePlan {
    PhasePlan { name: name.to_owned(), kind, pace: Pace::Closed, end }
}

/// The common parameters of the scenarios.
struct Common {
    cache: u64,
    seed: u64,
}

impl Common {
    fn load(&self, workload: Workload, size: u64, uncacheable: f64) -> LoadOptions {
        let (seed, sizes) = (self.seed, Sizes::Fixed(size));
        LoadOptions { workload, seed, sizes, lifetime: 0, uncacheable, ranges: 0.0, browser: false }
    }

    /// Returns a scenario with equally popular objects of one size, each of which is fetched once
    /// beforehand.
    fn objects(&self, [name, id, about]: [&'static str; 3], objects: u64, size: u64) -> Scenario {
        let count = u32::try_from(objects).unwrap_or(u32::MAX).max(1);
        let load = self.load(Workload::Zipf { objects: count, alpha: 0.0, drift: None }, size, 0.0);
        let fill = Some(End::Requests(u64::from(count)));
        Scenario { name, id, about, load, fill, connections: None }
    }

    fn small(&self) -> Vec<Scenario> {
        let memory = ["hit from memory, 3 KB", "memory", "a thousand objects, all in memory"];
        let disk = [
            "hit from disk, 4 KB",
            "disk",
            "not quite half of the cache, more than fits into memory, all as popular",
        ];
        let pass = ["passed, not stored, 3 KB", "pass", "answers that must not be stored"];
        let passed = self.objects(pass, 1_000, 3_000);
        let load = self.load(passed.load.workload.clone(), 3_000, 1.0);
        vec![
            self.objects(memory, 1_000, 3_000),
            // Objects fit into 4 KB blocks: a file slightly larger than a block would take two.
            self.objects(disk, self.cache * 9 / 20 / 4_096, 4_000),
            Scenario { load, fill: None, ..passed },
        ]
    }

    fn evicting(&self) -> Vec<Scenario> {
        let scenario = |name, id, about, load, times: u64| Scenario {
            name,
            id,
            about,
            load,
            fill: Some(End::Filled(self.cache * times / 10)),
            connections: None,
        };
        vec![
            scenario(
                "miss and store, unique 3 KB",
                "miss",
                "every request for a new object, on a cache that evicts",
                self.load(Workload::Unique, 3_000, 0.0),
                11,
            ),
            scenario(
                "pages, evicting",
                "pages",
                "pages whose popularity drifts, after twice the cache was stored",
                self.load(Workload::pages_for(self.cache), 0, 0.0),
                20,
            ),
        ]
    }

    fn large(&self) -> Vec<Scenario> {
        let one = ["1 MB from disk", "1mb", "objects of 1 MB, three fifths of the cache"];
        let hundred = ["100 MB from disk", "100mb", "objects of 100 MB, a third of the cache"];
        let (ones, hundreds) = (self.cache * 3 / 5 / 1_000_000, self.cache / 300_000_000);
        vec![
            Scenario { connections: Some(16), ..self.objects(one, ones, 1_000_000) },
            Scenario { connections: Some(4), ..self.objects(hundred, hundreds, 100_000_000) },
        ]
    }
}

/// Returns all scenarios, for caches of `cache` bytes.
pub fn scenarios(cache: u64, seed: u64) -> Vec<Scenario> {
    let common = Common { cache, seed };
    [common.small(), common.evicting(), common.large()].concat()
}

#[test]
fn the_scenarios_are_what_they_are_called() {
    let all = scenarios(512 << 20, 1);
    let ids: Vec<&str> = all.iter().map(|scenario| scenario.id).collect();
    assert_eq!(ids, ["memory", "disk", "pass", "miss", "pages", "1mb", "100mb"]);
    assert!(matches!(all[4].load.workload, Workload::Generated(_)));
    assert!(all[2].fill().is_none() && all[0].fill().is_some());
    let bytes: Vec<u64> = all.iter().map(Scenario::object_bytes).collect();
    assert_eq!(bytes, [3_000, 4_000, 3_000, 3_000, 11_000, 1_000_000, 100_000_000]);
    let round = all[0].round(Duration::from_secs(3));
    assert_eq!((round.pace, round.end), (Pace::Closed, End::After(Duration::from_secs(3))));
}
