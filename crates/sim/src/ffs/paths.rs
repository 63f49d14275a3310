//! Paths: lookups, creations and removals. Metadata is written in the order that a file system
//! needs to survive a crash: an inode before the entry that refers to it; for a removal, the entry
//! first, then the inode without its blocks, before the blocks are free.

use std::io;

use device::Clock;

use super::buffers::Key;
use super::directory::{CHUNK, Directory};
use super::inode::{Full, Growth, Inode, Place, Units};
use super::name_cache::Name;
use super::{Ffs, ROOT, State, full};

/// A name in a directory that exists.
struct Leaf<'a> {
    directory: u32,
    name: &'a str,
    /// The directories on the path, without the root.
    way: Vec<u32>,
}

impl Ffs {
    /// Finds the file of a path; also returns whether the name cache missed it.
    pub(super) async fn find(&self, path: &str) -> io::Result<(u32, bool)> {
        if self.counts_metadata() {
            return self.find_counted(path).await;
        }
        let leaf = self.walk(path).await?;
        let inode = self.step(leaf.directory, leaf.name).await?;
        Ok((inode, false))
    }

    /// Finds a path as the UCFS simulator counts it: either the whole path is cached, or every
    /// inode on it is read.
    async fn find_counted(&self, path: &str) -> io::Result<(u32, bool)> {
        let (leaf, inode) = {
            let state = self.state();
            let leaf = state.resolve(path)?;
            let inode = state.entry(leaf.directory, leaf.name).ok_or(io::ErrorKind::NotFound)?;
            (leaf, inode)
        };
        let known = self.knows(Name::new(ROOT, path));
        if known {
            return Ok((inode, false));
        }
        for number in leaf.way.into_iter().chain([inode]) {
            let at = self.state().groups.layout.inode_block(number);
            self.metadata_request(at, false).await?;
        }
        Ok((inode, true))
    }

    /// Writes an inode past the buffer cache, or marks it dirty there if metadata is asynchronous.
    pub(super) async fn write_inode_counted(&self, inode: u32) -> io::Result<()> {
        let at = self.state().groups.layout.inode_block(inode);
        if self.inner.parameters.synchronous {
            return self.metadata_request(at, true).await;
        }
        let place = Place { at, count: self.inner.units.per_block };
        self.room(Key::Meta(at), place.count).await;
        self.change(Key::Meta(at), place);
        self.throttle(inode).await;
        Ok(())
    }

