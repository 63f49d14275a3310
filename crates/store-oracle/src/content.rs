//! The contents that tests store: bytes derived from key, version and length alone, so that
//! anything read back can be verified without a copy of it.

use bytes::Bytes;
use fastrand::Rng;
use store::{Key, Label, Labels, Locality, Pattern, Target};

/// One state of a key: a body and its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct State {
    /// Number of the key.
    pub key: u32,
    /// The version; unique among all bodies of a trial.
    pub version: u32,
    /// Number of the metadata within one version.
    pub meta: u32,
    /// Length of the body in bytes.
    pub len: u64,
}

/// Returns the key with this number. Eight neighbours share a directory, 64 share a site.
pub fn key(number: u32) -> Key {
    let name = format!("http://site{}/dir{}/object{number}", number / 64, number / 8);
    let locality =
        Locality { site: u64::from(number / 64) + 1, group: u64::from(number / 8) + 1_000 };
    Key::new(Bytes::from(name), locality).expect("a short key")
}

impl State {
    /// Returns the metadata, which name the state. They have up to 700 bytes, unless the body's
    /// length is a round number: then all records of one length have the same size.
    pub fn meta_bytes(self) -> Bytes {
        let State { key, version, meta, len } = self;
        let name = format!("{key} {version} {meta} {len} ");
        if len.is_multiple_of(1_000) {
            return Bytes::from(format!("{name:40}"));
        }
        let padding = Rng::with_seed(u64::from(version ^ meta << 16)).usize(..700);
        Bytes::from(name + &"m".repeat(padding))
    }

    /// Returns the state that the metadata name; `None` if they are not, byte for byte, the
    /// metadata of a state.
    pub fn from_meta(bytes: &Bytes) -> Option<State> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut numbers = text.split(' ').map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        let (key, version) = (next()? as u32, next()? as u32);
        let state = State { key, version, meta: next()? as u32, len: next()? };
        (*bytes == state.meta_bytes()).then_some(state)
    }

    /// Returns the bytes of the body.
    pub fn body(self) -> Bytes {
        let mut bytes = vec![0; self.len as usize];
        let seed = u64::from(self.key) << 32 | u64::from(self.version);
        Rng::with_seed(seed).fill(&mut bytes);
        Bytes::from(bytes)
    }
}

/// The criterion of a purge of many objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// All objects.
    Everything,
    /// The label that all objects of a directory bear.
    Directory(u32),
    /// The prefix of the names of all objects in a directory.
    Prefix(u32),
    /// A label that one body in five bears.
    Body(u32),
    /// A label that one metadata version in three bears; replacing metadata may remove or add it.
    Meta(u32),
    /// A pattern that one metadata version in three matches.
    Pattern(u32),
    /// Exactly this state. Not a purge itself: it records what remains of a purge after a session
    /// has ended.
    Only(State),
}

impl Sweep {
    /// Returns a random sweep that concerns `state`.
    pub fn of(state: State, random: &mut Rng) -> Sweep {
        match random.u8(..16) {
            0 => Sweep::Everything,
            1..4 => Sweep::Directory(state.key / 8),
            4..6 => Sweep::Prefix(state.key / 8),
            6..9 => Sweep::Body(state.version % 5),
            9..12 => Sweep::Pattern(state.meta % 3),
            _ => Sweep::Meta(state.meta % 3),
        }
    }

    /// Returns whether the sweep concerns `state`.
    pub fn concerns(self, state: State) -> bool {
        match self {
            Sweep::Everything => true,
            Sweep::Directory(number) | Sweep::Prefix(number) => state.key / 8 == number,
            Sweep::Body(number) => state.version % 5 == number,
            Sweep::Meta(number) | Sweep::Pattern(number) => state.meta % 3 == number,
            Sweep::Only(only) => state == only,
        }
    }

    /// Returns the name that `target` borrows.
    pub fn name(self) -> Vec<u8> {
        let text = match self {
            Sweep::Everything | Sweep::Only(_) => String::new(),
            Sweep::Prefix(number) => format!("http://site{}/dir{number}/", number / 8),
            Sweep::Directory(number) => format!("directory {number}"),
            Sweep::Body(number) => format!("body {number}"),
            Sweep::Meta(number) => format!("meta {number}"),
            Sweep::Pattern(number) => format!("a pattern of some length for metadata {number}"),
        };
        text.into_bytes()
    }

    /// Returns the target of the purge, made from the bytes that `name` returns.
    pub fn target(self, name: &[u8]) -> Target<'_> {
        match self {
            Sweep::Everything | Sweep::Only(_) => Target::Everything,
            Sweep::Prefix(_) => Target::Prefix(name),
            Sweep::Pattern(_) => Target::Pattern(name),
            Sweep::Directory(_) | Sweep::Body(_) | Sweep::Meta(_) => {
                Target::Label(Label { kind: LABEL, name })
            }
        }
    }
}

/// The kind of all labels in tests.
const LABEL: u8 = b'x';

/// The labels of the objects that tests store.
pub struct TrialLabels;

impl Labels for TrialLabels {
    fn version(&self) -> u64 {
        1
    }

    fn labels(&self, _: &[u8], meta: &[u8], see: &mut dyn FnMut(Label<'_>)) {
        let Some(state) = State::from_meta(&Bytes::copy_from_slice(meta)) else { return };
        let sweeps = [
            Sweep::Directory(state.key / 8),
            Sweep::Body(state.version % 5),
            Sweep::Meta(state.meta % 3),
        ];
        sweeps.iter().for_each(|sweep| see(Label { kind: LABEL, name: &sweep.name() }));
    }

    fn text<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        Some(key)
    }

    fn pattern(&self, pattern: &[u8]) -> Option<Box<dyn Pattern>> {
        let number = std::str::from_utf8(pattern).ok()?.rsplit(' ').next()?.parse().ok()?;
        Some(Box::new(TrialPattern(Sweep::Pattern(number))))
    }
}

struct TrialPattern(Sweep);

impl Pattern for TrialPattern {
    fn matches(&self, _: &[u8], meta: &[u8]) -> bool {
        let state = State::from_meta(&Bytes::copy_from_slice(meta));
        state.is_some_and(|state| self.0.concerns(state))
    }
}

/// Returns a random body length as on the web: mostly small, some empty, a few longer than a
/// cluster.
pub fn any_len(random: &mut Rng) -> u64 {
    match random.u8(..20) {
        0 => 0,
        1 => 2_000,
        2..12 => random.u64(1..6_000),
        12..18 => random.u64(6_000..40_000),
        _ => random.u64(40_000..400_000),
    }
}
