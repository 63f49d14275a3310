//! Gathering: what is inserted waits in memory, so that what belongs together lies side by side on
//! the device whatever came between. Either in a [`Batch`] that is written sorted by group (the
//! product's default, in clusters), or in locality buffers, one a site (M9), which combine with
//! every layout. What was placed stays in memory as a copy of what is on the device.

use std::collections::VecDeque;

use device::Nanos;

use crate::base::digest::Digest;
use crate::base::record::Header;
use crate::config::options::Options;
use crate::layout::batch::Batch;
use crate::layout::locality::LocalityBuffers;

/// Where names of objects wait. The objects are dirty in the memory tier.
enum Staged {
    Batch(Batch<Digest>),
    Buffers(LocalityBuffers<(Digest, u32)>),
}

/// What was in one batch or buffer, and is not placed yet.
pub(crate) struct Leaving {
    /// With their bytes, in the order in which they are to lie.
    items: VecDeque<(Digest, u32)>,
    /// A free run that holds all of it was looked for.
    sought: bool,
}

impl Leaving {
    /// Names and lengths of what is left.
    pub(crate) fn items(&self) -> impl Iterator<Item = &(Digest, u32)> {
        self.items.iter()
    }

    /// `item` found no place: it is the next once more.
    pub(crate) fn put_back(&mut self, item: (Digest, u32)) {
        self.items.push_front(item);
    }

    /// Whether a free run for all of it is to be looked for: true the first time.
    pub(crate) fn seek(&mut self) -> bool {
        !std::mem::replace(&mut self.sought, true)
    }

    fn new(items: impl IntoIterator<Item = (Digest, u32)>) -> Leaving {
        Leaving { items: items.into_iter().collect(), sought: false }
    }

    /// The next to be placed, when `room` bytes are left where it would lie: the first, or else the
    /// largest for which there is room, so that none is lost; the first when there is none.
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

/// What waits, and what is on its way to its place.
pub(crate) struct LocalityStaging {
    waiting: Staged,
    /// Not waiting any more, and not placed yet.
    leaving: VecDeque<Leaving>,
    /// When nothing waited last, and something came.
    since: Option<Nanos>,
    /// More than one object has come since.
    has_more: bool,
    /// The same of what is leaving.
    left: Nanos,
}

impl LocalityStaging {
    /// What `options` ask for, in a space of clusters or not; `unwritten_max` bytes may wait to be
    /// written.
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
            None if options.batch > 0 && clusters => {
                // As much again is being written meanwhile.
                let size = u64::from(options.batch).min(unwritten_max as u64 / 2);
                Staged::Batch(Batch::new(size))
            }
            None => return None,
        };
        Some(LocalityStaging {
            waiting,
            leaving: VecDeque::new(),
            since: None,
            has_more: false,
            left: 0,
        })
    }

    /// When all of it is to be on its way, for a bound of so many nanoseconds.
    pub(crate) fn deadline(&self, bound: Nanos) -> Option<Nanos> {
        Some(self.since?.saturating_add(bound))
    }

    /// Bytes of what has no place yet.
    pub(crate) fn bytes(&self) -> u64 {
        let waiting = match &self.waiting {
            Staged::Batch(batch) => batch.bytes(),
            Staged::Buffers(buffers) => buffers.bytes(),
        };
        let leaving = self.leaving.iter().flat_map(|leaving| &leaving.items);
        waiting + leaving.map(|(_, len)| u64::from(*len)).sum::<u64>()
    }

    /// Whether something found no place yet, and so much has come meanwhile that nothing more may.
    pub(crate) fn is_stuck(&self) -> bool {
        !self.leaving.is_empty()
            && match &self.waiting {
                Staged::Batch(batch) => batch.bytes() >= batch.size() / 2,
                Staged::Buffers(_) => true,
            }
    }

    /// Whether nothing is leaving, and what came last changes nothing about when something will.
    pub(crate) fn is_expected(&self) -> bool {
        self.leaving.is_empty() && self.has_more
    }

    /// Whether it waits in locality buffers, which are placed as soon as they are full.
    pub(crate) fn in_buffers(&self) -> bool {
        matches!(self.waiting, Staged::Buffers(_))
    }

    /// Whether what belongs together is written as one run of its group.
    pub(crate) fn sorts(&self) -> bool {
        matches!(self.waiting, Staged::Batch(_))
    }

    /// What waits leaves.
    pub(crate) fn send(&mut self) {
        match &mut self.waiting {
            Staged::Batch(batch) if batch.is_empty() => {}
            Staged::Batch(batch) => self.leaving.push_back(Leaving::new(batch.take())),
            Staged::Buffers(buffers) => {
                while let Some(items) = buffers.take_oldest() {
                    self.leaving.push_back(Leaving::new(items));
                }
            }
        }
        self.left = self.since.take().unwrap_or(self.left);
    }

    /// An object with this header waits from now on; what is full with it leaves.
    pub(crate) fn push(&mut self, digest: Digest, header: &Header, len: usize, now: Nanos) {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        self.has_more = self.since.is_some();
        self.since.get_or_insert(now);
        match &mut self.waiting {
            Staged::Batch(batch) => {
                if batch.push(header.site, header.group, len, digest) {
                    self.send();
                }
            }
            Staged::Buffers(buffers) => {
                let mut full = Vec::new();
                buffers.push(header.site, len, (digest, len), &mut full);
                self.leaving.extend(full.into_iter().map(Leaving::new));
            }
        }
    }

    /// What waits leaves when it began to before `overdue`, or then.
    pub(crate) fn send_overdue(&mut self, overdue: Option<Nanos>) {
        if self.since.is_some_and(|since| overdue.is_some_and(|overdue| since <= overdue)) {
            self.send();
        }
    }

    /// Since when what is leaving has waited.
    pub(crate) fn left(&self) -> Nanos {
        self.left
    }

    /// The next batch or buffer to be placed.
    pub(crate) fn pop_leaving(&mut self) -> Option<Leaving> {
        self.leaving.pop_front()
    }

    /// `leaving` is the next once more, if something is left of it.
    pub(crate) fn put_back(&mut self, leaving: Leaving) {
        if !leaving.items.is_empty() {
            self.leaving.push_front(leaving);
        }
    }
}
