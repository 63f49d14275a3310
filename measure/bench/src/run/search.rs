//! The search for the highest carried rate: pure decisions, given the outcome of each trial.
//!
//! Rates grow by a factor until one is not carried (or are halved if the first one is not). Then
//! the geometric mean of the highest carried and the lowest refused rate is tried, until the two
//! are close. The last carried and the last refused rate are tried once more: a rate that was
//! carried by luck is not the peak, and a rate that a cold cache refused is not a bound.

/// The state of a search.
#[derive(Clone, Debug)]
pub struct Search {
    first: f64,
    /// The factor between consecutive rates until one is not carried.
    growth: f64,
    /// The relative distance at which the bounds are close enough.
    tolerance: f64,
    /// The highest carried rate, and the lowest refused one.
    carried: Option<f64>,
    refused: Option<f64>,
    /// The carried rate that was tried once more.
    confirmed: Option<f64>,
    /// The refused rate that was tried once more.
    refused_again: Option<f64>,
}

/// Lower bound of the search, in requests per second.
const LEAST: f64 = 1.0;
/// Upper bound of the search.
const MOST: f64 = 1e7;

impl Search {
    /// Creates a search that begins at a rate in requests per second, and doubles it.
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

    /// Sets another growth factor than two.
    #[must_use]
    pub fn growing_by(self, growth: f64) -> Search {
        Search { growth, ..self }
    }

    /// Returns the rate to try next; `None` if the search has ended.
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

    /// Records whether a rate was carried.
    pub fn tell(&mut self, rate: f64, is_carried: bool) {
        let is_again = self.carried == Some(rate);
        match is_carried {
            true if self.refused == Some(rate) => {
                // The cache was still cold.
                (self.carried, self.refused) = (Some(rate), None);
            }
            false if self.refused == Some(rate) => self.refused_again = Some(rate),
            true if is_again => self.confirmed = Some(rate),
            true => self.carried = Some(rate),
            false => {
                self.refused = Some(rate);
                if is_again {
                    // The rate was carried by luck: the peak lies below.
                    self.carried = None;
                    self.confirmed = None;
                    self.first = rate / (1.0 + 2.0 * self.tolerance);
                }
            }
        }
    }

    /// Returns the highest carried rate.
    pub fn peak(&self) -> Option<f64> {
        self.carried
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the peak found for a target with this capacity, and the number of trials.
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
            // 150, or a rate close to it, is carried the first time it is tried.
            let lucky = rate > 120.0 && rate < 160.0 && seen < 1;
            seen += u32::from(lucky);
            search.tell(rate, rate <= 120.0 || lucky);
        }
        let peak = search.peak().unwrap();
        assert!((100.0..=120.0).contains(&peak), "{peak}");
    }
}
