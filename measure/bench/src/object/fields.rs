//! The header fields by which client and origin communicate through any cache.

/// Carries the number of a request.
pub const REQUEST_FIELD: &str = "Bench-Request";
/// Carries the number of the request that a response was produced for, and the version of the
/// object: `NUMBER.VERSION`.
pub const ANSWER_FIELD: &str = "Bench-Answer";
/// Carries the number of the node whose cache was asked, from systems without `Cache-Status`.
pub const NODE_FIELD: &str = "x-node";
/// Is `HIT` if that node had the object.
pub const RESULT_FIELD: &str = "x-result";
