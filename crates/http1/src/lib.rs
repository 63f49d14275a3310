//! HTTP/1 messages without I/O (RFC 9112): heads as views over one buffer, framing, chunks, and
//! the writing of heads.
//!
//! A head is parsed once, into memory that is used again for the next one ([`RequestHead::read`]).
//! [`Fields`] keeps names in the case, and lines in the order, in which they came.
//!
//! # Framing of requests
//!
//! | rule | source | what is refused |
//! |---|---|---|
//! | a line of the head ends with CR LF, or LF alone | RFC 9112, 2.2 | a bare CR, a line that begins with white space (`obs-fold`, 5.2) |
//! | no white space between a name and its colon | 5.1 | the request |
//! | `Transfer-Encoding` overrides `Content-Length`, and such a request is the last of its connection | 6.1, 6.3 | |
//! | the last coding is `chunked` | 6.1 | any other |
//! | no `Transfer-Encoding` in HTTP/1.0 | 6.1 | the request |
//! | all lines of `Content-Length` say the same number | 6.3 | another value, a list, a sign, white space within |
//! | chunks end with CR LF | 7.1 | a bare LF or CR, a control character, anything but white space and an extension behind the size, extensions or trailers of more than 16 KiB |
//! | trailers are fields | 6.5 of RFC 9110 | names that are no tokens, such as those of pseudo-header fields |
//! | transfer codings are names in ASCII | 6.1 | the message |
//!
//! # Framing of responses
//!
//! The rules for heads, transfer codings and chunks are those of requests. The first rule that
//! applies decides.
//!
//! | rule | source | what is refused |
//! |---|---|---|
//! | a 1xx response is a head alone, and another one follows, except behind 101 | RFC 9110, 15.2 | |
//! | no body follows a response to HEAD, or the status 204 or 304, whatever its fields say | RFC 9112, 6.3 (1) | |
//! | what follows a 2xx response to CONNECT is a tunnel | 6.3 (2) | |
//! | `Transfer-Encoding` overrides `Content-Length` | 6.3 (3) | |
//! | with `chunked` as the last coding the body comes in chunks, with another it ends with the connection | 6.3 (4) | |
//! | no `Transfer-Encoding` in HTTP/1.0 | 6.1 | the response |
//! | all lines and list members of `Content-Length` say the same number | 6.3 (5, 6) | another value, an empty member, a sign, white space within |
//! | without either field the body ends with the connection | 6.3 (8) | |
//! | the connection stays open in HTTP/1.1 without `close`, in HTTP/1.0 with `keep-alive` and without `close` | 9.3 | |
//!
//! Heads are limited by their size alone; there is no limit on the number of fields.

mod chunks;
mod error;
mod fields;
mod framing_fields;
mod head_writer;
mod header_maps;
mod parse_room;
mod request_framing;
mod request_head;
mod request_target;
mod response_framing;
mod response_head;
mod spellings;

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
pub use request_target::RequestTarget;
pub use response_framing::{ResponseFraming, ResponseLength};
pub use response_head::{ResponseHead, may_end};
pub use spellings::{Speller, Spellings};
