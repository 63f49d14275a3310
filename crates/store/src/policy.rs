//! Eviction policies: which object to give up when room is needed.
//!
//! A policy knows objects by an [`Id`]: a small number that the caller's record table hands out and
//! uses again, so that a policy is a few columns indexed by it and no table of its own. The engine
//! (one id per record of a slot layout) and the lab (one id per object of a trace) use the same
//! code. A policy never evicts by itself: it names a [`Policy::victim`], and the caller says what
//! became of it, [`Policy::evict`] or [`Policy::remove`].
//!
//! It promises: no clock, no randomness (equal calls give equal answers), no call waits or
//! allocates more than amortised growth of its columns, every id that was inserted and neither
//! evicted nor removed is named as a victim sooner or later, unless it is spared.

mod cache;
mod links;
mod lru;
mod name;

pub use cache::{PolicyCache, Unit};
pub use lru::Lru;
pub use name::{PolicyName, UnknownPolicy};

/// Number of an object while it is in the cache. Dense: columns are as long as the largest one.
pub type Id = u32;

/// The largest number that may be an [`Id`].
pub const ID_MAX: Id = u32::MAX - 2;

/// What a policy learns of an object when it enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Names the object beyond its stay: policies that remember what they evicted, or how often
    /// something was asked for, do so under this hash. Uniform in all its bits; equal for equal
    /// keys.
    pub hash: u64,
    /// What it takes of [`Parameters::capacity`], in the same unit, below 2^56.
    pub size: u64,
}

/// What policies are made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Room for objects, in any unit ([`Entry::size`] is in the same): bytes, slots, objects.
    /// Policies that divide the cache take shares of it. The caller keeps to it, not the policy.
    pub capacity: u64,
}

impl Parameters {
    /// The papers' parameters for a cache of this size.
    pub fn new(capacity: u64) -> Parameters {
        Parameters { capacity }
    }
}

/// Chooses what to give up. See the module.
pub trait Policy {
    /// An object enters; `id` is not in use by another one (a panic, else).
    fn insert(&mut self, id: Id, entry: Entry);

    /// Whether the object is among those that the policy may name.
    fn contains(&self, id: Id) -> bool;

    /// The object was asked for again. Nothing happens for an id that is not in use.
    fn touch(&mut self, id: Id);

    /// What to give up next, `None` when nothing is left but what `spared` answers true for
    /// (objects that readers pin). The object stays, and must be given up with [`Policy::evict`]
    /// before the next call for it to be another one; but asking may change later answers (a hand
    /// moves, a second chance is used up).
    fn victim(&mut self, spared: impl Fn(Id) -> bool) -> Option<Id>;

    /// The object is given up for room: its id is free, and policies with a memory remember it.
    fn evict(&mut self, id: Id);

    /// The object is gone for another reason (removed, superseded): its id is free, and nothing is
    /// remembered.
    fn remove(&mut self, id: Id);

    /// Objects in it.
    fn len(&self) -> usize;

    /// Whether it has no objects.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory of all columns, ghosts and sketches.
    fn memory_bytes(&self) -> usize;
}

/// A policy chosen at run time, without a virtual call.
pub enum AnyPolicy {
    /// See [`Lru`].
    Lru(Lru),
}

/// Calls a method of whichever policy it is.
macro_rules! either {
    ($any:expr, $policy:ident => $call:expr) => {
        match $any {
            AnyPolicy::Lru($policy) => $call,
        }
    };
}

impl AnyPolicy {
    /// The policy of this name, empty.
    pub fn new(name: PolicyName, _: &Parameters) -> AnyPolicy {
        match name {
            PolicyName::Lru => AnyPolicy::Lru(Lru::new()),
        }
    }
}

impl Policy for AnyPolicy {
    fn insert(&mut self, id: Id, entry: Entry) {
        either!(self, policy => policy.insert(id, entry));
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
