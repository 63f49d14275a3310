//! The host's request queue: it chooses the waiting request that the drive gets next.
//!
//! Guarantees: every request leaves the queue exactly once; no later request overtakes a flush.

use std::collections::{BTreeSet, VecDeque};

/// The order in which waiting requests are handed to the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Order of arrival.
    #[default]
    Fifo,
    /// By ascending position, then again from the lowest (C-LOOK).
    Sweep,
    /// The request nearest to the end of the last one (shortest seek first).
    Nearest,
}

/// Host queue. Requests are identified by their slots.
pub(crate) enum HostQueue {
    Fifo(VecDeque<u32>),
    ByPosition {
        nearest: bool,
        /// End of the last request, in sectors.
        head: u64,
        /// Position, arrival number and slot of each request that may be chosen.
        waiting: BTreeSet<(u64, u64, u32)>,
        /// Waiting flushes, and the requests that arrived after the first of them, in order of
        /// arrival.
        behind: VecDeque<(Option<u64>, u64, u32)>,
        arrivals: u64,
    },
}

impl HostQueue {
    pub(crate) fn new(order: Order) -> HostQueue {
        let nearest = order == Order::Nearest;
        match order {
            Order::Fifo => HostQueue::Fifo(VecDeque::new()),
            Order::Sweep | Order::Nearest => HostQueue::ByPosition {
                nearest,
                head: 0,
                waiting: BTreeSet::new(),
                behind: VecDeque::new(),
                arrivals: 0,
            },
        }
    }

    /// Adds a request at sector `position`; `None` is a flush.
    pub(crate) fn push(&mut self, position: Option<u64>, slot: u32) {
        match self {
            HostQueue::Fifo(queue) => queue.push_back(slot),
            HostQueue::ByPosition { waiting, behind, arrivals, .. } => {
                *arrivals += 1;
                match position {
                    Some(position) if behind.is_empty() => {
                        waiting.insert((position, *arrivals, slot));
                    }
                    _ => behind.push_back((position, *arrivals, slot)),
                }
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            HostQueue::Fifo(queue) => queue.len(),
            HostQueue::ByPosition { waiting, behind, .. } => waiting.len() + behind.len(),
        }
    }

    /// Removes and returns the next request. `sectors_of` returns a request's length.
    pub(crate) fn pop(&mut self, sectors_of: impl Fn(u32) -> u64) -> Option<u32> {
        let (nearest, head, waiting, behind) = match self {
            HostQueue::Fifo(queue) => return queue.pop_front(),
            HostQueue::ByPosition { nearest, head, waiting, behind, .. } => {
                (*nearest, head, waiting, behind)
            }
        };
        if waiting.is_empty() {
            let (_, _, flush) = behind.pop_front()?;
            while let Some((Some(position), arrival, slot)) = behind.front().copied() {
                waiting.insert((position, arrival, slot));
                behind.pop_front();
            }
            return Some(flush);
        }
        let above = waiting.range((*head, 0, 0)..).next().copied();
        let chosen = if nearest {
            let below = waiting.range(..(*head, 0, 0)).next_back().copied();
            match (above, below) {
                (Some(up), Some(down)) if *head - down.0 < up.0 - *head => Some(down),
                (Some(up), _) => Some(up),
                (None, below) => below,
            }
        } else {
            above.or_else(|| waiting.first().copied())
        }?;
        waiting.remove(&chosen);
        *head = chosen.0 + sectors_of(chosen.2);
        Some(chosen.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(order: Order, positions: &[Option<u64>]) -> Vec<u32> {
        let mut queue = HostQueue::new(order);
        for (slot, position) in positions.iter().enumerate() {
            queue.push(*position, slot as u32);
        }
        assert_eq!(queue.len(), positions.len());
        std::iter::from_fn(|| queue.pop(|_| 1)).collect()
    }

    #[test]
    fn orders() {
        let positions = [Some(50), Some(10), Some(90), Some(11), Some(49)];
        assert_eq!(served(Order::Fifo, &positions), [0, 1, 2, 3, 4]);
        assert_eq!(served(Order::Sweep, &positions), [1, 3, 4, 0, 2]);
        assert_eq!(served(Order::Nearest, &positions), [1, 3, 4, 0, 2]);
    }

    #[test]
    fn the_sweep_goes_round_and_the_nearest_turns_back() {
        for (order, expected) in [(Order::Sweep, [0, 2, 1]), (Order::Nearest, [0, 1, 2])] {
            let mut queue = HostQueue::new(order);
            queue.push(Some(100), 0);
            let mut out = vec![queue.pop(|_| 1)];
            queue.push(Some(95), 1);
            queue.push(Some(120), 2);
            out.extend([queue.pop(|_| 1), queue.pop(|_| 1)]);
            assert_eq!(out, expected.map(Some));
            assert_eq!(queue.pop(|_| 1), None);
        }
    }

    #[test]
    fn nothing_that_came_after_a_flush_passes_it() {
        let positions = [Some(50), None, Some(10), Some(60), None, Some(1)];
        for order in [Order::Sweep, Order::Nearest] {
            let out = served(order, &positions);
            assert_eq!((out[0], out[1], out[4], out[5]), (0, 1, 4, 5));
        }
    }
}
