//! Which members own a key.
//!
//! Every node computes it for itself from what it knows of the members: [`rendezvous`] ranks them
//! for the key, [`LoadBound`] passes over those that are busier than the rest, and [`owners()`]
//! takes as many as are wanted, from different zones where it can. Nodes with the same view and the
//! same loads come to the same owners; where they differ, a document has more than one owner until
//! they agree again, which costs a copy and a fetch.

mod load_bound;
mod owners;
pub mod rendezvous;

pub use load_bound::{InvalidLoadBound, LoadBound};
pub use owners::owners;
