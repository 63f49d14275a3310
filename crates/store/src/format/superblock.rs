//! The superblock: the description of a cache, in two copies at either end of the device (C3).
//!
//! It names the format, the cache's identity and secret, the division of the device, and whether
//! the cache was stopped in order. A copy is rewritten only while the other one is whole.

use xxhash_rust::xxh3::xxh3_64;

use crate::base::keyed_checksum::{SECRET_LEN, Secret};
use crate::base::wire::{Decoder, Encoder};
use crate::format::device_layout::{Areas, BLOCK, SUPERBLOCK, SUPERBLOCK_NEAR};
use crate::layout::LayoutKind;

/// The first eight bytes of every cache.
pub const MAGIC: [u8; 8] = *b"LARDER\r\n";
/// The version of the format that this code reads and writes.
pub const FORMAT_VERSION: u32 = 4;
/// The oldest version that this code reads. It knew one layout, whose code is zero; the second
/// knew purges of keys alone, whose count in a checkpoint is zero; the third had its second copy
/// where the fourth says so with a zero.
const FORMAT_VERSION_MIN: u32 = 1;
/// Bytes of one copy.
pub(crate) const SUPERBLOCK_LEN: usize = 4096;

/// The first block of a device while a cache is being created on it: it is written first, and the
/// superblock takes its place last. What begins so holds nothing, and may be created anew.
pub static CREATION_MARK: [u8; SUPERBLOCK_LEN] = creation_mark();

const fn creation_mark() -> [u8; SUPERBLOCK_LEN] {
    let text = *b"LARDER: a creation has begun and not ended\n";
    let mut block = [0; SUPERBLOCK_LEN];
    block.split_at_mut(text.len()).0.copy_from_slice(&text);
    block
}

/// The state in which the cache was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// In use, or killed.
    InUse,
    /// Stopped in order: the index dump is whole.
    Clean,
    /// Deletions could not be written: nothing on the device may be used.
    Condemned,
}

impl Condition {
    fn code(self) -> u8 {
        match self {
            Condition::InUse => 0,
            Condition::Clean => 1,
            Condition::Condemned => 2,
        }
    }

    fn from_code(code: u8) -> Option<Condition> {
        [Condition::InUse, Condition::Clean, Condition::Condemned]
            .into_iter()
            .find(|condition| condition.code() == code)
    }
}

/// The contents of a superblock.
#[derive(Clone)]
pub(crate) struct Superblock {
    /// Identity of the cache, random.
    pub(crate) uuid: [u8; 16],
    pub(crate) secret: Secret,
    /// Counts the openings of the cache; the copy with the higher one is the newer.
    pub(crate) generation: u64,
    pub(crate) condition: Condition,
    /// Unix seconds of creation.
    pub(crate) created_at: u64,
    /// Expected mean object in bytes: sizes the index.
    pub(crate) mean_object: u32,
    pub(crate) areas: Areas,
    /// Counts the runs of the store that this cache was a part of; see [`Superblock::missed_run`].
    pub(crate) run: u64,
    /// The layout, when it is one of slots; `None`: `cluster`.
    pub(crate) layout: Option<LayoutKind>,
    /// Offset of the second copy.
    pub(crate) second: u64,
    /// The last journal block that the newest checkpoint contains; 0: none, or not known. A
    /// recovery from an older checkpoint needs all blocks up to this one: else it cannot tell what
    /// is dead.
    pub(crate) journal_contained: u64,
}

/// Why a copy is not a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuperblockError {
    /// The magic is not there: not a cache of ours.
    NotOurs,
    /// A cache in another format version.
    Version(u32),
    /// Ours, but the checksum or a field is wrong.
    Damaged,
}

