//! Log of server failures for operators: one line per failed attempt, whatever the outcome of the
//! request.
//!
//! A server that is down fails every request, and clients of a forward proxy can name any server.
//! The number of lines per window is therefore limited, for each server and phase and in total.
//! Failures beyond that are counted, and the counts are logged when the window is over. Guarantees:
//! every failure is in a line or in a count, and memory use is bounded.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Phase in which an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Resolve,
    Connect,
    Tls,
    Send,
    /// While waiting for the response head, after the whole request was sent.
    Head,
    /// The response head arrived but cannot be used.
    Answer,
    Body,
    Idle,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Resolve => "resolving its name",
            Phase::Connect => "connecting",
            Phase::Tls => "TLS handshake",
            Phase::Send => "sending the request",
            Phase::Head => "waiting for the response head",
            Phase::Answer => "response",
            Phase::Body => "response body",
            Phase::Idle => "between requests",
        })
    }
}

const WINDOW: Duration = Duration::from_secs(10);
/// Maximum number of lines per server and phase in a window.
const LINES_EACH: u32 = 3;
/// Maximum number of lines in a window.
const LINES_ALL: u32 = 100;
/// Maximum number of pairs of server and phase that are distinguished in a window.
const KEYS_MAX: usize = 256;

/// Failures of all workers.
#[derive(Default)]
pub struct FailureLog(Mutex<Window>);

#[derive(Default)]
struct Window {
    began: Option<Instant>,
    lines: u32,
    counts: HashMap<(String, Phase), Count>,
    /// Failures of servers beyond [`KEYS_MAX`] that were not logged.
    others: u64,
}

#[derive(Default)]
struct Count {
    lines: u32,
    left_out: u64,
    last: String,
}

impl FailureLog {
    pub(crate) fn note(&self, server: &dyn fmt::Display, phase: Phase, cause: &str, now: Instant) {
        let lines = {
            let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let mut lines = window.turn(now);
            lines.extend(window.note(server.to_string(), phase, cause));
            lines
        };
        write(&lines);
    }

    /// Logs the counts of a window that is over. Must be called periodically.
    pub fn tick(&self, now: Instant) {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner).turn(now);
        write(&lines);
    }
}

impl Drop for FailureLog {
    fn drop(&mut self) {
        write(&self.0.get_mut().unwrap_or_else(PoisonError::into_inner).end());
    }
}

fn write(lines: &[String]) {
    for line in lines {
        log::warn!("{line}");
    }
}

impl Window {
    /// Returns the line for a failure, or counts the failure if there were too many lines.
    fn note(&mut self, server: String, phase: Phase, cause: &str) -> Option<String> {
        let cause = plain(cause);
        let line = format!("upstream {server} failed: {phase}: {cause}");
        let key = (server, phase);
        if self.counts.len() >= KEYS_MAX && !self.counts.contains_key(&key) {
            self.others += 1;
            return None;
        }
        let count = self.counts.entry(key).or_default();
        if count.lines < LINES_EACH && self.lines < LINES_ALL {
            count.lines += 1;
            self.lines += 1;
            return Some(line);
        }
        count.left_out += 1;
        count.last = cause;
        None
    }

    /// Ends the window if it is over and begins another. Returns lines about the failures that were
    /// only counted.
    fn turn(&mut self, now: Instant) -> Vec<String> {
        match self.began {
            Some(began) if now.duration_since(began) < WINDOW => Vec::new(),
            Some(_) => {
                let lines = self.end();
                self.began = Some(now);
                lines
            }
            None => {
                self.began = Some(now);
                Vec::new()
            }
        }
    }

    fn end(&mut self) -> Vec<String> {
        let Window { counts, others, .. } = std::mem::take(self);
        let mut all: Vec<_> = counts.into_iter().filter(|(_, count)| count.left_out > 0).collect();
        // The largest counts get lines of their own; the rest is summed up.
        all.sort_by_key(|(_, count)| std::cmp::Reverse(count.left_out));
        let rest = all.split_off(all.len().min(LINES_ALL as usize / 4));
        let line = |((server, phase), count): ((String, Phase), Count)| {
            let Count { left_out, last, .. } = count;
            format!("upstream {server} failed: {phase}: {left_out} more times, last: {last}")
        };
        let mut lines: Vec<_> = all.into_iter().map(line).collect();
        let others = others + rest.iter().map(|(_, count)| count.left_out).sum::<u64>();
        if others > 0 {
            lines.push(format!("upstreams failed: {others} more times, several servers"));
        }
        lines
    }
}

/// Returns a text as at most 300 characters on one line, so that text from a server cannot begin
/// another log line.
fn plain(text: &str) -> String {
    let plain = |c: char| if c.is_control() { '?' } else { c };
    text.chars().take(300).map(plain).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use net::clock::TokioClock;

    #[test]
    fn every_failure_is_in_a_line_or_in_a_count() {
        let (mut window, start) = (Window::default(), TokioClock::system().instant());
        assert!(window.turn(start).is_empty());
        let mut noted = |n: u32| {
            let lines = (0..n).filter_map(|i| {
                window.note("a:1".to_owned(), Phase::Connect, &format!("refused {i}\nx"))
            });
            lines.collect::<Vec<_>>()
        };
        let lines = noted(10);
        assert_eq!(lines.len(), LINES_EACH as usize);
        assert_eq!(lines[0], "upstream a:1 failed: connecting: refused 0?x");
        // Another phase has its own lines.
        assert!(window.note("a:1".to_owned(), Phase::Body, "x").is_some());
        assert!(window.turn(start + WINDOW / 2).is_empty());
        let left_out = window.turn(start + WINDOW);
        assert_eq!(left_out, ["upstream a:1 failed: connecting: 7 more times, last: refused 9?x"]);
        assert!(window.end().is_empty());
    }

    #[test]
    fn lines_about_invented_servers_are_bounded() {
        let mut window = Window::default();
        let mut lines = 0;
        for n in 0..10_000 {
            lines += usize::from(window.note(format!("s{n}:80"), Phase::Resolve, "x").is_some());
        }
        assert_eq!((lines, window.counts.len()), (LINES_ALL as usize, KEYS_MAX));
        let left_out = window.end();
        assert!(left_out.len() <= LINES_ALL as usize / 4 + 1, "{left_out:?}");
        let number = |line: &String| {
            let words: Vec<_> = line.split(' ').collect();
            let at = words.iter().position(|word| *word == "more").unwrap();
            words[at - 1].parse::<usize>().unwrap()
        };
        assert_eq!(lines + left_out.iter().map(number).sum::<usize>(), 10_000);
    }
}
