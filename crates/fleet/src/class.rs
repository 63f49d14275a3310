//! How documents of one kind are treated: classes, and the policy of each.
//!
//! A [`ClassTable`] is a list of classes, of which the first that fits a document is its class; a
//! [`Policy`] says how such documents are looked up, where copies stay, what becomes of evicted
//! ones, and on how many disks they are. A table is a value with a version: whoever answers a
//! request keeps the one it began with, and a new one takes its place for the next request. It is
//! written as TOML ([`ClassTable::from_text`]), alike for operators, for nodes and in print.

mod criteria;
mod policy;
mod preset;
mod table;
mod text;

pub use criteria::{Bounds, Criteria, DocumentFacts, InvalidPattern, SitePattern, TypePattern};
pub use policy::{Contradiction, Copies, Eviction, Lookup, Policy, Replication, UnknownWord};
pub use preset::{PRESETS, Preset};
pub use table::{CLASSES_MAX, Class, ClassTable, InvalidTable, PATTERNS_MAX, Problem, REST};
pub use text::{Fault, InvalidText, TEXT_MAX};
