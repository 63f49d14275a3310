//! The purges in force: for each label, each prefix and for everything, the time of the last purge.
//!
//! There is no index from labels to objects. A purge is one entry here, whatever it matches, and an
//! object is checked against the entries when it is looked up: it is dead or outdated if a matching
//! entry is younger. Both ages are sequence numbers; a record's is the one with which it was
//! placed. Code that places a record must first make sure that no purge has overtaken its contents.
//!
//! The table is bounded. An entry is dropped once no older record is left. If the table is still
//! full, its oldest quarter is replaced by one purge of everything, as old as the youngest of them.
//! This costs hits, but no purge is lost.
//!
//! A purge by pattern has its text beside it ([`Patterns`]), which counts as further entries.

use std::collections::BTreeMap;

use crate::base::digest::Digester;
use crate::base::labels::{DOUBTED, Label, Mode, PATTERN_MAX, Pattern, Target};
use crate::base::wire::{Decoder, Encoder};
use crate::purge::patterns::{PatternPart, Patterns};

/// The target of an entry, as it is encoded in the journal and the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scope {
    /// 0 is everything, 1 a label, the greatest number a pattern, and from 2 on a prefix of
    /// `code - 2` bytes.
    code: u32,
    /// Digest of the label, the prefix or the pattern.
    digest: u64,
}

const EVERYTHING: Scope = Scope { code: 0, digest: 0 };
const LABEL: u32 = 1;
const PREFIX: u32 = 2;
const PATTERN: u32 = u32::MAX;

impl Scope {
    /// Returns the scope of `target`. Prefixes are no longer than keys. A pattern that is too long
    /// stands for everything.
    pub(crate) fn of(target: Target<'_>, digester: &Digester) -> Scope {
        match target {
            Target::Everything => EVERYTHING,
            Target::Label(label) => Scope::of_label(label, digester),
            Target::Prefix(prefix) => Scope::of_prefix(prefix, digester),
            Target::Pattern(pattern) if pattern.len() > PATTERN_MAX => EVERYTHING,
            Target::Pattern(pattern) => Scope { code: PATTERN, digest: digester.pattern(pattern) },
        }
    }

    fn of_label(label: Label<'_>, digester: &Digester) -> Scope {
        Scope { code: LABEL, digest: digester.label(label.kind, label.name) }
    }

    fn of_prefix(prefix: &[u8], digester: &Digester) -> Scope {
        let len = u32::try_from(prefix.len()).unwrap_or(u32::MAX).min(PATTERN - PREFIX - 1);
        Scope { code: PREFIX + len, digest: digester.prefix(prefix) }
    }

    /// Returns the digest of the label, if the scope is one.
    pub(crate) fn label(self) -> Option<u64> {
        (self.code == LABEL).then_some(self.digest)
    }

    /// Returns the digest of the pattern, if the scope is one.
    pub(crate) fn pattern(self) -> Option<u64> {
        (self.code == PATTERN).then_some(self.digest)
    }

    fn prefix_len(self) -> Option<u32> {
        self.code.checked_sub(PREFIX).filter(|_| self.code != PATTERN)
    }
}

/// One purge, as the journal records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Purge {
    pub(crate) scope: Scope,
    pub(crate) mode: Mode,
    /// Older records are affected.
    pub(crate) sequence: u64,
    /// Clusters with a lower incarnation may have older records; 0 in a space of slots.
    pub(crate) boundary: u64,
    /// Time of the purge, in unix seconds.
    pub(crate) at: u32,
}

impl Purge {
    /// Size in the journal, in bytes.
    pub(crate) const LEN: usize = 33;

    pub(crate) fn encode(&self, out: &mut Encoder<'_>) {
        let mode = match self.mode {
            Mode::Hard => 0,
            Mode::Soft => 1,
        };
        out.u32(self.scope.code).u64(self.scope.digest).u8(mode);
        out.u64(self.sequence).u64(self.boundary).u32(self.at);
    }

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Option<Purge> {
        let scope = Scope { code: from.u32()?, digest: from.u64()? };
        let mode = match from.u8()? {
            0 => Mode::Hard,
            1 => Mode::Soft,
            _ => return None,
        };
        let (sequence, boundary, at) = (from.u64()?, from.u64()?, from.u32()?);
        Some(Purge { scope, mode, sequence, boundary, at })
    }
}

