//! A writer: an object being inserted. Small bodies are collected into one record; large ones are
//! cut into pieces that are placed while the fetch still runs.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use device::{Clock, Device};

use crate::base::content::Content;
use crate::base::digest::Digest;
use crate::base::home::Home;
use crate::base::key::Key;
use crate::base::record::{Header, Record, RecordKind};
use crate::base::refusal::Refusal;
use crate::config::lookup_options::LookupOptions;
use crate::core::{Counted, Fetched, Goal, NewObject};
use crate::interface::entry::ReadHold;
use crate::interface::fetch_token::FetchToken;
use crate::shell::volume::{Shared, Volume};

/// The kind of an object, for layouts that group a page with its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A page that embeds or links to others.
    Html,
    /// Anything else.
    #[default]
    Other,
}

/// Properties of an object that the caller knows before its body arrives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hint {
    /// Length of the body in bytes, if known; the commit is refused when it turns out to differ.
    pub size: Option<u64>,
    /// True if it is a page or a part of one.
    pub kind: Kind,
    /// Four bytes that the store keeps with the object and returns as [`crate::Entry::stamp`]; the
    /// exact index also keeps them in memory (C1: the time of last modification). 0: unknown.
    pub stamp: u32,
    /// The group of objects of its site that it belongs to, if that is not its key's group. It does
    /// not affect lookups. In a store of several devices, which divide the keys by their groups, it
    /// counts only if both groups lead to the same device.
    pub group: Option<u64>,
    /// The tiers to store it in.
    pub home: Home,
}

/// The result of [`crate::Store::read_unfinished`].
pub enum UnfinishedRead {
    /// At least one byte at the requested offset.
    Bytes(Bytes),
    /// Not in a piece yet: the caller still has it in its window, which must hold at least
    /// [`crate::PIECE_MAX`] bytes.
    NotYet,
    /// Evicted, damaged or aborted: the caller must cut the transfer.
    Gone,
}

/// An object being inserted. If it is dropped without [`Writer::commit`], nothing is stored.
pub struct Writer<D: Device, C: Clock> {
    volume: Rc<Volume<D, C>>,
    digest: Digest,
    key: Key,
    meta: Bytes,
    hint: Hint,
    /// The fetch: the volume that keeps its flag, and the digest that the flag is kept under.
    fetch: (Arc<Shared>, Digest),
    fetched: Fetched,
    /// Identifies this version; its pieces carry the same id.
    object_id: u64,
    collected: VecDeque<Content>,
    collected_len: usize,
    /// Bytes written so far.
    len: u64,
    pieces: u32,
    progress: Arc<Progress>,
}

/// State that the readers of a running insertion share with its writer.
struct Progress {
    object_id: u64,
    /// Holds the pieces for readers, even if the object is removed or replaced as soon as it is
    /// stored.
    reading: OnceLock<ReadHold>,
    /// Bytes of the body that lie in pieces.
    placed: AtomicU64,
    aborted: AtomicBool,
    committed: AtomicBool,
}

impl<D: Device, C: Clock> Writer<D, C> {
    pub(crate) fn new(
        volume: Rc<Volume<D, C>>,
        digest: Digest,
        key: Key,
        meta: Bytes,
        hint: Hint,
        token: &FetchToken,
    ) -> Result<Writer<D, C>, Refusal> {
        if hint.size.is_some_and(|size| size > volume.shared.object_max) {
            return Err(Refusal::TooLarge);
        }
        let fetched = token.fetched(&volume.shared);
        let contents = (&key.as_bytes()[..], &meta[..]);
        let object_id = volume.shared.lock().begin_writing(digest, &fetched, contents)?;
        let progress = Progress {
            object_id,
            reading: OnceLock::new(),
            placed: AtomicU64::new(0),
            aborted: AtomicBool::new(false),
            committed: AtomicBool::new(false),
        };
        Ok(Writer {
            volume,
            digest,
            key,
            meta,
            hint,
            fetch: (Arc::clone(&token.shared), token.digest),
            fetched,
            object_id,
            collected: VecDeque::with_capacity(1),
            collected_len: 0,
            len: 0,
            pieces: 0,
            progress: Arc::new(progress),
        })
    }

