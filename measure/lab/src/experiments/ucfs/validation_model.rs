//! The gain of validating neighbours (systems C14): a cache whose responses become stale, requests
//! of a trace, and origins that change, with and without validations of neighbours after a
//! validation.
//!
//! It models the product's `validate-neighbours` without bytes or a device. Each validation takes
//! one round trip. Those of neighbours run one after another, for one validation of a site at a
//! time. A request for a neighbour before its turn validates it at once; a request during its
//! validation waits for the end of that.

pub(crate) mod cache_model;
mod origin;

use std::collections::HashMap;

pub use cache_model::Neighbourhood;
use cache_model::{CacheModel, CachedObject, Planned, Sizes};
pub use origin::{Lifetimes, MILLI, Micros, Origins, SECOND};

use workload::generator::calibration::Caches;
use workload::request::Request;

/// A cache and its validation policy.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Bytes of memory and disk.
    pub caches: Caches,
    /// Cluster size in bytes.
    pub cluster: u64,
    /// How long responses are fresh.
    pub lifetimes: Lifetimes,
    /// Which objects are neighbours.
    pub beside: Neighbourhood,
    /// Maximum number of neighbours validated after one validation.
    pub most: u32,
    /// Time from a request to an origin to its response.
    pub round_trip: Micros,
}

/// The results of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Number of cacheable requests.
    pub requests: u64,
    /// Number of requests for objects that were not stored.
    pub misses: u64,
    /// Validations that a client waited for: of unchanged and of changed objects.
    pub waited: [u64; 2],
    /// Number of requests that waited for the rest of a running validation.
    pub joined: u64,
    /// Total time that clients waited for validations.
    pub waiting: Micros,
    /// Validations that no client waited for: of unchanged and of changed objects.
    pub behind: [u64; 2],
    /// Number of those whose object was requested while it was fresh because of them.
    pub used: u64,
    /// Number of those whose object was not in memory.
    pub read: u64,
    /// Number of reads of the surroundings of a validated object.
    pub around: u64,
    /// Number of responses from the cache that differed from the origin's version at that time.
    pub outdated: u64,
}

impl Figures {
    /// Returns the number of validations that clients waited for.
    pub fn validations(&self) -> u64 {
        self.waited.iter().sum()
    }

    /// Returns the number of requests to origins.
    pub fn origin_requests(&self) -> u64 {
        self.misses + self.validations() + self.behind.iter().sum::<u64>()
    }
}

/// Runs `requests` through a cache.
pub fn run(model: &Model, origins: &Origins, requests: impl Iterator<Item = Request>) -> Figures {
    let Model { caches, cluster, .. } = *model;
    let sizes = Sizes { memory: caches.memory, disk: caches.disk, cluster };
    let cache_model = CacheModel::new(sizes);
    let mut cache = Cache {
        model,
        origins,
        cache_model,
        attended: HashMap::new(),
        figures: Figures::default(),
    };
    let mut now = 0;
    for request in requests {
        now = now.max(request.time_ms * MILLI);
        cache.request(&request, now);
    }
    let planned: Vec<Planned> = cache.cache_model.iter().filter_map(|held| held.planned).collect();
    cache.figures.behind[0] += planned.iter().filter(|planned| planned.start <= now).count() as u64;
    cache.figures
}

struct Cache<'a> {
    model: &'a Model,
    origins: &'a Origins,
    cache_model: CacheModel,
    /// Until when neighbours of a site are being validated.
    attended: HashMap<u32, Micros>,
    figures: Figures,
}

