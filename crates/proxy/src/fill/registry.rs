//! Registry of running fills: at most one joinable fill per key, across all workers. It also
//! remembers keys whose responses could recently not be shared, so that their clients do not wait
//! for each other in vain, and keys whose fills have just ended, so that a request that looked up
//! before the end does not begin another fill.

use std::collections::hash_map::{Entry, RandomState};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use semantics::{NotStorable, RequestFacts};
use store::Key;

use crate::fill::state::Fill;
use crate::object::store_lease::Followed;
use crate::options::fill::FillOptions;

const SHARDS: usize = 16;

/// First byte of the names of HEAD fetches and of fills that are not kept. No key begins with it,
/// so the names never equal a key.
const HEADS: u8 = 0xF0;
const UNKEPT: u8 = 0xF1;

/// Number of ended fills that a shard remembers. More end during one lookup only if the disk is
/// slow compared with the origin; a document may then be fetched twice.
const ENDED_MAX: usize = 64;

/// Running fills of all workers, and keys whose responses could not be shared.
pub(crate) struct FillRegistry {
    shards: [Mutex<Shard>; SHARDS],
    /// Randomly seeded, because clients choose the keys.
    hasher: RandomState,
    begun: AtomicU64,
    ended: AtomicU64,
}

/// Number of fills that had begun at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BegunCount(u64);

/// Number of fills that had ended at some moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedCount(u64);

pub(crate) enum JoinResult {
    /// Existing fill of the key.
    Running(Arc<Fill>),
    New(Arc<Fill>),
    /// The key's fill ended after the given moment; the lookup may have missed what it stored.
    Ended,
}

/// Why requests for a key should not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HitForMiss {
    NotStorable,
    /// The response is stored, but was stale on arrival or must be validated for each request.
    NotFresh,
    /// The response was for a client that sent credentials or a cookie. It does not predict
    /// responses to other clients.
    Personal,
    /// The response was for the client's range only.
    Range,
}

impl HitForMiss {
    /// Converts the reason why the response to a request with these facts must not be stored.
    pub fn of(why: NotStorable, request: &RequestFacts) -> HitForMiss {
        match why {
            NotStorable::Authorization | NotStorable::Cookie | NotStorable::Identified => {
                HitForMiss::Personal
            }
            _ if request.is_personal() => HitForMiss::Personal,
            _ => HitForMiss::NotStorable,
        }
    }

