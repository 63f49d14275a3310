//! Random numbers that distinguish versions of an object.

use net::random::random;

pub(crate) fn new_epoch() -> u128 {
    u128::from(random()) << 64 | u128::from(random())
}
