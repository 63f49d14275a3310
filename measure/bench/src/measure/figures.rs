//! The reported figures of a phase. Times are in milliseconds unless stated otherwise; shares range
//! from 0 to 1.

use std::collections::BTreeMap;

use serde::Serialize;

use super::latencies::Latencies;
use super::process::ProcessCounts;
use super::tally::Tally;
use super::{DeviceCounts, TimerAccuracy};
use crate::object::ServedFrom;

/// Times of requests, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// Number of requests.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The maximum.
    pub max: f64,
}

impl From<&Latencies> for Times {
    fn from(latencies: &Latencies) -> Times {
        let at = |percent: f64| latencies.percentile(percent) / 1e6;
        Times {
            count: latencies.count(),
            mean: latencies.mean() / 1e6,
            p50: at(50.0),
            p90: at(90.0),
            p95: at(95.0),
            p99: at(99.0),
            p999: at(99.9),
            max: latencies.max() / 1e6,
        }
    }
}

/// Resource usage of the processes under test.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessFigures {
    /// User CPU time per request, in microseconds.
    pub user_us_per_request: f64,
    /// System CPU time per request, in microseconds.
    pub system_us_per_request: f64,
    /// User and system CPU seconds per second: 1 is a whole core.
    pub cores: f64,
    /// Voluntary context switches per request.
    pub voluntary_switches_per_request: f64,
    /// Involuntary context switches per request.
    pub involuntary_switches_per_request: f64,
    /// Calls of `read`, `write` and similar per request, if the kernel counts them.
    pub read_write_calls_per_request: Option<f64>,
    /// System calls per request, if they were counted.
    pub system_calls_per_request: Option<f64>,
    /// Why system calls were not counted.
    pub system_calls_unread: Option<String>,
    /// Bytes read from storage per request.
    pub storage_read_per_request: Option<f64>,
    /// Bytes written to storage per request.
    pub storage_written_per_request: Option<f64>,
}

impl ProcessFigures {
    /// Returns the figures of processes that used this in `seconds` for `requests` requests.
    pub fn new(used: &ProcessCounts, seconds: f64, requests: u64) -> ProcessFigures {
        let each = |amount: f64| amount / requests.max(1) as f64;
        let each_of = |amount: Option<u64>| amount.map(|amount| each(amount as f64));
        ProcessFigures {
            user_us_per_request: each(used.user * 1e6),
            system_us_per_request: each(used.system * 1e6),
            cores: (used.user + used.system) / seconds.max(1e-9),
            voluntary_switches_per_request: each(used.voluntary_switches as f64),
            involuntary_switches_per_request: each(used.involuntary_switches as f64),
            read_write_calls_per_request: each_of(used.read_write_calls),
            system_calls_per_request: None,
            system_calls_unread: None,
            storage_read_per_request: each_of(used.storage_read),
            storage_written_per_request: each_of(used.storage_written),
        }
    }

    /// Returns user and system CPU time per request, in microseconds.
    pub fn cpu_us(&self) -> f64 {
        self.user_us_per_request + self.system_us_per_request
    }
}

/// Activity of a device per request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DeviceFigures {
    /// Reads.
    pub reads_per_request: f64,
    /// Bytes read.
    pub read_bytes_per_request: f64,
    /// Writes.
    pub writes_per_request: f64,
    /// Bytes written.
    pub written_bytes_per_request: f64,
    /// Bytes written for each byte that the origin sent to be stored or passed on.
    pub written_per_byte_fetched: Option<f64>,
}

impl DeviceFigures {
    /// Returns the figures of a device for `requests` requests and `fetched` bytes from the origin.
    pub fn new(did: &DeviceCounts, requests: u64, fetched: u64) -> DeviceFigures {
        let each = |amount: u64| amount as f64 / requests.max(1) as f64;
        DeviceFigures {
            reads_per_request: each(did.reads),
            read_bytes_per_request: each(did.read_bytes),
            writes_per_request: each(did.writes),
            written_bytes_per_request: each(did.written_bytes),
            written_per_byte_fetched: (fetched > 0)
                .then(|| did.written_bytes as f64 / fetched as f64),
        }
    }
}

/// Cost of the generator, and how well it kept its schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct GeneratorFigures {
    /// CPU time of the client's thread per request, in microseconds; `None` if the kernel does not
    /// report it.
    pub client_us_per_request: Option<f64>,
    /// CPU time of the origin's thread per request that it served, in microseconds.
    pub origin_us_per_answer: Option<f64>,
    /// CPU seconds of the client's thread per second.
    pub client_cores: Option<f64>,
    /// CPU seconds of the origin's thread per second.
    pub origin_cores: Option<f64>,
    /// Share of the time in which a thread of the generator was runnable but had no core.
    pub starved: Option<f64>,
    /// Delay between a request's due time and its dispatch, in milliseconds: the median.
    pub late_p50: f64,
    /// The 99th percentile of the same delay.
    pub late_p99: f64,
    /// Maximum number of connections that were busy at the same time.
    pub connections_busy: usize,
}

