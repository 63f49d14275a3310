//! A file system in virtual time: BSD's FFS, which is Solaris's UFS, on a simulated disk.
//!
//! It exists because the systems of the papers keep a file per object, and the papers are about the
//! costs of that: cylinder groups with their inodes and bitmaps, blocks and fragments, directories
//! that are searched from the beginning, a cache of names, metadata that is written before a call
//! returns, a buffer cache that writes behind and reads a block before it changes a part of it.
//! Every access goes to the disk below, so that times are the drive's.
//!
//! It promises: all follows from the calls and the seeds; no fragment belongs to two files
//! ([`Ffs::audit`]). It keeps no bytes: files have lengths and places. One large file with its
//! bytes is a [`FileDevice`]. A crash is not modelled.

mod audit;
mod buffers;
mod counts;
mod data;
mod directory;
mod file_device;
pub(crate) mod file_lock;
mod groups;
mod inode;
pub(crate) mod name_cache;
mod parameters;
pub(crate) mod paths;
mod transfer;

use std::cell::{Cell, RefCell, RefMut};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::rc::Rc;

use device::{Device, FrozenBuf, IoBuf, Nanos};

pub use counts::Counts;
pub use file_device::FileDevice;
pub use parameters::{
    BadParameters, DIRECT_BLOCKS, DataWrites, INODE, Metadata, Names, Parameters, Processor,
};

use crate::disk::sim_disk::SimDisk;
use crate::time::executor::Handle;
use buffers::Buffers;
use directory::Directory;
use groups::Groups;
use inode::{Full, Growth, Inode, Units};
use name_cache::NameCache;
use transfer::Progress;

/// The inode of the directory at the root.
const ROOT: u32 = 0;

/// A file system. A clone is another handle on the same one.
#[derive(Clone)]
pub struct Ffs {
    inner: Rc<Inner>,
}

struct Inner {
    clock: Handle,
    disk: SimDisk,
    parameters: Parameters,
    units: Units,
    /// Fragments that may wait to be written before a writer waits.
    most_dirty: u64,
    state: RefCell<State>,
    progress: Progress,
}

struct State {
    groups: Groups,
    inodes: HashMap<u32, Inode>,
    names: NameCache,
    buffers: Buffers,
    /// Inodes that changed in memory and not yet in their block, and since when.
    stale: BTreeMap<u32, Nanos>,
    /// Whether the next sync is scheduled.
    syncing: bool,
    /// Number of requests on their way to the disk without a waiting caller.
    leaving: u32,
    /// Place at which writing for want of memory goes on.
    sweep: u64,
    counts: Counts,
    /// Buffers to be written, by length: the file system keeps no bytes.
    zeros: HashMap<u64, FrozenBuf>,
}

/// A file that is open. It counts as open until [`Ffs::close`].
#[derive(Debug)]
pub struct File {
    inode: u32,
    /// The name cache lacked it, and its inode is still to be written for that (C15).
    missed: Cell<bool>,
}

impl Ffs {
    /// Returns an empty file system on `disk`, in the time of `clock`. Making it takes no time.
    ///
    /// # Errors
    /// The parameters do not fit together, or not the disk.
    pub fn new(clock: Handle, disk: SimDisk, parameters: Parameters) -> Result<Ffs, BadParameters> {
        let bytes = disk.geometry().len;
        parameters.check(bytes)?;
        let fragment = u64::from(parameters.fragment);
        let units = Units {
            fragment,
            per_block: u64::from(parameters.block / parameters.fragment),
            per_indirect: u64::from(parameters.block) / 4,
            group_share: u64::from(parameters.group_share),
        };
        let memory = parameters.memory / fragment;
        let mut state = State {
            groups: Groups::new(&parameters, bytes),
            inodes: HashMap::new(),
            names: NameCache::new(parameters.names),
            buffers: Buffers::new(memory, parameters.metadata_memory.map(|it| it / fragment)),
            stale: BTreeMap::new(),
            syncing: false,
            leaving: 0,
            sweep: 0,
            counts: Counts::default(),
            zeros: HashMap::new(),
        };
        let root = state.groups.take_inode(0, true);
        assert_eq!(root, Some(ROOT), "the root is the first inode");
        state.inodes.insert(ROOT, Inode::new(Some(Directory::new())));
        let grown = state.grow(&units, ROOT, directory::CHUNK);
        assert!(grown.is_ok(), "a new disk has room for its root");
        let most_dirty = memory * u64::from(parameters.dirty_percent) / 100;
        let progress = Progress::default();
        let state = RefCell::new(state);
        let inner = Inner { clock, disk, parameters, units, most_dirty, state, progress };
        Ok(Ffs { inner: Rc::new(inner) })
    }

