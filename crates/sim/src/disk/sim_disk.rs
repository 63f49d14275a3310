//! A disk in virtual time: a [`Device`] whose operations take the time that a [`Drive`] computes.
//!
//! The disk has the host's queue and two images of its contents: *live*, which reads return, and
//! *durable*, which survives a power loss and is brought up to date by flushes. Its [`FaultPlan`]
//! can fail operations, misplace writes, damage bytes at rest, slow the disk down, or make it
//! disappear.
//!
//! Guarantees: a write changes the contents at the moment of its acknowledgement, and a read
//! returns the contents at the moment of its own. An operation that has begun completes even if its
//! future is dropped. All results follow from the calls and the seeds.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Poll, Waker};

use device::{Clock, Counts, Device, Extent, FrozenBuf, Geometry, IoBuf, Nanos, Operation};
use fastrand::Rng;

use crate::disk::contents::Contents;
use crate::disk::fault_plan::{FaultPlan, Seen, Verdict};
use crate::disk::host_queue::{HostQueue, Order};
use crate::drives;
use crate::drives::{Drive, Request, SECTOR};
use crate::time::executor::{Handle, Happening};

/// Unflushed bytes above which the oldest writes become durable without a flush, as in a drive
/// whose write cache is full.
const WRITE_CACHE: u64 = 64 << 20;

/// Options of a disk.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Block size in bytes to which the host must align: 512 or 4096.
    pub block: u32,
    /// Offset on the drive of the device's first byte; a multiple of the block.
    pub start: u64,
    /// Length of the device in bytes; `None`: the rest of the drive from `start` on.
    pub len: Option<u64>,
    /// The order in which the drive receives waiting requests.
    pub order: Order,
    /// Tracks durability, which [`SimDisk::crash_power`] needs.
    pub power_loss: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { block: 512, start: 0, len: None, order: Order::Fifo, power_loss: true }
    }
}

/// A simulated disk. A clone is another handle on the same disk.
#[derive(Clone)]
pub struct SimDisk {
    inner: Rc<Inner>,
}

struct Inner {
    handle: Handle,
    state: RefCell<State>,
}

struct State {
    drive: Box<dyn Drive>,
    geometry: Geometry,
    /// First sector on the drive.
    start: u64,
    live: Contents,
    /// `None` when durability is not tracked.
    durable: Option<Contents>,
    /// Writes that are in `live` but not yet in `durable`, oldest first.
    unflushed: VecDeque<Write>,
    unflushed_bytes: u64,
    /// Number of writes carried out so far; counted only if durability is tracked.
    written: u64,
    queue: HostQueue,
    /// Number of requests that the drive is working on.
    serving: usize,
    operations: Vec<Option<InFlight>>,
    free: Vec<u32>,
    plan: FaultPlan,
    seen: Seen,
    /// Number of writes that landed elsewhere.
    astray: u64,
    /// Bytes at rest changed by faults.
    damage: Vec<Extent>,
    counts: Counts,
    /// Total nanoseconds that requests spent in the drive.
    service: u64,
}

struct Write {
    number: u64,
    offset: u64,
    data: FrozenBuf,
}

struct InFlight {
    operation: Operation,
    extent: Extent,
    payload: Payload,
    verdict: Verdict,
    done: Option<io::Result<()>>,
    waker: Option<Waker>,
    /// True if the future was dropped, so that the result is not needed.
    abandoned: bool,
}

enum Payload {
    Read(IoBuf),
    Write(FrozenBuf),
    /// Number of writes carried out when the flush began: the writes that it makes durable.
    Flush(u64),
}

impl SimDisk {
    /// Returns a disk of zeros on `drive`, in the virtual time of `handle`.
    pub fn new(handle: Handle, drive: Box<dyn Drive>, options: Options) -> SimDisk {
        SimDisk::with_contents(handle, drive, options, Contents::new())
    }

