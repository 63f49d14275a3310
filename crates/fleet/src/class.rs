//! Classes of documents, and the policy of each.
//!
//! A [`ClassTable`] is an ordered list of classes; a document belongs to the first one whose
//! criteria it meets. A [`Policy`] says how documents of a class are looked up, where copies stay,
//! what happens to evicted copies, and on how many disks they are kept.
//!
//! A table is an immutable value with a version: a request keeps the table it began with, and a new
//! table applies from the next request on. Operators, nodes and tools all use the same TOML form
//! ([`ClassTable::from_text`]).

mod criteria;
mod policy;
mod preset;
mod table;
mod text;

pub use criteria::{Bounds, Criteria, DocumentFacts, InvalidPattern, SitePattern, TypePattern};
pub use policy::{
    Contradiction, Copies, Eviction, EvictionStep, Lookup, LookupStep, Policy, Procedure,
    Replication, UnknownWord,
};
pub use preset::{PRESETS, Preset};
pub use table::{CLASSES_MAX, Class, ClassTable, InvalidTable, PATTERNS_MAX, Problem, REST};
pub use text::{Fault, InvalidText, TEXT_MAX};
