//! Bodies that follow from their names, so that every byte of every response can be checked without
//! keeping any of them.
//!
//! A body is a stream of 8-byte words: word `i` is a mix of the seed and `i`. The seed is a mix of
//! the target (path and query), the version and the variant, so a wrong object, an old one, a
//! shifted one and a damaged one all fail the check.

/// Name of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Path and query as requested.
    pub target: String,
    /// Version of the resource.
    pub version: u64,
    /// Values of the request headers named by `Vary`.
    pub variant: String,
}

impl Name {
    /// Returns the seed from which all bytes follow.
    pub fn seed(&self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ self.version.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for byte in self.target.bytes().chain([0]).chain(self.variant.bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        mix(hash)
    }
}

/// A bijective mix of 64 bits.
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn word(seed: u64, index: u64) -> [u8; 8] {
    mix(seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15))).to_le_bytes()
}

/// Fills `out` with the bytes of the body from `offset` on.
pub fn fill(seed: u64, offset: u64, out: &mut [u8]) {
    let (first, skip) = (offset / 8, (offset % 8) as usize);
    let (begin, rest) = out.split_at_mut(out.len().min((8 - skip) % 8));
    begin.copy_from_slice(&word(seed, first)[skip..][..begin.len()]);
    let (words, end) = rest.as_chunks_mut();
    let mut index = offset.div_ceil(8);
    for whole in words {
        *whole = word(seed, index);
        index += 1;
    }
    end.copy_from_slice(&word(seed, index)[..end.len()]);
}

/// Returns the position at which `bytes` first differ from the body from `offset` on.
pub fn difference(seed: u64, offset: u64, bytes: &[u8]) -> Option<u64> {
    let mut expected = [0; 4096];
    let mut at = offset;
    for chunk in bytes.chunks(expected.len()) {
        let expected = &mut expected[..chunk.len()];
        fill(seed, at, expected);
        if chunk != expected {
            let same = chunk.iter().zip(&*expected).take_while(|(a, b)| a == b).count();
            return Some(at + same as u64);
        }
        at += chunk.len() as u64;
    }
    None
}

/// Returns the values of `key` in the query of `target`.
pub(crate) fn parameters<'a>(target: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    query.split('&').filter_map(move |p| {
        let (name, value) = p.split_once('=')?;
        (name == key).then_some(value)
    })
}

/// Returns the first value of `key` in the query of `target`.
pub fn parameter<'a>(target: &'a str, key: &'a str) -> Option<&'a str> {
    parameters(target, key).next()
}

/// Returns the size that `target` specifies.
pub fn size_of(target: &str) -> u64 {
    parameter(target, "size").map_or(1000, |s| s.parse().expect("size is a number"))
}

#[test]
fn a_body_is_the_same_wherever_one_begins_to_read() {
    let seed = Name { target: "/a".into(), version: 1, variant: String::new() }.seed();
    let mut whole = vec![0; 10_000];
    fill(seed, 0, &mut whole);
    for begin in [0, 1, 7, 8, 4095, 4096, 9_999] {
        assert_eq!(difference(seed, begin as u64, &whole[begin..]), None);
    }
    whole[5_000] ^= 1;
    assert_eq!(difference(seed, 0, &whole), Some(5_000));
    assert_eq!(difference(seed + 1, 0, &whole), Some(0));
}
