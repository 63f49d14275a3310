//! Inspection of a space of slots. Reads the device from its first slot to its last and applies the
//! same rules as recovery, because nothing else lists the live records.

use bytes::Bytes;
use device::{Device, Extent};

use super::{InspectError, Inspector, ObjectReport, RecordExtents, SlotReport, VerifyReport};
use crate::base::digest::Digester;
use crate::base::record::{Found, Outline, Place, RecordKind};
use crate::base::size_class::SizeClass;
use crate::format::superblock::Condition;
use crate::layout::Run;
use crate::shell::slot_recovery::{WINDOW, read_runs, run_of};
use crate::space::restored_tables::{SpaceTables, Tables};
use crate::space::slot_dump;

/// The content of a slot where a record may start.
enum Met {
    /// A live record: its runs, its bytes up to the end of its slots, and its decoded form.
    Live(Vec<Run>, Bytes, Found),
    /// A record that is no longer live.
    Dead,
    /// A record is expected there but damaged; describes the problem.
    Damaged(&'static str),
}

impl<D: Device> Inspector<'_, D> {
    /// Returns the occupancy of the slots at the orderly stop. Returns `None` if the cache was not
    /// stopped in order or is in use; then only [`Inspector::verify`] can tell.
    pub async fn slots(&self) -> Option<SlotReport> {
        if self.superblock.condition != Condition::Clean {
            return None;
        }
        let areas = self.areas();
        let bytes = self.reader.read_dump(&self.superblock.secret, areas).await?;
        let (records, used) = slot_dump::tally(&bytes, areas.slots())?;
        Some(SlotReport { records, used })
    }

    /// Implements [`Inspector::find`]: the youngest record of the key counts.
    pub(super) async fn find_in_slots(
        &self,
        key: &[u8],
    ) -> Result<Option<ObjectReport>, InspectError> {
        let digest = Digester::new(&self.superblock.secret.digest_key()).key(key);
        let mut object: Option<(u32, usize, Bytes, Found)> = None;
        let mut metas: Vec<(u64, u64, Bytes)> = Vec::new();
        self.scan(
            |_, _| {},
            |position, met| {
                let Met::Live(runs, bytes, found) = met else { return };
                let header = &found.header;
                if header.digest != digest {
                    return;
                }
                let newest = object.as_ref().is_none_or(|o| o.3.header.sequence < header.sequence);
                match header.kind {
                    RecordKind::Meta => {
                        let meta = bytes.slice(found.meta.clone());
                        metas.push((header.sequence, header.object_id, meta));
                    }
                    RecordKind::Object if newest && bytes[found.key.clone()] == *key => {
                        object = Some((position, runs.len(), bytes, found));
                    }
                    _ => {}
                }
            },
        )
        .await?;
        let Some((position, runs, bytes, found)) = object else { return Ok(None) };
        metas.retain(|(_, target, _)| *target == found.header.sequence);
        let meta = metas.into_iter().max_by_key(|(sequence, ..)| *sequence);
        let meta = meta.map(|(_, target, meta)| (target, meta));
        let at = RecordExtents { position, cluster: None, runs };
        Ok(Some(self.object(&at, &found, &bytes, meta)))
    }

    /// Implements [`Inspector::verify`].
    pub(super) async fn verify_slots(
        &self,
        progress: impl FnMut(u32, u32),
    ) -> Result<VerifyReport, InspectError> {
        let mut report = VerifyReport::default();
        let areas = self.areas();
        let unreadable = self
            .scan(progress, |position, met| match met {
                Met::Dead => report.dead += 1,
                Met::Damaged(what) => report.damaged.push((areas.offset(position), what)),
                Met::Live(runs, bytes, found) => {
                    if found.verify_body(&self.superblock.secret, &bytes) {
                        report.records += 1;
                        report.bytes += found.len() as u64;
                        report.split += u64::from(runs.len() > 1);
                    } else {
                        report.damaged.push((areas.offset(position), "the body"));
                    }
                }
            })
            .await?;
        report.unreadable_bytes = unreadable;
        Ok(report)
    }

    /// Calls `each` with every record and its position. Returns the number of bytes that could not
    /// be read.
    async fn scan(
        &self,
        mut progress: impl FnMut(u32, u32),
        mut each: impl FnMut(u32, Met),
    ) -> Result<u64, InspectError> {
        let tables = self.tables().await?;
        let areas = self.areas();
        let (slots, slot_bytes) = (areas.slots(), areas.granule);
        let per_window = (WINDOW / u64::from(slot_bytes)) as u32;
        let windows = slots.div_ceil(per_window);
        let (mut skip_to, mut unreadable) = (0, 0);
        for window in 0..windows {
            progress(window, windows);
            let first = window * per_window;
            let end = slots.min(first + per_window);
            let extent = Extent {
                offset: areas.offset(first),
                len: areas.offset(end) - areas.offset(first),
            };
            let Some(bytes) = self.reader.read(extent).await else {
                unreadable += extent.len;
                continue;
            };
            for position in first.max(skip_to)..end {
                if position < skip_to {
                    continue;
                }
                let at = ((position - first) * slot_bytes) as usize;
                let met = self.meet(&tables, position, bytes.slice(at..)).await;
                if let Some(Met::Live(runs, ..)) = &met {
                    skip_to = runs[0].end();
                }
                met.into_iter().for_each(|met| each(position, met));
            }
        }
        progress(windows, windows);
        Ok(unreadable)
    }

    /// Examines the slot at `position`; `bytes` are those from there to the end of the window.
    async fn meet(&self, tables: &Tables, position: u32, bytes: Bytes) -> Option<Met> {
        let SpaceTables::Slots(image) = &tables.space else { return None };
        // Whatever else is there: a record that had been flushed is where the checkpoint says.
        let expected = !image.is_empty() && image.starts.get(position);
        let missing = expected.then_some(Met::Damaged("the record's head"));
        let Some(outline) = Outline::read(&bytes) else { return missing };
        let place = Place { position, incarnation: outline.incarnation };
        if !image.lives(position, outline.incarnation) {
            let is_record = Found::decode(&self.superblock.secret, place, &bytes).is_some();
            return missing.or(is_record.then_some(Met::Dead));
        }
        if outline.len > SizeClass::MAX_LEN as usize {
            return missing;
        }
        let (secret, areas) = (&self.superblock.secret, self.areas());
        let here = outline.chain.slots == 0 && bytes.len() >= outline.len;
        let (runs, whole) = if here {
            (vec![run_of(areas, position, outline.len)], bytes)
        } else {
            let read = async |extent| self.reader.read(extent).await;
            let read = read_runs(&read, secret, areas, areas.slots(), position, &outline).await;
            let Some(read) = read else { return missing };
            read
        };
        let Some(found) = Found::decode(secret, place, &whole) else { return missing };
        let header = &found.header;
        let removed = tables.removed.get(&header.digest);
        if removed.is_some_and(|sequence| header.sequence < *sequence) {
            return Some(Met::Dead);
        }
        // Its body was being written when the process ended; the next start drops it.
        if header.sequence > image.reached && !found.verify_body(secret, &whole) {
            return Some(Met::Dead);
        }
        Some(Met::Live(runs, whole, found))
    }
}
