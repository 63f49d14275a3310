//! The rules of operators: access, purging, how requests are keyed and treated, which hosts are
//! one.

pub mod access;
pub mod aliases;
pub mod purging;
pub mod request_rules;
pub(crate) mod tables;