impl Cache<'_> {
    fn request(&mut self, request: &Request, now: Micros) {
        if !self.cache_model.takes(request) {
            return;
        }
        self.figures.requests += 1;
        let object = request.object;
        self.settle(object, now);
        let current = self.origins.at(object, now).number;
        let Some(held) = self.cache_model.get_mut(object) else {
            self.figures.misses += 1;
            let gone = self.cache_model.insert(request, current);
            self.give_up(&gone, now);
            self.received(object, now);
            self.cache_model.touch(object);
            return;
        };
        let unasked = std::mem::take(&mut held.unasked);
        if held.is_fresh(now) {
            self.figures.used += u64::from(unasked);
            self.figures.outdated += u64::from(held.version != current);
            self.cache_model.touch(object);
            return;
        }
        let in_memory = self.cache_model.touch(object);
        self.figures.waiting += self.model.round_trip;
        if self.model.beside == Neighbourhood::Around && self.model.most > 0 && !in_memory {
            self.figures.around += 1;
            self.cache_model.bring(object);
        }
        let near = match self.model.most {
            0 => Vec::new(),
            _ => self.cache_model.beside(object, self.model.beside),
        };
        let changed = self.validate(object, now);
        self.figures.waited[usize::from(changed)] += 1;
        self.plan(request.site, &near, now);
    }

    /// Validates the stored version at the origin at `now`; returns true if it has changed.
    fn validate(&mut self, object: u32, now: Micros) -> bool {
        let Some(held) = self.cache_model.get(object) else { return false };
        let current = self.origins.at(object, now).number;
        let changed = held.version != current;
        if changed {
            let gone = self.cache_model.rewrite(object, current);
            self.give_up(&gone, now);
        }
        self.received(object, now);
        changed
    }

    fn received(&mut self, object: u32, now: Micros) {
        let age = self.origins.at(object, now).age;
        let lifetime = self.origins.lifetime(self.model.lifetimes, age);
        if let Some(held) = self.cache_model.get_mut(object) {
            (held.received, held.lifetime) = (now, lifetime);
        }
    }

    /// Plans the validations of neighbours after one that begins at `now`.
    fn plan(&mut self, site: u32, near: &[u32], now: Micros) {
        if near.is_empty() || self.attended.get(&site).is_some_and(|until| *until > now) {
            return;
        }
        let (trip, mut left) = (self.model.round_trip, self.model.most);
        let mut start = now + trip;
        for object in near {
            let Some(held) = self.cache_model.get_mut(*object) else { continue };
            let wanted =
                held.planned.is_none() && !held.unasked && !held.is_fresh(now) && held.lifetime > 0;
            if left == 0 {
                break;
            }
            if wanted {
                held.planned = Some(Planned { start, done: start + trip });
                (start, left) = (start + trip, left - 1);
            }
        }
        self.attended.insert(site, start);
    }

    /// Handles a client's request for the object: a planned validation has completed, is running,
    /// or has not begun and is no longer needed.
    fn settle(&mut self, object: u32, now: Micros) {
        let Some(held) = self.cache_model.get_mut(object) else { return };
        let Some(Planned { start, done }) = held.planned.take() else { return };
        if start > now {
            return;
        }
        self.figures.read += u64::from(!held.is_in_memory());
        let changed = self.validate(object, start);
        self.figures.behind[usize::from(changed)] += 1;
        if let Some(held) = self.cache_model.get_mut(object) {
            held.unasked = true;
        }
        if done > now {
            self.figures.joined += 1;
            self.figures.waiting += done - now;
        }
    }

    /// Counts the validations of evicted objects that had already begun; they were useless.
    fn give_up(&mut self, gone: &[CachedObject], now: Micros) {
        let begun = gone.iter().filter_map(|held| held.planned).filter(|at| at.start <= now);
        self.figures.behind[0] += begun.count() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: Model = Model {
        caches: Caches { memory: 1 << 20, disk: 1 << 30, largest: u64::MAX },
        cluster: 1 << 20,
        lifetimes: Lifetimes::Said(60 * SECOND),
        beside: Neighbourhood::Memory,
        most: 2,
        round_trip: 100 * MILLI,
    };

    /// Runs requests (milliseconds, object) for objects of one site and directory.
    fn figures(model: &Model, asked: &[(u64, u32)]) -> Figures {
        let requests = asked.iter().map(|(time_ms, object)| Request {
            time_ms: *time_ms,
            object: *object,
            size: 100,
            ..Request::default()
        });
        run(model, &Origins::of(requests.clone(), 1), requests)
    }

    #[test]
    fn a_validation_brings_those_of_its_neighbours_one_after_another() {
        // Three objects. More than a minute later the first is requested, then the others: after
        // their validations, during one, and before one.
        let begin = [(0, 0), (1, 1), (2, 2)];
        let with = |second: u64, third: u64| {
            let asked = [&begin[..], &[(70_000, 0), (second, 1), (third, 2)]].concat();
            figures(&MODEL, &asked)
        };
        let all = with(71_000, 71_001);
        assert_eq!((all.misses, all.validations(), all.behind, all.used), (3, 1, [2, 0], 2));
        assert_eq!((all.joined, all.waiting, all.origin_requests()), (0, 100 * MILLI, 6));
        // Object 1 is validated from 70.1 to 70.2 s, object 2 until 70.3 s.
        let some = with(70_150, 70_199);
        assert_eq!((some.validations(), some.behind, some.joined), (2, [1, 0], 1));
        assert_eq!(some.waiting, (100 + 50 + 100) * MILLI);
        let none =
            figures(&Model { most: 0, ..MODEL }, &[(0, 0), (1, 1), (70_000, 0), (71_000, 1)]);
        assert_eq!((none.validations(), none.behind, none.used), (2, [0, 0], 0));
    }

    #[test]
    fn who_is_never_asked_for_is_asked_about_once() {
        let asked = [(0, 0), (1, 1), (70_000, 0), (140_000, 0), (210_000, 0)];
        let figures = figures(&MODEL, &asked);
        // It is settled at the end only, so it counts once, as planned.
        assert_eq!((figures.validations(), figures.behind, figures.used), (3, [1, 0], 0));
    }

    #[test]
    fn a_version_that_the_origin_has_no_longer_is_counted_and_replaced() {
        let asked = [(0, 0, 0), (10_000, 0, 0), (20_000, 0, 1), (70_000, 0, 1), (70_001, 0, 1)];
        let requests = asked.iter().map(|(time_ms, object, version)| Request {
            time_ms: *time_ms,
            object: *object,
            version: *version,
            size: 100,
            ..Request::default()
        });
        let figures = run(&MODEL, &Origins::of(requests.clone(), 1), requests);
        assert_eq!((figures.misses, figures.outdated, figures.waited), (1, 1, [0, 1]));
    }
}
