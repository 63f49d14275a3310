//! A histogram of access depths over all sizes, with bounded memory.
//!
//! Its edges are the sizes with at most eleven significant bits (all up to 2,048, then 1,024 in
//! each power of two). Round sizes such as 64 MiB are edges, and the next edge above any other size
//! is at most a thousandth larger.

/// Number of edges in a power of two.
const STEPS: u64 = 1 << STEP_BITS;
const STEP_BITS: u32 = 10;

/// Weighted requests and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Amount {
    pub(super) requests: f64,
    pub(super) bytes: f64,
}

impl Amount {
    pub(super) fn add(&mut self, other: Amount) {
        self.requests += other.requests;
        self.bytes += other.bytes;
    }
}

#[derive(Default)]
pub(super) struct Histogram(Vec<Amount>);

impl Histogram {
    /// Counts an amount that is found in caches of `depth` and more.
    pub(super) fn add(&mut self, depth: u64, amount: Amount) {
        let at = index(depth);
        if at >= self.0.len() {
            self.0.resize(at + 1, Amount::default());
        }
        self.0[at].add(amount);
    }

    /// Returns each edge with the amount between it and the edge before, largest first, without
    /// empty ones.
    pub(super) fn falling(&self) -> impl Iterator<Item = (u64, Amount)> {
        let counted = self.0.iter().enumerate().rev();
        counted
            .filter(|(_, amount)| **amount != Amount::default())
            .map(|(at, amount)| (edge(at), *amount))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Amount>()
    }
}

/// Returns the index of the first edge that is not below `depth`.
fn index(depth: u64) -> usize {
    let below = depth.saturating_sub(1);
    let shift = (u64::BITS - below.leading_zeros()).saturating_sub(STEP_BITS + 1);
    ((u64::from(shift) << STEP_BITS) + (below >> shift)) as usize
}

fn edge(index: usize) -> u64 {
    let shift = (index as u64 >> STEP_BITS).saturating_sub(1);
    let steps = index as u64 - (shift << STEP_BITS) + 1;
    debug_assert!(steps <= 2 * STEPS);
    (u128::from(steps) << shift).min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_are_rounded_up_to_the_next_edge() {
        for depth in 0..5_000_u64 {
            let above = edge(index(depth));
            let exact = depth <= 2_048 || depth.is_multiple_of(2) && depth <= 4_096;
            assert!(above >= depth.max(1) && (!exact || above == depth.max(1)), "{depth}: {above}");
        }
        for bits in 0..64 {
            let round = 1 << bits;
            assert_eq!(edge(index(round)), round);
            for depth in [round + round / 7, round + 1, round.wrapping_sub(1)] {
                let above = edge(index(depth));
                assert!(above >= depth && above - depth <= depth / 1_024 + 1, "{depth}: {above}");
            }
        }
        assert_eq!(edge(index(u64::MAX)), u64::MAX);
        assert_eq!(edge(index(1_536 << 20)), 1_536 << 20);
    }

    #[test]
    fn edges_rise_without_gaps() {
        assert!((0..50_000).all(|at| edge(at) < edge(at + 1) && index(edge(at)) == at));
    }
}
