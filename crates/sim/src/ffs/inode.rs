//! A file: its length and the places of its blocks.
//!
//! All blocks but the last are whole. In a file without indirect blocks, the last one has as many
//! fragments as its bytes need. There are no holes: the space between the old end of a file and a
//! write beyond it is allocated too.

use std::collections::VecDeque;
use std::ops::Range;

use super::directory::Directory;
use super::groups::Groups;
use super::parameters::DIRECT_BLOCKS;

#[derive(Debug)]
pub(super) struct Inode {
    /// The directory's entries; `None` for a file.
    pub(super) directory: Option<Directory>,
    /// Length in bytes.
    pub(super) size: u64,
    /// Pieces in file order; neighbours on the disk are merged.
    pieces: Vec<Piece>,
    /// Indirect blocks in the order in which they became necessary.
    pub(super) indirect: Vec<u64>,
    /// True if a directory entry refers to it.
    pub(super) named: bool,
    /// Number of open handles.
    pub(super) opens: u32,
    /// End of the last read: a read that begins there is sequential.
    pub(super) next_read: u64,
    /// Blocks written in sequence that have not been sent to the disk.
    pub(super) row: Range<u64>,
    /// Bytes on their way to the disk.
    pub(super) leaving: u64,
    /// Tickets of the writes to it: the first one runs, the others wait in order.
    pub(super) writers: VecDeque<u64>,
    /// For each block, whether it was never written; blocks beyond the end of the list were.
    pub(super) unwritten: Vec<bool>,
}

/// Contiguous fragments of a file on the disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// First fragment, counted from the start of the file.
    pub(super) first: u64,
    /// Place of the first fragment.
    pub(super) at: u64,
    pub(super) count: u64,
}

/// The place of a block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// First fragment.
    pub(super) at: u64,
    pub(super) count: u64,
}

/// The blocks that the growth of a file changed.
#[derive(Debug, Default)]
pub(super) struct Growth {
    /// Groups whose bitmaps changed, each once.
    pub(super) groups: Vec<u32>,
    pub(super) indirect: Vec<u64>,
    /// The formerly last block, if it moved.
    pub(super) moved: Option<u64>,
}

impl Growth {
    fn touch(&mut self, group: u32) {
        if !self.groups.contains(&group) {
            self.groups.push(group);
        }
    }
}

/// The disk is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

/// The units in which a file is laid out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Units {
    /// Bytes per fragment.
    pub(super) fragment: u64,
    pub(super) per_block: u64,
    /// Blocks that one indirect block points to.
    pub(super) per_indirect: u64,
    /// Blocks of a file in one group.
    pub(super) group_share: u64,
}

impl Units {
    pub(super) fn block(&self) -> u64 {
        self.fragment * self.per_block
    }

    /// Returns the number of fragments of a file of `size` bytes.
    pub(super) fn fragments(&self, size: u64) -> u64 {
        let fragments = size.div_ceil(self.fragment);
        if fragments > DIRECT_BLOCKS * self.per_block {
            fragments.next_multiple_of(self.per_block)
        } else {
            fragments
        }
    }

    /// Returns the number of indirect blocks of a file of `blocks` blocks: one for each
    /// `per_indirect` blocks after the direct ones, and one more that leads to all but the first of
    /// them.
    fn indirect(&self, blocks: u64) -> u64 {
        match blocks.saturating_sub(DIRECT_BLOCKS).div_ceil(self.per_indirect) {
            0 => 0,
            1 => 1,
            more => more + 1,
        }
    }
}

impl Inode {
    /// Returns an empty file or directory.
    pub(super) fn new(directory: Option<Directory>) -> Inode {
        Inode {
            directory,
            size: 0,
            pieces: Vec::new(),
            indirect: Vec::new(),
            named: true,
            opens: 0,
            next_read: 0,
            row: 0..0,
            leaving: 0,
            writers: VecDeque::new(),
            unwritten: Vec::new(),
        }
    }

    /// Records that block `number` is about to be written; returns whether it was never written
    /// before.
    pub(super) fn begin_block(&mut self, number: u64) -> bool {
        self.unwritten.get_mut(number as usize).is_some_and(std::mem::take)
    }

    /// Returns its contiguous pieces on the disk.
    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Returns the number of fragments of the file.
    fn fragments(&self) -> u64 {
        self.pieces.last().map_or(0, |piece| piece.first + piece.count)
    }

    /// Returns the number of blocks of the file, including a partial last one.
    pub(super) fn blocks(&self, units: &Units) -> u64 {
        self.fragments().div_ceil(units.per_block)
    }

