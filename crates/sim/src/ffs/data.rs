//! File data: reads through the buffer cache in runs of neighbouring blocks, and writes. A write
//! first reads a block that it changes in part, unless the block is in memory.

use std::io;
use std::ops::Range;

use super::buffers::{Found, Key};
use super::inode::{Growth, Place, Units};
use super::parameters::DataWrites;
use super::transfer::Kind;
use super::{Ffs, State, full};

impl Ffs {
    /// Brings `len` bytes at `offset` into memory; the file must contain them. A sequential read
    /// also brings the following blocks, as far as they are neighbours on the disk and fit one
    /// request.
    pub(super) async fn read_data(&self, inode: u32, offset: u64, len: u64) -> io::Result<()> {
        let missed = self.read_blocks(inode, offset, len).await?;
        self.count_read(missed);
        Ok(())
    }

    fn count_read(&self, missed: bool) {
        let counts = &mut self.state().counts;
        counts.reads += 1;
        counts.reads_from_memory += u64::from(!missed);
    }

    /// Reads like [`Ffs::read_data`]; returns whether any block was missing from memory.
    async fn read_blocks(&self, inode: u32, offset: u64, len: u64) -> io::Result<bool> {
        let block = self.inner.units.block();
        let last = (offset + len - 1) / block;
        let ahead = {
            let mut state = self.state();
            let of = state.inode_mut(inode);
            std::mem::replace(&mut of.next_read, offset + len) == offset
        };
        let mut number = offset / block;
        let mut missed = false;
        while number <= last {
            self.load_way(inode, number).await?;
            missed |= self.state().buffers.find(Key::File { inode, block: number }) != Found::Valid;
            number = self.read_some(inode, number, last, ahead).await?;
        }
        Ok(missed)
    }

    /// Loads the indirect blocks that lead to a block.
    async fn load_way(&self, inode: u32, number: u64) -> io::Result<()> {
        let way = self.state().inode_mut(inode).way_to(&self.inner.units, number);
        for at in way {
            self.load(Key::Meta(at), Place { at, count: self.inner.units.per_block }).await?;
        }
        Ok(())
    }

    /// Brings block `number` and perhaps some that follow into memory; returns the next block to
    /// look at.
    async fn read_some(&self, inode: u32, number: u64, last: u64, ahead: bool) -> io::Result<u64> {
        let key = |block| Key::File { inode, block };
        loop {
            let found = self.state().buffers.find(key(number));
            match found {
                Found::Valid => {
                    self.state().counts.data_hits += 1;
                    return Ok(number + 1);
                }
                Found::Loading => self.inner.progress.next().await,
                Found::Missing => break,
            }
        }
        let most = u64::from(self.inner.parameters.cluster) / self.inner.units.fragment;
        self.room(key(number), most).await;
        let row = {
            let mut state = self.state();
            let places = state.missing_row(&self.inner.units, inode, number, last, ahead);
            let mut row = Vec::new();
            let mut fragments = 0;
            for (place, block) in places.into_iter().zip(number..) {
                if fragments > 0 && fragments + place.count > most {
                    break;
                }
                fragments += place.count;
                row.push(state.buffers.begin_load(key(block), place));
            }
            let wanted = (row.len() as u64).min(last + 1 - number);
            state.counts.data_misses += wanted;
            row
        };
        let next = number + row.len() as u64;
        let kind = Kind::Data;
        self.read_row(row, kind).await?;
        Ok(next)
    }

    /// Writes `len` bytes at `offset` of a file, which grows if necessary.
    pub(super) async fn write_data(&self, inode: u32, offset: u64, len: u64) -> io::Result<()> {
        let end = offset + len;
        let units = &self.inner.units;
        let (old, growth) = {
            let mut state = self.state();
            let old = state.inode_mut(inode).size;
            let growth = match end > old {
                true => state.grow(units, inode, end).map_err(full)?,
                false => Growth::default(),
            };
            (old, growth)
        };
        self.note_growth(inode, &growth).await?;
        let block = units.block();
        // Starts at the old end if the write leaves a gap behind it.
        let blocks = offset.min(old) / block..end.div_ceil(block);
        for number in blocks.clone() {
            let begin = number * block;
            let known = old.min(begin + block);
            let covered = begin >= old || (offset <= begin && end >= known);
            let key = Key::File { inode, block: number };
            let unwritten = self.state().inode_mut(inode).begin_block(number);
            if !covered && !unwritten {
                self.read_for_write(inode, number).await?;
            }
            let place = self.state().inode_mut(inode).place(units, number);
            let place = place.expect("the file has grown");
            if !self.state().buffers.has(key) {
                self.room(key, place.count).await;
            }
            self.change(key, place);
        }
        if !self.counts_metadata() {
            self.touch(inode);
        }
        self.let_go(inode, blocks, end).await?;
        self.throttle(inode).await;
        Ok(())
    }