    /// Looks up all directories of a path.
    async fn walk<'a>(&self, path: &'a str) -> io::Result<Leaf<'a>> {
        let (way, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut leaf = Leaf { directory: ROOT, name, way: Vec::new() };
        for part in way.split('/').filter(|part| !part.is_empty()) {
            let next = self.step(leaf.directory, part).await?;
            if self.state().inode_mut(next).directory.is_none() {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            leaf.directory = next;
            leaf.way.push(next);
        }
        match name.is_empty() {
            true => Err(io::ErrorKind::InvalidInput.into()),
            false => Ok(leaf),
        }
    }

    /// Looks up one name and loads the inode that it refers to.
    async fn step(&self, directory: u32, name: &str) -> io::Result<u32> {
        let known = self.knows(Name::new(directory, name));
        if !known {
            self.search(directory, Some(name)).await?;
        }
        let inode = self.state().entry(directory, name).ok_or(io::ErrorKind::NotFound)?;
        if !known {
            self.load_inode(inode).await?;
            self.state().names.learn(Name::new(directory, name));
        }
        Ok(inode)
    }

    fn knows(&self, name: Name) -> bool {
        let mut state = self.state();
        let known = state.names.knows(name);
        match known {
            true => state.counts.name_hits += 1,
            false => state.counts.name_misses += 1,
        }
        known
    }

    async fn load_inode(&self, inode: u32) -> io::Result<()> {
        let at = self.state().groups.layout.inode_block(inode);
        self.load(Key::Meta(at), Place { at, count: self.inner.units.per_block }).await
    }

    /// Searches a directory from its beginning to the entry of `name`, or to its end.
    async fn search(&self, directory: u32, name: Option<&str>) -> io::Result<()> {
        let (last, passed) = {
            let mut state = self.state();
            let entries = state.directory(directory);
            let last = entries.size() / CHUNK - 1;
            let found = name.and_then(|name| entries.find(name));
            let chunk = found.map_or(last as u32, |entry| entry.chunk);
            (u64::from(chunk), entries.entries_up_to(chunk))
        };
        let block = self.inner.units.block();
        for number in 0..=last * CHUNK / block {
            let place = self.state().inode_mut(directory).place(&self.inner.units, number);
            let Some(place) = place else { break };
            self.load(Key::File { inode: directory, block: number }, place).await?;
        }
        self.compute(passed * self.inner.parameters.processor.entry).await;
        Ok(())
    }

    /// Creates a directory, or a file, which is then open. Fails if the name exists.
    pub(super) async fn make(&self, path: &str, directory: bool) -> io::Result<u32> {
        let leaf = match self.counts_metadata() {
            true => self.state().resolve(path)?,
            false => {
                let leaf = self.walk(path).await?;
                self.search(leaf.directory, Some(leaf.name)).await?;
                leaf
            }
        };
        let made = self.state().make(&self.inner.units, &leaf, directory)?;
        if self.counts_metadata() {
            for inode in leaf.way.into_iter().chain([made.inode]) {
                self.write_inode_counted(inode).await?;
            }
            self.state().names.learn(Name::new(ROOT, path));
            return Ok(made.inode);
        }
        self.write_new(&leaf, &made, directory).await?;
        self.state().names.learn(Name::new(leaf.directory, leaf.name));
        Ok(made.inode)
    }

    async fn write_new(&self, leaf: &Leaf<'_>, made: &Made, directory: bool) -> io::Result<()> {
        let layout = self.state().groups.layout;
        let bitmaps = layout.bitmaps(layout.group_of_inode(made.inode));
        self.change_metadata(bitmaps, true).await?;
        if directory {
            self.note_growth(made.inode, &made.own).await?;
            self.change_block(made.inode, 0).await?;
        }
        self.change_metadata(layout.inode_block(made.inode), false).await?;
        self.note_growth(leaf.directory, &made.parent).await?;
        self.change_block(leaf.directory, made.chunk).await?;
        self.change_times(leaf.directory, directory || made.grew).await
    }

    /// Records that a directory's inode has changed; `at_once`: by more than its times.
    async fn change_times(&self, directory: u32, at_once: bool) -> io::Result<()> {
        if at_once || self.inner.parameters.directory_inodes {
            let block = self.state().groups.layout.inode_block(directory);
            return self.change_metadata(block, false).await;
        }
        self.touch(directory);
        Ok(())
    }

    /// Records that the directory block that contains `chunk` has changed.
    async fn change_block(&self, directory: u32, chunk: u32) -> io::Result<()> {
        let block = u64::from(chunk) * CHUNK / self.inner.units.block();
        let key = Key::File { inode: directory, block };
        let place = self.state().inode_mut(directory).place(&self.inner.units, block);
        self.change(key, place.expect("a directory has blocks for its chunks"));
        match self.inner.parameters.synchronous {
            true => self.write_now(key).await,
            false => Ok(()),
        }
    }

    /// Removes a name; its file is freed once no handle has it open.
    pub(super) async fn remove(&self, path: &str) -> io::Result<()> {
        let counted = self.counts_metadata();
        let leaf = match counted {
            true => self.state().resolve(path)?,
            false => {
                let leaf = self.walk(path).await?;
                self.search(leaf.directory, Some(leaf.name)).await?;
                leaf
            }
        };
        let (inode, chunk) = self.state().unname(leaf.directory, leaf.name)?;
        let freed = self.state().free(&self.inner.units, inode);
        if counted {
            self.state().names.forget(Name::new(ROOT, path));
            for number in leaf.way.into_iter().chain([inode]) {
                self.write_inode_counted(number).await?;
            }
            return Ok(());
        }
        self.state().names.forget(Name::new(leaf.directory, leaf.name));
        self.change_block(leaf.directory, chunk).await?;
        self.change_times(leaf.directory, false).await?;
        match freed {
            Some(freed) => self.write_freed(inode, freed).await,
            None => Ok(()),
        }
    }

    /// Closes a handle: frees the file if it has neither a name nor another handle.
    pub(super) async fn release(&self, inode: u32) -> io::Result<()> {
        let freed = self.state().free(&self.inner.units, inode);
        match freed {
            Some(freed) if !self.counts_metadata() => self.write_freed(inode, freed).await,
            _ => Ok(()),
        }
    }

    /// Writes the metadata of a freed file.
    async fn write_freed(&self, inode: u32, freed: Freed) -> io::Result<()> {
        let layout = self.state().groups.layout;
        let block = layout.inode_block(inode);
        // The pointers leave the disk before the blocks become free. Marking the inode free can
        // wait.
        if freed.had_blocks {
            self.change_metadata(block, false).await?;
        }
        self.change_metadata(block, true).await?;
        for group in freed.groups {
            self.change_metadata(layout.bitmaps(group), true).await?;
        }
        Ok(())
    }

    /// Records that an inode's times changed; the next sync writes it.
    pub(super) fn touch(&self, inode: u32) {
        let now = self.inner.clock.now();
        self.state().stale.entry(inode).or_insert(now);
        self.wake_sync();
    }
}

