//! M4 BUDDY as in the paper, on many files: one file per size class of 1, 2, 3 … THRESHOLD blocks,
//! made of slots of that size. An object goes to the first free slot of its class, or to a new one
//! at the end. An object larger than THRESHOLD blocks has a file of its own.
//!
//! The files of the classes are opened once and never shrink: deleting marks a slot free.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;

use super::file_per_object::{SyncPolicy, create_file, found, read_file};
use crate::space::file_system::{Counted, FileSystem};
use crate::space::manager::{Calls, Read, SpaceError, SpaceManager, Stored};
use workload::request::Object;

/// Block size in bytes.
pub const BLOCK: u64 = 512;

/// The paper's threshold in blocks: 128 KiB.
pub const THRESHOLD_BLOCKS: u32 = 256;

/// A space manager with one file per size class.
pub struct BuddyFiles<F: FileSystem> {
    files: Counted<F>,
    sync: SyncPolicy,
    /// The open files of the classes: for one block, two blocks, …
    classes: Vec<(F::File, String)>,
    state: RefCell<State>,
}

struct State {
    slots: Vec<Slots>,
    held: HashMap<u32, Held>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A slot of a class; class 0 has one block.
    Slot {
        class: usize,
        slot: u64,
    },
    Own,
}

#[derive(Clone, Copy)]
struct Held {
    place: Place,
    size: u64,
}

#[derive(Debug, Default)]
struct Slots {
    /// Slots that were freed, all below `end`.
    free: BTreeSet<u64>,
    /// Number of slots in the file, free ones included.
    end: u64,
}

impl Slots {
    fn take(&mut self) -> u64 {
        self.free.pop_first().unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        })
    }

    fn give_back(&mut self, slot: u64) {
        let was_taken = slot < self.end && self.free.insert(slot);
        assert!(was_taken, "slot {slot} is given back once");
    }
}

impl<F: FileSystem> BuddyFiles<F> {
    /// Creates the files of `threshold` classes (the threshold in blocks) on `files`, which must be
    /// empty. With a threshold of 0 every object has a file of its own.
    ///
    /// # Errors
    /// A file cannot be created.
    pub async fn new(files: F, threshold: u32, sync: SyncPolicy) -> Result<Self, SpaceError> {
        let files = Counted::new(files);
        let mut classes = Vec::new();
        for blocks in 1..=threshold {
            let path = format!("blocks-{blocks:05}");
            let created = files.create(&path).await;
            let file = created.map_err(|error| SpaceError::file("create", &path, error))?;
            classes.push((file, path));
        }
        let slots = classes.iter().map(|_| Slots::default()).collect();
        let state = RefCell::new(State { slots, held: HashMap::new() });
        Ok(BuddyFiles { files, sync, classes, state })
    }

    /// Allocates a place for an object of `size` bytes.
    fn take(&self, size: u64) -> Place {
        let class = size.div_ceil(BLOCK).max(1) as usize - 1;
        match self.state.borrow_mut().slots.get_mut(class) {
            Some(slots) => Place::Slot { class, slot: slots.take() },
            None => Place::Own,
        }
    }

    async fn write(
        &self,
        file: &F::File,
        path: &str,
        offset: u64,
        body: Bytes,
    ) -> Result<(), SpaceError> {
        if !body.is_empty() {
            let written = self.files.write(file, offset, body).await;
            written.map_err(|error| SpaceError::file("write", path, error))?;
        }
        if self.sync == SyncPolicy::EachStore {
            let synced = self.files.sync(file).await;
            synced.map_err(|error| SpaceError::file("sync", path, error))?;
        }
        Ok(())
    }
}

fn own_path(id: u32) -> String {
    format!("own-{id:08X}")
}

/// Returns the offset of a slot in its file.
fn offset(class: usize, slot: u64) -> u64 {
    slot * (class as u64 + 1) * BLOCK
}

impl<F: FileSystem> SpaceManager for BuddyFiles<F> {
    async fn store(&self, object: &Object, body: Bytes) -> Result<Stored, SpaceError> {
        self.delete(object).await?;
        let size = body.len() as u64;
        let place = self.take(size);
        match place {
            Place::Slot { class, slot } => {
                let (file, path) = &self.classes[class];
                if let Err(error) = self.write(file, path, offset(class, slot), body).await {
                    self.state.borrow_mut().slots[class].give_back(slot);
                    return Err(error);
                }
            }
            Place::Own => {
                let path = own_path(object.id);
                let write = async |file: &F::File| self.write(file, &path, 0, body).await;
                create_file(&self.files, &path, write).await?;
            }
        }
        self.state.borrow_mut().held.insert(object.id, Held { place, size });
        Ok(Stored::Kept)
    }

    async fn read(&self, object: &Object) -> Result<Read, SpaceError> {
        let held = self.state.borrow().held.get(&object.id).copied();
        match held {
            None => Ok(Read::Gone),
            Some(Held { place: Place::Own, size }) => {
                read_file(&self.files, &own_path(object.id), size, u64::MAX).await
            }
            Some(Held { size: 0, .. }) => Ok(Read::Body(Vec::new())),
            Some(Held { place: Place::Slot { class, slot }, size }) => {
                let (file, path) = &self.classes[class];
                let read = self.files.read(file, offset(class, slot), size).await;
                read.map(found).map_err(|error| SpaceError::file("read", path, error))
            }
        }
    }

    async fn delete(&self, object: &Object) -> Result<bool, SpaceError> {
        let held = self.state.borrow_mut().held.remove(&object.id);
        match held.map(|held| held.place) {
            None => Ok(false),
            Some(Place::Slot { class, slot }) => {
                self.state.borrow_mut().slots[class].give_back(slot);
                Ok(true)
            }
            Some(Place::Own) => {
                let path = own_path(object.id);
                let unlinked = self.files.unlink(&path).await;
                unlinked.map_err(|error| SpaceError::file("unlink", &path, error))?;
                Ok(true)
            }
        }
    }

    async fn finish(&self) -> Result<(), SpaceError> {
        let synced = self.files.sync_all().await;
        synced.map_err(|error| SpaceError::file("sync", "", error))
    }

    fn calls(&self) -> Calls {
        self.files.calls()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_free_slot_is_taken() {
        let mut slots = Slots::default();
        assert_eq!([slots.take(), slots.take(), slots.take(), slots.take()], [0, 1, 2, 3]);
        slots.give_back(2);
        slots.give_back(0);
        assert_eq!([slots.take(), slots.take(), slots.take()], [0, 2, 4]);
    }

    #[test]
    #[should_panic(expected = "given back once")]
    fn a_slot_is_given_back_once() {
        let mut slots = Slots::default();
        let slot = slots.take();
        slots.give_back(slot);
        slots.give_back(slot);
    }
}
