//! The durable frontier: the sequence number up to which every record was covered by a flush. The
//! checkpoint lists the starts of older live records; younger records are verified by their
//! checksums (see `docs/reference/format.md`).

use std::collections::BTreeSet;

/// Tracks records from their placement to the flush that covers them.
#[derive(Default)]
pub(crate) struct Frontier {
    /// Sequence numbers of placed records that no flush has covered.
    unflushed: BTreeSet<u64>,
    /// Sequence numbers whose last write has ended since the last flush began.
    written: Vec<u64>,
    /// Sequence numbers that the flush in progress covers.
    flushing: Vec<u64>,
}

impl Frontier {
    pub(crate) fn placed(&mut self, sequence: u64) {
        self.unflushed.insert(sequence);
    }

    /// Marks a record as completely written to the device.
    pub(crate) fn written(&mut self, sequence: u64) {
        self.written.push(sequence);
    }

    /// Drops a record that will not reach the device.
    pub(crate) fn lost(&mut self, sequence: u64) {
        self.unflushed.remove(&sequence);
    }

    /// Records the start of a flush.
    pub(crate) fn begin_flush(&mut self) {
        self.flushing.append(&mut self.written);
    }

    pub(crate) fn end_flush(&mut self) {
        for sequence in self.flushing.drain(..) {
            self.unflushed.remove(&sequence);
        }
    }

    /// Returns whether a flush has covered this record, or none needs to.
    pub(crate) fn is_flushed(&self, sequence: u64) -> bool {
        !self.unflushed.contains(&sequence)
    }

    /// Returns the sequence number up to which every record is flushed or lost. `last` is the last
    /// one assigned.
    pub(crate) fn reached(&self, last: u64) -> u64 {
        self.unflushed.first().map_or(last, |first| first - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_covers_what_was_written_before_it_began() {
        let mut frontier = Frontier::default();
        (5..9).for_each(|sequence| frontier.placed(sequence));
        assert_eq!(frontier.reached(8), 4);
        frontier.written(5);
        frontier.written(7);
        frontier.begin_flush();
        frontier.written(6);
        frontier.end_flush();
        assert_eq!(frontier.reached(8), 5);
        assert!(frontier.is_flushed(7) && !frontier.is_flushed(6));
        frontier.begin_flush();
        frontier.end_flush();
        assert_eq!(frontier.reached(8), 7);
        frontier.lost(8);
        assert_eq!(frontier.reached(8), 8);
    }
}
