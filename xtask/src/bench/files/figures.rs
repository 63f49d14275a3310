//! Figures of a web server between two moments, per request; medians and spreads over rounds.

use std::fmt;
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use testkit::loop_device::Operations;
use testkit::memory_group::Memory;

use super::scenario::Scenario;
use crate::bench::median::median;

/// All counts at one moment.
#[derive(Clone, Copy)]
pub struct Moment {
    /// Time of the moment.
    pub at: Instant,
    /// Number of client requests.
    pub requests: u64,
    /// User and system time of the system's processes, in seconds.
    pub cpu_seconds: f64,
    /// Operations of the device with the tree.
    pub tree: Operations,
    /// Operations of the device with larder's cache.
    pub cache: Operations,
    /// Memory of the server, including the kernel memory charged to it.
    pub memory: Memory,
}

/// The figures of one part of a program, of one round or as medians.
pub struct Figures {
    system: String,
    part: String,
    values: Values,
}

/// The differences of two [`Moment`]s, per request, except for the memory at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Values {
    requests: f64,
    requests_per_second: f64,
    cpu_us: f64,
    tree_reads: f64,
    cache_reads: f64,
    read_kb: f64,
    written_kb: f64,
    own_mb: f64,
    page_cache_mb: f64,
    kernel_mb: f64,
}

impl Figures {
    /// Returns the figures between two moments.
    pub fn between(system: &str, part: &str, from: &Moment, to: &Moment) -> Figures {
        let count = to.requests - from.requests;
        // Per-request figures are undefined without requests.
        let requests = if count == 0 { f64::NAN } else { count as f64 };
        let (tree, cache) = (to.tree.since(&from.tree), to.cache.since(&from.cache));
        let kb = |of: fn(&Operations) -> u64| (of(&tree) + of(&cache)) as f64 / 1e3 / requests;
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let values = Values {
            requests: count as f64,
            requests_per_second: count as f64 / (to.at - from.at).as_secs_f64(),
            cpu_us: (to.cpu_seconds - from.cpu_seconds) * 1e6 / requests,
            tree_reads: tree.reads as f64 / requests,
            cache_reads: cache.reads as f64 / requests,
            read_kb: kb(|operations| operations.read_bytes),
            written_kb: kb(|operations| operations.written_bytes),
            own_mb: mb(to.memory.own),
            page_cache_mb: mb(to.memory.files),
            kernel_mb: mb(to.memory.kernel),
        };
        Figures { system: system.to_owned(), part: part.to_owned(), values }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = &self.values;
        write!(
            f,
            "{}: {:.0} requests, {:.0} a second, {:.1} µs; {:.3} + {:.3} reads a request, {:.1} \
             KB; {:.1} KB written; {:.0} MB own, {:.0} MB page cache, {:.0} MB kernel",
            self.part,
            values.requests,
            values.requests_per_second,
            values.cpu_us,
            values.tree_reads,
            values.cache_reads,
            values.read_kb,
            values.written_kb,
            values.own_mb,
            values.page_cache_mb,
            values.kernel_mb,
        )
    }
}

/// A part of a system's program over all rounds.
pub struct Row {
    medians: Figures,
    /// Minimum and maximum.
    requests_per_second: (f64, f64),
    cpu_us: (f64, f64),
    /// Requests per second relative to nginx, the better one of several.
    to_nginx: Option<f64>,
}

/// Returns a row for each part of each system, in the order of their first rounds.
pub fn medians(all: &[Figures]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for figures in all {
        let is_same =
            |other: &Figures| other.system == figures.system && other.part == figures.part;
        if !rows.iter().any(|row| is_same(&row.medians)) {
            let rounds: Vec<Values> =
                all.iter().filter(|other| is_same(other)).map(|other| other.values).collect();
            rows.push(Row::over(figures, &rounds));
        }
    }
    let best = |part: &str| {
        let nginx = rows.iter().map(|row| &row.medians);
        let nginx = nginx.filter(|row| row.part == part && row.system.starts_with("nginx"));
        nginx.map(|row| row.values.requests_per_second).max_by(f64::total_cmp)
    };
    let ratios: Vec<Option<f64>> = rows
        .iter()
        .map(|row| {
            let nginx = best(&row.medians.part).filter(|requests| *requests > 0.0)?;
            Some(row.medians.values.requests_per_second / nginx)
        })
        .collect();
    rows.iter_mut().zip(ratios).for_each(|(row, ratio)| row.to_nginx = ratio);
    rows
}