/// Sequence numbers of the last purges of a scope; 0 if there was none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stamp {
    hard: u64,
    soft: u64,
    /// Time of the soft purge, in unix seconds.
    soft_at: u32,
    /// Boundary of the younger of the two.
    boundary: u64,
    /// Digest of a beginning that all objects matching a prefix have; 0 if unknown.
    beginning: u64,
}

impl Stamp {
    fn newest(&self) -> u64 {
        self.hard.max(self.soft)
    }

    fn take_in(&mut self, purge: &Purge) {
        match purge.mode {
            Mode::Hard => self.hard = self.hard.max(purge.sequence),
            Mode::Soft if purge.sequence > self.soft => {
                // Objects older than both purges remain in doubt, and with them those in between.
                let is_doubt = self.soft > 0 && self.soft_at == DOUBTED;
                self.soft_at = if is_doubt { DOUBTED } else { purge.at };
                self.soft = purge.sequence;
            }
            Mode::Soft => {}
        }
        self.boundary = self.boundary.max(purge.boundary);
    }
}

/// The effect of purges on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Validity {
    /// No purge matches it.
    Valid,
    /// Outdated since this time, in unix seconds.
    Outdated(u32),
    /// Removed by a purge.
    Purged,
}

impl Validity {
    fn with(self, other: Validity) -> Validity {
        match (self, other) {
            (Validity::Purged, _) | (_, Validity::Purged) => Validity::Purged,
            (Validity::Outdated(a), Validity::Outdated(b)) => Validity::Outdated(a.min(b)),
            (Validity::Valid, validity) | (validity, Validity::Valid) => validity,
        }
    }
}

