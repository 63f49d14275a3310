//! A line that one transfer uses at a time: a channel or the bus.
//!
//! The model decides about requests in the order in which they come, but their transfers become
//! ready in a different order. A transfer takes the first gap that is long enough, so a line is not
//! idle while a ready transfer waits.

use std::collections::VecDeque;

use device::Nanos;

/// Bookings of one line.
#[derive(Default)]
pub(super) struct Line {
    /// Start and end of each booking, in order.
    booked: VecDeque<(Nanos, Nanos)>,
}

impl Line {
    /// Books the first gap of `takes` nanoseconds from `ready` on; returns the end of the transfer.
    /// Later calls never book a time before `now`.
    pub(super) fn book(&mut self, now: Nanos, ready: Nanos, takes: Nanos) -> Nanos {
        while self.booked.front().is_some_and(|(_, end)| *end <= now) {
            self.booked.pop_front();
        }
        let mut begin = ready;
        let mut place = self.booked.partition_point(|(_, end)| *end <= ready);
        while let Some((other, end)) = self.booked.get(place) {
            if begin + takes <= *other {
                break;
            }
            begin = begin.max(*end);
            place += 1;
        }
        let end = begin + takes;
        // Adjacent bookings are merged.
        match place.checked_sub(1).and_then(|before| self.booked.get_mut(before)) {
            Some(before) if before.1 == begin => before.1 = end,
            _ => self.booked.insert(place, (begin, end)),
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_filled_and_transfers_never_overlap() {
        let mut line = Line::default();
        assert_eq!(line.book(0, 100, 10), 110);
        assert_eq!(line.book(0, 0, 50), 50);
        assert_eq!(line.book(0, 45, 50), 100);
        assert_eq!(line.book(0, 0, 5), 115);
        assert_eq!(line.book(112, 112, 1), 116);
    }
}
