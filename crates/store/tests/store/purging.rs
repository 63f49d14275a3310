//! Purges by label, by prefix and of everything: the objects concerned are removed, or outdated, at
//! once and through any crash, in every layout.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use larder_store::{
    Event, Hint, Key, Label, Labels, LayoutName, Locality, Lookup, Mode, Options, Pattern, Refusal,
    Source, Target, WritePolicy,
};

use crate::rig::{Rig, formatted, layout, product, ucfs, use_layout};
use crate::seeds::seeds;

/// The labels of these tests: the words of the metadata. The text is the key.
pub struct Words;

thread_local! {
    /// The version of the way labels are read.
    static VERSION: Cell<u64> = const { Cell::new(1) };
}

pub const WORD: u8 = b'w';

impl Labels for Words {
    fn version(&self) -> u64 {
        VERSION.get()
    }

    fn labels(&self, _: &[u8], meta: &[u8], see: &mut dyn FnMut(Label<'_>)) {
        // The metadata of the fixtures separate words by commas.
        let blank = if meta.contains(&b',') { b',' } else { b' ' };
        for name in meta.split(|byte| *byte == blank) {
            see(Label { kind: WORD, name });
        }
    }

    fn text<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        Some(key)
    }

    fn pattern(&self, pattern: &[u8]) -> Option<Box<dyn Pattern>> {
        Some(Box::new(Contained(pattern.to_vec())))
    }
}

/// Matches objects whose key or metadata contain a text.
struct Contained(Vec<u8>);

impl Pattern for Contained {
    fn matches(&self, key: &[u8], meta: &[u8]) -> bool {
        let is_in = |text: &[u8]| text.windows(self.0.len()).any(|part| part == self.0);
        is_in(key) || is_in(meta)
    }
}

pub fn word(name: &str) -> Target<'_> {
    Target::Label(Label { kind: WORD, name: name.as_bytes() })
}

pub fn labelled(options: Options) -> Options {
    Options { labels: Some(Arc::new(Words)), ..options }
}

fn key(name: &str) -> Key {
    Key::new(Bytes::copy_from_slice(name.as_bytes()), Locality { site: 1, group: 1 }).unwrap()
}

fn try_put(rig: &mut Rig, name: &str, words: &str, len: usize) -> Result<(), Refusal> {
    let token = rig.store.begin_fetch(&key(name));
    put_with(rig, &token, name, words, len)
}

fn put_with(
    rig: &mut Rig,
    token: &larder_store::FetchToken,
    name: &str,
    words: &str,
    len: usize,
) -> Result<(), Refusal> {
    let store = rig.store.clone();
    rig.run(async {
        let meta = Bytes::copy_from_slice(words.as_bytes());
        let mut writer = store.insert(token, &key(name), meta, Hint::default()).await?;
        writer.write(Bytes::from(vec![7; len])).await?;
        writer.commit().await
    })
}

fn put(rig: &mut Rig, name: &str, words: &str) {
    try_put(rig, name, words, 3_000).unwrap();
}

fn purge(rig: &mut Rig, target: Target<'_>, mode: Mode) {
    let store = rig.store.clone();
    rig.run(async { store.purge_all(&[target], mode).await }).unwrap();
}

/// Returns the words of the object, its tier, and whether it is outdated.
fn get(rig: &mut Rig, name: &str) -> Option<(String, Source, bool)> {
    let store = rig.store.clone();
    let Lookup::Hit(entry) = rig.run(store.lookup(&key(name))) else { return None };
    let words = String::from_utf8(entry.meta().to_vec()).unwrap();
    Some((words, entry.source(), entry.outdated_since().is_some()))
}

fn has(rig: &mut Rig, name: &str) -> bool {
    get(rig, name).is_some()
}

fn is_outdated(rig: &mut Rig, name: &str) -> bool {
    get(rig, name).unwrap().2
}

fn refresh(rig: &mut Rig, name: &str, words: &str) -> Result<(), Refusal> {
    let store = rig.store.clone();
    rig.run(async {
        let token = store.begin_fetch(&key(name));
        let Lookup::Hit(entry) = store.lookup(&key(name)).await else {
            return Err(Refusal::Overtaken);
        };
        let meta = Bytes::copy_from_slice(words.as_bytes());
        store.replace_meta(&token, &key(name), &entry, meta).await
    })
}

/// A layout, and options to use it with.
fn ways() -> Vec<(LayoutName, Options)> {
    let product = LayoutName::ALL.map(|layout| (layout, labelled(product())));
    let late = (LayoutName::Cluster, labelled(ucfs()));
    product.into_iter().chain([late]).collect()
}

/// Runs `test` on a new cache of every layout.
fn everywhere(test: impl Fn(Rig, &Options)) {
    for (layout, options) in ways() {
        use_layout(layout, 0);
        test(Rig::open(formatted(24 << 20, 64 << 10), options.clone()), &options);
    }
    use_layout(LayoutName::Cluster, 0);
}

