//! What validating neighbours saves (systems C14): a cache in which answers become stale, requests
//! of a trace, and origins that change, with and without validations behind a validation.
//!
//! It is a model of the product's `validate-neighbours`, not the product: no bytes, no device. Each
//! question to an origin takes one round trip; those behind a validation go one after another, for
//! one validation of a site at a time. Whoever asks for a neighbour before its turn has it
//! validated for himself; whoever asks while its question is under way waits for that one's end.

pub(crate) mod cache_model;
mod origin;

use std::collections::HashMap;

pub use cache_model::Neighbourhood;
use cache_model::{CacheModel, CachedObject, Planned, Sizes};
pub use origin::{Lifetimes, MILLI, Micros, Origins, SECOND};

use workload::generator::calibration::Caches;
use workload::request::Request;

/// A cache and its way with validations.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Bytes of memory and disk.
    pub caches: Caches,
    /// Bytes of a cluster.
    pub cluster: u64,
    /// How long answers are fresh.
    pub lifetimes: Lifetimes,
    /// Who is a neighbour.
    pub beside: Neighbourhood,
    /// How many are validated behind one validation, at most.
    pub most: u32,
    /// From a question to its answer.
    pub round_trip: Micros,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Requests that the cache may answer.
    pub requests: u64,
    /// Those for what is not there.
    pub misses: u64,
    /// Validations that a client waited for, of what was still good and what was not.
    pub waited: [u64; 2],
    /// Requests that waited for the rest of a validation that was under way.
    pub joined: u64,
    /// All that clients waited for validations.
    pub waiting: Micros,
    /// Validations that no client waited for, of what was still good and what was not.
    pub behind: [u64; 2],
    /// Of them, whose object was asked for while it was fresh by them.
    pub used: u64,
    /// Of them, whose object was not in memory.
    pub read: u64,
    /// Reads of what lies around something that was validated.
    pub around: u64,
    /// Answers from the cache that were not what the origin had by then.
    pub outdated: u64,
}

impl Figures {
    /// Validations that clients waited for.
    pub fn validations(&self) -> u64 {
        self.waited.iter().sum()
    }

    /// Requests that origins got.
    pub fn origin_requests(&self) -> u64 {
        self.misses + self.validations() + self.behind.iter().sum::<u64>()
    }
}

/// Lets `requests` come to such a cache.
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
    /// Until when a site's neighbours are being validated.
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

    /// The origin is asked at `now` about what is held; true when it has something else.
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

    /// Plans the validations behind one that begins at `now`.
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

    /// A client asks for the object: what was planned for it has happened, is under way, or has not
    /// begun and is not needed any more.
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

    /// What was planned for what is given up, and has begun, was in vain.
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

    /// At so many milliseconds for an object of one site and directory.
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
        // Three objects; a minute and more later the first, then the others: after their questions'
        // turn, in the middle of it, and before.
        let begin = [(0, 0), (1, 1), (2, 2)];
        let with = |second: u64, third: u64| {
            let asked = [&begin[..], &[(70_000, 0), (second, 1), (third, 2)]].concat();
            figures(&MODEL, &asked)
        };
        let all = with(71_000, 71_001);
        assert_eq!((all.misses, all.validations(), all.behind, all.used), (3, 1, [2, 0], 2));
        assert_eq!((all.joined, all.waiting, all.origin_requests()), (0, 100 * MILLI, 6));
        // 1 is asked about from 70.1 to 70.2 s, 2 until 70.3 s.
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
        // It is settled at the end only, so that it counts as planned, once.
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
