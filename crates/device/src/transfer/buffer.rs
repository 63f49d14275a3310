//! Aligned buffers. [`IoBuf`] is owned and mutable, [`FrozenBuf`] shared and immutable. Both are
//! aligned to 4,096 bytes, as O_DIRECT requires. Their bytes are always initialised: zeroed on
//! allocation, written by an [`IoBufBuilder`], or, in a buffer of a [`crate::BufPool`], left over
//! from the previous owner.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::mem;
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
/// The memory was allocated with the same layout, and is not used any more.
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
            // SAFETY: allocated with the same layout in `zeroed` or by an `IoBufBuilder`.
            None => unsafe { free(self.memory, Self::layout(self.len)) },
        }
    }
}

/// A new [`IoBuf`] that is written once, from its start to its end. Only bytes that the caller does
/// not write are zeroed.
pub struct IoBufBuilder {
    memory: NonNull<u8>,
    len: usize,
    /// Number of initialised bytes at the front of the memory; at most `len`.
    written: usize,
}

impl IoBufBuilder {
    /// Begins a buffer of `len` bytes, `len` > 0. Aborts when memory is exhausted, as `Vec` does.
    pub fn new(len: usize) -> IoBufBuilder {
        let layout = IoBuf::layout(len);
        // SAFETY: `IoBuf::layout` rejects a length of zero.
        let memory = unsafe { alloc(layout) };
        let memory = NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout));
        IoBufBuilder { memory, len, written: 0 }
    }

    /// Appends bytes.
    ///
    /// # Panics
    /// When the buffer has no room for them.
    pub fn write(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len - self.written, "the bytes fit into the buffer");
        // SAFETY: the assertion keeps the bytes within the memory. This value owns the memory
        // alone, so `bytes` does not overlap it.
        unsafe {
            let end = self.memory.add(self.written);
            end.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
        self.written += bytes.len();
    }

    /// Appends zeros until `len` bytes are written.
    ///
    /// # Panics
    /// When more bytes are written already, or the buffer is shorter.
    pub fn zero_to(&mut self, len: usize) {
        assert!((self.written..=self.len).contains(&len), "the zeros fit into the buffer");
        // SAFETY: the assertion keeps the zeros within the memory, which this value owns.
        unsafe { self.memory.add(self.written).write_bytes(0, len - self.written) };
        self.written = len;
    }

    /// Zeroes the rest and returns the buffer.
    pub fn finish(mut self) -> IoBuf {
        self.zero_to(self.len);
        let buf = IoBuf { memory: self.memory, len: self.len, home: None };
        mem::forget(self);
        buf
    }
}

impl Drop for IoBufBuilder {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout, and not used any more.
        unsafe { free(self.memory, IoBuf::layout(self.len)) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_built_buffer_has_what_was_written_and_zeros_between() {
        let mut builder = IoBufBuilder::new(8192);
        builder.write(b"ab");
        builder.zero_to(5);
        builder.write(&[7; 4091]);
        builder.zero_to(4096);
        let buf = builder.finish();
        let expected = [&b"ab\0\0\0"[..], &[7; 4091], &[0; 4096]].concat();
        assert_eq!(buf[..], expected);
        assert_eq!(buf.as_ptr() as usize % WRITE_ALIGN as usize, 0);
        drop(IoBufBuilder::new(4096));
    }

    #[test]
    #[should_panic(expected = "the bytes fit into the buffer")]
    fn a_builder_refuses_more_bytes_than_its_buffer_has() {
        let mut builder = IoBufBuilder::new(4096);
        builder.zero_to(4095);
        builder.write(b"ab");
    }
}
