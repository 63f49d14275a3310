//! Tests of the table against a plain list of all purges ever made.

use fastrand::Rng;

use super::*;
use crate::base::keyed_checksum::Secret;
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
    let mut all: Vec<Purge> = Vec::new();
    let mut merged = 0;
    for sequence in 1..600 {
        let name = &names[random.usize(..names.len())];
        let mode = if random.bool() { Mode::Hard } else { Mode::Soft };
        let target = match random.u8(..40) {
            0 => Target::Everything,
            1..20 => Target::Prefix(name.as_bytes()),
            _ => label(name),
        };
        let made = purge(target, mode, sequence);
        purges.take_in(&made);
        all.push(made);
        while purges.is_too_long() {
            let whole = purges.merged().unwrap();
            assert_eq!(whole.mode, Mode::Hard);
            merged += 1;
            purges.take_in(&whole);
        }
        assert!(purges.len() <= 20);
        // Round trip through a checkpoint.
        if random.u8(..8) == 0 {
            let mut bytes = Vec::new();
            purges.encode(&mut Encoder(&mut bytes));
            assert_eq!(bytes.len(), purges.len() * Purges::ENTRY_LEN);
            purges = Purges::decode(&mut Decoder(&bytes), purges.len()).unwrap();
            purges.set_max(20);
        }
        let (one, other) = (random.usize(..names.len()), random.usize(..names.len()));
        let labels = [&*names[one], &*names[other]];
        let thing = Thing(&labels, &names[random.usize(..names.len())]);
        let since = random.u64(..=sequence);
        let mut plain = Purges::new(usize::MAX);
        all.iter().for_each(|purge| plain.take_in(purge));
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