/// One second of a phase, for plots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Second {
    /// Seconds since the run began.
    pub at: f64,
    /// Its length in seconds; the last one of a phase may be shorter.
    pub length: f64,
    /// Requests that came due.
    pub offered: u64,
    /// Requests that got a response.
    pub answered: u64,
    /// Hits among these.
    pub hits: u64,
    /// Responses among these that an infinite cache would have had.
    pub repeats: u64,
    /// Body bytes.
    pub bytes: u64,
    /// Body bytes of hits.
    pub hit_bytes: u64,
    /// Failed requests.
    pub errors: u64,
    /// Median time since requests were due, in milliseconds.
    pub p50: f64,
    /// 95th percentile of the same time.
    pub p95: f64,
    /// 99th percentile of the same time.
    pub p99: f64,
}

/// The figures of a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PhaseFigures {
    /// The name.
    pub name: String,
    /// Start in seconds since the run began.
    pub start: f64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Requests that came due.
    pub offered: u64,
    /// Requests that got a response.
    pub answered: u64,
    /// Requests per second that came due.
    pub offered_rate: f64,
    /// Requests per second that got a response.
    pub achieved_rate: f64,
    /// Share of the responses that an infinite cache would have had.
    pub offered_hit_ratio: f64,
    /// Share of the responses that this cache had.
    pub hit_ratio: f64,
    /// Share of the response bytes that an infinite cache would have had.
    pub offered_byte_hit_ratio: f64,
    /// Share of the response bytes that this cache had.
    pub byte_hit_ratio: f64,
    /// Share of the responses for which the origin was asked only to validate.
    pub validated_ratio: f64,
    /// Shares of the responses by where they came from, as far as their fields say.
    pub served_from: BTreeMap<ServedFrom, f64>,
    /// Body bytes per second.
    pub bytes_per_second: f64,
    /// Time from when requests were due to the end of their responses.
    pub response_time: Times,
    /// Time from when requests were sent.
    pub response_time_since_sent: Times,
    /// Time of hits, from when they were sent.
    pub hit_time: Times,
    /// Time of misses, from when they were sent.
    pub miss_time: Times,
    /// Failed requests, by kind.
    pub errors: BTreeMap<String, u64>,
    /// Number of wrong responses.
    pub verification_failures: u64,
    /// Requests that came due and were never sent.
    pub unsent: u64,
    /// Requests that the client or the origin aborted on purpose; they count neither as responses
    /// nor as errors.
    pub aborted: u64,
    /// Requests that were sent once more, because the server had closed the kept connection.
    pub asked_again: u64,
    /// Requests that the origin served.
    pub origin_answers: u64,
    /// Body bytes that the origin sent.
    pub origin_bytes: u64,
    /// The program under test.
    pub process: Option<ProcessFigures>,
    /// Its device.
    pub device: Option<DeviceFigures>,
    /// The generator itself.
    pub generator: GeneratorFigures,
    /// Warnings about these figures.
    pub warnings: Vec<String>,
    /// The figures by second.
    pub by_second: Vec<Second>,
}

impl PhaseFigures {
    /// Returns the figures for the requests of a phase that took `seconds`.
    pub fn new(name: &str, start: f64, seconds: f64, tally: &Tally) -> PhaseFigures {
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let answered = tally.answered();
        let rate = |count: u64| count as f64 / seconds.max(1e-9);
        PhaseFigures {
            name: name.to_owned(),
            start,
            seconds,
            offered: tally.offered,
            answered,
            offered_rate: rate(tally.offered),
            achieved_rate: rate(answered),
            offered_hit_ratio: share(tally.repeats, answered),
            hit_ratio: share(tally.hits, answered),
            offered_byte_hit_ratio: share(tally.repeat_bytes, tally.bytes),
            byte_hit_ratio: share(tally.hit_bytes, tally.bytes),
            validated_ratio: share(tally.validated, answered),
            served_from: tally
                .served_from
                .iter()
                .map(|(from, count)| (*from, share(*count, answered)))
                .collect(),
            bytes_per_second: rate(tally.bytes),
            response_time: Times::from(&tally.corrected),
            response_time_since_sent: Times::from(&tally.uncorrected),
            hit_time: Times::from(&tally.hit_time),
            miss_time: Times::from(&tally.miss_time),
            errors: tally.errors.clone(),
            verification_failures: tally.failures,
            unsent: tally.unsent,
            aborted: tally.aborted,
            asked_again: tally.asked_again,
            ..PhaseFigures::default()
        }
    }

