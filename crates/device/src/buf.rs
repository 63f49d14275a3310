//! Aligned buffers. [`IoBuf`] is owned and mutable, [`FrozenBuf`] shared and immutable; both are
//! aligned to 4,096 bytes, so that O_DIRECT takes them as they are.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use bytes::Bytes;

use crate::extent::WRITE_ALIGN;

/// Owned aligned memory of a fixed length.
pub struct IoBuf {
    memory: NonNull<u8>,
    len: usize,
}

// SAFETY: an `IoBuf` owns its memory alone, as a `Box<[u8]>` does.
unsafe impl Send for IoBuf {}
// SAFETY: shared access only reads.
unsafe impl Sync for IoBuf {}

impl IoBuf {
    /// A buffer of `len` zero bytes, `len` > 0. Aborts when memory is exhausted, as `Vec` does.
    pub fn zeroed(len: usize) -> IoBuf {
        let layout = Self::layout(len);
        // SAFETY: the layout has a non-zero size, asserted in `layout`.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout) };
        IoBuf { memory, len }
    }

    /// Makes the buffer immutable and shareable.
    pub fn freeze(self) -> FrozenBuf {
        FrozenBuf(Arc::new(self))
    }

    fn layout(len: usize) -> Layout {
        assert!(len > 0, "an IoBuf is never empty");
        Layout::from_size_align(len, WRITE_ALIGN as usize).expect("an IoBuf fits the address space")
    }
}

impl Drop for IoBuf {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with the same layout.
        unsafe { dealloc(self.memory.as_ptr(), Self::layout(self.len)) }
    }
}

impl Deref for IoBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `memory` points to `len` initialised bytes that this value owns.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.len) }
    }
}

impl DerefMut for IoBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) }
    }
}

/// Shared immutable aligned memory; a clone is a reference.
#[derive(Clone)]
pub struct FrozenBuf(Arc<IoBuf>);

impl FrozenBuf {
    /// The same memory as [`Bytes`]; slices of it keep the whole buffer alive.
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl Deref for FrozenBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for FrozenBuf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}
