//! What an object is called besides its key: labels that a purge may name (a host, a tag).
//!
//! The store keeps no labels, but for digests that tell which of them nothing bears. Whoever uses
//! it can read them off what is stored with every object, its key and its metadata: when a record
//! is placed, and when there was a purge since the object was last looked at. So an object may have
//! any number of them.

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
