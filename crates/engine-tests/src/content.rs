//! What trials store: bytes that follow from key, version and length alone, so that whatever comes
//! back can be checked without having been kept.

use bytes::Bytes;
use fastrand::Rng;
use store::{Key, Label, Labels, Locality, Target};

/// One state of a key: which body, and which metadata beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct State {
    /// Number of the key.
    pub key: u32,
    /// Unique among all bodies of a trial.
    pub version: u32,
    /// Counts the metadata of one version.
    pub meta: u32,
    /// Bytes of the body.
    pub len: u64,
}

/// The key with this number. Eight neighbours share a directory, 64 a site.
pub fn key(number: u32) -> Key {
    let name = format!("http://site{}/dir{}/object{number}", number / 64, number / 8);
    let locality =
        Locality { site: u64::from(number / 64) + 1, group: u64::from(number / 8) + 1_000 };
    Key::new(Bytes::from(name), locality).expect("a short key")
}

impl State {
    /// The metadata: they name the state, and are up to 700 bytes long, unless the body's length
    /// is a round number: then records of one length have one size.
    pub fn meta_bytes(self) -> Bytes {
        let State { key, version, meta, len } = self;
        let name = format!("{key} {version} {meta} {len} ");
        if len.is_multiple_of(1_000) {
            return Bytes::from(format!("{name:40}"));
        }
        let padding = Rng::with_seed(u64::from(version ^ meta << 16)).usize(..700);
        Bytes::from(name + &"m".repeat(padding))
    }

    /// The state that metadata name; `None` when they are not, byte for byte, those of any state.
    pub fn from_meta(bytes: &Bytes) -> Option<State> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut numbers = text.split(' ').map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        let (key, version) = (next()? as u32, next()? as u32);
        let state = State { key, version, meta: next()? as u32, len: next()? };
        (*bytes == state.meta_bytes()).then_some(state)
    }

    /// The body.
    pub fn body(self) -> Bytes {
        let mut bytes = vec![0; self.len as usize];
        let seed = u64::from(self.key) << 32 | u64::from(self.version);
        Rng::with_seed(seed).fill(&mut bytes);
        Bytes::from(bytes)
    }
}

/// What a purge of many objects is by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// Nothing: it is of all.
    Everything,
    /// A label that all objects of a directory bear.
    Directory(u32),
    /// The begin of the names of those in a directory.
    Prefix(u32),
    /// A label that one body in five bears.
    Body(u32),
    /// A label that metadata bear, one in three: other ones may take it away, or bring it.
    Meta(u32),
    /// Of exactly this state; not a purge, but what is left of one when a session has ended.
    Only(State),
}

impl Sweep {
    /// One by chance that concerns `state`.
    pub fn of(state: State, random: &mut Rng) -> Sweep {
        match random.u8(..16) {
            0 => Sweep::Everything,
            1..4 => Sweep::Directory(state.key / 8),
            4..6 => Sweep::Prefix(state.key / 8),
            6..11 => Sweep::Body(state.version % 5),
            _ => Sweep::Meta(state.meta % 3),
        }
    }

    /// Whether it concerns `state`.
    pub fn concerns(self, state: State) -> bool {
        match self {
            Sweep::Everything => true,
            Sweep::Directory(number) | Sweep::Prefix(number) => state.key / 8 == number,
            Sweep::Body(number) => state.version % 5 == number,
            Sweep::Meta(number) => state.meta % 3 == number,
            Sweep::Only(only) => state == only,
        }
    }

    /// It as the store is told, in bytes that outlive the call.
    pub fn name(self) -> Vec<u8> {
        let text = match self {
            Sweep::Everything | Sweep::Only(_) => String::new(),
            Sweep::Prefix(number) => format!("http://site{}/dir{number}/", number / 8),
            Sweep::Directory(number) => format!("directory {number}"),
            Sweep::Body(number) => format!("body {number}"),
            Sweep::Meta(number) => format!("meta {number}"),
        };
        text.into_bytes()
    }

    /// What the store is told, with the name.
    pub fn target(self, name: &[u8]) -> Target<'_> {
        match self {
            Sweep::Everything | Sweep::Only(_) => Target::Everything,
            Sweep::Prefix(_) => Target::Prefix(name),
            Sweep::Directory(_) | Sweep::Body(_) | Sweep::Meta(_) => {
                Target::Label(Label { kind: LABEL, name })
            }
        }
    }
}

/// The kind of all labels of trials.
const LABEL: u8 = b'x';

/// The labels of what trials store.
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
}

/// A body length as the web has them: mostly small, some empty, a few longer than a cluster.
pub fn any_len(random: &mut Rng) -> u64 {
    match random.u8(..20) {
        0 => 0,
        1 => 2_000,
        2..12 => random.u64(1..6_000),
        12..18 => random.u64(6_000..40_000),
        _ => random.u64(40_000..400_000),
    }
}
