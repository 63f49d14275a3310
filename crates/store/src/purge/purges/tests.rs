//! Tests of the table against a plain list of all purges ever made.

use fastrand::Rng;

use super::*;
use crate::base::keyed_checksum::Secret;
use crate::purge::patterns::PATTERNS;
use crate::test_seed::seeds;

const KIND: u8 = b't';

fn digester() -> Digester {
    Digester::new(&Secret::new([3; 32]).digest_key())
}

fn label(name: &str) -> Target<'_> {
    Target::Label(Label { kind: KIND, name: name.as_bytes() })
}

fn purge(target: Target<'_>, mode: Mode, sequence: u64) -> Purge {
    let scope = Scope::of(target, &digester());
    Purge { scope, mode, sequence, boundary: sequence / 10, at: sequence as u32 }
}

/// An object with labels and a text.
struct Thing<'a>(&'a [&'a str], &'a str);

impl Labelled for Thing<'_> {
    fn labels(&self, see: &mut dyn FnMut(Label<'_>)) {
        self.0.iter().for_each(|name| see(Label { kind: KIND, name: name.as_bytes() }));
    }

    fn text(&self) -> Option<&[u8]> {
        Some(self.1.as_bytes())
    }

    fn read_pattern(&self, text: &[u8]) -> Option<Box<dyn Pattern>> {
        (text != b"?").then(|| Box::new(Ends(text.to_vec())) as Box<dyn Pattern>)
    }

    fn is_matched_by(&self, pattern: &dyn Pattern) -> bool {
        pattern.matches(self.1.as_bytes(), b"")
    }
}

/// Matches texts that end so.
struct Ends(Vec<u8>);

impl Pattern for Ends {
    fn matches(&self, key: &[u8], _: &[u8]) -> bool {
        key.ends_with(&self.0)
    }
}

/// Adds a purge by pattern.
fn take_in_pattern(purges: &mut Purges, text: &[u8], mode: Mode, sequence: u64) {
    let made = purge(Target::Pattern(text), mode, sequence);
    purges.take_in_pattern(made.scope, text);
    purges.take_in(&made);
}

/// Returns the table as a checkpoint has it.
fn reread(purges: &Purges) -> Purges {
    let mut bytes = Vec::new();
    purges.encode(&mut Encoder(&mut bytes));
    assert_eq!(bytes.len(), purges.len() * Purges::ENTRY_LEN);
    let mut read = Purges::decode(&mut Decoder(&bytes), purges.len()).unwrap();
    read.set_max(purges.max());
    read
}

fn validity(purges: &Purges, since: u64, thing: &Thing<'_>) -> Validity {
    purges.validity(&digester(), since, thing)
}

#[test]
fn only_younger_purges_of_what_it_is_called_concern_an_object() {
    let mut purges = Purges::new(100);
    purges.take_in(&purge(label("a"), Mode::Hard, 10));
    purges.take_in(&purge(label("b"), Mode::Soft, 20));
    purges.take_in(&purge(Target::Prefix(b"http://h/x"), Mode::Hard, 30));
    let cases = [
        (Thing(&["a"], ""), 9, Validity::Purged),
        (Thing(&["a"], ""), 10, Validity::Valid),
        (Thing(&["c", "b"], ""), 19, Validity::Outdated(20)),
        (Thing(&["b"], ""), 20, Validity::Valid),
        (Thing(&["b", "a"], ""), 9, Validity::Purged),
        (Thing(&[], "http://h/x"), 29, Validity::Purged),
        (Thing(&[], "http://h/xyz"), 29, Validity::Purged),
        (Thing(&[], "http://h/"), 29, Validity::Valid),
        (Thing(&[], "http://i/xyz"), 29, Validity::Valid),
        (Thing(&["http://h/x"], ""), 9, Validity::Valid),
    ];
    for (number, (thing, since, expected)) in cases.iter().enumerate() {
        assert_eq!(validity(&purges, *since, thing), *expected, "case {number}");
    }
    purges.take_in(&purge(Target::Everything, Mode::Soft, 40));
    assert_eq!(validity(&purges, 39, &Thing(&[], "")), Validity::Outdated(40));
    purges.take_in(&purge(Target::Everything, Mode::Hard, 50));
    assert_eq!(validity(&purges, 49, &Thing(&[], "")), Validity::Purged);
    assert_eq!(purges.len(), 1, "everything includes what was purged before");
}

