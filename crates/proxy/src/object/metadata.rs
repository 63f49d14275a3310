//! The metadata of a stored object: the head of a response, or the marker that leads to variants.

use semantics::sparse::Layout;
use semantics::{Meta, Seconds, SparseHead, StoredHead, Time, VaryMarker};

use crate::object::head::Head;
use crate::object::store::Entry;

/// Metadata of an object that a request may find.
#[expect(clippy::large_enum_variant, reason = "a marker is read on the way to a head")]
pub(crate) enum Metadata {
    Head(FoundHead),
    Marker(VaryMarker),
}

pub(crate) struct FoundHead {
    pub head: Head,
    /// Layout, if the response is stored in parts.
    pub sparse: Option<Layout>,
}

impl FoundHead {
    fn whole(head: Head) -> Metadata {
        Metadata::Head(FoundHead { head, sparse: None })
    }

    fn sparse(head: StoredHead, layout: Layout) -> Metadata {
        Metadata::Head(FoundHead { head: head.into(), sparse: Some(layout) })
    }
}

impl Metadata {
    /// Reads the metadata of an entry. Returns `None` for metadata of other software or another
    /// version, and for those of a part.
    pub fn of(entry: &Entry) -> Option<Metadata> {
        let Some(since) = entry.outdated_since() else { return Metadata::as_stored(entry) };
        // A soft purge outdated the object; its stored head does not say so.
        let outdated = |head: StoredHead| match since {
            0 => head.doubted(),
            since => head.outdated(Time::from_unix(since)),
        };
        match Meta::decode(entry.meta()) {
            Ok(Meta::Head(head)) => Some(FoundHead::whole(outdated(head).into())),
            Ok(Meta::Sparse(SparseHead { layout, head })) => {
                Some(FoundHead::sparse(outdated(head), layout))
            }
            _ => Metadata::as_stored(entry),
        }
    }

    fn as_stored(entry: &Entry) -> Option<Metadata> {
        if let Some(head) = Head::read(entry.meta()) {
            return Some(FoundHead::whole(head));
        }
        match Meta::decode(entry.meta()) {
            Ok(Meta::Head(head)) => Some(FoundHead::whole(head.into())),
            Ok(Meta::Marker(marker)) => Some(Metadata::Marker(marker)),
            Ok(Meta::Sparse(SparseHead { layout, head })) => Some(FoundHead::sparse(head, layout)),
            Ok(Meta::Part(_)) => None,
            Err(error) => {
                log::warn!("a stored object is ignored: {error}");
                None
            }
        }
    }

    /// Returns by how much a soft purge has cut the lifetime of an entry, of which `left` is left.
    pub fn cut_off(entry: &Entry, left: Seconds) -> Seconds {
        match entry.outdated_since().and_then(|_| Metadata::as_stored(entry)) {
            Some(Metadata::Head(found)) => found.head.packed().lifetime().minus(left),
            _ => Seconds::ZERO,
        }
    }

    pub fn into_marker(self) -> Option<VaryMarker> {
        match self {
            Metadata::Marker(marker) => Some(marker),
            Metadata::Head(_) => None,
        }
    }
}
