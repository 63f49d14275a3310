//! Opening a cache on a device: decides whether to trust its contents, grows it, plans recovery.

use std::rc::Rc;
use std::sync::Arc;

use device::{Clock, Device};

use crate::base::event::Event;
use crate::base::labels::reading;
use crate::config::options::Options;
use crate::core::{Core, Parts, Recovering, cluster_policy, objects_of};
use crate::format::device_layout::{Areas, SUPERBLOCK_NEAR, superblock_far};
use crate::format::journal::Journal;
use crate::format::purge_log::{FoundEnd, PurgeLog};
use crate::format::staging_memory::StagingMemory;
use crate::format::superblock::{Condition, SUPERBLOCK_LEN, Superblock};
use crate::index::Index;
use crate::purge::label_filters::LabelFilters;
use crate::purge::purges::Purges;
use crate::shell::create::Saved;
use crate::shell::reader::Reader;
use crate::shell::recovery::{Scan, Scanning};
use crate::shell::slot_recovery::SlotScan;
use crate::shell::superblocks::{Chosen, OpenError, read_superblocks};
use crate::shell::volume::{Shared, Volume};
use crate::space::cluster_table::ClusterTable;
use crate::space::clusters::ClusterSpace;
use crate::space::restored_tables::{SpaceTables, close_open_clusters, restore_tables};
use crate::space::slots::SlotSpace;
use crate::space::slots::image::SlotImage;
use crate::space::{Space, slot_dump};

/// The share of one device in a store that is being opened.
pub(crate) struct Share {
    pub(crate) number: usize,
    /// Memory for the device, in bytes.
    pub(crate) memory: u64,
    /// The newest run that any of the store's devices took part in.
    pub(crate) newest_run: u64,
    /// True if it is the first device opened, which keeps the purge log.
    pub(crate) is_first: bool,
}

/// Opens the cache on `device` as part of a store. Also returns the scan that recovery has to
/// perform.
pub(crate) async fn open_volume<D: Device, C: Clock>(
    device: Rc<D>,
    clock: C,
    options: Arc<Options>,
    share: Share,
) -> Result<(Volume<D, C>, Option<Scanning>), OpenError> {
    let Share { number, memory, newest_run, is_first } = share;
    let Chosen { mut superblock, whole, one_bad } = read_superblocks(&*device).await?;
    if one_bad {
        (options.on_event)(Event::SuperblockRestored { device: number });
    }
    let second_first = whole[0];
    let len = device.geometry().len;
    let saved = Saved {
        index: options.index,
        mean_object: superblock.mean_object,
        cluster_size: superblock.areas.cluster_size,
        slots: superblock.layout.is_some(),
        labels: options.labels.is_some(),
    };
    let dump = saved.bytes(len);
    let far = superblock_far(len);
    let grown = superblock.areas.grown(far, dump);
    let near = superblock.second == SUPERBLOCK_NEAR;
    if grown.is_some() || far >= superblock.areas.end() && !near {
        superblock.second = far;
    } else if superblock.second + SUPERBLOCK_LEN as u64 > len {
        superblock.second = SUPERBLOCK_NEAR;
    }
    let leaves_near = near && superblock.second != SUPERBLOCK_NEAR;
    let size = grown.as_ref().unwrap_or(&superblock.areas).end();
    let index = options.index.bytes(size, superblock.mean_object);
    if index > memory / 2 {
        return Err(OpenError::IndexTooLarge { index, memory });
    }
    let opening = Opening {
        device,
        clock,
        options,
        memory,
        number,
        newest_run,
        is_first,
        superblock,
        grown,
        size,
        second_first,
        leaves_near,
    };
    opening.run().await
}

impl<D: Device, C: Clock> Volume<D, C> {
    /// Stages the objects that the last process had staged, if it left them in memory and the
    /// device is `believed`.
    fn restore_kept(&self, believed: bool) {
        let (device, now) = (self.shared.number, self.now());
        let mut core = self.shared.lock();
        let size = core.staging_size();
        let Some(open) = self.shared.options.shared_memory.as_ref().filter(|_| size > 0) else {
            return;
        };
        let Superblock { uuid, generation, .. } = *core.superblock();
        let event = match open(device, &uuid, size) {
            Ok(memory) => {
                let secret = &self.shared.secret;
                let (memory, found) =
                    StagingMemory::take_over(memory, &uuid, generation, believed, secret);
                let objects = core.restore_kept(memory, found, now);
                (objects > 0).then_some(Event::Restaged { device, objects })
            }
            Err(error) => Some(Event::NoSharedMemory { device, error: error.to_string() }),
        };
        drop(core);
        event.into_iter().for_each(|event| self.shared.emit(event));
    }