#[test]
fn a_full_table_forgets_nothing() {
    seeds("a_full_table_forgets_nothing", 10).for_each(full_table);
}

fn full_table(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let names: Vec<String> = (0..60).map(|number| format!("n{number}")).collect();
    let mut purges = Purges::new(20);
    let mut all: Vec<(Purge, &[u8])> = Vec::new();
    let mut merged = 0;
    for sequence in 1..600 {
        let name = &names[random.usize(..names.len())];
        let mode = if random.bool() { Mode::Hard } else { Mode::Soft };
        let target = match random.u8(..40) {
            0 => Target::Everything,
            1..15 => Target::Prefix(name.as_bytes()),
            15..20 => Target::Pattern(name.as_bytes()),
            _ => label(name),
        };
        let made = purge(target, mode, sequence);
        let text = if let Target::Pattern(text) = target { text } else { b"" };
        purges.take_in_pattern(made.scope, text);
        purges.take_in(&made);
        all.push((made, text));
        while purges.is_too_long() {
            let whole = purges.merged().unwrap();
            assert_eq!(whole.mode, Mode::Hard);
            merged += 1;
            purges.take_in(&whole);
        }
        assert!(purges.len() <= 20);
        // Round trip through a checkpoint.
        if random.u8(..8) == 0 {
            purges = reread(&purges);
        }
        let (one, other) = (random.usize(..names.len()), random.usize(..names.len()));
        let labels = [&*names[one], &*names[other]];
        let thing = Thing(&labels, &names[random.usize(..names.len())]);
        let since = random.u64(..=sequence);
        let mut plain = Purges::new(usize::MAX);
        for (purge, text) in &all {
            plain.take_in_pattern(purge.scope, text);
            plain.take_in(purge);
        }
        let (found, exact) = (validity(&purges, since, &thing), validity(&plain, since, &thing));
        assert!(
            found == exact || found == Validity::Purged,
            "{found:?}, not {exact:?}, seed {seed}"
        );
    }
    assert!(merged > 5, "seed {seed}");
}

#[test]
fn purges_older_than_every_record_are_dropped() {
    let mut purges = Purges::new(20);
    purges.take_in(&purge(label("a"), Mode::Hard, 10));
    purges.take_in(&purge(label("b"), Mode::Hard, 20));
    purges.take_in(&purge(Target::Prefix(b"x"), Mode::Hard, 30));
    purges.prune(|newest, _| newest < 25);
    assert_eq!(purges.len(), 1);
    assert_eq!(purges.newest(), 30);
    // An object in memory only that was not checked against the table since then is given up.
    assert_eq!(validity(&purges, 19, &Thing(&["c"], "")), Validity::Purged);
    assert_eq!(validity(&purges, 20, &Thing(&["c"], "")), Validity::Valid);
    purges.prune(|_, boundary| boundary <= 3);
    assert_eq!((purges.len(), purges.prefixes.len()), (0, 0));
}

#[test]
fn entries_cut_short_or_twice_are_none() {
    let mut purges = Purges::new(20);
    purges.take_in(&purge(label("a"), Mode::Hard, 10));
    purges.take_in(&purge(Target::Prefix(b"x"), Mode::Soft, 30));
    let mut bytes = Vec::new();
    purges.encode(&mut Encoder(&mut bytes));
    let decode = |bytes: &[u8], count| Purges::decode(&mut Decoder(bytes), count);
    assert_eq!(decode(&bytes, 2).map(|purges| purges.entries), Some(purges.entries));
    assert!(decode(&bytes[..bytes.len() - 1], 2).is_none());
    let twice = [&bytes[..Purges::ENTRY_LEN], &bytes[..Purges::ENTRY_LEN]].concat();
    assert!(decode(&twice, 2).is_none());
}

