//! Counters of the proxy and their export to Prometheus.
//!
//! Every request pays for counting, so counting is a few uncontended atomic additions: each thread
//! counts in a shard of its own, and a scrape adds up the shards. All other work, including
//! formatting, happens at a scrape. Figures of other parts (the store, its devices) come from
//! [`Source`]s that are called at each scrape; nothing is sampled in between.
//!
//! Counters only grow. They are not read atomically as a set: two figures of one scrape may differ
//! by the requests that ended in between.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use net::clock::TokioClock;
use upstream::connection::events::FetchPoint;

use crate::observe::event::Event;
use crate::observe::metrics::latency::Latency;
use crate::observe::metrics::site_counters::SiteCounters;
use crate::observe::outcome::{Invalid, Outcome};
use crate::observe::site_slots::{SiteSlot, SiteSlots};

mod latency;
mod process;
mod sample;
mod site_counters;

pub use sample::{Format, Samples};

/// Component with figures of its own: the store, the log, the devices.
pub trait Source: Send + Sync {
    /// Adds the current figures. Called at each scrape on the thread of the admin interface; must
    /// not block for long.
    fn samples(&self, out: &mut Samples);
}

impl<F: Fn(&mut Samples) + Send + Sync> Source for F {
    fn samples(&self, out: &mut Samples) {
        self(out);
    }
}

/// Status classes: none sent (or out of range), then 1xx to 5xx.
const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// Number of outcome names, without reasons; numbered by [`name_index`].
const NAMES: usize = name_index(Outcome::Invalid(Invalid::Syntax)) + 1;

/// Counters of one thread, aligned so that no two threads write to the same cache line.
#[repr(align(128))]
struct Shard {
    sites: [OnceLock<Box<SiteCounters>>; SiteSlot::COUNT],
    /// Requests from other nodes, and the body bytes sent to them.
    questions: [AtomicU64; NAMES],
    question_bytes: AtomicU64,
    /// Durations of requests by outcome name.
    latency: [Latency; NAMES],
    events: [AtomicU64; Event::COUNT],
    malformed: [AtomicU64; CLASSES.len()],
}

impl Shard {
    /// Returns the counters of a site, which exist from its first request on.
    fn site(&self, site: SiteSlot) -> &SiteCounters {
        self.sites[site.index()].get_or_init(Box::default)
    }

    fn new() -> Shard {
        Shard {
            sites: [const { OnceLock::new() }; SiteSlot::COUNT],
            questions: [const { AtomicU64::new(0) }; NAMES],
            question_bytes: AtomicU64::new(0),
            latency: [const { Latency::new() }; NAMES],
            events: [const { AtomicU64::new(0) }; Event::COUNT],
            malformed: [const { AtomicU64::new(0) }; CLASSES.len()],
        }
    }
}

/// All counters, one set per process, shared by its workers.
pub struct Metrics {
    shards: Box<[Shard]>,
    sources: Mutex<Vec<Box<dyn Source>>>,
    /// Returns the sites that are counted by name.
    sites: Mutex<Option<Box<dyn Fn() -> SiteSlots + Send + Sync>>>,
    clock: TokioClock,
}

impl Metrics {
    /// Creates counters for `threads` threads that count concurrently. With more threads some share
    /// cache lines.
    pub fn new(threads: usize, clock: TokioClock) -> Metrics {
        Metrics {
            shards: (0..threads.max(1)).map(|_| Shard::new()).collect(),
            sources: Mutex::default(),
            sites: Mutex::default(),
            clock,
        }
    }

