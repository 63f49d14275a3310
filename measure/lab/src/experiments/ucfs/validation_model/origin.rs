//! The versions that origins have at each time, derived from the requests of a trace, and how long
//! a cache takes each as fresh.
//!
//! A trace shows a change only at the next request for the object. The time of the change between
//! the two requests is drawn here once, from the object's number alone. So every run over a trace
//! sees the same origins, whatever requests it sends.

use std::collections::HashMap;

use workload::contents::mix;
use workload::request::Request;

/// Time in microseconds.
pub type Micros = u64;

/// One millisecond as [`Micros`].
pub const MILLI: Micros = 1_000;
/// One second.
pub const SECOND: Micros = 1_000 * MILLI;
/// One day.
pub const DAY: Micros = 86_400 * SECOND;

/// How long responses of an origin are fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetimes {
    /// The origin states no lifetime: a tenth of the time since the last modification, at most a
    /// day (`caching.heuristic-percent` and `-max`).
    Guessed,
    /// The origin states this lifetime for everything.
    Said(Micros),
}

/// An origin's version of an object at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Number of the version, from 0.
    pub number: u32,
    /// Time since its last modification.
    pub age: Micros,
}

/// The origins of a trace.
pub struct Origins {
    /// Times of changes by object, in order; objects that never change are absent.
    changes: HashMap<u32, Vec<Micros>>,
    /// Divisor of all times: the trace is shorter than its original by this factor.
    divisor: u64,
}

impl Origins {
    /// Returns the origins behind `requests`, of a trace whose time is divided by `divisor`.
    pub fn of(requests: impl Iterator<Item = Request>, divisor: u32) -> Origins {
        let mut last: HashMap<u32, (Micros, u32)> = HashMap::new();
        let mut changes: HashMap<u32, Vec<Micros>> = HashMap::new();
        for request in requests {
            let now = request.time_ms * MILLI;
            let before = last.insert(request.object, (now, request.version));
            if let Some((then, version)) = before.filter(|(_, version)| *version < request.version)
            {
                let drawn = mix(u64::from(request.object) << 32 | u64::from(version));
                let at = then + drawn % (now - then).max(1);
                changes.entry(request.object).or_default().push(at);
            }
        }
        Origins { changes, divisor: u64::from(divisor.max(1)) }
    }

    /// Returns the origin's version of `object` at `now`.
    pub fn at(&self, object: u32, now: Micros) -> Version {
        let changes = self.changes.get(&object).map_or(&[][..], Vec::as_slice);
        let number = changes.partition_point(|at| *at <= now);
        let age = match number.checked_sub(1) {
            Some(last) => now - changes[last],
            None => now + self.first_age(object),
        };
        Version { number: number as u32, age }
    }

    /// Returns the freshness lifetime of a version of this age.
    pub fn lifetime(&self, lifetimes: Lifetimes, age: Micros) -> Micros {
        match lifetimes {
            Lifetimes::Guessed => (age / 10).min(DAY / self.divisor),
            Lifetimes::Said(lifetime) => lifetime / self.divisor,
        }
    }

    /// Returns the age of an object at the start of the trace: from 1 to 256 days, each doubling
    /// equally likely.
    fn first_age(&self, object: u32) -> Micros {
        let drawn = mix(u64::from(object) ^ 0x00a6_e500_0000_0000);
        let least = DAY << (drawn % 8);
        (least + (drawn >> 8) % least) / self.divisor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(time_ms: u64, object: u32, version: u32) -> Request {
        Request { time_ms, object, version, ..Request::default() }
    }

    #[test]
    fn a_change_lies_between_the_two_requests_that_tell_of_it() {
        let requests =
            [request(10, 1, 0), request(20, 2, 0), request(1_000, 1, 1), request(2_000, 1, 1)];
        let origins = Origins::of(requests.into_iter(), 1);
        let number = |ms| origins.at(1, ms * MILLI).number;
        assert_eq!((number(10), number(1_000), number(9_000)), (0, 1, 1));
        let changed = (10..1_000).find(|ms| number(*ms) == 1).unwrap();
        assert!(origins.at(1, changed * MILLI).age < MILLI);
        assert_eq!(origins.at(1, 9_000 * MILLI).age / MILLI, 9_000 - changed);
        assert_eq!(origins.at(2, 9_000 * MILLI).number, 0);
    }

    #[test]
    fn lifetimes_are_a_tenth_of_the_age_and_a_day_at_most_or_what_is_said() {
        let origins = Origins::of(std::iter::empty(), 4);
        assert_eq!(origins.lifetime(Lifetimes::Guessed, 100), 10);
        assert_eq!(origins.lifetime(Lifetimes::Guessed, 100 * DAY), DAY / 4);
        assert_eq!(origins.lifetime(Lifetimes::Said(SECOND), 0), SECOND / 4);
        let ages: Vec<u64> = (0..1_000).map(|object| origins.at(object, 0).age).collect();
        let (young, old) = (ages.iter().min().unwrap(), ages.iter().max().unwrap());
        assert!((DAY / 4..DAY / 3).contains(young), "{young}");
        assert!((240 * DAY / 4..=256 * DAY / 4).contains(old), "{old}");
    }
}
