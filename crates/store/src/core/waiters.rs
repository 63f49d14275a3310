//! Waiting tasks. A change wakes the tasks whose condition holds, in order of arrival, and as many
//! of the tasks that need space as there is space for.
//!
//! A task that was woken for space and has not retried yet counts as having taken it. When it has
//! ended, with or without success, the next ones are considered: no space is left unused while a
//! task waits for it.

use std::collections::BTreeMap;
use std::task::Waker;

use crate::format::journal::JournalPosition;

/// The condition that a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The journal is written up to here.
    Written(JournalPosition),
    /// The journal is durable up to here.
    Durable(JournalPosition),
    /// A place for this many bytes.
    Space(usize),
    /// Any other change.
    Change,
}

/// The number of a waiting task.
pub(crate) type WaiterId = u64;

struct Waiter {
    wanted: Wanted,
    waker: Waker,
    woken: bool,
}

#[derive(Default)]
pub(crate) struct Waiters {
    /// By number, which is the order of arrival.
    waiters: BTreeMap<WaiterId, Waiter>,
    next: WaiterId,
}

/// The conditions that hold now.
pub(super) struct Available {
    pub(super) written: JournalPosition,
    pub(super) durable: JournalPosition,
    /// Bytes that may wait to be written in addition to the pending ones.
    pub(super) room: usize,
    /// True if the device is offline or its writes stall, so that every task must be woken.
    pub(super) over: bool,
}

impl Waiters {
    /// Returns a number for a task that is going to wait.
    pub(crate) fn enter(&mut self) -> WaiterId {
        self.next += 1;
        self.next
    }

    /// Registers `waker` to be woken when the condition `wanted` of `id` holds.
    pub(crate) fn wait(&mut self, id: WaiterId, wanted: Wanted, waker: &Waker) {
        self.waiters.insert(id, Waiter { wanted, waker: waker.clone(), woken: false });
    }

    /// Ends the wait of `id`.
    pub(crate) fn leave(&mut self, id: WaiterId) {
        self.waiters.remove(&id);
    }

    /// Wakes the tasks whose condition holds.
    pub(super) fn wake(&mut self, available: &Available) {
        let mut room = Some(available.room);
        for waiter in self.waiters.values_mut() {
            let there = match waiter.wanted {
                Wanted::Written(up_to) => available.written >= up_to,
                Wanted::Durable(up_to) => available.durable >= up_to,
                Wanted::Space(len) => match room.filter(|room| *room > 0) {
                    // A record larger than the limit is written alone.
                    Some(left) => {
                        room = left.checked_sub(len);
                        true
                    }
                    None => false,
                },
                Wanted::Change => true,
            };
            if (there || available.over) && !waiter.woken {
                waiter.woken = true;
                waiter.waker.wake_by_ref();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct WaiterTest {
        waiters: Waiters,
        counts: Vec<Arc<Count>>,
    }

    impl WaiterTest {
        fn new(wanted: &[Wanted]) -> WaiterTest {
            let mut bench = WaiterTest { waiters: Waiters::default(), counts: Vec::new() };
            for wanted in wanted {
                let (id, count) = (bench.waiters.enter(), Arc::<Count>::default());
                bench.waiters.wait(id, *wanted, &Waker::from(Arc::clone(&count)));
                bench.counts.push(count);
            }
            bench
        }

        fn wake(
            &mut self,
            written: JournalPosition,
            durable: JournalPosition,
            room: usize,
        ) -> Vec<u32> {
            self.waiters.wake(&Available { written, durable, room, over: false });
            self.counts.iter().map(|count| count.0.load(Ordering::Relaxed)).collect()
        }
    }

    #[test]
    fn a_position_wakes_the_tasks_that_wait_for_it() {
        let (early, late) = (Wanted::Written(3), Wanted::Written(5));
        let mut bench = WaiterTest::new(&[late, Wanted::Durable(3), early, Wanted::Change]);
        assert_eq!(bench.wake(2, 2, 0), [0, 0, 0, 1]);
        assert_eq!(bench.wake(4, 2, 0), [0, 0, 1, 1], "a change is told once");
        assert_eq!(bench.wake(4, 3, 0), [0, 1, 1, 1]);
        assert_eq!(bench.wake(9, 9, 0), [1, 1, 1, 1]);
    }

    #[test]
    fn free_space_wakes_as_many_tasks_as_fit_in_order() {
        let mut bench = WaiterTest::new(&[Wanted::Space(60), Wanted::Space(60), Wanted::Space(60)]);
        assert_eq!(bench.wake(0, 0, 0), [0, 0, 0]);
        assert_eq!(bench.wake(0, 0, 100), [1, 1, 0], "the second may fit what others leave");
        assert_eq!(bench.wake(0, 0, 100), [1, 1, 0], "they have not tried yet");
        bench.waiters.leave(1);
        assert_eq!(bench.wake(0, 0, 40), [1, 1, 0], "the first one took its room");
        // The second one failed and waits again.
        let waker = Waker::from(Arc::clone(&bench.counts[1]));
        bench.waiters.wait(2, Wanted::Space(60), &waker);
        assert_eq!(bench.wake(0, 0, 30), [1, 2, 0]);
        bench.waiters.leave(2);
        assert_eq!(bench.wake(0, 0, 30), [1, 2, 1]);
    }
}
