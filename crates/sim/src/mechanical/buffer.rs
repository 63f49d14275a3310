//! The on-board cache: segments of sectors that were read, read ahead or written.

use crate::mechanical::controller::{Controller, ReadAhead};
use crate::mechanical::media::{Arm, Media, Pass};

/// The segments of a drive's buffer.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    /// By last use, the latest last.
    segments: Vec<Segment>,
    most: usize,
    size: u64,
    /// What is being read ahead into the segment used last.
    ahead: Option<Ahead>,
}

/// Sectors in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The first.
    pub begin: u64,
    /// Behind the last.
    pub end: u64,
}

/// Reading ahead that goes on.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    /// When the heads may go on, and where they are.
    from: f64,
    arm: Arm,
    /// The next sector, and the one at which it ends.
    next: u64,
    limit: u64,
}

impl Buffer {
    pub(crate) fn new(controller: &Controller) -> Buffer {
        Buffer {
            segments: Vec::new(),
            most: controller.segments as usize,
            size: controller.segment,
            ahead: None,
        }
    }

    /// Brings what is read ahead up to `now`. With `stop`, it ends there, at the end of the sector
    /// under the heads unless `in_sector`; returns when and where the heads are free.
    pub(crate) fn advance(
        &mut self,
        now: f64,
        media: &mut Media,
        stop: Option<bool>,
    ) -> Option<(f64, Arm)> {
        let mut ahead = self.ahead?;
        let begun = ahead.next;
        let mut free = now;
        while ahead.next < ahead.limit {
            let run = media.geometry.runs(ahead.next, ahead.limit - ahead.next).next()?;
            let mut arm = ahead.arm;
            let passed = media.pass(ahead.from, &mut arm, run, Pass::Read);
            if passed.end <= now {
                ahead = Ahead {
                    from: passed.end,
                    arm,
                    next: ahead.next + run.sectors,
                    limit: ahead.limit,
                };
                continue;
            }
            // Within the run: whole sectors count. Whoever stops at the end of a sector does so even
            // if the heads are still on their way to it.
            let mut whole = ((now - passed.begin) / passed.sector).floor().max(0.0);
            if stop == Some(false) {
                whole += 1.0;
                free = passed.begin + whole * passed.sector;
            }
            if whole > 0.0 {
                ahead.next += (whole as u64).min(run.sectors);
                ahead.from = passed.begin + whole * passed.sector;
                ahead.arm = arm;
            }
            break;
        }
        media.slip(ahead.next - begun);
        if let Some(segment) = self.segments.last_mut() {
            segment.end = segment.end.max(ahead.next);
            segment.begin = segment.begin.max(segment.end.saturating_sub(self.size));
        }
        let at = (free, ahead.arm);
        let done = ahead.next >= ahead.limit;
        self.ahead = if stop.is_some() || done { None } else { Some(ahead) };
        Some(at)
    }

    /// When the heads can go on reading at `sector` without having left it, and where they are.
    pub(crate) fn ahead_at(&self, sector: u64) -> Option<(f64, Arm)> {
        let ahead = self.ahead?;
        (ahead.next == sector).then_some((ahead.from, ahead.arm))
    }

    /// The sectors from `sector` on that are in the buffer. The segment counts as used.
    pub(crate) fn find(&mut self, sector: u64) -> Option<Segment> {
        let found = |segment: &Segment| segment.begin <= sector && sector < segment.end;
        let index = self.segments.iter().rposition(found)?;
        Some(self.segments[index])
    }

    /// Puts `begin` to `end` into the buffer as the segment used last: into the one that they
    /// follow on, else into that which was not used for the longest time.
    pub(crate) fn put(&mut self, begin: u64, end: u64) {
        let follows = |segment: &Segment| segment.begin <= begin && begin <= segment.end;
        let mut taken = Segment { begin, end };
        if let Some(index) = self.segments.iter().rposition(follows) {
            let old = self.segments.remove(index);
            taken = Segment { begin: old.begin, end: end.max(old.end) };
        } else if self.segments.len() >= self.most {
            self.segments.remove(0);
        }
        taken.begin = taken.begin.max(taken.end.saturating_sub(self.size));
        self.segments.push(taken);
    }

    /// Forgets `begin` to `end`: they are about to be written.
    pub(crate) fn forget(&mut self, begin: u64, end: u64) {
        self.segments.retain_mut(|segment| {
            if segment.begin < end && begin < segment.end {
                match segment.begin < begin {
                    true => segment.end = begin,
                    false => segment.begin = end,
                }
            }
            segment.begin < segment.end
        });
    }

    /// From `from` on the heads at `arm` read on behind the request `begin` to `end`, which lies in
    /// the segment used last.
    pub(crate) fn read_on(
        &mut self,
        (from, arm): (f64, Arm),
        (begin, end): (u64, u64),
        controller: &Controller,
        media: &Media,
    ) {
        let room = match controller.read_ahead_over_requested {
            true => self.size,
            false => self.size.saturating_sub(end - begin),
        };
        let most = room.min(controller.read_ahead_most);
        let limit = (end + most).min(media.geometry.sectors());
        let limit = match controller.read_ahead {
            ReadAhead::None => return,
            ReadAhead::Segment => limit,
            ReadAhead::Track => media.track_end(end - 1, limit),
            ReadAhead::Cylinder => media.cylinder_end(end - 1, limit),
        };
        if let Some(segment) = self.segments.last() {
            let next = segment.end.max(end);
            self.ahead = (next < limit).then_some(Ahead { from, arm, next, limit });
        }
    }

    /// Lets what is being read ahead go on as far as a request for `begin` to `end` allows.
    pub(crate) fn extend(&mut self, request: (u64, u64), controller: &Controller, media: &Media) {
        if let Some(ahead) = self.ahead {
            self.read_on((ahead.from, ahead.arm), request, controller, media);
            if let Some(extended) = &mut self.ahead {
                extended.next = ahead.next;
                extended.limit = extended.limit.max(ahead.limit);
            } else {
                self.ahead = Some(ahead);
            }
        }
    }
}
