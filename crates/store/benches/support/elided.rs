//! A device that keeps only what cannot be computed: where a stretch of 32 bytes is all filler or
//! all zeros it notes just that. With bodies made of filler a cache of a hundred gigabytes takes
//! some 300 bytes of memory per object, and every header, key, checksum and journal block in it is
//! stored and read back as it was written.
//!
//! Every operation completes at once, but reads let the other tasks go on before they end, as those
//! of a real device would. What the device itself costs is clocked, so that a benchmark can take it
//! off.

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

/// What was asked of the device since it was made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    pub flushes: u64,
    /// Processor seconds that the device itself took.
    pub seconds: f64,
}

/// See the module.
pub struct ElidedDevice {
    len: u64,
    /// In shelves of [`SHELF`]; one without pages is all zeros.
    shelves: RefCell<Vec<Box<[Page]>>>,
    /// Writes beyond here are forgotten.
    keeps: u64,
    /// True if a read lets others go on before it ends.
    yields: bool,
    asked: Cell<Asked>,
}

impl ElidedDevice {
    /// A device of `len` bytes, all zero.
    pub fn new(len: u64) -> ElidedDevice {
        let len = len.next_multiple_of(PAGE as u64);
        ElidedDevice {
            len,
            shelves: RefCell::default(),
            keeps: len,
            yields: true,
            asked: Cell::default(),
        }
    }

    /// A device that keeps only what is written in its first `keeps` bytes: enough to be filled.
    pub fn forgetful(len: u64, keeps: u64) -> ElidedDevice {
        ElidedDevice { keeps, ..ElidedDevice::new(len) }
    }

    /// The same, with reads that end at once.
    pub fn without_yielding(self) -> ElidedDevice {
        ElidedDevice { yields: false, ..self }
    }

    pub fn asked(&self) -> Asked {
        self.asked.get()
    }

    fn copy_out(&self, offset: u64, into: &mut [u8]) {
        let shelves = self.shelves.borrow();
        let first = (offset / PAGE as u64) as usize;
        for (number, into) in (first..).zip(into.chunks_exact_mut(PAGE)) {
            let shelf = shelves.get(number / SHELF);
            expand(shelf.and_then(|pages| pages.get(number % SHELF)).unwrap_or(&None), into);
        }
    }

    fn count(&self, started: f64, change: impl FnOnce(&mut Asked)) {
        let mut asked = self.asked.get();
        asked.seconds += processor_seconds() - started;
        change(&mut asked);
        self.asked.set(asked);
    }
}

impl Device for ElidedDevice {
    fn geometry(&self) -> Geometry {
        Geometry { len: self.len, block: PAGE as u32 }
    }

    async fn read(&self, offset: u64, mut buf: IoBuf) -> (IoBuf, io::Result<()>) {
        let started = processor_seconds();
        self.copy_out(offset, &mut buf);
        let len = buf.len() as u64;
        self.count(started, |asked| {
            asked.reads += 1;
            asked.read_bytes += len;
        });
        if self.yields {
            super::yield_now().await;
        }
        (buf, Ok(()))
    }

    async fn write(&self, offset: u64, buf: FrozenBuf) -> io::Result<()> {
        let started = processor_seconds();
        let mut shelves = self.shelves.borrow_mut();
        let kept = buf.len().min(self.keeps.saturating_sub(offset) as usize);
        let first = (offset / PAGE as u64) as usize;
        for (number, from) in (first..).zip(buf[..kept].chunks_exact(PAGE)) {
            if shelves.len() <= number / SHELF {
                shelves.resize_with(number / SHELF + 1, Box::default);
            }
            let shelf = &mut shelves[number / SHELF];
            if shelf.is_empty() {
                *shelf = vec![None; SHELF].into();
            }
            shelf[number % SHELF] = elide(from);
        }
        self.count(started, |asked| {
            asked.writes += 1;
            asked.written_bytes += buf.len() as u64;
        });
        Ok(())
    }

    async fn flush(&self) -> io::Result<()> {
        self.count(processor_seconds(), |asked| asked.flushes += 1);
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
