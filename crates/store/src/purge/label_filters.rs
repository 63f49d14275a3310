//! Which labels what is stored may bear, so that a purge of a label that nothing bears takes no
//! room among the purges in force: however many of those there are, what was purged before keeps
//! its own entry, and nothing else is lost.
//!
//! The labels of every record that is placed, and of what lives in memory alone, are added to a
//! Bloom filter. Filters cannot forget, so there are several, the *eras*: one after another takes
//! labels in until it is full, and one is emptied and used again when no place is left whose labels
//! are in it. A place is a cluster, or a record in a space of slots. An era of which few clusters
//! are left is emptied by reading those again, into the present one.
//!
//! An orderly stop saves the filters ([`crate::format::label_filters_dump`]). After a crash the
//! recovery scan fills them again: from the summaries of clusters, which name the labels of what is
//! in them, or from the heads of the records in slots. What is told in neither way is *unknown*
//! until its clusters have been read, and as long as anything is, every label counts as borne. That
//! is what makes a `no` certain whatever happened before; and it follows the labels as they are
//! read today, for what was read in another way is not believed. A `no` is never wrong; a `yes` may
//! be, and costs an entry among the purges.

use crate::base::limits::ClusterId;
use crate::base::wire::{Decoder, Encoder};

/// Eras.
pub(crate) const ERAS: usize = 8;
/// Bits of a label in its era.
const PROBES: u32 = 6;
/// Bits of an era for each label that it takes: some 4 in a thousand of the labels that are not in
/// it seem to be when it is full.
const BITS_PER_LABEL: u64 = 12;
/// Bytes for each object that a cache is expected to hold: for two labels and two beginnings of its
/// own, and more.
const BYTES_PER_OBJECT: u64 = 8;
/// Bytes of all eras at least, where memory allows.
const BYTES_MIN: u64 = 64 << 10;
/// Bytes of all eras at most.
const BYTES_MAX: u64 = 1 << 30;
/// An era is emptied by reading its clusters again when those are one in so many of all.
const FEW: u32 = 16;

/// Where the labels of a cluster are: in no era, because there are none.
const NOWHERE: u8 = u8::MAX;
/// They have not been read since the cache was opened.
const UNKNOWN: u8 = u8::MAX - 1;

/// See the module.
pub(crate) struct LabelFilters {
    eras: [Vec<u64>; ERAS],
    /// Words of an era.
    words: usize,
    current: u8,
    /// Labels that the current era has taken in and did not seem to have.
    added: u64,
    /// It is to be followed by another when it has taken in so many.
    turn_at: u64,
    /// By cluster: its era, or one of the above. Empty in a space of slots.
    of_cluster: Vec<u8>,
    /// Nothing is known of records with a lower sequence number.
    first: u64,
    /// In a space of slots: the eras of the records from a sequence number on, ascending. Of
    /// several with one number a record may be in any.
    since: Vec<(u64, u8)>,
    /// The eras that what a scan of slots has found so far is in.
    scanned: Vec<u8>,
    /// Places whose labels are not known; never too few.
    unknown: u32,
    /// The next cluster of those that are being read again.
    cursor: Option<ClusterId>,
    /// The era that those leave.
    leaving: Option<u8>,
}

impl LabelFilters {
    /// Bytes for a cache of `objects` objects with `memory` bytes of memory.
    pub(crate) fn bytes_for(objects: u64, memory: u64) -> u64 {
        let wanted = objects.saturating_mul(BYTES_PER_OBJECT).clamp(BYTES_MIN, BYTES_MAX);
        wanted.min(memory / 16).max(4096)
    }

    /// Filters of `bytes` bytes together, for so many clusters, or for slots. Nothing is known of
    /// any of them, nor of a record with a lower sequence number than `first`.
    pub(crate) fn new(bytes: u64, clusters: u32, first: u64) -> LabelFilters {
        let words = (bytes / 8 / ERAS as u64).max(8) as usize;
        let mut label_filters = LabelFilters {
            eras: Default::default(),
            words,
            current: 0,
            added: 0,
            turn_at: words as u64 * 64 / BITS_PER_LABEL,
            of_cluster: vec![UNKNOWN; clusters as usize],
            first,
            since: vec![(first, 0)],
            scanned: Vec::new(),
            unknown: 1,
            cursor: None,
            leaving: None,
        };
        label_filters.eras[0] = vec![0; words];
        label_filters
    }

    /// Whether something may bear the label of this digest.
    pub(crate) fn may_be_borne(&self, label: u64) -> bool {
        self.unknown > 0 || self.eras.iter().any(|era| !era.is_empty() && contains(era, label))
    }

    /// Places whose labels are not known.
    pub(crate) fn unknown(&self) -> u32 {
        self.unknown
    }

    /// Something in memory bears the label.
    pub(crate) fn add(&mut self, label: u64) {
        self.added += u64::from(insert(&mut self.eras[usize::from(self.current)], label));
    }

