//! Measures how long an origin takes for a response.

use std::sync::Arc;
use std::time::Instant;

use net::clock::TokioClock;

use crate::connection::events::{Events, FetchPoint};

/// Timer of one request, which reports the head of the response when it is attached to the body,
/// and the end when the body ends or is dropped.
pub struct FetchTimer {
    events: Arc<dyn Events>,
    clock: TokioClock,
    label: u8,
    began: Instant,
}

impl FetchTimer {
    pub(crate) fn start(events: Arc<dyn Events>, clock: TokioClock, label: u8) -> FetchTimer {
        FetchTimer { events, clock, label, began: clock.instant() }
    }

    /// Reports that the head has arrived.
    pub(crate) fn answered(self) -> TimedFetch {
        self.report(FetchPoint::Head);
        TimedFetch(self)
    }

    fn report(&self, until: FetchPoint) {
        let time = self.clock.instant().saturating_duration_since(self.began);
        self.events.fetched(self.label, until, time);
    }
}

/// Timer of a response whose body has not ended.
pub(crate) struct TimedFetch(FetchTimer);

impl Drop for TimedFetch {
    fn drop(&mut self) {
        self.0.report(FetchPoint::End);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::connection::events::Event;
    use crate::connection::origin_body::OriginBody;

    /// Keeps what is reported.
    #[derive(Default)]
    struct Seen(Mutex<Vec<(u8, FetchPoint)>>);

    impl Events for Seen {
        fn count(&self, _: Event) {}

        fn fetched(&self, label: u8, until: FetchPoint, _: Duration) {
            self.0.lock().unwrap().push((label, until));
        }
    }

    #[test]
    fn the_head_is_reported_at_once_and_the_end_with_the_body() {
        let seen = Arc::new(Seen::default());
        let timer = |label| FetchTimer::start(seen.clone(), TokioClock::system(), label);
        let reported = || std::mem::take(&mut *seen.0.lock().unwrap());
        let mut body = OriginBody::whole(Bytes::from_static(b"x"));
        body.time(timer(1));
        assert_eq!(reported(), [(1, FetchPoint::Head)]);
        drop(body);
        assert_eq!(reported(), [(1, FetchPoint::End)]);
        OriginBody::whole(Bytes::new()).time(timer(2));
        assert_eq!(reported(), [(2, FetchPoint::Head), (2, FetchPoint::End)]);
        drop(timer(3));
        assert_eq!(reported(), [], "a request without a response");
    }
}
