//! Cylinder groups: the free fragments and inodes, and the rules of allocation.
//!
//! The next block of a file is the one after its last if that is free, else the nearest behind it
//! in the same group, else one of another group. Other groups are tried in jumps of 1, 2, 4 …, then
//! one after another. Fragments come from the shortest sufficient free run of a broken block; a
//! whole block is broken when there is none.
//!
//! Pure bookkeeping, independent of files and disks.

use super::parameters::{INODE, Parameters};

/// Places of all structures, counted in fragments from the start of the disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) per_block: u64,
    pub(super) group: u64,
    /// Fragments of a group before its data: the superblock's copy, the bitmaps, the inodes.
    pub(super) header: u64,
    pub(super) groups: u32,
    pub(super) inodes: u32,
    pub(super) inodes_per_block: u32,
}

impl Layout {
    /// Returns the layout of a disk of `bytes` bytes; the parameters must have been checked.
    pub(super) fn new(parameters: &Parameters, bytes: u64) -> Layout {
        let Parameters { block, fragment, group, bytes_per_inode, .. } = *parameters;
        let per_block = u64::from(block / fragment);
        let inodes_per_block = block / INODE;
        let wanted = group.div_ceil(u64::from(bytes_per_inode)) as u32;
        let inode_blocks = wanted.div_ceil(inodes_per_block);
        Layout {
            per_block,
            group: group / u64::from(fragment),
            header: (2 + u64::from(inode_blocks)) * per_block,
            groups: u32::try_from(bytes / group).unwrap_or(u32::MAX),
            inodes: inode_blocks * inodes_per_block,
            inodes_per_block,
        }
    }

    /// Returns the place of the block with a group's bitmaps.
    pub(super) fn bitmaps(&self, group: u32) -> u64 {
        u64::from(group) * self.group + self.per_block
    }

    /// Returns the place of the block that contains an inode.
    pub(super) fn inode_block(&self, inode: u32) -> u64 {
        let block = u64::from(inode % self.inodes / self.inodes_per_block);
        u64::from(inode / self.inodes) * self.group + (2 + block) * self.per_block
    }

    pub(super) fn group_of_inode(&self, inode: u32) -> u32 {
        inode / self.inodes
    }

    pub(super) fn group_of(&self, at: u64) -> u32 {
        (at / self.group) as u32
    }

    /// Returns the number of data blocks per group.
    fn blocks(&self) -> usize {
        ((self.group - self.header) / self.per_block) as usize
    }

    /// Returns the first fragment of a data block.
    fn place(&self, group: u32, block: usize) -> u64 {
        u64::from(group) * self.group + self.header + block as u64 * self.per_block
    }

