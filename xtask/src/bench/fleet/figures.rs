//! Figures of fleets: of one round, their medians over all, the tables and the file.

use std::fmt;
use std::path::Path;

use serde_json::{Value, json};

use super::load::{Came, Counts};
use crate::bench::median::median;

/// A system's figures while all nodes are up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sharing {
    /// Share of requests for which the origin received none.
    pub hits: f64,
    /// Share of responses from the memory of the node that received the request.
    pub memory: f64,
    /// Share of responses from its disk.
    pub disk: f64,
    /// Share of responses from one of the two, if the system does not distinguish them.
    pub cache: f64,
    /// Share of responses from another node's cache.
    pub peer: f64,
    /// Origin requests per document that was ever requested, including the warm-up.
    pub fetches_per_document: f64,
    /// Processor time of all nodes' processes together per request, µs.
    pub cpu_us: f64,
    /// Requests per second of all nodes together.
    pub requests_per_second: f64,
    /// Median latency, µs.
    pub p50_us: f64,
    /// 99th percentile of the latency, µs.
    pub p99_us: f64,
    /// Reads of all devices per request.
    pub reads: f64,
    /// Kilobytes written to all devices per request.
    pub written_kb: f64,
    /// Size of the largest cache on its device, MiB.
    pub held_mib: f64,
}

impl Sharing {
    /// Returns the figures that can be derived from the responses.
    pub fn of(counts: &Counts) -> Sharing {
        Sharing {
            memory: counts.share(Came::Memory),
            disk: counts.share(Came::Disk),
            cache: counts.share(Came::Cache),
            peer: counts.share(Came::Peer),
            p50_us: counts.percentile(50.0),
            p99_us: counts.percentile(99.0),
            ..Sharing::default()
        }
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "hits {:.3} (memory {:.3}, disk {:.3}, cache {:.3}, peer {:.3}), {:.2} fetches a \
             document, {:.1} µs, {:.0} req/s",
            self.hits,
            self.memory,
            self.disk,
            self.cache,
            self.peer,
            self.fetches_per_document,
            self.cpu_us,
            self.requests_per_second,
        )
    }
}

/// Effects of the death of a node.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// Hit ratio before.
    pub before: f64,
    /// Lowest hit ratio of any second afterwards.
    pub lowest: f64,
    /// Hit ratio of the last second.
    pub after: f64,
    /// Responses of the other nodes.
    pub answers: u64,
    /// Requests to the other nodes without a response.
    pub errors: u64,
    /// The first of these errors.
    pub first_error: Option<String>,
    /// Requests to the origin in excess of those at the previous hit ratio.
    pub extra_fetches: f64,
    /// Seconds until the hit ratio recovers; `None`: it does not.
    pub seconds: Option<f64>,
    /// The slowest response, ms.
    pub slowest_ms: f64,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "after a kill: hits {:.3}, lowest {:.3}, at the end {:.3}; {} errors in {} answers, \
             {:.0} extra fetches, back after {} s, slowest {:.0} ms",
            self.before,
            self.lowest,
            self.after,
            self.errors,
            self.answers,
            self.extra_fetches,
            shown(self.seconds, 1),
            self.slowest_ms,
        )?;
        match &self.first_error {
            Some(why) => write!(f, "; the first error: {}", why.trim_end()),
            None => Ok(()),
        }
    }
}

/// Figures of one half of [`Remote`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    /// Processor time of all nodes together per request, µs.
    pub cpu_us: f64,
    /// Requests per second.
    pub requests_per_second: f64,
    /// Median latency, µs.
    pub p50_us: f64,
    /// Share of responses from the cache of the node that received the request.
    pub own: f64,
    /// Share of responses from the cache of another node.
    pub peer: f64,
}

/// Responses from the memory of the node that received the request, and from that of another one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Remote {
    /// Requests go to the owner.
    pub local: Part,
    /// Requests go to another node.
    pub remote: Part,
}

impl Remote {
    /// Returns the cost of a remote response relative to a local one; `None` if the responses did
    /// not come from the expected nodes.
    fn ratio(&self) -> Option<f64> {
        let all = self.local.own.min(self.remote.peer) > 0.99;
        all.then(|| self.remote.cpu_us / self.local.cpu_us)
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "local {:.1} µs ({:.3} own), remote {:.1} µs ({:.3} of a peer): {} times",
            self.local.cpu_us,
            self.local.own,
            self.remote.cpu_us,
            self.remote.peer,
            shown(self.ratio(), 2),
        )
    }
}

/// A node without a fleet, and a fleet of one node.
#[derive(Clone, Copy, Debug)]
pub struct Alone {
    /// Name of the scenario.
    pub scenario: &'static str,
    /// Time per request without a fleet, µs.
    pub without: f64,
    /// Time per request as a fleet of one node, µs.
    pub with: f64,
}

