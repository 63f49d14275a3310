//! How far the records are on the device for good: the sequence number up to which every record
//! was covered by a flush. What is older and lives is in the checkpoint's list of starts; what is
//! younger proves itself (see `docs/reference/format.md`).

use std::collections::BTreeSet;

/// Follows records from their place to the flush that covers them.
#[derive(Default)]
pub(crate) struct Frontier {
    /// Sequence numbers of records with a place that no flush has covered.
    unflushed: BTreeSet<u64>,
    /// Those of them whose last write has ended since the last flush began.
    written: Vec<u64>,
    /// Those that the flush under way covers.
    flushing: Vec<u64>,
}

impl Frontier {
    /// A record got its place.
    pub(crate) fn placed(&mut self, sequence: u64) {
        self.unflushed.insert(sequence);
    }

    /// All of it reached the device.
    pub(crate) fn written(&mut self, sequence: u64) {
        self.written.push(sequence);
    }

    /// It will not reach the device.
    pub(crate) fn lost(&mut self, sequence: u64) {
        self.unflushed.remove(&sequence);
    }

    /// A flush begins.
    pub(crate) fn begin_flush(&mut self) {
        self.flushing.append(&mut self.written);
    }

    /// The flush ended well.
    pub(crate) fn end_flush(&mut self) {
        for sequence in self.flushing.drain(..) {
            self.unflushed.remove(&sequence);
        }
    }

    /// Whether no flush has covered this record, or none needs to any more.
    pub(crate) fn is_flushed(&self, sequence: u64) -> bool {
        !self.unflushed.contains(&sequence)
    }

    /// Every record up to this sequence number was covered, or is dead for good; `last` is the last
    /// one given out.
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