    /// Writes the next chunk. Waits while the device is behind (this slows the fetch), at most for
    /// [`crate::Options::write_bound`].
    ///
    /// # Errors
    /// The object is not stored; drop the writer and continue serving.
    pub async fn write(&mut self, chunk: impl Into<Content>) -> Result<(), Refusal> {
        let chunk = chunk.into();
        self.len += chunk.len() as u64;
        if self.len > self.volume.shared.object_max {
            return Err(Refusal::TooLarge);
        }
        if self.hint.size.is_some_and(|size| self.len > size) {
            return Err(Refusal::WrongLength);
        }
        self.collected_len += chunk.len();
        if !chunk.is_empty() {
            chunk.push(&mut self.collected);
        }
        let size = self.volume.shared.piece_size as usize;
        while self.collected_len > size {
            let body = self.take(size);
            self.place_piece(body).await?;
        }
        Ok(())
    }

    /// Returns a handle on the part written so far, for readers that lag behind the window in
    /// memory.
    pub fn unfinished(&self) -> Unfinished {
        if self.may_be_large() {
            self.progress.reading.get_or_init(|| self.volume.begin_following(self.object_id));
        }
        let (shared, progress) = (&self.volume.shared, &self.progress);
        Unfinished { shared: Arc::clone(shared), progress: Arc::clone(progress) }
    }

    /// Returns whether an object that began to be written later is stored under the key. This one
    /// can then no longer be committed.
    pub fn is_superseded(&self) -> bool {
        self.volume.shared.lock().is_superseded(&self.digest, self.object_id)
    }

    /// Makes the object visible, replacing any object under its key. The replaced object does not
    /// come back after a kill of the process, unless the device did not write that within
    /// [`crate::Options::write_bound`].
    ///
    /// # Errors
    /// The object is not stored; the earlier object is still there, unless it was removed.
    /// [`Refusal::Overtaken`]: the key was removed since the fetch began, or
    /// [`Writer::is_superseded`].
    pub async fn commit(mut self) -> Result<(), Refusal> {
        let result = self.try_commit().await;
        if result.is_err() {
            self.volume.shared.lock().count(Counted::Refusal);
        }
        result
    }

    /// Commits like [`Writer::commit`], for a body that was cut short: the part that arrived
    /// becomes an object of its own, with other metadata and the length that it has.
    ///
    /// # Errors
    /// As for [`Writer::commit`].
    pub async fn commit_short(mut self, meta: Bytes) -> Result<(), Refusal> {
        self.hint.size = None;
        self.meta = meta;
        self.commit().await
    }

    async fn try_commit(&mut self) -> Result<(), Refusal> {
        if self.hint.size.is_some_and(|size| self.len != size) {
            return Err(Refusal::WrongLength);
        }
        // A chunk was refused, or its future dropped: bytes are missing.
        let placed = self.progress.placed.load(Ordering::Acquire);
        if placed + self.collected_len as u64 != self.len {
            return Err(Refusal::WrongLength);
        }
        let rest = self.take(self.collected_len);
        let (body, piece_size) = if self.pieces == 0 && self.fits_one_record(rest.len()) {
            (rest, 0)
        } else {
            if !rest.is_empty() {
                self.place_piece(rest).await?;
            }
            (Bytes::new().into(), self.volume.shared.piece_size)
        };
        let header = self.header(RecordKind::Object, self.digest, piece_size);
        let (key, meta) = (self.key.as_bytes().clone(), std::mem::take(&mut self.meta));
        let record = Record::new(&self.volume.shared.secret, header, key, meta, body);
        let new = NewObject { record, fetched: Some(self.fetched.clone()), home: self.hint.home };
        let up_to = self.volume.insert(new).await?;
        // The object and its pieces are visible, even if the caller does not wait for the rest.
        self.progress.committed.store(true, Ordering::Release);
        let Some(up_to) = up_to else { return Ok(()) };
        let deadline = self.volume.write_deadline();
        match self.volume.reach(Goal::Written(up_to), deadline).await {
            Err(Refusal::Offline) => Err(Refusal::Offline),
            // A late device writes it as soon as it can.
            _ => Ok(()),
        }
    }

