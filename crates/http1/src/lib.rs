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
//! | chunks end with CR LF | 7.1 | a bare LF or CR, anything but an extension behind the size |

mod chunks;
mod error;
mod fields;
mod head_writer;
mod request_framing;
mod request_head;
mod request_target;

pub use chunks::{Chunks, Piece};
pub use error::Malformed;
pub use fields::Fields;
pub use head_writer::{
    write_chunk_size, write_field, write_last_chunk, write_number_field, write_status_line,
};
pub use request_framing::{BodyLength, RequestFraming};
pub use request_head::{HeadError, RequestHead};
pub use request_target::RequestTarget;