    /// Touches bytes of a mapped file, which must contain them.
    pub(super) async fn fault(
        &self,
        inode: u32,
        offset: u64,
        len: u64,
        write: bool,
    ) -> io::Result<()> {
        let block = self.inner.units.block();
        let mut missed = false;
        for number in offset / block..(offset + len).div_ceil(block) {
            self.load_way(inode, number).await?;
            missed |= self.state().buffers.find(Key::File { inode, block: number }) != Found::Valid;
            while self.read_some(inode, number, number, false).await? == number {}
            if write {
                let key = Key::File { inode, block: number };
                let place = self.state().inode_mut(inode).place(&self.inner.units, number);
                self.change(key, place.expect("it is a block of the file"));
            }
        }
        if write {
            self.throttle(inode).await;
        } else {
            self.count_read(missed);
        }
        Ok(())
    }

    /// Reads a block that is to be changed in part, since the whole block must be in memory.
    async fn read_for_write(&self, inode: u32, number: u64) -> io::Result<()> {
        let key = Key::File { inode, block: number };
        let place = {
            let mut state = self.state();
            let place = state.inode_mut(inode).place(&self.inner.units, number);
            if state.buffers.find(key) == Found::Missing {
                state.counts.reads_for_write += 1;
            }
            place.expect("it is a block of the file")
        };
        self.load_way(inode, number).await?;
        self.load(key, place).await
    }

    /// Updates the bitmaps and indirect blocks that the growth of a file changed.
    pub(super) async fn note_growth(&self, inode: u32, growth: &Growth) -> io::Result<()> {
        if self.counts_metadata() {
            return Ok(());
        }
        for group in &growth.groups {
            let at = self.state().groups.layout.bitmaps(*group);
            self.change_metadata(at, true).await?;
        }
        for at in &growth.indirect {
            let place = Place { at: *at, count: self.inner.units.per_block };
            self.room(Key::Meta(*at), place.count).await;
            self.change(Key::Meta(*at), place);
        }
        if !growth.groups.is_empty() {
            let way = {
                let mut state = self.state();
                let of = state.inode_mut(inode);
                let last = of.blocks(&self.inner.units) - 1;
                of.way_to(&self.inner.units, last)
            };
            if let Some(at) = way.last() {
                self.change_metadata(*at, true).await?;
            }
        }
        Ok(())
    }

    /// Starts the writes that the data policy requires after a write that ended at byte `end`.
    async fn let_go(&self, inode: u32, blocks: Range<u64>, end: u64) -> io::Result<()> {
        match self.inner.parameters.data {
            DataWrites::Behind => {}
            DataWrites::Through => {
                for block in blocks {
                    self.write_now(Key::File { inode, block }).await?;
                }
            }
            DataWrites::Rows { .. } => {
                let block = self.inner.units.block();
                let whole = blocks.filter(|number| end >= (number + 1) * block);
                whole.for_each(|number| self.lengthen_row(inode, number));
            }
        }
        Ok(())
    }

    /// Adds a fully written block to the run that is being gathered for its file.
    fn lengthen_row(&self, inode: u32, number: u64) {
        let row = self.state().inode_mut(inode).row.clone();
        let next = if row.end == number && !row.is_empty() {
            row.start..number + 1
        } else {
            self.send_blocks(inode, row);
            number..number + 1
        };
        let full = (next.end - next.start) * self.inner.units.block()
            >= u64::from(self.inner.parameters.cluster);
        let rest = if full { 0..0 } else { next.clone() };
        self.state().inode_mut(inode).row = rest;
        if full {
            self.send_blocks(inode, next);
        }
    }

    /// Starts writing the dirty ones among these blocks of a file.
    pub(super) fn send_blocks(&self, inode: u32, blocks: Range<u64>) {
        for block in blocks {
            let at = self.state().buffers.dirty_at(Key::File { inode, block });
            if let Some(at) = at {
                self.send(at);
            }
        }
    }

    /// Writes the dirty blocks of a file and its inode; returns when they are on the disk.
    pub(super) async fn sync_file(&self, inode: u32) -> io::Result<()> {
        let mine = |key: &Key| matches!(key, Key::File { inode: of, .. } if *of == inode);
        let waiting: Vec<Key> = {
            let state = self.state();
            state.buffers.all_dirty().map(|(_, key)| key).filter(mine).collect()
        };
        for key in &waiting {
            let at = self.state().buffers.dirty_at(*key);
            if let Some(at) = at {
                self.send(at);
            }
        }
        while self.state().inode_mut(inode).leaving > 0 {
            self.inner.progress.next().await;
        }
        if self.state().stale.remove(&inode).is_some() && !self.counts_metadata() {
            let block = self.state().groups.layout.inode_block(inode);
            self.change_metadata(block, true).await?;
            self.write_now(Key::Meta(block)).await?;
        }
        Ok(())
    }
}

impl State {
    /// Returns the places of the missing blocks from `number` on that are contiguous on the disk:
    /// up to `last`, or with `ahead` up to the end of the file.
    fn missing_row(
        &mut self,
        units: &Units,
        inode: u32,
        number: u64,
        last: u64,
        ahead: bool,
    ) -> Vec<Place> {
        let mut row: Vec<Place> = Vec::new();
        let of = &self.inodes[&inode];
        let end = if ahead { of.blocks(units) } else { last + 1 };
        for block in number..end {
            let Some(place) = of.place(units, block) else { break };
            let follows = row.last().is_none_or(|before| before.at + before.count == place.at);
            if !follows || self.buffers.has(Key::File { inode, block }) || row.len() >= 64 {
                break;
            }
            row.push(place);
        }
        row
    }
}
