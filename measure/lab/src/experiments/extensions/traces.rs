//! The papers' traces, made by the generator, at an affordable length.
//!
//! A proxy's trace is scaled down as a whole (requests and reuse distances). A server's trace keeps
//! all its documents and is cut after its first requests: with fewer documents it would be another
//! server.

use crate::experiment::Failed;
use workload::generator::Workload;
use workload::generator::page_visits::Choice;
use workload::generator::presets::{PRESETS, Preset};
use workload::request::{Method, Request};
use workload::trace::Access;

/// Returns the names of all traces: the proxies and servers of the five papers.
pub(super) fn names() -> [&'static str; PRESETS.len()] {
    PRESETS.map(|preset| preset.name)
}

/// Returns about `requests` requests like those of the trace; uncacheable ones are left out.
pub(super) fn requests(
    name: &str,
    seed: u64,
    requests: u64,
) -> Result<impl Iterator<Item = Request> + use<>, Failed> {
    let preset = Preset::named(name).ok_or_else(|| format!("no trace {name:?} is known"))?;
    let divisor = match preset.browsing.choice {
        Choice::Growing { .. } => preset.requests.div_ceil(requests) as u32,
        Choice::Catalogue { .. } => 1,
    };
    let workload = Workload::Preset(preset.scaled(divisor));
    let all = workload.iter(seed).take(workload.requests().min(requests) as usize);
    Ok(all.filter(|request| request.method == Method::Get && !request.uncacheable))
}

/// Returns the access for a version: a changed object counts as another one, and the old one stays
/// until it is evicted.
pub(super) fn access(request: &Request) -> Access {
    let object = u64::from(request.object) << 32 | u64::from(request.version);
    Access { object, size: request.size }
}
