//! One file per object: the code that SIMPLE, SQUID and MULTIPLE-DIRS share.
//!
//! Storing creates a file, writes it and closes it; reading opens it, reads it and closes it;
//! deleting unlinks it. The three differ in the directory of a file, which a [`Placement`] chooses.

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
    /// Once, at the end; until then the file system decides. As in the papers.
    #[default]
    AtEnd,
    /// Also after each object written.
    EachStore,
}

/// Sizes of the calls that read and write a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSizes {
    /// Maximum bytes per read.
    pub read: u64,
    /// Maximum bytes per write.
    pub write: u64,
}

impl CallSizes {
    /// One call for a whole body.
    pub const WHOLE: CallSizes = CallSizes { read: u64::MAX, write: u64::MAX };
}

/// Chooses the file of an object.
pub trait Placement {
    /// Returns the directories to create before the first object, parents first.
    fn directories(&self) -> Vec<String>;

    /// Returns the place of the next object. Called once per stored object, in order.
    fn place(&mut self, object: &Object) -> Place;
}

/// The file of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// A directory that may not exist yet; `None` if it was created at the beginning.
    pub directory: Option<String>,
    /// Path of the file, including its directory.
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
    /// Directories created on demand.
    directories: HashSet<String>,
    held: HashMap<u32, Held>,
}

struct Held {
    path: String,
    size: u64,
}

impl<F: FileSystem, P: Placement> FilePerObject<F, P> {
    /// Creates the placement's initial directories on `files`, which must be empty.
    ///
    /// # Errors
    /// A directory cannot be created.
    pub async fn new(files: F, placement: P, sync: SyncPolicy) -> Result<Self, SpaceError> {
        let files = Counted::new(files);
        for path in placement.directories() {
            let made = files.mkdir(&path).await;
            made.map_err(|error| SpaceError::file("make directory", &path, error))?;
        }
        let state = State { placement, directories: HashSet::new(), held: HashMap::new() };
        Ok(FilePerObject { files, sync, sizes: CallSizes::WHOLE, state: RefCell::new(state) })
    }

    /// Sets the sizes of the calls that read and write bodies.
    pub fn in_calls_of(self, sizes: CallSizes) -> Self {
        assert!(sizes.read > 0 && sizes.write > 0, "a call carries bytes");
        FilePerObject { sizes, ..self }
    }

    /// Returns the file system below.
    pub fn files(&self) -> &F {
        self.files.below()
    }

    /// Registers the object as stored at its place without storing it; `put` brings the file there.
    /// For objects that were on the disk before the measurement.
    ///
    /// # Errors
    /// The error of `put`.
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
            // A concurrent store of the same server may have created it.
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

/// Creates the file at `path`; `write` fills it. If that fails, the file is removed.
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
        // The first error is the one reported.
        let _ = files.unlink(path).await;
    }
    result
}

/// Reads the first `len` bytes of the file at `path`, at most `most` per call.
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
    // A file system without contents returns `None` for every part.
    Ok(parts.into_iter().collect::<Option<Vec<Bytes>>>().map_or(Read::Unseen, Read::Body))
}

/// Converts the result of a file system to that of a manager.
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
