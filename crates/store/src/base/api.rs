//! The small words of the store's interface: hints, refusals, sources, errors.

use std::fmt;

use bytes::Bytes;

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
    /// Four bytes that the store keeps with the object and hands back as [`crate::Entry::stamp`];
    /// the exact index keeps them in memory as well (C1: when it was last modified). 0: unknown.
    pub stamp: u32,
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

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::TooLarge => "too large",
            Refusal::NotAdmitted => "not admitted",
            Refusal::NoSpace => "no space",
            Refusal::Busy => "busy",
            Refusal::Offline => "offline",
            Refusal::Overtaken => "overtaken",
            Refusal::WrongLength => "wrong length",
        })
    }
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
    /// A piece was evicted, or found damaged, while the body was read.
    Gone,
}

/// What [`crate::Store::read_partial`] found.
pub enum PartialRead {
    /// At least one byte at the offset asked for.
    Bytes(Bytes),
    /// Not in a piece yet: the caller still has it in its window, which must hold at least
    /// [`crate::PIECE_MAX`] bytes.
    NotYet,
    /// Evicted, damaged or aborted: cut the transfer.
    Gone,
}

/// A worker brought fewer devices than the store was opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReopenError {
    /// Devices needed.
    pub expected: usize,
    /// Devices brought.
    pub found: usize,
}

impl fmt::Display for ReopenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the store needs {} devices, {} were given", self.expected, self.found)
    }
}

impl std::error::Error for ReopenError {}
