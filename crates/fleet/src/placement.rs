//! Placement: which members own a key.
//!
//! Each node computes the owners from its own view. [`rendezvous`] ranks the members for the key,
//! [`LoadBound`] moves overloaded ones to the end, and [`owners()`] takes the wanted number, from
//! different zones if possible. Nodes with the same view and loads compute the same owners. While
//! views differ, a document may have extra owners, at the cost of a copy and a fetch.

mod load_bound;
mod owners;
pub mod rendezvous;

pub use load_bound::{InvalidLoadBound, LoadBound};
pub use owners::owners;
