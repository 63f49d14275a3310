//! The papers' traces, which are no longer available, as workloads: one table of parameters, with
//! the source of each and the published figures of the trace.
//!
//! A parameter is *published*, or *fitted* to reproduce published figures, or *assumed* where
//! nothing is published; [`PARAMETERS`] states which. None depends on the results of a system under
//! test. Fitted are: `new` to the document hit rate, `once` to the one-timers, `recency` (DEC) and
//! `kept_below` (NLANR) to the share of hits in memory, `mean` to the data.

use super::calibration::{Caches, Figure};
use super::page_visits::{Browsing, Choice};
use super::sessions::Sessions;
use super::sizes::Sizes;

const MIB: u64 = 1 << 20;

/// Sources of the parameters, for all presets.
pub const PARAMETERS: [(&str, &str); 23] = [
    ("requests", "published: USITS 1999, note 3; UCFS, table 2; Internet Traffic Archive"),
    ("rate", "published: requests by the days of the log; DEC, UCBSep01: assumed"),
    ("clients", "NLANR published: 125-200 client caches (UCFS, 4.3.1); others assumed"),
    ("active", "assumed: visits of ten seconds at the rate of the log"),
    ("before", "assumed: as many visits as the log has, for NLANR; the others begin cold"),
    ("new", "fitted to the document hit rate, for proxies"),
    ("once", "fitted to the one-timers: 70% of objects (UCFS, 2.4.8)"),
    ("recency", "DEC: fitted to memory hits against disk hits (USITS 1999, note 3); else uniform"),
    ("memory", "assumed: the length of the log, in visits"),
    ("reinforced", "assumed: 1 for people; 0.5 above other caches, which keep what is popular"),
    (
        "kept_below",
        "NLANR: fitted to hits in memory of an LRU buffer cache of 256 MB (UCFS, table 4)",
    ),
    ("page_share, embedded_max", "published: PolyMix-3 and -4: 42.9% pages, zipf(13) images"),
    ("more", "measured: 2.8 pages of a site in a row (BU, February 1995), that is 6.5 visits"),
    ("follow", "measured: 35% go where the last visitor of the page went (BU)"),
    ("think_ms", "measured: 30 seconds on the mean between pages of a site (BU)"),
    (
        "asked_again",
        "half, for all: fitted to \"nearly half of all files\" within 10 minutes (UCFS, 2.6.1)",
    ),
    (
        "changed",
        "DEC: fitted to 13.7% of all requests, measured (BU, February 1995); NLANR: assumed, 1% of \
         repeated requests, servers: 0.01%",
    ),
    ("new_site", "fitted to 10 objects a server (BU, measured), once, for all"),
    ("new_directory", "assumed: 30%"),
    ("median, sigma", "published: median 3 KB (USITS 1999), 75% below 8 KB (UCFS, 1)"),
    ("mean", "DEC: 2 GB hold 678,040 - 279,875 objects; NLANR: data by requests, fitted"),
    (
        "tail_min, tail_alpha, largest",
        "NLANR: from 256 KB, 0.75, by which both shares below are met; else assumed: Pareto \
         from 64 KB, 1.2; at most 100 MB",
    ),
    (
        "share of 64 to 256 KB, and of more",
        "NLANR published: each less than 1% (UCFS, 2.4.6, 2.2); the body alone has 0.9% of the \
         first",
    ),
];

/// A published figure of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// Which figure.
    pub figure: Figure,
    /// Its value.
    pub value: f64,
    /// Where it was published.
    pub source: &'static str,
}

/// A synthetic version of a paper's trace; also used for [`super::streams`], which have no
/// published figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preset {
    /// Name on the command line.
    pub name: &'static str,
    /// The trace that it represents.
    pub about: &'static str,
    /// Number of requests in the trace.
    pub requests: u64,
    /// Parameters of the requests; the seed is 0 here.
    pub browsing: Browsing,
    /// The caches to which the published figures refer.
    pub caches: Caches,
    /// Size relative to the original; 1 here.
    pub size: f64,
    /// The published figures.
    pub published: &'static [Published],
}

