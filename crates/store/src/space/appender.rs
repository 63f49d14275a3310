//! The appender: records on their way from memory into clusters (CDP and cluster writes, C2, C8).
//!
//! One cluster is open at a time. Records are appended to it in memory and are found there until
//! they are written. A cluster is written when it is full, together with sealed neighbours. The
//! filled part is written earlier if the oldest record has waited for the durability bound. Such an
//! early write does not waste space: the next one continues where it ended, and rewrites at most
//! the one block that was only partly filled.
//!
//! Records are appended in the order of their sequence numbers and of their clusters' incarnations.
//! Recovery relies on that.

use std::collections::VecDeque;
use std::sync::Arc;

use device::{FrozenBuf, IoBufBuilder, Nanos, WRITE_ALIGN};
use hashbrown::HashTable;

use crate::base::content::Content;
use crate::base::keyed_checksum::Secret;
use crate::base::limits::PIECE_MAX;
use crate::base::record::{Chain, Header, Place, Record, record_len};
use crate::base::size_class::SizeClass;
use crate::base::summary;
use crate::base::summary::{Entry, LABEL_LEN, SummaryLabels, summary_len};
use crate::format::device_layout::Areas;
use crate::format::journal::JournalPosition;

/// Maximum size of one request that writes sealed neighbours, in bytes.
pub(crate) const REQUEST_MAX: u32 = 4 << 20;
/// Maximum gap before the summary that is written rather than skipped, in bytes: a second request
/// costs more.
const GAP_MAX: u32 = 32 * 1024;
/// Bytes of a cluster that pieces leave unused. In the largest cluster, the summary takes less than
/// half of them.
const BESIDE_PIECES: u32 = 4096;

/// Labels take at most one in this many bytes of a cluster.
const LABELS_SHARE: usize = 16;

/// The labels of the records in a cluster that is being filled.
#[derive(Default)]
struct Labelling {
    /// Digests of the labels. They are uniform, so they serve as their own hashes.
    all: HashTable<u64>,
    /// Largest number of labels of one record so far.
    most: usize,
    /// True if there was no space for some labels.
    lacking: bool,
}

impl Labelling {
    /// Returns the size of the labels, in bytes.
    fn len(&self) -> usize {
        self.all.len() * LABEL_LEN
    }

    /// Adds the labels of a record if all labels then take at most `room` bytes. Otherwise none are
    /// kept, because a partial set could not prove that a label is absent.
    fn add(&mut self, labels: &[u64], room: usize) {
        if self.lacking {
            return;
        }
        for label in labels {
            self.all.entry(*label, |other| other == label, |other| *other).or_insert(*label);
        }
        self.most = self.most.max(labels.len());
        if self.len() > room {
            *self = Labelling { lacking: true, ..Labelling::default() };
        }
    }
}

/// A record in a cluster, not yet on the device.
#[derive(Clone)]
struct Queued {
    /// Bytes from the start of the cluster.
    offset: u32,
    record: Arc<Record>,
}

/// A cluster that is being filled or waits to be written.
struct Filling {
    cluster: u32,
    incarnation: u64,
    /// The journal must be written up to here before the cluster is.
    opened_at: JournalPosition,
    /// Bytes in use from the start: whole granules, except where the summary begins within one.
    filled: u32,
    /// Bytes from the start that are on the device.
    written: u32,
    entries: Vec<Entry>,
    labels: Labelling,
    /// Header of the record that was appended last.
    last: Option<Header>,
    queued: VecDeque<Queued>,
    /// The bytes before `written` of the block that contains `written`.
    tail: Vec<u8>,
    /// When the queued records must be written at the latest.
    due: Option<Nanos>,
    sealed: bool,
}

/// The records on their way to the device.
pub(crate) struct Appender {
    /// Version of the rules by which labels are read, if they are: [`crate::Labels::version`].
    labels: Option<u64>,
    open: Option<Filling>,
    sealed: VecDeque<Filling>,
    unwritten: HashTable<(u32, Arc<Record>)>,
    unwritten_bytes: usize,
    writing: bool,
}

