//! Creating, opening, growing and closing a cache on a device.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use device::{Clock, Device, Extent, IoBuf};

use crate::base::event::Event;
use crate::base::keyed_checksum::Secret;
use crate::config::layout_name::LayoutName;
use crate::config::options::{FormatOptions, Options};
use crate::core::{Core, Parts, Recovering, Wanted, cluster_policy, objects_of};
use crate::format::bearers_dump::Head;
use crate::format::checkpoint::Checkpoint;
use crate::format::device_layout::{Areas, BLOCK, SUPERBLOCK, SUPERBLOCK_NEAR, superblock_far};
use crate::format::journal::Journal;
use crate::format::superblock::{Condition, SUPERBLOCK_LEN, Superblock, SuperblockError};
use crate::format::{bearers_dump, index_dump};
use crate::index::{Index, IndexKind, IndexOptions};
use crate::purge::bearers::Bearers;
use crate::purge::purges::Purges;
use crate::shell::reader::Reader;
use crate::shell::recovery::{Scan, Scanning};
use crate::shell::slot_recovery::SlotScan;
use crate::shell::volume::{Shared, Volume};
use crate::space::cluster_table::ClusterTable;
use crate::space::clusters::ClusterSpace;
use crate::space::restored_tables::{SpaceTables, close_open_clusters, restore_tables};
use crate::space::slots::SlotSpace;
use crate::space::slots::image::SlotImage;
use crate::space::{Space, slot_dump};

/// Random bytes for a new cache: its identity and its secret.
pub type Entropy = [u8; 48];

/// Why a device was not opened. Nothing was written to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// There is no superblock of ours: create the cache first.
    NotOurs,
    /// The cache has another format version.
    Version {
        /// The one found.
        found: u32,
    },
    /// It is ours, but both superblock copies are damaged.
    BothDamaged,
    /// The superblocks cannot be read.
    Unreadable,
    /// The index would take more than half of the memory.
    IndexTooLarge {
        /// Bytes of the index.
        index: u64,
        /// Bytes of memory for this device.
        memory: u64,
    },
    /// The device did not take what opening has to write.
    Unwritable,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NotOurs => write!(f, "there is no Larder superblock"),
            OpenError::Version { found } => write!(
                f,
                "the cache has format version {found}, this program knows {}",
                crate::format::superblock::FORMAT_VERSION
            ),
            OpenError::BothDamaged => write!(
                f,
                "both superblock copies are damaged, at the begin of it and near its end (or at \
                 512 KiB, in caches of format version 3)"
            ),
            OpenError::Unreadable => write!(f, "the superblocks cannot be read"),
            OpenError::IndexTooLarge { index, memory } => write!(
                f,
                "the index takes {index} bytes, more than half of the {memory} bytes of memory"
            ),
            OpenError::Unwritable => write!(f, "the device does not take writes"),
        }
    }
}

impl std::error::Error for OpenError {}

/// Why a cache was not created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// The device has too few bytes.
    TooSmall {
        /// Bytes that it has.
        len: u64,
        /// Bytes of the smallest cache.
        min: u64,
    },
    /// A write failed.
    Unwritable(String),
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatError::TooSmall { len, min } => {
                write!(f, "{len} bytes are too few for a cache, {min} is the least")
            }
            FormatError::Unwritable(error) => write!(f, "cannot write the cache: {error}"),
        }
    }
}

impl std::error::Error for FormatError {}

/// What an orderly stop saves.
struct Saved {
    index: IndexOptions,
    mean_object: u32,
    cluster_size: u32,
    /// It is a cache of slots.
    slots: bool,
    /// Which labels are borne, too.
    labels: bool,
}

