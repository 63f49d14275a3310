//! The superblock: the description of a cache, in two copies at either end of the device (C3).
//!
//! It names the format, the cache's identity and secret, the division of the device, and whether
//! the cache was stopped in order. A copy is rewritten only while the other one is intact.

use xxhash_rust::xxh3::xxh3_64;

use crate::base::keyed_checksum::{SECRET_LEN, Secret};
use crate::base::wire::{Decoder, Encoder};
use crate::format::device_layout::{Areas, BLOCK, SUPERBLOCK, SUPERBLOCK_NEAR};
use crate::format::purge_log::LogOwner;
use crate::layout::LayoutKind;

/// The first eight bytes of every cache.
pub const MAGIC: [u8; 8] = *b"LARDER\r\n";
/// The version of the format that this code reads and writes.
pub const FORMAT_VERSION: u32 = 4;
/// The oldest version that this code reads. Fields added by later versions are zero in older ones.
/// Version 1 had one layout, whose code is zero. Version 2 had only purges of keys, so the purge
/// count of its checkpoints is zero. Version 3 had the second copy near the first, which a zero
/// offset stands for.
const FORMAT_VERSION_MIN: u32 = 1;
/// Length of one copy in bytes.
pub(crate) const SUPERBLOCK_LEN: usize = 4096;

/// The first block of a device while a cache is being created on it. It is written first, and the
/// superblock replaces it last. A device that begins with it holds no cache, and a cache may be
/// created on it again.
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
    /// Stopped in order: the index dump is complete.
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

#[derive(Clone)]
pub(crate) struct Superblock {
    /// Random identity of the cache.
    pub(crate) uuid: [u8; 16],
    pub(crate) secret: Secret,
    /// Number of times that the cache was opened; the copy with the higher number is the newer.
    pub(crate) generation: u64,
    pub(crate) condition: Condition,
    /// Time of creation, in unix seconds.
    pub(crate) created_at: u64,
    /// Expected mean size of an object in bytes, from which the index is sized.
    pub(crate) mean_object: u32,
    pub(crate) areas: Areas,
    /// Number of the last run of the store in which this cache took part, see
    /// [`Superblock::missed_run`].
    pub(crate) run: u64,
    /// The slot layout; `None` for the layout `cluster`.
    pub(crate) layout: Option<LayoutKind>,
    pub(crate) second: u64,
    /// The last journal block that the newest checkpoint includes; 0 when there is none, or it is
    /// not known. A recovery from an older checkpoint needs all blocks up to this one; otherwise it
    /// cannot tell which records are dead.
    pub(crate) journal_contained: u64,
}

/// The reason why a copy is not a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuperblockError {
    /// The magic is missing: not a cache of this program.
    NotOurs,
    /// A cache in another format version.
    Version(u32),
    /// A cache of this program, but the checksum or a field is wrong.
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
        self.areas.encode_purge_log(&mut Encoder(&mut fields));
        fields.resize(SUPERBLOCK_LEN - 20, 0);
        let mut bytes = Vec::with_capacity(SUPERBLOCK_LEN);
        let mut out = Encoder(&mut bytes);
        out.bytes(&MAGIC).u32(FORMAT_VERSION).u64(xxh3_64(&fields)).bytes(&fields);
        bytes
    }

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
        let mut areas = Areas::decode(&mut from)?;
        let run = from.u64()?;
        let layout = decode_layout(&mut from, &areas)?;
        let second = match from.u64()? {
            0 => SUPERBLOCK_NEAR,
            second => Some(second).filter(|second| second.is_multiple_of(BLOCK))?,
        };
        let journal_contained = from.u64()?;
        areas.decode_purge_log(&mut from)?;
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

    /// Returns the owner of the purge log that is kept on the device.
    pub(crate) fn log_owner(&self) -> LogOwner {
        let Superblock { uuid, generation, areas, .. } = self;
        LogOwner { uuid: *uuid, generation: *generation, area: areas.purge_log }
    }

    /// Returns the offsets of both copies.
    pub(crate) fn places(&self) -> [u64; 2] {
        [SUPERBLOCK, self.second]
    }

    /// Returns whether a store of several devices ran without this one, when `newest` is the last
    /// run of any of them. Removals of that run are missing here, so nothing here may be used.
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

/// Decodes a layout; returns `None` for an unknown one, or for impossible parameters.
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
        let areas = Areas::new(1 << 30, 1 << 20, 1 << 20, None).expect("room");
        let long = Superblock { areas: areas.clone(), ..sample() };
        assert_eq!(Superblock::decode(&long.encode()).expect("whole").areas, areas);
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
