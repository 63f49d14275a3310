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
