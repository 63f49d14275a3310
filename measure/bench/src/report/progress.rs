//! Progress output during a run: a line that is redrawn on a terminal, otherwise a new line every
//! ten seconds.

use std::io::{self, IsTerminal, Write};

use super::number::{bytes, count, rate, share, time};
use crate::measure::Second;

/// Seconds between lines if they are not redrawn.
const EVERY: f64 = 10.0;

/// The progress output.
pub struct Progress {
    is_terminal: bool,
    is_quiet: bool,
    last: f64,
    drawn: bool,
}

/// The progress at one moment.
pub struct Moment<'a> {
    /// The phase.
    pub phase: &'a str,
    /// Seconds since the phase began.
    pub seconds: f64,
    /// The completed share of the phase, if known.
    pub share: Option<f64>,
    /// The last second.
    pub second: &'a Second,
    /// Number of busy connections.
    pub busy: usize,
    /// Number of requests that wait for a connection.
    pub waiting: usize,
    /// Wrong responses so far.
    pub failures: u64,
}

impl Progress {
    /// Creates an output to standard error, unless it is to be quiet.
    pub fn new(is_quiet: bool) -> Progress {
        let is_terminal = io::stderr().is_terminal();
        Progress { is_terminal, is_quiet, last: f64::NEG_INFINITY, drawn: false }
    }

    /// Prints a line that stays.
    pub fn say(&mut self, text: &str) {
        if !self.is_quiet {
            self.clear();
            let _ = writeln!(io::stderr(), "{text}");
            self.last = f64::NEG_INFINITY;
        }
    }

    /// Shows the progress.
    pub fn show(&mut self, moment: &Moment) {
        if self.is_quiet {
            return;
        }
        let line = line(moment);
        if self.is_terminal {
            let _ = write!(io::stderr(), "\r\x1b[K{line}");
            self.drawn = true;
        } else if moment.seconds < self.last || moment.seconds - self.last >= EVERY {
            self.last = moment.seconds;
            let _ = writeln!(io::stderr(), "{line}");
        }
    }

    /// Removes the progress line.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(moment: &Moment) -> String {
    let Moment { phase, seconds, second, busy, waiting, failures, .. } = moment;
    let of = moment.share.map_or_else(String::new, |part| format!(" ({:.0}%)", part * 100.0));
    let length = second.length.max(1e-9);
    let hits = second.hits as f64 / second.answered.max(1) as f64;
    let mut line = format!(
        "{phase} {seconds:.0} s{of}: {} req/s, hits {}, {}/s, 50% {} 99% {}, {busy} busy",
        rate(second.answered as f64 / length),
        share(hits),
        bytes(second.bytes as f64 / length),
        time(second.p50),
        time(second.p99),
    );
    if *waiting > 0 {
        line.push_str(&format!(", {} wait", count(*waiting as u64)));
    }
    if second.errors > 0 {
        line.push_str(&format!(", {} errors", count(second.errors)));
    }
    if *failures > 0 {
        line.push_str(&format!(", {} WRONG", count(*failures)));
    }
    line
}

#[test]
fn a_line_says_what_counts() {
    let second = Second { length: 1.0, answered: 2_000, hits: 500, p99: 3.0, ..Second::default() };
    let moment = Moment {
        phase: "plateau",
        seconds: 5.0,
        share: Some(0.25),
        second: &second,
        busy: 7,
        waiting: 0,
        failures: 1,
    };
    let found = line(&moment);
    let expected = "plateau 5 s (25%): 2,000 req/s, hits 25.0%, 0 B/s, 50% 0 µs 99% 3.00 ms, \
                    7 busy, 1 WRONG";
    assert_eq!(found, expected);
}