    /// Adds a source to call at each scrape.
    pub fn add_source(&self, source: Box<dyn Source>) {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).push(source);
    }

    /// Sets the sites that are counted by name, asked for at each scrape.
    pub(crate) fn set_sites(&self, sites: Box<dyn Fn() -> SiteSlots + Send + Sync>) {
        *self.sites.lock().unwrap_or_else(PoisonError::into_inner) = Some(sites);
    }

    /// Drops all sources and the resources they keep open.
    pub fn forget_sources(&self) {
        self.sites.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Counts a request that ended: its site, its status (0: none was sent), the body bytes sent,
    /// and the time from its first byte to the last byte of the response.
    pub fn request(
        &self,
        site: SiteSlot,
        outcome: Outcome,
        status: u16,
        body_bytes: u64,
        duration: Duration,
    ) {
        let shard = self.shard();
        let counters = shard.site(site);
        add(&counters.requests[outcome.index()][class(status)], 1);
        add(&counters.body_bytes[name_index(outcome)], body_bytes);
        // A tunnel's duration is its time in use, not a latency.
        if outcome != Outcome::Tunnel {
            shard.latency[name_index(outcome)].add(duration);
        }
    }

    /// Counts the time from the begin of a request to an origin to a point of its response.
    pub fn fetched(&self, site: SiteSlot, until: FetchPoint, time: Duration) {
        let counters = self.shard().site(site);
        match until {
            FetchPoint::Head => counters.fetch_heads.add(time),
            FetchPoint::End => counters.fetches.add(time),
        }
    }

    /// Counts a request from another node that ended, and the body bytes sent for it.
    pub fn question(&self, outcome: Outcome, body_bytes: u64) {
        let shard = self.shard();
        add(&shard.questions[name_index(outcome)], 1);
        add(&shard.question_bytes, body_bytes);
    }

    /// Adds `n` to the count of `event`.
    pub fn count(&self, event: Event, n: u64) {
        add(&self.shard().events[event as usize], n);
    }

    /// Counts a request that could not be read; `status` is the status sent, if any.
    pub fn malformed(&self, status: Option<u16>) {
        add(&self.shard().malformed[class(status.unwrap_or(0))], 1);
    }

    /// Returns the text of a scrape.
    pub fn scrape(&self, format: Format) -> String {
        self.samples().into_text(format)
    }

    /// Returns all current figures.
    pub fn samples(&self) -> Samples {
        let mut out = Samples::default();
        self.malformed_requests(&mut out);
        self.requests(&mut out);
        self.questions(&mut out);
        self.connections(&mut out);
        self.cache(&mut out);
        self.fills(&mut out);
        self.compression(&mut out);
        self.limits(&mut out);
        self.neighbours(&mut out);
        self.upstream(&mut out);
        for source in self.sources.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            source.samples(&mut out);
        }
        process::samples(&mut out);
        out.gauge("larder_uptime_seconds", "Time since the start.", &[], self.clock.running());
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        out.gauge("larder_build_info", "Always 1; the version as a label.", &version, 1u64);
        out
    }

    /// Returns the count of `event` so far.
    pub fn total(&self, event: Event) -> u64 {
        self.sum(|shard| &shard.events[event as usize])
    }

    fn malformed_requests(&self, out: &mut Samples) {
        for (class, class_name) in [(0, CLASSES[0]), (4, CLASSES[4]), (5, CLASSES[5])] {
            out.counter(
                "larder_requests_malformed",
                "Requests that could not be read, by the status sent.",
                &[("status", class_name)],
                self.sum(|shard| &shard.malformed[class]),
            );
        }
    }

    /// Adds the counters of requests from other nodes, if there were any.
    fn questions(&self, out: &mut Samples) {
        for (name, text) in names() {
            let n = self.sum(|shard| &shard.questions[name]);
            if n > 0 {
                let help = "Completed questions of other fleet nodes, by outcome.";
                out.counter("larder_fleet_questions", help, &[("outcome", text)], n);
            }
        }
        let bytes = self.sum(|shard| &shard.question_bytes);
        if bytes > 0 {
            let help = "Body bytes sent to other fleet nodes.";
            out.counter("larder_fleet_sent_bytes", help, &[], bytes);
        }
    }

    fn connections(&self, out: &mut Samples) {
        let [opened, closed] =
            [Event::ConnectionOpened, Event::ConnectionClosed].map(|e| self.total(e));
        let open = opened.saturating_sub(closed);
        out.gauge("larder_client_connections", "Open client connections.", &[], open);
        let help = "Connections accepted from clients.";
        out.counter("larder_client_connections_accepted", help, &[], opened);
        let help = "Idle client connections closed to admit new ones.";
        let made_way = self.total(Event::ConnectionReclaimed);
        out.counter("larder_client_connections_made_way", help, &[], made_way);
        let help = "Client connections closed because their address had reached its limit.";
        let crowded = self.total(Event::AddressLimitReached);
        out.counter("larder_client_connections_over_limit", help, &[], crowded);
        let help = "Bytes received from clients, including heads and tunnels.";
        out.counter("larder_client_received_bytes", help, &[], self.total(Event::BytesReceived));
        let help = "Bytes sent to clients, including heads and tunnels.";
        out.counter("larder_client_sent_bytes", help, &[], self.total(Event::BytesSent));
        let help = "Client connections by HTTP version.";
        for (version, event) in [("1", Event::Http1Connection), ("2", Event::Http2Connection)] {
            let label = [("version", version)];
            out.counter("larder_client_http_connections", help, &label, self.total(event));
        }
        let [done, resumed] = [Event::TlsHandshake, Event::TlsResumed].map(|e| self.total(e));
        let results = [
            ("full", done.saturating_sub(resumed)),
            ("resumed", resumed),
            ("failed", self.total(Event::TlsFailed)),
        ];
        for (result, n) in results {
            let help = "TLS handshakes with clients, by result.";
            out.counter("larder_tls_handshakes", help, &[("result", result)], n);
        }
        let help = "Connections closed for lack of a valid PROXY protocol header.";
        let refused = self.total(Event::ProxyHeaderRefused);
        out.counter("larder_proxy_protocol_refused", help, &[], refused);
        let [opened, closed] = [Event::TunnelOpened, Event::TunnelClosed].map(|e| self.total(e));
        let open = opened.saturating_sub(closed);
        let help = "Open tunnels, of CONNECT and of connections that changed their protocol.";
        out.gauge("larder_tunnels", help, &[], open);
        let help = "Tunnels opened.";
        out.counter("larder_tunnels_opened", help, &[], opened);
        let help = "Idle tunnels closed to admit a new one (client.tunnels).";
        out.counter("larder_tunnels_made_way", help, &[], self.total(Event::TunnelDisplaced));
        let help = "Requests whose response changed the protocol (Upgrade, WebSocket).";
        out.counter("larder_upgrades", help, &[], self.total(Event::Upgraded));
    }

    fn fills(&self, out: &mut Samples) {
        let begun = self.total(Event::FillBegun);
        let ends = [
            ("stored", self.total(Event::FillStored)),
            ("validated", self.total(Event::FillValidated)),
            ("not-stored", self.total(Event::FillUnstored)),
            ("aborted", self.total(Event::FillAborted)),
        ];
        let running = begun.saturating_sub(ends.iter().map(|(_, n)| n).sum());
        out.gauge("larder_fills", "Running fetches for the cache.", &[], running);
        for (result, n) in ends {
            let help = "Completed fetches for the cache, by result.";
            out.counter("larder_fills_ended", help, &[("result", result)], n);
        }
        let help = "Requests that joined a running fetch.";
        out.counter("larder_fill_followers_joined", help, &[], self.total(Event::FollowerJoined));
    }

    fn compression(&self, out: &mut Samples) {
        let help = "Responses of origin servers that were compressed.";
        out.counter("larder_compressed_responses", help, &[], self.total(Event::Compressed));
        let help = "Responses sent uncompressed because too many were being compressed.";
        let skipped = self.total(Event::CompressionSkipped);
        out.counter("larder_compression_skipped", help, &[], skipped);
        let bytes =
            [("before", Event::BytesBeforeCompression), ("after", Event::BytesAfterCompression)];
        for (side, event) in bytes {
            let help = "Bytes of responses before and after they were compressed.";
            out.counter("larder_compression_bytes", help, &[("side", side)], self.total(event));
        }
    }

    fn limits(&self, out: &mut Samples) {
        let help = "Requests that waited in the queue of a limit.";
        out.counter("larder_limit_queued", help, &[], self.total(Event::RequestQueued));
        let help = "Requests over a limit that is in a dry run.";
        out.counter("larder_limit_dry_run", help, &[], self.total(Event::LimitDryRun));
    }

    fn neighbours(&self, out: &mut Samples) {
        let ends = [
            ("validated", Event::NeighbourValidated),
            ("replaced", Event::NeighbourReplaced),
            ("left", Event::NeighbourUnchanged),
        ];
        for (result, event) in ends {
            let help =
                "Neighbours of validated objects that the origin was asked about, by result.";
            let labels = [("result", result)];
            out.counter("larder_neighbour_validations", help, &labels, self.total(event));
        }
        let help = "Validated or replaced neighbours that were requested while still fresh.";
        out.counter("larder_neighbours_used", help, &[], self.total(Event::NeighbourUsed));
    }

    /// Adds the lookup results of the UCFS paper (3.1, systems C12). They show the value of the
    /// cache independently of request outcomes.
    fn cache(&self, out: &mut Samples) {
        let lookups = [
            ("miss", Event::CacheMiss),
            ("memory-hit", Event::MemoryHit),
            ("memory-stale-hit", Event::MemoryStaleHit),
            ("disk-hit", Event::DiskHit),
            ("disk-stale-hit", Event::DiskStaleHit),
        ];
        for (result, event) in lookups {
            let help = "Lookup results of requests that the cache may answer, counted once each.";
            out.counter("larder_cache_lookups", help, &[("result", result)], self.total(event));
        }
        let conditional = [("hit", Event::ConditionalHit), ("miss", Event::ConditionalMiss)];
        for (result, event) in conditional {
            let help = "Conditional requests that the cache may answer; a hit is a 304.";
            let labels = [("result", result)];
            out.counter("larder_cache_conditional_requests", help, &labels, self.total(event));
        }
    }

    fn upstream(&self, out: &mut Samples) {
        let help = "Times that the wall clock was found set by more than two seconds.";
        out.counter("larder_clock_steps", help, &[], self.total(Event::ClockSet));
        let help = "Connections opened to upstreams.";
        let opened = self.total(Event::UpstreamConnected);
        out.counter("larder_upstream_connections_opened", help, &[], opened);
        let help = "Requests sent on an upstream connection that was already open.";
        let reused = self.total(Event::UpstreamReused);
        out.counter("larder_upstream_connections_reused", help, &[], reused);
        let help = "Requests retried because a reused connection had died.";
        out.counter("larder_upstream_retries", help, &[], self.total(Event::UpstreamRetried));
        let help = "Upstream connections closed because bytes followed the end of a response.";
        out.counter("larder_upstream_overruns", help, &[], self.total(Event::UpstreamOverrun));
    }

    fn sum(&self, of: impl Fn(&Shard) -> &AtomicU64) -> u64 {
        self.shards.iter().map(|shard| of(shard).load(Ordering::Relaxed)).sum()
    }

    /// Returns the calling thread's shard.
    fn shard(&self) -> &Shard {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
        }
        let mine = MINE.get();
        let mine = match mine {
            usize::MAX => {
                let new = NEXT.fetch_add(1, Ordering::Relaxed);
                MINE.set(new);
                new
            }
            known => known,
        };
        // Avoid the division in the common case.
        self.shards.get(mine).unwrap_or_else(|| &self.shards[mine % self.shards.len()])
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new(1, TokioClock::system())
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

fn class(status: u16) -> usize {
    match status / 100 {
        class @ 1..=5 => usize::from(class),
        _ => 0,
    }
}

const fn name_index(outcome: Outcome) -> usize {
    match outcome {
        Outcome::HitRam => 0,
        Outcome::HitDisk => 1,
        Outcome::HitFill => 2,
        Outcome::Miss => 3,
        Outcome::Revalidated => 4,
        Outcome::Refreshed => 5,
        Outcome::Tunnel => 6,
        Outcome::Purge => 7,
        Outcome::HitPeer => 8,
        Outcome::Fleet => 9,
        Outcome::Absent => 10,
        Outcome::Reply => 11,
        Outcome::Stale(_) => 12,
        Outcome::Bypass(_) => 13,
        Outcome::Error(_) => 14,
        Outcome::Denied(_) => 15,
        Outcome::Invalid(_) => 16,
    }
}

/// Returns the outcome names with their numbers.
fn names() -> impl Iterator<Item = (usize, &'static str)> {
    let mut next = 0;
    Outcome::all().filter_map(move |outcome| {
        let index = name_index(outcome);
        (index == next).then(|| {
            next += 1;
            (index, outcome.name())
        })
    })
}

#[cfg(test)]
mod tests;
