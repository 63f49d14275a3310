//! The encoding of a purge in the log.

use bytes::Bytes;

use crate::base::key::{Key, Locality};
use crate::base::labels::Mode;
use crate::base::logged_purge::{LoggedPurge, PurgedTarget};
use crate::base::wire::{Decoder, Encoder};

/// Encoded length in bytes of a purge without its name and locality.
const FIXED_LEN: usize = 15;
/// Encoded length in bytes of a locality.
const LOCALITY_LEN: usize = 16;

/// A purge; `None` for one whose name was too long to log.
pub(super) type Entry = Option<LoggedPurge>;

/// Returns the encoded length in bytes of a purge of `key`.
pub(super) fn len_of(key: &Key) -> usize {
    FIXED_LEN + LOCALITY_LEN + key.as_bytes().len()
}

pub(super) fn encode(entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::new();
    let Some(LoggedPurge { target, mode, at }) = entry else {
        Encoder(&mut bytes).u8(4).zeros(FIXED_LEN - 1);
        return bytes;
    };
    let (kind, label, locality, name) = match target {
        PurgedTarget::Everything => (0, 0, None, &[][..]),
        PurgedTarget::Label { kind, name } => (1, *kind, None, &name[..]),
        PurgedTarget::Prefix(prefix) => (2, 0, None, &prefix[..]),
        PurgedTarget::Key(key) => (3, 0, Some(key.locality()), &key.as_bytes()[..]),
        PurgedTarget::Name(name) => (5, 0, None, &name[..]),
    };
    let mut out = Encoder(&mut bytes);
    out.u8(kind).u8(u8::from(*mode == Mode::Soft)).u8(label).u64(*at).u32(name.len() as u32);
    if let Some(Locality { site, group }) = locality {
        out.u64(site).u64(group);
    }
    out.bytes(name);
    bytes
}

pub(super) fn decode(from: &mut Decoder<'_>) -> Option<Entry> {
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
        _ => return None,
    };
    let mode = if soft == 0 { Mode::Hard } else { Mode::Soft };
    Some(Some(LoggedPurge { target, mode, at }))
}
