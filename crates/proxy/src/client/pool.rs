//! Memory of what each request needs for a while, used again and again by the requests of one
//! worker.

use std::cell::RefCell;

use http1::RequestHead;

use crate::observe::log_fields::LogFields;

/// Pieces that are kept at most: as many as are in use between two waits, and more.
const KEPT_MAX: usize = 64;

/// Bytes of a piece that is kept at most.
const BYTES_MAX: usize = 8 << 10;

/// Something whose memory can be used again.
pub(crate) trait Reusable: Default {
    /// Returns the bytes of memory that it keeps.
    fn capacity(&self) -> usize;
}

impl Reusable for RequestHead {
    fn capacity(&self) -> usize {
        RequestHead::capacity(self)
    }
}

impl Reusable for Box<LogFields> {
    fn capacity(&self) -> usize {
        LogFields::capacity(self)
    }
}

/// Pieces that no request uses.
#[derive(Default)]
pub(crate) struct Pool<T> {
    free: RefCell<Vec<T>>,
}

impl<T: Reusable> Pool<T> {
    /// Takes a piece, whose content means nothing.
    pub fn take(&self) -> T {
        self.free.borrow_mut().pop().unwrap_or_default()
    }

    /// Gives a piece back.
    pub fn give(&self, piece: T) {
        let mut free = self.free.borrow_mut();
        if free.len() < KEPT_MAX && piece.capacity() <= BYTES_MAX {
            free.push(piece);
        }
    }
}
