//! The encoding of a purge in the log.

use bytes::Bytes;

use crate::base::key::{Key, Locality};
use crate::base::labels::Mode;
use crate::base::logged_purge::{LoggedPurge, PurgeMaker, PurgedTarget};
use crate::base::wire::{Decoder, Encoder};

/// Encoded length in bytes of a purge without its name and locality.
const FIXED_LEN: usize = 15;
/// Encoded length in bytes of a locality.
const LOCALITY_LEN: usize = 16;

/// First byte of an entry with a maker: a purge follows it.
const MADE: u8 = 6;
/// First byte of an entry that states the number of a maker's last purge.
const REACHED: u8 = 7;
/// Maximum length in bytes of a maker's name.
pub(super) const MAKER_NAME_MAX: usize = u8::MAX as usize;
/// Encoded length in bytes of a maker and a number without the maker's name.
const MAKER_LEN: usize = 18;

/// A purge; `None` for one whose name was too long to log.
pub(super) type Purge = Option<LoggedPurge>;

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A purge that was made at this store.
    Own(Purge),
    /// The purge with this number of another maker.
    Made(PurgeMaker, u64, Purge),
    /// All purges of the maker up to this number precede.
    Reached(PurgeMaker, u64),
}

/// Returns the encoded length in bytes of a purge of `key`.
pub(super) fn len_of(key: &Key) -> usize {
    FIXED_LEN + LOCALITY_LEN + key.as_bytes().len()
}

/// Returns the encoded length in bytes of an entry that states a number of `maker`.
pub(super) fn len_of_reached(maker: &PurgeMaker) -> usize {
    MAKER_LEN + maker.name.len()
}

pub(super) fn encode(entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::new();
    match entry {
        Entry::Own(purge) => encode_purge(purge, &mut bytes),
        Entry::Made(maker, number, purge) => {
            encode_maker(MADE, maker, *number, &mut bytes);
            encode_purge(purge, &mut bytes);
        }
        Entry::Reached(maker, number) => encode_maker(REACHED, maker, *number, &mut bytes),
    }
    bytes
}

fn encode_maker(kind: u8, maker: &PurgeMaker, number: u64, bytes: &mut Vec<u8>) {
    let PurgeMaker { name, incarnation } = maker;
    let mut out = Encoder(bytes);
    out.u8(kind).u8(name.len() as u8).u64(*incarnation).u64(number).bytes(name);
}

fn encode_purge(purge: &Purge, bytes: &mut Vec<u8>) {
    let Some(LoggedPurge { target, mode, at }) = purge else {
        Encoder(bytes).u8(4).zeros(FIXED_LEN - 1);
        return;
    };
    let (kind, label, locality, name) = match target {
        PurgedTarget::Everything => (0, 0, None, &[][..]),
        PurgedTarget::Label { kind, name } => (1, *kind, None, &name[..]),
        PurgedTarget::Prefix(prefix) => (2, 0, None, &prefix[..]),
        PurgedTarget::Key(key) => (3, 0, Some(key.locality()), &key.as_bytes()[..]),
        PurgedTarget::Name(name) => (5, 0, None, &name[..]),
        PurgedTarget::Pattern(pattern) => (8, 0, None, &pattern[..]),
    };
    let mut out = Encoder(bytes);
    out.u8(kind).u8(u8::from(*mode == Mode::Soft)).u8(label).u64(*at).u32(name.len() as u32);
    if let Some(Locality { site, group }) = locality {
        out.u64(site).u64(group);
    }
    out.bytes(name);
}

pub(super) fn decode(from: &mut Decoder<'_>) -> Option<Entry> {
    let kind = *from.0.first()?;
    if ![MADE, REACHED].contains(&kind) {
        return Some(Entry::Own(decode_purge(from)?));
    }
    let (_, len) = (from.u8()?, from.u8()?);
    let (incarnation, number) = (from.u64()?, from.u64()?);
    let name = Bytes::copy_from_slice(from.bytes(usize::from(len))?);
    let maker = PurgeMaker { name, incarnation };
    Some(match kind {
        MADE => Entry::Made(maker, number, decode_purge(from)?),
        _ => Entry::Reached(maker, number),
    })
}

fn decode_purge(from: &mut Decoder<'_>) -> Option<Purge> {
    let (kind, soft, label) = (from.u8()?, from.u8()?, from.u8()?);
    let (at, len) = (from.u64()?, from.u32()? as usize);
    let locality = match kind {
        3 => Some(Locality { site: from.u64()?, group: from.u64()? }),
        _ => None,
    };
    let name = Bytes::copy_from_slice(from.bytes(len)?);
    let target = match (kind, locality) {
        (0, _) => PurgedTarget::Everything,
        (1, _) => PurgedTarget::Label { kind: label, name },
        (2, _) => PurgedTarget::Prefix(name),
        (3, Some(locality)) => PurgedTarget::Key(Key::new(name, locality)?),
        (4, _) => return Some(None),
        (5, _) => PurgedTarget::Name(name),
        (8, _) => PurgedTarget::Pattern(name),
        _ => return None,
    };
    let mode = if soft == 0 { Mode::Hard } else { Mode::Soft };
    Some(Some(LoggedPurge { target, mode, at }))
}
