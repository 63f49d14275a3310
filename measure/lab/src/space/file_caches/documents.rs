//! A web server's documents in ordinary directories (the baseline of T5). All exist from the
//! beginning; a request reads one, and a new version replaces it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use super::{FileCache, Served, zeros};
use crate::space::file_system::{Counted, FileSystem};
use crate::space::manager::{Calls, SpaceError};
use crate::space::modelled_directory::ModelledFiles;
use workload::request::{Object, Request};
use workload::two_level::CacheCounts;

/// Documents on a modelled file system, with a directory for each group of objects.
pub struct Documents {
    files: Counted<ModelledFiles>,
    /// Version and size of each document.
    held: RefCell<HashMap<u32, Object>>,
    counts: Cell<CacheCounts>,
}

impl Documents {
    /// Installs `documents`, directory by directory, in no time.
    ///
    /// # Errors
    /// They do not fit.
    pub fn new(
        files: ModelledFiles,
        documents: impl IntoIterator<Item = Object>,
    ) -> Result<Documents, SpaceError> {
        let mut documents: Vec<Object> = documents.into_iter().collect();
        documents.sort_by_key(|object| (object.site, object.group, object.id));
        documents.dedup_by_key(|object| object.id);
        let mut held = HashMap::new();
        for object in documents {
            let path = path(&object);
            let installed = files.ffs().install(&path, object.size);
            installed.map_err(|error| SpaceError::file("install", &path, error))?;
            held.insert(object.id, object);
        }
        let (held, counts) = (RefCell::new(held), Cell::default());
        Ok(Documents { files: Counted::new(files), held, counts })
    }

    /// Returns the modelled file system below.
    pub fn files(&self) -> &ModelledFiles {
        self.files.below()
    }

    async fn replace(&self, object: &Object, path: &str, exists: bool) -> Result<(), SpaceError> {
        let error = |call| move |error| SpaceError::file(call, path, error);
        if exists {
            self.files.unlink(path).await.map_err(error("unlink"))?;
        }
        let file = self.files.create(path).await.map_err(error("create"))?;
        if object.size > 0 {
            let written = self.files.write(&file, 0, zeros(object.size)).await;
            written.map_err(error("write"))?;
        }
        self.files.close(file).await.map_err(error("close"))
    }

    async fn read(&self, object: &Object, path: &str) -> Result<(), SpaceError> {
        let error = |call| move |error| SpaceError::file(call, path, error);
        let file = self.files.open(path).await.map_err(error("open"))?;
        if object.size > 0 {
            let read = self.files.read(&file, 0, object.size).await;
            read.map_err(error("read"))?;
        }
        self.files.close(file).await.map_err(error("close"))
    }

    fn count(&self, add: impl FnOnce(&mut CacheCounts)) {
        let mut counts = self.counts.get();
        add(&mut counts);
        self.counts.set(counts);
    }
}

fn path(object: &Object) -> String {
    format!("site-{}/group-{}/{:08X}", object.site, object.group, object.id)
}

impl FileCache for Documents {
    async fn serve(&self, request: &Request) -> Result<Served, SpaceError> {
        let object = request.object();
        self.count(|counts| {
            counts.gets += 1;
            counts.get_bytes += object.size;
        });
        let held = self.held.borrow_mut().insert(object.id, object);
        let path = path(&object);
        match held {
            Some(held) if held.version == object.version => {
                self.count(|counts| counts.disk_hits += 1);
                // The request may be for a part; the document keeps its size.
                let known = Object { size: held.size, ..object };
                self.held.borrow_mut().insert(object.id, known);
                self.read(&known, &path).await?;
                Ok(Served::Disk)
            }
            held => {
                self.count(|counts| {
                    counts.misses += 1;
                    counts.outdated += u64::from(held.is_some());
                });
                self.replace(&object, &path, held.is_some()).await?;
                Ok(Served::Stored)
            }
        }
    }

    fn counts(&self) -> CacheCounts {
        self.counts.get()
    }

    fn calls(&self) -> Calls {
        self.files.calls()
    }
}
