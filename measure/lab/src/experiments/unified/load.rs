//! The load: PolyMix-3 as a test of a whole proxy, from an empty cache to the end of the second
//! plateau.
//!
//! First the cache is filled: responses of twice its size are stored, with few hits. Then come
//! ramps and two plateaus of four hours; here they are one plateau with the same number of
//! requests. Requests come at a constant mean rate with Poisson arrivals, like those of many
//! robots. A robot has at most four requests in flight. A request for a fresh response gets one,
//! which replaces the stored one.
//!
//! The divisor shortens the test and shrinks the working set; the rate is unchanged.

use std::collections::HashMap;

use device::Nanos;

use workload::generator::distributions::SplitMix;
use workload::generator::polymix::{PolyMix, PolyMixRequests};
use workload::request::Request;

/// Seconds at the full rate that are equivalent to the ramps (half an hour each, from a tenth to
/// the full rate), two plateaus of four hours, and the idle half hour (a tenth) between them.
const SECONDS: f64 = 3_600.0 * (2.0 * 4.0 + 5.0 * 0.5 * 0.55 + 0.5 * 0.1);

/// Bytes stored before the measurement, as a multiple of the cache size.
pub(super) const FILLS: u64 = 2;

/// Share of repeated requests that is kept during the fill: it makes repetition 5/55 as probable as
/// usual.
const REPEATS_WHEN_FILLING: f64 = 0.026_9;

/// Share of requests that must not be served from a cache.
const RELOADS: f64 = 0.05;

/// Requests per second of a robot, and its maximum of requests in flight.
const ROBOT: (f64, f64) = (0.4, 4.0);

/// Mean and standard deviation of the server's delay, in seconds (section 5.3).
const DELAY: (f64, f64) = (2.5, 1.0);

#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    pub(super) request: Request,
    /// Nanoseconds since the previous request.
    pub(super) gap: Nanos,
    /// Nanoseconds that the server takes, if it is asked.
    pub(super) delay: Nanos,
}

pub(super) struct Load {
    rate: u32,
    divisor: u32,
    requests: PolyMixRequests,
    dice: SplitMix,
    reloads: HashMap<u32, u32>,
    /// For each object, by number: true if it was requested before.
    seen: Vec<bool>,
}

impl Load {
    /// Creates the load at `rate` requests per second, with all sizes divided by `divisor`.
    pub(super) fn new(rate: u32, divisor: u32, seed: u64) -> Load {
        let full = PolyMix::ALL[0];
        let set = full.working_set_per_peak * rate / divisor;
        // Its clock follows the number of requests, as at full size; the rate must be an integer.
        let peak = (rate / divisor).max(1);
        let scaled = PolyMix { peak, working_set_per_peak: set / peak, ..full };
        Load {
            rate,
            divisor,
            requests: PolyMixRequests::new(scaled, seed),
            dice: SplitMix::of(seed, 1),
            reloads: HashMap::new(),
            seen: Vec::new(),
        }
    }

    /// Returns the number of requests of the plateau, divided by `part`.
    pub(super) fn plateau_len(&self, part: u32) -> u64 {
        let all = SECONDS * f64::from(self.rate) / f64::from(self.divisor);
        (all / f64::from(part)) as u64
    }

    /// Returns the maximum number of requests in flight.
    pub(super) fn under_way(&self) -> usize {
        (f64::from(self.rate) / ROBOT.0 * ROBOT.1) as usize
    }

    /// Returns requests that store this many bytes.
    pub(super) fn fill(&mut self, bytes: u64) -> Vec<Request> {
        let mut fill = Vec::new();
        let mut stored = 0;
        while stored < bytes {
            let Some(request) = self.requests.next() else { break };
            let new = self.see(request.object);
            if !new && !self.dice.chance(REPEATS_WHEN_FILLING) {
                continue;
            }
            if new && !request.uncacheable {
                stored += request.size;
            }
            fill.push(self.afresh(request));
        }
        fill
    }

    /// Returns the next request of the plateau.
    pub(super) fn next(&mut self) -> Option<Timed> {
        let request = self.requests.next()?;
        self.see(request.object);
        let request = self.afresh(request);
        let gap = self.dice.exponential() * 1e9 / f64::from(self.rate);
        let delay = (DELAY.0 + DELAY.1 * self.dice.normal()).max(0.0) * 1e9;
        Some(Timed { request, gap: gap as Nanos, delay: delay as Nanos })
    }

    /// Records a request for the object; returns whether it is the first.
    fn see(&mut self, object: u32) -> bool {
        let at = object as usize;
        if at >= self.seen.len() {
            self.seen.resize(at + 1, false);
        }
        !std::mem::replace(&mut self.seen[at], true)
    }

    /// Turns some requests into reloads: requests for a version that no cache has.
    fn afresh(&mut self, request: Request) -> Request {
        if self.dice.chance(RELOADS) {
            *self.reloads.entry(request.object).or_default() += 1;
        }
        let reloads = self.reloads.get(&request.object).copied().unwrap_or(0);
        Request { version: request.version + reloads, ..request }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_test_is_as_long_as_polymix_says_and_offers_its_hits() {
        let (rate, divisor) = (100, 64);
        let mut load = Load::new(rate, divisor, 7);
        let fill = load.fill(FILLS * (10 << 30) / u64::from(divisor));
        // 20 GB of responses, of which 75% are stored, 11 KB each: 2.6 million.
        let filling = fill.len() as f64 * f64::from(divisor);
        assert!((2.2e6..3.0e6).contains(&filling), "{filling}");
        let mut known: HashSet<(u32, u32)> = HashSet::new();
        let mut hits = |request: &Request| {
            !request.uncacheable && !known.insert((request.object, request.version))
        };
        let hits_filling = fill.iter().filter(|request| hits(request)).count() as f64;
        let share = hits_filling / fill.len() as f64;
        assert!((0.03..0.08).contains(&share), "{share}");
        let len = load.plateau_len(1);
        assert_eq!(len, (33_930.0 * 100.0 / 64.0) as u64);
        let (mut found, mut time, mut delay) = (0, 0, 0);
        for _ in 0..len {
            let timed = load.next().unwrap();
            found += u64::from(hits(&timed.request));
            time += timed.gap;
            delay += timed.delay;
        }
        let share = found as f64 / len as f64;
        assert!((0.50..0.60).contains(&share), "{share}");
        let [rate, delay] = [time, delay].map(|sum| sum as f64 / 1e9 / len as f64);
        assert!((0.009_8..0.010_2).contains(&rate), "{rate}");
        assert!((2.48..2.52).contains(&delay), "{delay}");
    }

    #[test]
    fn equal_seeds_give_equal_loads() {
        let load = |seed| {
            let mut load = Load::new(50, 128, seed);
            let fill = load.fill(1 << 20);
            (fill, (0..1_000).map_while(|_| load.next()).map(|timed| timed.gap).sum::<u64>())
        };
        assert_eq!(load(3), load(3));
        assert_ne!(load(3), load(4));
    }
}