/// Opens the store after a kill, and after power losses that kept some unflushed data.
fn crashed(rig: &Rig, options: &Options) -> Vec<Rig> {
    let memory = &rig.probe.memory;
    let images = [memory.crash_process(), memory.crash_power(1), memory.crash_power(2)];
    images.map(|memory| Rig::open(memory, options.clone())).into()
}

#[test]
fn a_purge_takes_what_it_concerns_and_nothing_else() {
    everywhere(|mut rig, _| {
        put(&mut rig, "http://a/x", "red blue");
        put(&mut rig, "http://a/y", "blue");
        put(&mut rig, "http://b/x", "green");
        put(&mut rig, "http://b/long", "red");
        try_put(&mut rig, "http://b/large", "red", 400_000).unwrap();
        purge(&mut rig, word("red"), Mode::Hard);
        let names = ["http://a/x", "http://a/y", "http://b/x", "http://b/long", "http://b/large"];
        assert_eq!(names.map(|name| has(&mut rig, name)), [false, true, true, false, false]);
        put(&mut rig, "http://a/x", "red blue");
        assert!(has(&mut rig, "http://a/x"), "stored after the purge");
        purge(&mut rig, Target::Prefix(b"http://a/"), Mode::Hard);
        assert_eq!(names.map(|name| has(&mut rig, name)), [false, false, true, false, false]);
        purge(&mut rig, Target::Everything, Mode::Hard);
        assert!(!has(&mut rig, "http://b/x"));
    });
}

#[test]
fn nothing_purged_by_pattern_comes_back_after_a_kill_or_a_power_loss() {
    everywhere(|mut rig, options| {
        for number in 0..12 {
            put(&mut rig, &format!("http://a/{number}/x"), ["red", "blue"][number % 2]);
        }
        rig.settle_durably();
        let token = rig.store.begin_fetch(&key("http://a/0/late"));
        purge(&mut rig, Target::Pattern(b"/0/x with a text of several parts"), Mode::Hard);
        purge(&mut rig, Target::Pattern(b"re"), Mode::Hard);
        purge(&mut rig, Target::Pattern(b"1/x"), Mode::Soft);
        let late = put_with(&mut rig, &token, "http://a/0/late", "red", 3_000);
        assert_eq!(late, Err(Refusal::Overtaken), "a fetch that the purge overtook");
        put(&mut rig, "http://a/new/x", "red");
        let check = |rig: &mut Rig, may_be_lost: bool| {
            for number in 0..12 {
                let name = format!("http://a/{number}/x");
                let expected = (number % 2 == 1).then_some(number % 10 == 1);
                let found = get(rig, &name).map(|(_, _, is_outdated)| is_outdated);
                // What was purged softly before it was written is not written.
                let is_lost = may_be_lost && found.is_none();
                assert!(found == expected || is_lost, "{name}: {found:?}, not {expected:?}");
            }
        };
        check(&mut rig, false);
        for mut rig in crashed(&rig, options) {
            check(&mut rig, true);
        }
        let mut rig = rig.reopen();
        assert!(has(&mut rig, "http://a/new/x"), "stored after the purge");
        check(&mut rig, true);
    });
}

#[test]
fn metadata_that_a_pattern_concerned_do_not_make_way_for_former_ones() {
    everywhere(|mut rig, options| {
        put(&mut rig, "http://a/x", "one label");
        rig.settle_durably();
        refresh(&mut rig, "http://a/x", "one label ").unwrap();
        purge(&mut rig, Target::Pattern(b"label "), Mode::Hard);
        for mut rig in crashed(&rig, options) {
            assert!(!has(&mut rig, "http://a/x"));
        }
    });
}

#[test]
fn nothing_purged_by_label_comes_back_after_a_kill_or_a_power_loss() {
    everywhere(|mut rig, options| {
        for number in 0..12 {
            put(&mut rig, &format!("http://a/{number}"), ["red", "blue"][number % 2]);
        }
        rig.settle_durably();
        purge(&mut rig, word("red"), Mode::Hard);
        purge(&mut rig, Target::Prefix(b"http://a/1"), Mode::Hard);
        for mut rig in crashed(&rig, options) {
            for number in 0..12 {
                let name = format!("http://a/{number}");
                let purged = number % 2 == 0 || name.starts_with("http://a/1");
                let lost = options.write_policy == WritePolicy::OnEvict;
                assert_eq!(has(&mut rig, &name), !purged && !lost, "{name}");
            }
            // Once more, with the checkpoint of that start.
            let mut again = Rig::open(rig.probe.memory.crash_process(), options.clone());
            assert!(!has(&mut again, "http://a/0") && !has(&mut again, "http://a/10"));
        }
    });
}

