//! Several ranges of a stored object as `multipart/byteranges`.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use crate::message::cut_short::Truncated;
use bytes::Bytes;
use semantics::multipart::Multipart;

use crate::body::stored_body::EntryBody;
use crate::object::store::Store;
use crate::object::stored_response::StoredResponse;
use crate::partial::partial_body::PartsBody;
use crate::partial::partial_object::PartialObject;

/// Body of several ranges of a stored object (RFC 9110, 14.6).
pub(crate) struct MultipartBody {
    whole: Whole,
    frame: Multipart,
    next_part: usize,
    part: Option<PartBody>,
    left: u64,
    /// Keeps the ranges of an object stored whole readable until the last part is sent.
    _held: Option<Box<store::ReadHold>>,
}

pub(crate) enum Whole {
    Stored(Option<Store>, Rc<StoredResponse>),
    /// An object that is stored in parts.
    Sparse(Rc<PartialObject>),
}

pub(crate) enum PartBody {
    Stored(Box<EntryBody>),
    Sparse(Box<PartsBody>),
}

impl PartBody {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Truncated>>> {
        match self {
            PartBody::Stored(body) => body.poll(cx),
            PartBody::Sparse(body) => body
                .poll(cx)
                .map(|next| next.map(|bytes| bytes.map_err(|_| Truncated("a part is missing")))),
        }
    }
}

impl MultipartBody {
    pub fn new(whole: Whole, frame: Multipart) -> MultipartBody {
        let left = frame.total_length();
        let ranges = frame.parts().iter().map(|(_, range)| range.as_range());
        let all = ranges.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
        let held = match (&whole, all) {
            (Whole::Stored(_, stored), Some(all)) => stored.entry.hold(all).map(Box::new),
            _ => None,
        };
        MultipartBody { whole, frame, next_part: 0, part: None, left, _held: held }
    }

    /// Returns the number of bytes still to come.
    pub fn left(&self) -> u64 {
        self.left
    }

    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Truncated>>> {
        let next = ready!(self.poll_next(cx));
        if let Some(Ok(bytes)) = &next {
            self.left = self.left.saturating_sub(bytes.len() as u64);
        }
        Poll::Ready(next)
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Truncated>>> {
        if let Some(part) = &mut self.part {
            if let Some(next) = ready!(part.poll(cx)) {
                return Poll::Ready(Some(next));
            }
            self.part = None;
        }
        let parts = self.frame.parts();
        if let Some((head, range)) = parts.get(self.next_part) {
            self.next_part += 1;
            let body = match &self.whole {
                Whole::Stored(store, stored) => {
                    let range = range.as_range();
                    PartBody::Stored(Box::new(EntryBody::new(store.clone(), stored, range, None)))
                }
                Whole::Sparse(parts) => {
                    PartBody::Sparse(Box::new(PartsBody::new(parts.clone(), *range, None)))
                }
            };
            self.part = Some(body);
            return Poll::Ready(Some(Ok(head.clone())));
        }
        if self.next_part == parts.len() {
            self.next_part += 1;
            return Poll::Ready(Some(Ok(self.frame.closing())));
        }
        Poll::Ready(None)
    }
}
