//! A stored response as returned by a lookup.

use std::rc::Rc;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName};
use semantics::packed::Flag::HeadOnly;
use semantics::sparse::Layout;
use semantics::{SparseHead, StoredHead, VaryMarker, date, validators};
use store::Key;

use crate::object::head::Head;
use crate::object::metadata::FoundHead;
use crate::object::store::Entry;

pub(crate) struct StoredResponse {
    pub key: Key,
    pub marker: Option<VaryMarker>,
    pub entry: Entry,
    pub head: Head,
    /// Layout, if the response is stored in parts. `entry` then has at most the trunk.
    pub sparse: Option<Layout>,
}

impl StoredResponse {
    /// Creates the response of an entry with the head that was read from it.
    pub fn new(
        key: Key,
        marker: Option<VaryMarker>,
        entry: Entry,
        found: FoundHead,
    ) -> Rc<StoredResponse> {
        let FoundHead { head, sparse } = found;
        Rc::new(StoredResponse { key, marker, entry, head, sparse })
    }

    /// Returns whether the origin made this response later than `other`, by their `Date` fields; if
    /// these are equal, whether it was received later.
    pub fn is_later_than(&self, other: &StoredResponse) -> bool {
        let when = |response: &StoredResponse| {
            let received = response.head.packed().received();
            let made = date::of_field(response.head.stored().headers(), &header::DATE, received);
            (made, received)
        };
        when(self) > when(other)
    }

    /// Returns the request fields that selected the response.
    pub fn selected_by(&self) -> &[HeaderName] {
        self.marker.as_ref().map_or(&[], VaryMarker::names)
    }

    /// Returns whether a request field of this name selected the response.
    pub fn is_selected_by(&self, name: &str) -> bool {
        self.selected_by().iter().any(|selects| selects == name)
    }

    /// Returns whether this is the response to a HEAD, without a body.
    pub fn is_of_head(&self) -> bool {
        self.head.packed().is(HeadOnly)
    }

    /// Makes a request conditional on this response. Returns false if the response has no
    /// validator; the request then asks for a new response.
    pub fn make_conditional(&self, request: &mut HeaderMap) -> bool {
        validators::make_conditional(request, &self.head.stored().selected())
    }

    /// Returns the length of the whole body, in bytes.
    pub fn length(&self) -> u64 {
        self.sparse.map_or(self.entry.len(), |layout| layout.length)
    }

    /// Returns the store's metadata for this response with another head.
    pub fn encode(&self, head: &StoredHead) -> Bytes {
        match self.sparse {
            Some(layout) => SparseHead { layout, head: head.clone() }.encode(),
            None => head.encode(),
        }
    }
}
