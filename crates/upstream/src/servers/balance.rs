//! Choice of the server for the next request.
//!
//! Servers are numbered from 0 to 63, and sets of them are bit sets. All functions are pure: the
//! caller provides the set of servers that may get a request.

use std::sync::{Mutex, PoisonError};

/// How requests are distributed over the servers of a site, each in proportion to its weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// In turn, without bursts at one server (nginx's smooth weighted round-robin).
    #[default]
    RoundRobin,
    /// To the server with the fewest active requests relative to its weight.
    LeastConnections,
    /// By URL (rendezvous hashing): each server gets its own share of the objects, and a server
    /// that is added or removed moves no others. For servers that are caches themselves.
    UrlHash,
}

pub(crate) fn members(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let first = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(first)
    })
}

/// State of the weighted round-robin.
#[derive(Debug, Default)]
pub(crate) struct RoundRobinState(Mutex<Vec<i64>>);

impl RoundRobinState {
    /// Returns the next server of `set`, which must not be empty.
    pub fn next(&self, set: u64, weight: impl Fn(usize) -> u32) -> usize {
        let mut credit = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = 64 - set.leading_zeros() as usize;
        if credit.len() < last {
            credit.resize(last, 0);
        }
        let mut sum = 0;
        let mut best = set.trailing_zeros() as usize;
        for at in members(set) {
            let weight = i64::from(weight(at));
            sum += weight;
            credit[at] += weight;
            if credit[at] > credit[best] {
                best = at;
            }
        }
        credit[best] -= sum;
        best
    }
}

/// Returns the members of `set` with the least load relative to their weight.
pub(crate) fn least(set: u64, load: impl Fn(usize) -> u32, weight: impl Fn(usize) -> u32) -> u64 {
    let mut chosen: Option<(usize, u64)> = None;
    for at in members(set) {
        let against = |other: usize| {
            let ours = u64::from(load(at)) * u64::from(weight(other));
            ours.cmp(&(u64::from(load(other)) * u64::from(weight(at))))
        };
        chosen = Some(match chosen {
            None => (at, 1 << at),
            Some((best, all)) => match against(best) {
                std::cmp::Ordering::Less => (at, 1 << at),
                std::cmp::Ordering::Equal => (best, all | 1 << at),
                std::cmp::Ordering::Greater => (best, all),
            },
        });
    }
    chosen.map_or(0, |(_, all)| all)
}

/// Returns the member of `set` that owns a hash. Each server draws a pseudo-random number from the
/// hash and its seed, weighted so that a server wins in proportion to its weight.
pub(crate) fn rendezvous(
    set: u64,
    hash: u64,
    seed: impl Fn(usize) -> u64,
    weight: impl Fn(usize) -> u32,
) -> usize {
    let lot = |at: usize| {
        // In (0, 1). The draw is exponential with the weight as its rate; the smallest wins.
        let uniform = ((mix(hash ^ seed(at)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        -uniform.ln() / f64::from(weight(at))
    };
    let first = set.trailing_zeros() as usize;
    let better = |best: (usize, f64), at: usize| {
        let lot = lot(at);
        if lot < best.1 { (at, lot) } else { best }
    };
    members(set).fold((first, f64::INFINITY), better).0
}

/// Returns a hash of `parts` that is stable across machines and versions: FNV-1a, mixed.
pub(crate) fn hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for part in parts {
        for &byte in part {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        // Separates the parts.
        hash = (hash ^ 0xff).wrapping_mul(0x0000_0100_0000_01b3);
    }
    mix(hash)
}

/// Mixes bits with the finalizer of SplitMix64: each input bit affects half of the output bits on
/// average.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_robin_is_smooth_and_proportional() {
        let (turns, weights) = (RoundRobinState::default(), [5, 1, 1]);
        let order: Vec<_> = (0..7).map(|_| turns.next(0b111, |at| weights[at])).collect();
        assert_eq!(order, [0, 0, 1, 0, 2, 0, 0]);
        // One server is missing: the others share its turns.
        let order: Vec<_> = (0..4).map(|_| turns.next(0b110, |at| weights[at])).collect();
        assert_eq!(order, [1, 2, 1, 2]);
    }

    #[test]
    fn least_connections_respects_weights() {
        let (loads, weights) = ([4, 1, 2, 9], [2, 1, 1, 4]);
        let of = |set| least(set, |at| loads[at], |at| weights[at]);
        assert_eq!(of(0b1111), 0b0010);
        assert_eq!(of(0b0101), 0b0101);
        assert_eq!(of(0b1001), 0b0001);
    }

    #[test]
    fn url_hash_is_proportional_and_stable() {
        let (weights, seeds) = ([1, 1, 2], [b"a", b"b", b"c"].map(|name| hash([&name[..]])));
        let of = |set, url: u32| {
            let hash = hash([&url.to_le_bytes()[..]]);
            rendezvous(set, hash, |at| seeds[at], |at| weights[at])
        };
        let mut counts = [0u32; 3];
        let mut moved = 0;
        for url in 0..4000 {
            let at = of(0b111, url);
            counts[at] += 1;
            let without = of(0b101, url);
            if at == 1 {
                moved += 1;
                assert_ne!(without, 1);
            } else {
                assert_eq!(without, at, "{url}");
            }
        }
        assert_eq!(moved, counts[1]);
        // Four shares of 1,000 each; the standard deviation of a quarter share is 27.
        for (count, expected) in counts.into_iter().zip([1000, 1000, 2000]) {
            assert!(count.abs_diff(expected) < 150, "{counts:?}");
        }
    }
}
