//! Labels: names of an object besides its key that a purge may name (a host, a tag).
//!
//! The store keeps no labels, only digests that tell which labels no object bears. The caller reads
//! them from the key and the metadata that are stored with every object. The store asks for them
//! when a record is placed, and when a purge happened since the last lookup of the object. So an
//! object may have any number of labels.
//!
//! # Validity by generation
//!
//! A label can also tie objects to a source outside of HTTP, such as a document root or a table.
//! Each object made from the source bears a label that names it. Raising the source's generation is
//! a purge of that label ([`crate::Store::purge_all`]). From then on every object of an older
//! generation is invalid, and so is the result of a fetch that began before
//! ([`crate::FetchToken`]); objects stored later are of the new generation. The generation is the
//! store's own sequence number, so nothing is kept with an object for it. However often a source
//! changes, and however many objects it has, it takes one entry in the purge table, and that entry
//! is durable. With [`Mode::Soft`] the objects stay, for callers that can ask the source whether
//! one of them is still good. A caller that cannot watch the source while the store is closed must
//! raise its generation after opening.

/// One name of an object. Labels are equal when both fields are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label<'a> {
    /// The kind of name, a number chosen by the caller.
    pub kind: u8,
    /// The name.
    pub name: &'a [u8],
}

/// Reads the labels of objects. Called under the store's lock: an implementation must not call the
/// store and must not wait.
pub trait Labels: Send + Sync {
    /// Returns the version of the way labels are read. It must change when the same object may have
    /// other labels than before; a cache discards what it remembers of labels that were read in
    /// another way. It must not change while a store is open.
    fn version(&self) -> u64;

    /// Calls `see` with every label of the object with this key and metadata.
    fn labels(&self, key: &[u8], meta: &[u8], see: &mut dyn FnMut(Label<'_>));

    /// Returns the text that purges by prefix are matched against; `None` when they do not concern
    /// this object.
    fn text<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]>;

    /// Returns what a purge by this pattern is matched with. `None` stands for every object, so
    /// that a purge whose pattern is not understood removes too much rather than too little.
    fn pattern(&self, pattern: &[u8]) -> Option<Box<dyn Pattern>> {
        _ = pattern;
        None
    }
}

/// A pattern that decides which objects a purge concerns. Called under the store's lock, like
/// [`Labels`], once for each object and purge.
pub trait Pattern: Send + Sync {
    /// Returns whether the pattern matches the object with this key and metadata.
    fn matches(&self, key: &[u8], meta: &[u8]) -> bool;
}

/// Maximum length in bytes of a pattern. A purge by a longer one concerns every object.
pub const PATTERN_MAX: usize = 2048;

/// Version of the choice of beginnings that count among the labels of a text. Raise it when that
/// choice changes.
const BEGINNINGS: u64 = 1;

/// Returns the number that is stored with digests of labels: it identifies how `labels` are read
/// and which beginnings of the text are among them.
pub(crate) fn reading(labels: &dyn Labels) -> u64 {
    labels.version().wrapping_add(BEGINNINGS)
}

/// The objects that a purge concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// Every object.
    Everything,
    /// Every object with this label.
    Label(Label<'a>),
    /// Every object whose text ([`Labels::text`]) begins with these bytes.
    Prefix(&'a [u8]),
    /// Every object that this pattern matches ([`Labels::pattern`]).
    Pattern(&'a [u8]),
}

/// Time of a soft purge that outdates objects without any permission to use them, because purges
/// may have been missed. It is earlier than any other, so it prevails.
pub(crate) const DOUBTED: u32 = 0;

/// The effect of a purge on the objects that it concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They are removed.
    Hard,
    /// They stay, with the time since when they are outdated ([`crate::Entry::outdated_since`]),
    /// until they or their metadata are replaced ([`crate::Store::replace_meta`]).
    Soft,
}
