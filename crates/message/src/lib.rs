//! HTTP messages: framing, hop-by-hop fields, schemes, field edits and upgrades.

pub mod cookies;
pub mod cut_short;
pub mod date;
pub mod forwarded;
pub mod framing;
pub mod header_edits;
pub mod informational;
pub mod pseudonym;
pub mod request_body;
pub mod scheme;
pub mod upgrade;
pub mod via;
