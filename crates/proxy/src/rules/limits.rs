//! Limits of a rule: requests a second, requests at the same time, and bytes a second, each counted
//! by a key such as the client's address.
//!
//! A limit counts on its own, and its state belongs to the process: all workers share it, and a
//! reload keeps it if the rule states the same.
//!
//! The rate is a leaky bucket (GCRA), kept as one time for each key. Crates for this decide yes or
//! no at once; a queue and bandwidth need a reservation with the time at which it is due.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hashbrown::HashMap;
use http::StatusCode;
use http::header::HeaderName;

use crate::rules::limits::open_counts::OpenCounts;
use crate::rules::limits::rate_table::{RateTable, Reservation};

pub(crate) mod open_counts;
mod rate_table;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// Largest time in nanoseconds that a state reaches into the future: a year. Bounds sums.
const FUTURE_MAX: u64 = 365 * 24 * 3600 * SECOND;

/// A limit of one rule, with its counters.
#[derive(Clone, Debug, Default)]
pub struct Limit {
    /// The terms that it enforces.
    pub terms: LimitTerms,
    /// Shared with the limits of the same name, and with the limit that a reload replaces.
    state: Arc<OnceLock<Arc<LimitState>>>,
}

/// Terms of a limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimitTerms {
    /// Name of the rule.
    pub rule: String,
    /// Name that limits share which count together.
    pub name: Option<String>,
    /// The key that requests are counted by.
    pub by: LimitKey,
    /// Requests in a time.
    pub rate: Option<Rate>,
    /// Requests beyond the rate that are accepted before others are refused.
    pub burst: u32,
    /// Those of the burst that wait until the rate permits them; the others do not wait.
    pub queue: u32,
    /// Requests at the same time.
    pub concurrent: Option<u32>,
    /// Bytes of response bodies a second.
    pub bandwidth: Option<u64>,
    /// Bytes of each response that do not count for the bandwidth.
    pub bandwidth_after: u64,
    /// Status of refusals.
    pub status: StatusCode,
    /// Counts requests over the limit, but does not refuse, delay or slow them.
    pub is_dry_run: bool,
}

/// Key of a limit: requests with the same value share its counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LimitKey {
    /// The client's address; of IPv6 the /64 network.
    #[default]
    Client,
    /// The site.
    Site,
    /// All requests of the rule together.
    Rule,
    /// Each response by itself. Only for the bandwidth.
    Request,
    /// The value of a request field. A request without it is counted by its client.
    Header(HeaderName),
}

/// A number of requests in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Nanoseconds for one request.
    period: u64,
}

