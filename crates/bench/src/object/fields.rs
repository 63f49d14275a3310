//! The fields by which client and origin know of each other through any cache.

/// Carries the number of a request.
pub const REQUEST_FIELD: &str = "Bench-Request";
/// Says which request an answer was made for, and the version of the object: `NUMBER.VERSION`.
pub const ANSWER_FIELD: &str = "Bench-Answer";
