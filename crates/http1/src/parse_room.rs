//! Room for the fields that the parser finds, however many there are.

use std::mem::MaybeUninit;

use httparse::{Error, Header};

/// Fields for which there is room without an allocation.
const USUAL_FIELDS: usize = 64;

/// Calls `parse` with room for all fields that `bytes` can have.
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
