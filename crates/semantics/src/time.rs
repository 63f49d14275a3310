//! Points in time and spans of time in whole seconds: all that HTTP caching knows of time.
//!
//! Two types, so that an age is never added where a date belongs. All arithmetic saturates: absurd
//! header values cannot overflow, and a clock that went backwards yields a span of zero.

/// A point in time: whole seconds since 1970-01-01T00:00:00Z, leap seconds not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The point `seconds` after 1970-01-01T00:00:00Z.
    pub const fn from_unix(seconds: u64) -> Time {
        Time(seconds)
    }

    /// Seconds since 1970-01-01T00:00:00Z.
    pub const fn unix(self) -> u64 {
        self.0
    }

    /// The span from `earlier` to `self`; zero when `earlier` is later.
    pub const fn since(self, earlier: Time) -> Seconds {
        Seconds::new(self.0.saturating_sub(earlier.0))
    }

    /// The point `span` after `self`.
    pub const fn after(self, span: Seconds) -> Time {
        Time(self.0.saturating_add(span.0 as u64))
    }
}

/// A span of time: 0 to 2^31 seconds. 2^31 is what RFC 9111 (1.2.2) lets a cache take for any
/// larger value; to us it means "for ever".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seconds(u32);

impl Seconds {
    /// No time at all.
    pub const ZERO: Seconds = Seconds(0);
    /// The longest span: 2^31 seconds, 68 years.
    pub const MAX: Seconds = Seconds(1 << 31);

    /// A span of `seconds`, at most [`Seconds::MAX`].
    pub const fn new(seconds: u64) -> Seconds {
        if seconds > Self::MAX.0 as u64 { Self::MAX } else { Seconds(seconds as u32) }
    }

    /// The number of seconds.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// `self + other`, at most [`Seconds::MAX`].
    pub const fn plus(self, other: Seconds) -> Seconds {
        Seconds::new(self.0 as u64 + other.0 as u64)
    }

    /// `self - other`, at least zero.
    pub const fn minus(self, other: Seconds) -> Seconds {
        Seconds(self.0.saturating_sub(other.0))
    }
}

/// When one request was sent and its answer's head had arrived, by our clock. RFC 9111 (4.2.3)
/// calls them `request_time` and `response_time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// When the request was sent.
    pub requested: Time,
    /// When the head of the answer had been received.
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
    }

    #[test]
    fn a_clock_that_went_back_gives_no_span() {
        let (early, late) = (Time::from_unix(10), Time::from_unix(25));
        assert_eq!(late.since(early).get(), 15);
        assert_eq!(early.since(late), Seconds::ZERO);
        assert_eq!(Time::from_unix(u64::MAX).after(Seconds::new(9)), Time::from_unix(u64::MAX));
    }
}
