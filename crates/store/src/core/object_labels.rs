//! The labels of stored objects: how they are read, and the filters that tell which labels no
//! object bears. See [`crate::purge::label_filters`].

use std::sync::Arc;

use crate::base::digest::Digester;
use crate::base::labels::{Label, Labels, Pattern, reading};
use crate::base::record::{Record, RecordKind};
use crate::base::summary::LABEL_LEN;
use crate::core::recovery::Recovery;
use crate::memory::object::Object;
use crate::purge::label_filters::{ERAS, LabelFilters};
use crate::purge::purges::Labelled;
use crate::space::Space;

/// Capacity of the buffer for the labels of one object that is kept for the next, in labels.
const LABELS_BUFFER: usize = 1024;

/// Labels that are kept with a staged object take at most one in this many bytes of its record. If
/// there are more, they are read again when the object is placed.
const KEPT_LABELS_SHARE: usize = 8;

/// An object's key and metadata, with the reader of its labels.
pub(super) struct Named<'a> {
    reader: Option<&'a dyn Labels>,
    key: &'a [u8],
    meta: &'a [u8],
}

impl Labelled for Named<'_> {
    fn labels(&self, see: &mut dyn FnMut(Label<'_>)) {
        if let Some(reader) = self.reader {
            reader.labels(self.key, self.meta, see);
        }
    }

    fn text(&self) -> Option<&[u8]> {
        self.reader?.text(self.key)
    }

    fn read_pattern(&self, text: &[u8]) -> Option<Box<dyn Pattern>> {
        self.reader?.pattern(text)
    }

    fn is_matched_by(&self, pattern: &dyn Pattern) -> bool {
        pattern.matches(self.key, self.meta)
    }
}

/// The reader of labels, and the filters of the labels that objects may bear.
pub(super) struct ObjectLabels {
    /// Reads the labels of objects; `None`: objects have none.
    reader: Option<Arc<dyn Labels>>,
    digester: Digester,
    pub(super) filters: LabelFilters,
    /// Buffer for the labels of one object, kept for the next.
    buffer: Vec<u64>,
}

impl ObjectLabels {
    pub(super) fn new(
        reader: Option<Arc<dyn Labels>>,
        digester: Digester,
        filters: LabelFilters,
    ) -> ObjectLabels {
        ObjectLabels { reader, digester, filters, buffer: Vec::new() }
    }

    pub(super) fn exist(&self) -> bool {
        self.reader.is_some()
    }

    pub(super) fn digester(&self) -> &Digester {
        &self.digester
    }

    /// Returns the names that purges of an object with this key and metadata are matched against.
    pub(super) fn named<'a>(&'a self, key: &'a [u8], meta: &'a [u8]) -> Named<'a> {
        Named { reader: self.reader.as_deref(), key, meta }
    }

    /// Returns whether an object may bear `label`.
    pub(super) fn may_be_borne(&self, label: u64) -> bool {
        self.reader.is_none() || self.filters.may_be_borne(label)
    }

    /// Returns whether purges by pattern may concern an object with these metadata and not one with
    /// the former ones.
    pub(super) fn may_match_others(&self, old: &[u8], new: &[u8]) -> bool {
        self.reader.is_some() && old != new
    }

    /// Returns whether `new` metadata give the object of `key` a label that `old` metadata do not.
    pub(super) fn are_added(&self, key: &[u8], old: &[u8], new: &[u8]) -> bool {
        let Some(reader) = self.reader.as_deref() else { return false };
        let collect = |meta: &[u8]| {
            let mut all = Vec::new();
            reader.labels(key, meta, &mut |l| all.push(self.digester.label(l.kind, l.name)));
            all
        };
        let old = collect(old);
        !collect(new).iter().all(|label| old.contains(label))
    }

    /// Replaces the content of `all` by the digests of an object's labels; a piece has none.
    pub(super) fn read(&self, kind: RecordKind, key: &[u8], meta: &[u8], all: &mut Vec<u64>) {
        all.clear();
        all.shrink_to(LABELS_BUFFER);
        if let Some(reader) = self.reader.as_deref().filter(|_| kind != RecordKind::Piece) {
            self.digester.labels(reader, key, meta, all);
        }
    }

    /// Takes the buffer for the labels of one object, to be given back.
    pub(super) fn take_buffer(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.buffer)
    }

    pub(super) fn return_buffer(&mut self, buffer: Vec<u64>) {
        self.buffer = buffer;
    }

    /// Records the labels of the object of `record`, which is about to live in memory only. For an
    /// object that is `staged`, returns their digests, to be kept until it is placed, unless they
    /// are too many.
    pub(super) fn note_unplaced(&mut self, record: &Record, staged: bool) -> Option<Box<[u64]>> {
        let mut labels = self.take_buffer();
        self.read(record.header.kind, &record.key, &record.meta, &mut labels);
        labels.iter().for_each(|label| self.filters.add(*label));
        let fit = labels.len() * LABEL_LEN <= record.len() / KEPT_LABELS_SHARE;
        let kept = (staged && fit).then(|| labels.as_slice().into());
        self.return_buffer(labels);
        kept
    }

    /// Records the labels of `object`, which is in memory only.
    pub(super) fn note_resident(&mut self, object: &Object) {
        let mut labels = self.take_buffer();
        self.read(object.header.kind, &object.key, &object.meta, &mut labels);
        labels.iter().for_each(|label| self.filters.add(*label));
        self.return_buffer(labels);
    }

    /// Counts anew the records or clusters with unknown labels.
    pub(super) fn recount_unknown(&mut self, space: &Space, recovery: &Recovery) {
        match space {
            Space::Clusters(space) => {
                let table = &space.table;
                self.filters.recount_clusters(|cluster| table.state(cluster).in_use());
            }
            Space::Slots(space) => {
                let all = !recovery.is_running();
                let oldest = all.then(|| space.sequences().min().unwrap_or(u64::MAX));
                self.filters.recount_slots(oldest);
            }
        }
    }

    /// Begins a new era of labels if the current one is full. The era starts with the record of
    /// this sequence number, or with the cluster that is about to be opened. Returns whether the
    /// labels of the objects that are only in memory must be recorded again; `None` if no era
    /// began.
    pub(super) fn rotate_eras(&mut self, space: &Space, sequence: u64) -> Option<bool> {
        if !self.filters.rotation_due() {
            return None;
        }
        let mut places = [0; ERAS];
        let mut count = |era: Option<usize>| {
            if let Some(era) = era {
                places[era] += 1;
            }
        };
        match space {
            Space::Clusters(space) => (0..space.table.clusters())
                .filter(|cluster| space.table.state(*cluster).in_use())
                .for_each(|cluster| count(self.filters.era_of_cluster(cluster))),
            Space::Slots(space) => space
                .sequences()
                .filter(|other| *other != sequence)
                .flat_map(|sequence| self.filters.eras_of_record(sequence))
                .for_each(|era| count(Some(era))),
        }
        Some(self.filters.turn(&places, sequence))
    }

    /// Returns the filters to dump, and the version of the way their labels were read; `None` if
    /// objects have no labels.
    pub(super) fn prepare_dump(
        &mut self,
        space: &Space,
        recovery: &Recovery,
    ) -> Option<(&LabelFilters, u64)> {
        let version = reading(self.reader.as_deref()?);
        self.recount_unknown(space, recovery);
        Some((&self.filters, version))
    }
}
