//! The operator's rules: access, purging, how requests are keyed and treated, which hosts count as
//! one, and how responses are edited for clients.

pub mod access;
pub mod aliases;
pub mod basic_auth;
pub mod classes;
pub mod client_edits;
pub mod error_page;
pub mod limits;
pub mod purge_dialect;
pub mod purging;
pub mod request_rules;
pub(crate) mod tables;
