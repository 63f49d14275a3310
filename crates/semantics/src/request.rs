//! Requests: URL, query, method and directives, and the stored responses that they invalidate.

pub mod disguise;
pub mod facts;
pub mod invalidation;
pub mod name_set;
pub mod query;
pub mod readings;
pub mod scanned_path;
pub mod url;
