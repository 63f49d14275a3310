//! What an object is called besides its key: labels that a purge may name (a host, a tag).
//!
//! The store keeps no labels, but for digests that tell which of them nothing bears. Whoever uses
//! it can read them off what is stored with every object, its key and its metadata: when a record
//! is placed, and when there was a purge since the object was last looked at. So an object may have
//! any number of them.
//!
//! # Validity by generation
//!
//! A label is also how objects depend on a source outside of HTTP, a document root, say, or a
//! table: each object that was made of it bears a label that names the source, and raising the
//! source's generation is a purge of that label ([`crate::Store::purge_all`]). Every object of an
//! older generation is invalid from then on, and so is what is being made of it by a fetch that
//! began before ([`crate::FetchToken`]); objects stored later are of the new generation. The
//! generation is the store's own sequence number, so nothing is kept with an object for it.
//! However often a source changes, and however many objects it has, it takes one entry of the
//! table of purges, and it is durable. With [`Mode::Soft`] the objects stay, for whoever can ask
//! the source whether one of them is still good. Who cannot watch the source while the store is
//! closed raises its generation after opening.

/// One name of an object. Labels are equal when both fields are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label<'a> {
    /// What kind of name it is, a number of the caller's.
    pub kind: u8,
    /// The name.
    pub name: &'a [u8],
}

/// Reads labels off objects. Called under the store's lock: it must not call the store, nor wait.
pub trait Labels: Send + Sync {
    /// Names how labels are read: it is another number when the same object may have other labels
    /// than before. What a cache remembers of labels that were read in another way it does not
    /// believe. It stays the same as long as a store is open.
    fn version(&self) -> u64;

    /// Calls `see` with every label of the object with this key and these metadata.
    fn labels(&self, key: &[u8], meta: &[u8], see: &mut dyn FnMut(Label<'_>));

    /// What purges by prefix compare with; `None`: they do not concern this object.
    fn text<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]>;
}

/// Which beginnings of a text count among its labels. It changes when others do.
const BEGINNINGS: u64 = 1;

/// Returns the number that is kept with digests of labels: of how `labels` are read, and which
/// beginnings of the text are among them.
pub(crate) fn reading(labels: &dyn Labels) -> u64 {
    labels.version().wrapping_add(BEGINNINGS)
}

/// What a purge concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// Every object.
    Everything,
    /// Every object with this label.
    Label(Label<'a>),
    /// Every object whose text ([`Labels::text`]) begins so.
    Prefix(&'a [u8]),
}

/// What a purge does with the objects that it concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They are gone.
    Hard,
    /// They stay, and say since when they are outdated ([`crate::Entry::outdated_since`]), until
    /// they are replaced, or their metadata are ([`crate::Store::replace_meta`]).
    Soft,
}
