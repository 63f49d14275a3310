//! A file system in virtual time on a simulated disk: BSD's FFS, which is Solaris's UFS.
//!
//! The systems of the papers keep one file per object, and the papers are about the costs of that:
//! cylinder groups with their inodes and bitmaps, blocks and fragments, directories searched from
//! the beginning, a name cache, metadata written before a call returns, and a buffer cache that
//! writes behind and reads a block before changing a part of it. Every access goes to the disk
//! below, so times are the drive's.
//!
//! Guarantees: all results follow from the calls and the seeds, and no fragment belongs to two
//! files ([`Ffs::audit`]). The file system stores no bytes: files have lengths and places only. A
//! [`FileDevice`] is one large file with its bytes. Crashes are not modelled.

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
    /// Dirty fragments above which a writer waits.
    most_dirty: u64,
    state: RefCell<State>,
    progress: Progress,
}

struct State {
    groups: Groups,
    inodes: HashMap<u32, Inode>,
    names: NameCache,
    buffers: Buffers,
    /// Inodes that changed in memory but not yet in their block, with the time of the first change.
    stale: BTreeMap<u32, Nanos>,
    /// True if the next sync is scheduled.
    syncing: bool,
    /// Number of background requests on their way to the disk.
    leaving: u32,
    /// Place at which the next sweep for memory continues.
    sweep: u64,
    counts: Counts,
    /// Zeroed write buffers by length, as the file system keeps no bytes.
    zeros: HashMap<u64, FrozenBuf>,
}

/// An open file. It counts as open until [`Ffs::close`].
#[derive(Debug)]
pub struct File {
    inode: u32,
    /// True if the name cache missed it and its inode is still to be written for that (C15).
    missed: Cell<bool>,
}

impl Ffs {
    /// Returns an empty file system on `disk`, in the time of `clock`. Creating it takes no virtual
    /// time.
    ///
    /// # Errors
    /// The parameters are inconsistent, or do not fit the disk.
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

    /// Returns the parameters.
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
    /// The error of the system call: the file exists, its directory does not, or the disk is full
    /// or fails.
    pub async fn create(&self, path: &str) -> io::Result<File> {
        self.compute(self.inner.parameters.processor.call).await;
        let inode = self.make(path, false).await?;
        Ok(File { inode, missed: Cell::new(false) })
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// The error of the system call.
    pub async fn mkdir(&self, path: &str) -> io::Result<()> {
        self.compute(self.inner.parameters.processor.call).await;
        self.make(path, true).await.map(drop)
    }

    /// Opens a file.
    ///
    /// # Errors
    /// The error of the system call.
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
    /// The file is too short, or the disk fails.
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

    /// Writes `len` bytes at `offset`, which may lie beyond the end of the file; the gap is then
    /// allocated. Writes to one file are carried out in the order of the calls.
    ///
    /// # Errors
    /// The disk is full, in which case nothing changes, or it fails.
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

    /// Closes a file. A file whose name was removed is freed when its last handle is closed.
    ///
    /// # Errors
    /// The disk fails.
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
    /// The error of the system call.
    pub async fn unlink(&self, path: &str) -> io::Result<()> {
        self.compute(self.inner.parameters.processor.call).await;
        self.remove(path).await
    }

    /// Writes a file's dirty blocks and its inode to the disk.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn sync(&self, file: &File) -> io::Result<()> {
        self.compute(self.inner.parameters.processor.call).await;
        self.sync_file(file.inode).await?;
        self.inner.disk.flush().await
    }

    /// Writes everything dirty to the disk.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn sync_all(&self) -> io::Result<()> {
        self.compute(self.inner.parameters.processor.call).await;
        self.sync_everything().await?;
        self.inner.disk.flush().await
    }

    /// Creates and opens a file of `len` bytes, and the directories on its path. This takes no
    /// virtual time, and nothing of the file is in memory, as if it had existed for a long time.
    ///
    /// # Errors
    /// Those of creating and writing the file.
    pub fn preallocate(&self, path: &str, len: u64) -> io::Result<File> {
        let mut state = self.state();
        let inode = state.make_at_once(&self.inner.units, path)?;
        if len > 0 {
            state.grow(&self.inner.units, inode, len).map_err(full)?;
        }
        Ok(File { inode, missed: Cell::new(false) })
    }

    /// Creates a file like [`Ffs::preallocate`], but marks its blocks as never written: the first
    /// partial write to a block reads nothing. The file behaves like one that grows as it is
    /// written, except for the inode and bitmap updates of its growth.
    ///
    /// # Errors
    /// Those of creating and writing the file.
    pub fn reserve(&self, path: &str, len: u64) -> io::Result<File> {
        let file = self.preallocate(path, len)?;
        let blocks = len.div_ceil(self.inner.units.block());
        self.state().inode_mut(file.inode).unwritten = vec![true; blocks as usize];
        Ok(file)
    }

    /// Creates a file like [`Ffs::preallocate`], and closes it again.
    ///
    /// # Errors
    /// Those of creating and writing the file.
    pub fn install(&self, path: &str, len: u64) -> io::Result<()> {
        let file = self.preallocate(path, len)?;
        self.state().inode_mut(file.inode).opens -= 1;
        Ok(())
    }

    /// Touches `len` bytes at `offset` of a file that is mapped into memory, to read them or, with
    /// `write`, to change them. Missing pages are read one by one, even those about to be
    /// overwritten, since the first byte touched faults the page in. A changed page is written with
    /// the next sync or when memory is needed. There is no system call, so processor costs and
    /// access times do not apply.
    ///
    /// # Errors
    /// The file is too short, or the disk fails.
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

    /// Returns a buffer of `len` zero bytes for a write.
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
