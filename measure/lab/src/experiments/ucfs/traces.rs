//! C17: the five NLANR caches whose logs the paper replays, and requests generated from the
//! published properties.

use workload::generator::Workload;
use workload::generator::calibration::Achieved;
use workload::request::Request;

pub(super) struct Trace {
    pub(super) name: &'static str,
    preset: &'static str,
    /// Bytes of the disk cache (table 1).
    pub(super) disk: u64,
    /// Number of requests (table 2).
    pub(super) requests: u64,
    /// Gigabytes requested (table 2).
    pub(super) gigabytes: f64,
    /// Hit rate in percent (table 2).
    pub(super) hit_rate: f64,
}

/// How the generated requests differ from the published properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TraceKind {
    /// Not at all.
    Published,
    /// Objects are a quarter of the size: about the paper's 4 KB (section 2.4.5).
    Small,
    /// Every visit is isolated: no client goes on to another page of a site.
    Alone,
    /// All parts of a page are requested again with it, not half of them.
    Whole,
    /// Like `Whole`; every visit is to a page with parts, never to a single object.
    Pages,
    /// Like `Pages`; no object is larger than the paper's 4 KB.
    Reckoned,
}

const GB: u64 = 1_000_000_000;

pub(super) const TRACES: [Trace; 5] = [
    trace("BO1", "nlanr-bo1", 16, (3_928_770, 120.8, 44.4)),
    trace("PA", "nlanr-pa", 26, (4_990_283, 115.2, 57.7)),
    trace("PB", "nlanr-pb", 16, (8_547_397, 215.4, 57.8)),
    trace("SJ", "nlanr-sj", 16, (676_836, 14.8, 55.4)),
    trace("UC", "nlanr-uc", 16, (8_107_179, 253.0, 47.8)),
];

/// Index of the smallest trace in [`TRACES`].
pub(super) const SJ: usize = 3;
/// Index of the trace of figure 8.
pub(super) const UC: usize = 4;

const fn trace(
    name: &'static str,
    preset: &'static str,
    disk: u64,
    (requests, gigabytes, hit_rate): (u64, f64, f64),
) -> Trace {
    Trace { name, preset, disk: disk * GB, requests, gigabytes, hit_rate }
}

impl Trace {
    fn workload(&self, scale: u32) -> Workload {
        let workload = Workload::named(self.preset).expect("the generator has the paper's traces");
        workload.scaled(scale)
    }

    /// Returns requests like those of the trace, scaled down by `scale`.
    pub(super) fn requests(
        &self,
        seed: u64,
        scale: u32,
        likeness: TraceKind,
    ) -> impl Iterator<Item = Request> + use<> {
        let mut workload = self.workload(scale);
        if let Workload::Preset(preset) = &mut workload {
            match likeness {
                TraceKind::Published | TraceKind::Small => {}
                TraceKind::Alone => preset.browsing.sessions.more = 0.0,
                TraceKind::Whole => preset.browsing.asked_again = 1.0,
                TraceKind::Pages | TraceKind::Reckoned => {
                    preset.browsing.asked_again = 1.0;
                    preset.browsing.page_share = 1.0;
                }
            }
        }
        workload.iter(seed).map(move |request| {
            let size = match likeness {
                TraceKind::Small => request.size.div_ceil(4),
                TraceKind::Reckoned => request.size.min(4_000),
                _ => request.size,
            };
            Request { size, ..request }
        })
    }

    /// Returns the empty tally of such requests, with the caches of the trace scaled alike.
    pub(super) fn achieved(&self, scale: u32) -> Achieved {
        self.workload(scale).achieved()
    }
}
