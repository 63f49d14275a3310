//! One large file of the file system as a device, with its bytes. It models a program that keeps
//! its own storage in a preallocated file through the host's page cache.
//!
//! A write returns when it is in the page cache; a page that is changed in part is read first. A
//! read may be a page cache hit. A flush writes the file to the disk.
//!
//! Guarantees: reads return the right bytes while the process runs. The bytes are kept beside the
//! model; the simulated disk carries only the accesses, so power failures are not modelled.

use std::cell::{Cell, RefCell};
use std::io;

use device::{Counts, Device, Extent, FrozenBuf, Geometry, IoBuf};

use super::{Ffs, File};
use crate::disk::contents::Contents;

/// A device on one large file.
pub struct FileDevice {
    ffs: Ffs,
    file: File,
    geometry: Geometry,
    contents: RefCell<Contents>,
    counts: Cell<Counts>,
}

impl FileDevice {
    /// Returns a device on a new file of `len` bytes, a multiple of 512, that is allocated at once
    /// and reads as zero.
    ///
    /// # Errors
    /// The file system has no room, or already has a file of that name.
    pub fn preallocate(ffs: &Ffs, name: &str, len: u64) -> io::Result<FileDevice> {
        FileDevice::on(ffs, ffs.preallocate(name, len)?, len)
    }

    /// Returns a device on a file that grows as it is written ([`Ffs::reserve`]).
    ///
    /// # Errors
    /// The file system has no room, or already has a file of that name.
    pub fn reserve(ffs: &Ffs, name: &str, len: u64) -> io::Result<FileDevice> {
        FileDevice::on(ffs, ffs.reserve(name, len)?, len)
    }

    fn on(ffs: &Ffs, file: File, len: u64) -> io::Result<FileDevice> {
        let geometry = Geometry { len, block: 512 };
        geometry.check(Extent { offset: 0, len })?;
        let (contents, counts) = (RefCell::default(), Cell::default());
        Ok(FileDevice { ffs: ffs.clone(), file, geometry, contents, counts })
    }

    /// Returns the file system below.
    pub fn file_system(&self) -> &Ffs {
        &self.ffs
    }

    /// Returns the counts of calls so far.
    pub fn counts(&self) -> Counts {
        self.counts.get()
    }

    fn count(&self, add: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        add(&mut counts);
        self.counts.set(counts);
    }

    fn note(&self, result: &io::Result<()>) {
        self.count(|counts| counts.errors += u64::from(result.is_err()));
    }

    async fn read_into(&self, offset: u64, buf: &mut IoBuf) -> io::Result<()> {
        let len = buf.len() as u64;
        self.geometry.check(Extent { offset, len })?;
        self.ffs.read(&self.file, offset, len).await?;
        self.contents.borrow().read(offset, buf);
        self.count(|counts| counts.bytes_read += len);
        Ok(())
    }

    async fn write_from(&self, offset: u64, buf: &FrozenBuf) -> io::Result<()> {
        let len = buf.len() as u64;
        self.geometry.check(Extent { offset, len })?;
        self.ffs.write(&self.file, offset, len).await?;
        self.contents.borrow_mut().write(offset, buf);
        self.count(|counts| counts.bytes_written += len);
        Ok(())
    }
}

impl Device for FileDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    async fn read(&self, offset: u64, mut buf: IoBuf) -> (IoBuf, io::Result<()>) {
        self.count(|counts| counts.reads += 1);
        let result = self.read_into(offset, &mut buf).await;
        self.note(&result);
        (buf, result)
    }

    async fn write(&self, offset: u64, buf: FrozenBuf) -> io::Result<()> {
        self.count(|counts| counts.writes += 1);
        let result = self.write_from(offset, &buf).await;
        self.note(&result);
        result
    }

    async fn flush(&self) -> io::Result<()> {
        self.count(|counts| counts.flushes += 1);
        let result = self.ffs.sync(&self.file).await;
        self.note(&result);
        result
    }
}