#[test]
fn nothing_purged_comes_back_after_an_orderly_stop() {
    everywhere(|mut rig, options| {
        put(&mut rig, "http://a/x", "red");
        put(&mut rig, "http://a/y", "blue");
        rig.settle_durably();
        purge(&mut rig, word("red"), Mode::Hard);
        purge(&mut rig, word("blue"), Mode::Soft);
        let late = options.write_policy == WritePolicy::OnEvict;
        let mut rig = rig.reopen();
        assert!(!has(&mut rig, "http://a/x"));
        // An object that is outdated before it is written is not written.
        assert_eq!(get(&mut rig, "http://a/y").map(|found| found.2), (!late).then_some(true));
    });
}

#[test]
fn what_waits_for_its_place_is_outdated_by_a_soft_purge_and_not_lost() {
    everywhere(|mut rig, options| {
        if options.write_policy != WritePolicy::OnInsert {
            return;
        }
        put(&mut rig, "http://a/x", "red");
        purge(&mut rig, word("red"), Mode::Soft);
        rig.settle_durably();
        for mut rig in crashed(&rig, options) {
            assert!(is_outdated(&mut rig, "http://a/x"));
        }
    });
}

#[test]
fn what_a_missed_purge_may_concern_is_in_doubt_until_it_is_validated() {
    let since = |rig: &mut Rig, name| {
        let store = rig.store.clone();
        let Lookup::Hit(entry) = rig.run(store.lookup(&key(name))) else { return None };
        Some(entry.outdated_since())
    };
    everywhere(|mut rig, options| {
        put(&mut rig, "http://a/x", "red");
        put(&mut rig, "http://a/y", "blue");
        rig.settle_durably();
        let store = rig.store.clone();
        rig.run(store.doubt_everything()).unwrap();
        put(&mut rig, "http://a/z", "red");
        rig.settle_durably();
        rig.pass(Duration::from_secs(1));
        // A soft purge that is known grants objects in doubt nothing.
        purge(&mut rig, Target::Everything, Mode::Soft);
        let check = |rig: &mut Rig| {
            assert_eq!(since(rig, "http://a/y"), Some(Some(0)));
            assert!(is_outdated(rig, "http://a/z"));
        };
        check(&mut rig);
        if options.write_policy == WritePolicy::OnInsert {
            crashed(&rig, options).into_iter().for_each(|mut rig| check(&mut rig));
        }
        refresh(&mut rig, "http://a/x", "red").unwrap();
        assert_eq!(since(&mut rig, "http://a/x"), Some(None));
    });
}

#[test]
fn what_was_purged_softly_stays_and_is_outdated_until_it_is_validated() {
    everywhere(|mut rig, options| {
        put(&mut rig, "http://a/x", "red");
        put(&mut rig, "http://a/y", "blue");
        rig.settle_durably();
        purge(&mut rig, word("red"), Mode::Soft);
        assert!(is_outdated(&mut rig, "http://a/x") && !is_outdated(&mut rig, "http://a/y"));
        if options.write_policy == WritePolicy::OnInsert {
            for mut rig in crashed(&rig, options) {
                assert!(
                    is_outdated(&mut rig, "http://a/x") && !is_outdated(&mut rig, "http://a/y")
                );
            }
        }
        rig.pass(Duration::from_secs(1));
        refresh(&mut rig, "http://a/x", "red").unwrap();
        assert!(!is_outdated(&mut rig, "http://a/x"), "validated after the purge");
        rig.settle_durably();
        if options.write_policy == WritePolicy::OnInsert {
            for mut rig in crashed(&rig, options) {
                assert!(!is_outdated(&mut rig, "http://a/x"));
            }
        }
        purge(&mut rig, word("red"), Mode::Hard);
        assert!(!has(&mut rig, "http://a/x"));
    });
}

#[test]
fn a_fetch_that_a_purge_of_its_label_overtook_is_not_stored() {
    everywhere(|mut rig, _| {
        for mode in [Mode::Hard, Mode::Soft] {
            let token = rig.store.begin_fetch(&key("http://a/x"));
            purge(&mut rig, word("red"), mode);
            assert!(token.purged(&key("http://a/x"), || Bytes::from_static(b"red")));
            assert!(!token.purged(&key("http://a/x"), || Bytes::from_static(b"blue")));
            let refused = put_with(&mut rig, &token, "http://a/x", "blue red", 100);
            assert_eq!(refused, Err(Refusal::Overtaken));
            put_with(&mut rig, &token, "http://a/x", "blue", 100).unwrap();
            // Also between its head and its end.
            let store = rig.store.clone();
            let token = store.begin_fetch(&key("http://a/z"));
            let ended = rig.run(async {
                let (key, meta) = (key("http://a/z"), Bytes::from_static(b"red"));
                let mut writer = store.insert(&token, &key, meta, Hint::default()).await?;
                writer.write(Bytes::from(vec![1; 200_000])).await?;
                store.purge_all(&[word("red")], mode).await?;
                writer.commit().await
            });
            assert_eq!(ended, Err(Refusal::Overtaken));
            assert!(!has(&mut rig, "http://a/z"));
        }
    });
}

