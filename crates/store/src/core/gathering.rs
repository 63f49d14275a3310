//! Gathering (M9): objects of one site wait for one another in memory, so that they lie side by
//! side on the device whatever came between them. What was placed stays in memory as a copy of
//! what is on the device. It combines with every layout.

use std::collections::VecDeque;

use device::Nanos;

use super::{Core, Now};
use crate::digest::Digest;
use crate::layout::locality::LocalityBuffers;
use crate::options::LocalityOptions;
use crate::record::{Header, RecordKind};

/// What was in one buffer, and is not placed yet.
struct Batch {
    digests: VecDeque<Digest>,
    /// A free run that holds all of it was looked for.
    sought: bool,
}

impl Batch {
    fn new(digests: Vec<Digest>) -> Batch {
        Batch { digests: digests.into(), sought: false }
    }
}

/// The locality buffers, and what has left them.
pub(crate) struct Gathering {
    /// What is gathered is dirty in the memory tier; here are the names only.
    buffers: LocalityBuffers<Digest>,
    /// Out of their buffers, and not placed yet: in the order in which they are to lie.
    leaving: VecDeque<Batch>,
    /// When the buffers were last empty and got something.
    since: Option<Nanos>,
}

impl Gathering {
    pub(crate) fn new(locality: LocalityOptions) -> Gathering {
        let buffers = LocalityBuffers::new(usize::from(locality.buffers), locality.bytes);
        Gathering { buffers, leaving: VecDeque::new(), since: None }
    }

    /// When all of it is to be on its way, for a bound of so many nanoseconds.
    pub(crate) fn deadline(&self, bound: Nanos) -> Option<Nanos> {
        Some(self.since?.saturating_add(bound))
    }
}

impl Core {
    /// Whether an object with this header waits for others of its site. Pieces of large objects
    /// need no neighbours.
    pub(super) fn gathers(&self, header: &Header) -> bool {
        self.gathering.is_some() && header.kind == RecordKind::Object && header.piece_size == 0
    }

    /// An object that has entered memory, dirty, waits in its site's buffer. Buffers that this
    /// fills, or takes from other sites, are written.
    pub(super) fn gather(&mut self, digest: Digest, site: u64, len: usize, now: Now) {
        let Some(gathering) = &mut self.gathering else { return };
        let mut full = Vec::new();
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        gathering.buffers.push(site, len, digest, &mut full);
        gathering.since.get_or_insert(now.monotonic);
        gathering.leaving.extend(full.into_iter().map(Batch::new));
        self.place_gathered(now);
    }

    /// Sends out everything that was gathered before `overdue`, or earlier.
    pub(super) fn send_gathered(&mut self, overdue: Option<Nanos>, now: Now) {
        let Some(gathering) = &mut self.gathering else { return };
        if gathering.since.is_some_and(|since| overdue.is_some_and(|overdue| since <= overdue)) {
            gathering.since = None;
            while let Some(batch) = gathering.buffers.take_oldest() {
                gathering.leaving.push_back(Batch::new(batch));
            }
        }
        self.place_gathered(now);
    }

    /// Places what has left its buffer, as far as there is room.
    fn place_gathered(&mut self, now: Now) {
        while let Some(mut batch) = self.gathering.as_mut().and_then(|g| g.leaving.pop_front()) {
            if !std::mem::replace(&mut batch.sought, true) {
                self.seek_place(&batch.digests);
            }
            while let Some(digest) = batch.digests.front() {
                if self.waits_for_place(digest) && !self.place_resident(digest, now) {
                    if let Some(gathering) = &mut self.gathering {
                        gathering.leaving.push_front(batch);
                    }
                    return;
                }
                batch.digests.pop_front();
            }
        }
    }

    /// Whether the object was neither removed nor superseded nor written since it was gathered.
    fn waits_for_place(&self, digest: &Digest) -> bool {
        self.tier.peek(digest).is_some_and(|resident| {
            resident.dirty && resident.cluster.is_none() && resident.object.place.is_none()
        })
    }

    /// In a space of slots the batch is to go into one free run, if there is one of its size.
    fn seek_place(&mut self, batch: &VecDeque<Digest>) {
        let waiting = batch.iter().filter(|digest| self.waits_for_place(digest));
        let lens = waiting.filter_map(|digest| Some(self.tier.peek(digest)?.object.record_len()));
        let lens: Vec<usize> = lens.collect();
        if let Some(space) = self.space.slots_mut() {
            space.seek(&lens);
        }
    }
}