/// The data to write for one cluster.
struct Part {
    cluster: u32,
    incarnation: u64,
    /// First byte to write, a block boundary.
    from: u32,
    /// One past the last byte of records.
    to: u32,
    /// The bytes between `from` and the first queued record.
    tail: Vec<u8>,
    queued: Vec<Queued>,
    /// The summary, if the cluster is sealed.
    summary: Option<Vec<u8>>,
}

/// A write job, built and written without the lock.
pub(crate) struct WriteJob {
    parts: Vec<Part>,
}

/// The device requests of a job.
pub(crate) struct Requests {
    /// Byte offset on the device, and the bytes to write there.
    pub(crate) writes: Vec<(u64, FrozenBuf)>,
    /// Content of the last part's last block, if it is partly filled.
    tail: Vec<u8>,
}

/// A record that did not reach the device.
pub(crate) struct Lost {
    pub(crate) entry: Entry,
    pub(crate) position: u32,
}

impl Appender {
    /// Returns an appender; `labels` is the version of the rules for reading labels.
    pub(crate) fn new(labels: Option<u64>) -> Appender {
        Appender {
            labels,
            open: None,
            sealed: VecDeque::new(),
            unwritten: HashTable::new(),
            unwritten_bytes: 0,
            writing: false,
        }
    }

    /// Returns the maximum size of a record that fits into the open cluster, in bytes; `None` if
    /// none is open.
    pub(crate) fn room(&self, areas: &Areas) -> Option<usize> {
        let open = self.open.as_ref()?;
        // The labels of the next record are not known: reserve space for as many as any record had.
        let labels = open.labels.len() + open.labels.most * LABEL_LEN;
        let taken = open.filled as usize + summary_len(open.entries.len() + 1) + labels;
        Some((areas.cluster_size as usize).saturating_sub(taken))
    }

    /// Returns whether a record of `len` bytes fits into the open cluster.
    pub(crate) fn has_space(&self, areas: &Areas, len: usize) -> bool {
        self.room(areas).is_some_and(|room| len <= room)
    }

    /// Returns whether the open cluster has a record.
    pub(crate) fn begun(&self) -> bool {
        self.open.as_ref().is_some_and(|open| !open.entries.is_empty())
    }

    /// Returns the size of the largest record that fits into an empty cluster and that the index
    /// can represent, in bytes.
    pub(crate) fn record_max(areas: &Areas) -> usize {
        (areas.cluster_size as usize - summary_len(1)).min(SizeClass::MAX_LEN as usize)
    }

    /// Returns the number of body bytes in a piece of a large object. A cluster of N times
    /// [`PIECE_MAX`] has room for N pieces, its summary and the heads of some objects; a smaller
    /// cluster has space for one piece.
    pub(crate) fn piece_size(areas: &Areas) -> u32 {
        let count = areas.cluster_size.div_ceil(PIECE_MAX);
        let each = (areas.cluster_size - BESIDE_PIECES) / count;
        let record = (each - each % areas.granule).max(areas.granule);
        record + PIECE_MAX - record_len(0, 0, PIECE_MAX as usize) as u32
    }

    /// Opens `cluster`. The previous one must have been sealed.
    pub(crate) fn open(&mut self, cluster: u32, incarnation: u64, opened_at: JournalPosition) {
        assert!(self.open.is_none(), "one cluster is open at a time");
        self.open = Some(Filling {
            cluster,
            incarnation,
            opened_at,
            filled: 0,
            written: 0,
            entries: Vec::new(),
            labels: Labelling::default(),
            last: None,
            queued: VecDeque::new(),
            tail: Vec::new(),
            due: None,
            sealed: false,
        });
    }

    /// Seals the full open cluster, which then waits to be written. Returns its number and entries.
    pub(crate) fn seal(&mut self) -> Option<(u32, &[Entry])> {
        let mut full = self.open.take()?;
        full.sealed = true;
        self.sealed.push_back(full);
        self.sealed.back().map(|full| (full.cluster, full.entries.as_slice()))
    }