    /// Returns a disk that holds `contents`, all of it durable.
    ///
    /// # Panics
    /// When the options do not fit the drive.
    pub fn with_contents(
        handle: Handle,
        drive: Box<dyn Drive>,
        options: Options,
        contents: Contents,
    ) -> SimDisk {
        let block = u64::from(options.block);
        let room = (drive.sectors() * SECTOR).saturating_sub(options.start) / block * block;
        let len = options.len.unwrap_or(room);
        assert!(options.block.is_power_of_two() && block >= SECTOR, "a block is whole sectors");
        assert!(len <= room, "the drive has {room} bytes from {} on, not {len}", options.start);
        assert!(len.is_multiple_of(block) && options.start.is_multiple_of(block), "whole blocks");
        let state = State {
            drive,
            geometry: Geometry { len, block: options.block },
            start: options.start / SECTOR,
            durable: options.power_loss.then(|| contents.clone()),
            live: contents,
            unflushed: VecDeque::new(),
            unflushed_bytes: 0,
            written: 0,
            queue: HostQueue::new(options.order),
            serving: 0,
            operations: Vec::new(),
            free: Vec::new(),
            plan: FaultPlan::none(),
            seen: Seen::default(),
            astray: 0,
            damage: Vec::new(),
            counts: Counts::default(),
            service: 0,
        };
        SimDisk { inner: Rc::new(Inner { handle, state: RefCell::new(state) }) }
    }

    /// Puts `plan` in force and resets the operation counts.
    pub fn set_plan(&self, plan: FaultPlan) {
        let mut state = self.inner.state.borrow_mut();
        state.plan = plan;
        state.seen = Seen::default();
    }

    /// Returns the contents as found after the process is killed at this moment: all completed
    /// writes, and an arbitrary part, chosen by `seed`, of the writes in flight. Each of the latter
    /// may be torn between blocks. The disk itself does not change.
    pub fn crash_process(&self, seed: u64) -> Contents {
        let state = self.inner.state.borrow();
        let mut contents = state.live.clone();
        let mut random = Rng::with_seed(seed);
        state.writes_in_flight(|offset, data| {
            tear(&mut random, state.geometry, offset, data, &mut contents);
        });
        contents
    }

    /// Returns the contents as found after a power loss at this moment: all flushed writes, and an
    /// arbitrary part, chosen by `seed`, of the others and of those in flight. Each of these may be
    /// torn between blocks. The disk itself does not change.
    ///
    /// # Panics
    /// When the disk was made without [`Options::power_loss`].
    pub fn crash_power(&self, seed: u64) -> Contents {
        let state = self.inner.state.borrow();
        let mut contents = state.durable.clone().expect("the disk keeps track of durability");
        let mut random = Rng::with_seed(seed);
        for write in &state.unflushed {
            tear(&mut random, state.geometry, write.offset, &write.data, &mut contents);
        }
        state.writes_in_flight(|offset, data| {
            tear(&mut random, state.geometry, offset, data, &mut contents);
        });
        contents
    }

    /// Extends the device, like a file that grew, within the drive's capacity.
    ///
    /// # Panics
    /// When it would become shorter, or longer than the drive.
    pub fn grow(&self, len: u64) {
        let mut state = self.inner.state.borrow_mut();
        let room = (state.drive.sectors() - state.start) * SECTOR;
        assert!(len >= state.geometry.len && len <= room, "{len} of {room} bytes");
        state.geometry.len = len;
    }

    /// Returns the live bytes of `extent`, at any alignment. No faults apply.
    pub fn peek(&self, extent: Extent) -> Vec<u8> {
        let mut bytes = vec![0; extent.len as usize];
        self.inner.state.borrow().live.read(extent.offset, &mut bytes);
        bytes
    }

    /// Overwrites bytes at rest in both images, at any alignment.
    pub fn poke(&self, offset: u64, bytes: &[u8]) {
        self.inner.state.borrow_mut().poke(offset, bytes);
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        self.inner.state.borrow().counts
    }

    /// Returns the nanoseconds that the drive was busy; concurrent requests are summed.
    pub fn service_time(&self) -> u64 {
        self.inner.state.borrow().service
    }

    /// Returns the number of writes that landed elsewhere so far.
    pub fn astray(&self) -> u64 {
        self.inner.state.borrow().astray
    }

    /// Returns the bytes at rest that faults changed so far: damage and misdirected writes.
    pub fn damage(&self) -> Vec<Extent> {
        self.inner.state.borrow().damage.clone()
    }

    /// Returns the number of requests that wait for the drive.
    pub fn queued(&self) -> usize {
        self.inner.state.borrow().queue.len()
    }

    /// Returns the number of 4 KiB pages of contents that take memory.
    pub fn pages(&self) -> usize {
        self.inner.state.borrow().live.pages()
    }