struct Made {
    inode: u32,
    chunk: u32,
    /// True if the directory grew by a fragment.
    grew: bool,
    parent: Growth,
    own: Growth,
}

/// Metadata changed by freeing a file.
struct Freed {
    groups: Vec<u32>,
    had_blocks: bool,
}

impl State {
    /// Finds the directories of a path at no cost.
    fn resolve<'a>(&self, path: &'a str) -> io::Result<Leaf<'a>> {
        let (way, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut leaf = Leaf { directory: ROOT, name, way: Vec::new() };
        for part in way.split('/').filter(|part| !part.is_empty()) {
            let next = self.entry(leaf.directory, part).ok_or(io::ErrorKind::NotFound)?;
            if self.inodes[&next].directory.is_none() {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            leaf.directory = next;
            leaf.way.push(next);
        }
        match name.is_empty() {
            true => Err(io::ErrorKind::InvalidInput.into()),
            false => Ok(leaf),
        }
    }

    /// Returns the inode that a name refers to.
    fn entry(&self, directory: u32, name: &str) -> Option<u32> {
        let entries = self.inodes.get(&directory)?.directory.as_ref()?;
        entries.find(name).map(|entry| entry.inode)
    }

    fn directory(&mut self, inode: u32) -> &mut Directory {
        self.inode_mut(inode).directory.as_mut().expect("it is a directory")
    }

    /// Creates a file or directory in memory: inode, entry, and a directory's first fragment.
    fn make(&mut self, units: &Units, leaf: &Leaf<'_>, directory: bool) -> io::Result<Made> {
        if self.entry(leaf.directory, leaf.name).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !self.groups.has_room(2) {
            return Err(full(Full));
        }
        let group = match directory {
            true => self.groups.group_for_directory(),
            false => self.groups.layout.group_of_inode(leaf.directory),
        };
        let inode = self.groups.take_inode(group, directory);
        let inode = inode.ok_or_else(|| full(Full))?;
        // A new file is open, so it cannot be freed while its creator waits for the disk.
        let mut new = Inode::new(directory.then(Directory::new));
        new.opens = u32::from(!directory);
        self.inodes.insert(inode, new);
        let own = match directory {
            true => self.grow(units, inode, CHUNK).map_err(full)?,
            false => Growth::default(),
        };
        let chunk = self.directory(leaf.directory).insert(leaf.name, inode);
        let size = self.directory(leaf.directory).size();
        let had = self.inode_mut(leaf.directory).size;
        let parent = match size > had {
            true => self.grow(units, leaf.directory, size).map_err(full)?,
            false => Growth::default(),
        };
        let grew = !parent.groups.is_empty();
        Ok(Made { inode, chunk, grew, parent, own })
    }

    /// Creates an open file, and the directories on its path, in memory only.
    pub(super) fn make_at_once(&mut self, units: &Units, path: &str) -> io::Result<u32> {
        for (end, _) in path.match_indices('/') {
            let leaf = self.resolve(&path[..end])?;
            if self.entry(leaf.directory, leaf.name).is_none() {
                self.make(units, &leaf, true)?;
            }
        }
        let leaf = self.resolve(path)?;
        self.make(units, &leaf, false).map(|made| made.inode)
    }

    /// Removes an entry; returns its inode and its chunk.
    fn unname(&mut self, directory: u32, name: &str) -> io::Result<(u32, u32)> {
        let inode = self.entry(directory, name).ok_or(io::ErrorKind::NotFound)?;
        if self.inode_mut(inode).directory.is_some() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let entry = self.directory(directory).remove(name).expect("it was found");
        self.inode_mut(inode).named = false;
        Ok((inode, entry.chunk))
    }

    /// Frees an inode; returns `None` if it is still in use.
    fn free(&mut self, units: &Units, number: u32) -> Option<Freed> {
        let inode = self.inodes.get_mut(&number)?;
        if inode.named || inode.opens > 0 {
            return None;
        }
        let blocks = inode.blocks(units);
        let indirect = inode.indirect.clone();
        let mut groups = inode.free(&mut self.groups, units);
        let own = self.groups.layout.group_of_inode(number);
        if !groups.contains(&own) {
            groups.push(own);
        }
        (0..blocks).for_each(|block| self.buffers.discard(Key::File { inode: number, block }));
        indirect.into_iter().for_each(|at| self.buffers.discard(Key::Meta(at)));
        self.inodes.remove(&number);
        self.stale.remove(&number);
        self.groups.give_back_inode(number, false);
        Some(Freed { groups, had_blocks: blocks > 0 })
    }
}
