//! The papers' traces, made up by the generator, at a length that an experiment can afford.
//!
//! A proxy's trace is made smaller as a whole (requests, the distance back to what is asked for
//! again); a server's keeps its documents, and only its first requests are taken: fewer documents
//! would be another server.

use crate::experiment::Failed;
use workload::generator::Workload;
use workload::generator::page_visits::Choice;
use workload::generator::presets::{PRESETS, Preset};
use workload::request::{Method, Request};
use workload::trace::Access;

/// The names of all of them: the five papers' proxies and servers.
pub(super) fn names() -> [&'static str; PRESETS.len()] {
    PRESETS.map(|preset| preset.name)
}

/// About `requests` requests like those of the trace; those that no cache may answer are left out.
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

/// The request as one for a version: what has changed is another object, and the old one stays
/// until it is evicted.
pub(super) fn access(request: &Request) -> Access {
    let object = u64::from(request.object) << 32 | u64::from(request.version);
    Access { object, size: request.size }
}