impl Preset {
    /// Returns the preset of this name.
    pub fn named(name: &str) -> Option<Preset> {
        PRESETS.iter().find(|preset| preset.name == name).copied()
    }

    /// Returns the workload scaled down. Requests, caches and the distances back to repeated visits
    /// are divided, so that hit rates stay about the same. Durations are divided too, at the same
    /// rate, so that the requests of a visit or a session keep their distance relative to the
    /// caches. A divisor of 1 changes nothing.
    #[must_use]
    pub fn scaled(self, divisor: u32) -> Preset {
        self.sized(|number| number / f64::from(divisor.max(1)))
    }

    /// Returns the workload scaled to a disk cache of `bytes` bytes, smaller or larger than its
    /// own.
    #[must_use]
    pub fn for_disk(self, bytes: u64) -> Preset {
        let share = bytes as f64 / self.caches.disk as f64;
        self.sized(|number| number * share)
    }

    fn sized(mut self, by: impl Fn(f64) -> f64) -> Preset {
        let bytes = |number: u64| by(number as f64) as u64;
        let count = |number: u32| by(f64::from(number)) as u32;
        self.size = by(self.size);
        self.requests = bytes(self.requests);
        self.caches.memory = bytes(self.caches.memory);
        self.caches.disk = bytes(self.caches.disk);
        self.browsing.before = count(self.browsing.before);
        self.browsing.active = count(self.browsing.active).max(1);
        self.browsing.sessions.think_ms = by(self.browsing.sessions.think_ms);
        match &mut self.browsing.choice {
            Choice::Growing { memory, kept_below, .. } => {
                *memory = count(*memory).max(1);
                *kept_below = count(*kept_below);
            }
            Choice::Catalogue { pages, .. } => *pages = count(*pages).max(1),
        }
        self
    }
}

const PROXY_SIZES: Sizes = Sizes {
    median: 2_700.0,
    sigma: 1.35,
    tail: 0.0,
    tail_min: 65_536.0,
    tail_alpha: 1.2,
    largest: 1e8,
};

/// Sizes common to the NLANR caches. Less than 1% of the files have 64 to 256 KB (UCFS, 2.4.6),
/// which the body already provides, and less than 1% of the requests are for larger ones (2.2).
const NLANR_SIZES: Sizes = Sizes { tail_min: 262_144.0, tail_alpha: 0.75, ..PROXY_SIZES };

const SESSIONS: Sessions = Sessions { more: 0.847, follow: 0.35, think_ms: 30_000.0 };

const PROXY: Browsing = Browsing {
    seed: 0,
    rate: 10.0,
    clients: 160,
    active: 34,
    before: 0,
    choice: Choice::Catalogue { pages: 1, exponent: 1.0 },
    sessions: SESSIONS,
    page_share: 0.429,
    embedded_max: 13,
    asked_again: 0.5,
    changed: 0.01,
    new_site: 0.65,
    new_directory: 0.3,
    sizes: PROXY_SIZES,
};

/// Parameters fitted for an NLANR cache.
struct Fitted {
    new: f64,
    once: f64,
    kept_below: u32,
    /// The share of objects in the tail, which determines the mean.
    tail: f64,
}

const DAY: f64 = 86_400.0;

/// Requests per visit: 42.9% of visits are to pages, with 4.45 objects on average.
const VISIT: f64 = 2.91;

/// Returns the number of concurrent visits if each takes ten seconds; at least one.
const fn active(rate: f64) -> u32 {
    let visits = (rate * 10.0 / VISIT + 0.5) as u32;
    if visits == 0 { 1 } else { visits }
}

const fn nlanr(
    name: &'static str,
    about: &'static str,
    requests: u64,
    disk: u64,
    fitted: Fitted,
    published: &'static [Published],
) -> Preset {
    let Fitted { new, once, kept_below, tail } = fitted;
    let visits = (requests as f64 / VISIT) as u32;
    let choice =
        Choice::Growing { new, once, recency: 0.0, memory: visits, reinforced: 0.5, kept_below };
    let rate = requests as f64 / (14.0 * DAY);
    let browsing = Browsing {
        rate,
        active: active(rate),
        before: visits,
        choice,
        sizes: Sizes { tail, ..NLANR_SIZES },
        ..PROXY
    };
    let caches = Caches { memory: 256 * MIB, disk, largest: 256 << 10 };
    Preset { name, about, requests, browsing, caches, size: 1.0, published }
}