    async fn perform(
        &self,
        operation: Operation,
        offset: u64,
        payload: Payload,
    ) -> (Payload, io::Result<()>) {
        let begun = self.inner.state.borrow_mut().begin(operation, offset, payload);
        let slot = match begun {
            Ok(slot) => slot,
            Err((payload, error)) => return (payload, Err(error)),
        };
        Inner::enqueue(&self.inner, slot);
        let ticket = Ticket { inner: &self.inner, slot };
        poll_fn(|context| {
            let mut state = ticket.inner.state.borrow_mut();
            let entry = &mut state.operations[slot as usize];
            let in_flight = entry.as_mut().expect("polled until done");
            if in_flight.done.is_none() {
                in_flight.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            let in_flight = entry.take().expect("polled until done");
            state.free.push(slot);
            Poll::Ready((in_flight.payload, in_flight.done.expect("it is done")))
        })
        .await
    }
}

impl Device for SimDisk {
    fn geometry(&self) -> Geometry {
        self.inner.state.borrow().geometry
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
        let written = self.inner.state.borrow().written;
        self.perform(Operation::Flush, 0, Payload::Flush(written)).await.1
    }
}

/// A future's claim on its operation. If it is dropped early, the operation continues without it.
struct Ticket<'a> {
    inner: &'a Inner,
    slot: u32,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut state = self.inner.state.borrow_mut();
        // The slot may already belong to another operation. `perform` frees its slot only as its
        // last act, so only a future that is dropped early finds its own operation here.
        let Some(in_flight) = state.operations[self.slot as usize].as_mut() else { return };
        let dropped = match in_flight.done {
            Some(_) => {
                let in_flight = state.operations[self.slot as usize].take();
                state.free.push(self.slot);
                in_flight
            }
            None => {
                in_flight.abandoned = true;
                in_flight.waker = None;
                None
            }
        };
        drop(state);
        drop(dropped);
    }
}

impl Inner {
    /// Queues an operation and lets the drive start as many requests as it can.
    fn enqueue(self: &Rc<Self>, slot: u32) {
        let mut state = self.state.borrow_mut();
        let in_flight = state.operations[slot as usize].as_ref().expect("just begun");
        if in_flight.verdict.halt {
            self.handle.halt();
        }
        let position = match in_flight.operation {
            Operation::Flush => None,
            _ => Some(state.start + in_flight.extent.offset / SECTOR),
        };
        state.queue.push(position, slot);
        self.dispatch(&mut state);
    }

    fn dispatch(self: &Rc<Self>, state: &mut State) {
        let now = self.handle.now();
        while state.serving < state.drive.depth() {
            let Some((slot, done)) = state.serve_next(now) else { return };
            state.serving += 1;
            self.handle.schedule(done, Rc::clone(self) as Rc<dyn Happening>, u64::from(slot));
        }
    }
}