    /// A record in `cluster`, or in slots, bears the label.
    pub(crate) fn add_at(&mut self, cluster: Option<ClusterId>, label: u64) {
        let of_cluster = cluster.and_then(|cluster| self.of_cluster.get(cluster as usize));
        match of_cluster.copied().filter(|era| usize::from(*era) < ERAS) {
            Some(era) if era != self.current => _ = insert(&mut self.eras[usize::from(era)], label),
            _ => self.add(label),
        }
    }

    /// `cluster` is empty, and takes records from now on.
    pub(crate) fn opened(&mut self, cluster: ClusterId) {
        let era = &mut self.of_cluster[cluster as usize];
        self.unknown -= u32::from(*era == UNKNOWN).min(self.unknown);
        *era = self.current;
    }

    /// The cluster's labels were read: they are these, besides those that it is known for.
    pub(crate) fn learnt(&mut self, cluster: ClusterId, labels: &[u64]) {
        labels.iter().for_each(|label| self.add(*label));
        self.opened(cluster);
    }

    /// Begins to read when few of the clusters in use are unknown.
    pub(crate) fn read_few(&mut self, in_use: u32) {
        if self.unknown <= in_use / FEW {
            self.read_unknown();
        }
    }

    /// A scan of slots found a record with these labels. Nothing is placed until it has ended.
    pub(crate) fn scanned(&mut self, labels: &[u64]) {
        if self.rotation_due() {
            match self.eras.iter().position(Vec::is_empty) {
                Some(unused) => self.begin_era(unused as u8),
                None => self.turn_at = u64::MAX,
            }
        }
        if !self.scanned.contains(&self.current) {
            self.scanned.push(self.current);
        }
        labels.iter().for_each(|label| self.add(*label));
    }

    /// The scan has found all records that live; others are placed from now on, the first with this
    /// sequence number or a higher one.
    pub(crate) fn all_scanned(&mut self, sequence: u64) {
        let scanned = std::mem::take(&mut self.scanned);
        self.since = scanned.into_iter().map(|era| (0, era)).collect();
        self.since.push((sequence, self.current));
        self.first = 0;
        self.turn_at = self.turn_at.min(self.full());
    }

    /// Labels that the present era takes.
    fn full(&self) -> u64 {
        self.eras[usize::from(self.current)].len() as u64 * 64 / BITS_PER_LABEL
    }

    fn begin_era(&mut self, number: u8) {
        let era = &mut self.eras[usize::from(number)];
        era.clear();
        era.resize(self.words, 0);
        (self.current, self.added) = (number, 0);
        self.turn_at = self.full();
    }

    /// Counts again, of all clusters, how many of those in use are unknown.
    pub(crate) fn recount_clusters(&mut self, in_use: impl Fn(ClusterId) -> bool) {
        self.unknown = 0;
        for (cluster, era) in (0..).zip(&mut self.of_cluster) {
            if !in_use(cluster) {
                *era = NOWHERE;
            }
            self.unknown += u32::from(*era == UNKNOWN);
        }
    }

    /// The same for slots, the lowest sequence number of whose records is `oldest`; `None`: it is
    /// not known.
    pub(crate) fn recount_slots(&mut self, oldest: Option<u64>) {
        self.unknown = u32::from(oldest.is_none_or(|oldest| oldest < self.first));
    }

    /// Whether another era is to begin.
    pub(crate) fn rotation_due(&self) -> bool {
        self.added >= self.turn_at
    }

    /// The era of a cluster.
    pub(crate) fn era_of_cluster(&self, cluster: ClusterId) -> Option<usize> {
        let era = usize::from(*self.of_cluster.get(cluster as usize)?);
        (era < ERAS).then_some(era)
    }

    /// The eras of which one has the labels of a record in slots with this sequence number.
    pub(crate) fn eras_of_record(&self, sequence: u64) -> impl Iterator<Item = usize> {
        let behind = self.since.partition_point(|(from, _)| *from <= sequence);
        let newest = self.since[..behind].last().map(|(from, _)| *from);
        let alike = self.since[..behind].iter().rev();
        alike.take_while(move |(from, _)| Some(*from) == newest).map(|(_, era)| usize::from(*era))
    }

    /// Begins another era, with the record of this sequence number, when there is one in which none
    /// of the places is that there are: `places` by era. True when it has begun: what lives in
    /// memory alone must be added to it. Otherwise the current one goes on, and clusters are read
    /// again if that helps.
    pub(crate) fn turn(&mut self, places: &[u32; ERAS], sequence: u64) -> bool {
        let others = (0..ERAS as u8).filter(|era| *era != self.current);
        let Some(fewest) = others.min_by_key(|era| places[usize::from(*era)]) else { return false };
        let left = places[usize::from(fewest)];
        if left > 0 {
            self.turn_at = self.added + (self.words as u64 * 64 / BITS_PER_LABEL / 4).max(1);
            let all: u32 = places.iter().sum();
            if !self.of_cluster.is_empty() && left <= all / FEW {
                self.leaving = Some(fewest);
                self.cursor.get_or_insert(0);
            }
            return false;
        }
        if self.leaving == Some(fewest) {
            self.leaving = None;
        }
        // Its clusters are not in use: what is opened again gets another.
        self.of_cluster.iter_mut().filter(|era| **era == fewest).for_each(|era| *era = NOWHERE);
        self.since.retain(|(_, era)| *era != fewest);
        self.since.push((sequence, fewest));
        self.begin_era(fewest);
        true
    }

