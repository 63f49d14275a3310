//! Aligned buffers. [`IoBuf`] is owned and mutable, [`FrozenBuf`] shared and immutable. Both are
//! aligned to 4,096 bytes, as O_DIRECT requires. Their bytes are always initialised: zeroed on
//! allocation, or, in a buffer of a [`crate::BufPool`], left over from the previous owner.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use bytes::Bytes;

use crate::transfer::buffer_pool::Home;
use crate::transfer::extent::WRITE_ALIGN;

/// Owned aligned memory of a fixed length.
pub struct IoBuf {
    memory: NonNull<u8>,
    len: usize,
    /// The pool that the memory returns to; the memory may then be longer than `len`.
    home: Option<Home>,
}

/// Allocates zeroed memory. Aborts when memory is exhausted, as `Vec` does.
pub(crate) fn allocate(layout: Layout) -> NonNull<u8> {
    assert!(layout.size() > 0, "an IoBuf is never empty");
    // SAFETY: the layout has a non-zero size.
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Frees memory.
///
/// # Safety
///
/// The memory was returned by [`allocate`] for the same layout, and is not used any more.
pub(crate) unsafe fn free(memory: NonNull<u8>, layout: Layout) {
    // SAFETY: guaranteed by the caller.
    unsafe { dealloc(memory.as_ptr(), layout) }
}

// SAFETY: an `IoBuf` owns its memory alone, as a `Box<[u8]>` does.
unsafe impl Send for IoBuf {}
// SAFETY: shared access only reads.
unsafe impl Sync for IoBuf {}

impl IoBuf {
    /// Returns a buffer of `len` zero bytes, `len` > 0. Aborts when memory is exhausted, as `Vec`
    /// does. A [`crate::BufPool`] provides buffers for reads at less cost.
    pub fn zeroed(len: usize) -> IoBuf {
        IoBuf { memory: allocate(Self::layout(len)), len, home: None }
    }

    /// Returns a buffer of the first `len` bytes of memory that returns to `home`.
    ///
    /// # Safety
    ///
    /// The memory has at least `len` initialised bytes, is aligned to [`WRITE_ALIGN`], belongs to
    /// this buffer alone, and may be returned to `home`.
    pub(crate) unsafe fn of_pool(memory: NonNull<u8>, len: usize, home: Home) -> IoBuf {
        IoBuf { memory, len, home: Some(home) }
    }

    /// Makes the buffer immutable and shareable.
    pub fn freeze(self) -> FrozenBuf {
        FrozenBuf(Arc::new(self))
    }

    /// Returns the buffer as [`Bytes`]; slices of it keep the whole buffer alive.
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }

    pub(crate) fn layout(len: usize) -> Layout {
        assert!(len > 0, "an IoBuf is never empty");
        Layout::from_size_align(len, WRITE_ALIGN as usize).expect("an IoBuf fits the address space")
    }
}

impl Drop for IoBuf {
    fn drop(&mut self) {
        match &self.home {
            // SAFETY: created in `of_pool` from memory that this home takes back; not used any
            // more.
            Some(home) => unsafe { home.take_back(self.memory) },
            // SAFETY: allocated in `zeroed` with the same layout.
            None => unsafe { free(self.memory, Self::layout(self.len)) },
        }
    }
}

impl AsRef<[u8]> for IoBuf {
    fn as_ref(&self) -> &[u8] {
        self
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

/// Shared immutable aligned memory. A clone is a reference to it.
#[derive(Clone)]
pub struct FrozenBuf(Arc<IoBuf>);

impl FrozenBuf {
    /// Returns the same memory as [`Bytes`]; slices of it keep the whole buffer alive.
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
