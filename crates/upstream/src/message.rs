//! Requests and interim responses as both sides of a proxy exchange them.

pub mod informational;
pub mod pseudonym;
pub mod request_body;
pub mod upgrade;
pub mod via;
