//! Objects stored in parts: what is there, what is missing, and ranges put together from both.

pub(crate) mod multipart_body;
pub(crate) mod partial_body;
pub(crate) mod partial_object;
pub(crate) mod range_fetch;