impl Happening for Inner {
    /// Completes the operation in a slot.
    fn happen(self: Rc<Self>, argument: u64) {
        let mut state = self.state.borrow_mut();
        let slot = argument as u32;
        state.serving -= 1;
        let Some(mut in_flight) = state.operations[slot as usize].take() else { return };
        let result = match in_flight.verdict.error {
            Some(kind) => Err(io::Error::new(kind, "a fault of the simulation")),
            None => {
                state.apply(&mut in_flight);
                Ok(())
            }
        };
        state.count_end(&in_flight, &result);
        let kind = in_flight.operation as u64 + 1;
        self.handle.note((kind << 62) ^ (in_flight.extent.offset << 12) ^ in_flight.extent.len);
        in_flight.done = Some(result);
        let waker = in_flight.waker.take();
        let dropped = if in_flight.abandoned {
            state.free.push(slot);
            Some(in_flight)
        } else {
            state.operations[slot as usize] = Some(in_flight);
            None
        };
        self.dispatch(&mut state);
        drop(state);
        drop(dropped);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl State {
    fn begin(
        &mut self,
        operation: Operation,
        offset: u64,
        payload: Payload,
    ) -> Result<u32, (Payload, io::Error)> {
        match operation {
            Operation::Read => self.counts.reads += 1,
            Operation::Write => self.counts.writes += 1,
            Operation::Flush => self.counts.flushes += 1,
        }
        let len = match &payload {
            Payload::Read(buf) => buf.len() as u64,
            Payload::Write(buf) => buf.len() as u64,
            Payload::Flush(_) => 0,
        };
        let extent = Extent { offset, len };
        if let Err(error) = self.geometry.check(extent) {
            self.counts.errors += 1;
            return Err((payload, error));
        }
        self.counts.in_flight += 1;
        let verdict = self.plan.judge(&mut self.seen, operation);
        if let Some((extent, mask)) = verdict.rot {
            self.rot(extent, mask);
        }
        let in_flight = InFlight {
            operation,
            extent,
            payload,
            verdict,
            done: None,
            waker: None,
            abandoned: false,
        };
        Ok(match self.free.pop() {
            Some(slot) => {
                self.operations[slot as usize] = Some(in_flight);
                slot
            }
            None => {
                self.operations.push(Some(in_flight));
                (self.operations.len() - 1) as u32
            }
        })
    }

    /// Hands the next request to the drive; returns its slot and completion time.
    fn serve_next(&mut self, now: Nanos) -> Option<(u32, Nanos)> {
        let operations = &self.operations;
        let sectors_of = |slot: u32| {
            operations[slot as usize].as_ref().map_or(0, |entry| entry.extent.len / SECTOR)
        };
        let slot = self.queue.pop(sectors_of)?;
        let in_flight = self.operations[slot as usize].as_ref()?;
        let operation = match in_flight.operation {
            Operation::Read => drives::Operation::Read,
            Operation::Write => drives::Operation::Write,
            Operation::Flush => drives::Operation::Flush,
        };
        let request = Request {
            operation,
            sector: self.start + in_flight.extent.offset / SECTOR,
            sectors: in_flight.extent.len / SECTOR,
        };
        let done = self.drive.serve(now, request).max(now) + in_flight.verdict.slower;
        self.service += done - now;
        Some((slot, done))
    }

    fn count_end(&mut self, in_flight: &InFlight, result: &io::Result<()>) {
        self.counts.in_flight -= 1;
        match (result, in_flight.operation) {
            (Err(_), _) => self.counts.errors += 1,
            (Ok(()), Operation::Read) => self.counts.bytes_read += in_flight.extent.len,
            (Ok(()), Operation::Write) => self.counts.bytes_written += in_flight.extent.len,
            (Ok(()), Operation::Flush) => {}
        }
    }

    fn apply(&mut self, in_flight: &mut InFlight) {
        let Extent { offset, len } = in_flight.extent;
        match &mut in_flight.payload {
            Payload::Read(buf) => self.live.read(offset, buf),
            Payload::Write(data) => {
                let room = self.geometry.len - len + u64::from(self.geometry.block);
                let offset = match in_flight.verdict.astray {
                    0 => offset,
                    by => {
                        self.astray += 1;
                        let offset = (offset + by) % room;
                        self.damage.push(Extent { offset, len });
                        offset
                    }
                };
                self.live.write(offset, data);
                if self.durable.is_none() {
                    return;
                }
                let number = self.written;
                self.written += 1;
                self.unflushed_bytes += len;
                self.unflushed.push_back(Write { number, offset, data: data.clone() });
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
        if let Some(durable) = &mut self.durable {
            durable.write(write.offset, &write.data);
        }
    }

    /// Changes bytes at rest in both images.
    fn rot(&mut self, extent: Extent, mask: u8) {
        self.damage.push(extent);
        for contents in std::iter::once(&mut self.live).chain(self.durable.as_mut()) {
            let mut bytes = vec![0; extent.len as usize];
            contents.read(extent.offset, &mut bytes);
            bytes.iter_mut().for_each(|byte| *byte ^= mask);
            contents.write(extent.offset, &bytes);
        }
    }

    fn poke(&mut self, offset: u64, bytes: &[u8]) {
        self.live.write(offset, bytes);
        if let Some(durable) = &mut self.durable {
            durable.write(offset, bytes);
        }
    }

    /// Calls `f` with the offset and bytes of every write in flight.
    fn writes_in_flight(&self, mut f: impl FnMut(u64, &FrozenBuf)) {
        for in_flight in self.operations.iter().flatten() {
            let failed = in_flight.verdict.error.is_some() || in_flight.verdict.astray > 0;
            if let (Payload::Write(data), None, false) =
                (&in_flight.payload, &in_flight.done, failed)
            {
                f(in_flight.extent.offset, data);
            }
        }
    }
}

/// Applies to `contents` the part of a non-durable write that survives: none, all, its first or
/// last blocks, or an arbitrary subset of its blocks.
fn tear(random: &mut Rng, geometry: Geometry, offset: u64, data: &[u8], contents: &mut Contents) {
    let block = geometry.block as usize;
    let blocks = data.len() / block;
    let cut = random.usize(..=blocks);
    let fate = random.u8(..8);
    for (index, bytes) in data.chunks(block).enumerate() {
        let survives = match fate {
            0..=1 => false,
            2..=3 => true,
            4..=5 => index < cut,
            6 => index >= cut,
            _ => random.bool(),
        };
        if survives {
            contents.write(offset + (index * block) as u64, bytes);
        }
    }
}

#[cfg(test)]
mod tests;
