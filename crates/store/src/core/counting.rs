//! Events that the shell counts: lookups, refusals, failures of the device.

use crate::base::digest::Digest;
use crate::base::source::Source;
use crate::core::state::Core;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Counted {
    /// A lookup of this digest for a request ended: a hit from this source, or a miss.
    Lookup(Digest, Option<Source>),
    /// An object was refused.
    Refusal,
    /// A read, a write or a flush failed.
    DeviceError,
    /// A purge or an invalidation did not become durable in time.
    NotDurable,
}

impl Core {
    pub(crate) fn count(&mut self, what: Counted) {
        match what {
            Counted::Lookup(digest, answer) => self.count_lookup(&digest, answer),
            Counted::Refusal => self.counters.refusals += 1,
            Counted::DeviceError => self.counters.device_errors += 1,
            Counted::NotDurable => self.counters.not_durable += 1,
        }
    }

    /// Counts the result of a lookup for a request.
    pub(super) fn count_lookup(&mut self, digest: &Digest, answer: Option<Source>) {
        match answer {
            Some(source) => {
                match source {
                    Source::Ram => self.counters.memory_hits += 1,
                    Source::Disk => self.counters.disk_hits += 1,
                }
                self.admission.found(digest.halves().0);
            }
            None => self.counters.misses += 1,
        }
    }
}
