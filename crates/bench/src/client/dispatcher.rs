//! Which connection sends which request, and when: the core of both loops.
//!
//! In an open loop requests come due by a schedule, wait in order for a free connection, and more
//! connections are opened as long as there may be more. In a closed loop each connection sends its
//! next request as soon as it is free. A request remembers when it was due: who counts from there
//! counts also the time in which it could not be sent because earlier ones were not answered, which
//! a generator that waits for answers leaves out ("coordinated omission").

use std::collections::VecDeque;

use super::Nanos;

/// A request that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// When it should have been sent.
    pub at: Nanos,
    /// The phase in which that was.
    pub phase: usize,
}

/// See the module. Connections are numbers from 0.
#[derive(Debug)]
pub struct Dispatcher {
    /// Connections at most.
    limit: usize,
    /// Connections that there are.
    count: usize,
    /// Of these, those that wait for a request; the last that became free comes first.
    free: Vec<usize>,
    /// Requests that wait for a connection.
    waiting: VecDeque<Due>,
    /// Whether a free connection is reason enough to send: the phase, if so, and how many are busy
    /// at most.
    closed: Option<(usize, usize)>,
}

impl Dispatcher {
    /// With so many connections at most, and none yet.
    pub fn new(limit: usize) -> Dispatcher {
        let (free, waiting) = (Vec::new(), VecDeque::new());
        Dispatcher { limit: limit.max(1), count: 0, free, waiting, closed: None }
    }

    /// From now on connections send by themselves (a closed loop), in this phase and as long as
    /// fewer than so many are busy; `None`: they do not.
    pub fn set_closed(&mut self, closed: Option<(usize, usize)>) {
        self.closed = closed;
    }

    /// Whether connections send by themselves.
    pub fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// A request has come due.
    pub fn add(&mut self, due: Due) {
        self.waiting.push_back(due);
    }

    /// The next request that can be sent now, and the connection that sends it.
    pub fn next(&mut self, now: Nanos) -> Option<(Due, usize)> {
        let own = self.closed.filter(|(_, most)| self.busy() < *most);
        if self.waiting.is_empty() && own.is_none() {
            return None;
        }
        let connection = self.free.pop().or_else(|| {
            (self.count < self.limit).then(|| {
                self.count += 1;
                self.count - 1
            })
        })?;
        let own = own.map(|(phase, _)| Due { at: now, phase });
        match self.waiting.pop_front().or(own) {
            Some(due) => Some((due, connection)),
            None => {
                self.free.push(connection);
                None
            }
        }
    }

    /// A connection is free again.
    pub fn release(&mut self, connection: usize) {
        self.free.push(connection);
    }

