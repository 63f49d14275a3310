//! On how many owners a hot document is kept.
//!
//! One owner serves a document up to a rate; above it the next owner keeps a copy too, and so on up
//! to a bound. Nodes decide by what each of them sees, and need not agree: owners are added in the
//! order of their ranking, so that those of a node that counts two are among those of one that
//! counts three.
//!
//! A node that asks an owner sees its own clients' requests only, a small part of them in a large
//! fleet, and alone would never come to more than one owner. So an owner says with its answer how
//! many there are, and who asks takes the larger of that number and its own for a while; otherwise
//! the further owners are asked by nobody (docs/research/olaru-tichy.md).

use std::num::NonZeroU32;

/// When a document is kept by another owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hotness {
    /// Requests, in the caller's span of time, for each of which one owner is enough.
    pub per_owner: NonZeroU32,
    /// Most owners of one document.
    pub owners_max: NonZeroU32,
}

impl Hotness {
    /// Decides how many owners a document has that had `requests` in the last span of time and
    /// `owners` until then (1 when it was never hot).
    ///
    /// As many as are needed at once; fewer only when they would be no more than three quarters
    /// busy, so that a rate about a bound does not move copies to and fro.
    pub fn owners(&self, requests: u64, owners: u32) -> u32 {
        let needed = self.needed(requests);
        let current = owners.clamp(1, self.owners_max.get());
        if needed >= current {
            return needed;
        }
        let with_reserve = self.needed(requests.saturating_mul(4).div_ceil(3));
        with_reserve.min(current)
    }

    /// Returns the least number of owners for this many requests, within the bounds.
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
            // Two are needed for 151, but they would be more than three quarters busy.
            (151, 3, 3),
            (150, 3, 2),
            (76, 2, 2),
            (75, 2, 1),
            (0, 4, 1),
            // What was counted before under other settings is brought within the bounds.
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
