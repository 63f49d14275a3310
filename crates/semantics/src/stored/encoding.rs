//! Encoding of the metadata beside a body: the head of a response, a marker that leads to variants,
//! or the head of a response that is stored in parts ([`crate::stored::sparse`]).
//!
//! Each is one byte string, the metadata of the store. Decoding is strict: damaged bytes are
//! rejected as a whole and never cause a panic. All numbers are little-endian.
//!
//! ```text
//! head:    'H', version 1 or 2, facts (40 bytes, see `packed`), number of fields (u16),
//!          per field: length of name (u16), length of value (u32), name, value;
//!          with the flag for trailers: their number and the trailers, encoded as fields
//! marker:  'V', version 1, per set of fields: epoch (16 bytes), number of names (u16),
//!          per name: length (u16), name
//! sparse:  'S', version 1 or 2, epoch (16 bytes), length of the whole (u64), window (u32),
//!          then as a head from its facts on
//! part:    'P', version 1, position of its first byte in the whole (u64)
//! ```

use std::fmt;

use bytes::Bytes;
use http::header::HeaderName;

pub(crate) const HEAD: u8 = b'H';
pub(crate) const MARKER: u8 = b'V';
pub(crate) const SPARSE: u8 = b'S';
pub(crate) const PART: u8 = b'P';
pub(crate) const VERSION: u8 = 1;

/// Version of heads whose names keep their case. Programs that know version 1 alone compare names
/// in lower case; they must not take such a head for one that lacks the fields.
pub(crate) const SPELLED: u8 = 2;

/// The error for bytes that this version does not write: treat the object as absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stored metadata is damaged or of another version")
    }
}

impl std::error::Error for Damaged {}

pub(crate) fn take(rest: &mut Bytes, count: usize) -> Result<Bytes, Damaged> {
    if count > rest.len() { Err(Damaged) } else { Ok(rest.split_to(count)) }
}

/// Parses a name as a marker encodes it: in lower case.
pub(crate) fn read_name(bytes: &[u8]) -> Result<HeaderName, Damaged> {
    HeaderName::from_lowercase(bytes).map_err(|_| Damaged)
}
