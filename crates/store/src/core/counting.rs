//! What is counted from outside: answers, refusals, failures of the device.

use crate::base::digest::Digest;
use crate::base::source::Source;
use crate::core::state::Core;

/// Something to be counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counted {
    /// A lookup of this digest for a request has ended, with an answer from there or without any.
    Lookup(Digest, Option<Source>),
    /// An object was refused.
    Refusal,
    /// A read, a write or a flush has failed.
    DeviceError,
    /// A purge or an invalidation was not durable in time.
    NotDurable,
}

impl Core {
    /// Counts what happened.
    pub(crate) fn count(&mut self, what: Counted) {
        match what {
            Counted::Lookup(digest, answer) => self.count_lookup(&digest, answer),
            Counted::Refusal => self.counters.refusals += 1,
            Counted::DeviceError => self.counters.device_errors += 1,
            Counted::NotDurable => self.counters.not_durable += 1,
        }
    }

    /// Counts how a lookup for a request has ended.
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
