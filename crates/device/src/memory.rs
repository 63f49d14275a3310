//! A device in memory, for tests. It keeps two images: the one that readers see (*live*), and the
//! one that survives a power loss (*durable*), which a flush updates. A test can obtain the state
//! of the device after a crash at any moment, any number of times.
//!
//! On request it also injects faults ([`Fault`]), damages data that is read, completes operations
//! out of order, and holds them back until the test releases them.
//!
//! Guarantees: its behaviour depends only on the calls made and the seeds given.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::memory::image::Image;
use crate::transfer::counters::{Counters, Counts, Operation};
use crate::{Device, Extent, FrozenBuf, Geometry, IoBuf};

/// The largest unit that a drive writes atomically, in bytes. A write interrupted by a power loss
/// is torn between sectors.
const SECTOR: usize = 512;

/// Unflushed bytes beyond which the oldest writes become durable by themselves, as in a drive whose
/// write cache is full.
const WRITE_CACHE: u64 = 64 << 20;

/// An error to be injected.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The operations that fail.
    pub operation: Operation,
    /// Number of operations that succeed first, counted from [`MemoryDevice::inject`].
    pub after: u64,
    /// Number of failures after that; `u64::MAX` for a device that stays broken.
    pub times: u64,
    /// The kind of the error returned. A failed write changes nothing.
    pub error: io::ErrorKind,
}

/// An operation that the device holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Identifier for [`MemoryDevice::release`]; increases over time.
    pub id: u64,
    /// The kind of operation.
    pub operation: Operation,
    /// The extent of the operation; empty for a flush.
    pub extent: Extent,
}

/// A device in memory. A clone is another handle to the same device.
#[derive(Clone)]
pub struct MemoryDevice {
    inner: Arc<Mutex<Inner>>,
    counters: Arc<Counters>,
}

struct Inner {
    geometry: Geometry,
    live: Image,
    durable: Image,
    /// Writes in `live` that `durable` lacks, oldest first.
    unflushed: VecDeque<Write>,
    unflushed_bytes: u64,
    /// Number of writes performed so far.
    written: u64,
    faults: Vec<Fault>,
    damage: Vec<(Extent, u8)>,
    holding: bool,
    shuffle: Option<Dice>,
    operations: BTreeMap<u64, InFlight>,
    next_id: u64,
}

#[derive(Clone)]
struct Write {
    number: u64,
    offset: u64,
    data: FrozenBuf,
}

struct InFlight {
    held: Held,
    payload: Payload,
    progress: Progress,
    fault: Option<io::ErrorKind>,
    waker: Option<Waker>,
    /// True if the future was dropped, so that the result is not needed.
    abandoned: bool,
}

enum Payload {
    Read(IoBuf),
    Write(FrozenBuf),
    /// Number of writes performed when the flush began, which it makes durable.
    Flush(u64),
}

enum Progress {
    Held,
    /// Completes after this many more polls.
    Delayed(u64),
    Done(io::Result<()>),
}

impl MemoryDevice {
    /// Returns a device of `len` zero bytes with blocks of `block` bytes (a power of two). Memory
    /// is allocated as it is written.
    pub fn new(len: u64, block: u32) -> MemoryDevice {
        assert!(block.is_power_of_two() && len.is_multiple_of(u64::from(block)));
        MemoryDevice::with_images(Geometry { len, block }, Image::default(), Image::default())
    }

    fn with_images(geometry: Geometry, live: Image, durable: Image) -> MemoryDevice {
        let inner = Inner {
            geometry,
            live,
            durable,
            unflushed: VecDeque::new(),
            unflushed_bytes: 0,
            written: 0,
            faults: Vec::new(),
            damage: Vec::new(),
            holding: false,
            shuffle: None,
            operations: BTreeMap::new(),
            next_id: 0,
        };
        MemoryDevice { inner: Arc::new(Mutex::new(inner)), counters: Arc::default() }
    }

