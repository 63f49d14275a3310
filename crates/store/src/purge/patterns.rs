//! The patterns of purges by pattern: their texts, and how they are matched.
//!
//! A pattern is known by the digest of its text. Where the text is incomplete, because a crash cut
//! off the journal, or is not understood, the pattern matches every object: nothing that was purged
//! is used again.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::base::digest::Digester;
use crate::base::labels::{PATTERN_MAX, Pattern};
use crate::base::wire::{Decoder, Encoder};
use crate::purge::purges::{Labelled, Purge, Purges};

/// Maximum number of purges by pattern in force: an object that was not looked up since is matched
/// against each of them.
pub(crate) const PATTERNS: usize = 512;

/// Part of the text of a pattern, as the journal records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PatternPart {
    digest: u64,
    offset: u16,
    len: u8,
    bytes: [u8; PatternPart::BYTES],
}

impl PatternPart {
    /// Size in the journal, in bytes.
    pub(crate) const LEN: usize = Purge::LEN;
    /// Maximum length of a part in bytes of the text.
    const BYTES: usize = PatternPart::LEN - 11;

    /// Returns the parts of a text.
    pub(crate) fn all(digest: u64, text: &[u8]) -> Vec<PatternPart> {
        let part = |(number, chunk): (usize, &[u8])| {
            let mut bytes = [0; PatternPart::BYTES];
            bytes[..chunk.len()].copy_from_slice(chunk);
            let offset = (number * PatternPart::BYTES) as u16;
            PatternPart { digest, offset, len: chunk.len() as u8, bytes }
        };
        text.chunks(PatternPart::BYTES).enumerate().map(part).collect()
    }

    fn text(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    pub(crate) fn encode(&self, out: &mut Encoder<'_>) {
        let offset = self.offset.to_le_bytes();
        out.u64(self.digest).bytes(&offset).u8(self.len).bytes(&self.bytes);
    }

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Option<PatternPart> {
        let (digest, offset) = (from.u64()?, u16::from_le_bytes(from.array()?));
        let (len, bytes) = (from.u8()?, from.array()?);
        let fits = usize::from(len) <= PatternPart::BYTES
            && usize::from(offset) + usize::from(len) <= PATTERN_MAX;
        fits.then_some(PatternPart { digest, offset, len, bytes })
    }
}

/// One pattern.
#[derive(Default)]
struct Entry {
    text: Vec<u8>,
    /// True if all of the text is known.
    is_whole: bool,
    /// Sequence number of the last purge by it.
    newest: u64,
    read: OnceLock<Option<Box<dyn Pattern>>>,
}

impl Entry {
    /// Returns the number of entries of the table that the text takes in a checkpoint.
    fn units(&self) -> usize {
        (4 + self.text.len()).div_ceil(Purges::ENTRY_LEN)
    }

    fn matches(&self, digest: u64, digester: &Digester, object: &impl Labelled) -> bool {
        let read = self.read.get_or_init(|| {
            let is_whole = digester.pattern(&self.text) == digest;
            is_whole.then(|| object.read_pattern(&self.text)).flatten()
        });
        read.as_deref().is_none_or(|pattern| object.is_matched_by(pattern))
    }
}

/// The patterns by the digests of their texts.
#[derive(Default)]
pub(crate) struct Patterns {
    all: BTreeMap<u64, Entry>,
}

impl Patterns {
    /// Returns the number of entries of the table that the texts take.
    pub(crate) fn units(&self) -> usize {
        self.all.values().map(Entry::units).sum()
    }

    pub(crate) fn are_too_many(&self) -> bool {
        self.all.len() > PATTERNS
    }

    pub(crate) fn have_room(&self, share: usize) -> bool {
        self.all.len() <= PATTERNS - PATTERNS / share
    }

    /// Adds a text. Returns the parts to record; none if it is known.
    pub(crate) fn take_in(&mut self, digest: u64, text: &[u8]) -> Vec<PatternPart> {
        let entry = self.all.entry(digest).or_default();
        if entry.is_whole {
            return Vec::new();
        }
        let newest = entry.newest;
        *entry = Entry { text: text.to_vec(), is_whole: true, newest, read: OnceLock::new() };
        PatternPart::all(digest, text)
    }

    /// Adds part of a text that the journal records.
    pub(crate) fn take_in_part(&mut self, part: &PatternPart) {
        let (at, bytes) = (usize::from(part.offset), part.text());
        let text = &mut self.all.entry(part.digest).or_default().text;
        if text.len() < at + bytes.len() {
            text.resize(at + bytes.len(), 0);
        }
        text[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Notes a purge by a pattern.
    pub(crate) fn raise(&mut self, digest: u64, sequence: u64) {
        let entry = self.all.entry(digest).or_default();
        entry.newest = entry.newest.max(sequence);
    }

    pub(crate) fn remove(&mut self, digest: u64) {
        self.all.remove(&digest);
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        self.all.retain(|digest, _| keep(*digest));
    }

    /// Returns the digests of the patterns of purges since `since` that match an object.
    pub(crate) fn concerning<'a>(
        &'a self,
        digester: &'a Digester,
        since: u64,
        object: &'a impl Labelled,
    ) -> impl Iterator<Item = u64> + 'a {
        let newer = self.all.iter().filter(move |(_, entry)| entry.newest > since);
        newer
            .filter(move |(digest, entry)| entry.matches(**digest, digester, object))
            .map(|(digest, _)| *digest)
    }

    /// Appends the text of a pattern, in whole entries of the table.
    pub(crate) fn encode(&self, digest: u64, out: &mut Encoder<'_>) {
        let Some(entry) = self.all.get(&digest) else { return };
        let len = entry.text.len();
        let padding = entry.units() * Purges::ENTRY_LEN - 4 - len;
        out.u32(len as u32).bytes(&entry.text).zeros(padding);
    }

    /// Reads the text of a pattern whose last purge has the sequence number `newest`. Returns the
    /// number of entries that it took.
    pub(crate) fn decode(
        &mut self,
        digest: u64,
        newest: u64,
        from: &mut Decoder<'_>,
    ) -> Option<usize> {
        let len = usize::try_from(from.u32()?).ok().filter(|len| *len <= PATTERN_MAX)?;
        let text = from.bytes(len)?.to_vec();
        let entry = Entry { text, newest, ..Entry::default() };
        let units = entry.units();
        from.bytes(units * Purges::ENTRY_LEN - 4 - len)?;
        self.all.insert(digest, entry);
        Some(units)
    }
}