    /// Appends a record with these labels, for which there must be room; `entry` receives its
    /// place. It must be written by `due`. Returns the position.
    pub(crate) fn append(
        &mut self,
        areas: &Areas,
        record: Arc<Record>,
        mut entry: Entry,
        labels: &[u64],
        due: Nanos,
    ) -> u32 {
        let open = self.open.as_mut().expect("room was made for the record");
        let offset = open.filled;
        let len = record.len() as u32;
        entry.joins = record.header.joins(open.last.as_ref());
        open.last = Some(record.header.clone());
        entry.granule = offset / areas.granule;
        entry.len = len;
        open.entries.push(entry);
        // The last record may end in the granule where the summary begins; nothing else is written
        // there until the summary is.
        let entries_at = areas.cluster_size - summary_len(open.entries.len()) as u32;
        let room = entries_at.saturating_sub(offset + len) as usize;
        open.labels.add(labels, room.min(areas.cluster_size as usize / LABELS_SHARE));
        let summary_at = entries_at - open.labels.len() as u32;
        open.filled = (offset + len).next_multiple_of(areas.granule).min(summary_at);
        open.due = Some(open.due.map_or(due, |earlier| earlier.min(due)));
        open.queued.push_back(Queued { offset, record: Arc::clone(&record) });
        let position = areas.position(open.cluster, entry.granule);
        self.unwritten_bytes += record.len();
        debug_assert!(self.get(position).is_none(), "a place has one record until it is written");
        let place = |(position, _): &(u32, _)| hash(*position);
        self.unwritten.insert_unique(hash(position), (position, record), place);
        position
    }

    /// Returns the record at `position`, if it is not on the device yet.
    pub(crate) fn get(&self, position: u32) -> Option<&Arc<Record>> {
        let found = self.unwritten.find(hash(position), |(other, _)| *other == position);
        found.map(|(_, record)| record)
    }

    /// Returns the records that are not on the device yet.
    pub(crate) fn unwritten(&self) -> impl Iterator<Item = &Record> {
        self.unwritten.iter().map(|(_, record)| &**record)
    }

    /// Returns whether a cluster still waits for its last write, or a write is in progress.
    pub(crate) fn busy(&self) -> bool {
        self.writing || !self.sealed.is_empty()
    }

    /// Returns the size of all waiting records, in bytes.
    pub(crate) fn unwritten_bytes(&self) -> usize {
        self.unwritten_bytes
    }

