//! Number of owners of a hot document.
//!
//! One owner serves a document up to a rate; above it a second owner keeps a copy, and so on up to
//! a bound. Nodes decide by the requests that each of them sees and need not agree: owners are
//! added in ranking order, so the owners of a node that counts two are among those of a node that
//! counts three.
//!
//! A node that asks an owner sees only its own clients' requests, a small part in a large fleet,
//! and would never count more than one owner. An owner therefore reports the number of owners with
//! its response, and the asking node uses the larger of the two numbers for a while. Without that,
//! no node would ask the further owners (docs/research/olaru-tichy.md).

use std::num::NonZeroU32;

/// Thresholds for more owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hotness {
    /// Requests per owner, in the caller's time span.
    pub per_owner: NonZeroU32,
    /// Maximum owners of one document.
    pub owners_max: NonZeroU32,
}

impl Hotness {
    /// Decides the number of owners of a document with `requests` in the last time span and
    /// `owners` until then (1 if it was never hot).
    ///
    /// It grows at once to the number needed. It shrinks only if the remaining owners would be at
    /// most three quarters busy, so that a rate near a threshold does not move copies back and
    /// forth.
    pub fn owners(&self, requests: u64, owners: u32) -> u32 {
        let needed = self.needed(requests);
        let current = owners.clamp(1, self.owners_max.get());
        if needed >= current {
            return needed;
        }
        let with_reserve = self.needed(requests.saturating_mul(4).div_ceil(3));
        with_reserve.min(current)
    }

    /// Returns the smallest sufficient number of owners, within the bounds.
    fn needed(&self, requests: u64) -> u32 {
        let needed = requests.div_ceil(u64::from(self.per_owner.get()));
        let max = self.owners_max.get();
        u32::try_from(needed).unwrap_or(max).clamp(1, max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOT: Hotness = Hotness {
        per_owner: NonZeroU32::new(100).unwrap(),
        owners_max: NonZeroU32::new(4).unwrap(),
    };

    #[test]
    fn owners_come_at_once_and_go_with_a_reserve() {
        let cases = [
            // (requests, owners before, owners now)
            (0, 1, 1),
            (100, 1, 1),
            (101, 1, 2),
            (1000, 1, 4),
            (u64::MAX, 1, 4),
            // 151 requests need two owners, but two would be more than three quarters busy.
            (151, 3, 3),
            (150, 3, 2),
            (76, 2, 2),
            (75, 2, 1),
            (0, 4, 1),
            // A count from other settings is brought within the bounds.
            (0, 0, 1),
            (400, 9, 4),
        ];
        for (requests, before, now) in cases {
            assert_eq!(HOT.owners(requests, before), now, "{requests} {before}");
        }
    }

    #[test]
    fn a_steady_rate_comes_to_rest_and_more_requests_never_mean_fewer_owners() {
        for before in 1..=4 {
            let mut last = 1;
            for requests in 0..600 {
                let owners = HOT.owners(requests, before);
                assert!(owners >= last, "{requests} {before}");
                assert_eq!(HOT.owners(requests, owners), owners, "{requests} {before}");
                last = owners;
            }
        }
    }
}
