//! Figures of a system between two moments, for each request.

use std::fmt;
use std::path::Path;
use std::time::Instant;

use serde_json::json;
use testbed::loop_device::Operations;

use crate::bench::options::Options;

/// All counts at one moment.
pub struct Moment {
    /// The moment.
    pub at: Instant,
    /// Requests of the clients.
    pub requests: u64,
    /// Bytes of the bodies that they got.
    pub bytes: u64,
    /// Requests that the origin answered.
    pub fetched: u64,
    /// Bytes of the bodies that it sent.
    pub fetched_bytes: u64,
    /// User and system time of the system's processes.
    pub cpu_seconds: f64,
    /// Operations of the device.
    pub device: Operations,
    /// Bytes that the cache takes on the device.
    pub held: u64,
}

/// See the module.
pub struct Figures {
    system: String,
    part: String,
    hits: f64,
    byte_hits: f64,
    requests_per_second: f64,
    cpu_us: f64,
    reads: f64,
    read_kb: f64,
    writes: f64,
    written_kb: f64,
    written_per_stored: f64,
    held_gib: f64,
}

impl Figures {
    /// Returns the figures between two moments.
    pub fn between(system: &str, part: &str, from: &Moment, to: &Moment) -> Figures {
        let requests = (to.requests - from.requests).max(1) as f64;
        let bytes = (to.bytes - from.bytes).max(1) as f64;
        // All that the origin sends may be stored.
        let fetched_bytes = (to.fetched_bytes - from.fetched_bytes) as f64;
        let device = to.device.since(&from.device);
        Figures {
            system: system.to_owned(),
            part: part.to_owned(),
            hits: 1.0 - (to.fetched - from.fetched) as f64 / requests,
            byte_hits: 1.0 - fetched_bytes / bytes,
            requests_per_second: requests / (to.at - from.at).as_secs_f64(),
            cpu_us: (to.cpu_seconds - from.cpu_seconds) * 1e6 / requests,
            reads: device.reads as f64 / requests,
            read_kb: device.read_bytes as f64 / 1e3 / requests,
            writes: device.writes as f64 / requests,
            written_kb: device.written_bytes as f64 / 1e3 / requests,
            written_per_stored: device.written_bytes as f64 / fetched_bytes.max(1.0),
            held_gib: to.held as f64 / f64::from(1 << 30),
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: hits {:.3} (bytes {:.3}), {:.0} req/s, {:.1} µs; reads {:.3} a request, {:.1} KB; \
             writes {:.4} a request, {:.1} KB, {:.3} B a byte stored",
            self.part,
            self.hits,
            self.byte_hits,
            self.requests_per_second,
            self.cpu_us,
            self.reads,
            self.read_kb,
            self.writes,
            self.written_kb,
            self.written_per_stored,
        )
    }
}

/// Prints the table, in Markdown so that it can be kept.
pub fn print(all: &[Figures]) {
    println!(
        "\n| system | part | hits | bytes hit | requests/s | CPU µs/request | reads/request | \
         KB read/request | writes/request | KB written/request | bytes written/stored | \
         cache at the end, GiB |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for row in all {
        println!(
            "| {} | {} | {:.3} | {:.3} | {:.0} | {:.1} | {:.3} | {:.1} | {:.4} | {:.1} | {:.3} | \
             {:.2} |",
            row.system,
            row.part,
            row.hits,
            row.byte_hits,
            row.requests_per_second,
            row.cpu_us,
            row.reads,
            row.read_kb,
            row.writes,
            row.written_kb,
            row.written_per_stored,
            row.held_gib,
        );
    }
}

/// Writes the figures as JSON.
///
/// # Errors
///
/// When the file cannot be written.
pub fn write(path: &Path, all: &[Figures], options: &Options) -> Result<(), String> {
    let row = |figures: &Figures| {
        json!({
            "system": figures.system,
            "part": figures.part,
            "hit_ratio": figures.hits,
            "byte_hit_ratio": figures.byte_hits,
            "requests_per_second": figures.requests_per_second,
            "cpu_us_per_request": figures.cpu_us,
            "device_reads_per_request": figures.reads,
            "device_read_kb_per_request": figures.read_kb,
            "device_writes_per_request": figures.writes,
            "device_written_kb_per_request": figures.written_kb,
            "bytes_written_per_byte_stored": figures.written_per_stored,
            "cache_gib_at_the_end": figures.held_gib,
        })
    };
    let text = json!({
        "connections": options.connections,
        "requests": options.pages.requests,
        "warm_up": options.pages.warm_up,
        "operations": options.operations,
        "rows": all.iter().map(row).collect::<Vec<_>>(),
    });
    std::fs::write(path, format!("{text:#}\n")).map_err(|e| format!("{}: {e}", path.display()))
}

#[test]
fn figures_are_of_what_came_between() {
    let device = Operations { reads: 10, read_bytes: 4_096, writes: 5, written_bytes: 10_000 };
    let at = Instant::now();
    let (requests, bytes, fetched, fetched_bytes, held) = (100, 50_000, 40, 20_000, 1 << 30);
    let from =
        Moment { at, requests, bytes, fetched, fetched_bytes, cpu_seconds: 1.0, device, held };
    let to = Moment {
        at: at + std::time::Duration::from_secs(2),
        requests: 300,
        bytes: 250_000,
        fetched: 90,
        fetched_bytes: 70_000,
        cpu_seconds: 1.5,
        device: Operations { reads: 60, read_bytes: 204_096, writes: 7, written_bytes: 65_000 },
        held,
    };
    let shown = Figures::between("any", "1/5", &from, &to).to_string();
    let expected = "1/5: hits 0.750 (bytes 0.750), 100 req/s, 2500.0 µs; reads 0.250 a request, \
        1.0 KB; writes 0.0100 a request, 0.3 KB, 1.100 B a byte stored";
    assert_eq!(shown, expected);
}
