//! Pools of short-lived objects reused by the requests of one worker.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use http1::RequestHead;

use crate::observe::log_fields::LogFields;

/// Maximum number of free objects kept; more than are in use between two waits.
const KEPT_MAX: usize = 64;

/// Memory in bytes above which an object is not kept.
const BYTES_MAX: usize = 8 << 10;

/// An object whose memory can be reused.
pub(crate) trait Reusable: Default {
    /// Returns the bytes of memory that it holds.
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

#[derive(Default)]
pub(crate) struct Pool<T> {
    free: Rc<RefCell<Vec<Box<T>>>>,
}

impl<T: Reusable> Pool<T> {
    /// Takes an object with unspecified content.
    pub fn take(&self) -> Pooled<T> {
        let piece = self.free.borrow_mut().pop().unwrap_or_default();
        Pooled { piece: Some(piece), free: self.free.clone() }
    }
}

/// An object of a pool, returned to it on drop.
pub(crate) struct Pooled<T: Reusable> {
    /// `None` only during drop.
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
