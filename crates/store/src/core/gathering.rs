//! Gathering: what is inserted waits in memory, so that what belongs together lies side by side on
//! the device whatever came between. Either in a [`Batch`] that is written sorted by group (the
//! product's default, in clusters), or in locality buffers, one a site (M9), which combine with
//! every layout. What was placed stays in memory as a copy of what is on the device.

use std::collections::VecDeque;

use device::Nanos;

use super::{Core, Now};
use crate::base::digest::Digest;
use crate::base::record::{Header, RecordKind};
use crate::config::options::Options;
use crate::layout::batch::Batch;
use crate::layout::locality::LocalityBuffers;
use crate::space::Space;

/// Where names of objects wait. The objects are dirty in the memory tier.
enum Waiting {
    Batch(Batch<Digest>),
    Buffers(LocalityBuffers<(Digest, u32)>),
}

/// Objects of a batch that are placed under one lock.
const PLACED_AT_ONCE: usize = 64;

/// What was in one batch or buffer, and is not placed yet.
struct Leaving {
    /// With their bytes, in the order in which they are to lie.
    items: VecDeque<(Digest, u32)>,
    /// A free run that holds all of it was looked for.
    sought: bool,
}

impl Leaving {
    fn new(items: impl IntoIterator<Item = (Digest, u32)>) -> Leaving {
        Leaving { items: items.into_iter().collect(), sought: false }
    }

    /// The next to be placed, when `room` bytes are left where it would lie: the first, or else the
    /// largest for which there is room, so that none is lost; the first when there is none.
    fn next(&mut self, room: Option<usize>) -> Option<(Digest, u32)> {
        let (_, first) = self.items.front()?;
        let room = room.filter(|room| (*first as usize) > *room);
        let fits = |(at, (_, len)): (usize, &(Digest, u32))| {
            (*len as usize <= room?).then_some((*len, std::cmp::Reverse(at)))
        };
        let best = self.items.iter().enumerate().filter_map(fits).max();
        self.items.remove(best.map_or(0, |(_, at)| at.0))
    }
}

/// What waits, and what is on its way to its place.
pub(crate) struct Gathering {
    waiting: Waiting,
    /// Not waiting any more, and not placed yet.
    leaving: VecDeque<Leaving>,
    /// When nothing waited last, and something came.
    since: Option<Nanos>,
    /// The same of what is leaving.
    left: Nanos,
}

impl Gathering {
    /// What `options` ask for; `unwritten_max` bytes may wait to be written.
    pub(crate) fn new(options: &Options, space: &Space, unwritten_max: usize) -> Option<Gathering> {
        let waiting = match options.locality {
            Some(locality) => {
                let count = usize::from(locality.buffers);
                Waiting::Buffers(LocalityBuffers::new(count, locality.bytes))
            }
            None if options.batch > 0 && space.has_clusters() => {
                // As much again is being written meanwhile.
                let size = u64::from(options.batch).min(unwritten_max as u64 / 2);
                Waiting::Batch(Batch::new(size))
            }
            None => return None,
        };
        Some(Gathering { waiting, leaving: VecDeque::new(), since: None, left: 0 })
    }

    /// When all of it is to be on its way, for a bound of so many nanoseconds.
    pub(crate) fn deadline(&self, bound: Nanos) -> Option<Nanos> {
        Some(self.since?.saturating_add(bound))
    }

    /// Bytes of what has no place yet.
    pub(crate) fn bytes(&self) -> u64 {
        let waiting = match &self.waiting {
            Waiting::Batch(batch) => batch.bytes(),
            Waiting::Buffers(buffers) => buffers.bytes(),
        };
        let leaving = self.leaving.iter().flat_map(|leaving| &leaving.items);
        waiting + leaving.map(|(_, len)| u64::from(*len)).sum::<u64>()
    }

    /// Whether something found no place yet, and so much has come meanwhile that nothing more may.
    pub(crate) fn is_stuck(&self) -> bool {
        !self.leaving.is_empty()
            && match &self.waiting {
                Waiting::Batch(batch) => batch.bytes() >= batch.size() / 2,
                Waiting::Buffers(_) => true,
            }
    }

    fn in_buffers(&self) -> bool {
        matches!(self.waiting, Waiting::Buffers(_))
    }

    /// Whether what belongs together is written as one run of its group.
    fn sorts(&self) -> bool {
        matches!(self.waiting, Waiting::Batch(_))
    }

    /// What waits leaves.
    fn send(&mut self) {
        match &mut self.waiting {
            Waiting::Batch(batch) if batch.is_empty() => {}
            Waiting::Batch(batch) => self.leaving.push_back(Leaving::new(batch.take())),
            Waiting::Buffers(buffers) => {
                while let Some(items) = buffers.take_oldest() {
                    self.leaving.push_back(Leaving::new(items));
                }
            }
        }
        self.left = self.since.take().unwrap_or(self.left);
    }
}

