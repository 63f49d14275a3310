//! State of the process, on one screen: `/status` of the admin interface.

use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

use net::clock::TokioClock;
use serde_json::{Value, json};
use upstream::servers::health::Use;

use crate::admin::interface::Readiness;
use crate::observe::metrics::{Samples, Source};
use crate::options::Options;
use crate::options::control::Control;

/// Outcomes that count as hits.
const HITS: [&str; 6] = ["HIT_RAM", "HIT_DISK", "HIT_FILL", "HIT_PEER", "REVALIDATED", "STALE"];

/// Outcomes of requests that no cache could answer.
const NOT_COUNTED: [&str; 3] = ["TUNNEL", "PURGE", "REPLY"];

/// Metrics source for the certificates.
pub(crate) struct CertificateFigures(pub Control);

impl Source for CertificateFigures {
    fn samples(&self, out: &mut Samples) {
        for (name, ends) in certificates(&self.0.options()) {
            let help = "Time at which a certificate expires, in seconds since 1970.";
            let labels = [("name", name.as_str())];
            out.gauge("larder_certificate_expiry_timestamp_seconds", help, &labels, ends);
        }
    }
}

/// Returns the state of this process as JSON for operators, with the `facts` that the program adds.
pub(crate) fn view(
    (readiness, facts): (&Readiness, Value),
    options: &Options,
    figures: &Samples,
    clock: TokioClock,
) -> Value {
    let sum = |name: &str| figures.sum(name, |_| true) as u64;
    let outcomes = |names: &'static [&str]| {
        figures.sum("larder_requests", move |labels| {
            labels.iter().any(|(name, value)| *name == "outcome" && names.contains(&&**value))
        }) as u64
    };
    // Without /proc nothing is known of it.
    let resident = Some(sum("process_resident_memory_bytes")).filter(|bytes| *bytes > 0);
    let mut told = json!({
        "state": readiness.name(),
        "why": readiness.why(),
        "version": env!("CARGO_PKG_VERSION"),
        "pid": process::id(),
        "uptime_seconds": clock.running().as_secs(),
        "drain_seconds": options.client.drain.as_secs(),
        "serves": options.front.to_string(),
        "connections": sum("larder_client_connections"),
        "requests": sum("larder_requests"),
        "cacheable": sum("larder_requests") - outcomes(&NOT_COUNTED),
        "hits": outcomes(&HITS),
        "errors": outcomes(&["ERROR"]),
        "sent_bytes": sum("larder_client_sent_bytes"),
        "memory_bytes": resident,
        "memory_limit_bytes": sum("larder_memory_limit_bytes"),
        "caches": caches(figures),
        "servers": servers(options, clock),
        "certificates": certificates(options)
            .map(|(name, ends)| json!({"name": name, "expires": ends}))
            .collect::<Vec<_>>(),
    });
    if let (Value::Object(told), Value::Object(facts)) = (&mut told, facts) {
        told.extend(facts);
    }
    told
}

fn caches(figures: &Samples) -> Vec<Value> {
    let names = figures.label_values("larder_cache_online", "cache");
    let of = |name: &str, cache: &str, state: Option<&str>| {
        figures.sum(name, |labels| {
            let has = |label: &str, value: &str| {
                labels.iter().any(|(name, known)| *name == label && known == value)
            };
            has("cache", cache) && state.is_none_or(|state| has("state", state))
        })
    };
    let cache = |name: &String| {
        let clusters = |state| of("larder_store_clusters", name, Some(state));
        let (used, free) = (clusters("in_use"), clusters("free"));
        json!({
            "path": name,
            "online": of("larder_cache_online", name, None) > 0.0,
            "bytes": of("larder_cache_bytes", name, None) as u64,
            "objects": of("larder_index_entries", name, None) as u64,
            "used": (used + free > 0.0).then(|| used / (used + free)),
        })
    };
    names.iter().map(cache).collect()
}

fn servers(options: &Options, clock: TokioClock) -> Value {
    let now = clock.millis();
    let mut all = 0;
    let mut out = Vec::new();
    for (site, group) in options.front.groups() {
        for server in group.servers() {
            let usage = server.status(now).usage;
            all += 1;
            if usage != Use::Up {
                let name = server.endpoint.to_string();
                out.push(json!({"site": site, "server": name, "state": usage.name()}));
            }
        }
    }
    json!({"all": all, "out": out})
}

/// Returns each certificate's first name and the time at which it expires, in seconds since 1970.
fn certificates(options: &Options) -> impl Iterator<Item = (String, u64)> {
    let all = options.keyring.iter().flat_map(|keyring| keyring.certificates().iter());
    let told = all.map(|certificate| {
        let name = certificate.names().first().cloned();
        let name = name.unwrap_or_else(|| certificate.source().display().to_string());
        (name, seconds(certificate.ends()))
    });
    told.collect::<Vec<_>>().into_iter()
}

fn seconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
