//! Eviction policies: they choose the object to evict when space is needed.
//!
//! A policy identifies objects by an [`Id`], a small number that the caller's record table assigns
//! and reuses. A policy is therefore a few columns indexed by id and needs no table of its own. The
//! engine (one id per record of a slot layout) and the lab (one id per object of a trace) use the
//! same code. A policy never evicts by itself: it returns a [`Policy::victim`], and the caller
//! reports the result with [`Policy::evict`] or [`Policy::remove`].
//!
//! Guarantees: no clock and no randomness (equal calls give equal results); no call blocks, or
//! allocates beyond the amortised growth of its columns; every id that was inserted and neither
//! evicted nor removed is returned as a victim eventually, unless it is spared.

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

/// Number of an object while it is in the cache. Ids are dense: columns are as long as the largest
/// one.
pub type Id = u32;

/// The largest valid [`Id`].
pub const ID_MAX: Id = u32::MAX - 2;

/// Properties of an object that enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Identifies the object beyond its stay: policies use this hash to remember evicted objects
    /// and request counts. Uniform in all its bits; equal for equal keys.
    pub hash: u64,
    /// Size of the object, in the unit of [`Parameters::capacity`], below 2^56.
    pub size: u64,
}

/// The cost of a miss on an object, in the formula of [`Gdsf`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Equal for all objects: maximises hits.
    One,
    /// The square root of the size: a compromise between hits and bytes of hits.
    Root,
    /// Two packets, and one more per 536 units of size: minimises traffic.
    Packets,
}

/// Parameters of policies: the capacity, and the parameters of the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Capacity for objects, in the same unit as [`Entry::size`]: bytes, slots or objects. Policies
    /// that divide the cache take shares of it. The caller enforces it, not the policy.
    pub capacity: u64,
    /// `s3-fifo`: percent of the capacity for the small queue, 0 to 100. Default: 10.
    pub small_percent: u8,
    /// `s3-fifo`: number of requests for an object in the small queue that moves it to the main
    /// queue, 1 to 3. Default: 2.
    pub small_threshold: u8,
    /// `lfu-aging`: all counts are halved when their mean exceeds this, 1 to 65,535. Default: 10.
    pub aging_mean: u16,
    /// `gdsf`: the cost of a miss. Default: [`Cost::One`].
    pub cost: Cost,
    /// `w-tinylfu`: percent of the capacity for the window, 0 to 100. Default: 1.
    pub window_percent: u8,
    /// `w-tinylfu`: percent of the main part that may be protected, 0 to 100. Default: 80.
    pub protected_percent: u8,
}

impl Parameters {
    /// Returns the papers' parameters for a cache of this capacity.
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

/// Returns `percent` percent of `whole`, rounded down; all of it for more than 100.
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

/// An eviction policy: chooses the object to evict. See the module documentation.
pub trait Policy {
    /// Inserts an object. Panics if `id` is already in use.
    fn insert(&mut self, id: Id, entry: Entry);

    /// Returns whether an object of this size should enter at all. Policies with a small part that
    /// all objects pass through reject objects larger than that part. The object may still be
    /// inserted.
    fn takes(&self, size: u64) -> bool {
        let _ = size;
        true
    }

    /// Returns whether the object is known to the policy, which may return it as a victim.
    fn contains(&self, id: Id) -> bool;

    /// Records another request for the object. Does nothing if the id is not in use.
    fn touch(&mut self, id: Id);

    /// Returns the object to evict next; `None` if `spared` (true for objects that readers pin)
    /// returns true for all that are left. The object stays, and the same object is returned until
    /// it is evicted with [`Policy::evict`]. The call may still change later results: a hand moves,
    /// a second chance is used up.
    fn victim(&mut self, spared: impl Fn(Id) -> bool) -> Option<Id>;

    /// Returns an object that the policy would evict even if there is space, because its part of
    /// the cache is full. [`Policy::victim`] returns it first unless it is spared, so callers need
    /// not call this.
    fn surplus(&self) -> Option<Id> {
        None
    }

    /// Records that the object was evicted to make space. Its id is free, and policies with a
    /// history remember the object.
    fn evict(&mut self, id: Id);

    /// Records that the object is gone for another reason (removed, superseded). Its id is free,
    /// and the object is not remembered.
    fn remove(&mut self, id: Id);

    /// Returns the number of objects.
    fn len(&self) -> usize;

    /// Returns whether there are no objects.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the memory of all columns, ghosts and sketches, in bytes.
    fn memory_bytes(&self) -> usize;
}

/// A policy chosen at run time, without virtual calls.
pub enum AnyPolicy {
    /// The policy [`Lru`].
    Lru(Lru),
    /// The policy [`Fifo`].
    Fifo(Fifo),
    /// The policy [`Clock`].
    Clock(Clock),
    /// The policy [`Sieve`].
    Sieve(Sieve),
    /// The policy [`S3Fifo`].
    S3Fifo(S3Fifo),
    /// The policy [`LfuAging`].
    LfuAging(LfuAging),
    /// The policy [`Gdsf`].
    Gdsf(Gdsf),
    /// The policy [`WTinyLfu`].
    WTinyLfu(WTinyLfu),
}

/// Calls a method of the policy, whichever kind it is.
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
    /// Returns an empty policy of this name.
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
