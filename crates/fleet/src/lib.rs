//! The decisions of a fleet: a group of nodes that share one cache, as pure functions.
//!
//! A node asks, this crate answers: which nodes own a document ([`placement`]), how documents of
//! its class are treated ([`class`]), whom to ask for it, in which order, and what to keep
//! afterwards ([`lookup`]), what becomes of a last copy that leaves memory ([`eviction`]) or whose
//! node leaves ([`departure`]), which node may hold a copy ([`hints`]), on how many nodes a hot
//! document is kept ([`popularity`], [`told_owners`]), which purges a node has carried out
//! ([`purge_positions`]), what two nodes speak with each other ([`protocol`]), and whether a node
//! that failed is asked again ([`breaker`]). What a node knows of the others is a [`Members`]. The
//! rules follow Olaru and Tichy ("Request Distribution-Aware Caching in Cluster-Based Web
//! Servers"); [`class::Preset`] has their policies.
//!
//! Nothing here reads a clock, draws a random number, waits or does I/O: time is an argument (a
//! [`Duration`](std::time::Duration) since any fixed moment, never going back), so that the same
//! answers come out of the product, of the simulator and of a test. No decision needs the nodes to
//! agree: what one knows of the others may be old or wrong, which costs requests and copies but
//! neither an answer nor its correctness.

#![forbid(unsafe_code)]

pub mod breaker;
pub mod class;
pub mod departure;
pub mod eviction;
pub mod grace;
pub mod hints;
pub mod key;
pub mod log_position;
pub mod lookup;
pub mod member;
pub mod members;
pub mod placement;
pub mod popularity;
pub mod protocol;
pub mod purge_positions;
pub mod token_bucket;
pub mod told_owners;

pub use class::{ClassTable, Policy};
pub use key::{FleetSeed, KeyHash};
pub use log_position::LogPosition;
pub use member::{Member, MemberId};
pub use members::Members;
pub use protocol::Protocols;
pub use purge_positions::PurgePositions;
