//! Writes: acknowledged from the medium or, earlier, from the buffer.

use crate::mechanical::media::Pass;
use crate::mechanical::{FastWrite, MechanicalDrive};

impl MechanicalDrive {
    /// Serves a write at `start` and returns when it is acknowledged.
    pub(super) fn write(&mut self, start: f64, sector: u64, count: u64) -> f64 {
        let (free, arm) = self.stop_reading_ahead(start);
        self.arm = arm;
        self.buffer.forget(sector, sector + count);
        let done = match self.controller.fast_write {
            FastWrite::Never => self.write_through(start.max(free), start, (sector, count)),
            FastWrite::Always => self.write_buffered(free, start, (sector, count)),
        };
        if self.controller.caching && self.controller.read_written {
            self.buffer.put(sector, sector + count);
        }
        done + self.controller.overheads.write_completion
    }

    /// To the medium while the host waits. The first sector comes over the bus before, the others
    /// meanwhile.
    fn write_through(&mut self, free: f64, start: f64, sectors: (u64, u64)) -> f64 {
        let ready = start + self.overhead(self.controller.overheads.write_miss);
        let from = (ready + self.controller.bus).max(free).max(self.written);
        self.written = self.media.pass_all(from, &mut self.arm, sectors, Pass::Write);
        self.written
    }

    /// Into the buffer; the heads set out at once.
    fn write_buffered(&mut self, free: f64, start: f64, sectors: (u64, u64)) -> f64 {
        let ready = start + self.overhead(self.controller.overheads.write_hit);
        let from = ready.max(free).max(self.written);
        self.written = self.media.pass_all(from, &mut self.arm, sectors, Pass::Write);
        from + sectors.1 as f64 * self.controller.bus
    }
}
