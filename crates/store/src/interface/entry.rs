//! An entry: a stored object as one lookup found it, and its body being sent.
//!
//! An entry gives access to all of its object even if that is removed, replaced or purged
//! meanwhile; see [`crate::core`]'s `reader_holds` for how, and for the bounds.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use device::{Clock, Device, Nanos};

use crate::base::content::Content;
use crate::base::digest::Digest;
use crate::base::source::Source;
use crate::config::lookup_options::LookupOptions;
use crate::core::{
    Expected, HOLD_STEP, HeldPiece, LookupRequest, PieceRun, Purpose, ReaderId, ReaderProgress,
};
use crate::memory::object::Object;
use crate::shell::volume::{Shared, Volume};

/// Number of pieces that are read at once for a reader that makes fast progress: half a megabyte.
const RUN: u32 = 4;
/// Maximum nanoseconds in which a reader that makes fast progress consumes the last read: 4 pieces
/// in this time are 20 Mbit/s. Slower readers have one piece in memory at a time; a fast reader
/// that stops keeps the pieces of its last read.
const FAST: Nanos = 200_000_000;

/// The reason why a body ended early. The transfer must be cut: bytes are never filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// A piece was evicted, or found damaged, while the body was read.
    #[error("a piece of the body was evicted or found damaged")]
    Gone,
}

/// A stored object as one lookup found it.
pub struct Entry<D: Device, C: Clock> {
    volume: Rc<Volume<D, C>>,
    digest: Digest,
    object: Arc<Object>,
    /// Present for an object in pieces.
    large: Option<Box<Large>>,
    source: Source,
    /// The time since when the object was outdated when it was found.
    outdated: Option<u32>,
    /// The options of its lookup, also used for its pieces.
    options: LookupOptions,
}

/// The additional parts of an entry for an object in pieces.
struct Large {
    /// The first piece, verified.
    first: Arc<Object>,
    /// Holds the other pieces.
    _hold: ReadHold,
}

impl Large {
    /// Opens `object` at its first piece; returns `None` when a piece is missing.
    async fn open<D: Device, C: Clock>(
        volume: &Volume<D, C>,
        object: &Object,
        options: LookupOptions,
    ) -> Option<(Large, Source)> {
        let id = object.header.object_id;
        let reader = volume.shared.lock().open_reader(object, volume.now())?;
        let _hold = ReadHold::new(&volume.shared, reader);
        let (first, source) = volume.piece(id, 0, options).await?;
        Some((Large { first, _hold }, source))
    }
}

impl<D: Device, C: Clock> Entry<D, C> {
    /// Opens the entry for an object that a lookup found. Reads the first piece of a large one; if
    /// that or another piece is missing, removes the object and returns `None`.
    pub(crate) async fn open(
        volume: Rc<Volume<D, C>>,
        digest: Digest,
        object: Arc<Object>,
        source: Source,
        options: LookupOptions,
    ) -> Option<Self> {
        let outdated = object.outdated_since();
        if !object.in_pieces() {
            return Some(Entry { volume, digest, object, large: None, source, outdated, options });
        }
        let Some((large, from)) = Box::pin(Large::open(&volume, &object, options)).await else {
            // A lookup in memory only cannot tell that a piece is missing.
            if !options.memory_only() {
                volume.forget_incomplete(&digest, &object);
            }
            return None;
        };
        let source = if from == Source::Disk { from } else { source };
        let large = Some(Box::new(large));
        Some(Entry { volume, digest, object, large, source, outdated, options })
    }

    /// Creates the entry for an object in memory whose body is in its record.
    pub(crate) fn of_resident(
        volume: Rc<Volume<D, C>>,
        digest: Digest,
        object: Arc<Object>,
    ) -> Self {
        let outdated = object.outdated_since();
        let options = LookupOptions::default();
        Entry { volume, digest, object, large: None, source: Source::Ram, outdated, options }
    }