impl Core {
    /// Whether an object with this header waits for others. Pieces of large objects need no
    /// neighbours.
    pub(super) fn gathers(&self, header: &Header) -> bool {
        self.gathering.is_some() && header.kind == RecordKind::Object && header.piece_size == 0
    }

    /// Whether objects of one group lie in runs; else what surrounds one came at the same time.
    pub(super) fn writes_runs(&self) -> bool {
        self.gathering.as_ref().is_some_and(Gathering::sorts)
    }

    /// An object that has entered memory, dirty, waits for others. What is full with it is
    /// written.
    pub(super) fn gather(&mut self, digest: Digest, header: &Header, len: usize, now: Now) {
        let Some(gathering) = &mut self.gathering else { return };
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        gathering.since.get_or_insert(now.monotonic);
        match &mut gathering.waiting {
            Waiting::Batch(batch) => {
                if batch.push(header.site, header.group, len, digest) {
                    gathering.send();
                }
            }
            Waiting::Buffers(buffers) => {
                let mut full = Vec::new();
                buffers.push(header.site, len, (digest, len), &mut full);
                gathering.leaving.extend(full.into_iter().map(Leaving::new));
            }
        }
        // A batch is the background's: so many objects are not placed under one lock.
        if gathering.in_buffers() {
            self.place_gathered(usize::MAX, now);
        }
    }

    /// Sends out everything that was gathered before `overdue`, or earlier, and places some of what
    /// leaves. True when there is more to place at once.
    pub(super) fn send_gathered(&mut self, overdue: Option<Nanos>, now: Now) -> bool {
        let Some(gathering) = &mut self.gathering else { return false };
        if gathering.since.is_some_and(|since| overdue.is_some_and(|overdue| since <= overdue)) {
            gathering.send();
        }
        let stuck = gathering.is_stuck();
        let more = self.place_gathered(PLACED_AT_ONCE, now);
        if stuck && self.gathering.as_ref().is_some_and(|gathering| !gathering.is_stuck()) {
            self.wake();
        }
        more
    }

    /// An object that waits is the next to leave memory: all that waits goes out now. Without a
    /// place for it, it stays in memory, and others leave before it. False then.
    pub(super) fn evict_gathered(&mut self, digest: &Digest, now: Now) -> bool {
        self.place_all_gathered(now);
        let stays = self.tier.peek(digest).is_some_and(|resident| resident.dirty);
        if stays {
            self.tier.renew(digest);
        }
        !stays
    }

    /// Places all that waits, as far as there is room.
    pub(super) fn place_all_gathered(&mut self, now: Now) {
        if let Some(gathering) = &mut self.gathering {
            gathering.send();
        }
        self.place_gathered(usize::MAX, now);
    }

    /// Places what is leaving, as far as there is room, at most so many objects. True when it was
    /// not for want of room that it ended.
    fn place_gathered(&mut self, mut most: usize, now: Now) -> bool {
        let Some(gathering) = &self.gathering else { return false };
        // It has waited since then, wherever it waits now.
        let now = Now { monotonic: gathering.left, ..now };
        while let Some(mut leaving) = self.gathering.as_mut().and_then(|g| g.leaving.pop_front()) {
            if !std::mem::replace(&mut leaving.sought, true) {
                self.seek_place(&leaving);
            }
            while most > 0
                && let Some(next) = leaving.next(self.space.room(&self.areas))
            {
                most -= 1;
                if self.waits_for_place(&next.0) && !self.place_resident(&next.0, now) {
                    leaving.items.push_front(next);
                    if let Some(gathering) = &mut self.gathering {
                        gathering.leaving.push_front(leaving);
                    }
                    return false;
                }
            }
            if let Some(gathering) = self.gathering.as_mut().filter(|_| !leaving.items.is_empty()) {
                gathering.leaving.push_front(leaving);
                return true;
            }
        }
        false
    }

    /// Whether the object was neither removed nor superseded nor written since it was gathered.
    fn waits_for_place(&self, digest: &Digest) -> bool {
        self.tier.peek(digest).is_some_and(|resident| {
            resident.dirty && resident.cluster.is_none() && resident.object.place.is_none()
        })
    }

    /// In a space of slots what leaves is to go into one free run, if there is one of its size.
    fn seek_place(&mut self, leaving: &Leaving) {
        let waiting = leaving.items.iter().filter(|(digest, _)| self.waits_for_place(digest));
        let lens: Vec<usize> = waiting.map(|(_, len)| *len as usize).collect();
        if let Some(space) = self.space.slots_mut() {
            space.seek(&lens);
        }
    }
}
