//! Reads the surroundings of a record for their own sake, so that the memory tier knows its
//! neighbours (systems C14): one read for all of them, and two more for each one whose metadata
//! were replaced.

use bytes::Bytes;
use device::{Clock, Device};

use super::{Pinned, Window};
use crate::base::digest::Digest;
use crate::config::lookup_options::LookupOptions;
use crate::core::{Expected, LookupRequest, Purpose, neighbours};
use crate::shell::volume::Volume;

/// Maximum number of bytes read around a record. A cluster may be larger, but more distant records
/// were stored at other times.
const AROUND_MAX: u64 = 512 * 1024;

impl<D: Device, C: Clock> Volume<D, C> {
    /// Adds the records around that of `digest` on the device to memory. Of the objects there with
    /// newer metadata and the same `site`, it adds at most `refreshed`.
    pub(crate) async fn bring_beside(&self, digest: Digest, site: u64, refreshed: usize) {
        if !self.shared.may_read(self.clock.now()) {
            return;
        }
        let Some(further) = self.read_beside(digest, site).await else { return };
        for (digest, key) in further.into_iter().take(refreshed) {
            let (expected, options) = (Expected::Key(&key), LookupOptions::default());
            let purpose = Purpose::Neighbour;
            self.lookup(LookupRequest { digest, expected, purpose, options }).await;
        }
    }

    /// Performs the one read. Returns the neighbours of the site that lack their current metadata.
    async fn read_beside(&self, digest: Digest, site: u64) -> Option<Vec<(Digest, Bytes)>> {
        let plan = self.shared.lock().plan_around(digest, AROUND_MAX)?;
        let _window = plan.window.map(|id| Window { shared: &self.shared, id });
        let mut pinned = Pinned::new(&self.shared, plan);
        let (bytes, timing) = self.read_in_turn(pinned.plan().extent).await?;
        pinned.timing(timing);
        let secret = &self.shared.secret;
        let beside = neighbours(secret, pinned.plan(), &bytes);
        let (plan, beside) = pinned.read(beside, bytes.len());
        let further = beside.iter().filter(|one| one.is_refreshed());
        let further: Vec<_> = further.map(|one| (one.digest(), one.name(secret, &bytes))).collect();
        self.admit_prefetched(&plan, beside, &bytes).await;
        let ours = |(digest, name): (Digest, Option<(u64, Bytes)>)| {
            name.filter(|(of, _)| *of == site).map(|(_, key)| (digest, key))
        };
        Some(further.into_iter().filter_map(ours).collect())
    }
}
