//! Staging: inserted objects wait in memory, so that objects that belong together lie side by side
//! on the device whatever arrived in between. They wait either in a [`Batch`] that is written
//! sorted by group (the product's default, in clusters), or in locality buffers, one per site (M9),
//! which work with every layout. A placed object stays in memory as a copy of the one on the
//! device.

use std::collections::VecDeque;

use device::Nanos;

use crate::base::digest::Digest;
use crate::base::record::Header;
use crate::config::options::{Options, WritePolicy};
use crate::layout::batch::Batch;
use crate::layout::locality::LocalityBuffers;

/// The container of waiting objects, which holds their names. The objects are dirty in the memory
/// tier.
enum Staged {
    Batch(Batch<Digest>),
    Buffers(LocalityBuffers<(Digest, u32)>),
}

/// The contents of one batch or buffer that are not placed yet.
pub(crate) struct Outgoing {
    /// Objects with their sizes in bytes, in the order in which to place them.
    items: VecDeque<(Digest, u32)>,
    /// True if a free run that holds all of them was already sought.
    sought: bool,
}

impl Outgoing {
    /// Returns the remaining objects with their sizes in bytes.
    pub(crate) fn items(&self) -> impl Iterator<Item = &(Digest, u32)> {
        self.items.iter()
    }

    /// Returns `item` to the front, because it found no place.
    pub(crate) fn requeue(&mut self, item: (Digest, u32)) {
        self.items.push_front(item);
    }

    /// Returns whether to seek a free run for all of it: true the first time only.
    pub(crate) fn seek(&mut self) -> bool {
        !std::mem::replace(&mut self.sought, true)
    }

    fn new(items: impl IntoIterator<Item = (Digest, u32)>) -> Outgoing {
        Outgoing { items: items.into_iter().collect(), sought: false }
    }

    /// Takes the next object to place, when `room` bytes are left where it would lie. This is the
    /// first object, if it fits; else the largest that fits, so that no space is wasted; else the
    /// first.
    pub(crate) fn next(&mut self, room: Option<usize>) -> Option<(Digest, u32)> {
        let (_, first) = self.items.front()?;
        let room = room.filter(|room| (*first as usize) > *room);
        let fits = |(at, (_, len)): (usize, &(Digest, u32))| {
            (*len as usize <= room?).then_some((*len, std::cmp::Reverse(at)))
        };
        let best = self.items.iter().enumerate().filter_map(fits).max();
        self.items.remove(best.map_or(0, |(_, at)| at.0))
    }
}

/// Objects that wait, and objects that are being placed.
pub(crate) struct LocalityStaging {
    waiting: Staged,
    /// Batches and buffers that no longer wait and are not placed yet.
    leaving: VecDeque<Outgoing>,
    /// When the waiting objects must be written at the latest.
    due: Option<Nanos>,
    /// True if the last arrival did not change that.
    is_later: bool,
    /// The same time for the objects that are leaving.
    leaving_due: Nanos,
}

impl LocalityStaging {
    /// Returns the staging that `options` ask for, in a space of clusters or not. `unwritten_max`
    /// bytes may wait to be written.
    pub(crate) fn new(
        options: &Options,
        clusters: bool,
        unwritten_max: usize,
    ) -> Option<LocalityStaging> {
        let waiting = match options.locality {
            Some(locality) => {
                let count = usize::from(locality.buffers);
                Staged::Buffers(LocalityBuffers::new(count, locality.bytes))
            }
            // With write-on-evict, memory is the batch: objects are grouped when they leave it.
            None if options.batch > 0
                && clusters
                && options.write_policy == WritePolicy::OnInsert =>
            {
                // The other half may be in the process of being written.
                let size = u64::from(options.batch).min(unwritten_max as u64 / 2);
                Staged::Batch(Batch::new(size))
            }
            None => return None,
        };
        Some(LocalityStaging {
            waiting,
            leaving: VecDeque::new(),
            due: None,
            is_later: false,
            leaving_due: 0,
        })
    }

