//! Decides which connection sends which request and when: the core of both loops.
//!
//! In an open loop requests come due by a schedule and wait in order for a free connection;
//! connections are opened up to a limit. In a closed loop each connection sends its next request as
//! soon as it is free. A request records when it was due. Response times counted from that moment
//! include the time during which a request could not be sent because earlier ones had no response.
//! A generator that waits for responses omits this time ("coordinated omission").

use std::collections::VecDeque;

use super::Nanos;

/// A request that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// When the request was due.
    pub at: Nanos,
    /// The phase in which the request was due.
    pub phase: usize,
}

/// Assigns requests to connections, which are numbered from 0.
#[derive(Debug)]
pub struct Dispatcher {
    /// Maximum number of connections.
    limit: usize,
    /// Current number of connections.
    count: usize,
    /// The free connections; the last one that became free is used first.
    free: Vec<usize>,
    /// Requests that wait for a connection.
    waiting: VecDeque<Due>,
    /// In a closed loop, the current phase and the maximum number of busy connections.
    closed: Option<(usize, usize)>,
}

impl Dispatcher {
    /// Creates a dispatcher with at most `limit` connections and none yet.
    pub fn new(limit: usize) -> Dispatcher {
        let (free, waiting) = (Vec::new(), VecDeque::new());
        Dispatcher { limit: limit.max(1), count: 0, free, waiting, closed: None }
    }

    /// Sets the closed loop: from now on free connections send by themselves, in this phase and
    /// while fewer than the given number are busy. `None` ends the closed loop.
    pub fn set_closed(&mut self, closed: Option<(usize, usize)>) {
        self.closed = closed;
    }

    /// Returns whether free connections send by themselves.
    pub fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// Adds a request that has come due.
    pub fn add(&mut self, due: Due) {
        self.waiting.push_back(due);
    }

    /// Returns the next request that can be sent now, and the connection that sends it.
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

    /// Marks a connection as free again.
    pub fn release(&mut self, connection: usize) {
        self.free.push(connection);
    }

    /// Removes and returns the waiting requests, which will never be sent.
    pub fn give_up(&mut self) -> impl Iterator<Item = Due> + '_ {
        self.waiting.drain(..)
    }

    /// Returns the number of requests that wait for a connection.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the number of connections that send or wait for a response.
    pub fn busy(&self) -> usize {
        self.count - self.free.len()
    }

    /// Returns the maximum number of connections.
    pub fn limit(&self) -> usize {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Arrivals, SECOND, Spacing};
    use crate::measure::Latencies;

    /// A server that takes a millisecond per response, serves one request at a time on each
    /// connection, and sends nothing during a stall.
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

    /// Simulates ten seconds of 1,000 requests per second in virtual time. Returns response times
    /// since requests were due, and since they were sent.
    fn run(connections: usize, stall: [Nanos; 2]) -> [Latencies; 2] {
        let server = Server { stall };
        let mut dispatcher = Dispatcher::new(connections);
        let mut arrivals = Arrivals::new(Spacing::Constant, 1, 0, 10 * SECOND, [1_000.0, 1_000.0]);
        let [mut corrected, mut uncorrected] = [Latencies::new(), Latencies::new()];
        // Completion time, connection, due time, send time.
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
        // A tenth of the requests came due within the stall, and four connections need a third of a
        // second for the backlog.
        let ms = |latencies: &Latencies, percent: f64| latencies.percentile(percent) / 1e6;
        let shown = |latencies| [50.0, 90.0, 95.0, 99.0].map(|percent| ms(latencies, percent));
        let (found, left_out) = (shown(&corrected), shown(&uncorrected));
        assert!(found[1] > 200.0 && found[2] > 550.0 && found[3] > 850.0, "{found:?}");
        assert!(found[0] < 2.0, "{found:?}");
        // Only four requests were in flight during the stall.
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
