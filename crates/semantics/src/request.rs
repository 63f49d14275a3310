//! What a request is for: its URL, its query, its method and directives, what it makes invalid.

pub mod facts;
pub mod invalidation;
pub mod pattern;
pub mod query;
pub mod url;
