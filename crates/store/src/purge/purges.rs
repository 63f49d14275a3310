//! The purges in force: for each label, prefix or everything, when it was last purged.
//!
//! There is no index from labels to objects. A purge is one entry here, whatever it concerns, and
//! an object is held against the entries when somebody asks for it: it is dead, or outdated, when
//! an entry that concerns it is younger than it. The age of both is a sequence number, that of a
//! record being the one with which it was placed; whoever places a record has made sure first that
//! no purge overtook what is in it.
//!
//! The table is bounded. An entry is dropped once no record is left that is older; when the table
//! is full all the same, its oldest quarter becomes one purge of everything that is as old: that
//! costs hits, and forgets nothing.

use std::collections::BTreeMap;

use crate::base::digest::Digester;
use crate::base::labels::{Label, Mode, Target};
use crate::base::wire::{Decoder, Encoder};

/// What an entry concerns, and how it stands in journal and checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scope {
    /// 0: everything; 1: a label; from 2 on: a prefix of so many bytes less two.
    code: u32,
    /// Of the label or of the prefix.
    digest: u64,
}

const EVERYTHING: Scope = Scope { code: 0, digest: 0 };
const LABEL: u32 = 1;
const PREFIX: u32 = 2;

impl Scope {
    /// The scope of `target`. Prefixes are no longer than keys are.
    pub(crate) fn of(target: Target<'_>, digester: &Digester) -> Scope {
        match target {
            Target::Everything => EVERYTHING,
            Target::Label(label) => Scope::of_label(label, digester),
            Target::Prefix(prefix) => Scope::of_prefix(prefix, digester),
        }
    }

    fn of_label(label: Label<'_>, digester: &Digester) -> Scope {
        Scope { code: LABEL, digest: digester.label(label.kind, label.name) }
    }

    fn of_prefix(prefix: &[u8], digester: &Digester) -> Scope {
        let len = u32::try_from(prefix.len()).unwrap_or(u32::MAX - PREFIX);
        Scope { code: PREFIX + len, digest: digester.prefix(prefix) }
    }

    /// The digest of a label; `None`: it is of something else.
    pub(crate) fn label(self) -> Option<u64> {
        (self.code == LABEL).then_some(self.digest)
    }

    fn prefix_len(self) -> Option<u32> {
        self.code.checked_sub(PREFIX)
    }
}

/// One purge, as the journal tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Purge {
    pub(crate) scope: Scope,
    pub(crate) mode: Mode,
    /// Older records are concerned.
    pub(crate) sequence: u64,
    /// Clusters with a lower incarnation may have older records; 0 in a space of slots.
    pub(crate) boundary: u64,
    /// When it was made, in unix seconds.
    pub(crate) at: u32,
}

impl Purge {
    /// Bytes in the journal.
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

/// When a scope was last purged; 0: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stamp {
    hard: u64,
    soft: u64,
    /// Of the soft one, in unix seconds.
    soft_at: u32,
    /// Of the younger of both.
    boundary: u64,
    /// The digest of a beginning that all objects have which a prefix concerns; 0: it is not known.
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
                (self.soft, self.soft_at) = (purge.sequence, purge.at);
            }
            Mode::Soft => {}
        }
        self.boundary = self.boundary.max(purge.boundary);
    }
}

/// What purges have made of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Validity {
    /// None concerns it.
    Valid,
    /// It is outdated since then, in unix seconds.
    Outdated(u32),
    /// It is gone.
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

