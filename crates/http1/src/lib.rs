//! HTTP/1 messages without I/O (RFC 9112): parsing of heads, framing, chunked coding, and writing
//! of heads.
//!
//! A head is parsed once, into memory that is reused for the next one ([`RequestHead::read`]).
//! [`Fields`] keeps the received order of lines and case of names.
//!
//! # Framing of requests
//!
//! Section numbers refer to RFC 9112.
//!
//! * A head line ends with CR LF, or with LF alone (2.2). A bare CR and a line that begins with
//!   white space (5.2) are refused.
//! * White space between a name and its colon is refused (5.1).
//! * `Transfer-Encoding` overrides `Content-Length`. A request with both is the last of its
//!   connection (6.1, 6.3). `Transfer-Encoding` in HTTP/1.0 is refused (6.1).
//! * Transfer codings are ASCII names, and the last one must be `chunked` (6.1).
//! * All `Content-Length` lines must have the same number (6.3). A list, a sign or inner white
//!   space is refused.
//! * Chunk lines end with CR LF (7.1). A bare LF or CR, a control character, anything but white
//!   space and an extension after the size, and extensions or trailers of more than 16 KiB are
//!   refused.
//! * Trailers are fields (RFC 9110, 6.5). Names that are not tokens, such as pseudo-header fields,
//!   are refused.
//!
//! # Framing of responses
//!
//! Heads, transfer codings and chunks follow the rules for requests. The first rule that applies
//! decides.
//!
//! 1. A 1xx response consists of a head only. Another response follows it, except after 101
//!    (RFC 9110, 15.2).
//! 2. A response to HEAD and a response with status 204 or 304 have no body, whatever their fields
//!    say (6.3, 1). A tunnel follows a 2xx response to CONNECT (6.3, 2).
//! 3. `Transfer-Encoding` overrides `Content-Length` (6.3, 3). If the last coding is `chunked`, the
//!    body is chunked; otherwise it ends with the connection (6.3, 4). In HTTP/1.0 the field is
//!    refused (6.1).
//! 4. All lines and list members of `Content-Length` must have the same number (6.3, 5 and 6). An
//!    empty member, a sign, or inner white space is refused.
//! 5. Without either field the body ends with the connection (6.3, 8).
//!
//! An HTTP/1.1 connection stays open unless a message says `close`. An HTTP/1.0 connection stays
//! open only with `keep-alive` and without `close` (9.3).
//!
//! The caller limits the size of a head. A request has at most 16,384 field lines.

mod chunks;
mod cursor;
mod error;
mod fields;
mod framing_fields;
mod head_writer;
mod header_maps;
mod known_names;
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
