//! The search for the highest rate that is carried: pure, told how each rate went.
//!
//! Rates grow by a factor until one is not carried (or are halved, when the first is not), then the
//! middle of the highest that was and the lowest that was not is tried, until they are near. The
//! last that was carried and the last that was not are tried once more: a rate that was carried by
//! luck is not the peak, and one that a cold cache refused is no bound.

/// See the module.
#[derive(Clone, Debug)]
pub struct Search {
    first: f64,
    /// By which a rate is larger than the one before, until one is not carried.
    growth: f64,
    /// Nearer than this share they are near.
    tolerance: f64,
    /// The highest rate that was carried, and the lowest that was not.
    carried: Option<f64>,
    refused: Option<f64>,
    /// The carried rate that was tried once more, and the refused one.
    confirmed: Option<f64>,
    /// See `confirmed`.
    refused_again: Option<f64>,
}

/// Rates that are given up: nothing carries less.
const LEAST: f64 = 1.0;
/// Nothing carries more.
const MOST: f64 = 1e7;

impl Search {
    /// Begins at a rate in requests a second, and doubles it.
    pub fn new(first: f64, tolerance: f64) -> Search {
        Search {
            first,
            growth: 2.0,
            tolerance,
            carried: None,
            refused: None,
            confirmed: None,
            refused_again: None,
        }
    }

    /// The same with another factor than two.
    #[must_use]
    pub fn growing_by(self, growth: f64) -> Search {
        Search { growth, ..self }
    }

    /// The rate to try next; `None`: it is over.
    pub fn next(&self) -> Option<f64> {
        match (self.carried, self.refused) {
            (None, None) => Some(self.first),
            (Some(carried), None) => (carried < MOST).then_some(carried * self.growth),
            (None, Some(refused)) => (refused > LEAST).then_some(refused / 2.0),
            (Some(carried), Some(refused)) if refused > carried * (1.0 + self.tolerance) => {
                Some((carried * refused).sqrt())
            }
            (Some(_), Some(refused)) if self.refused_again != Some(refused) => Some(refused),
            (Some(carried), Some(_)) => (self.confirmed != Some(carried)).then_some(carried),
        }
    }

    /// Says whether a rate was carried.
    pub fn tell(&mut self, rate: f64, is_carried: bool) {
        let is_again = self.carried == Some(rate);
        match is_carried {
            true if self.refused == Some(rate) => {
                // The cache was not warm yet.
                (self.carried, self.refused) = (Some(rate), None);
            }
            false if self.refused == Some(rate) => self.refused_again = Some(rate),
            true if is_again => self.confirmed = Some(rate),
            true => self.carried = Some(rate),
            false => {
                self.refused = Some(rate);
                if is_again {
                    // It was luck: the truth lies below.
                    self.carried = None;
                    self.confirmed = None;
                    self.first = rate / (1.0 + 2.0 * self.tolerance);
                }
            }
        }
    }

    /// The highest rate that was carried.
    pub fn peak(&self) -> Option<f64> {
        self.carried
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found where so many are carried, and how many were tried.
    fn found(capacity: f64, first: f64) -> (Option<f64>, u32) {
        let mut search = Search::new(first, 0.05);
        let mut tried = 0;
        while let Some(rate) = search.next() {
            tried += 1;
            assert!(tried < 100, "it ends");
            search.tell(rate, rate <= capacity);
        }
        (search.peak(), tried)
    }

    #[test]
    fn the_peak_is_found_from_below_and_from_above() {
        for capacity in [7.0, 100.0, 1_234.0, 87_654.0] {
            for first in [1.0, 100.0, 1e6] {
                let (peak, tried) = found(capacity, first);
                let peak = peak.unwrap();
                assert!(peak <= capacity && peak >= capacity / 1.06, "{capacity}: {peak}");
                assert!(tried < 35, "{tried}");
            }
        }
        assert_eq!(found(0.0, 100.0).0, None);
    }

    #[test]
    fn what_must_not_be_overloaded_far_is_approached_in_small_steps() {
        let mut search = Search::new(80.0, 0.05).growing_by(1.25);
        let mut most = 0.0_f64;
        while let Some(rate) = search.next() {
            most = most.max(rate);
            search.tell(rate, rate <= 130.0);
        }
        assert!(most < 130.0 * 1.25, "{most}");
        assert!(search.peak().is_some_and(|peak| peak > 123.0));
    }

    #[test]
    fn a_rate_that_was_refused_by_a_cold_cache_is_tried_again() {
        let mut search = Search::new(1_000.0, 0.05);
        let mut tried = 0;
        while let Some(rate) = search.next() {
            tried += 1;
            search.tell(rate, tried > 1 && rate <= 5_000.0);
        }
        let peak = search.peak().unwrap();
        assert!((4_700.0..=5_000.0).contains(&peak), "{peak}");
    }

    #[test]
    fn a_rate_that_was_carried_by_luck_is_tried_again() {
        let mut search = Search::new(100.0, 0.05);
        let mut seen = 0;
        while let Some(rate) = search.next() {
            // 150 is carried the first time that it, or nearly it, is tried.
            let lucky = rate > 120.0 && rate < 160.0 && seen < 1;
            seen += u32::from(lucky);
            search.tell(rate, rate <= 120.0 || lucky);
        }
        let peak = search.peak().unwrap();
        assert!((100.0..=120.0).contains(&peak), "{peak}");
    }
}
