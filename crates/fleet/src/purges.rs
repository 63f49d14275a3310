//! How the purges of all nodes become known at each, and when a node may trust its copies.
//!
//! Each node has one ring with the purges of all makers. The maker of a purge sends it; any node
//! repairs any other. Purges commute and can be repeated, so there is neither an order nor a
//! leader: the ring is a replicated set, a purge is written to a quorum, and a node uses its copies
//! while its knowledge of enough nodes is recent.
//!
//! * [`vector`]: which purges a node has, one number for each [`maker`].
//! * [`quorum`]: how many nodes a purge needs, and how many a reader must know.
//! * [`order`]: what the client of a purge is told.
//! * [`replica`]: one node's state.
//! * [`stream`]: a node's place in a stream of purges of several sites.
//!
//! With `n` nodes in the view, a purge is accepted once `n / 2 + 1` nodes have it durably. A node
//! trusts its copies while it has all that `n - n / 2` nodes, itself included, had at most a lease
//! ago. Any two such sets share a node, so what was accepted is known everywhere a lease later.
//! Nothing of this depends on who is believed to be up, and what cannot be known is validated with
//! the origin, never dropped.

pub mod maker;
pub mod order;
pub mod quorum;
pub mod replica;
pub mod stream;
pub mod vector;

pub use maker::Maker;
pub use order::{Consistency, Outcome};
pub use replica::{Replica, State, Trust};
pub use vector::{InvalidVector, Vector};
