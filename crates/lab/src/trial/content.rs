//! What trials store: bytes that follow from key, version and length alone, so that whatever comes
//! back can be checked without having been kept.

use bytes::Bytes;
use fastrand::Rng;
use store::{Key, Locality};

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
