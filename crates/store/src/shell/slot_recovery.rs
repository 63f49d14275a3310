//! Recovery of a slot space: reads the device once from its first slot to its last and lists every
//! live record (systems M5, U6).
//!
//! The checkpoint and the journal after it ([`SlotImage`]) determine which records are live, not
//! the scan: an intact record may be dead. The scan does not look inside live records. Of several
//! records of a key the youngest counts. Until everything is read, no found record is served and
//! none is placed: a younger record of an object may follow, and slots not known to be free may
//! hold a live record.

use bytes::Bytes;
use device::{Clock, Device, Extent, Nanos};

use crate::base::event::Event;
use crate::base::keyed_checksum::Secret;
use crate::base::record::{Found, Outline, Place, RecordKind};
use crate::base::size_class::SizeClass;
use crate::core::SlotFinds;
use crate::format::device_layout::Areas;
use crate::layout::Run;
use crate::shell::volume::Volume;
use crate::space::slots::found::FoundRecord;
use crate::space::slots::image::SlotImage;
use crate::space::slots::page_write::assemble;
use crate::space::slots::record_table::Listed;
use crate::space::slots::run_header::RunHeader;

/// Bytes read in one request.
pub(crate) const WINDOW: u64 = 1 << 20;
/// Number of concurrent requests.
const READ_AHEAD: usize = 8;
/// Maximum number of runs of one record; more are damage.
const RUNS_MAX: usize = 1 << 16;

/// The remaining work of a scan of slots, and its results so far.
pub(crate) struct SlotScan {
    found: SlotFinds,
    slots: u32,
    /// The next window.
    window: u32,
    /// No record is searched for before this slot, because it is inside a record.
    skip_to: u32,
    reported_at: Nanos,
}

impl SlotScan {
    /// Returns a scan of `slots` slots that has read nothing yet.
    pub(crate) fn new(image: SlotImage, slots: u32, now: Nanos) -> SlotScan {
        let found = SlotFinds::new(image);
        SlotScan { found, slots, window: 0, skip_to: 0, reported_at: now }
    }

    /// Returns the total number of windows.
    pub(crate) fn windows(&self, areas: &Areas) -> u32 {
        (u64::from(self.slots) * u64::from(areas.granule)).div_ceil(WINDOW) as u32
    }
}

impl<D: Device, C: Clock> Volume<D, C> {
    /// Scans until everything is read, the volume goes offline or `deadline` passes. Returns the
    /// remaining scan in the last case.
    pub(crate) async fn recover_slots(
        &self,
        mut scan: SlotScan,
        deadline: Option<Nanos>,
    ) -> Option<SlotScan> {
        let areas = self.areas();
        let all = scan.windows(areas);
        while scan.window < all && !SlotFinds::is_abandoned(&self.shared.lock()) {
            if !self.shared.lock().status().online {
                return None;
            }
            let ahead = all.min(scan.window + READ_AHEAD as u32);
            let reads = (scan.window..ahead).map(|window| {
                let offset = areas.clusters_at + u64::from(window) * WINDOW;
                let end = areas.offset(scan.slots);
                self.read_with_retries(Extent { offset, len: WINDOW.min(end - offset) })
            });
            for bytes in crate::base::join::values(reads.collect()).await {
                let found = match bytes {
                    Some(bytes) => self.scan_window(areas, &mut scan, &bytes).await,
                    None => Vec::new(),
                };
                scan.window += 1;
                let progress = (scan.window, all);
                scan.found.window_read(&mut self.shared.lock(), found, progress);
            }
            self.report_progress(&mut scan.reported_at);
            let late = deadline.is_some_and(|deadline| self.clock.now() >= deadline);
            if late && scan.window < all {
                return Some(scan);
            }
        }
        self.assemble(scan.found).await;
        None
    }

    /// Finds the live records that start in a window.
    async fn scan_window(
        &self,
        areas: &Areas,
        scan: &mut SlotScan,
        bytes: &Bytes,
    ) -> Vec<FoundRecord> {
        let slot_bytes = areas.granule as usize;
        let first = scan.window * (WINDOW / u64::from(areas.granule)) as u32;
        let mut found = Vec::new();
        for (number, at) in (first..).zip((0..bytes.len()).step_by(slot_bytes)) {
            if number < scan.skip_to {
                continue;
            }
            let Some(outline) = Outline::read(&bytes[at..]) else { continue };
            let lives = scan.found.lives(number, outline.incarnation);
            if !lives || outline.len > SizeClass::MAX_LEN as usize {
                continue;
            }
            // Records that are not young had been flushed when the checkpoint was made.
            let young = scan.found.is_young(outline.incarnation);
            let needed = if young { outline.len } else { outline.head_len };
            let here = outline.chain.slots == 0 && bytes.len() - at >= needed;
            let record = if here {
                let run = run_of(areas, number, outline.len);
                self.verified(run, Vec::new(), &outline, &bytes[at..], young)
            } else {
                self.read_head(areas, scan.slots, number, &outline, young).await
            };
            if let Some(record) = record {
                scan.skip_to = record.listed.run.end();
                found.push(record);
            }
        }
        found
    }

