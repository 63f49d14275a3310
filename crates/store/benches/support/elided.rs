//! A device that keeps only what cannot be computed: where a stretch of 32 bytes is all filler or
//! all zeros it notes just that. With bodies made of filler a cache of a hundred gigabytes takes
//! some 300 bytes of memory per object, and every header, key, checksum and journal block in it is
//! stored and read back as it was written.
//!
//! Every operation completes at once. The processor time of the device itself is measured, so that
//! a benchmark can subtract it.

use super::processor_seconds;
use std::cell::{Cell, RefCell};
use std::io;

use device::{Device, FrozenBuf, Geometry, IoBuf};

/// The byte that bodies are made of.
pub const FILLER: u8 = 0x2a;
const PAGE: usize = 4096;
/// Pages whose places are made together.
const SHELF: usize = 256;
const CHUNK: usize = 32;
/// Bytes in which a page says of each chunk what it is: two bits.
const KINDS: usize = PAGE / CHUNK / 4;
const ZEROS: u8 = 0;
const FILL: u8 = 1;
const KEPT: u8 = 2;

/// A page: `None` is zeros, an empty one filler, any other the kinds and the chunks kept.
type Page = Option<Box<[u8]>>;

/// A device in memory that keeps what cannot be computed.
pub struct ElidedDevice {
    len: u64,
    /// In shelves of [`SHELF`]; one without pages is all zeros.
    shelves: RefCell<Vec<Box<[Page]>>>,
    seconds: Cell<f64>,
}

impl ElidedDevice {
    /// A device of `len` bytes, all zero.
    pub fn new(len: u64) -> ElidedDevice {
        let len = len.next_multiple_of(PAGE as u64);
        ElidedDevice { len, shelves: RefCell::default(), seconds: Cell::default() }
    }

    /// Returns the processor seconds of all operations so far.
    pub fn seconds(&self) -> f64 {
        self.seconds.get()
    }

    fn copy_out(&self, offset: u64, into: &mut [u8]) {
        let shelves = self.shelves.borrow();
        let first = (offset / PAGE as u64) as usize;
        for (number, into) in (first..).zip(into.chunks_exact_mut(PAGE)) {
            let shelf = shelves.get(number / SHELF);
            expand(shelf.and_then(|pages| pages.get(number % SHELF)).unwrap_or(&None), into);
        }
    }

    /// Adds the processor time since `started`.
    fn count(&self, started: f64) {
        self.seconds.set(self.seconds.get() + processor_seconds() - started);
    }
}

impl Device for ElidedDevice {
    fn geometry(&self) -> Geometry {
        Geometry { len: self.len, block: PAGE as u32 }
    }

    async fn read(&self, offset: u64, mut buf: IoBuf) -> (IoBuf, io::Result<()>) {
        let started = processor_seconds();
        self.copy_out(offset, &mut buf);
        self.count(started);
        (buf, Ok(()))
    }

    async fn write(&self, offset: u64, buf: FrozenBuf) -> io::Result<()> {
        let started = processor_seconds();
        let mut shelves = self.shelves.borrow_mut();
        let first = (offset / PAGE as u64) as usize;
        for (number, from) in (first..).zip(buf.chunks_exact(PAGE)) {
            if shelves.len() <= number / SHELF {
                shelves.resize_with(number / SHELF + 1, Box::default);
            }
            let shelf = &mut shelves[number / SHELF];
            if shelf.is_empty() {
                *shelf = vec![None; SHELF].into();
            }
            shelf[number % SHELF] = elide(from);
        }
        self.count(started);
        Ok(())
    }

    async fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

fn elide(page: &[u8]) -> Page {
    if page == [FILLER; PAGE] {
        return Some(Box::default());
    }
    if page == [0; PAGE] {
        return None;
    }
    let mut kept = vec![0; KINDS];
    for (number, chunk) in page.chunks_exact(CHUNK).enumerate() {
        let kind = match chunk {
            chunk if chunk == [FILLER; CHUNK] => FILL,
            chunk if chunk == [0; CHUNK] => ZEROS,
            _ => KEPT,
        };
        kept[number / 4] |= kind << (number % 4 * 2);
        if kind == KEPT {
            kept.extend_from_slice(chunk);
        }
    }
    Some(kept.into())
}

fn expand(page: &Page, into: &mut [u8]) {
    let Some(kept) = page else { return into.fill(0) };
    if kept.is_empty() {
        return into.fill(FILLER);
    }
    let (kinds, kept) = kept.split_at(KINDS);
    let mut kept = kept.chunks_exact(CHUNK);
    for (number, chunk) in into.chunks_exact_mut(CHUNK).enumerate() {
        match kinds[number / 4] >> (number % 4 * 2) & 3 {
            ZEROS => chunk.fill(0),
            FILL => chunk.fill(FILLER),
            _ => chunk.copy_from_slice(kept.next().expect("what was kept is there")),
        }
    }
}
