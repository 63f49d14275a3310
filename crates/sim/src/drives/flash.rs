//! Flash drives: dies behind channels, read in parallel; a write buffer that is programmed in the
//! background; erasures, and the delays that they cause for reads.
//!
//! A read occupies its die for the memory's read time, then the channel, then the bus. A write is
//! acknowledged when it is in the buffer, which drains page by page to the dies in turn; if the
//! buffer is full, the write waits for a page. A die erases after every block of pages. A read that
//! meets a program or an erasure suspends it, if the drive can, or waits for its end; it does not
//! wait for queued jobs.
//!
//! A part of the memory programs pages faster (one bit per cell). Writes use it up; it is regained
//! while the dies are idle.
//!
//! Not modelled: the relocation of live pages before an erasure. It is negligible for a store that
//! writes long runs through its space in turn, and otherwise depends on the fill of the drive.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use device::Nanos;
use serde_json::Value;

use crate::drives::{Drive, Operation, Request, SECTOR};
use bus::Line;

/// The shipped drives: name and data file.
const SHIPPED: &[(&str, &str)] = &[
    ("nvme_tlc", include_str!("flash/nvme_tlc.json")),
    ("sata_tlc", include_str!("flash/sata_tlc.json")),
];

/// Returns the names of the shipped flash drives.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// Returns the shipped flash drive `name`.
pub fn named(name: &str) -> Option<Flash> {
    let (_, text) = SHIPPED.iter().find(|(known, _)| *known == name)?;
    Parameters::read(text).ok().map(Flash::new)
}

/// Error of a data file that describes no flash drive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this does not describe a flash drive: {0}")]
pub struct BadFile(String);

/// Parameters of a flash drive. Times are in nanoseconds, rates in bytes per second.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// Maker and model.
    pub label: String,
    /// Number of addressable sectors.
    pub sectors: u64,
    /// Maximum number of concurrent requests.
    pub depth: usize,
    /// Channels between controller and memory.
    pub channels: usize,
    /// Dies per channel.
    pub dies_per_channel: usize,
    /// Bytes read or programmed at a time on one plane.
    pub page: u64,
    /// Pages that a die programs at a time.
    pub planes: u64,
    /// Pages erased at a time on one plane.
    pub pages_per_block: u64,
    /// Time to read a page from the cells into the die's register.
    pub read: Nanos,
    /// Time to program a page from the register into the cells, with all bits of a cell.
    pub program: Nanos,
    /// Time to program a page with one bit per cell.
    pub fast_program: Nanos,
    /// Bytes of memory that can take one bit per cell.
    pub fast: u64,
    /// Time to erase a block.
    pub erase: Nanos,
    /// Time to suspend a program or erasure for a read; 0: impossible.
    pub suspend: Nanos,
    /// Rate of a channel.
    pub channel_rate: u64,
    /// Rate of the bus between drive and host.
    pub bus_rate: u64,
    /// Overhead of each read.
    pub read_overhead: Nanos,
    /// Overhead of each write.
    pub write_overhead: Nanos,
    /// Time for which a read occupies the controller.
    pub command_read: Nanos,
    /// Time for which a write occupies the controller.
    pub command_write: Nanos,
    /// Size of the write buffer in bytes.
    pub buffer: u64,
    /// True if the buffer survives a power loss, so that a flush has nothing to wait for.
    pub protected: bool,
}

impl Parameters {
    /// Parses a data file: a JSON object with one member for each parameter. Times are in
    /// microseconds with the suffix `_us`, rates in megabytes per second with `_mb_s`.
    ///
    /// # Errors
    /// The member that is missing or out of range.
    pub fn read(text: &str) -> Result<Parameters, BadFile> {
        let file: Value = serde_json::from_str(text).map_err(|e| BadFile(e.to_string()))?;
        let number = |name: &str| {
            let value = file.get(name).and_then(Value::as_f64);
            let value = value.filter(|value| value.is_finite() && (0.0..1e15).contains(value));
            value.ok_or_else(|| BadFile(format!("{name} must be a number that is not negative")))
        };
        let time = |name: &str| number(name).map(|us| (us * 1e3).round() as Nanos);
        let rate = |name: &str| match number(name)? {
            0.0 => Err(BadFile(format!("{name} must be more than 0"))),
            rate => Ok((rate * 1e6) as u64),
        };
        let count = |name: &str| match number(name)? {
            count if count >= 1.0 && count.fract() == 0.0 => Ok(count as u64),
            _ => Err(BadFile(format!("{name} must be a whole number of at least 1"))),
        };
        let label = file.get("label").and_then(Value::as_str).unwrap_or("a flash drive");
        Ok(Parameters {
            label: label.to_owned(),
            sectors: count("sectors")?,
            depth: count("depth")? as usize,
            channels: count("channels")?.min(1 << 10) as usize,
            dies_per_channel: count("dies_per_channel")?.min(1 << 10) as usize,
            page: count("page_bytes")?.next_multiple_of(SECTOR),
            planes: count("planes")?,
            pages_per_block: count("pages_per_block")?,
            read: time("read_us")?,
            program: time("program_us")?,
            fast_program: time("fast_program_us")?,
            fast: number("fast_bytes")? as u64,
            erase: time("erase_us")?,
            suspend: time("suspend_us")?,
            channel_rate: rate("channel_mb_s")?,
            bus_rate: rate("bus_mb_s")?,
            read_overhead: time("read_overhead_us")?,
            write_overhead: time("write_overhead_us")?,
            command_read: time("command_read_us")?,
            command_write: time("command_write_us")?,
            buffer: count("buffer_bytes")?,
            protected: file.get("protected").and_then(Value::as_bool).unwrap_or(false),
        })
    }
}

