//! The head of a stored response. Heads that are asked for often are kept parsed beside their
//! objects in memory.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use http::header::HeaderValue;
use http::{HeaderMap, header};
use semantics::StoredHead;
use semantics::packed::Packed;
use store::Source;

use crate::object::store::Entry;
use crate::observe::cache_status::CACHE_STATUS;

/// Parsed heads kept beside objects in memory, at most: some 12 MiB together. The store cannot
/// count them, so there must be few; the objects that are asked for most get them first.
const ATTACHED_MAX: usize = 8192;

static ATTACHED: AtomicUsize = AtomicUsize::new(0);

/// The head of a stored answer, as a hit uses it.
#[derive(Debug)]
pub(crate) enum Head {
    /// Read from the metadata for this request.
    Own(StoredHead),
    /// Kept beside the object: the fields of a fresh hit from memory, with places for `Age` and
    /// `Cache-Status`.
    Ready(Arc<Ready>),
}

/// A parsed head that is kept beside its object in memory ([`Head::Ready`]).
#[derive(Debug)]
pub(crate) struct Ready {
    pub head: StoredHead,
    pub fields: HeaderMap,
}

impl Drop for Ready {
    fn drop(&mut self) {
        ATTACHED.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Head {
    pub fn stored(&self) -> &StoredHead {
        match self {
            Head::Own(head) => head,
            Head::Ready(ready) => &ready.head,
        }
    }

    pub fn packed(&self) -> &Packed {
        self.stored().packed()
    }

    /// Returns the head that is kept beside an object in memory, if one is.
    pub fn kept(entry: &Entry) -> Option<Head> {
        let ready = entry.attachment().and_then(OnceLock::get)?.clone();
        ready.downcast::<Ready>().ok().map(Head::Ready)
    }

    /// Returns the head that was read for `entry`; keeps it beside the object if there is room.
    pub fn keep(head: StoredHead, entry: &Entry) -> Head {
        match entry.attachment() {
            // An object from the device may leave memory before it is asked for again.
            Some(place) if entry.source() == Source::Ram && take_attachment() => {
                let mut fields = head.headers().clone();
                fields.insert(header::AGE, HeaderValue::from_static("0"));
                fields.entry(CACHE_STATUS).or_insert(HeaderValue::from_static(""));
                let ready = Arc::new(Ready { head, fields });
                // Another worker may have been faster: its copy is as good.
                let _ = place.set(ready.clone() as Arc<dyn Any + Send + Sync>);
                Head::Ready(ready)
            }
            _ => Head::Own(head),
        }
    }
}

/// Counts one more kept head and returns true, unless there are too many. The count goes down when
/// a [`Ready`] is dropped.
fn take_attachment() -> bool {
    let taken = ATTACHED.fetch_add(1, Ordering::Relaxed) < ATTACHED_MAX;
    if !taken {
        ATTACHED.fetch_sub(1, Ordering::Relaxed);
    }
    taken
}