    /// Takes away the requests that still wait: nobody will send them.
    pub fn give_up(&mut self) -> impl Iterator<Item = Due> + '_ {
        self.waiting.drain(..)
    }

    /// Requests that wait for a connection.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Connections that send or wait for an answer.
    pub fn busy(&self) -> usize {
        self.count - self.free.len()
    }

    /// Connections at most.
    pub fn limit(&self) -> usize {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Arrivals, SECOND, Spacing};
    use crate::measure::Latencies;

    /// A server that takes a millisecond for an answer, one at a time for each connection, and
    /// answers nothing from one moment to another.
    struct Server {
        stall: [Nanos; 2],
    }

    impl Server {
        fn answered(&self, sent: Nanos) -> Nanos {
            let done = sent + SECOND / 1_000;
            match (self.stall[0]..self.stall[1]).contains(&done) {
                true => self.stall[1],
                false => done,
            }
        }
    }

    /// Ten seconds of 1,000 requests a second over so many connections, in virtual time: times from
    /// when requests were due, and from when they were sent.
    fn run(connections: usize, stall: [Nanos; 2]) -> [Latencies; 2] {
        let server = Server { stall };
        let mut dispatcher = Dispatcher::new(connections);
        let mut arrivals = Arrivals::new(Spacing::Constant, 1, 0, 10 * SECOND, [1_000.0, 1_000.0]);
        let [mut corrected, mut uncorrected] = [Latencies::new(), Latencies::new()];
        // When, which connection, due, sent.
        let mut under_way: Vec<(Nanos, usize, Nanos, Nanos)> = Vec::new();
        let mut now = 0;
        loop {
            under_way.sort_unstable();
            while under_way.first().is_some_and(|(done, ..)| *done <= now) {
                let (done, connection, due, sent) = under_way.remove(0);
                corrected.record(done - due);
                uncorrected.record(done - sent);
                dispatcher.release(connection);
            }
            while let Some(at) = arrivals.due(now) {
                dispatcher.add(Due { at, phase: 0 });
            }
            while let Some((due, connection)) = dispatcher.next(now) {
                under_way.push((server.answered(now), connection, due.at, now));
            }
            let done = under_way.iter().map(|(done, ..)| *done).min();
            match [done, arrivals.next()].into_iter().flatten().min() {
                Some(next) => now = next,
                None => return [corrected, uncorrected],
            }
        }
    }

    #[test]
    fn a_stall_of_a_second_is_in_the_corrected_percentiles() {
        let [corrected, uncorrected] = run(4, [5 * SECOND, 6 * SECOND]);
        assert_eq!(corrected.count(), 9_999);
        assert_eq!(uncorrected.count(), 9_999);
        // A tenth of the requests was due within the stall, and four connections take a third of a
        // second for those that had piled up.
        let ms = |latencies: &Latencies, percent: f64| latencies.percentile(percent) / 1e6;
        let shown = |latencies| [50.0, 90.0, 95.0, 99.0].map(|percent| ms(latencies, percent));
        let (found, left_out) = (shown(&corrected), shown(&uncorrected));
        assert!(found[1] > 200.0 && found[2] > 550.0 && found[3] > 850.0, "{found:?}");
        assert!(found[0] < 2.0, "{found:?}");
        // Only four requests saw it as they were sent.
        assert!(left_out[3] < 2.0 && ms(&uncorrected, 100.0) > 990.0, "{left_out:?}");
    }

    #[test]
    fn without_a_stall_both_are_the_same() {
        let [corrected, uncorrected] = run(4, [0, 0]);
        for percent in [50.0, 99.0, 100.0] {
            assert!((corrected.percentile(percent) - 1e6).abs() < 1e4);
            assert_eq!(corrected.percentile(percent), uncorrected.percentile(percent));
        }
    }

    #[test]
    fn a_closed_loop_sends_when_a_connection_is_free() {
        let mut dispatcher = Dispatcher::new(2);
        assert_eq!(dispatcher.next(0), None);
        dispatcher.set_closed(Some((3, usize::MAX)));
        assert_eq!(dispatcher.next(7), Some((Due { at: 7, phase: 3 }, 0)));
        assert_eq!(dispatcher.next(7), Some((Due { at: 7, phase: 3 }, 1)));
        assert_eq!((dispatcher.next(7), dispatcher.busy()), (None, 2));
        dispatcher.release(0);
        assert_eq!(dispatcher.next(9), Some((Due { at: 9, phase: 3 }, 0)));
        dispatcher.release(1);
        dispatcher.set_closed(Some((3, 1)));
        assert_eq!(dispatcher.next(9), None, "one is busy");
        dispatcher.set_closed(None);
        assert_eq!(dispatcher.next(9), None);
    }

    #[test]
    fn what_nobody_will_send_is_given_up() {
        let mut dispatcher = Dispatcher::new(1);
        for at in 0..3 {
            dispatcher.add(Due { at, phase: 0 });
        }
        assert_eq!(dispatcher.next(5).map(|(due, _)| due.at), Some(0));
        assert_eq!((dispatcher.next(5), dispatcher.waiting()), (None, 2));
        assert_eq!(dispatcher.give_up().map(|due| due.at).collect::<Vec<_>>(), [1, 2]);
    }
}
