//! Running fills: their state, their readers, who may join, how much memory they hold.

pub(crate) mod memory_budget;
pub(crate) mod missed_removals;
pub(crate) mod neighbour_budget;
pub(crate) mod pump;
pub(crate) mod registry;
pub(crate) mod services;
pub(crate) mod state;
pub(crate) mod store_lease;
pub(crate) mod window;
pub(crate) mod writer;
