//! A node's place in a stream of purges that several sites share: decisions without I/O.
//!
//! The stream is one more [`Maker`] with one sequence. Its incarnation follows from the time of its
//! creation, so a stream that was deleted and made again is another one. What a node has of it is
//! in the node's own vector.
//!
//! A node is current towards the stream while all that the stream had at most a lease ago is
//! durable at the node. Where the stream no longer has what a node lacks, the node cannot know what
//! was purged: all that it has stored is validated with its origin.

use std::time::Duration;

use crate::member::MemberId;
use crate::purges::maker::Maker;
use crate::purges::order::Patience;
use crate::purges::replica::Trust;
use crate::purges::vector::Vector;

/// Incarnations of one stream: it begins another where it has lost its end.
const INCARNATIONS: u64 = 1_000_000;

/// Extent of a stream, as its server reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// When the stream was created, in nanoseconds since 1970.
    pub created: u64,
    /// Number of the first message that is still there; one more than `last` if there is none.
    pub first: u64,
    /// Number of the last message that was ever there; 0 for none.
    pub last: u64,
}

/// Where a node goes on to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The stream as a maker.
    pub maker: Maker,
    /// Number of the last message that is not to be read.
    pub after: u64,
    /// Messages up to `after` may have been missed.
    pub has_missed: bool,
}

impl Start {
    /// Returns where a node with the purges `durable` goes on. `durable` must be older than
    /// `extent`.
    pub fn of(stream: &MemberId, durable: &Vector, extent: Extent) -> Start {
        let incarnations = extent.created..extent.created.saturating_add(INCARNATIONS);
        let is_of_this = |maker: &Maker| incarnations.contains(&maker.incarnation);
        let is_known = durable.newest(stream).is_some();
        let maker = |incarnation| Maker { member: stream.clone(), incarnation };
        let of_this =
            durable.iter().filter(|(maker, _)| maker.member == *stream && is_of_this(maker));
        let Some((current, number)) = of_this.last() else {
            // Of a stream that begins with its first message nothing can have been missed, unless
            // another one was read before.
            let has_missed = extent.first > 1 || is_known;
            let after = if has_missed { extent.last } else { 0 };
            return Start { maker: maker(extent.created), after, has_missed };
        };
        let start = Start { maker: current.clone(), after: number, has_missed: false };
        if number > extent.last {
            return start.with_lost_end(extent);
        }
        let has_missed = extent.first > number + 1;
        let after = if has_missed { extent.last } else { number };
        Start { after, has_missed, ..start }
    }

    /// Returns where a node goes on that has messages which the stream lost, or has others for.
    pub fn with_lost_end(mut self, extent: Extent) -> Start {
        self.maker.incarnation += 1;
        Start { after: extent.last, has_missed: true, ..self }
    }

    /// Returns whether the stream is still the one that is read, for a node that had its messages
    /// up to `number` before it asked for `extent`.
    pub fn is_of(&self, extent: Extent, number: u64) -> bool {
        let Maker { incarnation, .. } = self.maker;
        (extent.created..extent.created.saturating_add(INCARNATIONS)).contains(&incarnation)
            && number <= extent.last
    }
}

/// How recent a node's knowledge of the stream is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Freshness {
    /// A moment such that all messages of then are durable here.
    known_as_of: Option<Duration>,
    /// When the stream was asked for its end, and the end, while messages up to it are missing.
    unfinished: Option<(Duration, u64)>,
}

impl Freshness {
    /// Notes that the stream ended with message `last` when it was asked at `asked`, or later.
    pub fn note_end(&mut self, asked: Duration, last: u64) {
        // Of two ends the earlier is reached first, so it is not pushed out.
        self.unfinished.get_or_insert((asked, last));
    }

    /// Notes that messages up to `number` are durable here.
    pub fn note_durable(&mut self, number: u64) {
        if let Some((asked, _)) = self.unfinished.take_if(|(_, last)| *last <= number) {
            self.known_as_of = self.known_as_of.max(Some(asked));
        }
    }

    /// Returns until when this node is current if it hears nothing meanwhile.
    pub fn current_until(&self, lease: Duration) -> Option<Duration> {
        Some(self.known_as_of? + Patience { lease, rest: lease }.trusted())
    }
}

/// Returns how far a node may use copies at `now` that is current until then.
pub fn trust(current_until: Duration, lease: Duration, now: Duration) -> Trust {
    match now <= current_until {
        true => Trust::Full,
        false => Trust::For(Patience { lease, rest: lease }.trusted()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Returns maker and number behind which a node goes on, and whether it may have missed some.
    fn start(durable: &str, created: u64, first: u64, last: u64) -> (String, u64, bool) {
        let extent = Extent { created, first, last };
        let start = Start::of(&"s".parse().unwrap(), &durable.parse().unwrap(), extent);
        (start.maker.to_string(), start.after, start.has_missed)
    }

    #[test]
    fn a_node_goes_on_where_it_was_or_knows_what_it_cannot_know() {
        const T: u64 = 0x1000_0000;
        let maker = |later: u64| format!("s/{:x}", T + later);
        let has = |number: u64| format!("a/1=5;s/{T:x}={number:x}");
        // It has read nothing yet.
        assert_eq!(start("a/1=5", T, 0, 0), (maker(0), 0, false));
        assert_eq!(start("", T, 1, 7), (maker(0), 0, false));
        assert_eq!(start("", T, 3, 7), (maker(0), 7, true));
        // It goes on, unless the stream was truncated past it.
        assert_eq!(start(&has(5), T, 1, 7), (maker(0), 5, false));
        assert_eq!(start(&has(5), T, 6, 7), (maker(0), 5, false));
        assert_eq!(start(&has(5), T, 7, 7), (maker(0), 7, true));
        assert_eq!(start(&has(7), T, 8, 7), (maker(0), 7, false));
        // The stream was made again, or has lost its end.
        assert_eq!(start("s/5=3", T, 1, 7), (maker(0), 7, true));
        assert_eq!(start(&has(9), T, 1, 7), (maker(1), 7, true));
        let later = format!("{};{}=8", has(9), maker(1));
        assert_eq!(start(&later, T, 1, 8), (maker(1), 8, false));
    }

    #[test]
    fn a_stream_that_was_made_again_or_is_shorter_is_another() {
        let extent = |created, last| Extent { created, first: 1, last };
        let start = Start::of(&"s".parse().unwrap(), &Vector::default(), extent(9, 4));
        assert!(start.is_of(extent(9, 4), 4) && start.is_of(extent(9, 5), 4));
        assert!(!start.is_of(extent(9, 3), 4) && !start.is_of(extent(10, 5), 4));
    }

    #[test]
    fn a_node_is_current_a_lease_long_after_it_asked_for_an_end_that_it_has() {
        let mut known = Freshness::default();
        assert_eq!(known.current_until(LEASE), None);
        known.note_end(at(20), 7);
        known.note_end(at(21), 9);
        known.note_durable(6);
        assert_eq!(known.current_until(LEASE), None);
        known.note_durable(7);
        let until = known.current_until(LEASE).unwrap();
        assert!(until < at(30) && until > at(29), "clocks drift");
        assert_eq!(trust(until, LEASE, at(29)), Trust::Full);
        assert!(matches!(trust(until, LEASE, at(30)), Trust::For(limit) if limit < LEASE));
        known.note_end(at(25), 7);
        known.note_durable(9);
        assert!(known.current_until(LEASE).unwrap() > at(34));
    }
}
