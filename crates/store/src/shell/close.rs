//! An orderly stop: everything is written, the index dumped, the superblock says so.

use device::{Clock, Device};

use crate::core::Wanted;
use crate::format::device_layout::BLOCK;
use crate::format::index_dump;
use crate::format::label_filters_dump::Head;
use crate::format::superblock::Condition;
use crate::index::IndexKind;
use crate::shell::volume::Volume;
use crate::space::slot_dump;

impl<D: Device, C: Clock> Volume<D, C> {
    /// Ends the volume in order (C13): everything is written, the index dumped, the superblock
    /// says so. False when that was not possible; the next start recovers then as after a kill.
    /// The background must be running.
    pub(crate) async fn close(&self) -> bool {
        let drained = self.drain().await;
        // From here on nothing changes: the background stops, lookups miss.
        let complete = {
            let mut core = self.shared.lock();
            let complete = core.online() && !core.is_recovering();
            core.go_offline();
            complete
        };
        // What the background had begun changes index and table when it ends: wait for that.
        let stopped = || (!self.shared.lock().is_maintained()).then_some(());
        let stopped =
            self.until(Some(self.stall_deadline()), Wanted::Change, stopped).await.is_some();
        if !stopped || !drained || !self.final_checkpoint().await {
            return false;
        }
        let dumped = complete && self.dump().await.is_some();
        let mut superblock = self.shared.lock().superblock().clone();
        if dumped {
            superblock.condition = Condition::Clean;
        }
        self.write_superblocks(&superblock, superblock.places()).await.is_some() && dumped
    }

    async fn final_checkpoint(&self) -> bool {
        let before = self.shared.lock().checkpoints();
        self.checkpoint().await;
        self.shared.lock().checkpoints() > before
    }

    /// Waits until the background has written everything. False when it cannot.
    async fn drain(&self) -> bool {
        let deadline = self.stall_deadline();
        let step = || self.shared.lock().drain(self.now());
        self.until(Some(deadline), Wanted::Change, step).await.unwrap_or(false)
    }

    async fn dump(&self) -> Option<()> {
        let end = if self.shared.lock().has_clusters() {
            self.dump_index().await?
        } else {
            self.dump_records().await?
        };
        // The start does without them.
        self.dump_label_filters(end).await;
        self.flush().await
    }

    /// Writes the filters of borne labels from `at` on, if there is room. `None` when there is none
    /// of them on the device.
    async fn dump_label_filters(&self, at: u64) -> Option<()> {
        let (mut head, area, generation) = {
            let mut core = self.shared.lock();
            let (area, generation) = (core.areas().index_dump, core.superblock().generation);
            let (label_filters, version) = core.label_filters_to_save()?;
            (Head::new(label_filters, version), area, generation)
        };
        if at + head.dump_len() > area.end() {
            return None;
        }
        for (step, checksum) in head.steps.iter().zip(&mut head.checksums) {
            let bytes = step.encode(self.shared.lock().label_filters_to_save()?.0);
            *checksum = self.shared.secret.checksum(&bytes);
            self.write_steps(at + step.at, &bytes).await?;
        }
        self.write_steps(at, &head.encode(&self.shared.secret, generation)).await
    }

    /// Writes the list of records as the dump: in steps with a checksum each. Returns where it
    /// ends.
    async fn dump_records(&self) -> Option<u64> {
        let (area, bytes) = {
            let mut core = self.shared.lock();
            (core.areas().index_dump, core.dump_records()?)
        };
        let mut header =
            index_dump::Header::new(IndexKind::Compact, bytes.len() / slot_dump::UNIT)?;
        if BLOCK + bytes.len() as u64 > area.len {
            return None;
        }
        for number in 0..header.checksums.len() {
            let step = header.step(number);
            let step = &bytes[step.start as usize..(step.start + step.len) as usize];
            header.checksums[number] = self.shared.secret.checksum_at(number as u64, step);
        }
        self.write_steps(area.offset + BLOCK, &bytes).await?;
        self.write(area.offset, &header.encode(&self.shared.secret)).await?;
        Some(area.offset + header.dump_len())
    }

    /// Writes the index as the dump. Returns where it ends.
    async fn dump_index(&self) -> Option<u64> {
        let (area, mut header) = {
            let core = self.shared.lock();
            let (kind, buckets) = core.index_shape();
            (core.areas().index_dump, index_dump::Header::new(kind, buckets)?)
        };
        // The cache was made for another index: the next start reads the summaries.
        if header.dump_len() > area.len {
            return None;
        }
        for number in 0..header.checksums.len() {
            let step = header.step(number);
            let mut bytes = vec![0; step.len as usize];
            self.shared.lock().dump_index(header.first_bucket(number), &mut bytes);
            header.checksums[number] = self.shared.secret.checksum_at(number as u64, &bytes);
            self.write_steps(area.offset + BLOCK + step.start, &bytes).await?;
        }
        self.write(area.offset, &header.encode(&self.shared.secret)).await?;
        Some(area.offset + header.dump_len())
    }
}
