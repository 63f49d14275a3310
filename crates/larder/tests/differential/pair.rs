//! Two programs with the same configuration, each in front of an origin of its own, that get the
//! same requests.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use testkit::client::RawReply;

use crate::case::Case;
use crate::configurations::Configuration;
use crate::difference::{Difference, Place};
use crate::masked::{Masked, SIDE_BY_SIDE, latin1, with_lengths};
use crate::origin::{Origin, Parsed, Plan};
use crate::program::{Program, Start};

/// Time after which missing output of one program counts as a difference.
const PATIENCE: Duration = Duration::from_secs(3);

/// Time without a change after which logs and counters are complete: logs are written in batches.
const STILL: Duration = Duration::from_millis(1_300);

/// The counters that are compared: of requests, outcomes, and bytes of bodies. Others depend on
/// timing, or on work that a program may do in several ways.
const COUNTERS: [&str; 17] = [
    "larder_cache_conditional_requests_total",
    "larder_cache_lookups_total",
    "larder_client_connections_accepted_total",
    "larder_client_http_connections_total",
    "larder_fill_followers_joined_total",
    "larder_fills_ended_total",
    "larder_fleet_questions_total",
    "larder_requests_malformed_total",
    "larder_requests_total",
    "larder_response_body_bytes_total",
    "larder_store_insertions_total",
    "larder_store_refreshes_total",
    "larder_tunnels_opened_total",
    "larder_upgrades_total",
    "larder_upstream_errors_total",
    "larder_upstream_overruns_total",
    "larder_upstream_server_requests_total",
];

/// A program in front of its origin, and how much of its output was compared.
struct Side {
    program: Program,
    origin: Origin,
    /// Number of requests at the origin that were compared.
    seen: usize,
    /// Number of lines of the access log that were compared.
    logged: usize,
    /// Values of the counters at the last comparison.
    counters: BTreeMap<String, i64>,
}

/// The two sides of a comparison.
pub struct Pair {
    sides: [Side; 2],
    configuration: &'static str,
    /// Name of the previous case, whose last output may come late.
    before: String,
}

impl Pair {
    /// Starts both programs, with origins of these plans.
    pub fn start(
        programs: [&Path; 2],
        configuration: &Configuration,
        plans: &[(String, Plan)],
    ) -> Pair {
        let side = |program: &Path| {
            let origin = Origin::start();
            origin.plan(plans);
            let program = Program::start(&Start {
                program,
                origin: Some(origin.address()),
                configuration: &configuration.text,
                logs: configuration.logs,
            });
            Side { program, origin, seen: 0, logged: 0, counters: BTreeMap::new() }
        };
        let mut pair = Pair {
            sides: both(&mut programs.map(|program| program), |program| side(program)),
            configuration: configuration.name,
            before: String::new(),
        };
        pair.sides.iter_mut().for_each(|side| side.counters = counters(side));
        pair
    }

    /// Stops both programs and starts them again.
    pub fn restart(&mut self) {
        both(&mut self.sides, |side| {
            side.program.restart();
            side.counters = counters(side);
        });
    }

    /// Plays a case to both programs, and compares.
    pub fn play(&mut self, case: &Case) -> Vec<Difference> {
        for side in &self.sides {
            side.origin.plan(&case.plans);
        }
        let heard = both(&mut self.sides, |side| case.play(side.program.address()));
        let name = format!("{}/{}", self.configuration, case.name);
        self.compare(&name, &case.shown(), heard, case.either_framing)
    }

    /// Runs `ask` against both programs, with the address of `{FRONT}`, and compares.
    pub fn ask(
        &mut self,
        name: &str,
        ask: impl Fn(std::net::SocketAddr) -> Vec<u8> + Sync,
    ) -> Vec<Difference> {
        let heard = both(&mut self.sides, |side| {
            let bytes = ask(side.program.front());
            RawReply { bytes, end: "the client closed" }
        });
        let name = format!("{}/{name}", self.configuration);
        self.compare(&name, "", heard, false)
    }

    fn compare(
        &mut self,
        name: &str,
        sent: &str,
        heard: [RawReply; 2],
        either_framing: bool,
    ) -> Vec<Difference> {
        for (side, which) in self.sides.iter_mut().zip(["old", "new"]) {
            let lives = side.program.lives();
            assert!(lives, "{name}: the {which} program has ended:\n{}", side.program.said());
        }
        let masked = |at: usize| {
            let RawReply { bytes, end } = &heard[at];
            let mut masked = self.sides[at].masked(bytes);
            if either_framing {
                masked.text = with_lengths(&masked.text);
            }
            masked.text.push_str(&format!("\n[{end}]"));
            masked
        };
        let [old, new] = [masked(0), masked(1)];
        let mut all = Vec::from_iter(Difference::of(name, Place::Client, [&old, &new]));
        all.extend(self.settle(name));
        for difference in &mut all {
            difference.detail =
                format!("    sent: {sent}\n    behind: {}\n{}", self.before, difference.detail);
        }
        self.before = name.to_owned();
        all
    }

