//! Eviction policies: the choice of the object to evict when room is needed.
//!
//! A policy knows objects by an [`Id`]: a small number that the caller's record table assigns and
//! reuses, so that a policy is a few columns indexed by it and no table of its own. The engine (one
//! id per record of a slot layout) and the lab (one id per object of a trace) use the same code. A
//! policy never evicts by itself: it names a [`Policy::victim`], and the caller reports the
//! outcome, [`Policy::evict`] or [`Policy::remove`].
//!
//! It promises: no clock, no randomness (equal calls give equal answers), no call waits or
//! allocates more than amortised growth of its columns, every id that was inserted and neither
//! evicted nor removed is named as a victim sooner or later, unless it is spared.

mod admission;
mod cache;
mod gdsf;
mod ghosts;
mod heap;
mod lfu_aging;
mod links;
mod name;
mod queue;
mod s3_fifo;
mod sketch;
mod w_tinylfu;

pub use admission::{Admission, AdmissionName, UnknownAdmission};
pub use cache::{PolicyCache, Unit};
pub use gdsf::Gdsf;
pub use lfu_aging::LfuAging;
pub use name::{PolicyName, UnknownPolicy};
pub use queue::{Clock, Fifo, Lru, MarkedQueue, Queue, Sieve};
pub use s3_fifo::S3Fifo;
pub use w_tinylfu::WTinyLfu;

/// Number of an object while it is in the cache. Dense: columns are as long as the largest one.
pub type Id = u32;

/// The largest number that may be an [`Id`].
pub const ID_MAX: Id = u32::MAX - 2;

/// The facts of an object that enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Names the object beyond its stay: policies that remember what they evicted, or how often
    /// something was asked for, do so under this hash. Uniform in all its bits; equal for equal
    /// keys.
    pub hash: u64,
    /// Its share of [`Parameters::capacity`], in the same unit, below 2^56.
    pub size: u64,
}

/// The cost of being without an object, in the formula of [`Gdsf`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// The same for all: the most hits.
    One,
    /// The square root of its size: between the most hits and the most bytes of hits.
    Root,
    /// Two packets and one more for each 536 units of its size: the least traffic.
    Packets,
}

/// Parameters of policies: the capacity, and those of the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Room for objects, in any unit ([`Entry::size`] is in the same): bytes, slots, objects.
    /// Policies that divide the cache take shares of it. The caller keeps to it, not the policy.
    pub capacity: u64,
    /// `s3-fifo`: percent of the capacity for the small queue, 0 to 100, 10 by default.
    pub small_percent: u8,
    /// `s3-fifo`: how often something must be asked for in the small queue to go on into the main
    /// one, 1 to 3, 2 by default.
    pub small_threshold: u8,
    /// `lfu-aging`: all counts are halved when their mean is above this, 1 to 65,535, 10 by
    /// default.
    pub aging_mean: u16,
    /// `gdsf`: what it costs to be without an object, [`Cost::One`] by default.
    pub cost: Cost,
    /// `w-tinylfu`: percent of the capacity for the window, 0 to 100, 1 by default.
    pub window_percent: u8,
    /// `w-tinylfu`: percent of the main part that may be protected, 0 to 100, 80 by default.
    pub protected_percent: u8,
}

impl Parameters {
    /// Returns the papers' parameters for a cache of this size.
    pub fn new(capacity: u64) -> Parameters {
        Parameters {
            capacity,
            small_percent: 10,
            small_threshold: 2,
            aging_mean: 10,
            cost: Cost::One,
            window_percent: 1,
            protected_percent: 80,
        }
    }
}

/// Returns so many percent of `whole`, rounded down; all of it for more than 100.
fn percent(whole: u64, percent: u8) -> u64 {
    (u128::from(whole) * u128::from(percent.min(100)) / 100) as u64
}

impl Cost {
    #[inline]
    fn of(self, size: u64) -> f64 {
        match self {
            Cost::One => 1.0,
            Cost::Root => (size as f64).sqrt(),
            Cost::Packets => 2.0 + size as f64 / 536.0,
        }
    }
}

/// Chooses what to give up. See the module.
pub trait Policy {
    /// Inserts an object; panics when another one uses `id`.
    fn insert(&mut self, id: Id, entry: Entry);

    /// Returns whether an object of this size should enter at all: policies with a small part that
    /// all objects pass through do not take one that is larger. It may be inserted all the same.
    fn takes(&self, size: u64) -> bool {
        let _ = size;
        true
    }

    /// Returns whether the object is among those that the policy may name.
    fn contains(&self, id: Id) -> bool;

