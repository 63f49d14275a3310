//! The fills that run, by key: at most one for each, over all workers. Beside them the keys whose
//! answers could lately not be shared, so that their clients do not wait for each other in vain,
//! and the keys whose fills have just ended, so that nobody who looked before that begins another.

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

/// The first bytes of the names of fills that are known apart from those of their keys: no key
/// begins with them.
const HEADS: u8 = 0xF0;
const UNKEPT: u8 = 0xF1;

/// Fills whose end a shard remembers. More end during one look-up only on a disk that is slow
/// beside the origin; then a document may be fetched twice.
const ENDED_MAX: usize = 64;

/// The running fills of all workers, and the keys whose answers could not be shared.
pub(crate) struct FillRegistry {
    shards: [Mutex<Shard>; SHARDS],
    /// Of keys, which strangers choose.
    hasher: RandomState,
    /// Fills that have begun.
    begun: AtomicU64,
    /// Fills that have ended.
    ended: AtomicU64,
}

/// How many fills had begun at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BegunSoFar(u64);

/// How many fills had ended at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedSoFar(u64);

/// What comes of a request for a fill.
pub(crate) enum Joining {
    /// The running fill of the key.
    Running(Arc<Fill>),
    /// A new one.
    Begun(Arc<Fill>),
    /// The key's fill ended after the moment that was named: what it stored was not seen.
    Ended,
}

/// The reason why requests for a key should not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HitForMiss {
    /// The answer was not for the cache.
    NotStorable,
    /// It is stored, but was stale already when it was asked for, or must be validated for each
    /// request.
    NotFresh,
    /// It was for a client that sent credentials or a cookie, which says nothing of answers to
    /// others.
    Personal,
    /// It was about the range that its client asked for.
    Range,
}

impl HitForMiss {
    /// Returns the reason for an answer to a request with these facts that must not be stored.
    pub fn of(why: NotStorable, request: &RequestFacts) -> HitForMiss {
        match why {
            NotStorable::Authorization | NotStorable::Cookie | NotStorable::Identified => {
                HitForMiss::Personal
            }
            _ if request.is_personal() => HitForMiss::Personal,
            _ => HitForMiss::NotStorable,
        }
    }

    /// Returns whether a request with these facts should not wait for another one's fetch.
    pub fn concerns(self, client: &RequestFacts) -> bool {
        match self {
            HitForMiss::NotStorable | HitForMiss::NotFresh => true,
            HitForMiss::Personal => client.is_personal(),
            HitForMiss::Range => client.has_range,
        }
    }
}

/// A key with its hash, which is made once for all that is asked about it.
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

/// Takes the hash of a [`HashedKey`] as it is.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
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

type ByKey<V> = HashMap<HashedKey, V, BuildHasherDefault<AsItIs>>;

#[derive(Default)]
struct Shard {
    running: ByKey<Arc<Fill>>,
    hit_for_miss: ByKey<(HitForMiss, Instant)>,
    /// The same keys, oldest first.
    order: VecDeque<HashedKey>,
    /// The fills that ended last, oldest first.
    ended: VecDeque<EndedFill>,
}

/// A fill that has ended.
struct EndedFill {
    /// The hash of its key.
    key: u64,
    /// Its number among those that have ended.
    number: u64,
    /// Its number among those that have begun, if what is stored is from it.
    renewal: Option<BegunSoFar>,
}

/// Returns the name of the HEAD that is under way for `key`.
pub(crate) fn name_of_head(key: &Key) -> Bytes {
    name(HEADS, key)
}