impl Saved {
    /// Bytes to reserve for it: the index, or the list of records, and the filters of labels.
    fn bytes(&self, cache_size: u64) -> u64 {
        let objects = objects_of(self.index, cache_size, self.mean_object);
        let filters = Bearers::bytes_for(objects, u64::MAX);
        let clusters = cache_size / u64::from(self.cluster_size);
        let labels = if self.labels { bearers_dump::bytes_for(filters, clusters) } else { 0 };
        let listed = if self.slots {
            slot_dump::bytes_for(cache_size / u64::from(self.mean_object.max(1)))
        } else {
            self.index.dump_bytes(cache_size, self.mean_object)
        };
        listed + labels
    }
}

/// Creates an empty cache on `device`, whatever was there before.
pub async fn format<D: Device>(
    device: &D,
    options: &FormatOptions,
    entropy: Entropy,
    unix_seconds: u64,
) -> Result<(), FormatError> {
    let len = device.geometry().len;
    let too_small = FormatError::TooSmall { len, min: crate::base::limits::CACHE_SIZE_MIN };
    let cluster_size = options.cluster_size_for(len);
    let mean_object = options.mean_object_for(len);
    let slots = options.layout != LayoutName::Cluster;
    let (index, labels) = (options.index, options.labels);
    let dump = Saved { index, mean_object, cluster_size, slots, labels }.bytes(len);
    let slot_size = slots.then_some(options.slot_size);
    let second = if options.superblock_far { superblock_far(len) } else { SUPERBLOCK_NEAR };
    let room = if options.superblock_far { second } else { len };
    let areas = Areas::within(len, room, cluster_size, dump, slot_size).ok_or(too_small)?;
    let layout = options.slot_layout(areas.slots());
    let (uuid, secret) = split(&entropy);
    let superblock = Superblock {
        uuid,
        secret,
        generation: 1,
        condition: Condition::InUse,
        created_at: unix_seconds,
        mean_object,
        areas,
        run: 0,
        layout,
        second,
    };
    let areas = &superblock.areas;
    let policy = cluster_policy(&Options::default(), areas.clusters);
    let mut space = Vec::new();
    SpaceTables::empty(areas, layout, policy).encode(&mut space);
    let empty = Checkpoint::of_space(2, 1, space);
    let bytes = empty.encode(&superblock.secret);
    let at = areas.checkpoints[empty.slot()].offset;
    write_raw(device, at, &bytes).await?;
    device.flush().await.map_err(|error| FormatError::Unwritable(error.to_string()))?;
    if second != SUPERBLOCK_NEAR {
        // That of another cache, which was here before, would be taken for ours.
        write_raw(device, SUPERBLOCK_NEAR, &[0; SUPERBLOCK_LEN]).await?;
    }
    for offset in superblock.places() {
        write_raw(device, offset, &superblock.encode()).await?;
    }
    device.flush().await.map_err(|error| FormatError::Unwritable(error.to_string()))
}

pub(crate) async fn write_raw<D: Device>(
    device: &D,
    offset: u64,
    bytes: &[u8],
) -> Result<(), FormatError> {
    let mut buf = IoBuf::zeroed(bytes.len());
    buf.copy_from_slice(bytes);
    let result = device.write(offset, buf.freeze()).await;
    result.map_err(|error| FormatError::Unwritable(error.to_string()))
}

fn split(entropy: &Entropy) -> ([u8; 16], Secret) {
    let (mut uuid, mut seed) = ([0; 16], [0; 32]);
    uuid.copy_from_slice(&entropy[..16]);
    seed.copy_from_slice(&entropy[16..]);
    (uuid, Secret::new(seed))
}

/// What the superblocks of a device say.
pub(crate) struct Chosen {
    pub(crate) superblock: Superblock,
    /// Whether the first copy is whole, and the second.
    pub(crate) whole: [bool; 2],
    /// A copy is bad that must have been there.
    pub(crate) one_bad: bool,
}

/// Where copies of a superblock may be on a device of `len` bytes: the first, the second of old
/// caches, the second of others.
pub fn superblock_extents(len: u64) -> [Extent; 3] {
    [SUPERBLOCK, SUPERBLOCK_NEAR, superblock_far(len)]
        .map(|offset| Extent { offset, len: SUPERBLOCK_LEN as u64 })
}

