//! What is counted from outside: answers, refusals, failures of the device.

use crate::base::digest::Digest;
use crate::base::source::Source;
use crate::core::state::Core;

impl Core {
    /// A lookup for a request has ended, with an answer from there or without any.
    pub(crate) fn count_lookup(&mut self, digest: &Digest, answer: Option<Source>) {
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

    /// A lookup read the record of another key.
    pub(crate) fn count_collision(&mut self) {
        self.counters.tag_collisions += 1;
    }

    /// An object was refused.
    pub(crate) fn count_refusal(&mut self) {
        self.counters.refusals += 1;
    }

    /// A read, a write or a flush has failed.
    pub(crate) fn count_device_error(&mut self) {
        self.counters.device_errors += 1;
    }

    /// Checkpoints written so far.
    pub(crate) fn checkpoints(&self) -> u64 {
        self.counters.checkpoints
    }
}