    /// Writes what must be on the device before anything else: a checkpoint from which the journal
    /// continues, and the superblocks of this opening.
    async fn start(&self, empty: bool, second_first: bool) -> Result<(), OpenError> {
        // Contents that were rejected now must not be trusted later: overwrite both slots.
        let checkpoints = if empty { 2 } else { 1 };
        for _ in 0..checkpoints {
            if !self.checkpoint().await {
                // The superblocks say that the device was given up, or are unchanged.
                return Err(OpenError::Unwritable);
            }
        }
        let superblock = self.shared.lock().superblock().clone();
        let [first, second] = superblock.places();
        let order = if second_first { [second, first] } else { [first, second] };
        let written = self.write_superblocks(&superblock, order).await;
        if self.shared.options.purge_log && written.is_some() {
            // Its generation is one that the superblocks now name.
            self.sync(true).await;
        }
        let online = self.shared.lock().status().online;
        (online && written.is_some()).then_some(()).ok_or(OpenError::Unwritable)
    }

    pub(crate) async fn write_superblocks(
        &self,
        superblock: &Superblock,
        order: [u64; 2],
    ) -> Option<()> {
        let bytes = superblock.encode();
        for offset in order {
            // One after the other, so that one of them is always intact.
            self.write(offset, &bytes).await?;
            self.flush().await?;
        }
        Some(())
    }

    /// Erases a superblock copy that is no longer used, because its content becomes outdated.
    async fn erase_superblock(&self, offset: u64) {
        if self.write(offset, &[0; SUPERBLOCK_LEN]).await.is_some() {
            self.flush().await;
        }
    }
}

/// A cache that is being opened.
struct Opening<D: Device, C: Clock> {
    device: Rc<D>,
    clock: C,
    options: Arc<Options>,
    memory: u64,
    number: usize,
    newest_run: u64,
    is_first: bool,
    superblock: Superblock,
    grown: Option<Areas>,
    /// Size that the cache will use, in bytes.
    size: u64,
    /// True if the first superblock copy is intact: then the second, which may be bad, is written
    /// first.
    second_first: bool,
    /// True if the second copy moves away from its old position.
    leaves_near: bool,
}

/// The state restored from the device.
struct Restored {
    /// True if the tables come from the device; otherwise they are empty.
    believed: bool,
    space: SpaceTables,
    removed: std::collections::BTreeMap<crate::base::digest::Digest, u64>,
    purges: Purges,
    checkpoint: u64,
    next_block: u64,
}