    /// Returns when the open cluster must be written although it is not full.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.open.as_ref()?.due
    }

    /// Returns the journal position that must be written first, if a write is due: of a sealed
    /// cluster, or of an open one with a record that must be written by `due`.
    pub(crate) fn ready(&self, due: Option<Nanos>) -> Option<JournalPosition> {
        if self.writing {
            return None;
        }
        if let Some(sealed) = self.sealed.front() {
            return Some(sealed.opened_at);
        }
        let open = self.open.as_ref()?;
        (open.due? <= due?).then_some(open.opened_at)
    }

    /// Takes the data that [`Appender::ready`] reported: sealed neighbours that the journal
    /// (written up to `journal`) permits, or the filled part of the open cluster.
    pub(crate) fn begin_write(
        &mut self,
        areas: &Areas,
        secret: &Secret,
        journal: JournalPosition,
    ) -> Option<WriteJob> {
        let mut parts: Vec<Part> = Vec::new();
        for filling in &mut self.sealed {
            let follows = parts.last().is_none_or(|last| last.cluster + 1 == filling.cluster);
            let fits = (parts.len() as u32 + 1) * areas.cluster_size <= REQUEST_MAX;
            if filling.opened_at > journal || !(parts.is_empty() || follows && fits) {
                break;
            }
            parts.push(filling.part(secret, self.labels));
        }
        if parts.is_empty() {
            let open = self.open.as_mut().filter(|open| open.opened_at <= journal)?;
            open.due = None;
            parts.push(open.part(secret, self.labels));
        }
        self.writing = true;
        Some(WriteJob { parts })
    }

    /// Records that the job reached the device.
    pub(crate) fn end_write(&mut self, areas: &Areas, job: &WriteJob, requests: Requests) {
        self.writing = false;
        for part in &job.parts {
            for queued in &part.queued {
                self.forget(areas, part.cluster, queued);
            }
        }
        self.drop_sealed(job);
        if let Some(open) = self.open.as_mut()
            && let Some(part) = job.parts.iter().find(|part| part.cluster == open.cluster)
        {
            open.written = part.to;
            open.tail = requests.tail;
            open.queued.retain(|queued| queued.offset >= part.to);
        } else if let Some(filling) = self.sealed.iter_mut().find(|filling| {
            // The cluster was sealed while its first part was being written.
            job.parts.iter().any(|part| part.cluster == filling.cluster)
        }) {
            filling.written = job.parts[0].to;
            filling.tail = requests.tail;
            let to = job.parts[0].to;
            filling.queued.retain(|queued| queued.offset >= to);
        }
    }

    /// Records that the job failed. Gives up its clusters with all records that were put into them.
    pub(crate) fn fail_write(&mut self, areas: &Areas, job: &WriteJob) -> Vec<(u32, Vec<Lost>)> {
        self.writing = false;
        let failed = |cluster: u32| job.parts.iter().any(|part| part.cluster == cluster);
        let mut given_up = Vec::new();
        let (bad, good) = self.sealed.drain(..).partition(|filling| failed(filling.cluster));
        self.sealed = good;
        let mut bad: VecDeque<Filling> = bad;
        if self.open.as_ref().is_some_and(|open| failed(open.cluster)) {
            bad.extend(self.open.take());
        }
        for filling in bad {
            for queued in &filling.queued {
                self.forget(areas, filling.cluster, queued);
            }
            let lost = filling.entries.iter().map(|entry| Lost {
                entry: *entry,
                position: areas.position(filling.cluster, entry.granule),
            });
            given_up.push((filling.cluster, lost.collect()));
        }
        given_up
    }

    /// Returns the clusters that a job completes.
    pub(crate) fn completes(job: &WriteJob) -> impl Iterator<Item = u32> {
        job.parts.iter().filter(|part| part.summary.is_some()).map(|part| part.cluster)
    }

    fn drop_sealed(&mut self, job: &WriteJob) {
        let done = |filling: &Filling| Self::completes(job).any(|c| c == filling.cluster);
        self.sealed.retain(|filling| !done(filling));
    }

    fn forget(&mut self, areas: &Areas, cluster: u32, queued: &Queued) {
        let position = areas.position(cluster, queued.offset / areas.granule);
        let same = |(other, _): &(u32, _)| *other == position;
        if let Ok(entry) = self.unwritten.find_entry(hash(position), same) {
            entry.remove();
            self.unwritten_bytes -= queued.record.len();
        }
    }
}

impl Filling {
    fn part(&self, secret: &Secret, version: Option<u64>) -> Part {
        let summary = self.sealed.then(|| {
            let mut labels: Vec<u64> = self.labels.all.iter().copied().collect();
            labels.sort_unstable();
            let borne = version.filter(|_| !self.labels.lacking);
            let borne = borne.map(|version| SummaryLabels { version, labels: &labels });
            summary::encode(secret, self.cluster, self.incarnation, &self.entries, borne)
        });
        Part {
            cluster: self.cluster,
            incarnation: self.incarnation,
            from: self.written - self.tail.len() as u32,
            to: self.filled,
            tail: self.tail.clone(),
            queued: self.queued.iter().cloned().collect(),
            summary,
        }
    }
}

/// A range of bytes on the device.
#[derive(Clone, Copy)]
struct Run {
    from: u64,
    to: u64,
}

