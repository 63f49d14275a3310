//! The read queue of one device (LAZY-READS, systems M8): reads collect, then go out together in
//! the order of their positions, so that a disk's head reaches all of them in one sweep.
//!
//! Pure: time is an argument, and tasks are wakers. The queue does not read; it tells each read
//! when it may begin. Workers have separate rings, so "together and sorted" is a chain: the first
//! read of a batch may begin at once, each further one as soon as the previous one has been
//! submitted to the device. On one worker the chain completes within one turn of the event loop,
//! and the batch is one system call. Across workers each link costs one wake-up.
//!
//! The timeout applies while the device is idle. While reads of an earlier batch are in flight,
//! waiting for more reads costs nothing, because the device could not start the next one sooner.
//!
//! Guarantees: a read waits for others no longer than the timeout, or until the device has nothing
//! else to read. The order is best effort: a link that does not move for the timeout is skipped. A
//! read whose task was dropped leaves the queue and lets the others pass. Writes do not use the
//! queue.
//!
//! A caller that knows that no more reads will come calls [`ReadQueue::hold`] with false. From then
//! on, no read waits while the device is idle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::task::Waker;

use device::Nanos;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueOptions {
    /// Reads per batch; 1 lets each begin at once.
    pub(crate) batch: usize,
    /// Maximum time that a read waits for others while none is in flight.
    pub(crate) timeout: Nanos,
    /// Size of the runs that a batch is split into. Each run begins when the previous one has
    /// ended. 0 disables splitting.
    pub(crate) split: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueCounters {
    pub(crate) batches: u64,
    pub(crate) reads: u64,
    /// Batches that went out because of the timeout.
    pub(crate) timeouts: u64,
}

/// Identifies a read in the queue.
pub(crate) type Ticket = u64;

/// The queue's decision on a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Begin the read, then call [`ReadQueue::begun`].
    Begin,
    /// Poll again when woken, or at this time.
    Wait(Nanos),
}

struct Waiting {
    offset: u64,
    deadline: Nanos,
    waker: Option<Waker>,
}

/// A read whose batch went out but which has not begun.
struct Released {
    ticket: Ticket,
    /// Number of the run that contains it.
    run: u64,
    waker: Option<Waker>,
}

/// The read queue. See the module documentation for its guarantees.
pub(crate) struct ReadQueue {
    options: QueueOptions,
    counters: QueueCounters,
    /// True if reads wait for others.
    holds: bool,
    next_ticket: Ticket,
    waiting: BTreeMap<Ticket, Waiting>,
    /// Sorted by position within each batch.
    released: VecDeque<Released>,
    /// Time since which the first of `released` could have begun.
    first_since: Nanos,
    /// The run of the reads in `running`.
    run: u64,
    next_run: u64,
    /// Reads that have begun and not ended.
    running: BTreeSet<Ticket>,
}

impl ReadQueue {
    pub(crate) fn new(options: QueueOptions) -> ReadQueue {
        ReadQueue {
            options,
            counters: QueueCounters::default(),
            holds: true,
            next_ticket: 0,
            waiting: BTreeMap::new(),
            released: VecDeque::new(),
            first_since: 0,
            run: 0,
            next_run: 1,
            running: BTreeSet::new(),
        }
    }

    pub(crate) fn counters(&self) -> QueueCounters {
        self.counters
    }

