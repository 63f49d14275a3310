//! The payload of an operation on a file: its kind and its buffer.

use crate::transfer::counters::Operation;
use crate::{FrozenBuf, IoBuf};

pub(crate) enum Payload {
    Read(IoBuf),
    Write(FrozenBuf),
    Flush,
}

impl Payload {
    pub fn operation(&self) -> Operation {
        match self {
            Payload::Read(_) => Operation::Read,
            Payload::Write(_) => Operation::Write,
            Payload::Flush => Operation::Flush,
        }
    }

    /// Returns the number of bytes to transfer.
    pub fn len(&self) -> usize {
        match self {
            Payload::Read(buf) => buf.len(),
            Payload::Write(buf) => buf.len(),
            Payload::Flush => 0,
        }
    }
}
