//! Squid 2.4 with DISKD (U8): several cache directories, each with a process of its own that makes
//! its calls one after another, while Squid continues.
//!
//! A new object goes to the directory with the fewest waiting calls; among equals, to the next one
//! in turn. With [`Limits`], a directory with too many waiting calls accepts no new object and
//! opens no file.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;

use bytes::Bytes;
use store::Refusal;
use tokio::sync::Mutex;

use crate::space::baselines::{CallSizes, FilePerObject, Squid, SyncPolicy};
use crate::space::file_system::FileSystem;
use crate::space::manager::{Calls, Read, SpaceError, SpaceManager, Stored};
use workload::request::Object;

/// When a directory is too busy. Squid 2.4's `Q1`, 64 by default; the paper does not mention it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Number of waiting calls from which on no file of the directory is opened; `None`: unlimited.
    pub opens: Option<u32>,
}

/// Squid's cache directories with a DISKD process each.
pub struct Diskd<F: FileSystem> {
    directories: Vec<FilePerObject<OneAtATime<F>, Squid>>,
    limits: Limits,
    of: RefCell<HashMap<u32, usize>>,
    turn: Cell<usize>,
    turned_away: Cell<u64>,
}

impl<F: FileSystem> Diskd<F> {
    /// Creates one tree of 16 × 256 directories on each of `files`, which must be empty; several of
    /// them may be the same file system. Objects are read and written in calls of `sizes`.
    ///
    /// # Errors
    /// A directory cannot be created.
    pub async fn new(
        files: impl IntoIterator<Item = F>,
        sizes: CallSizes,
        limits: Limits,
    ) -> Result<Diskd<F>, SpaceError> {
        let mut directories = Vec::new();
        for (number, files) in files.into_iter().enumerate() {
            let tree = Squid::in_directory(&format!("cache{}", number + 1));
            let files = OneAtATime { below: files, turn: Mutex::new(()), waiting: Cell::new(0) };
            let directory = FilePerObject::new(files, tree, SyncPolicy::AtEnd).await?;
            directories.push(directory.in_calls_of(sizes));
        }
        assert!(!directories.is_empty(), "there is a directory");
        Ok(Diskd {
            directories,
            limits,
            of: RefCell::default(),
            turn: Cell::new(0),
            turned_away: Cell::new(0),
        })
    }

    /// Returns the number of objects not stored or not read because a directory was too busy.
    pub fn turned_away(&self) -> u64 {
        self.turned_away.get()
    }

    /// Returns the number of waiting and running calls of each directory.
    pub fn waiting(&self) -> Vec<u32> {
        self.directories.iter().map(|directory| directory.files().waiting.get()).collect()
    }

    /// Registers an object in one of the directories as if it had been stored before; see
    /// [`FilePerObject::adopt`].
    ///
    /// # Errors
    /// The error of `put`.
    pub fn adopt(
        &self,
        object: &Object,
        put: impl FnOnce(&F, &str) -> io::Result<()>,
    ) -> Result<(), SpaceError> {
        let chosen = self.choose();
        self.directories[chosen].adopt(object, |files, path| put(&files.below, path))?;
        self.of.borrow_mut().insert(object.id, chosen);
        Ok(())
    }

    /// Chooses the directory for a new object.
    fn choose(&self) -> usize {
        let count = self.directories.len();
        let turn = self.turn.get();
        self.turn.set((turn + 1) % count);
        let in_turn = (turn..turn + count).map(|number| number % count);
        let waiting = self.waiting();
        in_turn.min_by_key(|number| waiting[*number]).unwrap_or(turn)
    }

    /// Returns whether a directory opens no more files now, and counts if so.
    fn is_too_busy(&self, directory: usize) -> bool {
        let waiting = self.directories[directory].files().waiting.get();
        let busy = self.limits.opens.is_some_and(|most| waiting >= most);
        self.turned_away.set(self.turned_away.get() + u64::from(busy));
        busy
    }
}

impl<F: FileSystem> SpaceManager for Diskd<F> {
    async fn store(&self, object: &Object, body: Bytes) -> Result<Stored, SpaceError> {
        self.delete(object).await?;
        let chosen = self.choose();
        if self.is_too_busy(chosen) {
            return Ok(Stored::Refused(Refusal::Busy));
        }
        let stored = self.directories[chosen].store(object, body).await?;
        self.of.borrow_mut().insert(object.id, chosen);
        Ok(stored)
    }

    async fn read(&self, object: &Object) -> Result<Read, SpaceError> {
        let directory = self.of.borrow().get(&object.id).copied();
        match directory {
            Some(directory) if !self.is_too_busy(directory) => {
                self.directories[directory].read(object).await
            }
            _ => Ok(Read::Gone),
        }
    }

    async fn delete(&self, object: &Object) -> Result<bool, SpaceError> {
        let directory = self.of.borrow_mut().remove(&object.id);
        match directory {
            Some(directory) => self.directories[directory].delete(object).await,
            None => Ok(false),
        }
    }

    async fn finish(&self) -> Result<(), SpaceError> {
        for directory in &self.directories {
            directory.finish().await?;
        }
        Ok(())
    }

    fn calls(&self) -> Calls {
        let mut calls = Calls::default();
        self.directories.iter().for_each(|directory| calls += directory.calls());
        calls
    }
}

/// A file system whose calls run one after another, in order of arrival.
struct OneAtATime<F> {
    below: F,
    turn: Mutex<()>,
    /// Number of waiting and running calls.
    waiting: Cell<u32>,
}

impl<F: FileSystem> OneAtATime<F> {
    async fn in_turn<T>(&self, call: impl AsyncFnOnce(&F) -> T) -> T {
        let _waiting = PendingCall::new(&self.waiting);
        let _turn = self.turn.lock().await;
        call(&self.below).await
    }
}

/// A waiting or running call.
struct PendingCall<'a>(&'a Cell<u32>);

impl PendingCall<'_> {
    fn new(count: &Cell<u32>) -> PendingCall<'_> {
        count.set(count.get() + 1);
        PendingCall(count)
    }
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl<F: FileSystem> FileSystem for OneAtATime<F> {
    type File = F::File;

    async fn create(&self, path: &str) -> io::Result<F::File> {
        self.in_turn(async |files| files.create(path).await).await
    }

    async fn open(&self, path: &str) -> io::Result<F::File> {
        self.in_turn(async |files| files.open(path).await).await
    }

    async fn read(&self, file: &F::File, offset: u64, len: u64) -> io::Result<Option<Bytes>> {
        self.in_turn(async |files| files.read(file, offset, len).await).await
    }

    async fn write(&self, file: &F::File, offset: u64, data: Bytes) -> io::Result<()> {
        self.in_turn(async |files| files.write(file, offset, data).await).await
    }

    async fn sync(&self, file: &F::File) -> io::Result<()> {
        self.in_turn(async |files| files.sync(file).await).await
    }

    async fn close(&self, file: F::File) -> io::Result<()> {
        self.in_turn(async |files| files.close(file).await).await
    }

    async fn unlink(&self, path: &str) -> io::Result<()> {
        self.in_turn(async |files| files.unlink(path).await).await
    }

    async fn mkdir(&self, path: &str) -> io::Result<()> {
        self.in_turn(async |files| files.mkdir(path).await).await
    }

    async fn sync_all(&self) -> io::Result<()> {
        self.in_turn(async |files| files.sync_all().await).await
    }
}
