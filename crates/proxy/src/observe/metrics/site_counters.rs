//! Counters of each site, and their figures in a scrape.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use super::latency::Latency;
use super::{CLASSES, Metrics, NAMES, Samples, names};
use crate::observe::outcome::{Error, Outcome};
use crate::observe::site_slots::{SiteSlot, SiteSlots};

/// Reasons of errors that upstreams cause.
const UPSTREAM_ERRORS: [Error; 13] = [
    Error::Dns,
    Error::DnsTimeout,
    Error::Connect,
    Error::ConnectRefused,
    Error::ConnectTimeout,
    Error::Tls,
    Error::TlsAlert,
    Error::Certificate,
    Error::NoUpstream,
    Error::UpstreamBusy,
    Error::Upstream,
    Error::UpstreamTimeout,
    Error::BadAnswer,
];

/// Counters of one thread for one site, aligned like the shard.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct SiteCounters {
    pub requests: [[AtomicU64; CLASSES.len()]; Outcome::COUNT],
    pub body_bytes: [AtomicU64; NAMES],
    /// Times to the heads of responses of the origin.
    pub fetch_heads: Latency,
    /// Times to the ends of responses of the origin.
    pub fetches: Latency,
}

impl Default for SiteCounters {
    fn default() -> SiteCounters {
        SiteCounters {
            requests: [const { [const { AtomicU64::new(0) }; CLASSES.len()] }; Outcome::COUNT],
            body_bytes: [const { AtomicU64::new(0) }; NAMES],
            fetch_heads: Latency::new(),
            fetches: Latency::new(),
        }
    }
}

impl Metrics {
    /// Adds the figures of all sites.
    pub(super) fn requests(&self, out: &mut Samples) {
        let sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        let sites = sites.as_ref().map_or_else(SiteSlots::default, |sites| sites());
        for (slot, site) in sites.all() {
            self.requests_of(slot, site, out);
            self.fetches_of(slot, site, out);
        }
        for (name, text) in names().filter(|(_, text)| *text != Outcome::Tunnel.name()) {
            let latency = self.shards.iter().map(|shard| &shard.latency[name]);
            let metric = (
                "larder_request_duration_seconds",
                "Time from the head of a request to the end of its response, by outcome.",
            );
            Latency::sample(latency, metric, &[("outcome", text)], out);
        }
    }

    fn requests_of(&self, slot: SiteSlot, site: &str, out: &mut Samples) {
        for outcome in Outcome::all() {
            for (class, class_name) in CLASSES.iter().enumerate() {
                let n = self.sum_of(slot, |counters| &counters.requests[outcome.index()][class]);
                // Common series exist from the start, so that their first increase is visible.
                let usual = outcome.reason().is_none() && *class_name == "2xx";
                if n == 0 && !usual {
                    continue;
                }
                out.counter(
                    "larder_requests",
                    "Requests that ended, by outcome, its reason, the status sent and the site.",
                    &[
                        ("outcome", outcome.name()),
                        ("reason", outcome.reason().unwrap_or("")),
                        ("status", class_name),
                        ("site", site),
                    ],
                    n,
                );
            }
        }
        for (name, text) in names() {
            out.counter(
                "larder_response_body_bytes",
                "Body bytes sent to clients, by outcome and site.",
                &[("outcome", text), ("site", site)],
                self.sum_of(slot, |counters| &counters.body_bytes[name]),
            );
        }
    }

    fn fetches_of(&self, slot: SiteSlot, site: &str, out: &mut Samples) {
        for error in UPSTREAM_ERRORS {
            let outcome = Outcome::Error(error).index();
            let of_class =
                |class| self.sum_of(slot, move |counters| &counters.requests[outcome][class]);
            let help = "Requests that failed because of their upstream, by reason and site.";
            let labels = [("reason", error.name()), ("site", site)];
            let n = (0..CLASSES.len()).map(of_class).sum::<u64>();
            out.counter("larder_upstream_errors", help, &labels, n);
        }
        let counters = || self.counters_of(slot);
        let metric = (
            "larder_upstream_first_byte_seconds",
            "Time from a request to an origin server to the head of its response, by site.",
        );
        let heads = counters().map(|counters| &counters.fetch_heads);
        Latency::sample(heads, metric, &[("site", site)], out);
        let metric = (
            "larder_upstream_duration_seconds",
            "Time from a request to an origin server to the end of its response, by site.",
        );
        let ends = counters().map(|counters| &counters.fetches);
        Latency::sample(ends, metric, &[("site", site)], out);
    }

    /// Returns the counters of a site of all threads that have had requests for it.
    fn counters_of(&self, slot: SiteSlot) -> impl Iterator<Item = &SiteCounters> {
        self.shards
            .iter()
            .filter_map(move |shard| shard.sites[slot.index()].get())
            .map(|own| &**own)
    }

    fn sum_of(&self, slot: SiteSlot, of: impl Fn(&SiteCounters) -> &AtomicU64) -> u64 {
        self.counters_of(slot).map(|counters| of(counters).load(Ordering::Relaxed)).sum()
    }
}
