//! Filters of the labels that stored objects may bear. A purge of a label that no object bears
//! takes no entry in the table of purges in force. However many such purges arrive, earlier purges
//! keep their own entries and nothing else is lost.
//!
//! The labels of every record that is placed, and of objects that live in memory only, are added to
//! a Bloom filter. Filters cannot forget, so there are several, called *eras*. One after another
//! accepts labels until it is full. An era is emptied and reused when no place is left whose labels
//! are in it. A place is a cluster, or a record in a space of slots. An era with few clusters left
//! is emptied by reading those again into the current one.
//!
//! An orderly stop saves the filters ([`crate::format::label_filters_dump`]). After a crash the
//! recovery scan refills them: from the summaries of clusters, which list the labels of their
//! objects, or from the heads of the records in slots. Labels found in neither way are *unknown*
//! until their clusters have been read, and while any are unknown, every label counts as borne.
//! This makes a `no` certain after any history. Filters follow the current rules for reading
//! labels: those built by other rules are rejected. A `no` is never wrong; a `yes` may be, and
//! costs an entry in the table of purges.

use crate::base::limits::ClusterId;
use crate::base::wire::{Decoder, Encoder};

/// Number of eras.
pub(crate) const ERAS: usize = 8;
/// Bits per label in its era.
const PROBES: u32 = 6;
/// Bits of an era per label that it accepts. When it is full, about 4 in a thousand labels that are
/// not in it seem to be.
const BITS_PER_LABEL: u64 = 12;
/// Bytes per object that the cache is expected to hold: enough for its two labels, two beginnings
/// and more.
const BYTES_PER_OBJECT: u64 = 8;
/// Minimum size of all eras together, in bytes, where memory allows.
const BYTES_MIN: u64 = 64 << 10;
/// Maximum size of all eras together, in bytes.
const BYTES_MAX: u64 = 1 << 30;
/// An era's clusters are read again if they are at most one in this many of all clusters.
const FEW: u32 = 16;

/// Era of a cluster that has no labels and so is in no era.
const NOWHERE: u8 = u8::MAX;
/// Era of a cluster whose labels have not been read since the cache was opened.
const UNKNOWN: u8 = u8::MAX - 1;

/// The label filters. See the module documentation.
pub(crate) struct LabelFilters {
    eras: [Vec<u64>; ERAS],
    /// Words per era.
    words: usize,
    current: u8,
    /// Number of labels added to the current era that it did not seem to contain.
    added: u64,
    /// Value of `added` from which the next era is due.
    turn_at: u64,
    /// Era by cluster, or one of the constants above. Empty in a space of slots.
    of_cluster: Vec<u8>,
    /// Labels of records with a lower sequence number are unknown.
    first: u64,
    /// In a space of slots: the eras of records from a sequence number on, ascending. If several
    /// eras have the same number, a record may be in any of them.
    since: Vec<(u64, u8)>,
    /// The eras that hold the records found so far by a scan of slots.
    scanned: Vec<u8>,
    /// Number of places whose labels are unknown; never too low.
    unknown: u32,
    /// The next cluster to examine, while clusters are being read again.
    cursor: Option<ClusterId>,
    /// The era being emptied by reading its clusters again.
    leaving: Option<u8>,
}

impl LabelFilters {
    /// Returns the size of the filters for a cache of `objects` objects with `memory` bytes of
    /// memory, in bytes.
    pub(crate) fn bytes_for(objects: u64, memory: u64) -> u64 {
        let wanted = objects.saturating_mul(BYTES_PER_OBJECT).clamp(BYTES_MIN, BYTES_MAX);
        wanted.min(memory / 16).max(4096)
    }

    /// Returns filters of `bytes` bytes in all, for `clusters` clusters or, if that is 0, for
    /// slots. Initially the labels of all clusters, and of records with a sequence number below
    /// `first`, are unknown.
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

    /// Returns whether an object may bear the label with this digest.
    pub(crate) fn may_be_borne(&self, label: u64) -> bool {
        self.unknown > 0 || self.eras.iter().any(|era| !era.is_empty() && contains(era, label))
    }

    /// Returns the number of places whose labels are unknown.
    pub(crate) fn unknown(&self) -> u32 {
        self.unknown
    }

    /// Adds a label that an object in memory bears.
    pub(crate) fn add(&mut self, label: u64) {
        self.added += u64::from(insert(&mut self.eras[usize::from(self.current)], label));
    }

    /// Adds a label that a record in `cluster`, or in slots, bears.
    pub(crate) fn add_at(&mut self, cluster: Option<ClusterId>, label: u64) {
        match cluster.and_then(|cluster| self.era_of_cluster(cluster)) {
            Some(era) if era != usize::from(self.current) => _ = insert(&mut self.eras[era], label),
            _ => self.add(label),
        }
    }

    /// Returns whether labels of records in `cluster` are added to the current era.
    pub(crate) fn is_current(&self, cluster: ClusterId) -> bool {
        self.era_of_cluster(cluster).is_none_or(|era| era == usize::from(self.current))
    }