impl Superblock {
    /// Encodes one copy, [`SUPERBLOCK_LEN`] bytes: magic, version, checksum of the rest, fields.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut fields = Vec::with_capacity(SUPERBLOCK_LEN);
        let mut out = Encoder(&mut fields);
        out.bytes(&self.uuid).bytes(self.secret.seed()).u64(self.generation);
        out.u64(self.created_at).u32(self.mean_object).u8(self.condition.code()).zeros(3);
        self.areas.encode(&mut out);
        Encoder(&mut fields).u64(self.run);
        encode_layout(self.layout, &mut fields);
        Encoder(&mut fields).u64(self.second).u64(self.journal_contained);
        fields.resize(SUPERBLOCK_LEN - 20, 0);
        let mut bytes = Vec::with_capacity(SUPERBLOCK_LEN);
        let mut out = Encoder(&mut bytes);
        out.bytes(&MAGIC).u32(FORMAT_VERSION).u64(xxh3_64(&fields)).bytes(&fields);
        bytes
    }

    /// Reads one copy.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Superblock, SuperblockError> {
        let mut from = Decoder(bytes);
        if from.bytes(8) != Some(&MAGIC) {
            return Err(SuperblockError::NotOurs);
        }
        let version = from.u32().ok_or(SuperblockError::Damaged)?;
        if !(FORMAT_VERSION_MIN..=FORMAT_VERSION).contains(&version) {
            return Err(SuperblockError::Version(version));
        }
        Self::decode_fields(from).ok_or(SuperblockError::Damaged)
    }

    fn decode_fields(mut from: Decoder<'_>) -> Option<Superblock> {
        let checksum = from.u64()?;
        let fields = from.bytes(SUPERBLOCK_LEN - 20)?;
        if xxh3_64(fields) != checksum {
            return None;
        }
        let mut from = Decoder(fields);
        let uuid = from.array()?;
        let secret = Secret::new(from.array::<SECRET_LEN>()?);
        let generation = from.u64()?;
        let created_at = from.u64()?;
        let mean_object = from.u32()?;
        let condition = Condition::from_code(from.u8()?)?;
        from.bytes(3)?;
        let areas = Areas::decode(&mut from)?;
        let run = from.u64()?;
        let layout = decode_layout(&mut from, &areas)?;
        let second = match from.u64()? {
            0 => SUPERBLOCK_NEAR,
            second => Some(second).filter(|second| second.is_multiple_of(BLOCK))?,
        };
        let journal_contained = from.u64()?;
        Some(Superblock {
            uuid,
            secret,
            generation,
            condition,
            created_at,
            mean_object,
            areas,
            run,
            layout,
            second,
            journal_contained,
        })
    }

    /// Offsets of both copies.
    pub(crate) fn places(&self) -> [u64; 2] {
        [SUPERBLOCK, self.second]
    }

    /// Returns whether a store of several devices ran without this one, when `newest` is the last
    /// run of any of them: removals of that run are missing here, so nothing here may be used.
    pub(crate) fn missed_run(&self, newest: u64) -> bool {
        self.run < newest && self.generation > 1
    }
}

/// Encodes a layout as a code and two parameters.
fn encode_layout(layout: Option<LayoutKind>, fields: &mut Vec<u8>) {
    let (code, first, second) = match layout {
        None => (0, 0, 0),
        Some(LayoutKind::Stream { runs_max }) => (1, runs_max, 0),
        Some(LayoutKind::Unified) => (2, 0, 0),
        Some(LayoutKind::Buddy { threshold, region }) => (3, threshold, region),
    };
    Encoder(fields).u32(code).u32(first).u32(second);
}

/// Decodes a layout; returns `None` for one that is not known, or parameters that it cannot have.
fn decode_layout(from: &mut Decoder<'_>, areas: &Areas) -> Option<Option<LayoutKind>> {
    let (code, first, second) = (from.u32()?, from.u32()?, from.u32()?);
    if code > 0 && u64::from(areas.slots()) * 2 < u64::from(second) {
        return None;
    }
    let region = first > 0 && first <= second && second <= 65_528 && second.is_multiple_of(8);
    match code {
        0 => Some(None),
        1 if first > 0 => Some(Some(LayoutKind::Stream { runs_max: first })),
        2 => Some(Some(LayoutKind::Unified)),
        3 if region => Some(Some(LayoutKind::Buddy { threshold: first, region: second })),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::format::device_layout::superblock_far;

    pub(crate) fn sample() -> Superblock {
        Superblock {
            uuid: [7; 16],
            secret: Secret::new([9; 32]),
            generation: 3,
            condition: Condition::Clean,
            created_at: 1_700_000_000,
            mean_object: 12 * 1024,
            areas: Areas::new(64 << 20, 64 * 1024, 1 << 16, None).expect("room"),
            run: 2,
            layout: None,
            second: superblock_far(64 << 20),
            journal_contained: 0,
        }
    }

    #[test]
    fn a_copy_round_trips() {
        let bytes = Superblock { journal_contained: 40, ..sample() }.encode();
        assert_eq!(bytes.len(), SUPERBLOCK_LEN);
        let back = Superblock::decode(&bytes).expect("whole");
        assert_eq!(back.generation, 3);
        assert_eq!(back.condition, Condition::Clean);
        assert_eq!(back.areas, sample().areas);
        assert_eq!(back.secret.seed(), &[9; 32]);
        assert_eq!(back.places(), [0, (64 << 20) - (64 << 10)]);
        assert!(back.missed_run(3) && !back.missed_run(2));
        assert_eq!(back.journal_contained, 40);
    }

    #[test]
    fn damage_version_and_strangers_are_told_apart() {
        let good = sample().encode();
        let mut bad = good.clone();
        bad[100] ^= 1;
        assert_eq!(Superblock::decode(&bad).err(), Some(SuperblockError::Damaged));
        let mut newer = good.clone();
        newer[8] = 9;
        assert_eq!(Superblock::decode(&newer).err(), Some(SuperblockError::Version(9)));
        assert_eq!(Superblock::decode(&[0; 4096]).err(), Some(SuperblockError::NotOurs));
        assert_eq!(Superblock::decode(&good[..50]).err(), Some(SuperblockError::Damaged));
    }
}