/// A pending program or erasure of a die.
#[derive(Clone, Copy)]
struct Job {
    /// Earliest start.
    ready: Nanos,
    takes: Nanos,
    /// Bytes of the buffer that it frees.
    frees: u64,
}

#[derive(Default)]
struct Die {
    /// End of the current operation.
    free_at: Nanos,
    /// True if a read may suspend the current operation.
    yields: bool,
    jobs: VecDeque<Job>,
    /// Pages programmed since the last erasure.
    programmed: u64,
}

/// A flash drive in virtual time.
pub struct Flash {
    parameters: Parameters,
    dies: Vec<Die>,
    channels: Vec<Line>,
    bus: Line,
    controller_free: Nanos,
    buffered: u64,
    /// Completion times of the programs that have begun, with the bytes that they free.
    freed: BinaryHeap<Reverse<(Nanos, u64)>>,
    /// Bytes in the buffer that do not fill a page yet.
    open: u64,
    next_die: usize,
    fast_left: u64,
    /// Time of the last write.
    wrote_at: Nanos,
}

impl Flash {
    /// Returns an erased drive with these parameters.
    pub fn new(parameters: Parameters) -> Flash {
        let dies = parameters.channels * parameters.dies_per_channel;
        Flash {
            dies: (0..dies).map(|_| Die::default()).collect(),
            channels: (0..parameters.channels).map(|_| Line::default()).collect(),
            bus: Line::default(),
            controller_free: 0,
            buffered: 0,
            freed: BinaryHeap::new(),
            open: 0,
            next_die: 0,
            fast_left: parameters.fast,
            wrote_at: 0,
            parameters,
        }
    }