/// All figures, for each round of each system.
#[derive(Default)]
pub struct All {
    /// While all nodes are up.
    pub sharing: Vec<(String, Sharing)>,
    /// After one was killed.
    pub recovery: Vec<(String, Recovery)>,
    /// Cost of responses from other nodes.
    pub remote: Vec<(String, Remote)>,
    /// Cost of being a fleet of one node.
    pub alone: Vec<Alone>,
}

/// Groups the rounds by system, in the order of first appearance.
fn by_system<T>(all: &[(String, T)]) -> Vec<(&str, Vec<&T>)> {
    let mut rows: Vec<(&str, Vec<&T>)> = Vec::new();
    for (name, figures) in all {
        match rows.iter_mut().find(|(system, _)| system == name) {
            Some((_, rounds)) => rounds.push(figures),
            None => rows.push((name, vec![figures])),
        }
    }
    rows
}

/// Returns the median over the rounds.
fn of<T>(rounds: &[&T], figure: impl Fn(&T) -> f64) -> f64 {
    median(rounds.iter().map(|round| figure(round)).collect())
}

/// Returns the median with the minimum and maximum.
fn spread<T>(rounds: &[&T], figure: impl Fn(&T) -> f64) -> String {
    let all = || rounds.iter().map(|round| figure(round));
    let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
    match rounds.len() {
        1 => format!("{least:.1}"),
        _ => format!("{:.1} ({least:.1}–{most:.1})", median(all().collect())),
    }
}

fn shown(figure: Option<f64>, digits: usize) -> String {
    figure.map_or_else(|| "-".into(), |figure| format!("{figure:.digits$}"))
}

/// Returns the median if more than half of the rounds have such a figure.
fn middle<T>(rounds: &[&T], figure: impl Fn(&T) -> Option<f64>) -> Option<f64> {
    let middle = of(rounds, |round| figure(round).unwrap_or(f64::MAX));
    (middle < f64::MAX / 4.0).then_some(middle)
}

impl All {
    /// Prints the tables, in Markdown so that they can be kept.
    pub fn print(&self) {
        if !self.sharing.is_empty() {
            self.print_sharing();
        }
        if !self.recovery.is_empty() {
            self.print_recovery();
        }
        if !self.remote.is_empty() {
            self.print_remote();
        }
        if !self.alone.is_empty() {
            self.print_alone();
        }
    }

    fn print_sharing(&self) {
        println!(
            "\n| system | hits | memory | disk | cache, either | another node's | \
             fetches/document | CPU µs/request, all nodes | requests/s | p50 µs | p99 µs | \
             reads/request | KB written/request | largest cache MiB |"
        );
        println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
        for (system, rounds) in by_system(&self.sharing) {
            println!(
                "| {system} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} | {:.2} | {} | {:.0} | {:.0} \
                 | {:.0} | {:.3} | {:.1} | {:.0} |",
                of(&rounds, |round| round.hits),
                of(&rounds, |round| round.memory),
                of(&rounds, |round| round.disk),
                of(&rounds, |round| round.cache),
                of(&rounds, |round| round.peer),
                of(&rounds, |round| round.fetches_per_document),
                spread(&rounds, |round| round.cpu_us),
                of(&rounds, |round| round.requests_per_second),
                of(&rounds, |round| round.p50_us),
                of(&rounds, |round| round.p99_us),
                of(&rounds, |round| round.reads),
                of(&rounds, |round| round.written_kb),
                of(&rounds, |round| round.held_mib),
            );
        }
    }

    fn print_recovery(&self) {
        println!(
            "\n| system, a node killed | hits before | lowest | at the end | errors at the others \
             | extra fetches | seconds until back | slowest ms |"
        );
        println!("|---|--:|--:|--:|--:|--:|--:|--:|");
        for (system, rounds) in by_system(&self.recovery) {
            println!(
                "| {system} | {:.3} | {:.3} | {:.3} | {:.0} | {:.0} | {} | {:.0} |",
                of(&rounds, |round| round.before),
                of(&rounds, |round| round.lowest),
                of(&rounds, |round| round.after),
                of(&rounds, |round| round.errors as f64),
                of(&rounds, |round| round.extra_fetches),
                shown(middle(&rounds, |round| round.seconds), 1),
                of(&rounds, |round| round.slowest_ms),
            );
        }
    }

