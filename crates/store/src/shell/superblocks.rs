//! The superblocks of a device: which copy counts, and whether it is a cache of ours at all.

use std::fmt;

use device::{Device, Extent};

use crate::format::device_layout::{BLOCK, SUPERBLOCK, SUPERBLOCK_NEAR, superblock_far};
use crate::format::superblock::{
    CREATION_MARK, Condition, SUPERBLOCK_LEN, Superblock, SuperblockError,
};
use crate::shell::reader::Reader;

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
    /// A creation of a cache has begun and not ended: there is nothing on it.
    Unfinished,
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
            OpenError::Unfinished => write!(f, "its creation was cut short"),
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

/// What the superblocks of a device say.
pub(crate) struct Chosen {
    pub(crate) superblock: Superblock,
    /// Whether the first copy is whole, and the second.
    pub(crate) whole: [bool; 2],
    /// A copy is bad that must have been there.
    pub(crate) one_bad: bool,
}

/// Returns where copies of a superblock may be on a device of `len` bytes: the first, the second of
/// old caches, the second of others.
pub fn superblock_extents(len: u64) -> [Extent; 3] {
    [SUPERBLOCK, SUPERBLOCK_NEAR, superblock_far(len)]
        .map(|offset| Extent { offset, len: SUPERBLOCK_LEN as u64 })
}

/// Chooses the best of the copies of a superblock, as read from their places on a device of `len`
/// bytes.
///
/// A second copy counts where it says that it is. Behind a whole first one it counts when it has
/// the same secret: in an old cache the body of an object may lie in the third place, or what is
/// left of another cache. Without a first one the old place comes before the new one, which is
/// within the clusters of caches of that time.
pub(crate) fn choose_superblock(len: u64, copies: [Option<&[u8]>; 3]) -> Result<Chosen, OpenError> {
    if copies[0].is_some_and(|first| first == CREATION_MARK) {
        // A second copy is that of a cache that was given up.
        return Err(OpenError::Unfinished);
    }
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

/// Returns whether the copies of a superblock, as read from [`superblock_extents`] of a device of
/// `len` bytes, belong to a cache of ours that can be opened; `None`: yes.
pub fn judge_superblocks(len: u64, copies: [&[u8]; 3]) -> Option<OpenError> {
    choose_superblock(len, copies.map(Some)).err()
}

/// Returns whether `bytes`, the first ones of the metadata of a cache if it is one, are of one of
/// ours: its superblocks may be gone.
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

/// Returns the last run of a store that the cache on `device` was a part of.
pub(crate) async fn last_run<D: Device>(device: &D) -> Result<u64, OpenError> {
    Ok(read_superblocks(device).await?.superblock.run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::superblock::tests::sample;

    #[test]
    fn what_a_creation_left_is_no_cache_whatever_was_there_before() {
        let old = sample().encode();
        let copies = [&CREATION_MARK[..], &[0; SUPERBLOCK_LEN], &old];
        assert_eq!(judge_superblocks(64 << 20, copies), Some(OpenError::Unfinished));
    }

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