#[test]
fn a_validation_that_a_purge_overtook_makes_nothing_fresh() {
    everywhere(|mut rig, _| {
        put(&mut rig, "http://a/x", "red");
        let store = rig.store.clone();
        let token = store.begin_fetch(&key("http://a/x"));
        purge(&mut rig, word("red"), Mode::Soft);
        let Lookup::Hit(entry) = rig.run(store.lookup(&key("http://a/x"))) else {
            panic!("it stays")
        };
        let meta = Bytes::from_static(b"blue");
        let x = key("http://a/x");
        let replaced = store.replace_meta(&token, &x, &entry, meta);
        assert_eq!(rig.run(replaced), Err(Refusal::Overtaken));
        assert!(is_outdated(&mut rig, "http://a/x"));
        // It cannot add a label that was purged since either.
        let token = store.begin_fetch(&key("http://a/x"));
        purge(&mut rig, word("green"), Mode::Hard);
        let meta = Bytes::from_static(b"green");
        let replaced = store.replace_meta(&token, &x, &entry, meta);
        assert_eq!(rig.run(replaced), Err(Refusal::Overtaken));
        // A reader that still holds a removed object cannot bring it back.
        let token = store.begin_fetch(&key("http://a/x"));
        purge(&mut rig, word("red"), Mode::Hard);
        let late = store.begin_fetch(&key("http://a/x"));
        for token in [token, late] {
            let meta = Bytes::from_static(b"red");
            let replaced = store.replace_meta(&token, &x, &entry, meta);
            assert_eq!(rig.run(replaced), Err(Refusal::Overtaken));
        }
        assert!(!has(&mut rig, "http://a/x"));
    });
}

#[test]
fn a_label_that_a_validation_added_is_known_after_a_kill() {
    everywhere(|mut rig, options| {
        put(&mut rig, "http://a/x", "red");
        rig.settle_durably();
        // The purge returns before the new metadata are on the device.
        refresh(&mut rig, "http://a/x", "red blue").unwrap();
        purge(&mut rig, word("blue"), Mode::Hard);
        assert!(!has(&mut rig, "http://a/x"));
        for mut rig in crashed(&rig, options) {
            assert!(!has(&mut rig, "http://a/x"));
        }
    });
}

#[test]
fn the_table_is_bounded_and_empties_itself() {
    everywhere(|_, options| {
        let options = Options { purges: 16, ..options.clone() };
        let mut rig = Rig::open(formatted(24 << 20, 64 << 10), options.clone());
        put(&mut rig, "http://a/x", "red");
        // One object has all of these labels.
        let words: Vec<String> = (0..100).map(|number| format!("word-{number}")).collect();
        try_put(&mut rig, "http://a/words", &words.join(" "), 100).unwrap();
        purge(&mut rig, word("red"), Mode::Hard);
        for word_ in &words {
            purge(&mut rig, word(word_), Mode::Hard);
            assert!(rig.store.stats()[0].purges <= 16);
            put(&mut rig, "http://a/new", "green");
        }
        assert!(rig.store.stats()[0].counters.purges_merged > 0);
        assert!(!has(&mut rig, "http://a/x"), "a full table forgets no purge");
        assert!(has(&mut rig, "http://a/new"));
        // No object is older than any purge: an orderly stop drops the purges.
        for number in 0..400 {
            try_put(&mut rig, &format!("http://a/{number}"), "green", 100_000).unwrap();
        }
        let mut rig = rig.reopen();
        assert_eq!(rig.store.stats()[0].purges, 0);
        assert!(!has(&mut rig, "http://a/x"));
    });
}

fn purge_words(rig: &mut Rig, words: &[String], mode: Mode) {
    let store = rig.store.clone();
    let targets: Vec<Target<'_>> = words.iter().map(|name| word(name)).collect();
    rig.run(async { store.purge_all(&targets, mode).await }).unwrap();
}

/// Words that no object has.
fn strangers(numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|number| format!("stranger-{number}")).collect()
}