/// Returns the name of the fill of `key` of which nothing is kept.
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

    fn has_ended(&self, key: u64, since: EndedSoFar) -> bool {
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

    /// Returns how many fills have begun. A request that notes it when it comes can tell the fills
    /// that began later ([`Fill::began_after`]).
    pub fn begun_so_far(&self) -> BegunSoFar {
        BegunSoFar(self.begun.load(Ordering::Acquire))
    }

    fn numbered(&self, fill: Fill) -> Fill {
        fill.numbered(BegunSoFar(self.begun.fetch_add(1, Ordering::AcqRel) + 1))
    }

    /// Returns the running fill of `key` that may be joined, if there is one.
    pub fn running(&self, key: &Bytes) -> Option<Arc<Fill>> {
        let (shard, key) = self.shard(key);
        shard.running.get(&key).filter(|fill| fill.joinable()).cloned()
    }

    /// Returns how many fills have ended. Asked before a look-up, it tells whether what the look-up
    /// did not find has come since ([`FillRegistry::join_if`]).
    pub fn ended_so_far(&self) -> EndedSoFar {
        EndedSoFar(self.ended.load(Ordering::Acquire))
    }

    /// Returns the running fill of `key`, or the one that `new` makes (then `true`).
    pub fn join_or_begin(&self, key: &Bytes, new: impl FnOnce() -> Fill) -> (Arc<Fill>, bool) {
        let (mut shard, key) = self.shard(key);
        match shard.running.get(&key).filter(|fill| fill.joinable()) {
            Some(running) => (running.clone(), false),
            None => (shard.begin(&key, self.numbered(new())), true),
        }
    }

    /// Returns the running fill of `key` if it `suits`. Else a new one takes its place, which is no
    /// longer found, though it runs on; unless a fill of this key has ended `since`.
    pub fn join_if(
        &self,
        key: &Bytes,
        since: EndedSoFar,
        suits: impl FnOnce(&Fill) -> bool,
        new: impl FnOnce() -> Fill,
    ) -> Joining {
        let (mut shard, key) = self.shard(key);
        match shard.running.get(&key) {
            Some(running) if running.joinable() && suits(running) => {
                Joining::Running(running.clone())
            }
            None if shard.has_ended(key.hash, since) => Joining::Ended,
            _ => Joining::Begun(shard.begin(&key, self.numbered(new()))),
        }
    }

    /// Makes a running fill known under a further key, unless another runs under it.
    pub fn alias(&self, key: &Bytes, fill: &Arc<Fill>) {
        let (mut shard, key) = self.shard(key);
        shard.running.entry(key).or_insert_with(|| fill.clone());
    }

    /// Wakes the tasks of all fills.
    pub fn wake(&self) {
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.running.values().for_each(|fill| fill.wake());
        }
    }

    /// Forgets a fill that has ended: what it stored is found from now on.
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

    /// Returns whether what is stored under `key` is known to be from a fill that began after so
    /// many had begun.
    pub fn is_renewed_after(&self, key: &Bytes, begun: BegunSoFar) -> bool {
        let (shard, key) = self.shard(key);
        let renews = |ended: &EndedFill| ended.renewal.is_some_and(|number| number > begun);
        shard.ended.iter().any(|ended| ended.key == key.hash && renews(ended))
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

    /// Forgets that the answer for `key` could not be shared.
    pub fn clear_hit_for_miss(&self, key: &Bytes) {
        let (mut shard, key) = self.shard(key);
        shard.hit_for_miss.remove(&key);
    }

    /// Returns why the answer for `key` could lately not be shared; `None` when it could, or when
    /// this is not known.
    pub fn hit_for_miss(&self, key: &Bytes, now: Instant) -> Option<HitForMiss> {
        let (shard, key) = self.shard(key);
        let (why, until) = shard.hit_for_miss.get(&key)?;
        (*until > now).then_some(*why)
    }

    /// Locks the shard of a key. The bits that choose it are not those by which its tables do.
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
    fn the_end_of_a_fill_is_seen_by_those_who_looked_before() {
        let (mut shard, [a, b]) = (Shard::default(), [1, 2]);
        let ended = |shard: &Shard, key, since| shard.has_ended(key, EndedSoFar(since));
        let note = |shard: &mut Shard, key, number| {
            shard.note_ended(EndedFill { key, number, renewal: None });
        };
        note(&mut shard, a, 5);
        note(&mut shard, b, 7);
        assert!(ended(&shard, a, 4) && ended(&shard, b, 4) && ended(&shard, b, 6));
        assert!(!ended(&shard, a, 5) && !ended(&shard, b, 7) && !ended(&shard, 3, 0));
        // Only the latest are known.
        (8..8 + ENDED_MAX as u64 - 1).for_each(|number| note(&mut shard, 3, number));
        assert!(!ended(&shard, a, 4) && ended(&shard, b, 4) && ended(&shard, 3, 0));
    }
}
