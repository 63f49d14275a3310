//! SQUIDML (C15): objects of up to 8 KB in a memory-mapped file, in slots of five sizes with cyclic
//! replacement; larger objects in files, those of a server in one directory.

use std::cell::{Cell, RefCell};

use sim::ffs::File;

use super::least_recent::LeastRecent;
use super::segments::{REGION, SIZES, Segments};
use super::{FileCache, Served};
use crate::space::baselines::{FilePerObject, Squid};
use crate::space::manager::{Calls, SpaceError};
use crate::space::modelled_directory::ModelledFiles;
use workload::request::Request;
use workload::two_level::CacheCounts;

const MAPPED: &str = "mapped";

/// Squid with a mapped file. The mapped file and the others share a file system, and so its memory.
pub struct SquidMl {
    files: ModelledFiles,
    mapped: File,
    segments: RefCell<Segments>,
    counts: Cell<CacheCounts>,
    large: LeastRecent<FilePerObject<ModelledFiles, Squid>>,
}

impl SquidMl {
    /// Creates a mapped file of `mapped` bytes on `files`, in no time; `large` is on the same file
    /// system.
    ///
    /// # Errors
    /// There is no space for it.
    pub fn new(
        files: ModelledFiles,
        mapped: u64,
        large: LeastRecent<FilePerObject<ModelledFiles, Squid>>,
    ) -> Result<SquidMl, SpaceError> {
        let file = files.ffs().preallocate(MAPPED, mapped / REGION * REGION);
        let file = file.map_err(|error| SpaceError::file("preallocate", MAPPED, error))?;
        let segments = RefCell::new(Segments::new(mapped));
        Ok(SquidMl { files, mapped: file, segments, counts: Cell::default(), large })
    }

    fn count(&self, add: impl FnOnce(&mut CacheCounts)) {
        let mut counts = self.counts.get();
        add(&mut counts);
        self.counts.set(counts);
    }

    async fn touch(&self, offset: u64, len: u64, write: bool) -> Result<(), SpaceError> {
        let touched = self.files.ffs().touch_mapped(&self.mapped, offset, len, write).await;
        touched.map_err(|error| SpaceError::file("touch", MAPPED, error))
    }

    async fn serve_small(&self, request: &Request) -> Result<Served, SpaceError> {
        self.count(|counts| {
            counts.gets += 1;
            counts.get_bytes += request.size;
        });
        let held = self.segments.borrow().find(request.object);
        if let Some(held) = held {
            if held.version == request.version {
                self.count(|counts| counts.disk_hits += 1);
                self.segments.borrow_mut().touch(held);
                let offset = self.segments.borrow().offset(held);
                self.touch(offset, request.size.max(1), false).await?;
                return Ok(Served::Disk);
            }
            self.count(|counts| counts.outdated += 1);
            self.segments.borrow_mut().remove(request.object);
        }
        self.count(|counts| counts.misses += 1);
        let Request { object, version, size, .. } = *request;
        let placed = self.segments.borrow_mut().place(object, version, size);
        let Some(placed) = placed else { return Ok(Served::Passed) };
        self.count(|counts| counts.evictions += u64::from(placed.replaced));
        self.touch(placed.offset, size.max(1), true).await?;
        Ok(Served::Stored)
    }
}

impl FileCache for SquidMl {
    async fn serve(&self, request: &Request) -> Result<Served, SpaceError> {
        let [.., largest] = SIZES;
        // A version of another length may be stored in the other place; it is found out of date
        // there when it is next requested.
        match request.size <= largest {
            true => self.serve_small(request).await,
            false => {
                self.segments.borrow_mut().remove(request.object);
                self.large.serve(request).await
            }
        }
    }

    fn counts(&self) -> CacheCounts {
        let mut counts = self.counts.get();
        counts += self.large.counts();
        counts
    }

    fn calls(&self) -> Calls {
        self.large.calls()
    }
}