    /// Begins to read what is unknown, unless that is under way.
    pub(crate) fn read_unknown(&mut self) {
        if self.unknown > 0 && !self.of_cluster.is_empty() {
            self.cursor.get_or_insert(0);
        }
    }

    /// Whether clusters are to be read.
    pub(crate) fn reading(&self) -> bool {
        self.cursor.is_some()
    }

    /// The next cluster to read, of those that `readable` admits; `None`: that was the last.
    pub(crate) fn next_to_read(&mut self, readable: impl Fn(ClusterId) -> bool) -> Option<u32> {
        let from = self.cursor?;
        let wanted = |era: u8| era == UNKNOWN || Some(era) == self.leaving;
        let found = (from..self.of_cluster.len() as u32)
            .find(|cluster| wanted(self.of_cluster[*cluster as usize]) && readable(*cluster));
        self.cursor = found.map(|cluster| cluster + 1);
        if found.is_none() {
            self.leaving = None;
            self.turn_at = self.turn_at.min(self.added);
        }
        found
    }
}

/// What a dump says of the filters beside their bits.
impl LabelFilters {
    /// Appends it.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut out = Encoder(out);
        out.u8(self.current).u64(self.added).u64(self.first);
        out.u32(self.since.len() as u32);
        for (from, era) in &self.since {
            out.u64(*from).u8(*era);
        }
        out.u32(self.of_cluster.len() as u32).bytes(&self.of_cluster);
        for era in &self.eras {
            out.u64(era.len() as u64);
        }
    }

    /// Filters without their bits, of `bytes` bytes together at most, for so many clusters, or for
    /// slots. `None` when that is not what [`LabelFilters::encode`] said.
    pub(crate) fn decode(
        from: &mut Decoder<'_>,
        bytes: u64,
        clusters: u32,
    ) -> Option<LabelFilters> {
        let known = |era: u8| usize::from(era) < ERAS;
        let mut label_filters = LabelFilters::new(bytes, 0, 0);
        label_filters.current = Some(from.u8()?).filter(|era| known(*era))?;
        (label_filters.added, label_filters.first) = (from.u64()?, from.u64()?);
        let count = from.u32()?;
        label_filters.since = (0..count)
            .map(|_| Some((from.u64()?, Some(from.u8()?).filter(|era| known(*era))?)))
            .collect::<Option<_>>()?;
        if from.u32()? != clusters || !label_filters.since.is_sorted_by_key(|(from, _)| *from) {
            return None;
        }
        label_filters.of_cluster = from.bytes(clusters as usize)?.to_vec();
        let mut lens = [0; ERAS];
        for len in &mut lens {
            *len = from.u64()?;
        }
        let all = lens.iter().try_fold(0, |all: u64, len| all.checked_add(*len))?;
        let named = |era: u8| !known(era) || lens[usize::from(era)] > 0;
        let all_named = label_filters.of_cluster.iter().all(|era| named(*era))
            && label_filters.since.iter().all(|(_, era)| named(*era));
        if all > (label_filters.words * ERAS) as u64 || !named(label_filters.current) || !all_named
        {
            return None;
        }
        label_filters.eras = lens.map(|len| vec![0; len as usize]);
        label_filters.turn_at = label_filters.full();
        Some(label_filters)
    }

    /// The words of each era.
    pub(crate) fn eras(&self) -> &[Vec<u64>; ERAS] {
        &self.eras
    }

    /// The words of each era, to be filled.
    pub(crate) fn eras_mut(&mut self) -> &mut [Vec<u64>; ERAS] {
        &mut self.eras
    }
}

/// The words and masks of a label in an era of so many words.
fn probes(words: usize, label: u64) -> impl Iterator<Item = (usize, u64)> {
    let (first, step) = (label as u32, (label >> 32) as u32 | 1);
    let bits = words as u64 * 64;
    (0..PROBES).map(move |number| {
        let spread = u64::from(first.wrapping_add(number.wrapping_mul(step)));
        let bit = (spread * bits) >> 32;
        ((bit / 64) as usize, 1 << (bit % 64))
    })
}

fn contains(era: &[u64], label: u64) -> bool {
    probes(era.len(), label).all(|(word, mask)| era[word] & mask != 0)
}

/// True when it did not seem to be there.
fn insert(era: &mut [u64], label: u64) -> bool {
    let mut new = false;
    for (word, mask) in probes(era.len(), label) {
        new |= era[word] & mask == 0;
        era[word] |= mask;
    }
    new
}

#[cfg(test)]
mod tests;
