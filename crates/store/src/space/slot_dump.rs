//! The records of a slot space at an orderly stop: one list from which both the index and the
//! record table are rebuilt. Metadata come first, then the others in the order of eviction.

use crate::base::digest::Digest;
use crate::base::record::RecordKind;
use crate::base::wire::{Decoder, Encoder};
use crate::index::Index;
use crate::layout::Run;
use crate::space::slots::SlotSpace;
use crate::space::slots::found::{FoundRecord, enter};
use crate::space::slots::record_table::Listed;

/// Size of a unit of the dump, in bytes: the list is padded to a multiple of it.
pub(crate) const UNIT: usize = 64;
/// Size of a record in the list, and of each of its runs after the first, in bytes.
const ENTRY_LEN: usize = 40;
const RUN_LEN: usize = 8;

/// Returns the space for a list of this many objects, some of them in several runs, in bytes.
pub(crate) fn bytes_for(objects: u64) -> u64 {
    (objects + 1024) * (ENTRY_LEN + 2 * RUN_LEN) as u64
}

/// Encodes the list in whole units of the dump. Empties the eviction policy, because the store has
/// ended. Returns `None` while the live records are not known.
pub(crate) fn encode(space: &mut SlotSpace, index: &Index) -> Option<Vec<u8>> {
    if space.assembling() {
        return None;
    }
    let records = space.in_order();
    let mut bytes = Vec::with_capacity(16 + records.len() * ENTRY_LEN);
    Encoder(&mut bytes).u64(records.len() as u64);
    for (record, further) in records {
        let refreshed = record.kind == RecordKind::Object
            && index.get(&record.digest).is_some_and(|slot| slot.refreshed);
        let mut out = Encoder(&mut bytes);
        out.bytes(&record.digest.0).u64(record.sequence);
        out.u32(record.run.first).u32(record.run.len).u32(record.len);
        out.u8(record.kind.code()).u8(u8::from(refreshed));
        out.bytes(&u16::try_from(further.len()).ok()?.to_le_bytes());
        for run in further {
            out.u32(run.first).u32(run.len);
        }
    }
    bytes.resize(bytes.len().next_multiple_of(UNIT), 0);
    Some(bytes)
}

/// Adds the listed records to the empty `space` and `index`. Returns `None` if [`encode`] did not
/// produce the list.
pub(crate) fn decode(bytes: &[u8], space: &mut SlotSpace, index: &mut Index) -> Option<()> {
    let mut from = Decoder(bytes);
    let count = from.u64()?;
    for _ in 0..count {
        let (record, refreshed) = entry(&mut from, space.slots())?;
        let Listed { digest, run, kind, .. } = record.listed;
        let name = if kind == RecordKind::Meta { digest.derive_meta() } else { digest };
        enter(index, space, &name, &record);
        if refreshed {
            index.update_flag(&digest, run.first, true);
            let meta = index.get(&digest.derive_meta())?;
            let sequence = space.listed(meta.position)?.sequence;
            space.refreshed(run.first, sequence);
        }
    }
    space.assembled(false).is_empty().then_some(())
}

/// Returns the number of records in the list of a space of `slots` slots, and the slots that they
/// take.
pub(crate) fn tally(bytes: &[u8], slots: u32) -> Option<(u64, u64)> {
    let mut from = Decoder(bytes);
    let (count, mut used) = (from.u64()?, 0);
    for _ in 0..count {
        let (record, _) = entry(&mut from, slots)?;
        let runs = std::iter::once(&record.listed.run).chain(&record.further);
        used += runs.map(|run| u64::from(run.len)).sum::<u64>();
    }
    Some((count, used))
}

/// Decodes one record of the list, and whether its metadata were replaced.
fn entry(from: &mut Decoder<'_>, slots: u32) -> Option<(FoundRecord, bool)> {
    let digest = Digest(from.array()?);
    let sequence = from.u64()?;
    let run = run(from, slots)?;
    let len = from.u32()?;
    let kind = RecordKind::from_code(from.u8()?)?;
    let refreshed = from.u8()? == 1;
    let further = u16::from_le_bytes(from.array()?);
    let further = (0..further).map(|_| self::run(from, slots)).collect::<Option<_>>()?;
    if len == 0 || len > crate::base::size_class::SizeClass::MAX_LEN {
        return None;
    }
    let listed = Listed { digest, sequence, run, len, kind };
    let (target, labels) = ((0, 0), Vec::new());
    Some((FoundRecord { listed, further, target, unfinished: false, labels }, refreshed))
}

fn run(from: &mut Decoder<'_>, slots: u32) -> Option<Run> {
    let run = Run { first: from.u32()?, len: from.u32()? };
    let end = run.first.checked_add(run.len)?;
    (run.len > 0 && end <= slots).then_some(run)
}