/// The best of the copies of a superblock, as read from their places on a device of `len` bytes.
///
/// A second copy counts where it says that it is. Behind a whole first one it counts when it has
/// the same secret: in an old cache the body of an object may lie in the third place, or what is
/// left of another cache. Without a first one the old place comes before the new one, which is
/// within the clusters of caches of that time.
pub(crate) fn choose_superblock(len: u64, copies: [Option<&[u8]>; 3]) -> Result<Chosen, OpenError> {
    let decoded = copies.map(|copy| copy.map(Superblock::decode));
    let places = superblock_extents(len).map(|extent| extent.offset);
    let found = decoded.iter().zip(places).enumerate().filter_map(|(number, (copy, place))| {
        let superblock = copy.as_ref()?.as_ref().ok()?;
        (number == 0 || superblock.second == place).then_some((number, superblock))
    });
    let found: Vec<(usize, &Superblock)> = found.collect();
    let ours = |superblock: &Superblock| {
        found.first().is_some_and(|(_, first)| first.secret.seed() == superblock.secret.seed())
    };
    let whole: Vec<&(usize, &Superblock)> =
        found.iter().filter(|(_, superblock)| ours(superblock)).collect();
    // Of two copies of one generation that differ, a crash or a failed write came between them:
    // the one that promises less counts.
    let newest = whole.iter().max_by_key(|(_, superblock)| {
        let doubt = match superblock.condition {
            Condition::Clean => 0,
            Condition::InUse => 1,
            Condition::Condemned => 2,
        };
        (superblock.generation, doubt)
    });
    if let Some((_, newest)) = newest {
        let first = whole.iter().any(|(number, _)| *number == 0);
        let second = whole.iter().any(|(number, _)| *number > 0);
        // It is elsewhere where the device has grown or shrunk since.
        let findable = places.contains(&newest.second);
        return Ok(Chosen {
            superblock: (*newest).clone(),
            whole: [first, second],
            one_bad: !first || (findable && !second),
        });
    }
    if decoded.iter().all(Option::is_none) {
        return Err(OpenError::Unreadable);
    }
    let errors: Vec<SuperblockError> =
        decoded.iter().flatten().filter_map(|copy| copy.as_ref().err().copied()).collect();
    let version = errors.iter().find_map(|error| match error {
        SuperblockError::Version(found) => Some(*found),
        _ => None,
    });
    match version {
        Some(found) => Err(OpenError::Version { found }),
        None if errors.contains(&SuperblockError::Damaged) => Err(OpenError::BothDamaged),
        // An unreadable copy and others without our magic: it may be ours, so it is left alone.
        None if errors.len() < copies.len() => Err(OpenError::BothDamaged),
        None => Err(OpenError::NotOurs),
    }
}

/// Whether the copies of a superblock, as read from [`superblock_extents`] of a device of `len`
/// bytes, belong to a cache of ours that can be opened; `None`: yes.
pub fn judge_superblocks(len: u64, copies: [&[u8]; 3]) -> Option<OpenError> {
    choose_superblock(len, copies.map(Some)).err()
}

/// Whether `bytes`, the first ones of the metadata of a cache if it is one, are of one of ours: its
/// superblocks may be gone.
pub fn is_metadata_of_ours(bytes: &[u8]) -> bool {
    bytes.chunks_exact(BLOCK as usize).any(crate::format::journal::is_block)
}

/// Where those bytes are.
pub const METADATA_EXTENT: Extent =
    Extent { offset: crate::format::device_layout::FIRST_AREA, len: 256 * 1024 };

/// Reads the superblocks of `device`.
pub(crate) async fn read_superblocks<D: Device>(device: &D) -> Result<Chosen, OpenError> {
    let reader = Reader { device };
    let len = device.geometry().len;
    let [first, near, far] = superblock_extents(len);
    let copies = [reader.read(first).await, reader.read(near).await, reader.read(far).await];
    choose_superblock(len, copies.each_ref().map(Option::as_deref))
}

