//! Content codings of HTTP (RFC 9110, 8.4.1): which one a client gets ([`Accepted`]), and encoders
//! for bodies that are compressed while they are sent ([`Encoder`]).

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod coding;
mod encoder;
mod scope;

pub use coding::{Accepted, Coding};
pub use encoder::{Encoder, SLICE};
pub use scope::{Compress, is_media_type};
