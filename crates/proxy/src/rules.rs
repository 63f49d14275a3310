//! The operator's rules: access, purging, how requests are keyed and treated, and which hosts count
//! as one.

pub mod access;
pub mod aliases;
pub mod purging;
pub mod request_rules;
pub(crate) mod tables;