const fn figure(figure: Figure, value: f64, source: &'static str) -> Published {
    Published { figure, value, source }
}

const REVISITED: Published =
    figure(Figure::RevisitedPercent, 50.0, "UCFS, 2.6.1, of proxies: nearly half");

/// Returns the figures that UCFS publishes of one of its traces.
const fn ucfs(requests: f64, gigabytes: f64, hits: f64, in_memory: f64) -> [Published; 7] {
    [
        figure(Figure::Requests, requests, "UCFS, table 2"),
        figure(Figure::Gigabytes, gigabytes, "UCFS, table 2"),
        figure(Figure::HitPercent, hits, "UCFS, table 2"),
        figure(Figure::MemoryOfHitsPercent, in_memory, "UCFS, table 4, Squid on FFS"),
        figure(Figure::OneTimerPercent, 70.0, "UCFS, 2.4.8"),
        figure(Figure::Below8KPercent, 75.0, "UCFS, 1: at least"),
        REVISITED,
    ]
}

const DEC: [Published; 8] = [
    figure(Figure::Requests, 1_058_206.0, "USITS 1999, note 3"),
    figure(Figure::MemoryHits, 338_081.0, "USITS 1999, note 3"),
    figure(Figure::DiskHits, 42_085.0, "USITS 1999, note 3"),
    figure(Figure::Misses, 678_040.0, "USITS 1999, note 3"),
    figure(Figure::Deletes, 279_875.0, "USITS 1999, note 3"),
    figure(Figure::ChangedPercent, 13.7, "the Boston log of February 1995, not DEC's"),
    figure(Figure::OneTimerPercent, 70.0, "UCFS, 2.4.8, of proxies in general"),
    REVISITED,
];

const TOP_TENTH: Published =
    figure(Figure::TopTenthPercent, 90.0, "Arlitt and Williamson 1996, of servers in general");

/// Caches for servers, whose figures do not refer to any: memory for 64 MiB, everything on disk.
const SERVER_CACHES: Caches = Caches { memory: 64 * MIB, disk: 64 << 30, largest: u64::MAX };

const fn server(
    name: &'static str,
    about: &'static str,
    requests: u64,
    days: f64,
    pages: u32,
    published: &'static [Published],
) -> Preset {
    let rate = requests as f64 / (days * DAY);
    let browsing = Browsing {
        rate,
        active: active(rate),
        clients: 20_000,
        choice: Choice::Catalogue { pages, exponent: 1.15 },
        changed: 0.0001,
        new_site: 0.0,
        sizes: Sizes { tail: 0.01, ..PROXY_SIZES },
        ..PROXY
    };
    Preset { name, about, requests, browsing, caches: SERVER_CACHES, size: 1.0, published }
}