    /// Waits until both origins have the same requests, and returns the difference.
    fn settle(&mut self, name: &str) -> Option<Difference> {
        let end = Instant::now() + PATIENCE;
        let seen = loop {
            let seen = [0, 1].map(|at| self.sides[at].seen());
            let idle = self.sides.iter().all(|side| side.origin.is_idle());
            // If both have the same number, waiting changes nothing.
            if idle && seen[0].0 == seen[1].0 || Instant::now() > end {
                break seen;
            }
            thread::sleep(Duration::from_millis(2));
        };
        self.sides.iter_mut().zip(&seen).for_each(|(side, seen)| side.seen += seen.0);
        Difference::of(name, Place::Origin, [&seen[0].1, &seen[1].1])
    }

    /// Compares the log lines and counter increments since the last time.
    pub fn compare_traces(&mut self, name: &str) -> Vec<Difference> {
        let name = format!("{}/{name}", self.configuration);
        let (mut end, mut last) = (Instant::now() + STILL, Default::default());
        loop {
            let now = [0, 1].map(|at| counters(&self.sides[at]));
            let grown = [0, 1].map(|at| grown(&self.sides[at].counters, &now[at]));
            let logs = [0, 1].map(|at| self.sides[at].log());
            let mut all = Difference::of_lines(&name, Place::Metrics, [&grown[0], &grown[1]]);
            all.extend(Difference::of_lines(&name, Place::Log, [&logs[0], &logs[1]]));
            let state = (logs[0].len() + logs[1].len(), [now[0].clone(), now[1].clone()]);
            if state != last {
                (last, end) = (state, Instant::now() + STILL);
            }
            if all.is_empty() || Instant::now() > end {
                for ((side, now), log) in self.sides.iter_mut().zip(now).zip(&logs) {
                    side.counters = now;
                    side.logged += log.len();
                }
                return all;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops both programs, and compares the remaining lines of their logs.
    pub fn finish(mut self) -> Vec<Difference> {
        let logs = both(&mut self.sides, |side| {
            side.program.stop();
            side.log()
        });
        let name = format!("{}/the end", self.configuration);
        Difference::of_lines(&name, Place::Log, [&logs[0], &logs[1]])
    }
}

/// Returns the counters that have grown, with their increments.
fn grown(before: &BTreeMap<String, i64>, now: &BTreeMap<String, i64>) -> Vec<Masked> {
    let grown = now.iter().map(|(name, count)| (name, count - before.get(name).unwrap_or(&0)));
    let lines = grown.filter(|(_, count)| *count != 0);
    lines.map(|(name, count)| Masked::of(format!("{name} {count}").as_bytes(), &[], 0)).collect()
}

impl Side {
    fn names(&self) -> Vec<(String, &'static str)> {
        let mut names = self.program.names();
        names.push((self.origin.address().to_string(), "<origin>"));
        names
    }

    fn masked(&self, bytes: &[u8]) -> Masked {
        Masked::of(bytes, &self.names(), SIDE_BY_SIDE)
    }

    /// Returns the number of requests not compared yet, and these requests, masked.
    fn seen(&self) -> (usize, Masked) {
        let seen = self.origin.seen(self.seen);
        let shown = seen.iter().map(|seen| match &seen.parsed {
            Parsed::Malformed(why) => {
                [format!("malformed ({why}): ").as_bytes(), &seen.bytes].concat()
            }
            _ => seen.bytes.clone(),
        });
        let shown: Vec<_> = shown.collect();
        (seen.len(), self.masked(&shown.join(&b"\n----\n"[..])))
    }

    /// Returns the lines of the access log not compared yet, masked.
    fn log(&self) -> Vec<Masked> {
        self.program.log(self.logged).iter().map(|line| self.masked(&latin1(line))).collect()
    }
}

/// Returns the counters that are compared, over all sites.
fn counters(side: &Side) -> BTreeMap<String, i64> {
    let mut text = side.program.admin("/metrics").unwrap_or_default();
    for (name, stands_for) in side.names() {
        text = text.replace(&name, stands_for);
    }
    let is_compared = |series: &str| {
        let name = series.split('{').next().unwrap_or_default();
        COUNTERS.contains(&name)
    };
    let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    let lines = lines.filter(|(series, _)| is_compared(series));
    let mut counters = BTreeMap::new();
    for (series, count) in lines {
        let Ok(count) = count.parse::<i64>() else { continue };
        let labels = series.split(',').filter(|label| !label.starts_with("site=\""));
        let series = labels.collect::<Vec<_>>().join(",");
        *counters.entry(format!("{}}}", series.trim_end_matches('}'))).or_default() += count;
    }
    counters
}

/// Runs the same work for both sides in parallel.
pub fn both<S: Send, T: Send>(sides: &mut [S; 2], work: impl Fn(&mut S) -> T + Sync) -> [T; 2] {
    let [old, new] = sides;
    thread::scope(|scope| {
        let other = scope.spawn(|| work(old));
        let new = work(new);
        [other.join().expect("the play of the older program"), new]
    })
}