    /// Returns the number of failed requests.
    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Adds warnings if the generator, and not the program under test, was the bottleneck. The
    /// generator may use `cores` cores; `timer` is its wake-up accuracy.
    pub fn warn_of_generator(&mut self, cores: usize, timer: &TimerAccuracy, is_open: bool) {
        let GeneratorFigures { client_cores, origin_cores, late_p99, .. } = self.generator;
        let threads = [("client", client_cores), ("origin", origin_cores)];
        for (name, used) in threads {
            if let Some(used) = used.filter(|used| *used > SATURATED) {
                self.warnings.push(format!(
                    "the generator's {name} was the limit: its thread ran {:.0}% of the time",
                    used * 100.0
                ));
            }
        }
        let both = client_cores.unwrap_or(0.0) + origin_cores.unwrap_or(0.0);
        if cores == 1 && both > SATURATED {
            self.warnings.push(format!(
                "the generator was the limit: client and origin share a core, of which they took \
                 {:.0}%",
                both * 100.0
            ));
        }
        // On one core a thread also waits while the other thread of the generator runs.
        let own = match cores {
            1 => client_cores.unwrap_or(0.0).max(origin_cores.unwrap_or(0.0)),
            _ => 0.0,
        };
        let starved = self.generator.starved.map(|starved| starved - own);
        if let Some(starved) = starved.filter(|starved| *starved > STARVED) {
            self.warnings.push(format!(
                "the generator waited for a core {:.0}% of the time: others used it, and times are \
                 longer than the target's",
                starved * 100.0
            ));
        }
        let most = LATE_MS.max(10.0 * timer.p99_us / 1e3);
        if is_open && late_p99 > most {
            self.warnings.push(format!(
                "the generator fell behind its schedule: one request in a hundred was taken up \
                 {late_p99:.1} ms late or later"
            ));
        }
    }
}

/// Share of a core above which a thread is considered the bottleneck.
const SATURATED: f64 = 0.9;

/// Share of the time that a thread may wait for a core before a warning.
const STARVED: f64 = 0.15;

/// 99th percentile of the dispatch delay, in milliseconds, above which a warning is given.
const LATE_MS: f64 = 5.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Answered, Outcome};

    fn figures() -> PhaseFigures {
        let mut tally = Tally { offered: 12, ..Tally::default() };
        let hit = Answered {
            outcome: Outcome::Hit,
            bytes: 100,
            since_due: 4_000_000,
            since_sent: 2_000_000,
            is_repeat: true,
            served_from: ServedFrom::Memory,
        };
        (0..6).for_each(|_| tally.add(&hit));
        (0..2).for_each(|_| tally.add(&Answered { outcome: Outcome::Miss, ..hit }));
        (0..2).for_each(|_| {
            tally.add(&Answered { outcome: Outcome::Miss, is_repeat: false, bytes: 500, ..hit });
        });
        tally.add_error("reset");
        tally.add_unsent(9_000_000);
        PhaseFigures::new("plateau", 1.0, 2.0, &tally)
    }

    #[test]
    fn ratios_and_rates_are_of_what_was_answered() {
        let found = figures();
        assert_eq!((found.offered_rate, found.achieved_rate), (6.0, 5.0));
        assert_eq!((found.hit_ratio, found.offered_hit_ratio), (0.6, 0.8));
        assert!((found.byte_hit_ratio - 600.0 / 1_800.0).abs() < 1e-9);
        assert_eq!((found.bytes_per_second, found.error_count(), found.unsent), (900.0, 1, 1));
        assert!((found.response_time.p50 - 4.0).abs() < 0.01);
        assert!((found.response_time_since_sent.p50 - 2.0).abs() < 0.01);
        assert_eq!((found.hit_time.count, found.miss_time.count), (6, 4));
    }

    #[test]
    fn who_was_the_limit_is_said() {
        let timer = TimerAccuracy::default();
        let warned = |client: f64, origin: f64, late: f64, cores: usize, open: bool| {
            let mut found = figures();
            found.generator = GeneratorFigures {
                client_cores: Some(client),
                origin_cores: Some(origin),
                late_p99: late,
                ..GeneratorFigures::default()
            };
            found.warn_of_generator(cores, &timer, open);
            found.warnings.len()
        };
        assert_eq!(warned(0.4, 0.3, 1.0, 1, true), 0);
        assert_eq!(warned(0.95, 0.3, 1.0, 2, true), 1);
        assert_eq!(warned(0.5, 0.45, 1.0, 1, false), 1);
        assert_eq!(warned(0.5, 0.45, 1.0, 2, false), 0);
        assert_eq!(warned(0.1, 0.1, 6.0, 2, true), 1);
        assert_eq!(warned(0.1, 0.1, 6.0, 2, false), 0);
        let mut starved = figures();
        starved.generator.starved = Some(0.4);
        starved.warn_of_generator(2, &timer, false);
        assert!(starved.warnings[0].contains("40%"), "{:?}", starved.warnings);
    }
}
