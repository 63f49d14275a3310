//! HTTP/1 messages without I/O (RFC 9112): heads as views over one buffer, framing, chunks, and
//! the writing of heads.
//!
//! A head is parsed once, into memory that is used again for the next one ([`RequestHead::read`]).
//! [`Fields`] keeps names in the case, and lines in the order, in which they came.
//!
//! # Framing of requests
//!
//! Sections are those of RFC 9112.
//!
//! * A line of the head ends with CR LF, or with LF alone (2.2). A bare CR, and a line that begins
//!   with white space (5.2), are refused.
//! * There is no white space between a name and its colon (5.1).
//! * `Transfer-Encoding` overrides `Content-Length`, and such a request is the last of its
//!   connection (6.1, 6.3). HTTP/1.0 has no `Transfer-Encoding` (6.1).
//! * Transfer codings are names in ASCII, and the last of them is `chunked` (6.1).
//! * All lines of `Content-Length` say the same number (6.3); a list, a sign or white space within
//!   is refused.
//! * Chunks end with CR LF (7.1). A bare LF or CR, a control character, and anything but white
//!   space and an extension behind the size are refused, as are extensions or trailers of more
//!   than 16 KiB.
//! * Trailers are fields (RFC 9110, 6.5): names that are no tokens, such as those of pseudo-header
//!   fields, are refused.
//!
//! # Framing of responses
//!
//! The rules for heads, transfer codings and chunks are those of requests. The first rule that
//! applies decides.
//!
//! 1. A 1xx response is a head alone, and another one follows, except behind 101 (RFC 9110, 15.2).
//! 2. No body follows a response to HEAD, or the status 204 or 304, whatever its fields say (6.3,
//!    1). What follows a 2xx response to CONNECT is a tunnel (6.3, 2).
//! 3. `Transfer-Encoding` overrides `Content-Length` (6.3, 3): with `chunked` as the last coding
//!    the body comes in chunks, with another it ends with the connection (6.3, 4). In HTTP/1.0 it
//!    is refused (6.1).
//! 4. All lines and list members of `Content-Length` say the same number (6.3, 5 and 6); an empty
//!    member, a sign, or white space within is refused.
//! 5. Without either field the body ends with the connection (6.3, 8).
//!
//! The connection stays open in HTTP/1.1 without `close`, in HTTP/1.0 with `keep-alive` and without
//! `close` (9.3).
//!
//! Heads are limited by their size; a request has 16,384 lines of fields at most.

mod chunks;
mod error;
mod fields;
mod framing_fields;
mod head_writer;
mod header_maps;
mod known_names;
mod parse_room;
mod request_framing;
mod request_head;
mod request_target;
mod response_framing;
mod response_head;

pub use chunks::{Chunks, Piece};
pub use error::{HeadError, Malformed};
pub use fields::Fields;
pub use head_writer::{
    write_chunk_size, write_field, write_last_chunk, write_map, write_number_field,
    write_request_line, write_status_line,
};
pub use header_maps::HeaderMaps;
pub use request_framing::{BodyLength, RequestFraming};
pub use request_head::RequestHead;
pub use request_target::{RequestTarget, percent_encoded};
pub use response_framing::{ResponseFraming, ResponseLength, has_no_body};
pub use response_head::{ResponseHead, may_end};
