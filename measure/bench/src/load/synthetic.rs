//! Unrelated objects: popular by Zipf's law, or each requested once.

use workload::generator::distributions::SplitMix;

use super::options::PhaseKind;
use super::sizes::Sizes;
use crate::object::{Ask, Object};

/// A source of requests for unrelated objects.
pub struct Synthetic {
    seed: u64,
    dice: SplitMix,
    sizes: Sizes,
    uncacheable: f64,
    /// Cumulative shares of requests, by object; empty: each object is requested once.
    shares: Vec<f64>,
    next: u64,
    /// Objects by popularity, if it drifts.
    ranked: Vec<u64>,
    /// Number of the next object that takes the place of another one.
    newest: u64,
    /// Number of requests after which this happens.
    drift: Option<u64>,
    /// The next object of the sequential requests while the cache is being filled.
    filling: Option<u64>,
}

/// Objects per directory.
const DIRECTORY: u64 = 100;

impl Synthetic {
    /// Creates a source with objects whose popularity follows Zipf's law: the n-th in proportion to
    /// n to the power of `-alpha`.
    ///
    /// # Errors
    /// Fails if there are no objects, or the exponent is not from 0 to 10.
    pub fn zipf(
        objects: u32,
        alpha: f64,
        sizes: Sizes,
        uncacheable: f64,
        seed: u64,
    ) -> Result<Synthetic, String> {
        if objects == 0 || !(0.0..=10.0).contains(&alpha) {
            return Err(format!(
                "{objects} objects by Zipf's law with {alpha}: expected 1 or more, \
                                and an exponent from 0 to 10"
            ));
        }
        let mut sum = 0.0;
        let mut shares: Vec<f64> = (1..=objects)
            .map(|rank| {
                sum += f64::from(rank).powf(-alpha);
                sum
            })
            .collect();
        shares.iter_mut().for_each(|share| *share /= sum);
        Ok(Synthetic { shares, ..Synthetic::unique(sizes, uncacheable, seed) })
    }

    /// Creates a source in which each object is requested once.
    pub fn unique(sizes: Sizes, uncacheable: f64, seed: u64) -> Synthetic {
        let dice = SplitMix::new(seed ^ 0x7a69_7066);
        let (shares, ranked) = (Vec::new(), Vec::new());
        let (next, newest, drift, filling) = (0, 0, None, None);
        Synthetic { seed, dice, sizes, uncacheable, shares, next, ranked, newest, drift, filling }
    }

    /// Lets popularity drift: after every `drift` requests an object takes the place of a random
    /// one.
    #[must_use]
    pub fn drifting(mut self, drift: Option<u64>) -> Synthetic {
        if drift.is_some() {
            self.newest = self.shares.len() as u64;
            self.ranked = (0..self.newest).collect();
        }
        Synthetic { drift, ..self }
    }

    /// Starts a phase. In a fill, each object is requested once, in order.
    pub fn enter(&mut self, phase: PhaseKind) {
        self.filling = (phase == PhaseKind::Fill && !self.shares.is_empty()).then_some(0);
    }

    /// Counts a request, and exchanges an object if it is time to.
    fn exchange(&mut self) {
        self.next += 1;
        if self.drift.is_some_and(|drift| self.next.is_multiple_of(drift.max(1))) {
            let rank = self.dice.below(self.ranked.len() as u64) as usize;
            self.ranked[rank] = self.newest;
            self.newest += 1;
        }
    }

    /// Returns the next request.
    pub fn next(&mut self) -> Ask {
        let in_order = self.filling.filter(|next| *next < self.shares.len() as u64);
        self.filling = in_order.map(|next| next + 1);
        let id = match self.shares.len() {
            _ if in_order.is_some() => in_order.unwrap_or(0),
            0 => {
                self.next += 1;
                self.next
            }
            objects => {
                self.exchange();
                let drawn = self.dice.uniform();
                let rank = self.shares.partition_point(|share| *share < drawn).min(objects - 1);
                self.ranked.get(rank).copied().unwrap_or(rank as u64)
            }
        };
        let mut dice = SplitMix::of(self.seed, id);
        let size = self.sizes.draw(&mut dice);
        let uncacheable = dice.chance(self.uncacheable);
        let object = Object { id, group: id / DIRECTORY, size, uncacheable, ..Object::default() };
        Ask { object, ..Ask::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popularity_is_zipfs() {
        let mut zipf = Synthetic::zipf(1_000, 0.8, Sizes::Fixed(100), 0.0, 5).unwrap();
        const DRAWS: usize = 400_000;
        let mut counts = vec![0_u32; 1_000];
        (0..DRAWS).for_each(|_| counts[zipf.next().object.id as usize] += 1);
        let sum: f64 = (1..=1_000).map(|rank| f64::from(rank).powf(-0.8)).sum();
        for rank in [1, 2, 10, 100] {
            let expected = f64::from(rank).powf(-0.8) / sum;
            let found = f64::from(counts[rank as usize - 1]) / DRAWS as f64;
            assert!((found / expected - 1.0).abs() < 0.06, "seed 5: {rank}: {found} {expected}");
        }
        let mut even = Synthetic::zipf(10, 0.0, Sizes::Fixed(100), 0.0, 5).unwrap();
        let first = (0..DRAWS).filter(|_| even.next().object.id == 0).count();
        assert!((first as f64 / DRAWS as f64 - 0.1).abs() < 0.003);
        assert!(Synthetic::zipf(0, 1.0, Sizes::WEB, 0.0, 1).is_err());
        assert!(Synthetic::zipf(5, -1.0, Sizes::WEB, 0.0, 1).is_err());
    }

    #[test]
    fn objects_are_exchanged_for_new_ones() {
        let zipf = Synthetic::zipf(100, 0.8, Sizes::Fixed(100), 0.0, 7).unwrap();
        let mut zipf = zipf.drifting(Some(10));
        for _ in 0..1_000 {
            zipf.next();
        }
        let left = zipf.ranked.iter().filter(|object| **object < 100).count();
        assert!((20..55).contains(&left), "seed 7: {left} of the first ones, about 100 / e");
        assert!(zipf.ranked.iter().all(|object| *object < 200));
    }

    #[test]
    fn an_object_stays_what_it_is_and_unique_ones_do_not_return() {
        let mut zipf = Synthetic::zipf(50, 0.8, Sizes::WEB, 0.3, 5).unwrap();
        let mut known = std::collections::HashMap::new();
        for _ in 0..5_000 {
            let object = zipf.next().object;
            assert_eq!(*known.entry(object.id).or_insert(object), object);
        }
        zipf.enter(PhaseKind::Fill);
        let filled: Vec<u64> = (0..50).map(|_| zipf.next().object.id).collect();
        assert_eq!(filled, (0..50).collect::<Vec<_>>(), "each once, in their order");
        let private = known.values().filter(|object| object.uncacheable).count();
        assert!((5..28).contains(&private), "seed 5: {private} of 50");
        let mut unique = Synthetic::unique(Sizes::WEB, 0.0, 5);
        let ids: std::collections::HashSet<u64> =
            (0..1_000).map(|_| unique.next().object.id).collect();
        assert_eq!(ids.len(), 1_000);
    }
}