    /// Returns the group and data block of a place, and the fragment within the block.
    fn block_of(&self, at: u64) -> (u32, usize, u64) {
        let within = at % self.group - self.header;
        (self.group_of(at), (within / self.per_block) as usize, within % self.per_block)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Groups {
    pub(super) layout: Layout,
    groups: Vec<Group>,
    /// Free fragments, including those of whole blocks.
    free: u64,
    free_blocks: u64,
    /// Free fragments that are not given out.
    reserve: u64,
    /// For each mask of a block: the lengths of its free runs, one bit each.
    runs: Vec<u16>,
}

#[derive(Clone, Debug)]
struct Group {
    /// For each data block, the fragments in use, one bit each.
    used: Vec<u8>,
    free_blocks: u32,
    /// For each length, the number of broken blocks that have a free run of it.
    broken: [u32; 8],
    /// Inodes in use, one bit each.
    inodes: Vec<u64>,
    free_inodes: u32,
    directories: u32,
}

impl Groups {
    /// Returns groups in which everything is free.
    pub(super) fn new(parameters: &Parameters, bytes: u64) -> Groups {
        let layout = Layout::new(parameters, bytes);
        let blocks = layout.blocks();
        let group = Group {
            used: vec![0; blocks],
            free_blocks: blocks as u32,
            broken: [0; 8],
            inodes: vec![0; layout.inodes.div_ceil(64) as usize],
            free_inodes: layout.inodes,
            directories: 0,
        };
        let free_blocks = blocks as u64 * u64::from(layout.groups);
        let free = free_blocks * layout.per_block;
        Groups {
            groups: vec![group; layout.groups as usize],
            free,
            free_blocks,
            reserve: free * u64::from(parameters.reserve_percent) / 100,
            runs: (0..256).map(|mask| run_lengths(mask as u8, layout.per_block)).collect(),
            layout,
        }
    }

    /// Returns the number of fragments that can still be taken.
    pub(super) fn free(&self) -> u64 {
        self.free.saturating_sub(self.reserve)
    }

    /// Returns the number of fragments in use.
    pub(super) fn used(&self) -> u64 {
        let all = self.layout.blocks() as u64 * self.layout.per_block;
        all * u64::from(self.layout.groups) - self.free
    }

    /// Returns whether `blocks` blocks, and a broken one beside them, can be taken.
    pub(super) fn has_room(&self, blocks: u64) -> bool {
        let wanted = blocks + 2;
        self.free() >= wanted * self.layout.per_block && self.free_blocks >= wanted
    }

    /// Takes a free block, at `near` if possible. Returns `None` if there is none.
    pub(super) fn take_block(&mut self, near: u64) -> Option<u64> {
        let group = self.find_group(near, |group| group.free_blocks > 0)?;
        let from = self.start(group, near);
        let used = &self.groups[group as usize].used;
        let free = |range: &[u8]| range.iter().position(|mask| *mask == 0);
        let block = match free(&used[from..]) {
            Some(found) => from + found,
            None => free(used)?,
        };
        let whole = self.whole();
        self.change(group, block, whole);
        Some(self.layout.place(group, block))
    }

    /// Takes `count` fragments of one block; `count` is less than a block has.
    pub(super) fn take_fragments(&mut self, near: u64, count: u64) -> Option<u64> {
        debug_assert!(count > 0 && count < self.layout.per_block);
        let fits = |group: &Group| group.broken[count as usize..].iter().any(|count| *count > 0);
        let group = self.find_group(near, |group| group.free_blocks > 0 || fits(group))?;
        let broken = &self.groups[group as usize].broken;
        let Some(length) = (count as usize..8).find(|length| broken[*length] > 0) else {
            // Break a whole block.
            let at = self.take_block(self.layout.place(group, self.start(group, near)))?;
            self.give_back(at + count, self.layout.per_block - count);
            return Some(at);
        };
        let from = self.start(group, near);
        let used = &self.groups[group as usize].used;
        let has_run = |mask: &u8| *mask != 0 && self.runs[usize::from(*mask)] & 1 << length != 0;
        let block = match used[from..].iter().position(has_run) {
            Some(found) => from + found,
            None => used.iter().position(has_run)?,
        };
        let first = first_run(used[block], self.layout.per_block, length as u64)?;
        let mask = used[block] | bits(first, count);
        self.change(group, block, mask);
        Some(self.layout.place(group, block) + first)
    }

    /// Extends `have` fragments at `at` to `want` in place, if the following ones are free.
    pub(super) fn extend(&mut self, at: u64, have: u64, want: u64) -> bool {
        let (group, block, within) = self.layout.block_of(at);
        if within + want > self.layout.per_block {
            return false;
        }
        let mask = self.groups[group as usize].used[block];
        let more = bits(within + have, want - have);
        if mask & more != 0 {
            return false;
        }
        self.change(group, block, mask | more);
        true
    }

    /// Frees `count` fragments from `at` on, which may span several blocks of one group.
    ///
    /// # Panics
    /// When one of them is free.
    pub(super) fn give_back(&mut self, at: u64, count: u64) {
        let (mut at, end) = (at, at + count);
        while at < end {
            let (group, block, within) = self.layout.block_of(at);
            let part = (self.layout.per_block - within).min(end - at);
            let mask = self.groups[group as usize].used[block];
            let gone = bits(within, part);
            assert_eq!(mask & gone, gone, "{part} fragments at {at} are freed once");
            self.change(group, block, mask & !gone);
            at += part;
        }
    }

    /// Takes an inode in `group` or near it. Returns `None` if there is none.
    pub(super) fn take_inode(&mut self, group: u32, directory: bool) -> Option<u32> {
        let near = u64::from(group) * self.layout.group + self.layout.header;
        let group = self.find_group(near, |group| group.free_inodes > 0)?;
        let of = &mut self.groups[group as usize];
        let word = of.inodes.iter().position(|word| *word != u64::MAX)?;
        let bit = of.inodes[word].trailing_ones();
        of.inodes[word] |= 1 << bit;
        of.free_inodes -= 1;
        of.directories += u32::from(directory);
        Some(group * self.layout.inodes + word as u32 * 64 + bit)
    }

    pub(super) fn give_back_inode(&mut self, inode: u32, directory: bool) {
        let group = &mut self.groups[(inode / self.layout.inodes) as usize];
        let index = inode % self.layout.inodes;
        let word = &mut group.inodes[index as usize / 64];
        assert!(*word & 1 << (index % 64) != 0, "inode {inode} is freed once");
        *word &= !(1 << (index % 64));
        group.free_inodes += 1;
        group.directories -= u32::from(directory);
    }

    /// Returns the group for a new directory: the one with the fewest directories among those with
    /// at least the mean number of free inodes.
    pub(super) fn group_for_directory(&self) -> u32 {
        let all: u64 = self.groups.iter().map(|group| u64::from(group.free_inodes)).sum();
        let mean = (all / self.groups.len() as u64) as u32;
        let able = self.groups.iter().enumerate().filter(|(_, group)| group.free_inodes >= mean);
        able.min_by_key(|(_, group)| group.directories).map_or(0, |(number, _)| number as u32)
    }

    /// Returns the place where a file that leaves `group` continues: in the next group that has at
    /// least the mean number of free blocks.
    pub(super) fn next_group(&self, group: u32) -> u64 {
        let mean = (self.free_blocks / self.groups.len() as u64) as u32;
        let count = self.layout.groups;
        let next = (1..=count).map(|step| (group + step) % count);
        let roomy = |group: &u32| self.groups[*group as usize].free_blocks >= mean;
        let group = next.into_iter().find(roomy).unwrap_or(group);
        self.layout.place(group, 0)
    }

    /// Returns the place of a group's first data.
    pub(super) fn data_of(&self, group: u32) -> u64 {
        self.layout.place(group, 0)
    }

    /// Returns whether a data fragment is in use.
    pub(super) fn is_used(&self, at: u64) -> bool {
        let (group, block, within) = self.layout.block_of(at);
        self.groups[group as usize].used[block] & bits(within, 1) != 0
    }

    /// Returns whether an inode is in use.
    pub(super) fn is_inode_used(&self, inode: u32) -> bool {
        let group = &self.groups[(inode / self.layout.inodes) as usize];
        let index = inode % self.layout.inodes;
        group.inodes[index as usize / 64] & 1 << (index % 64) != 0
    }

    /// Compares the counters with the bitmaps and reports the first mismatch.
    pub(super) fn audit(&self) -> Result<(), String> {
        let (mut free, mut free_blocks) = (0, 0);
        for (number, group) in self.groups.iter().enumerate() {
            let mut broken = [0; 8];
            let mut whole = 0;
            for mask in &group.used {
                free += self.layout.per_block - u64::from(mask.count_ones());
                whole += u32::from(*mask == 0);
                self.count_runs(*mask, |length| broken[length] += 1);
            }
            free_blocks += u64::from(whole);
            let used: u32 = group.inodes.iter().map(|word| word.count_ones()).sum();
            if (whole, broken) != (group.free_blocks, group.broken) {
                return Err(format!("group {number} has wrong counts of free blocks or runs"));
            }
            if used + group.free_inodes != self.layout.inodes {
                return Err(format!("group {number} has a wrong count of inodes"));
            }
        }
        match (free, free_blocks) == (self.free, self.free_blocks) {
            true => Ok(()),
            false => Err("the sums of free space are wrong".to_owned()),
        }
    }

    /// Returns the mask of a block whose fragments are all in use.
    fn whole(&self) -> u8 {
        bits(0, self.layout.per_block)
    }

    /// Returns the data block with which a search in `group` begins.
    fn start(&self, group: u32, near: u64) -> usize {
        let inside = near % self.layout.group >= self.layout.header;
        if self.layout.group_of(near) != group || !inside {
            return 0;
        }
        let (_, block, within) = self.layout.block_of(near);
        // A place inside a broken block: start at the next block.
        (block + usize::from(within > 0)).min(self.layout.blocks() - 1)
    }

    /// Returns the group of `near`, or the first one by the rules that `will_do`.
    fn find_group(&self, near: u64, will_do: impl Fn(&Group) -> bool) -> Option<u32> {
        let count = self.layout.groups;
        let first = self.layout.group_of(near).min(count - 1);
        let ok = |group: &u32| will_do(&self.groups[*group as usize]);
        let jumps = (0..31).map(|power| 1_u32 << power).take_while(|distance| *distance < count);
        let mut place = first;
        let rehashed = jumps.map(|distance| {
            place = (place + distance) % count;
            place
        });
        let mut candidates = std::iter::once(first).chain(rehashed);
        let found = candidates.find(ok);
        found.or_else(|| (2..count).map(|step| (first + step) % count).find(ok))
    }

    fn count_runs(&self, mask: u8, mut count: impl FnMut(usize)) {
        if mask != 0 && mask != self.whole() {
            let lengths = self.runs[usize::from(mask)];
            (1..8).filter(|length| lengths & 1 << length != 0).for_each(&mut count);
        }
    }

    /// Sets the mask of a block and updates all counters.
    fn change(&mut self, group: u32, block: usize, new: u8) {
        let old = self.groups[group as usize].used[block];
        let mut broken = self.groups[group as usize].broken;
        self.count_runs(old, |length| broken[length] -= 1);
        self.count_runs(new, |length| broken[length] += 1);
        let of = &mut self.groups[group as usize];
        of.broken = broken;
        of.used[block] = new;
        of.free_blocks = of.free_blocks + u32::from(new == 0) - u32::from(old == 0);
        self.free_blocks = self.free_blocks + u64::from(new == 0) - u64::from(old == 0);
        self.free = self.free + u64::from(old.count_ones()) - u64::from(new.count_ones());
    }
}

/// Returns a mask of `count` bits from bit `first` on.
fn bits(first: u64, count: u64) -> u8 {
    (((1_u16 << count) - 1) << first) as u8
}

/// Returns the lengths of the runs of zeros in a mask of `per_block` bits, as one bit per length.
fn run_lengths(mask: u8, per_block: u64) -> u16 {
    let mut lengths = 0;
    let mut length = 0;
    for bit in 0..=per_block {
        if bit < per_block && mask & 1 << bit == 0 {
            length += 1;
        } else {
            lengths |= u16::from(length > 0) << length;
            length = 0;
        }
    }
    lengths
}

/// Returns the start of the first run of exactly `length` zeros.
fn first_run(mask: u8, per_block: u64, length: u64) -> Option<u64> {
    let free = |bit: u64| bit < per_block && mask & 1 << bit == 0;
    (0..per_block).find(|first| {
        let begins = free(*first) && (*first == 0 || !free(first - 1));
        begins && (*first..first + length).all(free) && !free(first + length)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn groups(groups: u64) -> Groups {
        let parameters = Parameters { group: 1 << 20, ..Parameters::ucfs_ffs(64 << 20) };
        Groups::new(&parameters, groups << 20)
    }

    #[test]
    fn a_file_goes_on_behind_itself_and_then_nearby() {
        let mut groups = groups(4);
        let first = groups.take_block(groups.data_of(2)).unwrap();
        assert_eq!(first, groups.data_of(2));
        assert_eq!(groups.take_block(first + 4), Some(first + 4));
        // Taken already, so the nearest one behind it.
        assert_eq!(groups.take_block(first + 4), Some(first + 8));
        // A full group passes the search on to the next one.
        let at = loop {
            let at = groups.take_block(first).unwrap();
            if groups.layout.group_of(at) != 2 {
                break at;
            }
        };
        assert_eq!(groups.layout.group_of(at), 3);
        groups.audit().unwrap();
    }

    #[test]
    fn fragments_come_from_the_shortest_run_that_will_do() {
        let mut groups = groups(2);
        let near = groups.data_of(0);
        let one = groups.take_fragments(near, 1).unwrap();
        assert_eq!(one, near);
        // Three are left in that block; a second one is broken for a pair of threes.
        assert_eq!(groups.take_fragments(near, 3), Some(near + 1));
        let three = groups.take_fragments(near, 3).unwrap();
        assert_eq!(three, near + 4);
        let two = groups.take_fragments(near, 2).unwrap();
        assert_eq!(two, near + 8);
        // One run of length one and one of length two remain: each request goes where it fits
        // exactly.
        assert_eq!(groups.take_fragments(near, 1), Some(near + 7));
        assert_eq!(groups.take_fragments(near, 2), Some(near + 10));
        assert!(!groups.extend(two, 2, 3));
        groups.give_back(near + 10, 2);
        assert!(groups.extend(two, 2, 4));
        assert!(!groups.extend(one, 1, 2));
        groups.audit().unwrap();
    }

    #[test]
    #[should_panic(expected = "freed once")]
    fn a_fragment_is_freed_once() {
        let mut groups = groups(1);
        let at = groups.take_block(0).unwrap();
        groups.give_back(at, 4);
        groups.give_back(at + 3, 1);
    }

    #[test]
    fn directories_are_spread_and_their_files_are_not() {
        let mut groups = groups(4);
        let mut of = [0; 4];
        for _ in 0..8 {
            let group = groups.group_for_directory();
            groups.take_inode(group, true).unwrap();
            of[group as usize] += 1;
        }
        assert_eq!(of, [2; 4]);
        let inode = groups.take_inode(3, false).unwrap();
        assert_eq!(groups.layout.group_of_inode(inode), 3);
        // No inode is left there, so the next group is used.
        for _ in 0..groups.layout.inodes {
            groups.take_inode(3, false).unwrap();
        }
        let inode = groups.take_inode(3, false).unwrap();
        assert_ne!(groups.layout.group_of_inode(inode), 3);
        groups.audit().unwrap();
    }

    /// Random allocations and frees: no fragment is given out twice, and none is lost.
    #[test]
    fn nothing_is_given_out_twice() {
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut groups = groups(3);
            let whole = groups.free;
            let mut held: BTreeMap<u64, u64> = BTreeMap::new();
            for step in 0..6_000 {
                let title = format!("seed {seed} step {step}");
                let near = groups.data_of(random.u32(..3)) + random.u64(..900);
                let filling = step / 1_000 % 2 == 0;
                if random.u32(..10) < if filling { 7 } else { 3 } {
                    let count = random.u64(1..=4);
                    let at = match count {
                        4 => groups.take_block(near),
                        count => groups.take_fragments(near, count),
                    };
                    let Some(at) = at else { continue };
                    let before = held.range(..=at).next_back();
                    assert!(before.is_none_or(|(at_, count)| at_ + count <= at), "{title}");
                    assert!(held.range(at..).next().is_none_or(|(n, _)| at + count <= *n));
                    assert!((at..at + count).all(|at| groups.is_used(at)), "{title}");
                    held.insert(at, count);
                } else if let Some((at, count)) = held.range(near..).next() {
                    let (at, count) = (*at, *count);
                    if count < 4 && groups.extend(at, count, count + 1) {
                        held.insert(at, count + 1);
                    } else {
                        held.remove(&at);
                        groups.give_back(at, count);
                    }
                }
                assert_eq!(whole - groups.free, held.values().sum::<u64>(), "{title}");
                if step % 500 == 0 {
                    groups.audit().expect(&title);
                }
            }
            held.iter().for_each(|(at, count)| groups.give_back(*at, *count));
            assert_eq!(groups.free, whole, "seed {seed}");
            groups.audit().unwrap();
        }
    }
}