    /// Reads a record that extends beyond the end of a window, or into another run.
    async fn read_head(
        &self,
        areas: &Areas,
        slots: u32,
        position: u32,
        outline: &Outline,
        young: bool,
    ) -> Option<FoundRecord> {
        let secret = &self.shared.secret;
        let read = async |extent| self.read_with_retries(extent).await;
        let (mut runs, whole) = read_runs(&read, secret, areas, slots, position, outline).await?;
        let further = runs.split_off(1);
        self.verified(runs[0], further, outline, &whole, young)
    }

    /// Verifies that the record whose head is in `bytes` matches its outline. For a young record,
    /// `bytes` also contain the body, which may not have reached the device.
    fn verified(
        &self,
        run: Run,
        further: Vec<Run>,
        outline: &Outline,
        bytes: &[u8],
        young: bool,
    ) -> Option<FoundRecord> {
        let place = Place { position: run.first, incarnation: outline.incarnation };
        let found = Found::decode(&self.shared.secret, place, bytes)?;
        let header = &found.header;
        if header.sequence != outline.incarnation {
            return None;
        }
        let listed = Listed {
            digest: header.digest,
            sequence: header.sequence,
            run,
            len: outline.len as u32,
            kind: header.kind,
        };
        let target = (header.piece_size, header.object_id);
        let unfinished = young && !found.verify_body(&self.shared.secret, bytes);
        let mut labels = Vec::new();
        if let Some(of) = self.shared.options.labels.as_deref()
            && header.kind != RecordKind::Piece
        {
            let (key, meta) = (&bytes[found.key.clone()], &bytes[found.meta.clone()]);
            self.shared.digester.labels(of, key, meta, &mut labels);
        }
        Some(FoundRecord { listed, further, target, unfinished, labels })
    }

    /// Makes the space ready for use once everything is found, and writes a checkpoint that lists
    /// the live records.
    async fn assemble(&self, found: SlotFinds) {
        let assembled = found.assemble(&mut self.shared.lock());
        self.checkpoint().await;
        let records = assembled.recovered(&mut self.shared.lock());
        self.shared.emit(Event::Recovered { device: self.shared.number, records });
    }
}

/// Reads the runs of the record whose outline is at `position`, and its bytes. Verifies only that
/// the runs belong together.
pub(crate) async fn read_runs(
    read: &impl AsyncFn(Extent) -> Option<Bytes>,
    secret: &Secret,
    areas: &Areas,
    slots: u32,
    position: u32,
    outline: &Outline,
) -> Option<(Vec<Run>, Bytes)> {
    let read_run = async |run: Run| {
        let end = run.first.checked_add(run.len).filter(|end| *end <= slots)?;
        let offset = areas.offset(run.first);
        read(Extent { offset, len: areas.offset(end) - offset }).await
    };
    let first = match outline.chain.slots {
        0 => run_of(areas, position, outline.len),
        slots => Run { first: position, len: u32::from(slots) },
    };
    let mut runs = vec![first];
    let mut parts = vec![read_run(first).await?];
    let mut next = (outline.chain.slots > 0).then_some(outline.chain.next);
    while let Some(at) = next {
        let header = read_run(Run { first: at, len: 1 }).await?;
        let header = RunHeader::decode(secret, at, &header)?;
        if header.sequence != outline.incarnation || runs.len() >= RUNS_MAX {
            return None;
        }
        runs.push(header.run);
        parts.push(read_run(header.run).await?);
        next = header.next;
    }
    let whole = match &parts[..] {
        [only] => only.clone(),
        _ => assemble(secret, outline.incarnation, &runs, &parts)?,
    };
    Some((runs, whole))
}

/// Returns the run of a record of `len` bytes that lies in one run.
pub(crate) fn run_of(areas: &Areas, first: u32, len: usize) -> Run {
    Run { first, len: (len as u64).div_ceil(u64::from(areas.granule)) as u32 }
}