/// What is asked of an object that is held against the table.
pub(crate) trait Labelled {
    /// Calls `see` with every label.
    fn labels(&self, see: &mut dyn FnMut(Label<'_>));
    /// What prefixes are compared with.
    fn text(&self) -> Option<&[u8]>;
}

/// See the module.
pub(crate) struct Purges {
    entries: BTreeMap<Scope, Stamp>,
    /// How many prefixes of each length there are.
    prefixes: BTreeMap<u32, u32>,
    newest: u64,
    /// The newest entry that was dropped: no record on the device is older.
    floor: u64,
    max: usize,
}

impl Purges {
    /// Bytes of an entry in a checkpoint.
    pub(crate) const ENTRY_LEN: usize = 40;
    /// Bytes of an entry in memory.
    pub(crate) const ENTRY_BYTES: usize = 80;

    /// An empty table for up to `max` entries, of which there is always one.
    pub(crate) fn new(max: usize) -> Purges {
        let (entries, prefixes) = (BTreeMap::new(), BTreeMap::new());
        Purges { entries, prefixes, newest: 0, floor: 0, max: max.max(1) }
    }

    /// The sequence number of the newest purge; what is younger need not be held against anything.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Changes how many entries there may be.
    pub(crate) fn set_max(&mut self, max: usize) {
        self.max = max.max(1);
    }

    /// Takes a purge in, as it is made or as the journal tells it. The table may be too long
    /// afterwards: see [`Purges::is_too_long`].
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
        if let (true, Some(len)) = (new, purge.scope.prefix_len()) {
            *self.prefixes.entry(len).or_default() += 1;
        }
    }

    /// Notes the digest of a beginning that all objects have which an entry for a prefix concerns.
    pub(crate) fn note_beginning(&mut self, scope: Scope, beginning: u64) {
        if let Some(stamp) = self.entries.get_mut(&scope) {
            stamp.beginning = beginning;
        }
    }

    fn forget(&mut self, mut gone: impl FnMut(&Scope, &Stamp) -> bool) {
        let prefixes = &mut self.prefixes;
        self.entries.retain(|scope, stamp| {
            let gone = gone(scope, stamp);
            if let (true, Some(len)) = (gone, scope.prefix_len())
                && let Some(count) = prefixes.get_mut(&len)
            {
                *count -= 1;
            }
            !gone
        });
        prefixes.retain(|_, count| *count > 0);
    }

    /// Drops the entries that concern no record any more: all records are younger than `oldest`
    /// says of a purge.
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

    /// Drops the entries for labels and prefixes that nothing bears, and returns them: as hard
    /// purges, for those who began before.
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

    /// Whether there are more entries than there may be.
    pub(crate) fn is_too_long(&self) -> bool {
        self.entries.len() > self.max
    }

    /// How many entries there may be.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// The purge of everything that takes the place of the oldest quarter, to be taken in and noted
    /// down; `None` when that makes the table no shorter.
    pub(crate) fn merged(&self) -> Option<Purge> {
        if self.entries.len() < 2 {
            return None;
        }
        let mut ages: Vec<(u64, u64)> =
            self.entries.values().map(|stamp| (stamp.newest(), stamp.boundary)).collect();
        let last = self
            .entries
            .len()
            .saturating_sub(self.max)
            .max(self.max / 4)
            .max(1)
            .min(ages.len() - 1);
        let (_, &mut (sequence, boundary), _) = ages.select_nth_unstable(last);
        Some(Purge { scope: EVERYTHING, mode: Mode::Hard, sequence, boundary, at: 0 })
    }

    /// What the purges since `since` have made of an object.
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
        if self.prefixes.is_empty() {
            return validity;
        }
        let text = object.text().unwrap_or_default();
        let prefixes = self.prefixes.keys().map_while(|len| text.get(..*len as usize));
        prefixes.fold(validity, |validity, prefix| {
            validity.with(self.stands(Scope::of_prefix(prefix, digester), since))
        })
    }

    fn stands(&self, scope: Scope, since: u64) -> Validity {
        match self.entries.get(&scope) {
            Some(stamp) if stamp.hard > since => Validity::Purged,
            Some(stamp) if stamp.soft > since => Validity::Outdated(stamp.soft_at),
            _ => Validity::Valid,
        }
    }

    /// Appends all entries.
    pub(crate) fn encode(&self, out: &mut Encoder<'_>) {
        for (scope, stamp) in &self.entries {
            out.u32(scope.code).u64(scope.digest).u64(stamp.hard).u64(stamp.soft);
            out.u32(stamp.soft_at).u64(stamp.boundary);
        }
    }

    /// Reads `count` entries. `None` when they are cut short, or no [`Purges::encode`] wrote them.
    pub(crate) fn decode(from: &mut Decoder<'_>, count: usize) -> Option<Purges> {
        let mut purges = Purges::new(usize::MAX);
        for _ in 0..count {
            let scope = Scope { code: from.u32()?, digest: from.u64()? };
            let (hard, soft) = (from.u64()?, from.u64()?);
            let (soft_at, boundary) = (from.u32()?, from.u64()?);
            let stamp = Stamp { hard, soft, soft_at, boundary, beginning: 0 };
            if purges.entries.insert(scope, stamp).is_some() {
                return None;
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