    pub(super) fn place(&self, units: &Units, number: u64) -> Option<Place> {
        let first = number * units.per_block;
        let index = self.pieces.partition_point(|piece| piece.first + piece.count <= first);
        let piece = self.pieces.get(index)?;
        let within = first - piece.first;
        let count = (piece.count - within).min(units.per_block);
        Some(Place { at: piece.at + within, count })
    }

    /// Returns the indirect blocks on the path to block `number`, in reading order.
    pub(super) fn way_to(&self, units: &Units, number: u64) -> Vec<u64> {
        let Some(behind) = number.checked_sub(DIRECT_BLOCKS) else { return Vec::new() };
        // In the order of allocation: the first, the one that leads to the others, the others.
        let which = match behind / units.per_indirect {
            0 => vec![0],
            more => vec![1, more as usize + 1],
        };
        which.into_iter().filter_map(|index| self.indirect.get(index).copied()).collect()
    }

    /// Extends the file to `size` bytes, which must be more than its length. `home` is the first
    /// data place of its inode's group.
    pub(super) fn grow(
        &mut self,
        groups: &mut Groups,
        units: &Units,
        size: u64,
        home: u64,
    ) -> Result<Growth, Full> {
        let (have, want) = (self.fragments(), units.fragments(size));
        let blocks = want.div_ceil(units.per_block);
        let indirect = units.indirect(blocks) - self.indirect.len() as u64;
        let mut growth = Growth::default();
        if want > have {
            let more = blocks - have / units.per_block + indirect;
            if !groups.has_room(more) {
                return Err(Full);
            }
            self.take(groups, units, want, home, &mut growth);
        }
        self.size = size;
        Ok(growth)
    }

    /// Takes fragments until the file has `want`; the caller has checked the room.
    fn take(
        &mut self,
        groups: &mut Groups,
        units: &Units,
        want: u64,
        home: u64,
        growth: &mut Growth,
    ) {
        let per_block = units.per_block;
        while self.fragments() < want {
            let have = self.fragments();
            let number = have / per_block;
            let count = (want - number * per_block).min(per_block);
            let indirect = units.indirect(number + 1);
            while (self.indirect.len() as u64) < indirect {
                let near = self.near(groups, units, number, home);
                let at = groups.take_block(near).expect("there is room");
                growth.touch(groups.layout.group_of(at));
                growth.indirect.push(at);
                self.indirect.push(at);
            }
            let near = self.near(groups, units, number, home);
            if have > number * per_block {
                self.lengthen_last(groups, units, (number, count), near, growth);
                continue;
            }
            let at = take(groups, near, count, per_block);
            growth.touch(groups.layout.group_of(at));
            self.push(Piece { first: number * per_block, at, count });
        }
    }

    /// Extends the partial last block to `count` fragments: in place if the following ones are
    /// free, else elsewhere.
    fn lengthen_last(
        &mut self,
        groups: &mut Groups,
        units: &Units,
        (number, count): (u64, u64),
        near: u64,
        growth: &mut Growth,
    ) {
        let Place { at, count: have } = self.place(units, number).expect("it is the last one");
        growth.touch(groups.layout.group_of(at));
        if groups.extend(at, have, count) {
            self.push(Piece {
                first: number * units.per_block + have,
                at: at + have,
                count: count - have,
            });
            return;
        }
        let new = take(groups, near, count, units.per_block);
        growth.touch(groups.layout.group_of(new));
        growth.moved = Some(number);
        groups.give_back(at, have);
        let last = self.pieces.last_mut().expect("it is the last one");
        last.count -= have;
        if last.count == 0 {
            self.pieces.pop();
        }
        self.push(Piece { first: number * units.per_block, at: new, count });
    }

    /// Returns the preferred place for block `number`: behind the block before it; for the first
    /// block, the start of its inode's group; in another group once the file has used its share of
    /// one.
    fn near(&self, groups: &Groups, units: &Units, number: u64, home: u64) -> u64 {
        let Some(before) = number.checked_sub(1).and_then(|before| self.place(units, before))
        else {
            return home;
        };
        let moves = number == DIRECT_BLOCKS || number.is_multiple_of(units.group_share);
        match moves && number >= DIRECT_BLOCKS {
            true => groups.next_group(groups.layout.group_of(before.at)),
            false => before.at + before.count,
        }
    }

    fn push(&mut self, piece: Piece) {
        match self.pieces.last_mut() {
            Some(last) if last.at + last.count == piece.at => last.count += piece.count,
            _ => self.pieces.push(piece),
        }
    }

