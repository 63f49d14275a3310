//! How documents of one kind are treated: classes, and the policy of each.
//!
//! A [`ClassTable`] is a list of classes, of which the first that fits a document is its class; a
//! [`Policy`] says how such documents are looked up, where copies stay, what becomes of evicted
//! ones, and on how many disks they are. A table is a value with a version: whoever answers a
//! request keeps the one it began with, and a new one takes its place for the next request.

mod criteria;
mod policy;
mod preset;
mod table;

pub use criteria::{Bounds, Criteria, DocumentFacts, InvalidPattern, SitePattern, TypePattern};
pub use policy::{Contradiction, Copies, Eviction, Lookup, Policy, Replication, UnknownWord};
pub use preset::Preset;
pub use table::{CLASSES_MAX, Class, ClassTable, InvalidTable, Problem};
