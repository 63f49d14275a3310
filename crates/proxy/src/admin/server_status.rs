//! What the metrics and the admin interface show of the servers of all sites.

use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Value, json};

use crate::net::clock::TokioClock;
use crate::observe::metrics::{Samples, Source};
use crate::options::Options;
use crate::options::control::Control;
use crate::upstream::health::Use;
use crate::upstream::site::{Front, Site};

/// The figures of a proxy's servers, as they are at each scrape.
pub(crate) struct ServerFigures(pub Control, pub TokioClock);

impl Source for ServerFigures {
    fn samples(&self, out: &mut Samples) {
        let (options, now) = (self.0.options(), self.1.millis());
        for site in sites(&options) {
            queue_samples(site, out);
            for server in site.upstream.servers() {
                let (health, name) = (&server.health, server.origin.to_string());
                let labels = [("site", site.name.as_str()), ("server", name.as_str())];
                let up = u64::from(health.usage(now) == Use::Up);
                let help = "Whether a server of a site is in use.";
                out.gauge("larder_upstream_server_up", help, &labels, up);
                let help = "Requests under way at a server.";
                let active = u64::from(health.active.load(Relaxed));
                out.gauge("larder_upstream_server_active", help, &labels, active);
                let figures = &health.figures;
                let help = "Requests sent to a server.";
                let n = figures.requests.load(Relaxed);
                out.counter("larder_upstream_server_requests", help, &labels, n);
                let help = "Requests that failed at a server.";
                let n = figures.failures.load(Relaxed);
                out.counter("larder_upstream_server_failures", help, &labels, n);
                let help = "Times that a server went out of use.";
                let n = figures.outages.load(Relaxed);
                out.counter("larder_upstream_server_outages", help, &labels, n);
                let help = "Connections opened to a server.";
                let n = figures.connects.load(Relaxed);
                out.counter("larder_upstream_server_connects", help, &labels, n);
                let help = "Time spent on opening them, TLS included.";
                let us = figures.connect_us.load(Relaxed);
                out.counter("larder_upstream_server_connect_microseconds", help, &labels, us);
            }
        }
    }
}

/// Of the requests that wait until one of a site's servers has room.
fn queue_samples(site: &Site, out: &mut Samples) {
    let (queue, labels) = (site.upstream.queue(), [("site", site.name.as_str())]);
    let help = "Requests that wait for a server with room.";
    out.gauge("larder_upstream_queue_waiting", help, &labels, u64::from(queue.waiting()));
    let figures = &queue.figures;
    for (name, help, n) in [
        (
            "larder_upstream_queue_waits",
            "Requests that have waited for a server with room.",
            &figures.waits,
        ),
        ("larder_upstream_queue_wait_microseconds", "Time that they waited.", &figures.wait_us),
        ("larder_upstream_queue_timeouts", "Requests that waited for too long.", &figures.timeouts),
        ("larder_upstream_queue_refused", "Requests that found the queue full.", &figures.refused),
    ] {
        out.counter(name, help, &labels, n.load(Relaxed));
    }
}

/// All servers of all sites, for operators.
pub(crate) fn view(options: &Options, clock: TokioClock) -> Value {
    let now = clock.millis();
    let site = |site: &Site| {
        let group = &site.upstream;
        let servers = group.servers().iter().map(|server| {
            let (health, figures) = (&server.health, &server.health.figures);
            json!({
                "server": server.origin.to_string(),
                "scheme": server.origin.scheme(),
                "state": health.usage(now).name(),
                "weight": server.weight,
                "backup": server.backup,
                "active": health.active.load(Relaxed),
                "requests": figures.requests.load(Relaxed),
                "failures": figures.failures.load(Relaxed),
                "outages": figures.outages.load(Relaxed),
                "connects": figures.connects.load(Relaxed),
                "connect_microseconds": figures.connect_us.load(Relaxed),
            })
        });
        let queue = group.queue();
        let queue = json!({
            "waiting": queue.waiting(),
            "places": group.options().queue,
            "waits": queue.figures.waits.load(Relaxed),
            "wait_microseconds": queue.figures.wait_us.load(Relaxed),
            "timeouts": queue.figures.timeouts.load(Relaxed),
            "refused": queue.figures.refused.load(Relaxed),
        });
        json!({ "site": site.name, "queue": queue, "servers": servers.collect::<Vec<_>>() })
    };
    json!({ "sites": sites(options).iter().map(site).collect::<Vec<_>>() })
}

fn sites(options: &Options) -> &[Site] {
    match &options.front {
        Front::Forward => &[],
        Front::Reverse(sites) => sites,
    }
}