impl Row {
    fn over(of: &Figures, rounds: &[Values]) -> Row {
        let all = |figure: fn(&Values) -> f64| rounds.iter().map(figure).collect::<Vec<f64>>();
        let median = |figure| median(all(figure));
        let spread = |figure| {
            let all = all(figure);
            (all.iter().copied().fold(f64::MAX, f64::min), all.into_iter().fold(0.0, f64::max))
        };
        let values = Values {
            requests: median(|values| values.requests),
            requests_per_second: median(|values| values.requests_per_second),
            cpu_us: median(|values| values.cpu_us),
            tree_reads: median(|values| values.tree_reads),
            cache_reads: median(|values| values.cache_reads),
            read_kb: median(|values| values.read_kb),
            written_kb: median(|values| values.written_kb),
            own_mb: median(|values| values.own_mb),
            page_cache_mb: median(|values| values.page_cache_mb),
            kernel_mb: median(|values| values.kernel_mb),
        };
        let (system, part) = (of.system.clone(), of.part.clone());
        Row {
            medians: Figures { system, part, values },
            requests_per_second: spread(|values| values.requests_per_second),
            cpu_us: spread(|values| values.cpu_us),
            to_nginx: None,
        }
    }
}

/// Prints the table, in Markdown so that it can be kept.
pub fn print(rows: &[Row]) {
    println!(
        "\n| system | part | requests | requests/s | × nginx | CPU µs/request | \
         reads/request, tree + cache | KB read/request | KB written/request | own MB | \
         page cache MB | kernel MB |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for row in rows {
        let values = &row.medians.values;
        println!(
            "| {} | {} | {:.0} | {:.0} ({:.0}–{:.0}) | {} | {:.1} ({:.1}–{:.1}) | \
             {:.3} + {:.3} | {:.1} | {:.1} | {:.0} | {:.0} | {:.0} |",
            row.medians.system,
            row.medians.part,
            values.requests,
            values.requests_per_second,
            row.requests_per_second.0,
            row.requests_per_second.1,
            row.to_nginx.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}")),
            values.cpu_us,
            row.cpu_us.0,
            row.cpu_us.1,
            values.tree_reads,
            values.cache_reads,
            values.read_kb,
            values.written_kb,
            values.own_mb,
            values.page_cache_mb,
            values.kernel_mb,
        );
    }
}

/// Writes the medians and each round as JSON.
///
/// # Errors
///
/// When the file cannot be written.
pub fn write(
    path: &Path,
    rows: &[Row],
    all: &[Figures],
    scenario: &Scenario,
) -> Result<(), String> {
    let medians: Vec<Value> = rows.iter().map(|row| json(&row.medians)).collect();
    let rounds: Vec<Value> = all.iter().map(json).collect();
    let file = json!({
        "tree_pages": scenario.pages,
        "warm_up": scenario.warm_up,
        "requests": scenario.requests,
        "limit_mib": scenario.limit_mib,
        "memory_mib": scenario.memory_mib,
        "cache_gib": scenario.cache_gib,
        "medians": medians,
        "rounds": rounds,
    });
    std::fs::write(path, format!("{file:#}\n")).map_err(|e| format!("{}: {e}", path.display()))
}

fn json(figures: &Figures) -> Value {
    let values = &figures.values;
    json!({
        "system": figures.system,
        "part": figures.part,
        "requests": values.requests,
        "requests_per_second": values.requests_per_second,
        "cpu_us_per_request": values.cpu_us,
        "tree_reads_per_request": values.tree_reads,
        "cache_reads_per_request": values.cache_reads,
        "device_read_kb_per_request": values.read_kb,
        "device_written_kb_per_request": values.written_kb,
        "own_mb": values.own_mb,
        "page_cache_mb": values.page_cache_mb,
        "kernel_mb": values.kernel_mb,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(system: &str, part: &str, requests_per_second: f64) -> Figures {
        let values = Values { requests_per_second, ..Values::default() };
        Figures { system: system.into(), part: part.into(), values }
    }

    #[test]
    fn rounds_become_medians_with_their_spread_beside_the_better_nginx() {
        let mut all = Vec::new();
        for of_round in [[60.0, 20.0, 10.0], [90.0, 30.0, 10.0], [80.0, 10.0, 10.0]] {
            let systems = ["larder", "nginx", "nginx, aio off"].into_iter().zip(of_round);
            all.extend(systems.map(|(system, requests)| round(system, "all", requests)));
        }
        all.push(round("larder", "cold", 7.0));
        let rows = medians(&all);
        let names: Vec<_> = rows.iter().map(|row| row.medians.part.as_str()).collect();
        assert_eq!(names, ["all", "all", "all", "cold"]);
        assert_eq!(rows[0].medians.values.requests_per_second, 80.0);
        assert_eq!(rows[0].requests_per_second, (60.0, 90.0));
        let ratios: Vec<_> = rows.iter().map(|row| row.to_nginx).collect();
        assert_eq!(ratios, [Some(4.0), Some(1.0), Some(0.5), None]);
    }
}