/// The properties of an object that purges match.
pub(crate) trait Labelled {
    fn labels(&self, see: &mut dyn FnMut(Label<'_>));
    /// Returns the text that prefixes are compared with.
    fn text(&self) -> Option<&[u8]>;
    /// Reads the text of a pattern; `None` stands for every object.
    fn read_pattern(&self, text: &[u8]) -> Option<Box<dyn Pattern>>;
    fn is_matched_by(&self, pattern: &dyn Pattern) -> bool;
}

/// The table of purges in force. See the module documentation.
pub(crate) struct Purges {
    entries: BTreeMap<Scope, Stamp>,
    /// The patterns of the entries that are purges by pattern.
    patterns: Patterns,
    /// Number of prefixes, by length.
    prefixes: BTreeMap<u32, u32>,
    newest: u64,
    /// Sequence number of the newest entry that was dropped; no record on the device is older.
    floor: u64,
    max: usize,
}

impl Purges {
    /// Size of an entry in a checkpoint, in bytes.
    pub(crate) const ENTRY_LEN: usize = 40;
    /// Size of an entry in memory, in bytes.
    pub(crate) const ENTRY_BYTES: usize = 80;

    /// Returns an empty table for up to `max` entries, but at least one.
    pub(crate) fn new(max: usize) -> Purges {
        let (entries, prefixes) = (BTreeMap::new(), BTreeMap::new());
        let patterns = Patterns::default();
        Purges { entries, patterns, prefixes, newest: 0, floor: 0, max: max.max(1) }
    }

    /// Returns the sequence number of the newest purge. Younger objects need not be checked.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    /// Returns the number of entries, the texts of patterns included.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() + self.patterns.units()
    }

    /// Changes the maximum number of entries.
    pub(crate) fn set_max(&mut self, max: usize) {
        self.max = max.max(1);
    }

    /// Adds a purge, new or from the journal. The table may be too long afterwards; see
    /// [`Purges::is_too_long`].
    pub(crate) fn take_in(&mut self, purge: &Purge) {
        self.newest = self.newest.max(purge.sequence);
        if purge.scope == EVERYTHING && purge.mode == Mode::Hard {
            self.forget(|_, stamp| stamp.newest() <= purge.sequence);
        }
        let mut new = false;
        let stamp = self.entries.entry(purge.scope).or_insert_with(|| {
            new = true;
            Stamp::default()
        });
        stamp.take_in(purge);
        if let Some(digest) = purge.scope.pattern() {
            self.patterns.raise(digest, purge.sequence);
        }
        if let (true, Some(len)) = (new, purge.scope.prefix_len()) {
            *self.prefixes.entry(len).or_default() += 1;
        }
    }

    /// Adds the text of the pattern of `scope`, before the purge by it. Returns the parts to record
    /// in the journal; none if the table has the text.
    pub(crate) fn take_in_pattern(&mut self, scope: Scope, text: &[u8]) -> Vec<PatternPart> {
        scope.pattern().map_or_else(Vec::new, |digest| self.patterns.take_in(digest, text))
    }

    /// Adds part of the text of a pattern, from the journal.
    pub(crate) fn take_in_pattern_part(&mut self, part: &PatternPart) {
        self.patterns.take_in_part(part);
    }

    /// Drops the patterns from the journal that no entry has.
    pub(crate) fn forget_unused_patterns(&mut self) {
        let entries = &self.entries;
        self.patterns.retain(|digest| entries.contains_key(&Scope { code: PATTERN, digest }));
    }

    /// Sets the digest of a beginning that all objects matching the prefix of an entry have.
    pub(crate) fn note_beginning(&mut self, scope: Scope, beginning: u64) {
        if let Some(stamp) = self.entries.get_mut(&scope) {
            stamp.beginning = beginning;
        }
    }

    fn forget(&mut self, mut gone: impl FnMut(&Scope, &Stamp) -> bool) {
        let (prefixes, patterns) = (&mut self.prefixes, &mut self.patterns);
        self.entries.retain(|scope, stamp| {
            let gone = gone(scope, stamp);
            if let (true, Some(digest)) = (gone, scope.pattern()) {
                patterns.remove(digest);
            }
            if let (true, Some(len)) = (gone, scope.prefix_len())
                && let Some(count) = prefixes.get_mut(&len)
            {
                *count -= 1;
            }
            !gone
        });
        prefixes.retain(|_, count| *count > 0);
    }

    /// Drops the entries that no longer match any record. `concerns_none` decides this from the
    /// sequence number and the boundary of the purge.
    pub(crate) fn prune(&mut self, concerns_none: impl Fn(u64, u64) -> bool) {
        let mut floor = self.floor;
        self.forget(|_, stamp| {
            let gone = concerns_none(stamp.newest(), stamp.boundary);
            if gone {
                floor = floor.max(stamp.newest());
            }
            gone
        });
        self.floor = floor;
    }

    /// Drops the entries for labels and prefixes that no object bears. Returns them as hard purges,
    /// for fetches that began before.
    pub(crate) fn take_unused(&mut self, may_be_borne: impl Fn(u64) -> bool) -> Vec<Purge> {
        let mut unused = Vec::new();
        self.forget(|scope, stamp| {
            let beginning = (stamp.beginning != 0).then_some(stamp.beginning);
            let gone = scope.label().or(beginning).is_some_and(|label| !may_be_borne(label));
            if gone {
                let (sequence, boundary) = (stamp.newest(), stamp.boundary);
                unused.push(Purge { scope: *scope, mode: Mode::Hard, sequence, boundary, at: 0 });
            }
            gone
        });
        unused
    }

    /// Returns whether there are more entries than the maximum.
    pub(crate) fn is_too_long(&self) -> bool {
        self.len() > self.max || self.patterns.are_too_many()
    }

    /// Returns whether more than one in `share` entries are free.
    pub(crate) fn has_room(&self, share: usize) -> bool {
        self.len() <= self.max - self.max / share && self.patterns.have_room(share)
    }

    /// Returns the maximum number of entries.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// Returns a purge of everything that replaces the oldest quarter of the entries, or of those
    /// by pattern if these are too many, for the caller to add and record; `None` if that would
    /// drop none.
    pub(crate) fn merged(&self) -> Option<Purge> {
        let of_patterns = self.patterns.are_too_many();
        let of_kind = |scope: &Scope| !of_patterns || scope.pattern().is_some();
        let entries = self.entries.iter().filter(|(scope, _)| of_kind(scope));
        let mut ages: Vec<(u64, u64)> =
            entries.map(|(_, stamp)| (stamp.newest(), stamp.boundary)).collect();
        if self.len() < 2 || ages.is_empty() {
            return None;
        }
        let quarter = if of_patterns { ages.len() } else { self.max } / 4;
        let last = ages.len().saturating_sub(self.max).max(quarter).max(1).min(ages.len() - 1);
        let (_, &mut (sequence, boundary), _) = ages.select_nth_unstable(last);
        Some(Purge { scope: EVERYTHING, mode: Mode::Hard, sequence, boundary, at: 0 })
    }

    /// Returns the effect that the purges since `since` have on an object.
    pub(crate) fn validity(
        &self,
        digester: &Digester,
        since: u64,
        object: &impl Labelled,
    ) -> Validity {
        if since < self.floor {
            return Validity::Purged;
        }
        let mut validity = self.stands(EVERYTHING, since);
        if self.newest <= since || validity == Validity::Purged {
            return validity;
        }
        object.labels(&mut |label| {
            validity = validity.with(self.stands(Scope::of_label(label, digester), since));
        });
        if !self.prefixes.is_empty() {
            let text = object.text().unwrap_or_default();
            for prefix in self.prefixes.keys().map_while(|len| text.get(..*len as usize)) {
                let scope = Scope::of_prefix(prefix, digester);
                validity = validity.with(self.stands(scope, since));
            }
        }
        for digest in self.patterns.concerning(digester, since, object) {
            validity = validity.with(self.stands(Scope { code: PATTERN, digest }, since));
        }
        validity
    }

    fn stands(&self, scope: Scope, since: u64) -> Validity {
        match self.entries.get(&scope) {
            Some(stamp) if stamp.hard > since => Validity::Purged,
            Some(stamp) if stamp.soft > since => Validity::Outdated(stamp.soft_at),
            _ => Validity::Valid,
        }
    }

    pub(crate) fn encode(&self, out: &mut Encoder<'_>) {
        for (scope, stamp) in &self.entries {
            out.u32(scope.code).u64(scope.digest).u64(stamp.hard).u64(stamp.soft);
            out.u32(stamp.soft_at).u64(stamp.boundary);
            if let Some(digest) = scope.pattern() {
                self.patterns.encode(digest, out);
            }
        }
    }

    /// Reads `count` entries, the texts of patterns included. Returns `None` if they are cut short
    /// or [`Purges::encode`] did not write them.
    pub(crate) fn decode(from: &mut Decoder<'_>, count: usize) -> Option<Purges> {
        let mut purges = Purges::new(usize::MAX);
        let mut units = 0..count;
        while units.next().is_some() {
            let scope = Scope { code: from.u32()?, digest: from.u64()? };
            let (hard, soft) = (from.u64()?, from.u64()?);
            let (soft_at, boundary) = (from.u32()?, from.u64()?);
            let stamp = Stamp { hard, soft, soft_at, boundary, beginning: 0 };
            if purges.entries.insert(scope, stamp).is_some() {
                return None;
            }
            if let Some(digest) = scope.pattern() {
                let units_of_text = purges.patterns.decode(digest, stamp.newest(), from)?;
                (0..units_of_text).try_for_each(|_| units.next().map(drop))?;
            }
            if let Some(len) = scope.prefix_len() {
                *purges.prefixes.entry(len).or_default() += 1;
            }
            purges.newest = purges.newest.max(stamp.newest());
        }
        Some(purges)
    }
}

#[cfg(test)]
mod tests;
