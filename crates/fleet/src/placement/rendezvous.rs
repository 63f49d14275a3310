//! Weighted rendezvous hashing: ranks the members for a key.
//!
//! Logarithmic method (Schindelhauer and Schomaker, "Weighted Distributed Hash Tables", SPAA 2005):
//! each member draws a number u from (0, 1] by a hash of its name and the key; the smallest −log(u)
//! / weight ranks first. Each member ranks first for a share of the keys equal to its share of the
//! weights. When a member joins or leaves, keys move only to it or from it.
//!
//! The hash is XXH3 (64 bits) of the key's hash in little-endian order, seeded with the XXH3 of the
//! member's name. The logarithm is computed in integers: floating point could differ between
//! platforms in the last digit, and two nodes that rank differently fetch twice.

use std::cmp::Ordering;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::key::KeyHash;
use crate::member::Member;
use crate::members::Members;

/// Binary digits after the point in the result of [`distance`].
const FRACTION_BITS: u32 = 32;

/// Ranks the members that may own keys, first owner first.
pub fn ranking(key: KeyHash, members: &Members) -> Vec<&Member> {
    let mut ranked: Vec<(u64, &Member)> = distances(key, members).collect();
    ranked.sort_by(compare_rank);
    ranked.into_iter().map(|(_, member)| member).collect()
}

/// Returns the first member of the [`ranking`] that satisfies `wanted`, without a full ranking.
pub fn first(key: KeyHash, members: &Members, wanted: impl Fn(&Member) -> bool) -> Option<&Member> {
    let drawn = distances(key, members).filter(|(_, member)| wanted(member));
    drawn.min_by(compare_rank).map(|(_, member)| member)
}

/// Returns the members that may own keys, each with its distance from the key.
fn distances(key: KeyHash, members: &Members) -> impl Iterator<Item = (u64, &Member)> {
    let may_own = members.iter().filter(|member| member.may_own());
    may_own.map(move |member| (distance(draw(key, member)), member))
}

/// Compares two members by rank; ties go by name.
fn compare_rank((a, left): &(u64, &Member), (b, right): &(u64, &Member)) -> Ordering {
    nearer((*a, left.weight), (*b, right.weight)).then_with(|| left.id.cmp(&right.id))
}

/// Returns a member's pseudo-random number for a key, uniform over 64 bits.
pub(crate) fn draw(key: KeyHash, member: &Member) -> u64 {
    xxh3_64_with_seed(&key.bits().to_le_bytes(), member.id.digest())
}

/// Compares distance / weight of two members without a division.
fn nearer(left: (u64, u32), right: (u64, u32)) -> Ordering {
    let across = |(distance, _): (u64, u32), (_, weight): (u64, u32)| {
        u128::from(distance) * u128::from(weight)
    };
    across(left, right).cmp(&across(right, left))
}

/// Computes −log2((`draw` + 1) / 2^64) as a fixed-point number with [`FRACTION_BITS`] binary digits
/// after the point, rounded up: 0 for the largest draw, 64 for draw 0.
///
/// The logarithm is computed digit by digit: squaring doubles it, and a square of 2 or more yields
/// a one.
fn distance(draw: u64) -> u64 {
    let Some(number) = draw.checked_add(1) else { return 0 };
    let zeros = number.leading_zeros();
    // In [1, 2), with 63 digits after the point.
    let mut mantissa = number << zeros;
    let mut log = u64::from(63 - zeros);
    for _ in 0..FRACTION_BITS {
        let square = (u128::from(mantissa) * u128::from(mantissa)) >> 63;
        let two = square >> 64 != 0;
        mantissa = if two { (square >> 1) as u64 } else { square as u64 };
        log = log << 1 | u64::from(two);
    }
    (64 << FRACTION_BITS) - log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_of_powers_of_two_is_exact() {
        assert_eq!(distance(u64::MAX), 0);
        assert_eq!(distance((1 << 63) - 1), 1 << FRACTION_BITS);
        assert_eq!(distance((1 << 62) - 1), 2 << FRACTION_BITS);
        assert_eq!(distance(0), 64 << FRACTION_BITS);
    }

    #[test]
    fn the_logarithm_is_that_of_floating_point_and_falls() {
        let mut last = u64::MAX;
        for step in 0..1000_u64 {
            let draw = step * (u64::MAX / 1000) + step;
            let computed = distance(draw) as f64 / 2f64.powi(32);
            let real = -((draw as f64 + 1.0) / 2f64.powi(64)).log2();
            assert!((computed - real).abs() < 1e-6, "{draw}: {computed} {real}");
            assert!(distance(draw) <= last, "{draw}");
            last = distance(draw);
        }
    }

    #[test]
    fn twice_the_weight_halves_the_distance() {
        assert_eq!(nearer((10, 2), (6, 1)), Ordering::Less);
        assert_eq!(nearer((10, 2), (5, 1)), Ordering::Equal);
        assert_eq!(nearer((10, 2), (4, 1)), Ordering::Greater);
    }
}
