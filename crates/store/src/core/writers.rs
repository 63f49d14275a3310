//! Objects being written: of two responses for one key, the one that began later stays (RFC 9111,
//! section 4), whichever ends first.

use std::collections::BTreeMap;

use crate::base::digest::Digest;

/// The keys for which objects are being written.
#[derive(Default)]
pub(crate) struct Writers {
    running: BTreeMap<Digest, Running>,
}

/// State of one key while objects are being written for it.
#[derive(Default)]
struct Running {
    writers: usize,
    /// The greatest object id that was stored meanwhile; ids rise in the order of beginnings.
    stored: u64,
}

impl Writers {
    /// Begins to write an object for `digest`.
    pub(crate) fn begin(&mut self, digest: Digest) {
        self.running.entry(digest).or_default().writers += 1;
    }

    /// Ends writing an object for `digest`.
    pub(crate) fn end(&mut self, digest: &Digest) {
        let Some(running) = self.running.get_mut(digest) else { return };
        running.writers -= 1;
        if running.writers == 0 {
            self.running.remove(digest);
        }
    }

    /// Notes that the object of this id is stored.
    pub(crate) fn stored(&mut self, digest: &Digest, object_id: u64) {
        if let Some(running) = self.running.get_mut(digest) {
            running.stored = running.stored.max(object_id);
        }
    }

    /// Returns whether an object that began to be written later is stored.
    pub(crate) fn is_superseded(&self, digest: &Digest, object_id: u64) -> bool {
        self.running.get(digest).is_some_and(|running| running.stored > object_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_began_later_stays() {
        let digest = Digest([1; 16]);
        let mut writers = Writers::default();
        writers.begin(digest);
        writers.begin(digest);
        assert!(!writers.is_superseded(&digest, 4));
        writers.stored(&digest, 5);
        writers.end(&digest);
        assert!(writers.is_superseded(&digest, 4) && !writers.is_superseded(&digest, 6));
        writers.end(&digest);
        assert!(writers.running.is_empty());
    }
}