    /// Notes that the object was asked for again. Nothing happens for an id that is not in use.
    fn touch(&mut self, id: Id);

    /// Returns the object to evict next, `None` when only objects are left for which `spared`
    /// returns true (those that readers pin). The object stays, and must be evicted with
    /// [`Policy::evict`] before the next call for it to be another one; but calls may change later
    /// answers (a hand moves, a second chance is used up).
    fn victim(&mut self, spared: impl Fn(Id) -> bool) -> Option<Id>;

    /// Returns an object that the policy would evict though there may be room, because its part of
    /// the cache is full. [`Policy::victim`] names it first, unless it is spared: a caller need not
    /// call this.
    fn surplus(&self) -> Option<Id> {
        None
    }

    /// Notes that the object was evicted for room: its id is free, and policies with a memory
    /// remember it.
    fn evict(&mut self, id: Id);

    /// Notes that the object is gone for another reason (removed, superseded): its id is free, and
    /// nothing is remembered.
    fn remove(&mut self, id: Id);

    /// Returns the number of objects in it.
    fn len(&self) -> usize;

    /// Returns whether it has no objects.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of memory of all columns, ghosts and sketches.
    fn memory_bytes(&self) -> usize;
}

/// A policy chosen at run time, without a virtual call.
pub enum AnyPolicy {
    /// See [`Lru`].
    Lru(Lru),
    /// See [`Fifo`].
    Fifo(Fifo),
    /// See [`Clock`].
    Clock(Clock),
    /// See [`Sieve`].
    Sieve(Sieve),
    /// See [`S3Fifo`].
    S3Fifo(S3Fifo),
    /// See [`LfuAging`].
    LfuAging(LfuAging),
    /// See [`Gdsf`].
    Gdsf(Gdsf),
    /// See [`WTinyLfu`].
    WTinyLfu(WTinyLfu),
}

/// Calls a method of whichever policy it is.
macro_rules! either {
    ($any:expr, $policy:ident => $call:expr) => {
        match $any {
            AnyPolicy::Lru($policy) => $call,
            AnyPolicy::Fifo($policy) => $call,
            AnyPolicy::Clock($policy) => $call,
            AnyPolicy::Sieve($policy) => $call,
            AnyPolicy::S3Fifo($policy) => $call,
            AnyPolicy::LfuAging($policy) => $call,
            AnyPolicy::Gdsf($policy) => $call,
            AnyPolicy::WTinyLfu($policy) => $call,
        }
    };
}

impl AnyPolicy {
    /// Returns the policy of this name, empty.
    pub fn new(name: PolicyName, parameters: &Parameters) -> AnyPolicy {
        match name {
            PolicyName::Lru => AnyPolicy::Lru(Lru::new()),
            PolicyName::Fifo => AnyPolicy::Fifo(Fifo::new()),
            PolicyName::Clock => AnyPolicy::Clock(Clock::new()),
            PolicyName::Sieve => AnyPolicy::Sieve(Sieve::new()),
            PolicyName::S3Fifo => AnyPolicy::S3Fifo(S3Fifo::new(parameters)),
            PolicyName::LfuAging => AnyPolicy::LfuAging(LfuAging::new(parameters)),
            PolicyName::Gdsf => AnyPolicy::Gdsf(Gdsf::new(parameters)),
            PolicyName::WTinyLfu => AnyPolicy::WTinyLfu(WTinyLfu::new(parameters)),
        }
    }
}

impl Policy for AnyPolicy {
    fn insert(&mut self, id: Id, entry: Entry) {
        either!(self, policy => policy.insert(id, entry));
    }

    fn takes(&self, size: u64) -> bool {
        either!(self, policy => policy.takes(size))
    }

    fn contains(&self, id: Id) -> bool {
        either!(self, policy => policy.contains(id))
    }

    fn touch(&mut self, id: Id) {
        either!(self, policy => policy.touch(id));
    }

    fn victim(&mut self, spared: impl Fn(Id) -> bool) -> Option<Id> {
        either!(self, policy => policy.victim(spared))
    }

    fn surplus(&self) -> Option<Id> {
        either!(self, policy => policy.surplus())
    }

    fn evict(&mut self, id: Id) {
        either!(self, policy => policy.evict(id));
    }

    fn remove(&mut self, id: Id) {
        either!(self, policy => policy.remove(id));
    }

    fn len(&self) -> usize {
        either!(self, policy => policy.len())
    }

    fn memory_bytes(&self) -> usize {
        either!(self, policy => policy.memory_bytes())
    }
}

#[cfg(test)]
mod tests;