#[test]
fn purges_of_labels_without_objects_remove_nothing() {
    everywhere(|_, options| {
        let options = Options { purges: 16, ..options.clone() };
        let mut rig = Rig::open(formatted(24 << 20, 64 << 10), options.clone());
        let names: Vec<String> = (0..40).map(|number| format!("http://a/{number}")).collect();
        for (number, name) in names.iter().enumerate() {
            try_put(&mut rig, name, ["red", "blue"][number % 2], 500).unwrap();
        }
        rig.settle_durably();
        purge(&mut rig, word("red"), Mode::Hard);
        let slow = rig.store.begin_fetch(&key("http://a/slow"));
        for from in (0..20_000).step_by(1_000) {
            let mode = if from % 2_000 == 0 { Mode::Hard } else { Mode::Soft };
            purge_words(&mut rig, &strangers(from..from + 1_000), mode);
        }
        let stats = rig.store.stats()[0];
        assert!(stats.purges <= 4 && stats.counters.purges_merged == 0, "{}", stats.purges);
        assert!(stats.counters.purges_unborne > 19_900);
        for (number, name) in names.iter().enumerate() {
            assert_eq!(has(&mut rig, name), number % 2 == 1, "{name}");
            assert!(number % 2 == 0 || !is_outdated(&mut rig, name));
        }
        // An object fetched meanwhile has the first or the last of these words.
        for stranger in ["stranger-0", "stranger-19999"] {
            let stored = put_with(&mut rig, &slow, "http://a/slow", stranger, 100);
            assert_eq!(stored, Err(Refusal::Overtaken), "{stranger}");
        }
        // Objects fetched from now on may have any of them.
        put(&mut rig, "http://a/slow", "stranger-0 stranger-19999");
        assert!(has(&mut rig, "http://a/slow"));
        purge(&mut rig, word("stranger-7"), Mode::Hard);
        purge(&mut rig, word("stranger-0"), Mode::Hard);
        assert!(!has(&mut rig, "http://a/slow"), "it bears it now");
        for mut rig in crashed(&rig, &options) {
            assert!(!has(&mut rig, "http://a/slow") && !has(&mut rig, "http://a/0"));
        }
    });
}

/// Prefixes of no stored key: some similar to stored keys, some not.
fn strange_prefix(number: usize) -> String {
    match number % 4 {
        0 => format!("http://a/none{number}"),
        1 => format!("http://a/x/{number}/"),
        2 => format!("http://b{number}.example/"),
        _ => format!("http://a/y?page={number}"),
    }
}

fn purge_strange_prefixes(rig: &mut Rig, numbers: std::ops::Range<usize>, mode: Mode) {
    let store = rig.store.clone();
    let prefixes: Vec<String> = numbers.map(strange_prefix).collect();
    let targets: Vec<_> = prefixes.iter().map(|text| Target::Prefix(text.as_bytes())).collect();
    rig.run(async { store.purge_all(&targets, mode).await }).unwrap();
}

#[test]
fn purges_of_prefixes_that_match_nothing_cost_nothing() {
    everywhere(|mut rig, options| {
        for name in ["http://a/x", "http://a/y?q=1", "http://a/z/1", "http://a/z/2"] {
            put(&mut rig, name, "red");
        }
        for mode in [Mode::Hard, Mode::Soft] {
            purge_strange_prefixes(&mut rig, 0..1_500, mode);
        }
        assert_eq!(rig.store.stats()[0].purges, 0);
        rig.settle_durably();
        purge_strange_prefixes(&mut rig, 0..1_500, Mode::Hard);
        assert_eq!(rig.store.stats()[0].purges, 0);
        purge(&mut rig, Target::Prefix(b"http://a/z/1"), Mode::Hard);
        assert!(!has(&mut rig, "http://a/z/1") && has(&mut rig, "http://a/z/2"));
        for mut rig in crashed(&rig, options) {
            rig.settle();
            purge_strange_prefixes(&mut rig, 0..600, Mode::Hard);
            purge(&mut rig, Target::Prefix(b"http://a/z/"), Mode::Hard);
            assert!(has(&mut rig, "http://a/x") || options.write_policy == WritePolicy::OnEvict);
            assert!(!has(&mut rig, "http://a/z/1") && !has(&mut rig, "http://a/z/2"));
            assert_eq!(rig.store.stats()[0].counters.purges_merged, 0);
        }
        let mut rig = rig.reopen();
        purge_strange_prefixes(&mut rig, 0..1_500, Mode::Hard);
        assert!(has(&mut rig, "http://a/x") && has(&mut rig, "http://a/y?q=1"));
        assert!(rig.store.stats()[0].purges <= 1, "{}", rig.store.stats()[0].purges);
    });
}

#[test]
fn a_purge_of_a_prefix_that_matches_nothing_overtakes_what_is_being_fetched() {
    everywhere(|mut rig, _| {
        put(&mut rig, "http://a/x", "red");
        let token = rig.store.begin_fetch(&key("http://b/1"));
        purge(&mut rig, Target::Prefix(b"http://b/"), Mode::Hard);
        assert_eq!(rig.store.stats()[0].purges, 0);
        let stored = put_with(&mut rig, &token, "http://b/1", "red", 100);
        assert_eq!(stored, Err(Refusal::Overtaken));
    });
}

