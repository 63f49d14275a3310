//! Synthetic workloads that follow published figures, for traces that are no longer available.
//!
//! Of the papers' logs only counts, bytes and hit rates remain. [`page_visits`] generates requests
//! as people make them; [`presets`] holds its parameters for each of the papers' traces, with the
//! published figures, and [`calibration`] measures how close they come. [`polymix`] and
//! [`file_sets`] are benchmarks with published rules. [`streams`] are invented to compare
//! replacement policies. [`Workload`] selects any of them by name.
//!
//! Guarantees: equal parameters and seeds give equal requests on every machine. Memory grows with
//! the objects, never with the requests.

pub mod calibration;
pub mod distributions;
pub mod documents;
pub mod file_sets;
pub mod page_visits;
pub mod polymix;
pub mod presets;
pub mod sessions;
pub mod sizes;
pub mod streams;

use calibration::{Achieved, Caches};
use file_sets::{FileSet, FileSetRequests};
use page_visits::{Browsing, BrowsingRequests};
use polymix::{PolyMix, PolyMixRequests};
use presets::{PRESETS, Preset, Published};
use streams::STREAMS;

use crate::request::Request;
use crate::trace::co_location::WINDOW_MS;

/// A named workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    /// A paper's trace, or a stream made in the same way.
    Preset(Preset),
    /// Polygraph's proxy benchmark.
    PolyMix(PolyMix),
    /// A web server benchmark.
    Files(FileSet),
}

impl Workload {
    /// Returns all workloads.
    pub fn all() -> Vec<Workload> {
        let presets = PRESETS.into_iter().map(Workload::Preset);
        let polymix = PolyMix::ALL.into_iter().map(Workload::PolyMix);
        let files = FileSet::ALL.into_iter().map(Workload::Files);
        let streams = STREAMS.into_iter().map(Workload::Preset);
        presets.chain(polymix).chain(files).chain(streams).collect()
    }

    /// Returns the workload of this name.
    pub fn named(name: &str) -> Option<Workload> {
        Workload::all().into_iter().find(|workload| workload.name() == name)
    }

    /// Returns the name used on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Workload::Preset(preset) => preset.name,
            Workload::PolyMix(polymix) => polymix.name,
            Workload::Files(files) => files.name,
        }
    }

    /// Returns one line for the help.
    pub fn about(&self) -> &'static str {
        match self {
            Workload::Preset(preset) => preset.about,
            Workload::PolyMix(polymix) => polymix.about,
            Workload::Files(files) => files.about,
        }
    }

    /// Returns the number of requests of the original, or of one run of the benchmark.
    pub fn requests(&self) -> u64 {
        match self {
            Workload::Preset(preset) => preset.requests,
            Workload::PolyMix(polymix) => polymix.requests(),
            Workload::Files(files) => files.requests,
        }
    }

    /// Returns the workload scaled down: requests, working set and caches are divided. A divisor of
    /// 1 changes nothing.
    #[must_use]
    pub fn scaled(self, divisor: u32) -> Workload {
        match self {
            Workload::Preset(preset) => Workload::Preset(preset.scaled(divisor)),
            Workload::PolyMix(polymix) => Workload::PolyMix(polymix.scaled(divisor)),
            Workload::Files(files) => Workload::Files(files.scaled(divisor)),
        }
    }

    /// Returns the workload scaled down to about `requests` requests; never more than the
    /// original's.
    #[must_use]
    pub fn with_requests(self, requests: u64) -> Workload {
        let divisor = (self.requests() / requests.max(1)).max(1);
        self.scaled(u32::try_from(divisor).unwrap_or(u32::MAX))
    }

    /// Returns the requests, an endless iterator.
    pub fn iter(&self, seed: u64) -> WorkloadRequests {
        match *self {
            Workload::Preset(preset) => {
                let browsing = Browsing { seed, ..preset.browsing };
                WorkloadRequests::Browsing(Box::new(BrowsingRequests::new(browsing)))
            }
            Workload::PolyMix(polymix) => {
                WorkloadRequests::PolyMix(Box::new(PolyMixRequests::new(polymix, seed)))
            }
            Workload::Files(files) => {
                WorkloadRequests::Files(Box::new(FileSetRequests::new(files, seed)))
            }
        }
    }

    /// Returns `copies` copies of the workload, each with its own documents, interleaved request by
    /// request ("linear insertion"); an endless iterator.
    pub fn copies(&self, seed: u64, copies: u32) -> impl Iterator<Item = Request> + use<> {
        let mut streams: Vec<_> =
            (0..copies).map(|copy| self.iter(seed + u64::from(copy))).collect();
        (0..copies).cycle().filter_map(move |copy| {
            let request = streams[copy as usize].next()?;
            let apart = |number: u32| number * copies + copy;
            let Request { site, group, object, .. } = request;
            let (site, group, object) = (apart(site), apart(group), apart(object));
            Some(Request { site, group, object, ..request })
        })
    }

    /// Returns the caches to which the published figures refer.
    pub fn caches(&self) -> Caches {
        match self {
            Workload::Preset(preset) => preset.caches,
            // No figure of the others refers to a cache size: everything fits.
            _ => Caches { memory: 64 << 20, disk: u64::MAX >> 1, largest: u64::MAX },
        }
    }

    /// Returns an empty [`Achieved`] that measures as the published figures do: with the same
    /// caches and the same time window.
    pub fn achieved(&self) -> Achieved {
        let size = match self {
            Workload::Preset(preset) => preset.size,
            _ => 1.0,
        };
        Achieved::new(self.caches(), (WINDOW_MS as f64 * size) as u64)
    }

    /// Returns the published figures of the unscaled workload.
    pub fn published(&self) -> &'static [Published] {
        match self {
            Workload::Preset(preset) => preset.published,
            Workload::PolyMix(polymix) => polymix.published(),
            Workload::Files(files) => files.published,
        }
    }
}

