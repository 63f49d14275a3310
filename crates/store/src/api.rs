//! The store as its users see it.

use std::any::Any;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use device::{Clock, Device};

use crate::key::Key;

/// What an object is, for layouts that group a page with its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A page that embeds or links others.
    Html,
    /// Anything else.
    #[default]
    Other,
}

/// What the caller knows of an object before its body arrives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hint {
    /// Body length in bytes when known; the commit is refused when it turns out different.
    pub size: Option<u64>,
    /// Page or part.
    pub kind: Kind,
}

/// Why the store did not take an object. The caller serves it all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Larger than the store's largest object.
    TooLarge,
    /// The admission policy said no.
    NotAdmitted,
    /// No room could be made.
    NoSpace,
    /// No buffer could be had within the bound, or the device stalls.
    Busy,
    /// The device is dead or the store is shut down.
    Offline,
    /// The key was removed or purged after the fetch began.
    Overtaken,
    /// Body length and [`Hint::size`] disagree.
    WrongLength,
}

/// Where an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The memory tier or a buffer on its way to the device: no read was needed.
    Ram,
    /// The device.
    Disk,
}

/// Why a body ended early. The transfer must be cut: bytes are never filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// A piece was evicted while the body was read.
    Gone,
    /// A piece failed its checksum or could not be read.
    Damaged,
}

/// Parameters of a store; every one has a default.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of memory for index, tables, tier and buffers together.
    pub memory: u64,
}

/// One worker's handle on the store: any number of devices, each with its share of the objects.
/// Cheap to clone within the worker.
pub struct Store<D: Device, C: Clock> {
    _todo: Rc<(D, C)>,
}

/// The result of a lookup.
pub enum Lookup<D: Device, C: Clock> {
    /// The object, its first bytes already verified.
    Hit(Entry<D, C>),
    /// Not here, or not readable (counted).
    Miss,
}

impl<D: Device, C: Clock> Store<D, C> {
    /// Finds `key`. A miss touches no device; a hit reads at most the object's first piece.
    pub async fn lookup(&self, _key: &Key) -> Lookup<D, C> {
        todo!()
    }

    /// Must be called before a fetch (or a validation) of `key` begins: a removal or purge of
    /// `key` from now on makes every insertion with this token fail with [`Refusal::Overtaken`].
    pub fn begin_fetch(&self, _key: &Key) -> FetchToken {
        todo!()
    }

    /// Starts storing an object under `key`, which may differ from the token's key (a variant).
    /// It becomes visible at [`Writer::commit`].
    pub async fn insert(
        &self,
        _token: &FetchToken,
        _key: &Key,
        _meta: Bytes,
        _hint: Hint,
    ) -> Result<Writer<D, C>, Refusal> {
        todo!()
    }

    /// Replaces the metadata of exactly the version that `entry` is; its body stays untouched on
    /// disk. Refused with [`Refusal::Overtaken`] when that version is no longer current.
    pub async fn replace_meta(
        &self,
        _token: &FetchToken,
        _key: &Key,
        _entry: &Entry<D, C>,
        _meta: Bytes,
    ) -> Result<(), Refusal> {
        todo!()
    }

    /// Removes `key` (an invalidation): survives a process kill when this returns. True when
    /// something was removed.
    pub async fn remove(&self, _key: &Key) -> bool {
        todo!()
    }

    /// Removes `key` durably, the device flush included, and overtakes its running fetches.
    /// `Err` when the device could not make it durable; the object is gone from memory anyway.
    pub async fn purge(&self, _key: &Key) -> Result<bool, Refusal> {
        todo!()
    }

    /// Reads on in an object that is still being written (see [`Writer::partial`]).
    pub async fn read_partial(&self, _partial: &Partial, _offset: u64) -> PartialRead {
        todo!()
    }
}

/// Proof that a fetch began at a certain time. `Send`, cheap.
pub struct FetchToken {}

impl FetchToken {
    /// True when the key was removed or purged since.
    pub fn overtaken(&self) -> bool {
        todo!()
    }
}

/// A stored object as one lookup found it.
pub struct Entry<D: Device, C: Clock> {
    _todo: Rc<(D, C)>,
}

impl<D: Device, C: Clock> Entry<D, C> {
    /// The metadata given at insertion or by the last `replace_meta`.
    pub fn meta(&self) -> &Bytes {
        todo!()
    }

    /// Body length in bytes.
    pub fn len(&self) -> u64 {
        todo!()
    }

    /// True for an empty body.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the first bytes came from.
    pub fn source(&self) -> Source {
        todo!()
    }

    /// A place for what the caller derives from the metadata (a parsed head). Lives as long as
    /// this version stays in memory and is shared by all its readers; `None` from disk without
    /// a place in the memory tier.
    pub fn attachment(&self) -> Option<&OnceLock<Arc<dyn Any + Send + Sync>>> {
        todo!()
    }

    /// The whole body as one slice, when it is in memory and verified: the fast path.
    pub fn whole(&self) -> Option<Bytes> {
        todo!()
    }

    /// The bytes of `range`, in order, in chunks; `range` must lie within `0..len()`.
    pub fn body(&self, _range: Range<u64>) -> Body<D, C> {
        todo!()
    }
}

/// A body on its way out.
pub struct Body<D: Device, C: Clock> {
    _todo: Rc<(D, C)>,
}

impl<D: Device, C: Clock> Body<D, C> {
    /// The next chunk, verified; `None` at the end of the range.
    pub async fn next(&mut self) -> Option<Result<Bytes, ReadError>> {
        todo!()
    }
}

/// An object on its way in. Dropped without [`Writer::commit`]: it never was.
pub struct Writer<D: Device, C: Clock> {
    _todo: Rc<(D, C)>,
}

impl<D: Device, C: Clock> Writer<D, C> {
    /// Takes the next chunk. Waits while the device is behind (this slows the fetch).
    pub async fn write(&mut self, _chunk: Bytes) -> Result<(), Refusal> {
        todo!()
    }

    /// The part written so far, for readers that lag behind the window in memory.
    pub fn partial(&self) -> Partial {
        todo!()
    }

    /// Makes the object visible, in place of what was there under its key.
    pub async fn commit(self) -> Result<(), Refusal> {
        todo!()
    }
}

/// A name for an object that is being written, for any worker: `Send + Sync`, cheap to clone.
#[derive(Clone)]
pub struct Partial {}

/// What [`Store::read_partial`] found.
pub enum PartialRead {
    /// At least one byte at the offset asked for.
    Bytes(Bytes),
    /// Not written yet (the caller still has it in its window).
    NotYet,
    /// Evicted, damaged or aborted: cut the transfer.
    Gone,
}