#[test]
fn an_operator_is_told_before_purges_are_merged_and_when_they_are() {
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let events = told.clone();
    let on_event = Arc::new(move |event| {
        if let Event::PurgesFull { entries, max, merged, .. } = event {
            events.lock().unwrap().push((entries, max, merged));
        }
    });
    let options = Options { purges: 40, on_event, ..labelled(product()) };
    let mut rig = Rig::open(formatted(24 << 20, 64 << 10), options);
    let words: Vec<String> = (0..60).map(|number| format!("w{number}")).collect();
    for word in &words {
        put(&mut rig, &format!("http://a/{word}"), word);
    }
    purge_words(&mut rig, &words[..39], Mode::Hard);
    assert_eq!(*told.lock().unwrap(), [(39, 40, false)]);
    purge_words(&mut rig, &words[39..42], Mode::Hard);
    let told = told.lock().unwrap();
    assert!(told.len() == 2 && told[1].2, "{told:?}");
}

/// Returns a cache with objects that have the word `red` and one of their own, all written.
fn filled(options: &Options) -> Rig {
    let mut rig = Rig::open(formatted(24 << 20, 64 << 10), options.clone());
    for number in 0..200 {
        let words = format!("red own-{number}");
        try_put(&mut rig, &format!("http://a/{number}"), &words, 20_000).unwrap();
    }
    for number in 0..20 {
        _ = refresh(&mut rig, &format!("http://a/{number}"), &format!("red own-{number} new"));
    }
    rig.settle_durably();
    rig
}

fn found(rig: &mut Rig) -> Vec<u32> {
    (0..200).filter(|number| has(rig, &format!("http://a/{number}"))).collect()
}

/// Purges of any number of words that no object has remove nothing; a purge of a word that objects
/// have removes them for good.
fn purge_foreign_and_own(rig: &mut Rig, options: &Options) {
    let before = found(rig);
    for from in (0..20_000).step_by(1_000) {
        purge_words(rig, &strangers(from..from + 1_000), Mode::Hard);
    }
    let stats = rig.store.stats()[0];
    assert_eq!(stats.counters.purges_merged, 0);
    assert!(stats.counters.purges_unborne > 19_900 && stats.purges <= 4, "{}", stats.purges);
    assert_eq!(found(rig), before);
    for number in before.iter().step_by(7) {
        purge(rig, word(&format!("own-{number}")), Mode::Hard);
        assert!(!has(rig, &format!("http://a/{number}")));
    }
    let after = found(rig);
    let gone = |number: &&u32| before.contains(number) && !after.contains(number);
    assert_eq!((0..200).filter(|number| gone(&number)).count(), before.len().div_ceil(7));
    let mut again = Rig::open(rig.probe.memory.crash_process(), options.clone());
    assert!(found(&mut again).iter().all(|number| after.contains(number)));
    purge(&mut again, word("red"), Mode::Hard);
    assert!(found(&mut again).is_empty());
}

#[test]
fn what_is_borne_is_known_after_an_orderly_stop() {
    everywhere(|_, options| {
        let options = Options { purges: 32, ..options.clone() };
        let mut rig = filled(&options).reopen();
        assert!(found(&mut rig).len() > 150);
        // Also when another stop follows at once.
        let mut rig = rig.reopen();
        purge_foreign_and_own(&mut rig, &options);
    });
}

#[test]
fn what_is_borne_is_known_after_a_kill_and_a_power_loss() {
    everywhere(|_, options| {
        let options = Options { purges: 32, ..options.clone() };
        let late = options.write_policy == WritePolicy::OnEvict;
        for mut rig in crashed(&filled(&options), &options) {
            let found = found(&mut rig).len();
            assert!(late || found == 200, "{found}");
            // A cluster that had no space for its labels is read first.
            rig.pass(Duration::from_secs(60));
            purge_foreign_and_own(&mut rig, &options);
        }
        // Also after an earlier orderly stop, whose filters are not those of the crash.
        let mut rig = filled(&options).reopen();
        put(&mut rig, "http://a/late", "late");
        rig.settle_durably();
        for mut rig in crashed(&rig, &options) {
            rig.pass(Duration::from_secs(60));
            purge(&mut rig, word("late"), Mode::Hard);
            assert!(!has(&mut rig, "http://a/late"));
            purge_foreign_and_own(&mut rig, &options);
        }
    });
}

