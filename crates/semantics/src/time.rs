//! Points in time and time spans. HTTP times are whole seconds. Measured times are in milliseconds;
//! with whole seconds, a response that is fresh for one second would often not be fresh at all.
//!
//! Points and spans have different types, so an age cannot be used as a date. All arithmetic
//! saturates: absurd header values cannot overflow, and a clock that goes backwards yields a zero
//! span.

/// A point in time: milliseconds since 1970-01-01T00:00:00Z, without leap seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// Returns the point `seconds` after 1970-01-01T00:00:00Z.
    pub const fn from_unix(seconds: u64) -> Time {
        Time(seconds.saturating_mul(1000))
    }

    /// Returns the point `millis` after 1970-01-01T00:00:00Z.
    pub const fn from_unix_millis(millis: u64) -> Time {
        Time(millis)
    }

    /// Returns the whole seconds since 1970-01-01T00:00:00Z.
    pub const fn unix(self) -> u64 {
        self.0 / 1000
    }

    /// Returns the milliseconds since 1970-01-01T00:00:00Z.
    pub const fn unix_millis(self) -> u64 {
        self.0
    }

    /// Returns the time rounded down to a second, the precision of a date in a header.
    pub const fn second(self) -> Time {
        Time(self.0 - self.0 % 1000)
    }

    /// Returns the span from `earlier` to `self`, each rounded down to a second; zero if `earlier`
    /// is later.
    pub const fn since(self, earlier: Time) -> Seconds {
        Seconds::new(self.unix().saturating_sub(earlier.unix()))
    }

    /// Returns the span from `earlier` to `self`; zero if `earlier` is later.
    pub const fn millis_since(self, earlier: Time) -> Millis {
        Millis::new(self.0.saturating_sub(earlier.0))
    }

    /// Returns the point `span` after `self`.
    pub const fn after(self, span: Seconds) -> Time {
        Time(self.0.saturating_add(span.millis().0))
    }
}

/// A time span from 0 to 2^31 seconds. RFC 9111 (1.2.2) lets a cache use 2^31 for any larger value;
/// here it means "forever".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seconds(u32);

impl Seconds {
    /// A zero span.
    pub const ZERO: Seconds = Seconds(0);
    /// The longest span: 2^31 seconds, 68 years.
    pub const MAX: Seconds = Seconds(1 << 31);

    /// Returns a span of `seconds`, at most [`Seconds::MAX`].
    pub const fn new(seconds: u64) -> Seconds {
        if seconds > Self::MAX.0 as u64 { Self::MAX } else { Seconds(seconds as u32) }
    }

    /// Returns the number of seconds.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the same span in milliseconds.
    pub const fn millis(self) -> Millis {
        Millis(self.0 as u64 * 1000)
    }

    /// Returns `self + other`, at most [`Seconds::MAX`].
    pub const fn plus(self, other: Seconds) -> Seconds {
        Seconds::new(self.0 as u64 + other.0 as u64)
    }

    /// Returns `self - other`, at least zero.
    pub const fn minus(self, other: Seconds) -> Seconds {
        Seconds(self.0.saturating_sub(other.0))
    }
}

/// A measured time span from 0 to 2^31 seconds, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(u64);

impl Millis {
    /// A zero span.
    pub const ZERO: Millis = Millis(0);
    /// The longest span, equal to [`Seconds::MAX`].
    pub const MAX: Millis = Seconds::MAX.millis();

    /// Returns a span of `millis`, at most [`Millis::MAX`].
    pub const fn new(millis: u64) -> Millis {
        if millis > Self::MAX.0 { Self::MAX } else { Millis(millis) }
    }

    /// Returns the number of milliseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the number of whole seconds.
    pub const fn seconds(self) -> Seconds {
        Seconds((self.0 / 1000) as u32)
    }

    /// Returns the milliseconds that remain after the whole seconds.
    pub const fn beside_seconds(self) -> u16 {
        (self.0 % 1000) as u16
    }

    /// Returns `self + other`, at most [`Millis::MAX`].
    pub const fn plus(self, other: Millis) -> Millis {
        Millis::new(self.0 + other.0)
    }

    /// Returns `self - other`, at least zero.
    pub const fn minus(self, other: Millis) -> Millis {
        Millis(self.0.saturating_sub(other.0))
    }
}

/// When a request was sent and the head of its response received, by the local clock. RFC 9111
/// (4.2.3) calls the times `request_time` and `response_time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeTimes {
    /// When the request was sent.
    pub requested: Time,
    /// When the head of the response had been received.
    pub received: Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_saturate_at_both_ends() {
        assert_eq!(Seconds::new(u64::MAX), Seconds::MAX);
        assert_eq!(Seconds::MAX.plus(Seconds::MAX), Seconds::MAX);
        assert_eq!(Seconds::new(3).minus(Seconds::new(5)), Seconds::ZERO);
        assert_eq!(Millis::new(u64::MAX).plus(Millis::MAX), Millis::MAX);
        assert_eq!(Millis::MAX.seconds(), Seconds::MAX);
        assert_eq!(Millis::new(3).minus(Millis::new(5)), Millis::ZERO);
    }

    #[test]
    fn dates_count_seconds_and_measured_spans_milliseconds() {
        let (early, late) = (Time::from_unix_millis(10_900), Time::from_unix_millis(12_100));
        assert_eq!((late.since(early).get(), late.millis_since(early).get()), (2, 1200));
        assert_eq!(late.millis_since(early).seconds().get(), 1);
        assert_eq!((late.unix(), late.second()), (12, Time::from_unix(12)));
        assert_eq!(early.after(Seconds::new(2)).unix_millis(), 12_900);
    }

    #[test]
    fn a_clock_that_went_back_gives_no_span() {
        let (early, late) = (Time::from_unix(10), Time::from_unix(25));
        assert_eq!(late.since(early).get(), 15);
        assert_eq!(early.since(late), Seconds::ZERO);
        assert_eq!(early.millis_since(late), Millis::ZERO);
        assert_eq!(Time::from_unix(u64::MAX).after(Seconds::new(9)), Time::from_unix(u64::MAX));
    }
}