/// The requests of a workload: an endless iterator.
pub enum WorkloadRequests {
    /// Requests of people.
    Browsing(Box<BrowsingRequests>),
    /// Requests of Polygraph's robots.
    PolyMix(Box<PolyMixRequests>),
    /// Requests of a server benchmark's clients.
    Files(Box<FileSetRequests>),
}

impl Iterator for WorkloadRequests {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        match self {
            WorkloadRequests::Browsing(requests) => requests.next(),
            WorkloadRequests::PolyMix(requests) => requests.next(),
            WorkloadRequests::Files(requests) => requests.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::contents::mix;

    const REQUESTS: usize = 30_000;

    #[test]
    fn seeds_say_everything_and_objects_keep_their_places() {
        for workload in Workload::all() {
            let workload = workload.scaled(64);
            let requests = |seed| workload.iter(seed).take(REQUESTS).collect::<Vec<_>>();
            let found = requests(1);
            assert!(found == requests(1), "{}", workload.name());
            assert!(found != requests(2), "{}", workload.name());
            let mut seen: HashMap<u32, Request> = HashMap::new();
            let mut time_ms = 0;
            for request in found {
                assert!(request.time_ms >= time_ms && request.size > 0, "{request:?}");
                time_ms = request.time_ms;
                let before = seen.insert(request.object, request).unwrap_or(request);
                assert_eq!(
                    (before.site, before.group, before.kind),
                    (request.site, request.group, request.kind)
                );
                assert!(before.version <= request.version);
                assert!(before.version < request.version || before.size == request.size);
            }
            let largest = seen.keys().max().copied().unwrap_or(0) as usize;
            assert!(largest <= seen.len() * 2, "{}: dense", workload.name());
        }
    }

    /// Digests of each workload's requests: a change here changes every experiment's input.
    #[test]
    fn requests_are_known() {
        let digest = |workload: &Workload| {
            let requests = workload.scaled(64).iter(1).take(REQUESTS);
            requests.fold(0, |digest, request| {
                mix(digest ^ mix(u64::from(request.object) << 32 ^ request.size))
            }) >> 32
        };
        let found: Vec<_> = Workload::all().iter().map(|w| (w.name(), digest(w))).collect();
        assert_eq!(found, KNOWN);
    }

    const KNOWN: [(&str, u64); 18] = [
        ("dec-1996", 2_813_787_557),
        ("nlanr-bo1", 2_740_486_460),
        ("nlanr-pa", 1_259_823_369),
        ("nlanr-pb", 926_905_689),
        ("nlanr-sj", 2_221_316_555),
        ("nlanr-uc", 2_398_094_958),
        ("ucb-sep01", 3_660_564_083),
        ("worldcup98", 4_160_536_420),
        ("clarknet", 2_025_185_993),
        ("polymix-3", 1_704_960_955),
        ("polymix-4", 2_514_706_987),
        ("webstone", 3_946_814_589),
        ("olaru-tichy", 3_798_219_799),
        ("olaru-tichy-swapped", 2_314_126_128),
        ("specweb96", 4_160_499_009),
        ("specweb99", 1_473_527_947),
        ("pages-drift", 546_829_969),
        ("zipf-600k", 2_834_663_206),
    ];
}
