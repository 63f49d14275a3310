//! The handling of one request: its dispatch, refusals, purges, and explanations of these
//! decisions.

pub(crate) mod dispatch;
pub mod explain;
pub(crate) mod node_question;
pub(crate) mod purge;
mod purge_hint;
