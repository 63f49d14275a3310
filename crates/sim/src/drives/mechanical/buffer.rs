//! The on-board cache: segments of sectors that were read, read ahead or written.

use crate::drives::mechanical::controller::{Controller, ReadAhead};
use crate::drives::mechanical::media::{Arm, Media, Pass, Passed};

#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    /// Segments, the most recently used last.
    segments: Vec<Segment>,
    most: usize,
    size: u64,
    /// The read-ahead into the most recently used segment.
    ahead: Option<Ahead>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub begin: u64,
    /// The sector after the last.
    pub end: u64,
}

/// Reading ahead that is in progress, or waits for room at its limit.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    /// Time at which the heads may continue, and their position.
    from: f64,
    arm: Arm,
    /// The next sector, and the sector at which reading ahead ends.
    next: u64,
    limit: u64,
    /// End of the request being served; until then no boundary stops reading ahead.
    busy: f64,
    bound: ReadAhead,
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

    /// Brings reading ahead up to `now`; returns the position of the heads.
    pub(crate) fn advance(&mut self, now: f64, media: &mut Media) -> Option<Arm> {
        let mut ahead = self.ahead?;
        let begun = ahead.next;
        let mut goes_on = true;
        while let Some(passed) = ahead.coming(media) {
            if passed.end > now {
                let whole = ((now - passed.begin) / passed.sector).floor();
                ahead.take(&passed, whole.max(0.0) as u64);
                break;
            }
            ahead.take(&passed, passed.run.sectors);
            if ahead.ends_here() {
                goes_on = false;
                break;
            }
        }
        media.slip(ahead.next - begun);
        self.filled(ahead.next);
        self.ahead = goes_on.then_some(ahead);
        Some(ahead.arm)
    }

    /// Ends reading ahead at `now`, after [`Buffer::advance`]: immediately with `in_sector`, else
    /// at the end of the sector under the heads. Once the heads have switched to the next track,
    /// they stay until its sectors come. Returns when and where the heads are free.
    pub(crate) fn stop(&mut self, now: f64, in_sector: bool, media: &Media) -> Option<(f64, Arm)> {
        let mut ahead = self.ahead.take()?;
        if in_sector {
            return Some((now, ahead.arm));
        }
        let Some(passed) = ahead.coming(media) else {
            return Some((now, ahead.arm));
        };
        if passed.begin <= now {
            ahead.take(&passed, 1);
            self.filled(ahead.next);
            return Some((ahead.from, ahead.arm));
        }
        match now - ahead.from > media.head_switch() {
            true => Some((passed.begin, passed.run.arm())),
            false => Some((now, ahead.arm)),
        }
    }

    /// Extends the most recently used segment to `end`.
    fn filled(&mut self, end: u64) {
        if let Some(segment) = self.segments.last_mut() {
            segment.end = segment.end.max(end);
            segment.begin = segment.begin.max(segment.end.saturating_sub(self.size));
        }
    }

    /// Returns when the heads can continue reading at `sector` without having left it, and their
    /// position.
    pub(crate) fn ahead_at(&self, sector: u64) -> Option<(f64, Arm)> {
        let ahead = self.ahead?;
        (ahead.next == sector).then_some((ahead.from, ahead.arm))
    }

    /// Returns the buffered sectors from `sector` on, and marks their segment as used.
    pub(crate) fn find(&mut self, sector: u64) -> Option<Segment> {
        let found = |segment: &Segment| segment.begin <= sector && sector < segment.end;
        let index = self.segments.iter().rposition(found)?;
        Some(self.segments[index])
    }

    /// Adds `begin` to `end` as the most recently used segment. They extend the segment that they
    /// continue; otherwise they replace the least recently used one.
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

    /// Drops `begin` to `end`, which are about to be written.
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

    /// Lets the heads at `arm` read on from time `from`, behind the request `begin` to `end`. The
    /// request lies in the most recently used segment and is being served until `busy`.
    pub(crate) fn read_on(
        &mut self,
        (from, arm): (f64, Arm),
        (begin, end): (u64, u64),
        busy: f64,
        controller: &Controller,
        media: &Media,
    ) {
        let room = match controller.read_ahead_over_requested {
            true => self.size,
            false => self.size.saturating_sub(end - begin),
        };
        let most = room.min(controller.read_ahead_most);
        let limit = (end + most).min(media.geometry.sectors());
        if controller.read_ahead == ReadAhead::None {
            return;
        }
        let next = self.segments.last().map_or(end, |segment| segment.end.max(end));
        let bound = controller.read_ahead;
        let limit = limit.max(next);
        self.ahead = Some(Ahead { from, arm, next, limit, busy, bound });
    }

    /// Continues reading ahead while a request for `begin` to `end` is served from the buffer until
    /// `busy`, as far as that frees room. If reading ahead had ended and the drive resumes it on a
    /// hit, the heads at `arm` do so from `now` on.
    pub(crate) fn read_on_after_hit(
        &mut self,
        (now, arm): (f64, Arm),
        (begin, end): (u64, u64),
        busy: f64,
        controller: &Controller,
        media: &Media,
    ) {
        let last = self.segments.last().copied();
        if !last.is_some_and(|segment| segment.begin <= begin && end <= segment.end) {
            return;
        }
        let heads = match self.ahead {
            Some(ahead) if ahead.next < ahead.limit => (ahead.from, ahead.arm),
            Some(ahead) => (ahead.from.max(now), ahead.arm),
            None if controller.read_ahead_on_hit => (now, arm),
            None => return,
        };
        self.read_on(heads, (begin, end), busy, controller, media);
    }
}

impl Ahead {
    /// Returns how the heads will pass over the next run of sectors.
    fn coming(&self, media: &Media) -> Option<Passed> {
        let rest = self.limit.saturating_sub(self.next);
        let run = media.geometry.runs(self.next, rest).next()?;
        Some(media.pass(self.from, &mut self.arm.clone(), run, Pass::Read))
    }

    /// Consumes the first `sectors` of a pass.
    fn take(&mut self, passed: &Passed, sectors: u64) {
        if sectors > 0 {
            self.next += sectors;
            self.from = passed.begin + sectors as f64 * passed.sector;
            self.arm = passed.run.arm();
        }
    }

    /// Returns whether an idle drive stops reading after the last run.
    fn ends_here(&self) -> bool {
        // The remaining sectors within the limit lie on the next track.
        self.bound == ReadAhead::Track && self.from >= self.busy && self.next < self.limit
    }
}
