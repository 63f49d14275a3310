//! HTTP messages: framing, fields of one hop, schemes, edits of fields, upgrades.

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
