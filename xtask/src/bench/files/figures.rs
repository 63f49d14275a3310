//! Figures of a web server between two moments, for each request.

use std::fmt;
use std::time::Instant;

use testbed::loop_device::Operations;

/// All counts at one moment.
pub struct Moment {
    /// The moment.
    pub at: Instant,
    /// Requests of the clients.
    pub requests: u64,
    /// User and system time of the system's processes.
    pub cpu_seconds: f64,
    /// Operations of the devices.
    pub device: Operations,
}

/// See the module.
pub struct Figures {
    system: String,
    part: String,
    requests: u64,
    requests_per_second: f64,
    cpu_us: f64,
    reads: f64,
    read_kb: f64,
    written_kb: f64,
}

impl Figures {
    /// Returns the figures between two moments.
    pub fn between(system: &str, part: &str, from: &Moment, to: &Moment) -> Figures {
        let count = to.requests - from.requests;
        let requests = count.max(1) as f64;
        let device = to.device.since(&from.device);
        Figures {
            system: system.to_owned(),
            part: part.to_owned(),
            requests: count,
            requests_per_second: requests / (to.at - from.at).as_secs_f64(),
            cpu_us: (to.cpu_seconds - from.cpu_seconds) * 1e6 / requests,
            reads: device.reads as f64 / requests,
            read_kb: device.read_bytes as f64 / 1e3 / requests,
            written_kb: device.written_bytes as f64 / 1e3 / requests,
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} requests, {:.0} a second, {:.1} µs; {:.3} reads a request, {:.1} KB; {:.1} KB \
             written",
            self.part,
            self.requests,
            self.requests_per_second,
            self.cpu_us,
            self.reads,
            self.read_kb,
            self.written_kb,
        )
    }
}

/// Prints the table, in Markdown so that it can be kept.
pub fn print(all: &[Figures]) {
    println!(
        "\n| system | part | requests | requests/s | CPU µs/request | reads/request | \
         KB read/request | KB written/request |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|");
    for row in all {
        println!(
            "| {} | {} | {} | {:.0} | {:.1} | {:.3} | {:.1} | {:.1} |",
            row.system,
            row.part,
            row.requests,
            row.requests_per_second,
            row.cpu_us,
            row.reads,
            row.read_kb,
            row.written_kb,
        );
    }
}