/// The last run of a store that the cache on `device` was a part of.
pub(crate) async fn last_run<D: Device>(device: &D) -> Result<u64, OpenError> {
    Ok(read_superblocks(device).await?.superblock.run)
}

/// Which device of a store is opened, and with what.
pub(crate) struct Share {
    /// Number of the device.
    pub(crate) number: usize,
    /// Bytes of memory for it.
    pub(crate) memory: u64,
    /// The newest run that any of the store's devices was a part of.
    pub(crate) newest_run: u64,
}

/// Opens the cache on `device` as a part of a store. Returns what recovery has to read, too.
pub(crate) async fn open_volume<D: Device, C: Clock>(
    device: Rc<D>,
    clock: C,
    options: Arc<Options>,
    share: Share,
) -> Result<(Volume<D, C>, Option<Scanning>), OpenError> {
    let Share { number, memory, newest_run } = share;
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
        superblock,
        grown,
        size,
        second_first,
        leaves_near,
    };
    opening.run().await
}

impl<D: Device, C: Clock> Volume<D, C> {
    /// Writes what must be on the device before anything else: a checkpoint from which the
    /// journal goes on, and the superblocks of this opening.
    async fn start(&self, empty: bool, second_first: bool) -> Result<(), OpenError> {
        self.checkpoint().await;
        if empty {
            // What was not believed today must not be believed tomorrow: both slots are new.
            self.checkpoint().await;
        }
        let superblock = self.shared.lock().superblock().clone();
        let [first, second] = superblock.places();
        let order = if second_first { [second, first] } else { [first, second] };
        let written = self.write_superblocks(&superblock, order).await;
        let online = self.shared.lock().online();
        (online && written.is_some()).then_some(()).ok_or(OpenError::Unwritable)
    }

    pub(crate) async fn write_superblocks(
        &self,
        superblock: &Superblock,
        order: [u64; 2],
    ) -> Option<()> {
        let bytes = superblock.encode();
        for offset in order {
            // One after the other: there is always a whole one.
            self.write(offset, &bytes).await?;
            self.flush().await?;
        }
        Some(())
    }