    /// Returns whether a request with these facts should not wait for another request's fetch.
    pub fn concerns(self, client: &RequestFacts) -> bool {
        match self {
            HitForMiss::NotStorable | HitForMiss::NotFresh => true,
            HitForMiss::Personal => client.is_personal(),
            HitForMiss::Range => client.has_range,
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
struct HashedKey {
    hash: u64,
    key: Bytes,
}

impl Hash for HashedKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Hasher that returns the hash of a [`HashedKey`] unchanged.
#[derive(Default)]
struct PrecomputedHasher(u64);

impl Hasher for PrecomputedHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

type ByKey<V> = HashMap<HashedKey, V, BuildHasherDefault<PrecomputedHasher>>;

#[derive(Default)]
struct Shard {
    running: ByKey<Arc<Fill>>,
    hit_for_miss: ByKey<(HitForMiss, Instant)>,
    /// The keys of `hit_for_miss`, oldest first.
    order: VecDeque<HashedKey>,
    /// The fills that ended last, oldest first.
    ended: VecDeque<EndedFill>,
}

struct EndedFill {
    key: u64,
    /// Number of the fill among those that have ended.
    number: u64,
    /// Number of the fill among those that have begun, if the stored response came from it.
    renewal: Option<BegunCount>,
}

/// Returns the registry name of a running HEAD fetch for `key`.
pub(crate) fn name_of_head(key: &Key) -> Bytes {
    name(HEADS, key)
}

/// Returns the registry name of the fill of `key` whose response is not kept.
pub(crate) fn name_of_unkept(key: &Key) -> Bytes {
    name(UNKEPT, key)
}

fn name(kind: u8, key: &Key) -> Bytes {
    [&[kind], &key.as_bytes()[..]].concat().into()
}

impl Shard {
    fn begin(&mut self, key: &HashedKey, fill: Fill) -> Arc<Fill> {
        let fill = Arc::new(fill);
        self.running.insert(key.clone(), fill.clone());
        fill
    }

    fn note_ended(&mut self, ended: EndedFill) {
        if self.ended.len() == ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(ended);
    }

    fn has_ended(&self, key: u64, since: EndedCount) -> bool {
        let mut latest = self.ended.iter().rev().take_while(|ended| ended.number > since.0);
        latest.any(|ended| ended.key == key)
    }
}

impl FillRegistry {
    pub fn new() -> FillRegistry {
        FillRegistry {
            shards: Default::default(),
            hasher: RandomState::new(),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        }
    }

    /// Returns the number of fills that have begun. A request that records it on arrival can
    /// recognize fills that began later ([`Fill::began_after`]).
    pub fn begun_count(&self) -> BegunCount {
        BegunCount(self.begun.load(Ordering::Acquire))
    }

    fn numbered(&self, fill: Fill) -> Fill {
        fill.numbered(BegunCount(self.begun.fetch_add(1, Ordering::AcqRel) + 1))
    }

    /// Returns the running fill of `key`, if it may be joined.
    pub fn running(&self, key: &Bytes) -> Option<Arc<Fill>> {
        let (shard, key) = self.shard(key);
        shard.running.get(&key).filter(|fill| fill.joinable()).cloned()
    }

    /// Returns the number of fills that have ended. Read before a lookup, it shows whether a fill
    /// of the key has ended since ([`FillRegistry::join_if`]).
    pub fn ended_count(&self) -> EndedCount {
        EndedCount(self.ended.load(Ordering::Acquire))
    }

    /// Returns the running fill of `key`, or registers the one that `new` makes and returns it with
    /// `true`.
    pub fn join_or_begin(&self, key: &Bytes, new: impl FnOnce() -> Fill) -> (Arc<Fill>, bool) {
        let (mut shard, key) = self.shard(key);
        match shard.running.get(&key).filter(|fill| fill.joinable()) {
            Some(running) => (running.clone(), false),
            None => (shard.begin(&key, self.numbered(new())), true),
        }
    }

    /// Returns the running fill of `key` if it may be joined and `suits` accepts it. Otherwise
    /// registers a new fill; the replaced fill continues unregistered. Returns
    /// [`JoinResult::Ended`] if no fill of the key is running and one has ended after `since`.
    pub fn join_if(
        &self,
        key: &Bytes,
        since: EndedCount,
        suits: impl FnOnce(&Fill) -> bool,
        new: impl FnOnce() -> Fill,
    ) -> JoinResult {
        let (mut shard, key) = self.shard(key);
        match shard.running.get(&key) {
            Some(running) if running.joinable() && suits(running) => {
                JoinResult::Running(running.clone())
            }
            None if shard.has_ended(key.hash, since) => JoinResult::Ended,
            _ => JoinResult::New(shard.begin(&key, self.numbered(new()))),
        }
    }

    /// Registers a running fill under a second key, unless the key has a fill already.
    pub fn alias(&self, key: &Bytes, fill: &Arc<Fill>) {
        let (mut shard, key) = self.shard(key);
        shard.running.entry(key).or_insert_with(|| fill.clone());
    }

    pub fn wake(&self) {
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.running.values().for_each(|fill| fill.wake());
        }
    }

    /// Removes a fill that has ended. Lookups find what it stored from now on.
    pub fn remove(&self, key: &Bytes, fill: &Arc<Fill>) {
        let (mut shard, key) = self.shard(key);
        if let Entry::Occupied(running) = shard.running.entry(key.clone())
            && Arc::ptr_eq(running.get(), fill)
        {
            running.remove();
        }
        let number = self.ended.fetch_add(1, Ordering::AcqRel) + 1;
        shard.note_ended(EndedFill { key: key.hash, number, renewal: fill.renewal() });
    }

    /// Returns whether the response found by a lookup of `key` is known to come from a fill that
    /// began after `begun` was read. `since` was read before the lookup: a fill that ended later
    /// may have stored another response than the one found.
    pub fn is_renewed_after(&self, key: &Bytes, begun: BegunCount, since: EndedCount) -> bool {
        let (shard, key) = self.shard(key);
        let renews = |ended: &EndedFill| {
            ended.number <= since.0 && ended.renewal.is_some_and(|number| number > begun)
        };
        shard.ended.iter().any(|ended| ended.key == key.hash && renews(ended))
    }

    /// Remembers that the response for `key` could not be shared. The options bound the time and
    /// the number of keys.
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
        let (mut shard, key) = self.shard(key);
        if why == HitForMiss::Personal
            && shard.hit_for_miss.get(&key).is_some_and(|(_, until)| *until > now)
        {
            return;
        }
        let until = now + for_time;
        if shard.hit_for_miss.insert(key.clone(), (why, until)).is_none() {
            shard.order.push_back(key);
        }
        while shard.order.len() > (keys_max / SHARDS).max(1) {
            if let Some(oldest) = shard.order.pop_front() {
                shard.hit_for_miss.remove(&oldest);
            }
        }
    }

    /// Forgets that the response for `key` could not be shared.
    pub fn clear_hit_for_miss(&self, key: &Bytes) {
        let (mut shard, key) = self.shard(key);
        shard.hit_for_miss.remove(&key);
    }

    /// Returns why the response for `key` could recently not be shared; `None` if it could, or if
    /// that is unknown.
    pub fn hit_for_miss(&self, key: &Bytes, now: Instant) -> Option<HitForMiss> {
        let (shard, key) = self.shard(key);
        let (why, until) = shard.hit_for_miss.get(&key)?;
        (*until > now).then_some(*why)
    }

    /// Locks the shard of a key. The hash bits that choose the shard are not those that choose the
    /// place in its tables.
    fn shard(&self, key: &Bytes) -> (MutexGuard<'_, Shard>, HashedKey) {
        let hash = self.hasher.hash_one(key);
        let shard = &self.shards[(hash >> 32) as usize % SHARDS];
        let key = HashedKey { hash, key: key.clone() };
        (shard.lock().unwrap_or_else(PoisonError::into_inner), key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_looked_up_before_sees_the_end_of_a_fill() {
        let (mut shard, [a, b]) = (Shard::default(), [1, 2]);
        let ended = |shard: &Shard, key, since| shard.has_ended(key, EndedCount(since));
        let note = |shard: &mut Shard, key, number| {
            shard.note_ended(EndedFill { key, number, renewal: None });
        };
        note(&mut shard, a, 5);
        note(&mut shard, b, 7);
        assert!(ended(&shard, a, 4) && ended(&shard, b, 4) && ended(&shard, b, 6));
        assert!(!ended(&shard, a, 5) && !ended(&shard, b, 7) && !ended(&shard, 3, 0));
        // Only the latest ended fills are remembered.
        (8..8 + ENDED_MAX as u64 - 1).for_each(|number| note(&mut shard, 3, number));
        assert!(!ended(&shard, a, 4) && ended(&shard, b, 4) && ended(&shard, 3, 0));
    }
}