/// Value of a [`LimitKey`] in a request.
#[derive(Hash)]
pub(crate) enum KeyValue<'a> {
    Client(IpAddr),
    Site(Option<&'a str>),
    Rule,
    Header(Vec<&'a [u8]>),
}

/// Counters of a limit.
#[derive(Debug)]
pub(crate) struct LimitState {
    /// Keyed at random, so that clients cannot choose colliding keys.
    hasher: RandomState,
    rates: OnceLock<RateTable>,
    bandwidth: OnceLock<RateTable>,
    pub open: OpenCounts,
    /// Second of the last message about a dry run, plus one.
    logged: AtomicU64,
}

impl Limit {
    /// Creates a limit whose counters are at zero.
    pub fn new(terms: LimitTerms) -> Limit {
        Limit { terms, state: Arc::default() }
    }

    /// Returns the limit with the counters of another one of its name, if one is known, so that
    /// both count together. Otherwise it becomes known.
    pub(crate) fn shared(&self, known: &mut HashMap<String, Limit>) -> Limit {
        let Some(name) = &self.terms.name else { return self.clone() };
        // What is counted by another key counts apart.
        let name = format!("{:?} {name}", self.terms.by);
        let first = known.entry(name).or_insert_with(|| self.clone());
        Limit { terms: self.terms.clone(), state: first.state.clone() }
    }

    /// Continues to count in the counters of a limit that states the same.
    pub(crate) fn adopt<'a>(&self, mut before: impl Iterator<Item = &'a Arc<Limit>>) {
        if let Some(same) = before.find(|limit| limit.terms == self.terms) {
            // Fails if a request was counted already, which a reload precedes.
            drop(self.state.set(same.state().clone()));
        }
    }

    pub(crate) fn state(&self) -> &Arc<LimitState> {
        self.state.get_or_init(|| Arc::new(LimitState::new()))
    }

    /// Counts a request at `now`, as nanoseconds of the process's clock. Returns how long it waits.
    ///
    /// # Errors
    ///
    /// How long to wait before the next request.
    pub(crate) fn take(&self, key: u64, now: u64) -> Result<Duration, Duration> {
        let LimitTerms { rate: Some(rate), burst, queue, .. } = self.terms else {
            return Ok(Duration::ZERO);
        };
        let time_of = |count: u32| rate.period.saturating_mul(count.into()).min(FUTURE_MAX);
        let undelayed = time_of(burst.saturating_sub(queue));
        let asked = Reservation { cost: rate.period, tolerance: time_of(burst) };
        let due = self.rates().reserve(key, now, asked).map_err(Duration::from_nanos)?;
        Ok(Duration::from_nanos(due.saturating_sub(undelayed)))
    }

    /// Takes back a request that [`Limit::take`] counted.
    pub(crate) fn give_back(&self, key: u64) {
        if let Some(rate) = self.terms.rate {
            self.rates().give_back(key, rate.period);
        }
    }

    fn rates(&self) -> &RateTable {
        self.state().rates.get_or_init(|| self.table())
    }

    fn table(&self) -> RateTable {
        if self.terms.by == LimitKey::Rule { RateTable::small() } else { RateTable::large() }
    }

    /// Reserves bandwidth for some bytes. Returns the time until they may be sent.
    pub(crate) fn reserve_bytes(&self, key: u64, now: u64, bytes: u64) -> Duration {
        let Some(cost) = self.time_of(bytes) else { return Duration::ZERO };
        let table = self.state().bandwidth.get_or_init(|| self.table());
        let reserved = table.reserve(key, now, Reservation { cost, tolerance: FUTURE_MAX });
        Duration::from_nanos(reserved.unwrap_or_else(|excess| FUTURE_MAX + excess))
    }

    /// Returns the nanoseconds in which some bytes may be sent; `None` without a limit.
    pub(crate) fn time_of(&self, bytes: u64) -> Option<u64> {
        let nanos =
            u128::from(bytes) * u128::from(SECOND) / u128::from(self.terms.bandwidth?.max(1));
        Some(u64::try_from(nanos).unwrap_or(FUTURE_MAX).min(FUTURE_MAX))
    }

    /// Returns whether a message about a dry run is due: at most one in a second.
    pub(crate) fn may_log(&self, now: u64) -> bool {
        let second = now / SECOND + 1;
        self.state().logged.swap(second, Relaxed) != second
    }
}

impl LimitState {
    fn new() -> LimitState {
        LimitState {
            hasher: RandomState::new(),
            rates: OnceLock::new(),
            bandwidth: OnceLock::new(),
            open: OpenCounts::default(),
            logged: AtomicU64::new(0),
        }
    }

    /// Returns the number that stands for a key. Two keys have the same only by chance.
    pub fn number_of(&self, key: &KeyValue<'_>) -> u64 {
        // 0 marks an empty place.
        self.hasher.hash_one(key).max(1)
    }
}

impl Rate {
    /// Returns the time between two requests at this rate.
    pub fn period(self) -> Duration {
        Duration::from_nanos(self.period)
    }
}

impl FromStr for Rate {
    type Err = String;

    /// Parses `10/s`, `30/m` or `100/h`.
    fn from_str(text: &str) -> Result<Rate, String> {
        let wrong = || format!("expected requests in a time such as 10/s or 30/m, got {text:?}");
        let (count, unit) = text.split_once('/').ok_or_else(wrong)?;
        let unit = match unit.trim() {
            "s" => SECOND,
            "m" => 60 * SECOND,
            "h" => 3600 * SECOND,
            _ => return Err(wrong()),
        };
        let count: u64 = count.trim().parse().map_err(|_| wrong())?;
        match count {
            1..=1_000_000 => Ok(Rate { period: unit / count }),
            _ => Err(wrong()),
        }
    }
}

