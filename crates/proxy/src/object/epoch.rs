//! Random numbers that distinguish one version of an object from all others.

use net::random::random;

pub(crate) fn new_epoch() -> u128 {
    u128::from(random()) << 64 | u128::from(random())
}
