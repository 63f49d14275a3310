//! Stream of purges that several sites share, as the requests of this process see it: how recent
//! its knowledge is, and how to publish there.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fleet::purges::Trust;
use fleet::purges::stream::trust;
use net::clock::TokioClock;
use purge_stream::{Publisher, Settings};
use tokio::time::timeout;

use crate::observe::metrics::{Samples, Source};

/// See the module.
pub struct PurgeStream {
    pub(crate) settings: Settings,
    /// How long copies are used without news of the stream.
    pub(crate) lease: Duration,
    /// Until when this node is current, in nanoseconds of its monotonic clock.
    current_until: AtomicU64,
    /// The publisher, or the reason why there is none.
    publisher: Mutex<Result<Publisher, String>>,
    /// Messages that were carried out, and those that were no purges.
    pub(crate) carried_out: AtomicU64,
    pub(crate) invalid: AtomicU64,
}

impl PurgeStream {
    /// Makes the state of a stream that is not connected yet.
    pub fn new(settings: Settings, lease: Duration) -> PurgeStream {
        PurgeStream {
            settings,
            lease,
            current_until: AtomicU64::new(0),
            publisher: Mutex::new(Err("it is not connected yet".to_owned())),
            carried_out: AtomicU64::new(0),
            invalid: AtomicU64::new(0),
        }
    }

    /// Returns how far copies may be used at `now`.
    pub(crate) fn trust(&self, now: Duration) -> Trust {
        let until = Duration::from_nanos(self.current_until.load(Ordering::Acquire));
        trust(until, self.lease, now)
    }

    /// Notes until when this node is current.
    pub(crate) fn set_current(&self, until: Duration) {
        let until = u64::try_from(until.as_nanos()).unwrap_or(u64::MAX);
        self.current_until.fetch_max(until, Ordering::AcqRel);
    }

    /// Sets the publisher, or the reason why there is none.
    pub(crate) fn set_publisher(&self, publisher: Result<Publisher, String>) {
        *self.lock() = publisher;
    }

    /// Publishes a purge, as its JSON.
    ///
    /// # Errors
    ///
    /// The stream has not acknowledged it in time. Holds the reason.
    pub(crate) async fn publish(&self, purge: Bytes) -> Result<(), String> {
        let publisher = self.lock().clone()?;
        let late = |_| "it has not acknowledged the purge in time".to_owned();
        timeout(self.settings.patience, publisher.publish(purge)).await.map_err(late)?
    }

    fn lock(&self) -> MutexGuard<'_, Result<Publisher, String>> {
        self.publisher.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The figures of the stream for the metrics.
pub(crate) struct StreamFigures(pub Arc<PurgeStream>, pub TokioClock);

impl Source for StreamFigures {
    fn samples(&self, out: &mut Samples) {
        let StreamFigures(stream, clock) = self;
        let help = "1 when this node has all purges that the stream had a lease ago.";
        let is_current = stream.trust(clock.running()) == Trust::Full;
        out.gauge("larder_purge_stream_caught_up", help, &[], is_current);
        let help = "Messages of the purge stream, by result.";
        for (result, count) in [("purged", &stream.carried_out), ("invalid", &stream.invalid)] {
            let count = count.load(Ordering::Relaxed);
            out.counter("larder_purge_stream_messages", help, &[("result", result)], count);
        }
    }
}