impl<D: Device, C: Clock> Opening<D, C> {
    async fn run(mut self) -> Result<(Volume<D, C>, Option<Scanning>), OpenError> {
        let restored = self.restore().await;
        let believed = restored.believed;
        let clean =
            believed && self.superblock.condition == Condition::Clean && self.grown.is_none();
        let label_filters = if clean { self.load_label_filters().await } else { None };
        let mut next_block = restored.next_block;
        let fresh_block = self.fresh_block();
        self.superblock.generation += 1;
        self.superblock.run = self.newest_run + 1;
        self.superblock.condition = Condition::InUse;
        let grown = self.grown.take();
        if grown.is_some() {
            next_block = fresh_block;
        }
        let old_areas = self.superblock.areas.clone();
        if let Some(grown) = grown {
            self.superblock.areas = grown;
        }
        let purge_log = self.open_purge_log(believed).await;
        let dump = clean.then_some(&old_areas);
        let missing = self.report_missing();
        let (space, index, scan) = match restored.space {
            SpaceTables::Clusters(table) => self.open_clusters(table, dump).await,
            SpaceTables::Slots(image) => self.open_slots(image, dump, missing).await,
        };
        let recovering = match &scan {
            None => None,
            Some(Scanning::Clusters(_)) => Some(Recovering::new(restored.removed, space.table())),
            Some(Scanning::Slots(scan)) => {
                let windows = scan.windows(&self.superblock.areas);
                Some(Recovering::of_slots(restored.removed, windows))
            }
        };
        // After a scan, the filters are rebuilt from its results.
        let label_filters = label_filters.filter(|_| scan.is_none());
        let core = Core::new(Parts {
            label_filters,
            journal: Journal::new(self.superblock.areas.journal, next_block),
            superblock: self.superblock,
            options: self.options,
            space,
            index,
            memory: self.memory,
            checkpoint: restored.checkpoint,
            purges: restored.purges,
            purge_log,
            recovering,
        });
        let shared = Arc::new(Shared::new(core, self.number));
        let volume = Volume::new(shared, self.device, self.clock);
        volume.restore_kept(believed);
        // Only now is it known which labels the staged objects bear.
        volume.shared.lock().limit_purges();
        volume.start(!believed, self.second_first).await?;
        volume.shared.lock().confirm_kept();
        if self.leaves_near {
            volume.erase_superblock(SUPERBLOCK_NEAR).await;
        }
        Ok((volume, scan))
    }

    /// Opens the purge log if this device keeps one: the existing log, or a new one. A log on a
    /// device that currently keeps none is not trusted at the next opening.
    async fn open_purge_log(&self, believed: bool) -> Option<PurgeLog> {
        if !self.options.purge_log || !self.is_first {
            return None;
        }
        let (secret, owner) = (&self.superblock.secret, self.superblock.log_owner());
        let reader = Reader { device: &*self.device };
        let head = if believed { reader.read(FoundEnd::head(&owner)).await } else { None };
        let found = FoundEnd::in_head(secret, &owner, head.as_deref());
        let mut read = Vec::new();
        for extent in found.reads() {
            read.push(reader.read(extent).await);
        }
        let now = self.clock.unix_seconds();
        Some(PurgeLog::resume(secret, &owner, (found, &read), now))
    }

    /// Loads the label filters that the orderly stop saved.
    async fn load_label_filters(&self) -> Option<LabelFilters> {
        let version = reading(self.options.labels.as_deref()?);
        let superblock = &self.superblock;
        let size = superblock.areas.end();
        let objects = objects_of(self.options.index, size, superblock.mean_object);
        let bytes = LabelFilters::bytes_for(objects, self.memory);
        let reader = Reader { device: &*self.device };
        reader.load_label_filters(superblock, version, bytes).await
    }

    /// Opens a space of clusters described by `table`. Its index comes from the dump of an orderly
    /// stop in the areas `dump`, or has to be rebuilt by a scan.
    async fn open_clusters(
        &self,
        mut table: ClusterTable,
        dump: Option<&Areas>,
    ) -> (Space, Index, Option<Scanning>) {
        let mut index = self.empty_index();
        let reader = Reader { device: &*self.device };
        let secret = &self.superblock.secret;
        let loaded = match dump {
            Some(areas) => reader.load_index(secret, areas, &mut index).await,
            None => false,
        };
        if self.superblock.areas.clusters > table.clusters() {
            table.grow(self.superblock.areas.clusters);
        }
        table.retry_bad();
        self.give_up_missing(&mut table);
        // Incarnations of different openings never collide, nor do sequence numbers.
        table.skip_incarnations(self.superblock.generation << 32);
        let scan = (!loaded).then(|| Scanning::Clusters(Scan::new(self.clock.now())));
        let labels = self.options.labels.as_deref().map(reading);
        (Space::Clusters(ClusterSpace::new(table, labels)), index, scan)
    }