    /// Returns the state of the device after a kill of the process at this moment: all completed
    /// writes are present, those in flight are not. This device is unchanged.
    pub fn crash_process(&self) -> MemoryDevice {
        let inner = self.lock();
        MemoryDevice::with_images(inner.geometry, inner.live.clone(), inner.live.clone())
    }

    /// Returns the state like [`MemoryDevice::crash_process`], but with an arbitrary part, chosen
    /// by `seed`, of the writes in flight applied, each possibly torn.
    pub fn crash_process_torn(&self, seed: u64) -> MemoryDevice {
        let inner = self.lock();
        let mut image = inner.live.clone();
        let mut dice = Dice(seed);
        inner.writes_in_flight().for_each(|write| dice.carry_out(&write, &mut image));
        MemoryDevice::with_images(inner.geometry, image.clone(), image)
    }

    /// Returns the state of the device after a power loss at this moment. Flushed writes are
    /// present. Of the others, including those in flight, an arbitrary part chosen by `seed` is,
    /// each possibly torn between 512-byte sectors. This device is unchanged.
    pub fn crash_power(&self, seed: u64) -> MemoryDevice {
        let inner = self.lock();
        let mut image = inner.durable.clone();
        let mut dice = Dice(seed);
        inner.unflushed.iter().for_each(|write| dice.carry_out(write, &mut image));
        inner.writes_in_flight().for_each(|write| dice.carry_out(&write, &mut image));
        MemoryDevice::with_images(inner.geometry, image.clone(), image)
    }

    /// Injects a fault. Faults accumulate; the first one that applies is used.
    pub fn inject(&self, fault: Fault) {
        self.lock().faults.push(fault);
    }

    /// XORs the bytes that every later read of `extent` returns with `mask`.
    pub fn damage_reads(&self, extent: Extent, mask: u8) {
        self.lock().damage.push((extent, mask));
    }

    /// Removes all faults and damage.
    pub fn heal(&self) {
        let mut inner = self.lock();
        inner.faults.clear();
        inner.damage.clear();
    }

    /// Sets the order of completions. With a seed, operations complete after a few more polls, in
    /// an order determined by the seed; with `None` each completes at its first poll.
    pub fn shuffle(&self, seed: Option<u64>) {
        self.lock().shuffle = seed.map(Dice);
    }

    /// Holds back every operation that begins from now on, until [`MemoryDevice::release`] or
    /// [`MemoryDevice::release_all`]. The operation takes effect when it is released.
    pub fn hold(&self) {
        self.lock().holding = true;
    }

    /// Returns the operations held back, oldest first.
    pub fn held(&self) -> Vec<Held> {
        let inner = self.lock();
        let held = |op: &&InFlight| matches!(op.progress, Progress::Held);
        inner.operations.values().filter(held).map(|op| op.held).collect()
    }

    /// Performs one operation that is held back. Returns false if there is none with this id.
    pub fn release(&self, id: u64) -> bool {
        let mut inner = self.lock();
        let operation = inner.operations.get_mut(&id);
        let held = |operation: &&mut InFlight| matches!(operation.progress, Progress::Held);
        let Some(operation) = operation.filter(held) else { return false };
        let waker = operation.waker.take();
        inner.carry_out(id, &self.counters);
        drop(inner); // a woken task may call us
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Performs all operations that are held back, in order, and stops holding.
    pub fn release_all(&self) {
        self.lock().holding = false;
        self.held().iter().for_each(|held| _ = self.release(held.id));
    }

    /// Makes the device longer, like a file that grew. It cannot be shortened.
    pub fn grow(&self, len: u64) {
        let mut inner = self.lock();
        assert!(len >= inner.geometry.len && len.is_multiple_of(u64::from(inner.geometry.block)));
        inner.geometry.len = len;
    }

    /// Returns the live bytes of `extent`, without faults. Any alignment is allowed.
    pub fn peek(&self, extent: Extent) -> Vec<u8> {
        let mut bytes = vec![0; extent.len as usize];
        self.lock().live.read(extent.offset, &mut bytes);
        bytes
    }

    /// Changes bytes at rest, in both images. Any alignment is allowed.
    pub fn poke(&self, offset: u64, bytes: &[u8]) {
        let mut inner = self.lock();
        inner.live.write(offset, bytes);
        inner.durable.write(offset, bytes);
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        self.counters.snapshot()
    }

    /// Returns the live counters.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A test that panicked while holding the lock has already failed.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn perform(
        &self,
        operation: Operation,
        offset: u64,
        payload: Payload,
    ) -> (Payload, io::Result<()>) {
        let id = match self.lock().begin(operation, offset, payload, &self.counters) {
            Ok(id) => id,
            Err((payload, error)) => return (payload, Err(error)),
        };
        let ticket = Ticket { device: self, id };
        poll_fn(|context| ticket.device.lock().poll(ticket.id, context, &self.counters)).await
    }
}

