//! Creating an empty cache on a device.

use std::fmt;

use device::{Device, IoBuf};

use crate::base::keyed_checksum::Secret;
use crate::config::layout_name::LayoutName;
use crate::config::options::{FormatOptions, Options};
use crate::core::{cluster_policy, objects_of};
use crate::format::checkpoint::Checkpoint;
use crate::format::device_layout::{
    Areas, NewSpace, SUPERBLOCK, SUPERBLOCK_NEAR, purge_log_len, superblock_far,
};
use crate::format::label_filters_dump;
use crate::format::superblock::{CREATION_MARK, Condition, SUPERBLOCK_LEN, Superblock};
use crate::index::IndexOptions;
use crate::purge::label_filters::LabelFilters;
use crate::space::restored_tables::SpaceTables;
use crate::space::slot_dump;

/// Random bytes for a new cache: its identity and its secret.
pub type Entropy = [u8; 48];

/// The reason why a cache was not created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// The device is too small.
    TooSmall {
        /// Size of the device, in bytes.
        len: u64,
        /// Size of the smallest cache, in bytes.
        min: u64,
    },
    /// A write failed, with this error.
    Unwritable(String),
    /// The system gave no random bytes, with this error.
    NoEntropy(String),
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatError::TooSmall { len, min } => {
                write!(f, "{len} bytes are too few for a cache, {min} is the least")
            }
            FormatError::Unwritable(error) => write!(f, "cannot write the cache: {error}"),
            FormatError::NoEntropy(error) => {
                write!(f, "the system gives no random bytes: {error}")
            }
        }
    }
}

impl std::error::Error for FormatError {}

/// Parameters of the dump that an orderly stop saves.
pub(super) struct Saved {
    pub(super) index: IndexOptions,
    pub(super) mean_object: u32,
    pub(super) cluster_size: u32,
    /// The cache uses slots instead of clusters.
    pub(super) slots: bool,
    /// The label filters are saved, too.
    pub(super) labels: bool,
}

impl Saved {
    /// Returns the bytes to reserve for the dump: the index or the list of records, and the label
    /// filters.
    pub(super) fn bytes(&self, cache_size: u64) -> u64 {
        let objects = objects_of(self.index, cache_size, self.mean_object);
        let filters = LabelFilters::bytes_for(objects, u64::MAX);
        let clusters = cache_size / u64::from(self.cluster_size);
        let labels = if self.labels { label_filters_dump::bytes_for(filters, clusters) } else { 0 };
        let listed = if self.slots {
            slot_dump::bytes_for(cache_size / u64::from(self.mean_object.max(1)))
        } else {
            self.index.dump_bytes(cache_size, self.mean_object)
        };
        listed + labels
    }
}

/// Creates an empty cache on `device` like [`crate::format()`], with the random bytes `entropy`, so
/// that a simulation repeats bit for bit.
///
/// # Errors
/// The same as those of [`crate::format()`].
pub async fn format_with_seed<D: Device>(
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
    // A former division has a log of the least length.
    let (room, purge_log) =
        if options.superblock_far { (second, purge_log_len(len)) } else { (len, 0) };
    let space = NewSpace { len, room, purge_log };
    let areas = Areas::within(space, cluster_size, dump, slot_size).ok_or(too_small)?;
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
        journal_contained: 0,
    };
    let areas = &superblock.areas;
    let policy = cluster_policy(&Options::default(), areas.clusters);
    let mut space = Vec::new();
    SpaceTables::empty(areas, layout, policy).encode(&mut space);
    let empty = Checkpoint::of_space(2, 1, space);
    let bytes = empty.encode(&superblock.secret);
    let at = areas.checkpoints[empty.slot()].offset;
    write_raw(device, SUPERBLOCK, &CREATION_MARK).await?;
    flush(device).await?;
    write_raw(device, at, &bytes).await?;
    if second != SUPERBLOCK_NEAR {
        // The second copy of an earlier cache would be taken for ours.
        write_raw(device, SUPERBLOCK_NEAR, &[0; SUPERBLOCK_LEN]).await?;
    }
    let [first, second] = superblock.places();
    write_raw(device, second, &superblock.encode()).await?;
    flush(device).await?;
    write_raw(device, first, &superblock.encode()).await?;
    flush(device).await
}

async fn flush<D: Device>(device: &D) -> Result<(), FormatError> {
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
