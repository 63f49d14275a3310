//! The time of one call, passed in.

use device::Nanos;

/// Monotonic and wall time of one call.
#[derive(Clone, Copy)]
pub(crate) struct Now {
    pub(crate) monotonic: Nanos,
    pub(crate) unix: u32,
}
