//! Writes: acknowledged from the medium or, earlier, from the buffer.
//!
//! Sectors reach the medium in order, and none before it has come over the bus. If the bus is
//! slower than the medium, the heads run out of data and wait for a rotation. Sequential writes
//! enter the buffer as long as there is room, while earlier ones are still being written.

use std::collections::VecDeque;

use crate::drives::mechanical::media::{Media, Pass, Passed};
use crate::drives::mechanical::{FastWrite, MechanicalDrive};

/// Sectors that were acknowledged and have yet to be written.
#[derive(Clone, Debug, Default)]
pub(super) struct Unwritten {
    /// Runs of sectors that pass under the heads without a gap, by time.
    pieces: VecDeque<Piece>,
    /// The sector after the last.
    end: u64,
    /// True if all of them lie on the track of the last one.
    one_track: bool,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    begin: f64,
    sector: f64,
    sectors: u64,
}

impl Unwritten {
    /// Returns the number of sectors not yet on the medium at `now`, and drops those that are.
    fn left(&mut self, now: f64) -> u64 {
        let ended = |piece: &Piece| piece.begin + piece.sectors as f64 * piece.sector <= now;
        while self.pieces.front().is_some_and(ended) {
            self.pieces.pop_front();
        }
        let left = |piece: &Piece| {
            let done = ((now - piece.begin) / piece.sector).max(0.0) as u64;
            piece.sectors.saturating_sub(done)
        };
        self.pieces.iter().map(left).sum()
    }

    /// Adds the run `passed`, which follows `before` sectors of the request; returns the time at
    /// which its last sector is written.
    fn add(&mut self, media: &Media, passed: Passed, supply: Supply, before: u64) -> f64 {
        let Passed { run, mut begin, sector, .. } = passed;
        let slower = supply.bus - sector;
        let mut written = 0;
        loop {
            // Sectors before the first one for which the heads come too early, if any.
            let spare = begin - supply.arrived(before + written + 1);
            let short = match () {
                () if spare < 0.0 => written,
                () if slower > 0.0 => written + 1 + (spare / slower) as u64,
                () => run.sectors,
            };
            let sectors = short.min(run.sectors) - written;
            if sectors > 0 {
                self.pieces.push_back(Piece { begin, sector, sectors });
            }
            begin += sectors as f64 * sector;
            written += sectors;
            if written == run.sectors {
                return begin + (run.span - run.sectors) as f64 * sector;
            }
            let missing = supply.arrived(before + written + 1) - begin;
            begin += media.rotations_over(missing);
        }
    }
}

/// Data that comes over the bus from `from` on, at `bus` milliseconds per sector.
#[derive(Clone, Copy, Debug)]
struct Supply {
    from: f64,
    bus: f64,
}

impl Supply {
    /// Returns the time at which the first `sectors` have arrived.
    fn arrived(self, sectors: u64) -> f64 {
        self.from + sectors as f64 * self.bus
    }
}

impl MechanicalDrive {
    /// Serves a write at `start`; returns the time of its acknowledgement.
    pub(super) fn write(&mut self, start: f64, sector: u64, count: u64) -> f64 {
        // A write goes to the buffer first, so it does not wait for reading ahead.
        self.advance(start);
        let (_, arm) = self.stop_reading_ahead(start);
        self.arm = arm;
        self.buffer.forget(sector, sector + count);
        let done = match self.controller.fast_write {
            FastWrite::Never => self.write_through(start, (sector, count)),
            FastWrite::Always => self.write_buffered(start, (sector, count)),
        };
        if self.controller.caching && self.controller.read_written {
            self.buffer.put(sector, sector + count);
        }
        done + self.controller.overheads.write_completion
    }

    /// Writes to the medium while the host waits.
    fn write_through(&mut self, start: f64, sectors: (u64, u64)) -> f64 {
        let ready = start + self.overhead(self.controller.overheads.write_miss);
        let supply = Supply { from: ready, bus: self.controller.bus };
        let from = supply.arrived(1).max(self.written);
        self.put_on_medium(from, supply, sectors, false);
        self.unwritten.pieces.clear();
        self.written
    }

    /// Writes into the buffer; the heads start at once.
    fn write_buffered(&mut self, start: f64, (sector, count): (u64, u64)) -> f64 {
        let ready = start + self.overhead(self.controller.overheads.write_hit);
        let left = self.unwritten.left(ready);
        let follows = self.controller.combine_writes && sector == self.unwritten.end;
        let room = left + count <= self.controller.segment;
        let bus = self.controller.bus;
        if left > 0 && follows && room {
            let supply = Supply { from: ready, bus };
            let mut from = self.written;
            // Sectors on the track of the current pass join it. Otherwise a new pass is set up
            // behind that one, too late for the next sector.
            let joins = self.unwritten.one_track && self.media.is_on_track(self.arm, sector, count);
            if !joins {
                from += self.media.just_missed();
            }
            self.put_on_medium(from, supply, (sector, count), !joins);
            return supply.arrived(count);
        }
        let from = ready.max(self.written);
        self.unwritten.pieces.clear();
        self.unwritten.one_track = true;
        let supply = Supply { from, bus };
        self.put_on_medium(from, supply, (sector, count), false);
        supply.arrived(count)
    }

    /// Writes sectors from `from` on as they are supplied. A pass that `follows` another is set up
    /// anew on each cylinder, too late for the next sector.
    fn put_on_medium(
        &mut self,
        from: f64,
        supply: Supply,
        (sector, count): (u64, u64),
        follows: bool,
    ) {
        let mut heads = from;
        let mut before = 0;
        let mut tracks = 0;
        for run in self.media.geometry.runs(sector, count) {
            let again = follows && tracks > 0 && self.arm.cylinder != run.cylinder;
            let mut passed = self.media.pass(heads, &mut self.arm, run, Pass::Write);
            if again {
                passed.begin += self.media.rotation();
            }
            heads = self.unwritten.add(&self.media, passed, supply, before);
            before += run.sectors;
            tracks += 1;
        }
        self.media.slip(count);
        self.written = heads;
        self.unwritten.end = sector + count;
        self.unwritten.one_track &= tracks == 1;
    }
}
