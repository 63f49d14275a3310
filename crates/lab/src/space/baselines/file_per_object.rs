//! One file per object: what SIMPLE, SQUID and MULTIPLE-DIRS share.
//!
//! To store is to create a file, write it and close it; to read is to open it, read it and close
//! it; to delete is to unlink it. The three differ in the directory that a file goes to, which is a
//! [`Placement`].

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io;

use bytes::Bytes;

use crate::space::file_system::{Counted, FileSystem};
use crate::space::manager::{Calls, Read, SpaceError, SpaceManager, Stored};
use workload::request::Object;

/// When a baseline asks for durability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Once, at the end: the file system decides meanwhile. The papers' way.
    #[default]
    AtEnd,
    /// After each object written, too.
    EachStore,
}

/// In how many calls a body is read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSizes {
    /// The most bytes of a read.
    pub read: u64,
    /// The most bytes of a write.
    pub write: u64,
}

impl CallSizes {
    /// One call for a whole body.
    pub const WHOLE: CallSizes = CallSizes { read: u64::MAX, write: u64::MAX };
}

/// Chooses the file of an object.
pub trait Placement {
    /// Directories to make before the first object, parents first.
    fn directories(&self) -> Vec<String>;

    /// Where the next object goes. Called once per stored object, in order.
    fn place(&mut self, object: &Object) -> Place;
}

/// A file of its own for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// A directory that may not exist yet; `None` when it was made at the beginning.
    pub directory: Option<String>,
    /// The file, its directory included.
    pub path: String,
}

/// A space manager with one file per object.
pub struct FilePerObject<F: FileSystem, P: Placement> {
    files: Counted<F>,
    sync: SyncPolicy,
    sizes: CallSizes,
    state: RefCell<State<P>>,
}

struct State<P> {
    placement: P,
    /// Directories made on demand.
    directories: HashSet<String>,
    held: HashMap<u32, Held>,
}

struct Held {
    path: String,
    size: u64,
}

impl<F: FileSystem, P: Placement> FilePerObject<F, P> {
    /// Makes the directories that the placement has from the beginning on `files`, which is empty.
    ///
    /// # Errors
    /// One cannot be made.
    pub async fn new(files: F, placement: P, sync: SyncPolicy) -> Result<Self, SpaceError> {
        let files = Counted::new(files);
        for path in placement.directories() {
            let made = files.mkdir(&path).await;
            made.map_err(|error| SpaceError::file("make directory", &path, error))?;
        }
        let state = State { placement, directories: HashSet::new(), held: HashMap::new() };
        Ok(FilePerObject { files, sync, sizes: CallSizes::WHOLE, state: RefCell::new(state) })
    }

    /// The same with bodies read and written in calls of these sizes.
    pub fn in_calls_of(self, sizes: CallSizes) -> Self {
        assert!(sizes.read > 0 && sizes.write > 0, "a call carries bytes");
        FilePerObject { sizes, ..self }
    }

    /// The file system below.
    pub fn files(&self) -> &F {
        self.files.below()
    }

    /// Lets the object lie where it would be stored, without storing it: `put` brings the file
    /// there. For what was on the disk before anything is measured.
    ///
    /// # Errors
    /// That of `put`.
    pub fn adopt(
        &self,
        object: &Object,
        put: impl FnOnce(&F, &str) -> io::Result<()>,
    ) -> Result<(), SpaceError> {
        let mut state = self.state.borrow_mut();
        let Place { directory, path } = state.placement.place(object);
        put(self.files.below(), &path).map_err(|error| SpaceError::file("adopt", &path, error))?;
        state.directories.extend(directory);
        state.held.insert(object.id, Held { path, size: object.size });
        Ok(())
    }

