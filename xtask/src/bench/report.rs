//! Figures: measurements of a round, medians, the table and the file.

use std::path::Path;

use serde_json::json;

use super::options::Options;

/// The work of a server's device, from the server's metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceWork {
    reads: f64,
    writes: f64,
    written_bytes: f64,
    stored: f64,
    stored_bytes: f64,
}

impl DeviceWork {
    /// Reads the counters out of a page of metrics.
    pub fn from_metrics(text: &str) -> DeviceWork {
        DeviceWork {
            reads: sum(text, "larder_device_reads_total"),
            writes: sum(text, "larder_device_writes_total"),
            written_bytes: sum(text, "larder_device_written_bytes_total"),
            stored: sum(text, "larder_store_insertions_total"),
            stored_bytes: sum(text, "larder_store_inserted_bytes_total"),
        }
    }

    /// Returns the work since `before`.
    pub fn since(&self, before: &DeviceWork) -> DeviceWork {
        DeviceWork {
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
            written_bytes: self.written_bytes - before.written_bytes,
            stored: self.stored - before.stored,
            stored_bytes: self.stored_bytes - before.stored_bytes,
        }
    }
}

/// Returns the sum of all samples of a metric, whatever their labels.
fn sum(text: &str, name: &str) -> f64 {
    let samples = text.lines().filter(|l| {
        l.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ') || rest.starts_with('{'))
    });
    samples.filter_map(|l| l.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// One round of one system.
pub struct Measured {
    /// Requests answered.
    pub requests: u64,
    /// Wall-clock time.
    pub seconds: f64,
    /// User and system time of the server.
    pub cpu_seconds: f64,
    /// Median latency, µs.
    pub p50_us: f64,
    /// 99th percentile of the latency, µs.
    pub p99_us: f64,
    /// Requests that reached the origin, as a share of all.
    pub origin_share: f64,
    /// The work of the server's device.
    pub device: Option<DeviceWork>,
}

impl Measured {
    /// Returns the server time per request in µs.
    pub fn cpu_us(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.requests.max(1) as f64
    }
}

/// One line of the table: one system in one scenario, medians over the rounds.
pub struct Row {
    scenario: &'static str,
    system: String,
    cpu_us: f64,
    requests_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    origin_share: f64,
    system_calls: Option<f64>,
    reads_per_request: Option<f64>,
    written_per_stored: Option<f64>,
    writes_per_object: Option<f64>,
}

impl Row {
    /// Takes the medians.
    pub fn new(
        scenario: &'static str,
        system: &str,
        rounds: Vec<Measured>,
        system_calls: Option<f64>,
    ) -> Row {
        let of = |figure: &dyn Fn(&Measured) -> f64| median(rounds.iter().map(figure).collect());
        let ratio = |above: &dyn Fn(&DeviceWork) -> f64, below: &dyn Fn(&DeviceWork) -> f64| {
            let all = rounds.iter().filter_map(|r| r.device);
            let some: Vec<f64> =
                all.filter(|d| below(d) > 0.0).map(|d| above(&d) / below(&d)).collect();
            (!some.is_empty()).then(|| median(some))
        };
        let reads = rounds.iter().filter_map(|r| Some(r.device?.reads / r.requests as f64));
        let reads: Vec<f64> = reads.collect();
        Row {
            scenario,
            system: system.to_owned(),
            cpu_us: of(&Measured::cpu_us),
            requests_per_second: of(&|m| m.requests as f64 / m.seconds),
            p50_us: of(&|m| m.p50_us),
            p99_us: of(&|m| m.p99_us),
            origin_share: of(&|m| m.origin_share),
            system_calls,
            reads_per_request: (!reads.is_empty()).then(|| median(reads)),
            written_per_stored: ratio(&|d| d.written_bytes, &|d| d.stored_bytes),
            writes_per_object: ratio(&|d| d.writes, &|d| d.stored),
        }
    }
}

/// Returns the median; of an even number the mean of the two in the middle.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let half = figures.len() / 2;
    match figures.len() {
        0 => 0.0,
        n if n % 2 == 1 => figures[half],
        _ => (figures[half - 1] + figures[half]) / 2.0,
    }
}

/// Returns the server time of nginx in the same scenario.
fn peer(rows: &[Row], scenario: &str) -> Option<f64> {
    let nginx = rows.iter().find(|r| r.scenario == scenario && r.system.starts_with("nginx"));
    nginx.map(|r| r.cpu_us)
}

fn shown(figure: Option<f64>, digits: usize) -> String {
    figure.map_or_else(|| "-".into(), |f| format!("{f:.digits$}"))
}

/// Prints the table, in Markdown so that it can be kept.
pub fn print(rows: &[Row]) {
    println!(
        "\n| scenario | system | CPU µs/request | of nginx's | requests/s | p50 µs | p99 µs | \
         system calls | device reads/request | bytes written/stored | device writes/object | \
         to the origin |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for row in rows {
        let ratio = peer(rows, row.scenario).map(|p| row.cpu_us / p);
        println!(
            "| {} | {} | {:.1} | {} | {:.0} | {:.0} | {:.0} | {} | {} | {} | {} | {:.3} |",
            row.scenario,
            row.system,
            row.cpu_us,
            shown(ratio, 2),
            row.requests_per_second,
            row.p50_us,
            row.p99_us,
            shown(row.system_calls, 1),
            shown(row.reads_per_request, 2),
            shown(row.written_per_stored, 3),
            shown(row.writes_per_object, 3),
            row.origin_share,
        );
    }
}

/// Writes the figures as JSON.
///
/// # Errors
///
/// When the file cannot be written.
pub fn write(path: &Path, rows: &[Row], options: &Options) -> Result<(), String> {
    let list: Vec<_> = rows
        .iter()
        .map(|row| {
            json!({
                "scenario": row.scenario,
                "system": row.system,
                "cpu_us_per_request": row.cpu_us,
                "ratio_to_nginx": peer(rows, row.scenario).map(|p| row.cpu_us / p),
                "requests_per_second": row.requests_per_second,
                "p50_us": row.p50_us,
                "p99_us": row.p99_us,
                "origin_share": row.origin_share,
                "system_calls_per_request": row.system_calls,
                "device_reads_per_request": row.reads_per_request,
                "bytes_written_per_byte_stored": row.written_per_stored,
                "device_writes_per_stored_object": row.writes_per_object,
            })
        })
        .collect();
    let all = json!({
        "connections": options.connections,
        "seconds": options.seconds,
        "rounds": options.rounds,
        "rows": list,
    });
    std::fs::write(path, format!("{all:#}\n")).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(Vec::new()), 0.0);
    }

    #[test]
    fn samples_of_all_labels_are_added_and_longer_names_left_out() {
        let text = "# HELP a b\na{volume=\"0\"} 2\na{volume=\"1\"} 3\na_more 7\nb 1\n";
        assert_eq!(sum(text, "a"), 5.0);
        assert_eq!(sum(text, "b"), 1.0);
        assert_eq!(sum(text, "c"), 0.0);
    }
}
