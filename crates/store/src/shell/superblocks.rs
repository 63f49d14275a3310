//! The superblocks of a device: chooses the valid copy, and decides whether the device holds a
//! cache of ours.

use std::fmt;

use device::{Device, Extent};

use crate::format::device_layout::{BLOCK, SUPERBLOCK, SUPERBLOCK_NEAR, superblock_far};
use crate::format::superblock::{
    CREATION_MARK, Condition, SUPERBLOCK_LEN, Superblock, SuperblockError,
};
use crate::shell::reader::Reader;

/// The reason why a device was not opened. Unless it is `Unwritable`, nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// There is no superblock of ours: create the cache first.
    NotOurs,
    /// The cache has a different format version.
    Version {
        /// The version found.
        found: u32,
    },
    /// The cache is ours, but both superblock copies are damaged.
    BothDamaged,
    /// The creation of the cache was interrupted: it has no contents.
    Unfinished,
    /// The superblocks cannot be read.
    Unreadable,
    /// The index would take more than half of the memory.
    IndexTooLarge {
        /// Size of the index, in bytes.
        index: u64,
        /// Memory for this device, in bytes.
        memory: u64,
    },
    /// A write that opening requires failed.
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
                "both superblock copies are damaged: at the beginning of the device and near its \
                 end (or at 512 KiB, in caches of format versions 1 to 3)"
            ),
            OpenError::Unfinished => write!(f, "its creation was interrupted"),
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

/// The superblock chosen from the copies on a device.
pub(crate) struct Chosen {
    pub(crate) superblock: Superblock,
    /// True for each of the two copies that is intact.
    pub(crate) whole: [bool; 2],
    /// True if a copy that must exist is bad.
    pub(crate) one_bad: bool,
}

/// Returns the possible positions of superblock copies on a device of `len` bytes: the first copy,
/// the second copy of old caches, the second copy of other caches.
pub fn superblock_extents(len: u64) -> [Extent; 3] {
    [SUPERBLOCK, SUPERBLOCK_NEAR, superblock_far(len)]
        .map(|offset| Extent { offset, len: SUPERBLOCK_LEN as u64 })
}

/// Chooses the best superblock among the copies read from their positions on a device of `len`
/// bytes.
///
/// A second copy counts only at the position that it names. If the first copy is intact, the second
/// counts only if it has the same secret: the third position may hold an object's body in an old
/// cache, or the remains of another cache. Without a first copy the old position takes precedence
/// over the new one, which lies within the clusters of old caches.
pub(crate) fn choose_superblock(len: u64, copies: [Option<&[u8]>; 3]) -> Result<Chosen, OpenError> {
    if copies[0].is_some_and(|first| first == CREATION_MARK) {
        // A second copy belongs to a cache that was given up.
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
    // If two copies of one generation differ, a crash or a failed write came between them. The more
    // pessimistic one counts.
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
        // Its position differs if the device has grown or shrunk since.
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
        // One copy is unreadable, the others lack our magic. It may be ours, so it is left alone.
        None if errors.len() < copies.len() => Err(OpenError::BothDamaged),
        None => Err(OpenError::NotOurs),
    }
}

/// Returns why the superblock copies, as read from [`superblock_extents`] of a device of `len`
/// bytes, do not form a cache of ours that can be opened; `None` if they do.
pub fn judge_superblocks(len: u64, copies: [&[u8]; 3]) -> Option<OpenError> {
    choose_superblock(len, copies.map(Some)).err()
}

/// Returns whether `bytes`, read from [`METADATA_EXTENT`], are metadata of a cache of ours. Its
/// superblocks may be gone.
pub fn is_metadata_of_ours(bytes: &[u8]) -> bool {
    bytes.chunks_exact(BLOCK as usize).any(crate::format::journal::is_block)
}

/// The extent of the bytes that [`is_metadata_of_ours`] examines.
pub const METADATA_EXTENT: Extent =
    Extent { offset: crate::format::device_layout::FIRST_AREA, len: 256 * 1024 };

pub(crate) async fn read_superblocks<D: Device>(device: &D) -> Result<Chosen, OpenError> {
    let reader = Reader { device };
    let len = device.geometry().len;
    let [first, near, far] = superblock_extents(len);
    let copies = [reader.read(first).await, reader.read(near).await, reader.read(far).await];
    choose_superblock(len, copies.each_ref().map(Option::as_deref))
}

/// Returns the last run of a store that the cache on `device` took part in.
pub(crate) async fn last_run<D: Device>(device: &D) -> Result<u64, OpenError> {
    Ok(read_superblocks(device).await?.superblock.run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::superblock::tests::sample;

    #[test]
    fn an_interrupted_creation_leaves_no_cache() {
        let old = sample().encode();
        let copies = [&CREATION_MARK[..], &[0; SUPERBLOCK_LEN], &old];
        assert_eq!(judge_superblocks(64 << 20, copies), Some(OpenError::Unfinished));
    }

    #[test]
    fn the_newer_superblock_wins_and_of_equals_the_unclean_one() {
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
