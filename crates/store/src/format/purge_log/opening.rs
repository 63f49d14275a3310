//! Finding the end of a log when a cache is opened.
//!
//! Both places of the last block must hold successive versions of one log, or the first version and
//! no other one. Full blocks are written with the first version of a later block, so those between
//! the two versions must be there, or what the next write put over them. If some are not, and their
//! places hold what was there before, the newer version was never durable, and the log ends with
//! the older one. All other contents may be damage to something acknowledged: another log begins.
//! Another log begins, too, when the group of the last block, which has the numbers of the makers,
//! lacks a block.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use device::Extent;

use crate::base::keyed_checksum::Secret;
use crate::format::device_layout::BLOCK;
use crate::format::purge_log::block::{Area, Block, VERSION_PLACES, is_empty};
use crate::format::purge_log::makers::Makers;
use crate::format::purge_log::{LogOwner, PurgeLog};

/// The last block, in its newest version.
struct LastBlock {
    newest: Block,
    /// The version before; `None` for the first one.
    before: Option<Block>,
}

/// The end of a log as the places of the last block show it.
pub(crate) struct FoundEnd {
    area: Area,
    was_kept: bool,
    /// `None` when the end may be lost.
    last: Option<LastBlock>,
}

impl FoundEnd {
    /// Returns the extent that [`FoundEnd::in_head`] examines: the places of the last block, and
    /// one of the ring, which shows whether there was a log.
    pub(crate) fn head(owner: &LogOwner) -> Extent {
        Area(owner.area).extent(0, VERSION_PLACES + 1)
    }

    /// Finds the end in the bytes of [`FoundEnd::head`].
    pub(crate) fn in_head(secret: &Secret, owner: &LogOwner, bytes: Option<&[u8]>) -> FoundEnd {
        let places: Vec<&[u8]> = bytes.unwrap_or_default().chunks_exact(BLOCK as usize).collect();
        let at = |place: u64| places.get(place as usize).copied().unwrap_or_default();
        let blocks = [0, 1, 2].map(|place| Block::decode(secret, place, at(place)));
        let was_kept = blocks.iter().any(Option::is_some);
        let [first, second, _] = blocks;
        let (first, second) = (first.ok_or(at(0)), second.ok_or(at(1)));
        let order = |block: &Result<Block, &[u8]>| {
            block.as_ref().ok().map(|block| (block.generation, block.version))
        };
        let (newest, other) =
            if order(&first) >= order(&second) { (first, second) } else { (second, first) };
        let newest = newest.ok().filter(|newest| newest.generation + 1 == owner.generation);
        let last = newest.and_then(|newest| LastBlock::of(newest, other));
        FoundEnd { area: Area(owner.area), was_kept, last }
    }

    /// Returns the numbers of the full blocks that were written together with the newest version.
    fn written_with_it(&self) -> Range<u64> {
        let Some(LastBlock { newest, before }) = &self.last else { return 0..0 };
        let from = before.as_ref().map_or(0, |before| before.number);
        from.max(newest.number.saturating_sub(self.area.slots()))..newest.number
    }

    /// Returns the numbers of the blocks to read: those, and the group of the last block.
    fn wanted(&self) -> Range<u64> {
        let Range { start, end } = self.written_with_it();
        let oldest = end.saturating_sub(self.area.slots());
        self.area.group_start(start).max(oldest)..end
    }

    /// Returns the extents to read for [`PurgeLog::resume`].
    pub(crate) fn reads(&self) -> Vec<Extent> {
        let mut numbers = self.wanted();
        let mut extents = Vec::new();
        while !numbers.is_empty() {
            let run = self.area.first_run(numbers.clone());
            numbers.start = run.end;
            extents.push(self.area.extent(self.area.place(run.start), run.end - run.start));
        }
        extents
    }

    /// Returns the last block of the log and those before it in its group, given the bytes of
    /// [`FoundEnd::reads`]; `None` when the end may be lost.
    fn tail(self, secret: &Secret, read: &[Option<Bytes>]) -> Option<(Block, Vec<Block>)> {
        let (wanted, written) = (self.wanted(), self.written_with_it());
        let FoundEnd { area, last, .. } = self;
        let LastBlock { newest, before } = last?;
        let read: Vec<&Bytes> = read.iter().map(Option::as_ref).collect::<Option<_>>()?;
        let places = read.iter().flat_map(|bytes| bytes.chunks_exact(BLOCK as usize));
        let mut blocks = BTreeMap::new();
        let mut is_durable = true;
        for (number, bytes) in wanted.zip(places) {
            let block = Block::decode(secret, area.place(number), bytes);
            if written.contains(&number) {
                if block.is_none() && !is_empty(bytes) {
                    return None;
                }
                is_durable &= block.as_ref().is_some_and(|block| newest.implies(block));
            }
            blocks.extend(block.map(|block| (number, block)));
        }
        // An older generation would not be that of the opening before this one.
        let of_run = |before: &Block| before.generation == newest.generation;
        let tail = if is_durable { newest } else { before.filter(of_run)? };
        let ours = |number: u64| {
            let block = blocks.remove(&number);
            block.filter(|block| (block.ring, block.number) == (tail.ring, number))
        };
        let group: Option<_> = (area.group_start(tail.number)..tail.number).map(ours).collect();
        Some((tail, group?))
    }
}

impl LastBlock {
    /// Returns the last block in its version `newest`; `other` is the block in the other place, or
    /// the bytes there. Returns `None` when a later version may have been there.
    fn of(newest: Block, other: Result<Block, &[u8]>) -> Option<LastBlock> {
        let before = match (newest.version, other) {
            (0, Err(bytes)) => is_empty(bytes).then_some(None),
            (0, Ok(other)) => (other.ring != newest.ring).then_some(None),
            (version, Ok(before)) => {
                let precedes = before.ring == newest.ring
                    && before.version + 1 == version
                    && before.number <= newest.number;
                precedes.then_some(Some(before))
            }
            (_, Err(_)) => None,
        }?;
        Some(LastBlock { newest, before })
    }
}

impl PurgeLog {
    /// Continues the log whose end was `found`, given the bytes of [`FoundEnd::reads`], if it was
    /// kept up to the opening before this one; else begins a new one at `now`, in unix seconds.
    pub(crate) fn resume(
        secret: &Secret,
        owner: &LogOwner,
        (found, read): (FoundEnd, &[Option<Bytes>]),
        now: u64,
    ) -> PurgeLog {
        let was_kept = found.was_kept;
        let Some((tail, group)) = found.tail(secret, read) else {
            let new = PurgeLog::new(owner, now);
            return if was_kept { new.after_a_lost_one() } else { new };
        };
        let mut makers = Makers::new(Area(owner.area).group());
        for (at, entry) in group.iter().chain([&tail]).flat_map(Block::entries) {
            makers.note(at, &entry);
        }
        makers.begin_write();
        makers.end_flush();
        let (generation, version) = (owner.generation, tail.version + 1);
        let log = PurgeLog::ending_with(Area(owner.area), Block { generation, version, ..tail });
        PurgeLog { was_kept: true, makers, ..log }
    }
}
