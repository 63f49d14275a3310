//! Decisions of a fleet, a group of nodes that share one cache, as pure functions.
//!
//! * [`placement`]: which nodes own a document.
//! * [`class`]: how documents of a class are treated.
//! * [`lookup`]: which nodes to ask for a document, in which order, and what to keep afterwards.
//! * [`eviction`] and [`departure`]: what happens to a last copy that is evicted, or whose node
//!   leaves.
//! * [`hints`]: which node may hold a copy.
//! * [`popularity`] and [`told_owners`]: on how many nodes a hot document is kept.
//! * [`purges`]: the set of all purges, replicated, and when a node may trust its copies.
//! * [`protocol`]: which protocol two nodes speak.
//! * [`breaker`]: whether a node that failed is asked again.
//! * [`round_trips`]: how long to wait for a node.
//!
//! [`Members`] is what a node knows of the others. The rules follow Olaru and Tichy ("Request
//! Distribution-Aware Caching in Cluster-Based Web Servers"); [`class::Preset`] has their policies.
//!
//! Nothing here reads a clock, draws random numbers, waits or does I/O. Time is an argument: a
//! monotonic [`Duration`](std::time::Duration) since a fixed moment. Product, simulator and tests
//! therefore decide alike. Decisions do not need the nodes to agree: stale or wrong knowledge of
//! other nodes costs requests and copies, never the correctness of a response.

#![forbid(unsafe_code)]

pub mod breaker;
mod buckets;
pub mod class;
pub mod departure;
pub mod document_memory;
pub mod eviction;
pub mod grace;
pub mod hints;
pub mod key;
pub mod lookup;
pub mod member;
pub mod members;
pub mod placement;
pub mod popularity;
pub mod protocol;
pub mod purges;
pub mod round_trips;
pub mod token_bucket;
pub mod told_owners;

pub use class::{ClassTable, Policy};
pub use key::{FleetSeed, KeyHash};
pub use member::{Member, MemberId};
pub use members::Members;
pub use protocol::Protocols;
