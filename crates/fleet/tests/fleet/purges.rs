//! The replicated set of purges under crashes, lost disks, lost and late messages.
//!
//! [`world`] is a few nodes with one document, and the judge: a request that begins after a purge
//! is promised never gets, without validation, what was fetched before the purge. [`walks`] are
//! random histories, and show that each rule is needed.

mod walks;
mod world;
