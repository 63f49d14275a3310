//! Counts events on origin connections.

use std::sync::Arc;

use upstream::connection::events::{Event, Events};

use crate::observe::event;
use crate::observe::observer::Observer;

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
}