#[test]
fn a_pattern_concerns_older_objects_that_it_matches() {
    let mut purges = Purges::new(100);
    take_in_pattern(&mut purges, b".jpg", Mode::Hard, 10);
    take_in_pattern(&mut purges, b".png", Mode::Soft, 20);
    let cases = [
        ("http://h/a.jpg", 9, Validity::Purged),
        ("http://h/a.jpg", 10, Validity::Valid),
        ("http://h/a.png", 9, Validity::Outdated(20)),
        ("http://h/a.gif", 9, Validity::Valid),
    ];
    for purges in [&purges, &reread(&purges)] {
        for (url, since, expected) in cases {
            assert_eq!(validity(purges, since, &Thing(&[], url)), expected, "{url} {since}");
        }
    }
    take_in_pattern(&mut purges, b"?", Mode::Soft, 30);
    let gif = Thing(&[], "http://h/a.gif");
    assert_eq!(validity(&purges, 29, &gif), Validity::Outdated(30), "it is not understood");
    let long = vec![b'x'; PATTERN_MAX + 1];
    take_in_pattern(&mut purges, &long, Mode::Hard, 40);
    assert_eq!(validity(&purges, 39, &gif), Validity::Purged, "it is too long");
    assert_eq!(purges.len(), 1, "nothing older is left");
}

#[test]
fn a_pattern_of_which_the_journal_lacks_a_part_concerns_everything() {
    let text = b"a text that takes more than two parts of the journal";
    let made = purge(Target::Pattern(text), Mode::Hard, 10);
    let parts = Purges::new(100).take_in_pattern(made.scope, text);
    assert_eq!(parts.len(), 3);
    let replayed = |parts: &[&PatternPart]| {
        let mut purges = Purges::new(100);
        parts.iter().for_each(|part| purges.take_in_pattern_part(part));
        purges.take_in(&made);
        purges.forget_unused_patterns();
        purges
    };
    let other = Thing(&[], "http://h/");
    let all: Vec<&PatternPart> = parts.iter().collect();
    let whole = replayed(&[&all[..], &all[..]].concat());
    assert_eq!(validity(&whole, 9, &other), Validity::Valid);
    assert!(whole.len() == 3 && reread(&whole).len() == 3);
    for lacking in 0..parts.len() {
        let mut some = all.clone();
        some.remove(lacking);
        let mut purges = replayed(&some);
        assert_eq!(validity(&purges, 9, &other), Validity::Purged, "without part {lacking}");
        take_in_pattern(&mut purges, text, Mode::Hard, 10);
        assert_eq!(validity(&purges, 9, &other), Validity::Valid, "purged again");
    }
    let mut orphan = Purges::new(100);
    parts.iter().for_each(|part| orphan.take_in_pattern_part(part));
    orphan.forget_unused_patterns();
    assert_eq!(orphan.len(), 0);
}

#[test]
fn too_many_patterns_are_merged_and_what_they_concerned_stays_purged() {
    let mut purges = Purges::new(1 << 20);
    let text = |number: usize| format!("/{number}").into_bytes();
    for number in 0..=PATTERNS {
        take_in_pattern(&mut purges, &text(number), Mode::Hard, number as u64 + 1);
    }
    assert!(purges.is_too_long());
    while !purges.has_room(16) {
        let merged = purges.merged().unwrap();
        purges.take_in(&merged);
    }
    let left = purges.entries.len() - 1;
    assert!((300..400).contains(&left), "{left} left");
    for number in 0..=PATTERNS {
        let url = format!("http://h/{number}");
        let found = validity(&purges, number as u64, &Thing(&[], &url));
        assert_eq!(found, Validity::Purged, "{url}");
    }
    let newer = Thing(&[], "http://h/x");
    assert_eq!(validity(&purges, PATTERNS as u64 / 2, &newer), Validity::Valid);
}
