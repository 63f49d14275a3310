//! The interface through which the steps use either engine.

use std::path::Path;

use bytes::Bytes;
use workload::contents::first_wrong;

use crate::task::Plan;
use crate::trace::Item;

/// The tier that served a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Memory, including what waits to be written.
    Memory,
    /// The file.
    Disk,
}

/// A hit.
#[derive(Clone, Copy, Debug)]
pub struct Hit {
    /// The tier.
    pub source: Source,
    /// True if the body was compared and differs from the one stored.
    pub wrong: bool,
}

/// An engine on a real file. It runs in a `LocalSet`, which also runs its background.
pub trait Engine: Sized + 'static {
    /// True if a refused insertion is reported.
    const REPORTS_REFUSALS: bool;

    /// Opens the cache in `directory`, or creates it there.
    ///
    /// # Errors
    /// The files cannot be used, or the engine rejects the parameters.
    async fn open(directory: &Path, plan: &Plan, create: bool) -> Result<Self, String>;

    /// Looks an object up and reads its whole body; compares it if `verifies`. Returns `None` for a
    /// miss and for a body that could not be read to its end.
    async fn get(&self, item: &Item, verifies: bool) -> Option<Hit>;

    /// Inserts an object, waiting while the device is behind; returns false if it was refused.
    async fn put(&self, item: &Item, body: Bytes) -> bool;

    /// Returns whether the index has the object.
    fn knows(&self, item: &Item) -> bool;

    /// Returns the bytes of objects in memory.
    fn memory_bytes(&self) -> u64;

    /// Waits until recovery has ended and nothing waits to be written.
    async fn settle(&self);

    /// Closes the cache in order.
    ///
    /// # Errors
    /// It could not be closed in order.
    async fn close(&self) -> Result<(), String>;
}

/// Compares the chunks of a body, in order, with the body of an object.
pub struct Check<'a> {
    item: &'a Item,
    verifies: bool,
    len: u64,
    wrong: bool,
}

impl<'a> Check<'a> {
    /// Starts at the beginning of the body.
    pub fn new(item: &'a Item, verifies: bool) -> Check<'a> {
        Check { item, verifies, len: 0, wrong: false }
    }

    /// Takes the next chunk.
    pub fn take(&mut self, chunk: &[u8]) {
        let differs = || first_wrong(&self.item.object(), self.len, chunk).is_some();
        self.wrong |= self.verifies && differs();
        self.len += chunk.len() as u64;
    }

    /// Ends the body.
    pub fn end(self, source: Source) -> Hit {
        Hit { source, wrong: self.wrong || self.len != self.item.size }
    }
}