impl Device for MemoryDevice {
    fn geometry(&self) -> Geometry {
        self.lock().geometry
    }

    async fn read(&self, offset: u64, buf: IoBuf) -> (IoBuf, io::Result<()>) {
        match self.perform(Operation::Read, offset, Payload::Read(buf)).await {
            (Payload::Read(buf), result) => (buf, result),
            _ => unreachable!("an operation keeps its payload"),
        }
    }

    async fn write(&self, offset: u64, buf: FrozenBuf) -> io::Result<()> {
        self.perform(Operation::Write, offset, Payload::Write(buf)).await.1
    }

    async fn flush(&self) -> io::Result<()> {
        let written = self.lock().written;
        self.perform(Operation::Flush, 0, Payload::Flush(written)).await.1
    }
}

/// A future's claim to its operation. If it is dropped early, the operation continues without it.
struct Ticket<'a> {
    device: &'a MemoryDevice,
    id: u64,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut inner = self.device.lock();
        let Some(operation) = inner.operations.get_mut(&self.id) else { return };
        operation.abandoned = true;
        operation.waker = None;
        if !matches!(operation.progress, Progress::Held) {
            inner.carry_out(self.id, &self.device.counters);
        }
    }
}

impl Inner {
    fn begin(
        &mut self,
        operation: Operation,
        offset: u64,
        payload: Payload,
        counters: &Counters,
    ) -> Result<u64, (Payload, io::Error)> {
        counters.begin(operation);
        let extent = Extent { offset, len: payload.len() };
        if let Err(error) = self.geometry.check(extent) {
            counters.refuse();
            return Err((payload, error));
        }
        let id = self.next_id;
        self.next_id += 1;
        let delay = self.shuffle.as_mut().map_or(0, |dice| dice.below(4));
        let progress = if self.holding { Progress::Held } else { Progress::Delayed(delay) };
        let held = Held { id, operation, extent };
        let fault = self.next_fault(operation);
        let in_flight = InFlight { held, payload, progress, fault, waker: None, abandoned: false };
        self.operations.insert(id, in_flight);
        Ok(id)
    }

    /// Counts the operation in every fault of its kind. Returns the error to inject, if any.
    fn next_fault(&mut self, operation: Operation) -> Option<io::ErrorKind> {
        let mut found = None;
        for fault in self.faults.iter_mut().filter(|fault| fault.operation == operation) {
            if fault.after > 0 {
                fault.after -= 1;
            } else if fault.times > 0 && found.is_none() {
                fault.times = if fault.times == u64::MAX { u64::MAX } else { fault.times - 1 };
                found = Some(fault.error);
            }
        }
        found
    }

