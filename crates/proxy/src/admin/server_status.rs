//! State of all sites' servers and of origins that are not servers, for metrics and the admin
//! interface.

use std::sync::Arc;
use std::time::Duration;

use net::clock::TokioClock;
use serde_json::{Map, Value, json};
use upstream::send::origin::{Amount, Figure, Origin};
use upstream::servers::group::Group;
use upstream::servers::health::Use;

use crate::observe::metrics::{Samples, Source};
use crate::options::Options;
use crate::options::control::Control;

/// Metrics source for the servers of all sites.
pub(crate) struct ServerFigures(pub Control, pub TokioClock);

impl Source for ServerFigures {
    fn samples(&self, out: &mut Samples) {
        let (options, now) = (self.0.options(), self.1.millis());
        for (site, origin) in options.front.other_origins() {
            origin_samples(site, origin, out);
        }
        for (site, group) in options.front.groups() {
            queue_samples(site, group, out);
            for server in group.servers() {
                let (status, name) = (server.status(now), server.endpoint.to_string());
                let labels = [("site", site), ("server", name.as_str())];
                let up = u64::from(status.usage == Use::Up);
                let help = "Whether a server of a site is in use.";
                out.gauge("larder_upstream_server_up", help, &labels, up);
                let help = "Requests in progress at a server.";
                let active = u64::from(status.active);
                out.gauge("larder_upstream_server_active", help, &labels, active);
                let help = "Requests sent to a server.";
                out.counter("larder_upstream_server_requests", help, &labels, status.requests);
                let help = "Requests that failed at a server.";
                out.counter("larder_upstream_server_failures", help, &labels, status.failures);
                let help = "Times that a server went out of use.";
                out.counter("larder_upstream_server_outages", help, &labels, status.outages);
                let help = "Connections opened to a server.";
                out.counter("larder_upstream_server_connects", help, &labels, status.connects);
                let help = "Time spent opening connections to a server, including TLS.";
                let time = Duration::from_micros(status.connect_us);
                out.counter("larder_upstream_server_connect_seconds", help, &labels, time);
            }
        }
    }
}

fn origin_samples(site: &str, origin: &dyn Origin, out: &mut Samples) {
    let labels = [("site", site)];
    for figure in origin.figures() {
        match figure.amount {
            Amount::Now(value) => out.gauge(figure.name, figure.help, &labels, value),
            Amount::Total(value) => out.counter(figure.name, figure.help, &labels, value),
        }
    }
}

fn queue_samples(site: &str, group: &Group, out: &mut Samples) {
    let (queue, labels) = (group.queue_status(), [("site", site)]);
    let help = "Requests that wait for a server below its request limit.";
    out.gauge("larder_upstream_queue_waiting", help, &labels, u64::from(queue.waiting));
    for (name, help, n) in [
        (
            "larder_upstream_queue_waits",
            "Requests that have waited for a server below its request limit.",
            queue.waits,
        ),
        (
            "larder_upstream_queue_timeouts",
            "Requests whose wait for a server timed out.",
            queue.timeouts,
        ),
        (
            "larder_upstream_queue_refused",
            "Requests refused because the queue was full.",
            queue.refused,
        ),
    ] {
        out.counter(name, help, &labels, n);
    }
    let help = "Total time that requests waited for a server.";
    let time = Duration::from_micros(queue.wait_us);
    out.counter("larder_upstream_queue_wait_seconds", help, &labels, time);
}

/// Returns all servers of all sites, and the origins that are not servers, as JSON for operators.
pub(crate) fn view(options: &Options, clock: TokioClock) -> Value {
    let now = clock.millis();
    let site = |(site, group): (&str, &Arc<Group>)| {
        let servers = group.servers().iter().map(|server| {
            let status = server.status(now);
            json!({
                "server": server.endpoint.to_string(),
                "scheme": server.endpoint.scheme(),
                "state": status.usage.name(),
                "weight": server.weight,
                "backup": server.backup,
                "active": status.active,
                "requests": status.requests,
                "failures": status.failures,
                "outages": status.outages,
                "connects": status.connects,
                "connect_microseconds": status.connect_us,
            })
        });
        let queue = group.queue_status();
        let queue = json!({
            "waiting": queue.waiting,
            "places": group.options().queue,
            "waits": queue.waits,
            "wait_microseconds": queue.wait_us,
            "timeouts": queue.timeouts,
            "refused": queue.refused,
        });
        json!({ "site": site, "queue": queue, "servers": servers.collect::<Vec<_>>() })
    };
    let groups = options.front.groups().map(site);
    let others = options.front.other_origins().map(|(site, origin)| view_of_other(site, origin));
    json!({ "sites": groups.chain(others).collect::<Vec<_>>() })
}

fn view_of_other(site: &str, origin: &dyn Origin) -> Value {
    let entry = |figure: Figure| (figure.name.to_owned(), figure.amount.value().into());
    let figures: Map<String, Value> = origin.figures().into_iter().map(entry).collect();
    json!({ "site": site, "origin": origin.to_string(), "figures": figures })
}
