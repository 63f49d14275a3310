//! Running fills: their state, readers and memory, and the requests that may join them.

pub(crate) mod detached;
pub(crate) mod fill_budget;
pub(crate) mod neighbour_budget;
pub(crate) mod pump;
pub(crate) mod registry;
pub(crate) mod sink;
pub(crate) mod state;
pub(crate) mod window;