#[test]
fn what_is_borne_is_not_believed_when_labels_are_read_in_another_way() {
    everywhere(|_, options| {
        let options = Options { purges: 64, ..options.clone() };
        let stopped = filled(&options).reopen();
        let clusters = layout() == LayoutName::Cluster;
        let image = stopped.probe.memory.crash_process();
        for (orderly, rig) in [(true, stopped), (false, Rig::open(image, options.clone()))] {
            let memory = match orderly {
                true => rig.stop().memory,
                false => rig.probe.memory.crash_process(),
            };
            VERSION.set(2);
            let mut rig = Rig::open(memory, options.clone());
            let before = found(&mut rig);
            purge_words(&mut rig, &strangers(0..6), Mode::Hard);
            // A scan of slots reads all current labels.
            let known = !orderly && !clusters;
            assert_eq!(rig.store.stats()[0].purges, if known { 0 } else { 6 });
            purge(&mut rig, word("own-5"), Mode::Hard);
            assert!(!has(&mut rig, "http://a/5"));
            purge_words(&mut rig, &strangers(6..12), Mode::Hard);
            rig.pass(Duration::from_secs(60));
            if clusters {
                let purges = rig.store.stats()[0].purges;
                assert!(purges <= 1, "all was read, and bears none of them: {purges}");
            }
            let after = found(&mut rig).len();
            assert_eq!(after, before.len() - usize::from(before.contains(&5)));
            VERSION.set(1);
        }
    });
}

#[test]
fn what_lives_in_memory_alone_is_known_however_many_labels_come_and_go() {
    for late in [false, true] {
        let options = labelled(if late { ucfs() } else { product() });
        let mut rig = Rig::open(formatted(8 << 20, 32 << 10), options);
        let hot: Vec<String> = (0..8).map(|number| format!("http://a/hot-{number}")).collect();
        for (number, name) in hot.iter().enumerate() {
            try_put(&mut rig, name, &format!("hot-{number}"), 500).unwrap();
        }
        // Some clusters are evicted meanwhile, and all eras are reused.
        let mut stayed = 0;
        for round in 0..24 {
            for number in 0..20 {
                let own = (0..250).map(|n| format!("own-{round}-{number}-{n}"));
                let words = own.collect::<Vec<_>>().join(" ");
                try_put(&mut rig, &format!("http://a/{round}-{number}"), &words, 40_000).unwrap();
                stayed = hot.iter().filter(|name| has(&mut rig, name)).count();
            }
        }
        assert!(!late || stayed == 8, "{stayed} of what was asked for all the time");
        purge_words(&mut rig, &strangers(0..200), Mode::Hard);
        assert!(rig.store.stats()[0].counters.purges_unborne > 150);
        for (number, name) in hot.iter().enumerate() {
            let found = has(&mut rig, name);
            purge(&mut rig, word(&format!("hot-{number}")), Mode::Hard);
            assert!(!has(&mut rig, name), "{name} was found: {found}, late: {late}");
        }
    }
}

/// Objects whose every version has a word of its own and others. A purged version never reappears,
/// through evictions, crashes, overflows and purges of words that no object has.
struct Model {
    rig: Rig,
    options: Options,
    random: fastrand::Rng,
    /// By number: the words of each version whose fetch has begun, and whether one was purged.
    versions: Vec<(Vec<String>, bool)>,
    /// Fetches under way: token, name and version.
    fetches: Vec<(larder_store::FetchToken, u32, usize)>,
    strangers: usize,
}

impl Model {
    fn words(&mut self) -> Vec<String> {
        let version = self.versions.len();
        let mut words = vec![format!("v{version}")];
        words.extend((0..self.random.usize(..3)).map(|_| format!("c{}", self.random.u8(..30))));
        // Enough for several eras of labels.
        words.extend((0..250).map(|number| format!("own-{version}-{number}")));
        words
    }

    fn begin(&mut self, name: u32) -> usize {
        let words = self.words();
        self.versions.push((words, false));
        let token = self.rig.store.begin_fetch(&key(&format!("http://a/{name}")));
        self.fetches.push((token, name, self.versions.len() - 1));
        self.fetches.len() - 1
    }

    fn end(&mut self, fetch: usize) {
        let (token, name, version) = self.fetches.swap_remove(fetch);
        let words = self.versions[version].0.join(" ");
        let name = format!("http://a/{name}");
        if self.random.u8(..4) == 0 {
            let (store, key) = (self.rig.store.clone(), key(&name));
            let meta = Bytes::from(words.into_bytes());
            _ = self.rig.run(async {
                let Lookup::Hit(entry) = store.lookup(&key).await else { return Ok(()) };
                store.replace_meta(&token, &key, &entry, meta).await
            });
        } else {
            let len = self.random.usize(100..120_000);
            _ = put_with(&mut self.rig, &token, &name, &words, len);
        }
    }

    fn purge(&mut self) {
        let some = self.random.usize(..self.versions.len().max(1));
        let name = match (self.random.u8(..3), self.versions.get(some)) {
            (0, Some((words, _))) => words[self.random.usize(..words.len())].clone(),
            (1, Some((words, _))) => words[0].clone(),
            _ => format!("c{}", self.random.u8(..30)),
        };
        purge(&mut self.rig, word(&name), Mode::Hard);
        for (words, purged) in &mut self.versions {
            *purged |= words.contains(&name);
        }
    }