    async fn make_directory(&self, path: String) -> Result<(), SpaceError> {
        if self.state.borrow().directories.contains(&path) {
            return Ok(());
        }
        match self.files.mkdir(&path).await {
            // Another object of the same server may have been first.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(SpaceError::file("make directory", &path, error))
            }
            _ => {
                self.state.borrow_mut().directories.insert(path);
                Ok(())
            }
        }
    }

    async fn write(&self, file: &F::File, path: &str, body: Bytes) -> Result<(), SpaceError> {
        let mut at = 0;
        while at < body.len() {
            let end = body.len().min(at.saturating_add(self.sizes.write as usize));
            let written = self.files.write(file, at as u64, body.slice(at..end)).await;
            written.map_err(|error| SpaceError::file("write", path, error))?;
            at = end;
        }
        if self.sync == SyncPolicy::EachStore {
            let synced = self.files.sync(file).await;
            synced.map_err(|error| SpaceError::file("sync", path, error))?;
        }
        Ok(())
    }
}

/// Creates the file at `path` with what `write` puts into it. When that fails nothing is left.
pub(super) async fn create_file<F: FileSystem>(
    files: &F,
    path: &str,
    write: impl AsyncFnOnce(&F::File) -> Result<(), SpaceError>,
) -> Result<(), SpaceError> {
    let created = files.create(path).await;
    let file = created.map_err(|error| SpaceError::file("create", path, error))?;
    let written = write(&file).await;
    let closed = files.close(file).await;
    let closed = closed.map_err(|error| SpaceError::file("close", path, error));
    let result = written.and(closed);
    if result.is_err() {
        // The first error is the one to tell.
        let _ = files.unlink(path).await;
    }
    result
}

/// The first `len` bytes of the file at `path`, at most `most` of them in a call.
pub(super) async fn read_file<F: FileSystem>(
    files: &F,
    path: &str,
    len: u64,
    most: u64,
) -> Result<Read, SpaceError> {
    let opened = files.open(path).await;
    let file = opened.map_err(|error| SpaceError::file("open", path, error))?;
    let read = read_parts(files, &file, len, most).await;
    let read = read.map_err(|error| SpaceError::file("read", path, error));
    let closed = files.close(file).await;
    closed.map_err(|error| SpaceError::file("close", path, error))?;
    read
}

async fn read_parts<F: FileSystem>(
    files: &F,
    file: &F::File,
    len: u64,
    most: u64,
) -> io::Result<Read> {
    let mut parts = Vec::new();
    let mut at = 0;
    while at < len {
        let part = most.min(len - at);
        parts.push(files.read(file, at, part).await?);
        at += part;
    }
    // A file system that keeps no contents has none of any part.
    Ok(parts.into_iter().collect::<Option<Vec<Bytes>>>().map_or(Read::Unseen, Read::Body))
}

/// What a file system returned, as a manager says it.
pub(super) fn found(bytes: Option<Bytes>) -> Read {
    bytes.map_or(Read::Unseen, |bytes| Read::Body(vec![bytes]))
}

impl<F: FileSystem, P: Placement> SpaceManager for FilePerObject<F, P> {
    async fn store(&self, object: &Object, body: Bytes) -> Result<Stored, SpaceError> {
        self.delete(object).await?;
        let Place { directory, path } = self.state.borrow_mut().placement.place(object);
        if let Some(directory) = directory {
            self.make_directory(directory).await?;
        }
        let size = body.len() as u64;
        create_file(&self.files, &path, async |file| self.write(file, &path, body).await).await?;
        self.state.borrow_mut().held.insert(object.id, Held { path, size });
        Ok(Stored::Kept)
    }

    async fn read(&self, object: &Object) -> Result<Read, SpaceError> {
        let held = self.state.borrow().held.get(&object.id).map(|it| (it.path.clone(), it.size));
        match held {
            Some((path, size)) => read_file(&self.files, &path, size, self.sizes.read).await,
            None => Ok(Read::Gone),
        }
    }

    async fn delete(&self, object: &Object) -> Result<bool, SpaceError> {
        let held = self.state.borrow_mut().held.remove(&object.id);
        let Some(Held { path, .. }) = held else { return Ok(false) };
        let unlinked = self.files.unlink(&path).await;
        unlinked.map_err(|error| SpaceError::file("unlink", &path, error))?;
        Ok(true)
    }

    async fn finish(&self) -> Result<(), SpaceError> {
        let synced = self.files.sync_all().await;
        synced.map_err(|error| SpaceError::file("sync", "", error))
    }

    fn calls(&self) -> Calls {
        self.files.calls()
    }
}
