//! HTTP messages: framing, hop by hop fields, schemes, edits of fields, upgrades.

pub(crate) mod cookies;
pub(crate) mod cut_short;
pub(crate) mod date;
pub mod forwarded;
pub(crate) mod framing;
pub(crate) mod framing_check;
pub mod header_edits;
pub(crate) mod informational;
pub mod pseudonym;
pub(crate) mod scheme;
pub(crate) mod upgrade;
pub(crate) mod via;