/// All presets.
pub const PRESETS: [Preset; 9] = [
    Preset {
        name: "dec-1996",
        about: "Digital's proxy, 1996, as the USITS 1999 paper ran it",
        requests: 1_058_206,
        browsing: Browsing {
            clients: 5_000,
            active: active(10.0),
            changed: 0.2761,
            choice: Choice::Growing {
                new: 0.465,
                once: 0.305,
                recency: 0.2236,
                memory: 1 << 20,
                reinforced: 1.0,
                kept_below: 0,
            },
            sizes: Sizes {
                median: 3_000.0,
                sigma: 1.0,
                tail: 0.00154,
                tail_min: 64_000.0,
                ..PROXY_SIZES
            },
            ..PROXY
        },
        caches: Caches { memory: 512 * MIB, disk: 2_048 * MIB, largest: u64::MAX },
        size: 1.0,
        published: &DEC,
    },
    nlanr(
        "nlanr-bo1",
        "NLANR's cache in Boulder, 22 February to 7 March 2001 (UCFS)",
        3_928_770,
        16 << 30,
        Fitted { new: 0.3388, once: 0.5016, kept_below: 13_440, tail: 0.0090 },
        &ucfs(3_928_770.0, 120.8, 44.4, 6.4),
    ),
    nlanr(
        "nlanr-pa",
        "NLANR's cache in Palo Alto, 22 February to 7 March 2001 (UCFS)",
        4_990_283,
        26 << 30,
        Fitted { new: 0.2478, once: 0.6258, kept_below: 14_940, tail: 0.0062 },
        &ucfs(4_990_283.0, 115.2, 57.7, 6.1),
    ),
    nlanr(
        "nlanr-pb",
        "NLANR's cache in Pittsburgh, 22 February to 7 March 2001 (UCFS)",
        8_547_397,
        16 << 30,
        Fitted { new: 0.2540, once: 0.6130, kept_below: 14_680, tail: 0.0067 },
        &ucfs(8_547_397.0, 215.4, 57.8, 5.6),
    ),
    nlanr(
        "nlanr-sj",
        "NLANR's cache in San Jose, 22 February to 7 March 2001 (UCFS)",
        676_836,
        16 << 30,
        Fitted { new: 0.2009, once: 0.7460, kept_below: 17_930, tail: 0.0055 },
        &ucfs(676_836.0, 14.8, 55.4, 7.5),
    ),
    nlanr(
        "nlanr-uc",
        "NLANR's cache in Urbana-Champaign, 22 February to 7 March 2001 (UCFS)",
        8_107_179,
        16 << 30,
        Fitted { new: 0.3184, once: 0.5390, kept_below: 13_090, tail: 0.0090 },
        &ucfs(8_107_179.0, 253.0, 47.8, 6.6),
    ),
    server(
        "ucb-sep01",
        "Berkeley's computer science server, September 2001 (TFS); nothing is published of it",
        10_000_000,
        30.0,
        60_000,
        &[TOP_TENTH],
    ),
    server(
        "worldcup98",
        "The server of the football World Cup, 1998 (TFS)",
        1_352_804_107,
        88.0,
        8_000,
        &[figure(Figure::Requests, 1_352_804_107.0, "Internet Traffic Archive"), TOP_TENTH],
    ),
    server(
        "clarknet",
        "ClarkNet's server, 28 August to 10 September 1995 (TFS)",
        3_328_587,
        14.0,
        12_000,
        &[figure(Figure::Requests, 3_328_587.0, "Internet Traffic Archive"), TOP_TENTH],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::Workload;
    use crate::generator::page_visits::BrowsingRequests;

    #[test]
    fn presets_have_names_of_their_own() {
        for preset in PRESETS {
            assert_eq!(Preset::named(preset.name), Some(preset));
        }
        assert_eq!(Preset::named("dec"), None);
    }

    /// A sixteenth of each proxy's trace, with the caches in proportion, comes close to the
    /// published figures.
    #[test]
    fn figures_hold_in_small() {
        for preset in PRESETS.iter().take(6) {
            let small = preset.scaled(16);
            let mut achieved = Workload::Preset(small).achieved();
            let browsing = Browsing { seed: 1, ..small.browsing };
            let requests = usize::try_from(small.requests).unwrap();
            for request in BrowsingRequests::new(browsing).take(requests) {
                achieved.take(&request);
            }
            for published in preset.published {
                let found = achieved.figure(published.figure);
                let (name, figure) = (preset.name, published.figure);
                let allowed = match figure {
                    Figure::HitPercent | Figure::OneTimerPercent => 4.0,
                    Figure::RevisitedPercent => 10.0,
                    Figure::MemoryOfHitsPercent => 6.0,
                    // "75% or more".
                    Figure::Below8KPercent => 5.0,
                    Figure::ChangedPercent => 1.0,
                    Figure::Gigabytes => published.value / 16.0 * 0.3,
                    _ => published.value / 16.0 * 0.25 + 1.0,
                };
                let is_share = figure.as_str().contains('%');
                let expected = if is_share { published.value } else { published.value / 16.0 };
                let difference = (found - expected).abs();
                assert!(difference <= allowed, "{name}, {figure:?}: {found}, not {expected}");
            }
        }
    }
}