    pub(crate) fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// Returns the metadata given at insertion or by the last `replace_meta`.
    pub fn meta(&self) -> &Bytes {
        &self.object.meta
    }

    /// Returns the length of the body in bytes.
    pub fn len(&self) -> u64 {
        self.object.header.object_len
    }

    /// Returns whether the body is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns since when it is outdated by a soft purge, in unix seconds. Returns `None` when it
    /// is not, or its metadata have been replaced since; 0 when a purge that was missed may have
    /// removed it ([`Store::doubt_everything`]).
    ///
    /// [`Store::doubt_everything`]: crate::Store::doubt_everything
    pub fn outdated_since(&self) -> Option<u64> {
        self.outdated.map(u64::from)
    }

    /// Returns whether this version is still the one stored under its key, neither removed, purged
    /// nor replaced. Also returns false for a version that was moved since it was found.
    pub fn is_current(&self) -> bool {
        self.volume.shared.lock().is_current_object(&self.digest, &self.object)
    }

    /// Returns the tier that the first bytes came from.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Returns the stamp that the caller gave as [`crate::Hint::stamp`].
    pub fn stamp(&self) -> u32 {
        self.object.header.stamp
    }

    /// Returns when the object was stored, in unix seconds.
    pub fn stored_at(&self) -> u64 {
        u64::from(self.object.header.stored_at)
    }

    /// Keeps all of `range` readable for as long as the returned hold lives. [`Entry::body`] does
    /// so itself; call this to read several ranges in sequence. Returns `None` when nothing needs
    /// to be held.
    ///
    /// # Panics
    /// When `range` does not lie within `0..len()`.
    pub fn hold(&self, range: Range<u64>) -> Option<ReadHold> {
        assert!(range.start <= range.end && range.end <= self.len(), "a range within the body");
        if !self.object.in_pieces() || range.is_empty() {
            return None;
        }
        let size = u64::from(self.object.header.piece_size);
        let pieces = (range.start / size) as u32..range.end.div_ceil(size) as u32;
        Some(self.volume.begin_reading(&self.object, pieces))
    }

    /// Returns the whole body as one slice, if it is in one record: the fast path.
    pub fn whole(&self) -> Option<Bytes> {
        (!self.object.in_pieces()).then(|| self.object.body.bytes())
    }

    /// Returns a reader of the bytes of `range`, in order, in chunks; `range` must lie within
    /// `0..len()`.
    pub fn body(&self, range: Range<u64>) -> Body<D, C> {
        let first = self.large.as_ref().map(|large| (0, Arc::clone(&large.first)));
        let hold = self.hold(range.clone());
        let at_hand = first.into_iter().collect();
        let began = self.volume.clock.now();
        let pieces = hold.map(|hold| Box::new(Pieces { at_hand, began, hold }));
        let (volume, object) = (Rc::clone(&self.volume), Arc::clone(&self.object));
        let options = self.options.for_pieces();
        Body { volume, digest: self.digest, object, pieces, range, options }
    }
}

/// A body being sent.
pub struct Body<D: Device, C: Clock> {
    volume: Rc<Volume<D, C>>,
    digest: Digest,
    object: Arc<Object>,
    /// Present for an object in pieces.
    pieces: Option<Box<Pieces>>,
    /// The bytes still to be returned.
    range: Range<u64>,
    /// The options of its lookups of pieces.
    options: LookupOptions,
}

/// The additional parts of a body of an object in pieces.
struct Pieces {
    /// The pieces that were read and not yet returned, with their numbers, in order.
    at_hand: VecDeque<(u32, Arc<Object>)>,
    /// Time at which the last read for it began.
    began: Nanos,
    /// Holds the pieces.
    hold: ReadHold,
}

