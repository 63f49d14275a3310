//! One request: which way it goes, what is refused, purges, and the explanation of all that.

pub(crate) mod dispatch;
pub mod explain;
pub(crate) mod purge;
