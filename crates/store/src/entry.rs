//! An entry: a stored object as one lookup found it, and its body on the way out.

use std::any::Any;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use device::{Clock, Device};

use crate::api::{ReadError, Source};
use crate::content::Content;
use crate::core::Expected;
use crate::digest::Digest;
use crate::object::Object;
use crate::volume::Volume;

/// A stored object as one lookup found it.
pub struct Entry<D: Device, C: Clock> {
    volume: Rc<Volume<D, C>>,
    digest: Digest,
    object: Arc<Object>,
    /// The first piece of a large object, verified.
    first: Option<Arc<Object>>,
    source: Source,
    /// As it was when the object was found.
    outdated: Option<u32>,
}

impl<D: Device, C: Clock> Entry<D, C> {
    /// The entry for an object that a lookup found. Of a large one the first piece is read;
    /// `None`, and the object is given up, when that or another piece is not there.
    pub(crate) async fn open(
        volume: Rc<Volume<D, C>>,
        digest: Digest,
        object: Arc<Object>,
        source: Source,
    ) -> Option<Self> {
        let outdated = object.outdated_since();
        if !object.in_pieces() {
            return Some(Entry { volume, digest, object, first: None, source, outdated });
        }
        let complete = volume.shared.lock().has_pieces(&object);
        let first = match complete {
            true => volume.piece(object.header.object_id, 0).await,
            false => None,
        };
        let Some((first, from)) = first else {
            volume.forget_incomplete(&digest, &object);
            return None;
        };
        let source = if from == Source::Disk { from } else { source };
        Some(Entry { volume, digest, object, first: Some(first), source, outdated })
    }

    /// The entry for an object in memory whose body is in its record.
    pub(crate) fn of_resident(
        volume: Rc<Volume<D, C>>,
        digest: Digest,
        object: Arc<Object>,
    ) -> Self {
        let outdated = object.outdated_since();
        Entry { volume, digest, object, first: None, source: Source::Ram, outdated }
    }

    pub(crate) fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// The metadata given at insertion or by the last `replace_meta`.
    pub fn meta(&self) -> &Bytes {
        &self.object.meta
    }

    /// Body length in bytes.
    pub fn len(&self) -> u64 {
        self.object.header.object_len
    }

    /// True for an empty body.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Since when it is outdated by a soft purge, in unix seconds; `None`: it is not, or its
    /// metadata have been replaced since.
    pub fn outdated_since(&self) -> Option<u64> {
        self.outdated.map(u64::from)
    }

    /// Where the first bytes came from.
    pub fn source(&self) -> Source {
        self.source
    }

    /// What the caller gave as [`crate::Hint::stamp`].
    pub fn stamp(&self) -> u32 {
        self.object.header.stamp
    }

    /// When the object was stored, in unix seconds.
    pub fn stored_at(&self) -> u64 {
        u64::from(self.object.header.stored_at)
    }

    /// A place for what the caller derives from the metadata (a parsed head). Lives as long as
    /// this version stays in memory and is shared by all its readers there.
    pub fn attachment(&self) -> Option<&OnceLock<Arc<dyn Any + Send + Sync>>> {
        Some(&self.object.attachment)
    }

    /// The whole body as one slice, when it is in one record: the fast path.
    pub fn whole(&self) -> Option<Bytes> {
        (!self.object.in_pieces()).then(|| self.object.body.bytes())
    }

    /// The bytes of `range`, in order, in chunks; `range` must lie within `0..len()`.
    pub fn body(&self, range: Range<u64>) -> Body<D, C> {
        assert!(range.start <= range.end && range.end <= self.len(), "a range within the body");
        Body {
            volume: Rc::clone(&self.volume),
            digest: self.digest,
            object: Arc::clone(&self.object),
            first: self.first.clone(),
            range,
        }
    }
}

/// A body on its way out.
pub struct Body<D: Device, C: Clock> {
    volume: Rc<Volume<D, C>>,
    digest: Digest,
    object: Arc<Object>,
    /// The first piece, until it is sent.
    first: Option<Arc<Object>>,
    /// What is still to come.
    range: Range<u64>,
}

impl<D: Device, C: Clock> Body<D, C> {
    /// The next chunk, verified; `None` at the end of the range. After an error the body is over.
    pub async fn next(&mut self) -> Option<Result<Bytes, ReadError>> {
        self.next_content().await.map(|chunk| chunk.map(|content| content.bytes()))
    }

    /// As [`Body::next`], without making up bytes that are elided.
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
        let piece = match self.first.take() {
            Some(first) if number == 0 => Some(first),
            _ => self.volume.piece(header.object_id, number as u32).await.map(|(piece, _)| piece),
        };
        let piece = piece.filter(|piece| piece.body.len() as u64 == len).ok_or(ReadError::Gone)?;
        let end = (start + len).min(self.range.end);
        Ok(piece.body.slice((self.range.start - start) as usize..(end - start) as usize))
    }
}

impl<D: Device, C: Clock> Volume<D, C> {
    /// Piece `number` of a large object; `None` when it is gone.
    pub(crate) async fn piece(&self, object_id: u64, number: u32) -> Option<(Arc<Object>, Source)> {
        let digest = self.shared.digester.piece(object_id, number);
        let mut found = self.lookup(digest, Expected::Piece).await;
        if found.is_none() && !self.shared.stalls() && self.shared.lock().knows(&digest) {
            // The device failed: an error that passes does not cost the object.
            found = self.lookup(digest, Expected::Piece).await;
        }
        found.filter(|(piece, _)| piece.header.object_id == object_id)
    }

    /// A version lost a piece: it goes, unless the device just takes too long.
    fn forget_incomplete(&self, digest: &Digest, object: &Object) {
        if !self.shared.stalls() {
            self.shared.lock().forget_incomplete(digest, object);
        }
    }
}