    /// Opens a space of slots whose live records `image` describes. They are listed in the dump of
    /// an orderly stop in the areas `dump`, or have to be found by a scan. `missing` is the number
    /// of bytes that the device lacks.
    async fn open_slots(
        &self,
        mut image: SlotImage,
        dump: Option<&Areas>,
        missing: u64,
    ) -> (Space, Index, Option<Scanning>) {
        let areas = &self.superblock.areas;
        let layout = self.superblock.layout.expect("slots belong to a layout");
        let options = self.options.slot_options(layout, self.device.geometry().block);
        let gone = missing.div_ceil(u64::from(areas.granule));
        let slots = areas.slots().saturating_sub(u32::try_from(gone).unwrap_or(u32::MAX)).max(1);
        let new = |image| SlotSpace::new(slots, areas.granule, &options, image);
        if image.is_empty() {
            return (Space::Slots(Box::new(new(None))), self.empty_index(), None);
        }
        image.grow(areas.slots());
        if let Some(dump) = dump {
            let (mut space, mut index) = (new(Some(image.clone())), self.empty_index());
            let reader = Reader { device: &*self.device };
            let bytes = reader.read_dump(&self.superblock.secret, dump).await;
            let listed = bytes.and_then(|b| slot_dump::decode(&b, &mut space, &mut index));
            if listed.is_some() {
                return (Space::Slots(Box::new(space)), index, None);
            }
        }
        let scan = SlotScan::new(image.clone(), slots, self.clock.now());
        let space = Space::Slots(Box::new(new(Some(image))));
        (space, self.empty_index(), Some(Scanning::Slots(scan)))
    }

    fn empty_index(&self) -> Index {
        Index::new(self.options.index, self.size, self.superblock.mean_object)
    }

    /// Reports and returns the number of bytes that the cache was created for but the device lacks.
    fn report_missing(&self) -> u64 {
        let len = self.device.geometry().len;
        let expected = self.superblock.areas.end();
        if len < expected {
            (self.options.on_event)(Event::Shrunken { device: self.number, len, expected });
        }
        expected.saturating_sub(len)
    }

    /// Gives up the clusters beyond the end of a device that has shrunk.
    fn give_up_missing(&self, clusters: &mut ClusterTable) {
        let len = self.device.geometry().len;
        for cluster in (0..clusters.clusters()).rev() {
            if self.superblock.areas.cluster(cluster).end() <= len {
                break;
            }
            clusters.mark_bad(cluster);
        }
    }

    /// Returns the number of a journal block far beyond any in the ring. Call it before the
    /// generation rises, so that no two openings get the same number.
    fn fresh_block(&self) -> u64 {
        (self.superblock.generation + 1) << 32
    }

    /// Restores the tables from the checkpoint and the journal; an empty space if they cannot be
    /// trusted.
    async fn restore(&self) -> Restored {
        let areas = &self.superblock.areas;
        let secret = &self.superblock.secret;
        let layout = self.superblock.layout;
        let clusters = self.grown.as_ref().unwrap_or(areas).clusters;
        let policy = cluster_policy(&self.options, clusters);
        let now = self.clock.unix_seconds() as u32;
        let reader = Reader { device: &*self.device };
        let checkpoints = [
            reader.read_checkpoint(secret, areas.checkpoints[0]).await,
            reader.read_checkpoint(secret, areas.checkpoints[1]).await,
        ];
        let highest = checkpoints.iter().flatten().map(|c| c.number).max().unwrap_or(2);
        let tables = if self.superblock.condition == Condition::Condemned {
            Err("the device failed when the cache was last in use".to_owned())
        } else if self.superblock.missed_run(self.newest_run) {
            Err("the store was in use without this device".to_owned())
        } else {
            match reader.read_steps(areas.journal).await {
                Some(journal) => {
                    restore_tables(&self.superblock, policy, checkpoints, &journal, now)
                }
                None => Err("the journal cannot be read".to_owned()),
            }
        };
        match tables {
            Ok(mut tables) => {
                if let SpaceTables::Clusters(table) = &mut tables.space {
                    close_open_clusters(table);
                }
                Restored {
                    believed: true,
                    space: tables.space,
                    removed: tables.removed,
                    purges: tables.purges,
                    checkpoint: tables.checkpoint,
                    next_block: tables.next_block,
                }
            }
            Err(reason) => {
                (self.options.on_event)(Event::StartedEmpty { device: self.number, reason });
                Restored {
                    believed: false,
                    space: SpaceTables::empty(areas, layout, policy),
                    removed: std::collections::BTreeMap::new(),
                    purges: Purges::new(1),
                    checkpoint: highest,
                    next_block: self.fresh_block(),
                }
            }
        }
    }
}