    /// Records that `cluster` was empty and accepts records from now on.
    pub(crate) fn opened(&mut self, cluster: ClusterId) {
        let era = &mut self.of_cluster[cluster as usize];
        self.unknown -= u32::from(*era == UNKNOWN).min(self.unknown);
        *era = self.current;
    }

    /// Adds the labels read from the cluster; those that it was known for stay.
    pub(crate) fn learnt(&mut self, cluster: ClusterId, labels: &[u64]) {
        labels.iter().for_each(|label| self.add(*label));
        self.opened(cluster);
    }

    /// Starts reading if few of the clusters in use are unknown.
    pub(crate) fn read_few(&mut self, in_use: u32) {
        if self.unknown <= in_use / FEW {
            self.read_unknown();
        }
    }

    /// Adds the labels of a record found by a scan of slots. No record is placed until the scan
    /// ends.
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

    /// Ends the scan: all live records have been found. Records placed from now on have this
    /// sequence number or a higher one.
    pub(crate) fn all_scanned(&mut self, sequence: u64) {
        let scanned = std::mem::take(&mut self.scanned);
        self.since = scanned.into_iter().map(|era| (0, era)).collect();
        self.since.push((sequence, self.current));
        self.first = 0;
        self.turn_at = self.turn_at.min(self.full());
    }

    /// Returns the number of labels that the current era accepts.
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

    /// Recounts the clusters in use whose labels are unknown.
    pub(crate) fn recount_clusters(&mut self, in_use: impl Fn(ClusterId) -> bool) {
        self.unknown = 0;
        for (cluster, era) in (0..).zip(&mut self.of_cluster) {
            if !in_use(cluster) {
                *era = NOWHERE;
            }
            self.unknown += u32::from(*era == UNKNOWN);
        }
    }

    /// Does the same for slots. `oldest` is the lowest sequence number of their records; `None` if
    /// it is not known.
    pub(crate) fn recount_slots(&mut self, oldest: Option<u64>) {
        self.unknown = u32::from(oldest.is_none_or(|oldest| oldest < self.first));
    }

    /// Returns whether the next era is due.
    pub(crate) fn rotation_due(&self) -> bool {
        self.added >= self.turn_at
    }

    /// Returns the era of a cluster.
    pub(crate) fn era_of_cluster(&self, cluster: ClusterId) -> Option<usize> {
        let era = usize::from(*self.of_cluster.get(cluster as usize)?);
        (era < ERAS).then_some(era)
    }

    /// Returns the eras one of which has the labels of the record in slots with this sequence
    /// number.
    pub(crate) fn eras_of_record(&self, sequence: u64) -> impl Iterator<Item = usize> {
        let behind = self.since.partition_point(|(from, _)| *from <= sequence);
        let newest = self.since[..behind].last().map(|(from, _)| *from);
        let alike = self.since[..behind].iter().rev();
        alike.take_while(move |(from, _)| Some(*from) == newest).map(|(_, era)| usize::from(*era))
    }

    /// Starts another era, from the record with this sequence number on, if there is an era without
    /// places; `places` is the number of places by era. Returns true if it started: the caller must
    /// then add the labels of the objects that live in memory only. Otherwise the current era
    /// continues, and clusters are read again if that helps.
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
        // Its clusters are not in use; a reopened cluster gets another era.
        self.of_cluster.iter_mut().filter(|era| **era == fewest).for_each(|era| *era = NOWHERE);
        self.since.retain(|(_, era)| *era != fewest);
        self.since.push((sequence, fewest));
        self.begin_era(fewest);
        true
    }

    /// Starts reading the unknown clusters, unless reading is under way.
    pub(crate) fn read_unknown(&mut self) {
        if self.unknown > 0 && !self.of_cluster.is_empty() {
            self.cursor.get_or_insert(0);
        }
    }

    /// Returns whether clusters are to be read.
    pub(crate) fn reading(&self) -> bool {
        self.cursor.is_some()
    }

    /// Returns the next cluster to read, among those that `readable` accepts; `None` after the last
    /// one.
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

/// The dump of the filters, without their bits.
impl LabelFilters {
    /// Appends the dump to `out`.
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

    /// Returns filters without their bits, of at most `bytes` bytes in all, for `clusters` clusters
    /// or, if that is 0, for slots. Returns `None` if [`LabelFilters::encode`] did not write this.
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

    /// Returns the words of each era.
    pub(crate) fn eras(&self) -> &[Vec<u64>; ERAS] {
        &self.eras
    }

    /// Returns the words of each era, to be filled.
    pub(crate) fn eras_mut(&mut self) -> &mut [Vec<u64>; ERAS] {
        &mut self.eras
    }
}

/// Returns the words and masks of a label in an era of `words` words.
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

/// Inserts a label. Returns whether the era did not seem to contain it.
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
