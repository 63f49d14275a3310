//! Running fills: their state, their readers, the requests that may join, the memory they hold.

pub(crate) mod detached;
pub(crate) mod fill_budget;
pub(crate) mod neighbour_budget;
pub(crate) mod pump;
pub(crate) mod registry;
pub(crate) mod sink;
pub(crate) mod state;
pub(crate) mod window;