impl<D: Device, C: Clock> Body<D, C> {
    /// Returns the next chunk, verified; `None` at the end of the range. After an error the body
    /// has ended.
    pub async fn next(&mut self) -> Option<Result<Bytes, ReadError>> {
        self.next_content().await.map(|chunk| chunk.map(|content| content.bytes()))
    }

    /// Returns the next chunk like [`Body::next`], without generating bytes that are elided.
    pub async fn next_content(&mut self) -> Option<Result<Content, ReadError>> {
        if self.range.is_empty() {
            return None;
        }
        if !self.object.in_pieces() {
            let range = self.range.start as usize..self.range.end as usize;
            self.range.start = self.range.end;
            return Some(Ok(self.object.body.slice(range)));
        }
        let chunk = self.piece().await;
        self.range.start = match &chunk {
            Ok(content) => self.range.start + content.len() as u64,
            Err(_) => {
                self.volume.forget_incomplete(&self.digest, &self.object);
                self.range.end
            }
        };
        Some(chunk)
    }

    async fn piece(&mut self) -> Result<Content, ReadError> {
        let header = &self.object.header;
        let size = u64::from(header.piece_size);
        let number = self.range.start / size;
        let start = number * size;
        let len = size.min(header.object_len - start);
        let piece = self.piece_of_number(number as u32).await;
        if let Some(pieces) = &self.pieces {
            pieces.hold.read_up_to(number as u32 + 1);
        }
        let piece = piece.filter(|piece| piece.body.len() as u64 == len).ok_or(ReadError::Gone)?;
        let end = (start + len).min(self.range.end);
        let range = (self.range.start - start) as usize..(end - start) as usize;
        Ok(shared_body(piece).slice(range))
    }
}

impl<D: Device, C: Clock> Body<D, C> {
    /// Returns piece `number`: from those already read, or by a read, which also reads the
    /// following pieces for a reader that makes fast progress.
    async fn piece_of_number(&mut self, number: u32) -> Option<Arc<Object>> {
        let (object_id, object_len) = (self.object.header.object_id, self.object.header.object_len);
        let piece_size = u64::from(self.object.header.piece_size);
        let now = self.volume.clock.now();
        let Some(pieces) = &mut self.pieces else {
            return None;
        };
        if let Some((at, piece)) = pieces.at_hand.pop_front() {
            if at == number {
                return Some(piece);
            }
            pieces.at_hand.clear();
        }
        let last_read = std::mem::replace(&mut pieces.began, now);
        let end = self.range.end.div_ceil(piece_size) as u32;
        if end - number > 1 && now.saturating_sub(last_read) <= FAST {
            let numbers = number..end.min(number.saturating_add(RUN));
            let options = self.options;
            let run = PieceRun { object_id, object_len, numbers, options };
            let mut read = (number..).zip(self.volume.read_run(run).await);
            if let Some((_, piece)) = read.next() {
                pieces.at_hand.extend(read);
                return Some(piece);
            }
        }
        let piece = self.volume.piece(object_id, number, self.options).await;
        piece.map(|(piece, _)| piece)
    }
}

/// Returns the body of a piece. The piece lives for as long as any of its bytes are in use, so that
/// other readers meanwhile share it.
fn shared_body(piece: Arc<Object>) -> Content {
    struct Body(Arc<Object>);
    impl AsRef<[u8]> for Body {
        fn as_ref(&self) -> &[u8] {
            match &self.0.body {
                Content::Bytes(bytes) => bytes,
                Content::Elided { .. } => &[],
            }
        }
    }
    match &piece.body {
        Content::Bytes(_) => Content::Bytes(Bytes::from_owner(Body(piece))),
        Content::Elided { .. } => piece.body.clone(),
    }
}

/// A reader of a large object, which holds the pieces that it has still to read until it is
/// dropped.
pub struct ReadHold {
    shared: Arc<Shared>,
    id: ReaderId,
}

impl ReadHold {
    fn new(shared: &Arc<Shared>, id: ReaderId) -> ReadHold {
        ReadHold { shared: Arc::clone(shared), id }
    }

