//! Memory of what each request needs for a while, used again and again by the requests of one
//! worker.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

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

impl Reusable for LogFields {
    fn capacity(&self) -> usize {
        LogFields::capacity(self)
    }
}

/// Pieces that no request uses.
#[derive(Default)]
pub(crate) struct Pool<T> {
    free: Rc<RefCell<Vec<Box<T>>>>,
}

impl<T: Reusable> Pool<T> {
    /// Takes a piece, whose content means nothing.
    pub fn take(&self) -> Pooled<T> {
        let piece = self.free.borrow_mut().pop().unwrap_or_default();
        Pooled { piece: Some(piece), free: self.free.clone() }
    }
}

/// A piece of a pool, which goes back to it when it is dropped.
pub(crate) struct Pooled<T: Reusable> {
    /// `None` while it is dropped only.
    piece: Option<Box<T>>,
    free: Rc<RefCell<Vec<Box<T>>>>,
}

impl<T: Reusable> Deref for Pooled<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.piece.as_deref().expect("it is not dropped yet")
    }
}

impl<T: Reusable> DerefMut for Pooled<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.piece.as_deref_mut().expect("it is not dropped yet")
    }
}

impl<T: Reusable> Drop for Pooled<T> {
    fn drop(&mut self) {
        let mut free = self.free.borrow_mut();
        if let Some(piece) = self.piece.take()
            && free.len() < KEPT_MAX
            && piece.capacity() <= BYTES_MAX
        {
            free.push(piece);
        }
    }
}
