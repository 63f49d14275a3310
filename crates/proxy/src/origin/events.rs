//! Counts events on origin connections.

use std::sync::Arc;
use std::time::Duration;

use upstream::connection::events::{Event, Events, FetchPoint};

use crate::observe::event;
use crate::observe::observer::Observer;
use crate::observe::site_slots::SiteSlot;

/// Passes events to the observer, which counts them.
pub(crate) struct Observed(pub Arc<dyn Observer>);

impl Events for Observed {
    fn count(&self, event: Event) {
        let event = match event {
            Event::Connected => event::Event::UpstreamConnected,
            Event::Reused => event::Event::UpstreamReused,
            Event::Retried => event::Event::UpstreamRetried,
            Event::Overrun => event::Event::UpstreamOverrun,
        };
        self.0.count(event, 1);
    }

    fn fetched(&self, label: u8, until: FetchPoint, time: Duration) {
        self.0.fetched(SiteSlot::of_label(label), until, time);
    }
}