    /// Returns the drive's parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn command(&mut self, now: Nanos, takes: Nanos) -> Nanos {
        self.controller_free = self.controller_free.max(now) + takes;
        self.controller_free
    }

    fn over_the_bus(&mut self, now: Nanos, ready: Nanos, bytes: u64) -> Nanos {
        self.bus.book(now, ready, duration(bytes, self.parameters.bus_rate))
    }

    fn read(&mut self, now: Nanos, request: Request) -> Nanos {
        let begin = self.command(now, self.parameters.command_read) + self.parameters.read_overhead;
        let page = self.parameters.page;
        let (mut at, end) = (request.sector * SECTOR, (request.sector + request.sectors) * SECTOR);
        let mut done = begin;
        while at < end {
            let bytes = (page - at % page).min(end - at);
            let die = (at / page) as usize % self.dies.len();
            let channel = die % self.channels.len();
            let in_register = self.read_page(die, begin);
            let takes = duration(bytes, self.parameters.channel_rate);
            let moved = self.channels[channel].book(now, in_register, takes);
            self.dies[die].free_at = self.dies[die].free_at.max(moved);
            done = done.max(self.over_the_bus(now, moved, bytes));
            at += bytes;
        }
        done
    }

    /// Returns the time at which the page is in its die's register.
    fn read_page(&mut self, die: usize, now: Nanos) -> Nanos {
        self.advance(die, now);
        let Parameters { read, suspend, .. } = self.parameters;
        let die = &mut self.dies[die];
        let busy = die.free_at > now;
        if busy && die.yields && suspend > 0 && die.free_at - now > suspend {
            // The suspended operation continues afterwards.
            let rest = die.free_at - now - suspend;
            die.jobs.push_front(Job { ready: now, takes: rest, frees: 0 });
            die.free_at = now + suspend;
        }
        die.yields = false;
        die.free_at = die.free_at.max(now) + read;
        die.free_at
    }

    /// Starts all jobs that a die can have begun by `now`.
    fn advance(&mut self, die: usize, now: Nanos) {
        while let Some(job) = self.dies[die].jobs.front().copied() {
            if self.dies[die].free_at.max(job.ready) > now {
                return;
            }
            self.begin_job(die);
        }
    }

    /// Starts a die's next job; returns its end.
    fn begin_job(&mut self, number: usize) -> Option<Nanos> {
        let die = &mut self.dies[number];
        let job = die.jobs.pop_front()?;
        die.free_at = die.free_at.max(job.ready) + job.takes;
        die.yields = true;
        if job.frees > 0 {
            self.freed.push(Reverse((die.free_at, job.frees)));
        }
        Some(die.free_at)
    }

    fn write(&mut self, now: Nanos, request: Request) -> Nanos {
        let bytes = request.sectors * SECTOR;
        self.win_back(now);
        let begin = self.command(now, self.parameters.command_write);
        let sent = begin + self.parameters.write_overhead;
        let mut acknowledged = self.over_the_bus(now, sent, bytes);
        self.release(begin);
        // A request larger than the buffer passes through it in parts.
        let most = self.parameters.buffer.saturating_sub(bytes.min(self.parameters.buffer));
        while self.buffered - self.open.min(self.buffered) > 0 && self.buffered > most {
            match self.next_freed() {
                Some(at) => acknowledged = acknowledged.max(at),
                None => break,
            }
        }
        self.buffered += bytes;
        self.open += bytes;
        let unit = self.parameters.page * self.parameters.planes;
        while self.open >= unit {
            self.open -= unit;
            self.program(acknowledged, unit);
        }
        acknowledged
    }

    /// Queues a page of the buffer for the next die.
    fn program(&mut self, now: Nanos, frees: u64) {
        let unit = self.parameters.page * self.parameters.planes;
        let takes = if self.fast_left >= unit {
            self.fast_left -= unit;
            self.parameters.fast_program
        } else {
            self.parameters.program
        };
        let number = self.next_die;
        self.next_die = (number + 1) % self.dies.len();
        // The bytes cross the channel just before, between reads. The time is charged to the die.
        let moved = duration(unit, self.parameters.channel_rate);
        let die = &mut self.dies[number];
        die.jobs.push_back(Job { ready: now, takes: takes + moved, frees });
        die.programmed += 1;
        if die.programmed >= self.parameters.pages_per_block {
            die.programmed = 0;
            die.jobs.push_back(Job { ready: now, takes: self.parameters.erase, frees: 0 });
        }
        self.advance(number, now);
    }

    /// Removes from the buffer all bytes programmed by `now`.
    fn release(&mut self, now: Nanos) {
        for die in 0..self.dies.len() {
            self.advance(die, now);
        }
        while self.freed.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            self.next_freed();
        }
    }

    /// Waits until the next page of the buffer is programmed; returns that time.
    fn next_freed(&mut self) -> Option<Nanos> {
        while self.freed.is_empty() {
            let first = (0..self.dies.len())
                .filter(|die| !self.dies[*die].jobs.is_empty())
                .min_by_key(|die| self.dies[*die].free_at)?;
            self.begin_job(first);
        }
        let Reverse((at, bytes)) = self.freed.pop()?;
        self.buffered -= bytes.min(self.buffered);
        Some(at)
    }

    /// Regains fast pages: while no write came, the drive moved their contents to slow ones.
    fn win_back(&mut self, now: Nanos) {
        let idle = now.saturating_sub(self.wrote_at);
        self.wrote_at = now;
        if idle > 1_000_000_000 {
            let unit = self.parameters.page * self.parameters.planes;
            let rate =
                unit * self.dies.len() as u64 * 1_000 / (self.parameters.program / 1_000).max(1);
            let won = (u128::from(rate) * u128::from(idle) / 1_000_000_000) as u64;
            self.fast_left = self.fast_left.saturating_add(won).min(self.parameters.fast);
        }
    }

    /// Returns the time at which everything acknowledged is in the memory.
    fn flush(&mut self, now: Nanos) -> Nanos {
        let begin = self.command(now, self.parameters.command_write);
        if self.parameters.protected {
            return begin + self.parameters.write_overhead;
        }
        if self.open > 0 {
            let open = std::mem::take(&mut self.open);
            self.program(begin, open);
        }
        let mut done = begin + self.parameters.write_overhead;
        for die in 0..self.dies.len() {
            while let Some(job) = self.dies[die].jobs.front().copied() {
                if job.frees == 0 {
                    // An erasure that frees no bytes can wait.
                    let behind = self.dies[die].jobs.iter().any(|job| job.frees > 0);
                    if !behind {
                        break;
                    }
                }
                self.begin_job(die);
            }
        }
        while let Some(Reverse((at, _))) = self.freed.peek().copied() {
            done = done.max(at);
            self.next_freed();
        }
        done
    }
}

impl Drive for Flash {
    fn sectors(&self) -> u64 {
        self.parameters.sectors
    }

    fn depth(&self) -> usize {
        self.parameters.depth
    }

    fn serve(&mut self, now: Nanos, request: Request) -> Nanos {
        match request.operation {
            Operation::Read => self.read(now, request),
            Operation::Write => self.write(now, request),
            Operation::Flush => self.flush(now),
        }
    }
}

/// Returns the nanoseconds that `bytes` take at `rate` bytes per second.
fn duration(bytes: u64, rate: u64) -> Nanos {
    (u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as Nanos
}

pub(crate) mod bus;
#[cfg(test)]
mod tests;