    fn check(&mut self, name: u32) {
        let Some((words, ..)) = get(&mut self.rig, &format!("http://a/{name}")) else { return };
        let version = words.split(' ').next().and_then(|word| word[1..].parse::<usize>().ok());
        assert!(!self.versions[version.unwrap()].1, "{words} was purged");
    }

    fn restart(&mut self) {
        self.fetches.clear();
        let memory = self.rig.probe.memory.clone();
        let memory = match self.random.u8(..3) {
            0 => memory.crash_process(),
            1 => memory.crash_power(self.random.u64(..)),
            _ => {
                let store = self.rig.store.clone();
                self.rig.run(store.shutdown());
                memory.crash_process()
            }
        };
        VERSION.set(VERSION.get() + u64::from(self.random.u8(..5) == 0));
        self.rig = Rig::open(memory, self.options.clone());
    }

    fn step(&mut self) {
        let name = self.random.u32(..150);
        match self.random.u8(..64) {
            0..20 => {
                let fetch = self.begin(name);
                self.end(fetch);
            }
            20..24 if self.fetches.len() < 8 => _ = self.begin(name),
            24..28 if !self.fetches.is_empty() => {
                let fetch = self.random.usize(..self.fetches.len());
                self.end(fetch);
            }
            28..34 => self.purge(),
            34..38 => {
                let from = self.strangers;
                self.strangers += self.random.usize(1..60);
                purge_words(&mut self.rig, &strangers(from..self.strangers), Mode::Hard);
            }
            38..42 => self.rig.pass(Duration::from_millis(self.random.u64(..4_000))),
            42 if self.random.u8(..3) == 0 => {
                self.restart();
                (0..150).for_each(|name| self.check(name));
            }
            _ => self.check(name),
        }
    }
}

#[test]
fn no_purged_object_reappears() {
    let mut denied = 0;
    for (number, (layout, options)) in ways().into_iter().enumerate() {
        use_layout(layout, 0);
        for seed in seeds("nothing_purged_comes_back_whatever", 2) {
            let random = fastrand::Rng::with_seed(seed.wrapping_add(number as u64));
            let purges = [4, 16, 200][(seed % 3) as usize];
            let options = Options { purges, ..options.clone() };
            let memory = formatted(8 << 20, 32 << 10);
            let rig = Rig::open(memory, options.clone());
            let (versions, fetches) = (Vec::new(), Vec::new());
            let mut model = Model { rig, options, random, versions, fetches, strangers: 0 };
            for _ in 0..700 {
                model.step();
            }
            (0..150).for_each(|name| model.check(name));
            denied += model.rig.store.stats()[0].counters.purges_unborne;
        }
    }
    use_layout(LayoutName::Cluster, 0);
    assert!(denied > 100, "{denied}");
}

/// A label that names a source (a document root, say) serves as its generation: see
/// `store::Labels`.
#[test]
fn raising_the_generation_of_a_source_makes_what_was_made_of_it_invalid() {
    everywhere(|mut rig, options| {
        let raise = |rig: &mut Rig, source: &str| purge(rig, word(source), Mode::Hard);
        put(&mut rig, "http://a/1", "root:main");
        put(&mut rig, "http://a/2", "root:main table:users");
        put(&mut rig, "http://a/3", "root:other");
        // Its fetch began in the old generation and ended in the new one.
        let token = rig.store.begin_fetch(&key("http://a/4"));
        raise(&mut rig, "root:main");
        let late = put_with(&mut rig, &token, "http://a/4", "root:main", 3_000);
        assert_eq!(late, Err(Refusal::Overtaken));
        let late = put_with(&mut rig, &token, "http://a/4", "root:other", 3_000);
        assert_eq!(late, Ok(()), "of another source");
        let names = ["http://a/1", "http://a/2", "http://a/3", "http://a/4"];
        assert_eq!(names.map(|name| has(&mut rig, name)), [false, false, true, true]);
        // Objects made now are of the new generation, until that is raised.
        put(&mut rig, "http://a/1", "root:main");
        put(&mut rig, "http://a/2", "root:main table:users");
        raise(&mut rig, "table:users");
        assert_eq!(names.map(|name| has(&mut rig, name)), [true, false, true, true]);
        let entries = rig.store.stats()[0].purges;
        for _ in 0..100 {
            put(&mut rig, "http://a/1", "root:main");
            raise(&mut rig, "root:main");
        }
        assert!(rig.store.stats()[0].purges <= entries + 1, "one entry for each source");
        rig.settle();
        for mut rig in crashed(&rig, options) {
            assert!(!has(&mut rig, "http://a/1") && !has(&mut rig, "http://a/2"));
        }
    });
}