    /// Frees all fragments; returns the groups whose bitmaps changed.
    pub(super) fn free(&mut self, groups: &mut Groups, units: &Units) -> Vec<u32> {
        let mut growth = Growth::default();
        for piece in std::mem::take(&mut self.pieces) {
            growth.touch(groups.layout.group_of(piece.at));
            groups.give_back(piece.at, piece.count);
        }
        for at in std::mem::take(&mut self.indirect) {
            growth.touch(groups.layout.group_of(at));
            groups.give_back(at, units.per_block);
        }
        self.size = 0;
        growth.groups
    }
}

/// Takes a block or fragments; the caller has checked the room.
fn take(groups: &mut Groups, near: u64, count: u64, per_block: u64) -> u64 {
    let taken = match count == per_block {
        true => groups.take_block(near),
        false => groups.take_fragments(near, count),
    };
    taken.expect("there is room")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffs::parameters::Parameters;

    fn parts() -> (Groups, Units) {
        let parameters =
            Parameters { group: 4 << 20, group_share: 100, ..Parameters::ucfs_ffs(64 << 20) };
        let units = Units { fragment: 1_024, per_block: 4, per_indirect: 1_024, group_share: 100 };
        (Groups::new(&parameters, 64 << 20), units)
    }

    #[test]
    fn a_small_file_is_whole_blocks_and_fragments() {
        let (mut groups, units) = parts();
        let home = groups.data_of(3);
        let mut file = Inode::new(None);
        let growth = file.grow(&mut groups, &units, 9_300, home).unwrap();
        assert_eq!(growth.groups, [3]);
        assert_eq!(file.place(&units, 0), Some(Place { at: home, count: 4 }));
        assert_eq!(file.place(&units, 2), Some(Place { at: home + 8, count: 2 }));
        assert_eq!(file.place(&units, 3), None);
        assert_eq!(file.pieces().len(), 1);
        // In place, as the following fragments are free.
        file.grow(&mut groups, &units, 11_000, home).unwrap();
        assert_eq!(file.place(&units, 2), Some(Place { at: home + 8, count: 3 }));
        // Another file takes the next one, so the last block moves.
        let mut other = Inode::new(None);
        other.grow(&mut groups, &units, 1, home + 8).unwrap();
        assert_eq!(other.place(&units, 0), Some(Place { at: home + 11, count: 1 }));
        let growth = file.grow(&mut groups, &units, 12_288, home).unwrap();
        assert_eq!(growth.moved, Some(2));
        assert_eq!(file.place(&units, 2), Some(Place { at: home + 12, count: 4 }));
        file.free(&mut groups, &units);
        assert_eq!(groups.used(), 1);
    }

    #[test]
    fn a_large_file_moves_on_and_has_indirect_blocks() {
        let (mut groups, units) = parts();
        let home = groups.data_of(0);
        let mut file = Inode::new(None);
        let growth = file.grow(&mut groups, &units, 4_096 * 350 - 5, home).unwrap();
        let group_of =
            |file: &Inode, number| groups.layout.group_of(file.place(&units, number).unwrap().at);
        let of: Vec<u32> = [0, 11, 12, 99, 100, 199, 200, 349].map(|n| group_of(&file, n)).into();
        assert_eq!(of, [0, 0, 1, 1, 2, 2, 3, 4]);
        assert_eq!(growth.indirect.len(), 1);
        assert_eq!(file.way_to(&units, 11), Vec::<u64>::new());
        assert_eq!(file.way_to(&units, 12), growth.indirect);
        assert_eq!(file.place(&units, 349).unwrap().count, 4);
        assert_eq!(groups.used(), 351 * 4);
        file.free(&mut groups, &units);
        assert_eq!(groups.used(), 0);
        groups.audit().unwrap();
    }

    #[test]
    fn the_second_indirect_block_needs_one_that_leads_to_it() {
        let (mut groups, units) = parts();
        let mut file = Inode::new(None);
        let home = groups.data_of(0);
        file.grow(&mut groups, &units, 4_096 * (12 + 2_048 + 1), home).unwrap();
        assert_eq!(file.indirect.len(), 4);
        let way = |number| file.way_to(&units, number);
        assert_eq!(way(12 + 1_023), [file.indirect[0]]);
        assert_eq!(way(12 + 1_024), [file.indirect[1], file.indirect[2]]);
        assert_eq!(way(12 + 2_048), [file.indirect[1], file.indirect[3]]);
    }

    #[test]
    fn a_full_disk_changes_nothing() {
        let (mut groups, units) = parts();
        let home = groups.data_of(0);
        let mut file = Inode::new(None);
        file.grow(&mut groups, &units, 5_000, home).unwrap();
        let used = groups.used();
        assert_eq!(file.grow(&mut groups, &units, 64 << 20, home).unwrap_err(), Full);
        assert_eq!((file.size, groups.used()), (5_000, used));
    }
}
