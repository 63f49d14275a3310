//! Reads: from the buffer, from the medium, or from reading ahead in progress.

use crate::drives::Operation;
use crate::drives::mechanical::MechanicalDrive;
use crate::drives::mechanical::media::{Arm, Pass};

impl MechanicalDrive {
    /// Serves a read at `start`; returns its completion time.
    pub(super) fn read(&mut self, start: f64, sector: u64, count: u64) -> f64 {
        let end = sector + count;
        self.advance(start);
        let found = match self.controller.caching {
            true => self.buffer.find(sector),
            false => None,
        };
        let done = match found {
            Some(segment) if segment.end >= end => self.read_buffered(start, sector, count),
            Some(segment) => self.read_partly(start, (sector, count), segment.end),
            None => self.read_medium(start, sector, count),
        };
        done + self.controller.overheads.read_completion
    }

    /// Serves a read that is entirely in the buffer.
    fn read_buffered(&mut self, start: f64, sector: u64, count: u64) -> f64 {
        let done = start
            + self.overhead(self.controller.overheads.read_hit)
            + count as f64 * self.controller.bus;
        let (request, heads) = ((sector, sector + count), (start.max(self.written), self.arm));
        self.buffer.read_on_after_hit(heads, request, done, &self.controller, &self.media);
        done
    }

    /// Serves a read whose sectors before `buffered` are in the buffer; the others come from the
    /// medium.
    fn read_partly(&mut self, start: f64, (sector, count): (u64, u64), buffered: u64) -> f64 {
        let ready = start + self.overhead(self.controller.overheads.read_hit);
        // Reading ahead at this sector continues; otherwise the arm has to come back.
        let (from, arm) = match self.buffer.ahead_at(buffered) {
            Some((from, arm)) => (from, arm),
            None => {
                let (delay, arm) = self.stop_reading_ahead(start);
                ((ready + delay).max(self.written), arm)
            }
        };
        self.transfer(ready, (from, arm), (sector, count), buffered)
    }

    /// Serves a read that misses the buffer.
    fn read_medium(&mut self, start: f64, sector: u64, count: u64) -> f64 {
        let ready = start + self.overhead(self.controller.overheads.read_miss);
        let (delay, arm) = self.stop_reading_ahead(start);
        let from = (ready + delay).max(self.written);
        self.transfer(ready, (from, arm), (sector, count), sector)
    }

    /// Brings reading ahead up to `start`.
    pub(super) fn advance(&mut self, start: f64) {
        if let Some(arm) = self.buffer.advance(start, &mut self.media) {
            self.arm = arm;
        }
    }

    /// Stops reading ahead, which must have been brought up to `start`. Returns the delay after
    /// `start` until the heads are free, and their position then.
    pub(super) fn stop_reading_ahead(&mut self, start: f64) -> (f64, Arm) {
        let in_sector = self.controller.stop_in_sector;
        let stopped = self.buffer.stop(start, in_sector, &self.media);
        stopped.map_or((0.0, self.arm), |(free, arm)| (free - start, arm))
    }

    /// Sends a request over the bus from `ready` on while the heads, free at `from`, fetch the
    /// sectors from `fetched` on. The heads read on afterwards.
    fn transfer(
        &mut self,
        ready: f64,
        (from, mut arm): (f64, Arm),
        (sector, count): (u64, u64),
        fetched: u64,
    ) -> f64 {
        let bus = self.controller.bus;
        let share = match self.controller.watermark_of_request {
            true => count as f64,
            false => self.controller.segment as f64,
        };
        let mark = ((share * self.controller.read_watermark).ceil() as u64).clamp(1, count);
        let mut buffered = fetched - sector;
        // The bus is used from here on, if the watermark was reached.
        let mut sent = ready;
        let mut marked = (buffered >= mark).then_some(ready);
        if marked.is_some() {
            sent += buffered as f64 * bus;
        }
        let mut heads = from;
        for run in self.media.geometry.runs(fetched, sector + count - fetched) {
            let passed = self.media.pass(heads, &mut arm, run, Pass::Read);
            heads = passed.end;
            let here = run.sectors as f64;
            if marked.is_some() {
                sent = (sent + here * bus)
                    .max(passed.begin + passed.sector + here * bus)
                    .max(passed.end + bus);
            } else if buffered + run.sectors >= mark {
                let reached = passed.begin + (mark - buffered) as f64 * passed.sector;
                marked = Some(reached);
                let all = (buffered + run.sectors) as f64;
                sent = (ready.max(reached) + all * bus).max(passed.end + bus);
            }
            buffered += run.sectors;
        }
        self.media.slip(sector + count - fetched);
        self.arm = arm;
        if self.controller.caching {
            let end = sector + count;
            self.buffer.put(sector, end);
            let (heads, request) = ((heads, arm), (sector, end));
            let goes_on = self.before == Operation::Read && self.before_end == sector;
            if goes_on || !self.controller.read_ahead_behind_reads {
                self.buffer.read_on(heads, request, sent, &self.controller, &self.media);
            }
        }
        sent
    }
}