impl WriteJob {
    /// Encodes the records into aligned buffers. Adjacent runs share one.
    pub(crate) fn build(&self, areas: &Areas, secret: &Secret) -> Requests {
        let mut runs: Vec<Run> = Vec::new();
        for run in self.parts.iter().flat_map(|part| part.runs(areas)) {
            match runs.last_mut() {
                Some(last) if last.to == run.from => last.to = run.to,
                _ => runs.push(run),
            }
        }
        let begin = |run: &Run| (*run, IoBufBuilder::new((run.to - run.from) as usize));
        let mut buffers: Vec<_> = runs.iter().map(begin).collect();
        for part in &self.parts {
            part.fill(areas, secret, &mut buffers);
        }
        let done = |(run, buf): (Run, IoBufBuilder)| (run.from, buf.finish().freeze());
        let writes: Vec<_> = buffers.into_iter().map(done).collect();
        let tail = self.parts.last().map(|part| part.tail_of(areas, &writes)).unwrap_or_default();
        Requests { writes, tail }
    }

    /// Returns the records in the job.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.parts.iter().flat_map(|part| &part.queued).map(|queued| &*queued.record)
    }

    /// Returns the size of the records in the job, in bytes.
    pub(crate) fn record_bytes(&self) -> usize {
        self.records().map(Record::len).sum()
    }
}

impl Part {
    /// Returns the ranges to write: whole blocks from `from` to `to`, and the blocks of the
    /// summary.
    fn runs(&self, areas: &Areas) -> Vec<Run> {
        let base = areas.cluster(self.cluster).offset;
        let run =
            |from: u32, to: u32| Run { from: base + u64::from(from), to: base + u64::from(to) };
        let to = self.to.next_multiple_of(WRITE_ALIGN);
        let Some(summary) = &self.summary else {
            return vec![run(self.from, to)];
        };
        let summary_at = areas.cluster_size - summary.len() as u32;
        let summary_from = summary_at / WRITE_ALIGN * WRITE_ALIGN;
        if summary_from <= to + GAP_MAX {
            return vec![run(self.from, areas.cluster_size)];
        }
        let summary = run(summary_from, areas.cluster_size);
        if to > self.from { vec![run(self.from, to), summary] } else { vec![summary] }
    }

    /// Appends the part to the buffers of its runs, all in ascending order.
    fn fill(&self, areas: &Areas, secret: &Secret, buffers: &mut [(Run, IoBufBuilder)]) {
        let base = areas.cluster(self.cluster).offset;
        if !self.tail.is_empty() {
            buffer_at(buffers, base + u64::from(self.from)).write(&self.tail);
        }
        let mut head = Vec::new();
        for queued in &self.queued {
            let place = Place {
                position: areas.position(self.cluster, queued.offset / areas.granule),
                incarnation: self.incarnation,
            };
            queued.record.encode_head(secret, place, Chain::default(), &mut head);
            let buf = buffer_at(buffers, base + u64::from(queued.offset));
            buf.write(&head);
            // The bytes of an elided body are never read.
            if let Content::Bytes(body) = &queued.record.body {
                buf.write(body);
            }
        }
        if let Some(summary) = &self.summary {
            let at = base + u64::from(areas.cluster_size) - summary.len() as u64;
            buffer_at(buffers, at).write(summary);
        }
    }

    /// Returns the bytes before `to` of the block that contains `to`.
    fn tail_of(&self, areas: &Areas, writes: &[(u64, FrozenBuf)]) -> Vec<u8> {
        let len = self.to % WRITE_ALIGN;
        if self.summary.is_some() || len == 0 {
            return Vec::new();
        }
        let at = areas.cluster(self.cluster).offset + u64::from(self.to - len);
        writes
            .iter()
            .find(|(from, buf)| (*from..*from + buf.len() as u64).contains(&at))
            .map(|(from, buf)| buf[(at - from) as usize..][..len as usize].to_vec())
            .unwrap_or_default()
    }
}

/// Mixes a position, whose low bits alone are not uniform.
fn hash(position: u32) -> u64 {
    u64::from(position).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}

/// Returns the buffer of the run that contains `at`, zeroed up to there.
fn buffer_at(buffers: &mut [(Run, IoBufBuilder)], at: u64) -> &mut IoBufBuilder {
    let (run, buf) = buffers
        .iter_mut()
        .find(|(run, _)| run.from <= at && at < run.to)
        .expect("every record lies in a run of its part");
    buf.zero_to((at - run.from) as usize);
    buf
}

#[cfg(test)]
mod tests;