    /// Returns the disk below.
    pub fn disk(&self) -> &SimDisk {
        &self.inner.disk
    }

    /// Returns its parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.inner.parameters
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    /// Returns the number of free bytes.
    pub fn free(&self) -> u64 {
        self.state().groups.free() * self.inner.units.fragment
    }

    /// Returns the number of bytes in use by files, directories and indirect blocks.
    pub fn used(&self) -> u64 {
        self.state().groups.used() * self.inner.units.fragment
    }

    /// Creates a file and opens it.
    ///
    /// # Errors
    /// As the system call: it exists, its directory does not, the disk is full or broken.
    pub async fn create(&self, path: &str) -> io::Result<File> {
        self.compute(self.inner.parameters.processor.call).await;
        let inode = self.make(path, false).await?;
        Ok(File { inode, missed: Cell::new(false) })
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// As the system call.
    pub async fn mkdir(&self, path: &str) -> io::Result<()> {
        self.compute(self.inner.parameters.processor.call).await;
        self.make(path, true).await.map(drop)
    }

    /// Opens a file.
    ///
    /// # Errors
    /// As the system call.
    pub async fn open(&self, path: &str) -> io::Result<File> {
        self.compute(self.inner.parameters.processor.call).await;
        let (inode, missed) = self.find(path).await?;
        let mut state = self.state();
        let of = state.inode_mut(inode);
        if of.directory.is_some() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        of.opens += 1;
        of.next_read = 0;
        Ok(File { inode, missed: Cell::new(missed) })
    }

    /// Returns the length of a file in bytes.
    pub fn len(&self, file: &File) -> u64 {
        self.state().inode_mut(file.inode).size
    }

    /// Reads exactly `len` bytes at `offset`.
    ///
    /// # Errors
    /// The file ends before, or the disk is broken.
    pub async fn read(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        let processor = self.inner.parameters.processor;
        self.compute(processor.call + processor.byte * len as f64).await;
        let size = self.len(file);
        if offset.checked_add(len).is_none_or(|end| end > size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if len > 0 {
            self.read_data(file.inode, offset, len).await?;
        }
        if !self.inner.parameters.access_time {
            return Ok(());
        }
        if !self.counts_metadata() {
            self.touch(file.inode);
        } else if file.missed.replace(false) {
            self.write_inode_counted(file.inode).await?;
        }
        Ok(())
    }

    /// Writes `len` bytes at `offset`, which may lie behind the end: what is between is allocated.
    /// Writes to one file are carried out in the order of the calls.
    ///
    /// # Errors
    /// The disk is full, in which case nothing changes, or broken.
    pub async fn write(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        let _turn = self.turn_to_write(file.inode).await;
        let processor = self.inner.parameters.processor;
        self.compute(processor.call + processor.byte * len as f64).await;
        if offset.checked_add(len).is_none() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        match len {
            0 => Ok(()),
            len => self.write_data(file.inode, offset, len).await,
        }
    }

    /// Closes a file. One that lost its name goes with its last opening.
    ///
    /// # Errors
    /// The disk is broken.
    pub async fn close(&self, file: File) -> io::Result<()> {
        self.compute(self.inner.parameters.processor.call).await;
        let inode = file.inode;
        if self.inner.parameters.data == (DataWrites::Rows { at_close: true }) {
            let blocks = self.state().inode_mut(inode).blocks(&self.inner.units);
            self.state().inode_mut(inode).row = 0..0;
            self.send_blocks(inode, 0..blocks);
        }
        self.state().inode_mut(inode).opens -= 1;
        self.release(inode).await
    }

    /// Removes a file.
    ///
    /// # Errors
    /// As the system call.
    pub async fn unlink(&self, path: &str) -> io::Result<()> {
        self.compute(self.inner.parameters.processor.call).await;
        self.remove(path).await
    }

    /// Brings what was written to a file to the disk, and its inode.
    ///
    /// # Errors
    /// The disk is broken.
    pub async fn sync(&self, file: &File) -> io::Result<()> {
        self.compute(self.inner.parameters.processor.call).await;
        self.sync_file(file.inode).await?;
        self.inner.disk.flush().await
    }

    /// Brings everything to the disk.
    ///
    /// # Errors
    /// The disk is broken.
    pub async fn sync_all(&self) -> io::Result<()> {
        self.compute(self.inner.parameters.processor.call).await;
        self.sync_everything().await?;
        self.inner.disk.flush().await
    }

    /// Makes a file of `len` bytes and opens it, and the directories on its path, all in no time,
    /// as if it had been there for long: nothing of it is in memory.
    ///
    /// # Errors
    /// As of creating and writing it.
    pub fn preallocate(&self, path: &str, len: u64) -> io::Result<File> {
        let mut state = self.state();
        let inode = state.make_at_once(&self.inner.units, path)?;
        if len > 0 {
            state.grow(&self.inner.units, inode, len).map_err(full)?;
        }
        Ok(File { inode, missed: Cell::new(false) })
    }

    /// Makes a file as [`Ffs::preallocate`] does, but never written to: a block that is first
    /// written in part need not be read. It is like a file that grows as it is written, except for
    /// the inodes and bitmaps of its growth.
    ///
    /// # Errors
    /// As of creating and writing it.
    pub fn reserve(&self, path: &str, len: u64) -> io::Result<File> {
        let file = self.preallocate(path, len)?;
        let blocks = len.div_ceil(self.inner.units.block());
        self.state().inode_mut(file.inode).unwritten = vec![true; blocks as usize];
        Ok(file)
    }

    /// Makes a file as [`Ffs::preallocate`] does, and closes it again.
    ///
    /// # Errors
    /// As of creating and writing it.
    pub fn install(&self, path: &str, len: u64) -> io::Result<()> {
        let file = self.preallocate(path, len)?;
        self.state().inode_mut(file.inode).opens -= 1;
        Ok(())
    }

    /// Touches `len` bytes at `offset` of a file that is mapped into memory, to read or to `write`
    /// them. Pages that are not there are read one by one, also those that are to be overwritten:
    /// the first byte of a page brings the page. A changed page leaves with the next sync or when
    /// memory is needed. No call is made, so that the processor and access times have no part in
    /// it.
    ///
    /// # Errors
    /// The file ends before, or the disk is broken.
    pub async fn touch_mapped(
        &self,
        file: &File,
        offset: u64,
        len: u64,
        write: bool,
    ) -> io::Result<()> {
        let size = self.len(file);
        if offset.checked_add(len).is_none_or(|end| end > size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if len > 0 {
            self.fault(file.inode, offset, len, write).await?;
        }
        Ok(())
    }

    fn state(&self) -> RefMut<'_, State> {
        self.inner.state.borrow_mut()
    }

    fn counts_metadata(&self) -> bool {
        self.inner.parameters.metadata == Metadata::Counted
    }
}

impl State {
    /// Returns an inode that is in use.
    fn inode_mut(&mut self, inode: u32) -> &mut Inode {
        self.inodes.get_mut(&inode).expect("an open file or a directory has an inode")
    }

    fn grow(&mut self, units: &Units, inode: u32, size: u64) -> Result<Growth, Full> {
        let home = self.groups.data_of(self.groups.layout.group_of_inode(inode));
        let of = self.inodes.get_mut(&inode).expect("what grows has an inode");
        of.grow(&mut self.groups, units, size, home)
    }

    /// Returns `len` zero bytes to be written.
    fn zeros(&mut self, len: u64) -> FrozenBuf {
        let make = || IoBuf::zeroed(len as usize).freeze();
        self.zeros.entry(len).or_insert_with(make).clone()
    }
}

fn full(_: Full) -> io::Error {
    io::ErrorKind::StorageFull.into()
}

#[cfg(test)]
mod tests;