    /// Adds a read at byte `offset`. Returns `None` if queueing is disabled: the read may begin.
    pub(crate) fn join(&mut self, offset: u64, now: Nanos) -> Option<Ticket> {
        if self.options.batch <= 1 {
            return None;
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let deadline = now + self.options.timeout;
        self.waiting.insert(ticket, Waiting { offset, deadline, waker: None });
        if self.waiting.len() >= self.options.batch {
            self.release(now);
        }
        self.release_unheld(now);
        Some(ticket)
    }

    /// Sets whether reads wait for others, as they do initially. Otherwise all waiting reads go out
    /// together, by position, as soon as no earlier read is in flight.
    pub(crate) fn hold(&mut self, holds: bool, now: Nanos) {
        self.holds = holds;
        self.release_unheld(now);
    }

    fn release_unheld(&mut self, now: Nanos) {
        if !self.holds && self.idle() && !self.waiting.is_empty() {
            self.release(now);
        }
    }

    /// Returns whether the read may begin. `waker` is woken when that may have changed.
    pub(crate) fn poll(&mut self, ticket: Ticket, now: Nanos, waker: &Waker) -> Turn {
        let late = |waiting: &Waiting| waiting.deadline <= now;
        if self.idle() && self.waiting.get(&ticket).is_some_and(late) {
            self.counters.timeouts += 1;
            self.release(now);
        }
        if let Some(waiting) = self.waiting.get_mut(&ticket) {
            waiting.waker = Some(waker.clone());
            let again = if late(waiting) { now + self.options.timeout } else { waiting.deadline };
            return Turn::Wait(again);
        }
        let Some(at) = self.released.iter().position(|read| read.ticket == ticket) else {
            return Turn::Begin;
        };
        let may_begin = self.first_may_begin();
        let stuck = may_begin && now >= self.first_since + self.options.timeout;
        if may_begin && (at == 0 || stuck) {
            self.begin(at, now);
            return Turn::Begin;
        }
        self.released[at].waker = Some(waker.clone());
        let since = if may_begin { self.first_since } else { now };
        Turn::Wait(since + self.options.timeout)
    }

    /// Records that the read has been submitted to the device; the next one may begin.
    pub(crate) fn begun(&mut self) {
        self.wake_first();
    }

    /// Removes a read that has ended or whose task was dropped, in any state.
    pub(crate) fn ended(&mut self, ticket: Ticket, now: Nanos) {
        self.waiting.remove(&ticket);
        self.running.remove(&ticket);
        if let Some(at) = self.released.iter().position(|read| read.ticket == ticket) {
            self.released.remove(at);
        }
        self.first_since = now;
        self.wake_first();
        self.release_unheld(now);
        if self.idle()
            && let Some((_, oldest)) = self.waiting.first_key_value()
            && let Some(waker) = &oldest.waker
        {
            waker.wake_by_ref();
        }
    }

    /// Returns whether no read is in flight or about to be.
    fn idle(&self) -> bool {
        self.running.is_empty() && self.released.is_empty()
    }

    /// Releases all waiting reads, by position. Reads of an earlier batch that have not begun stay
    /// in front, so no read is overtaken forever.
    fn release(&mut self, now: Nanos) {
        let mut batch: Vec<(Ticket, Waiting)> =
            std::mem::take(&mut self.waiting).into_iter().collect();
        batch.sort_by_key(|(ticket, waiting)| (waiting.offset, *ticket));
        self.counters.batches += 1;
        self.counters.reads += batch.len() as u64;
        if self.released.is_empty() {
            self.first_since = now;
        }
        let run_len = if self.options.split == 0 { batch.len() } else { self.options.split };
        for run in batch.chunks_mut(run_len.max(1)) {
            for (ticket, waiting) in run {
                let waker = waiting.waker.take();
                self.released.push_back(Released { ticket: *ticket, run: self.next_run, waker });
            }
            self.next_run += 1;
        }
        self.wake_first();
    }

    /// Returns whether the first released read may begin. A run begins when the previous one has
    /// ended.
    fn first_may_begin(&self) -> bool {
        let Some(first) = self.released.front() else { return false };
        self.options.split == 0 || self.running.is_empty() || first.run == self.run
    }

    fn begin(&mut self, at: usize, now: Nanos) {
        let Some(read) = self.released.remove(at) else { return };
        self.run = read.run;
        self.running.insert(read.ticket);
        self.first_since = now;
    }

    fn wake_first(&mut self) {
        if self.first_may_begin()
            && let Some(waker) = self.released.front_mut().and_then(|read| read.waker.take())
        {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: QueueOptions = QueueOptions { batch: 4, timeout: 100, split: 0 };

    /// Polls the remaining tickets until none may begin. Returns them in the order in which they
    /// began.
    fn drain(queue: &mut ReadQueue, left: &mut Vec<Ticket>, now: Nanos) -> Vec<Ticket> {
        let mut begun = Vec::new();
        loop {
            let before = left.len();
            left.retain(|ticket| match queue.poll(*ticket, now, Waker::noop()) {
                Turn::Begin => {
                    begun.push(*ticket);
                    queue.begun();
                    false
                }
                Turn::Wait(until) => {
                    assert!(until > now, "a wait that is over already");
                    true
                }
            });
            if left.len() == before {
                return begun;
            }
        }
    }

    fn join(queue: &mut ReadQueue, offsets: &[u64], now: Nanos) -> Vec<Ticket> {
        offsets.iter().map(|offset| queue.join(*offset, now).expect("a queue")).collect()
    }

    #[test]
    fn a_full_batch_goes_out_by_position_whoever_asks_first() {
        let mut queue = ReadQueue::new(OPTIONS);
        let mut tickets = join(&mut queue, &[70, 10, 50], 0);
        assert_eq!(drain(&mut queue, &mut tickets, 0), []);
        tickets.extend(join(&mut queue, &[30], 1));
        assert_eq!(drain(&mut queue, &mut tickets, 1), [1, 3, 2, 0]);
        assert_eq!(queue.counters(), QueueCounters { batches: 1, reads: 4, timeouts: 0 });
    }

    #[test]
    fn the_next_waits_until_the_one_before_it_begins() {
        let mut queue = ReadQueue::new(OPTIONS);
        join(&mut queue, &[4, 3, 2, 1], 0);
        assert_eq!(queue.poll(2, 0, Waker::noop()), Turn::Wait(100));
        assert_eq!(queue.poll(3, 0, Waker::noop()), Turn::Begin);
        assert_eq!(queue.poll(1, 0, Waker::noop()), Turn::Wait(100));
        assert_eq!(queue.poll(2, 0, Waker::noop()), Turn::Begin);
    }

    #[test]
    fn the_timeout_of_the_oldest_bounds_the_wait_of_all() {
        let mut queue = ReadQueue::new(OPTIONS);
        let mut tickets = join(&mut queue, &[9], 0);
        tickets.extend(join(&mut queue, &[5], 60));
        assert_eq!(queue.poll(0, 60, Waker::noop()), Turn::Wait(100));
        assert_eq!(drain(&mut queue, &mut tickets, 99), []);
        assert_eq!(drain(&mut queue, &mut tickets, 100), [1, 0]);
        assert_eq!(queue.counters(), QueueCounters { batches: 1, reads: 2, timeouts: 1 });
    }

    #[test]
    fn reads_do_not_wait_for_a_batch_that_cannot_fill() {
        let mut queue = ReadQueue::new(OPTIONS);
        let mut tickets = join(&mut queue, &[9, 5], 0);
        assert_eq!(drain(&mut queue, &mut tickets, 0), []);
        queue.hold(false, 1);
        assert_eq!(drain(&mut queue, &mut tickets, 1), [1, 0]);
        // While the device reads, a new read loses nothing by waiting.
        let mut tickets = join(&mut queue, &[8, 3], 2);
        queue.ended(0, 3);
        assert_eq!(drain(&mut queue, &mut tickets, 3), []);
        queue.ended(1, 4);
        assert_eq!(drain(&mut queue, &mut tickets, 4), [3, 2]);
        queue.ended(2, 5);
        queue.ended(3, 5);
        let mut tickets = join(&mut queue, &[7], 6);
        assert_eq!(drain(&mut queue, &mut tickets, 6), [4]);
        queue.ended(4, 7);
        queue.hold(true, 7);
        let mut tickets = join(&mut queue, &[4], 8);
        assert_eq!(drain(&mut queue, &mut tickets, 8), []);
        assert_eq!(queue.counters(), QueueCounters { batches: 3, reads: 5, timeouts: 0 });
    }

    #[test]
    fn reads_wait_for_a_batch_while_others_run() {
        let mut queue = ReadQueue::new(OPTIONS);
        let mut tickets = join(&mut queue, &[1, 2, 3, 4], 0);
        assert_eq!(drain(&mut queue, &mut tickets, 0), [0, 1, 2, 3]);
        let mut tickets = join(&mut queue, &[6, 5], 10);
        assert_eq!(drain(&mut queue, &mut tickets, 500), []);
        (0..4).for_each(|ticket| queue.ended(ticket, 600));
        assert_eq!(drain(&mut queue, &mut tickets, 600), [5, 4]);
        assert_eq!(queue.counters(), QueueCounters { batches: 2, reads: 6, timeouts: 1 });
    }

    #[test]
    fn a_dropped_read_leaves_whether_it_waits_or_is_next() {
        let mut queue = ReadQueue::new(OPTIONS);
        let mut tickets = join(&mut queue, &[1, 2, 3], 0);
        queue.ended(tickets.remove(1), 0);
        tickets.extend(join(&mut queue, &[4], 0));
        assert_eq!(drain(&mut queue, &mut tickets, 0), [], "three are no batch");
        tickets.extend(join(&mut queue, &[5], 0));
        queue.ended(tickets.remove(0), 0);
        assert_eq!(drain(&mut queue, &mut tickets, 0), [2, 3, 4]);
    }

    #[test]
    fn a_task_that_does_not_come_is_stepped_over() {
        let mut queue = ReadQueue::new(OPTIONS);
        join(&mut queue, &[1, 2, 3, 4], 0);
        assert_eq!(queue.poll(1, 99, Waker::noop()), Turn::Wait(100));
        assert_eq!(queue.poll(1, 100, Waker::noop()), Turn::Begin);
        assert_eq!(queue.poll(2, 100, Waker::noop()), Turn::Wait(200));
        assert_eq!(queue.poll(0, 101, Waker::noop()), Turn::Begin);
    }

    #[test]
    fn broken_batches_go_out_run_by_run() {
        let mut queue = ReadQueue::new(QueueOptions { split: 3, ..OPTIONS });
        let mut tickets = join(&mut queue, &[4, 3, 2, 1], 0);
        assert_eq!(drain(&mut queue, &mut tickets, 0), [3, 2, 1]);
        queue.ended(2, 5);
        queue.ended(3, 5);
        assert_eq!(drain(&mut queue, &mut tickets, 500), [], "the first run has not ended");
        queue.ended(1, 600);
        assert_eq!(drain(&mut queue, &mut tickets, 600), [0]);
    }

    #[test]
    fn the_first_is_woken_when_its_turn_comes() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicU32, Ordering};
        struct Count(AtomicU32);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let counts: Vec<Arc<Count>> = (0..3).map(|_| Arc::new(Count(AtomicU32::new(0)))).collect();
        let woken =
            || -> Vec<u32> { counts.iter().map(|count| count.0.load(Ordering::Relaxed)).collect() };
        let mut queue = ReadQueue::new(QueueOptions { batch: 3, ..OPTIONS });
        for (number, count) in counts.iter().enumerate() {
            let ticket = queue.join(number as u64, 0).expect("a queue");
            let _ = queue.poll(ticket, 0, &Waker::from(Arc::clone(count)));
        }
        // The third read completed the batch. The first was woken; the third, which just polled,
        // waits.
        assert_eq!(woken(), [1, 0, 0]);
        assert_eq!(queue.poll(0, 0, Waker::noop()), Turn::Begin);
        // The second has not polled since the batch went out, yet it is woken.
        queue.begun();
        assert_eq!(woken(), [1, 1, 0]);
        queue.ended(1, 0);
        assert_eq!(woken(), [1, 1, 1]);
    }

    #[test]
    fn a_batch_of_one_is_no_queue() {
        let mut queue = ReadQueue::new(QueueOptions { batch: 1, ..OPTIONS });
        assert_eq!(queue.join(7, 0), None);
    }

    #[test]
    fn any_order_of_events_lets_every_read_begin_once() {
        for seed in crate::test_seed::seeds("read_queue", 300) {
            let mut random = fastrand::Rng::with_seed(seed);
            let (batch, split) = (random.usize(2..12), random.usize(0..6));
            let mut queue = ReadQueue::new(QueueOptions { batch, timeout: 100, split });
            let (mut left, mut running, mut begun, mut dropped) = (vec![], vec![], 0, 0);
            let (mut now, total) = (0, 200);
            while begun + dropped < total {
                now += random.u64(0..40);
                let joined = left.len() + begun + dropped;
                match random.u32(0..6) {
                    0 | 1 if joined < total => left.extend(queue.join(random.u64(..), now)),
                    2 if !left.is_empty() && random.u32(0..8) == 0 => {
                        let ticket = left.swap_remove(random.usize(..left.len()));
                        queue.ended(ticket, now);
                        dropped += 1;
                    }
                    3 if !running.is_empty() => {
                        queue.ended(running.swap_remove(random.usize(..running.len())), now);
                    }
                    _ => {
                        random.shuffle(&mut left);
                        let gone = drain(&mut queue, &mut left, now);
                        begun += gone.len();
                        running.extend(gone);
                    }
                }
            }
            assert_eq!(begun + dropped, total);
            running.into_iter().for_each(|ticket| queue.ended(ticket, now));
            assert!(queue.waiting.is_empty() && queue.released.is_empty());
            assert!(queue.running.is_empty());
        }
    }
}