    /// Returns whether its body may be stored in pieces.
    fn may_be_large(&self) -> bool {
        let size = usize::try_from(self.hint.size.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        size > self.volume.shared.piece_size as usize || !self.fits_one_record(size)
    }

    fn fits_one_record(&self, body: usize) -> bool {
        let len = crate::base::record::record_len(self.key.as_bytes().len(), self.meta.len(), body);
        len <= self.volume.shared.record_max
    }

    fn header(&self, kind: RecordKind, digest: Digest, piece_size: u32) -> Header {
        let locality = self.key.locality();
        Header {
            kind,
            html: self.hint.kind == Kind::Html,
            digest,
            sequence: 0,
            object_id: self.object_id,
            object_len: self.hint.size.unwrap_or(self.len).max(self.len),
            piece_size,
            stored_at: self.volume.clock.unix_seconds() as u32,
            site: locality.site,
            group: self.hint.group.unwrap_or(locality.group),
            references: 1,
            stamp: self.hint.stamp,
        }
    }

    /// Removes the first `len` collected bytes and returns them as one content.
    fn take(&mut self, len: usize) -> Content {
        self.collected_len -= len;
        Content::take(&mut self.collected, len)
    }

    async fn place_piece(&mut self, body: Content) -> Result<(), Refusal> {
        if self.fetched.overtaken.load(Ordering::Acquire) {
            return Err(Refusal::Overtaken);
        }
        let digest = self.volume.shared.digester.piece(self.object_id, self.pieces);
        let header = self.header(RecordKind::Piece, digest, self.volume.shared.piece_size);
        let len = body.len() as u64;
        let record =
            Record::new(&self.volume.shared.secret, header, Bytes::new(), Bytes::new(), body);
        let number = self.pieces;
        self.pieces += 1;
        // The device takes pieces by itself, whichever tiers the object is for.
        let home = match self.hint.home {
            Home::Memory => Home::Memory,
            Home::MemoryAndDisk | Home::Disk => Home::default(),
        };
        self.volume.insert(NewObject { record, fetched: None, home }).await?;
        if self.progress.reading.get().is_some() {
            // Readers that lag behind the window in memory may need it, however late.
            let mut core = self.volume.shared.lock();
            core.hold(self.object_id, number..number + 1);
            if home == Home::Memory && !core.is_held(self.object_id, number) {
                return Err(Refusal::TooLarge);
            }
        }
        self.progress.placed.fetch_add(len, Ordering::Release);
        Ok(())
    }
}

impl<D: Device, C: Clock> Drop for Writer<D, C> {
    fn drop(&mut self) {
        // The token may be gone, so the writer must end the fetch.
        let (shared, digest) = &self.fetch;
        shared.lock().end_fetch(digest, &self.fetched.overtaken);
        self.volume.shared.lock().end_writing(&self.digest);
        if self.progress.committed.load(Ordering::Acquire) {
            return;
        }
        self.progress.aborted.store(true, Ordering::Release);
        if self.pieces > 0 {
            self.volume.shared.lock().discard_pieces(self.object_id, 0..self.pieces);
        }
    }
}

/// A handle on an object that is being written, for any worker: `Send + Sync`, cheap to clone.
#[derive(Clone)]
pub struct Unfinished {
    shared: Arc<Shared>,
    progress: Arc<Progress>,
}

impl Unfinished {
    pub(crate) fn is_on(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    pub(crate) async fn read<D: Device, C: Clock>(
        &self,
        volume: &Volume<D, C>,
        offset: u64,
    ) -> UnfinishedRead {
        if self.progress.aborted.load(Ordering::Acquire) {
            return UnfinishedRead::Gone;
        }
        if offset >= self.progress.placed.load(Ordering::Acquire) {
            return UnfinishedRead::NotYet;
        }
        if let Some(reading) = self.progress.reading.get() {
            reading.reads_body();
        }
        let size = u64::from(volume.shared.piece_size);
        let (id, number) = (self.progress.object_id, (offset / size) as u32);
        let piece = volume.piece(id, number, LookupOptions::default()).await;
        let within = (offset % size) as usize;
        match piece {
            Some((piece, _)) if piece.body.len() > within => {
                UnfinishedRead::Bytes(piece.body.slice(within..piece.body.len()).bytes())
            }
            _ => UnfinishedRead::Gone,
        }
    }
}
