//! Sequence numbers of records and purges.

/// The last sequence number assigned. Numbers of different openings of a cache never overlap: each
/// has 2^40.
pub(super) struct Sequence(u64);

impl Sequence {
    /// Starts the numbers of the opening with this generation.
    pub(super) fn of_generation(generation: u64) -> Sequence {
        Sequence(generation << 40)
    }

    #[inline]
    pub(super) fn last(&self) -> u64 {
        self.0
    }

    #[inline]
    pub(super) fn assign(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}