    /// Erases a copy that is none any more: what it says gets old.
    async fn erase_superblock(&self, offset: u64) {
        if self.write(offset, &[0; SUPERBLOCK_LEN]).await.is_some() {
            self.flush().await;
        }
    }

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
        self.dump_bearers(end).await;
        self.flush().await
    }

    /// Writes the filters of borne labels from `at` on, if there is room. `None` when there is none
    /// of them on the device.
    async fn dump_bearers(&self, at: u64) -> Option<()> {
        let (mut head, area, generation) = {
            let mut core = self.shared.lock();
            let (area, generation) = (core.areas().index_dump, core.superblock().generation);
            let (bearers, version) = core.bearers_to_save()?;
            (Head::new(bearers, version), area, generation)
        };
        if at + head.dump_len() > area.end() {
            return None;
        }
        for (step, checksum) in head.steps.iter().zip(&mut head.checksums) {
            let bytes = step.encode(self.shared.lock().bearers_to_save()?.0);
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

/// A cache on its way to being open.
struct Opening<D: Device, C: Clock> {
    device: Rc<D>,
    clock: C,
    options: Arc<Options>,
    memory: u64,
    number: usize,
    newest_run: u64,
    superblock: Superblock,
    grown: Option<Areas>,
    /// Bytes that the cache will use.
    size: u64,
    /// The first superblock copy is whole: the second, which may be bad, is written before it.
    second_first: bool,
    /// The second copy had the old place, and leaves it.
    leaves_near: bool,
}

/// What was found on the device.
struct Restored {
    /// The tables come from the device; otherwise they are empty.
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
        let bearers = if clean { self.load_bearers().await } else { None };
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
        let dump = clean.then_some(&old_areas);
        let missing = self.tell_missing();
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
        // What a scan finds is what there is.
        let bearers = bearers.filter(|_| scan.is_none());
        let core = Core::new(Parts {
            bearers,
            journal: Journal::new(self.superblock.areas.journal, next_block),
            superblock: self.superblock,
            options: self.options,
            space,
            index,
            memory: self.memory,
            checkpoint: restored.checkpoint,
            purges: restored.purges,
            recovering,
        });
        let shared = Arc::new(Shared::new(core, self.number));
        let volume = Volume::new(shared, self.device, self.clock);
        volume.start(!believed, self.second_first).await?;
        if self.leaves_near {
            volume.erase_superblock(SUPERBLOCK_NEAR).await;
        }
        Ok((volume, scan))
    }

    /// The filters of borne labels as the orderly stop left them.
    async fn load_bearers(&self) -> Option<Bearers> {
        let version = self.options.labels.as_deref()?.version();
        let superblock = &self.superblock;
        let size = superblock.areas.end();
        let objects = objects_of(self.options.index, size, superblock.mean_object);
        let bytes = Bearers::bytes_for(objects, self.memory);
        let reader = Reader { device: &*self.device };
        reader.load_bearers(superblock, version, bytes).await
    }

    /// A space of clusters as `table` has it, its index from the dump of an orderly stop in the
    /// areas `dump`, or to be found by a scan.
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
        // Incarnations of different openings never meet, as sequence numbers do not.
        table.skip_incarnations(self.superblock.generation << 32);
        let scan = (!loaded).then(|| Scanning::Clusters(Scan::new(self.clock.now())));
        let labels = self.options.labels.as_deref().map(|labels| labels.version());
        (Space::Clusters(ClusterSpace::new(table, labels)), index, scan)
    }

    /// A space of slots in which lives what `image` says: listed from the dump of an orderly stop
    /// in the areas `dump`, or to be found by a scan. `missing` bytes of the device are not there.
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

    /// Bytes that the cache was made for and the device does not have; tells of them.
    fn tell_missing(&self) -> u64 {
        let len = self.device.geometry().len;
        let expected = self.superblock.areas.end();
        if len < expected {
            (self.options.on_event)(Event::Shrunken { device: self.number, len, expected });
        }
        expected.saturating_sub(len)
    }

    /// Clusters beyond the end of a device that has shrunk are not used.
    fn give_up_missing(&self, clusters: &mut ClusterTable) {
        let len = self.device.geometry().len;
        for cluster in (0..clusters.clusters()).rev() {
            if self.superblock.areas.cluster(cluster).end() <= len {
                break;
            }
            clusters.mark_bad(cluster);
        }
    }

    /// The number of a journal block far beyond whatever the ring may hold; asked for before the
    /// generation rises, so that no two openings get the same.
    fn fresh_block(&self) -> u64 {
        (self.superblock.generation + 1) << 32
    }

    /// What checkpoint and journal say; an empty space when nothing can be believed.
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
                    restore_tables(secret, areas, layout, policy, checkpoints, &journal, now)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::superblock::tests::sample;

    #[test]
    fn of_two_copies_the_newer_counts_and_of_equals_the_more_doubtful() {
        let conditions = [Condition::Clean, Condition::InUse, Condition::Condemned];
        for (first, one) in conditions.into_iter().enumerate() {
            for (second, other) in conditions.into_iter().enumerate() {
                for newer in [0, 1] {
                    let a = Superblock { condition: one, generation: 3, ..sample() }.encode();
                    let b = Superblock { condition: other, generation: 3 + newer, ..sample() };
                    let copies = [Some(&a[..]), None, Some(&b.encode()[..])];
                    let copies = copies.map(|copy| copy.map(<[u8]>::to_vec));
                    let chosen =
                        choose_superblock(64 << 20, copies.each_ref().map(Option::as_deref));
                    let Chosen { superblock: chosen, one_bad: bad, .. } = chosen.unwrap();
                    let expected = if newer > 0 { second } else { first.max(second) };
                    assert_eq!(chosen.condition, conditions[expected]);
                    assert!(!bad);
                }
            }
        }
    }
}