    /// Returns when all waiting objects must be on their way.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.due
    }

    /// Returns the size of all objects without a place, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let waiting = match &self.waiting {
            Staged::Batch(batch) => batch.bytes(),
            Staged::Buffers(buffers) => buffers.bytes(),
        };
        let leaving = self.leaving.iter().flat_map(|leaving| &leaving.items);
        waiting + leaving.map(|(_, len)| u64::from(*len)).sum::<u64>()
    }

    /// Returns the objects without a place with their sizes in bytes, of a batch.
    pub(crate) fn batched(&self) -> impl Iterator<Item = (&Digest, u32)> {
        let waiting = match &self.waiting {
            Staged::Batch(batch) => Some(batch.items()),
            Staged::Buffers(_) => None,
        };
        let leaving = self.leaving.iter().flat_map(|leaving| &leaving.items);
        waiting.into_iter().flatten().chain(leaving.map(|(digest, len)| (digest, *len)))
    }

    /// Returns whether an object found no place and so much has arrived meanwhile that no more can
    /// be accepted.
    pub(crate) fn is_stuck(&self) -> bool {
        !self.leaving.is_empty()
            && match &self.waiting {
                Staged::Batch(batch) => batch.bytes() >= batch.size() / 2,
                Staged::Buffers(_) => true,
            }
    }

    /// Returns whether nothing is leaving and the last arrival did not change when the next objects
    /// leave.
    pub(crate) fn is_expected(&self) -> bool {
        self.leaving.is_empty() && self.is_later
    }

    /// Returns whether objects wait in locality buffers, which are placed as soon as they are full.
    pub(crate) fn in_buffers(&self) -> bool {
        matches!(self.waiting, Staged::Buffers(_))
    }

    /// Returns whether objects that belong together are written as one run of their group.
    pub(crate) fn sorts(&self) -> bool {
        matches!(self.waiting, Staged::Batch(_))
    }

    /// Makes the waiting objects be written by `due` at the latest. Returns whether that is earlier
    /// than before.
    pub(crate) fn lower_due(&mut self, due: Nanos) -> bool {
        let lowers = self.due.is_some_and(|before| due < before);
        if lowers {
            self.due = Some(due);
        }
        lowers
    }

    /// Moves all waiting objects to the leaving ones.
    pub(crate) fn send(&mut self) {
        let due = self.due.take().unwrap_or(self.leaving_due);
        let others = if self.leaving.is_empty() { Nanos::MAX } else { self.leaving_due };
        self.leaving_due = due.min(others);
        match &mut self.waiting {
            Staged::Batch(batch) if batch.is_empty() => {}
            Staged::Batch(batch) => self.leaving.push_back(Outgoing::new(batch.take())),
            Staged::Buffers(buffers) => {
                while let Some(items) = buffers.take_oldest() {
                    self.leaving.push_back(Outgoing::new(items));
                }
            }
        }
    }

    /// Adds an object with this header to the waiting ones; it must be written by `due`. A batch or
    /// buffer that it fills leaves.
    pub(crate) fn push(&mut self, digest: Digest, header: &Header, len: usize, due: Nanos) {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        self.is_later = self.due.is_some_and(|earlier| earlier <= due);
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
        match &mut self.waiting {
            Staged::Batch(batch) => {
                if batch.push(header.site, header.group, len, digest) {
                    self.send();
                }
            }
            Staged::Buffers(buffers) => {
                let mut full = Vec::new();
                buffers.push(header.site, len, (digest, len), &mut full);
                self.leaving.extend(full.into_iter().map(Outgoing::new));
            }
        }
    }

    /// Sends the waiting objects if one of them must be written by `due`.
    pub(crate) fn send_due(&mut self, due: Option<Nanos>) {
        if self.due.is_some_and(|first| due.is_some_and(|due| first <= due)) {
            self.send();
        }
    }

    /// Returns when the leaving objects must be written.
    pub(crate) fn leaving_due(&self) -> Nanos {
        self.leaving_due
    }

    /// Takes the next batch or buffer to place.
    pub(crate) fn pop_outgoing(&mut self) -> Option<Outgoing> {
        self.leaving.pop_front()
    }

    /// Returns `leaving` to the front, if any of it is left.
    pub(crate) fn requeue(&mut self, leaving: Outgoing) {
        if !leaving.items.is_empty() {
            self.leaving.push_front(leaving);
        }
    }
}