    fn print_remote(&self) {
        println!(
            "\n| system, in memory | CPU µs/request, the owner asked | another node asked | ratio \
             | requests/s, owner | another | p50 µs, owner | another | from the owner's cache | \
             from another node's |"
        );
        println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
        for (system, rounds) in by_system(&self.remote) {
            println!(
                "| {system} | {} | {} | {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.3} | {:.3} |",
                spread(&rounds, |round| round.local.cpu_us),
                spread(&rounds, |round| round.remote.cpu_us),
                shown(middle(&rounds, Remote::ratio), 2),
                of(&rounds, |round| round.local.requests_per_second),
                of(&rounds, |round| round.remote.requests_per_second),
                of(&rounds, |round| round.local.p50_us),
                of(&rounds, |round| round.remote.p50_us),
                of(&rounds, |round| round.local.own),
                of(&rounds, |round| round.remote.peer),
            );
        }
    }

    fn print_alone(&self) {
        println!("\n| larder, one node | CPU µs/request | in a fleet without others | ratio |");
        println!("|---|--:|--:|--:|");
        let named: Vec<(String, Alone)> =
            self.alone.iter().map(|round| (round.scenario.to_owned(), *round)).collect();
        for (scenario, rounds) in by_system(&named) {
            println!(
                "| {scenario} | {} | {} | {:.2} |",
                spread(&rounds, |round| round.without),
                spread(&rounds, |round| round.with),
                of(&rounds, |round| round.with / round.without),
            );
        }
    }

    /// Writes each round as JSON, below the description of the scenario.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn write(&self, path: &Path, mut scenario: Value) -> Result<(), String> {
        scenario["sharing"] = self.sharing.iter().map(|(of, round)| sharing(of, round)).collect();
        scenario["recovery"] =
            self.recovery.iter().map(|(of, round)| recovery(of, round)).collect();
        scenario["remote"] = self.remote.iter().map(|(of, round)| remote(of, round)).collect();
        scenario["alone"] = self.alone.iter().map(alone).collect();
        let text = format!("{scenario:#}\n");
        std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
    }
}

fn sharing(system: &str, round: &Sharing) -> Value {
    json!({
        "system": system,
        "hit_ratio": round.hits,
        "own_memory": round.memory,
        "own_disk": round.disk,
        "own_cache": round.cache,
        "peer": round.peer,
        "origin_fetches_per_document": round.fetches_per_document,
        "cpu_us_per_request": round.cpu_us,
        "requests_per_second": round.requests_per_second,
        "p50_us": round.p50_us,
        "p99_us": round.p99_us,
        "device_reads_per_request": round.reads,
        "device_written_kb_per_request": round.written_kb,
        "largest_cache_mib": round.held_mib,
    })
}

fn recovery(system: &str, round: &Recovery) -> Value {
    json!({
        "system": system,
        "hit_ratio_before": round.before,
        "hit_ratio_lowest": round.lowest,
        "hit_ratio_at_the_end": round.after,
        "answers": round.answers,
        "errors": round.errors,
        "first_error": round.first_error,
        "extra_origin_fetches": round.extra_fetches,
        "seconds_until_back": round.seconds,
        "slowest_ms": round.slowest_ms,
    })
}

fn remote(system: &str, round: &Remote) -> Value {
    let part = |part: &Part| {
        json!({
            "cpu_us_per_request": part.cpu_us,
            "requests_per_second": part.requests_per_second,
            "p50_us": part.p50_us,
            "own_cache": part.own,
            "peer": part.peer,
        })
    };
    json!({
        "system": system,
        "owner_asked": part(&round.local),
        "other_asked": part(&round.remote),
    })
}

fn alone(round: &Alone) -> Value {
    json!({
        "scenario": round.scenario,
        "cpu_us_per_request": round.without,
        "cpu_us_per_request_in_a_fleet": round.with,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_gathered_by_system_in_their_order() {
        let all = [("b".to_owned(), 1.0), ("a".to_owned(), 5.0), ("b".to_owned(), 4.0)];
        let rows = by_system(&all);
        let names: Vec<&str> = rows.iter().map(|(system, _)| *system).collect();
        assert_eq!(names, ["b", "a"]);
        assert_eq!(of(&rows[0].1, |round| *round), 2.5);
        assert_eq!(spread(&rows[0].1, |round| *round), "2.5 (1.0–4.0)");
        assert_eq!(spread(&rows[1].1, |round| *round), "5.0");
    }

    #[test]
    fn what_most_rounds_do_not_have_is_no_figure() {
        let (two, none) = (Some(2.0), None);
        let middle = |rounds: &[&Option<f64>]| middle(rounds, |round| *round);
        assert_eq!(middle(&[&two, &none, &two]), Some(2.0));
        assert_eq!(middle(&[&two, &none, &none]), None);
        assert_eq!(middle(&[&two, &none]), None);
    }
}