    /// Records that the reader has begun to read the body, rather than only having opened it.
    pub(crate) fn reads_body(&self) {
        self.shared.lock().reader_progressed(self.id, ReaderProgress::ReadsBody);
    }

    /// Records that everything before piece `at` has been read.
    fn read_up_to(&self, at: u32) {
        self.shared.lock().reader_progressed(self.id, ReaderProgress::ReadUpTo(at));
    }
}

impl Drop for ReadHold {
    fn drop(&mut self) {
        self.shared.lock().reader_progressed(self.id, ReaderProgress::Ended);
    }
}

impl<D: Device, C: Clock> Volume<D, C> {
    /// Holds these pieces of `object` for a reader of its body.
    fn begin_reading(&self, object: &Object, pieces: Range<u32>) -> ReadHold {
        let object_id = object.header.object_id;
        let (reads, now) = (Some(ReaderProgress::ReadsBody), self.now());
        let id = self.shared.lock().begin_reading(object_id, pieces.start, reads, now);
        for first in pieces.clone().step_by(HOLD_STEP as usize) {
            let last = first.saturating_add(HOLD_STEP).min(pieces.end);
            self.shared.lock().hold(object_id, first..last);
        }
        ReadHold::new(&self.shared, id)
    }

    /// Holds a version that is still being written, for readers that follow it and read all of it
    /// later.
    pub(crate) fn begin_following(&self, object_id: u64) -> ReadHold {
        let id = self.shared.lock().begin_reading(object_id, 0, None, self.now());
        ReadHold::new(&self.shared, id)
    }

    /// Returns piece `number` of a large object; `None` when it is gone.
    pub(crate) async fn piece(
        &self,
        object_id: u64,
        number: u32,
        options: LookupOptions,
    ) -> Option<(Arc<Object>, Source)> {
        match self.find_piece(object_id, number, options).await {
            None if options.memory_only() => None,
            // Rare, and boxed so that it does not enlarge the future of every lookup.
            None => Box::pin(self.missing_piece(object_id, number, options)).await,
            found => found,
        }
    }

    async fn find_piece(
        &self,
        object_id: u64,
        number: u32,
        options: LookupOptions,
    ) -> Option<(Arc<Object>, Source)> {
        let digest = self.shared.digester.piece(object_id, number);
        let (expected, purpose) = (Expected::Piece, Purpose::Piece);
        let request = LookupRequest { digest, expected, purpose, options };
        let found = self.lookup(request).await.found;
        found.filter(|(piece, _)| piece.header.object_id == object_id)
    }

    /// Looks again for a piece that was not found, or could not be read.
    async fn missing_piece(
        &self,
        object_id: u64,
        number: u32,
        options: LookupOptions,
    ) -> Option<(Arc<Object>, Source)> {
        let digest = self.shared.digester.piece(object_id, number);
        if !self.shared.stalls() && self.shared.lock().knows(&digest) {
            // The device failed: a transient error must not cost the object.
            let found = self.find_piece(object_id, number, options).await;
            if found.is_some() {
                return found;
            }
        }
        self.held_piece(object_id, number).await
    }

    async fn held_piece(&self, object_id: u64, number: u32) -> Option<(Arc<Object>, Source)> {
        let held = self.shared.lock().find_held(object_id, number)?;
        let (piece, source) = match held {
            HeldPiece::Object(piece) => (piece, Source::Ram),
            HeldPiece::Read(plan) => (self.load(plan, Expected::Piece).await?, Source::Disk),
        };
        (piece.header.object_id == object_id).then_some((piece, source))
    }

    /// Removes a version that lost a piece, unless the device merely stalls.
    fn forget_incomplete(&self, digest: &Digest, object: &Object) {
        if !self.shared.stalls() {
            self.shared.lock().forget_incomplete(digest, object);
        }
    }
}