    fn poll(
        &mut self,
        id: u64,
        context: &mut Context<'_>,
        counters: &Counters,
    ) -> Poll<(Payload, io::Result<()>)> {
        let operation = self.operations.get_mut(&id).expect("polled until done");
        match &mut operation.progress {
            Progress::Held => {
                operation.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            Progress::Delayed(polls) if *polls > 0 => {
                *polls -= 1;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Progress::Delayed(_) => self.carry_out(id, counters),
            Progress::Done(_) => {}
        }
        let operation = self.operations.remove(&id).expect("polled until done");
        match operation.progress {
            Progress::Done(result) => Poll::Ready((operation.payload, result)),
            _ => unreachable!("carried out above"),
        }
    }

    /// Performs the operation, unless it is done.
    fn carry_out(&mut self, id: u64, counters: &Counters) {
        let Some(mut operation) = self.operations.remove(&id) else { return };
        if !matches!(operation.progress, Progress::Done(_)) {
            let result = match operation.fault {
                Some(kind) => Err(io::Error::new(kind, "injected fault")),
                None => {
                    self.apply(operation.held.extent, &mut operation.payload);
                    Ok(())
                }
            };
            counters.end(operation.held.operation, operation.held.extent.len, &result);
            operation.progress = Progress::Done(result);
        }
        if !operation.abandoned {
            self.operations.insert(id, operation);
        }
    }

    fn apply(&mut self, extent: Extent, payload: &mut Payload) {
        match payload {
            Payload::Read(buf) => {
                self.live.read(extent.offset, buf);
                self.spoil(extent, buf);
            }
            Payload::Write(data) => {
                self.live.write(extent.offset, data);
                let number = self.written;
                self.written += 1;
                self.unflushed_bytes += extent.len;
                let write = Write { number, offset: extent.offset, data: data.clone() };
                self.unflushed.push_back(write);
                while self.unflushed_bytes > WRITE_CACHE {
                    self.persist_oldest();
                }
            }
            Payload::Flush(written) => {
                while self.unflushed.front().is_some_and(|write| write.number < *written) {
                    self.persist_oldest();
                }
            }
        }
    }

    fn persist_oldest(&mut self) {
        let Some(write) = self.unflushed.pop_front() else { return };
        self.unflushed_bytes -= write.data.len() as u64;
        self.durable.write(write.offset, &write.data);
    }

    fn spoil(&self, extent: Extent, buf: &mut [u8]) {
        for (damaged, mask) in &self.damage {
            let start = damaged.offset.max(extent.offset);
            let end = damaged.end().min(extent.end());
            for at in start..end.max(start) {
                buf[(at - extent.offset) as usize] ^= mask;
            }
        }
    }

    fn writes_in_flight(&self) -> impl Iterator<Item = Write> {
        self.operations.values().filter_map(|operation| match &operation.payload {
            Payload::Write(data) if !matches!(operation.progress, Progress::Done(_)) => {
                let offset = operation.held.extent.offset;
                Some(Write { number: u64::MAX, offset, data: data.clone() })
            }
            _ => None,
        })
    }
}

impl Payload {
    fn len(&self) -> u64 {
        match self {
            Payload::Read(buf) => buf.len() as u64,
            Payload::Write(data) => data.len() as u64,
            Payload::Flush(_) => 0,
        }
    }
}

/// SplitMix64, a small generator whose only state is the seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Applies the part of a write that survives without a flush to `image`: none, all, its first
    /// or last sectors, or any of its sectors.
    fn carry_out(&mut self, write: &Write, image: &mut Image) {
        let sectors = write.data.len().div_ceil(SECTOR);
        let cut = self.below(sectors as u64 + 1) as usize;
        let fate = self.below(8);
        for (index, bytes) in write.data.chunks(SECTOR).enumerate() {
            let survives = match fate {
                0..=1 => false,
                2..=3 => true,
                4..=5 => index < cut,
                6 => index >= cut,
                _ => self.below(2) == 0,
            };
            if survives {
                image.write(write.offset + (index * SECTOR) as u64, bytes);
            }
        }
    }
}

pub(crate) mod image;
#[cfg(test)]
mod tests;
