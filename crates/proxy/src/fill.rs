//! Running fills: their state and readers, the requests that may join them, and their memory.

pub(crate) mod detached;
pub(crate) mod fill_budget;
pub(crate) mod neighbour_budget;
pub(crate) mod pump;
pub(crate) mod registry;
pub(crate) mod sink;
pub(crate) mod state;
pub(crate) mod window;
