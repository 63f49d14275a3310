//! Storage for the header slots of the parser, for any number of fields.

use std::mem::MaybeUninit;

use httparse::{Error, Header};

/// Number of fields that are parsed without an allocation.
const USUAL_FIELDS: usize = 64;

/// Calls `parse` with enough slots for all fields that `bytes` can contain.
pub(crate) fn with_room<'b, T>(
    bytes: &'b [u8],
    mut parse: impl FnMut(&mut [MaybeUninit<Header<'b>>]) -> Result<T, Error>,
) -> Result<T, Error> {
    match parse(&mut [const { MaybeUninit::uninit() }; USUAL_FIELDS]) {
        Err(Error::TooManyHeaders) => {
            let mut room = Vec::with_capacity(memchr::memchr_iter(b'\n', bytes).count() + 1);
            parse(room.spare_capacity_mut())
        }
        parsed => parsed,
    }
}
