//! Orderly stop: writes everything, dumps the index and marks the superblock as clean.

use device::{Clock, Device};

use crate::core::{Goal, Status};
use crate::format::device_layout::BLOCK;
use crate::format::index_dump;
use crate::format::label_filters_dump::Head;
use crate::format::superblock::Condition;
use crate::index::IndexKind;
use crate::shell::volume::Volume;
use crate::space::slot_dump;

impl<D: Device, C: Clock> Volume<D, C> {
    /// Prepares the orderly end of the volume (C13): writes everything and dumps the index. Returns
    /// whether the dump was written; `None` if not everything could be written, in which case the
    /// next start recovers as after a kill. The background must be running.
    pub(crate) async fn close(&self) -> Option<bool> {
        let drained = self.reach_despite_stalls(Goal::Drained).await;
        // From here on nothing changes: the background stops, and lookups miss.
        let complete = {
            let mut core = self.shared.lock();
            let Status { online, recovering, .. } = core.status();
            core.go_offline();
            online && !recovering
        };
        // An operation of the background still changes the index and the table when it ends: wait
        // for it.
        let stopped = self.reach_despite_stalls(Goal::BackgroundEnded).await;
        if !stopped || !drained {
            return None;
        }
        let saved = self.unless_stalled(self.save(complete)).await.flatten();
        if saved.is_some()
            && let Some(memory) = self.shared.lock().take_kept()
        {
            memory.remove();
        }
        saved
    }

    /// Writes the last checkpoint and, if the index is complete, the dump that replaces recovery at
    /// the next start. Returns whether the dump was written; `None` if the checkpoint was not.
    async fn save(&self, complete: bool) -> Option<bool> {
        if !self.checkpoint().await {
            return None;
        }
        Some(complete && self.dump().await.is_some())
    }

    /// Writes superblocks that record the stop, as clean if the volume was `dumped`. With
    /// `raises_run` the run number rises, so that an image of the device made earlier is recognised
    /// as outdated.
    pub(crate) async fn name_end(&self, dumped: bool, raises_run: bool) -> bool {
        let mut superblock = self.shared.lock().superblock().clone();
        if dumped {
            superblock.condition = Condition::Clean;
        }
        superblock.run += u64::from(raises_run);
        let writing = self.write_superblocks(&superblock, superblock.places());
        let written = self.unless_stalled(writing).await.flatten();
        written.is_some() && dumped
    }

    async fn dump(&self) -> Option<()> {
        let end = if self.shared.in_clusters {
            self.dump_index().await?
        } else {
            self.dump_records().await?
        };
        // The next start can do without the filters.
        self.dump_label_filters(end).await;
        self.flush().await
    }

    /// Writes the label filters from `at` on, if there is room. Returns `None` if they were not
    /// written.
    async fn dump_label_filters(&self, at: u64) -> Option<()> {
        let (mut head, area, generation) = {
            let mut core = self.shared.lock();
            let generation = core.superblock().generation;
            let (label_filters, version) = core.dump().label_filters()?;
            (Head::new(label_filters, version), self.areas().index_dump, generation)
        };
        if at + head.dump_len() > area.end() {
            return None;
        }
        for (step, checksum) in head.steps.iter().zip(&mut head.checksums) {
            let bytes = step.encode(self.shared.lock().dump().label_filters()?.0);
            *checksum = self.shared.secret.checksum(&bytes);
            self.write_steps(at + step.at, &bytes).await?;
        }
        self.write_steps(at, &head.encode(&self.shared.secret, generation)).await
    }

    /// Writes the list of records as the dump, in steps with a checksum each. Returns the end of
    /// the dump.
    async fn dump_records(&self) -> Option<u64> {
        let area = self.areas().index_dump;
        let bytes = self.shared.lock().dump().records()?;
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

    /// Writes the index as the dump. Returns the end of the dump.
    async fn dump_index(&self) -> Option<u64> {
        let area = self.areas().index_dump;
        let (kind, buckets) = self.shared.lock().dump().index_shape();
        let mut header = index_dump::Header::new(kind, buckets)?;
        // The cache was created for a different index; the next start reads the summaries.
        if header.dump_len() > area.len {
            return None;
        }
        for number in 0..header.checksums.len() {
            let step = header.step(number);
            let mut bytes = vec![0; step.len as usize];
            self.shared.lock().dump().index(header.first_bucket(number), &mut bytes);
            header.checksums[number] = self.shared.secret.checksum_at(number as u64, &bytes);
            self.write_steps(area.offset + BLOCK + step.start, &bytes).await?;
        }
        self.write(area.offset, &header.encode(&self.shared.secret)).await?;
        Some(area.offset + header.dump_len())
    }
}
