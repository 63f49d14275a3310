//! Objects stored in parts: which bytes are stored, which are missing, and ranges composed of both.

pub(crate) mod multipart_body;
pub(crate) mod partial_body;
pub(crate) mod partial_object;
pub(crate) mod range_fetch;
