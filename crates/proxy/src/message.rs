//! Edits of HTTP messages on their way through the proxy: framing, schemes, cookies, dates,
//! `Forwarded`, and the operator's changes to fields, with values computed from the request.

pub mod cookies;
pub mod cut_short;
pub mod date;
pub mod forwarded;
pub mod framing;
pub mod header_edits;
pub mod password_hash;
pub mod request_id;
pub mod scheme;
pub mod template;
pub mod trace_context;

#[cfg(test)]
mod tests;