impl FromStr for LimitKey {
    type Err = String;

    /// Parses `client`, `site`, `rule`, `request` or `header.NAME`.
    fn from_str(text: &str) -> Result<LimitKey, String> {
        match (text, text.strip_prefix("header.")) {
            ("client", _) => Ok(LimitKey::Client),
            ("site", _) => Ok(LimitKey::Site),
            ("rule", _) => Ok(LimitKey::Rule),
            ("request", _) => Ok(LimitKey::Request),
            (_, Some(name)) if let Ok(name) = name.parse() => Ok(LimitKey::Header(name)),
            _ => Err(format!(
                "expected \"client\", \"site\", \"rule\", \"request\" or \"header.NAME\", got \
                 {text:?}"
            )),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn limit(rate: &str, burst: u32, queue: u32) -> Limit {
        let rate = Some(rate.parse().unwrap());
        Limit::new(LimitTerms { rate, burst, queue, ..LimitTerms::default() })
    }

    #[test]
    fn requests_beyond_the_burst_are_refused_until_the_rate_permits_them() {
        let limit = limit("10/s", 2, 0);
        let start = 1000 * MS;
        for _ in 0..3 {
            assert_eq!(limit.take(1, start), Ok(Duration::ZERO));
        }
        assert_eq!(limit.take(1, start), Err(Duration::from_millis(100)));
        assert_eq!(limit.take(2, start), Ok(Duration::ZERO));
        assert_eq!(limit.take(1, start + 100 * MS), Ok(Duration::ZERO));
        assert_eq!(limit.take(1, start + 150 * MS), Err(Duration::from_millis(50)));
        limit.give_back(1);
        assert_eq!(limit.take(1, start + 150 * MS), Ok(Duration::ZERO));
    }

    #[test]
    fn the_queue_waits_for_its_turn() {
        let limit = limit("10/s", 3, 2);
        let waits: Vec<_> = (0..5).map(|_| limit.take(1, 0)).collect();
        let ms = Duration::from_millis;
        assert_eq!(waits, [Ok(ms(0)), Ok(ms(0)), Ok(ms(100)), Ok(ms(200)), Err(ms(100))]);
    }

    #[test]
    fn counters_survive_a_reload_that_states_the_same() {
        let before = [Arc::new(limit("1/m", 0, 0))];
        assert!(before[0].take(1, 0).is_ok());
        let (same, other) = (limit("1/m", 0, 0), limit("2/m", 0, 0));
        same.adopt(before.iter());
        other.adopt(before.iter());
        assert!(same.take(1, 0).is_err());
        assert!(other.take(1, 0).is_ok());
    }

    #[test]
    fn bandwidth_is_reserved_in_turn() {
        let limit = Limit::new(LimitTerms { bandwidth: Some(1000), ..LimitTerms::default() });
        let waits: Vec<_> = (0..3).map(|_| limit.reserve_bytes(1, 0, 500).as_millis()).collect();
        assert_eq!(waits, [0, 500, 1000]);
        assert_eq!(limit.reserve_bytes(2, 0, u64::MAX).as_millis(), 0);
        assert_eq!(limit.reserve_bytes(2, 0, u64::MAX), Duration::from_nanos(FUTURE_MAX));
    }

    #[test]
    fn rates_and_keys_are_parsed() {
        assert_eq!("10/s".parse::<Rate>().unwrap().period(), Duration::from_millis(100));
        assert_eq!("30/m".parse::<Rate>().unwrap().period(), Duration::from_secs(2));
        for wrong in ["10", "0/s", "10/d", "x/s", "-1/s", "2000000/s", ""] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
        let key = LimitKey::Header(HeaderName::from_static("x-api-key"));
        assert_eq!("header.X-API-Key".parse(), Ok(key));
        assert!("header.".parse::<LimitKey>().is_err() && "ip".parse::<LimitKey>().is_err());
    }
}
