//! The fills that run, by key: at most one for each, over all workers. Beside them the keys whose
//! answers could lately not be shared, so that their clients do not wait for each other in vain.

use std::collections::hash_map::{Entry, RandomState};
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use semantics::{NotStorable, RequestFacts};
use store::Key;

use crate::fill::state::Fill;
use crate::object::store_lease::Followed;
use crate::options::fill::FillOptions;

const SHARDS: usize = 16;

/// The running fills of all workers, and the keys whose answers could not be shared.
pub(crate) struct FillRegistry {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
}

/// The reason why requests for a key should not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HitForMiss {
    /// The answer was not for the cache.
    NotStorable,
    /// It is stored, but was stale already when it was asked for, or must be validated for each
    /// request.
    NotFresh,
    /// It was for a client with credentials; this says nothing of answers to others.
    Credentials,
    /// It was about the range that its client asked for.
    Range,
}

impl HitForMiss {
    /// Returns the reason for an answer that must not be stored.
    pub fn of(why: NotStorable) -> HitForMiss {
        match why {
            NotStorable::Authorization => HitForMiss::Credentials,
            _ => HitForMiss::NotStorable,
        }
    }

    /// Returns whether a request with these facts should not wait for another one's fetch.
    pub fn concerns(self, client: &RequestFacts) -> bool {
        match self {
            HitForMiss::NotStorable | HitForMiss::NotFresh => true,
            HitForMiss::Credentials => client.authorized,
            HitForMiss::Range => client.has_range,
        }
    }
}

#[derive(Default)]
struct Shard {
    running: HashMap<Bytes, Arc<Fill>>,
    hit_for_miss: HashMap<Bytes, (HitForMiss, Instant)>,
    /// The same keys, oldest first.
    order: VecDeque<Bytes>,
}

impl FillRegistry {
    pub fn new() -> FillRegistry {
        FillRegistry { shards: Default::default(), hasher: RandomState::new() }
    }

    /// Returns the running fill of `key` that may be joined, if there is one.
    pub fn running(&self, key: &Bytes) -> Option<Arc<Fill>> {
        self.shard(key).running.get(key).filter(|fill| fill.joinable()).cloned()
    }

    /// Returns the running fill of `key`, or the one that `new` makes (then `true`).
    pub fn join_or_begin(&self, key: &Bytes, new: impl FnOnce() -> Fill) -> (Arc<Fill>, bool) {
        self.join_if(key, |_| true, new)
    }

    /// Does as [`FillRegistry::join_or_begin`], but joins only a fill that `suits`; the new one
    /// takes the place of another, which is no longer found, though it runs on.
    pub fn join_if(
        &self,
        key: &Bytes,
        suits: impl FnOnce(&Fill) -> bool,
        new: impl FnOnce() -> Fill,
    ) -> (Arc<Fill>, bool) {
        match self.shard(key).running.entry(key.clone()) {
            Entry::Occupied(mut old) => {
                if old.get().joinable() && suits(old.get()) {
                    return (old.get().clone(), false);
                }
                let fill = Arc::new(new());
                old.insert(fill.clone());
                (fill, true)
            }
            Entry::Vacant(place) => (place.insert(Arc::new(new())).clone(), true),
        }
    }

    /// Makes a running fill known under a further key, unless another runs under it.
    pub fn alias(&self, key: &Bytes, fill: &Arc<Fill>) {
        self.shard(key).running.entry(key.clone()).or_insert_with(|| fill.clone());
    }

    /// Wakes the tasks of all fills.
    pub fn wake(&self) {
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.running.values().for_each(|fill| fill.wake());
        }
    }

    /// Forgets a fill.
    pub fn remove(&self, key: &Bytes, fill: &Arc<Fill>) {
        let mut shard = self.shard(key);
        if shard.running.get(key).is_some_and(|running| Arc::ptr_eq(running, fill)) {
            shard.running.remove(key);
        }
    }

    /// Remembers that the answer for `key` could not be shared, for as long and of as many keys as
    /// the options say.
    pub fn remember(&self, key: &Key, why: HitForMiss, options: &FillOptions, now: Instant) {
        self.set_hit_for_miss(
            key.as_bytes(),
            why,
            options.unshareable_for,
            options.unshareable_keys,
            now,
        );
    }

    fn set_hit_for_miss(
        &self,
        key: &Bytes,
        why: HitForMiss,
        for_time: Duration,
        keys_max: usize,
        now: Instant,
    ) {
        let mut shard = self.shard(key);
        if why == HitForMiss::Credentials
            && shard.hit_for_miss.get(key).is_some_and(|(_, until)| *until > now)
        {
            return;
        }
        let until = now + for_time;
        if shard.hit_for_miss.insert(key.clone(), (why, until)).is_none() {
            shard.order.push_back(key.clone());
        }
        while shard.order.len() > (keys_max / SHARDS).max(1) {
            if let Some(oldest) = shard.order.pop_front() {
                shard.hit_for_miss.remove(&oldest);
            }
        }
    }

    /// Forgets that the answer for `key` could not be shared.
    pub fn clear_hit_for_miss(&self, key: &Bytes) {
        self.shard(key).hit_for_miss.remove(key);
    }

    /// Returns why the answer for `key` could lately not be shared; `None` when it could, or when
    /// this is not known.
    pub fn hit_for_miss(&self, key: &Bytes, now: Instant) -> Option<HitForMiss> {
        let shard = self.shard(key);
        let (why, until) = shard.hit_for_miss.get(key)?;
        (*until > now).then_some(*why)
    }

    fn shard(&self, key: &Bytes) -> MutexGuard<'_, Shard> {
        let index = self.hasher.hash_one(key) as usize % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
