//! The conditions under which a rate counts as carried.

use serde::Serialize;

use crate::measure::PhaseFigures;
use crate::origin::Think;
use crate::report::{share, time};

/// Limits that a trial must meet for its rate to count as carried.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Criterion {
    /// Minimum share of the requests that get a response within a trial.
    pub achieved: f64,
    /// Time within which 95% of them get a response, in milliseconds since they were due.
    pub p95_ms: f64,
    /// Maximum share of them that fail.
    pub errors: f64,
}

impl Criterion {
    /// Returns the default conditions for an origin with this think time: the time limit is half a
    /// second more than nearly all of its responses take.
    pub fn of(think: Think) -> Criterion {
        let p95_ms = 500.0 + (think.mean + 2.0 * think.deviation + think.round_trip) * 1e3;
        Criterion { achieved: 0.95, p95_ms, errors: 0.001 }
    }

    /// Returns why a trial failed; `None` if it succeeded.
    pub fn judge(&self, figures: &PhaseFigures) -> Option<String> {
        let achieved = figures.achieved_rate / figures.offered_rate.max(1e-9);
        let errors = figures.error_count() as f64 / figures.offered.max(1) as f64;
        if errors > self.errors {
            return Some(format!("{} went wrong", share(errors)));
        }
        if achieved < self.achieved {
            return Some(format!("{} were answered", share(achieved)));
        }
        let p95 = figures.response_time.p95;
        (p95 > self.p95_ms).then(|| format!("95% took up to {}", time(p95)))
    }
}

#[test]
fn a_trial_holds_when_nearly_all_are_answered_soon_and_right() {
    use crate::measure::Times;

    let criterion = Criterion::of(Think { mean: 0.25, deviation: 0.1, round_trip: 0.0 });
    assert!((criterion.p95_ms - 950.0).abs() < 1e-6);
    let figures = PhaseFigures {
        offered: 1_000,
        offered_rate: 100.0,
        achieved_rate: 96.0,
        response_time: Times { p95: 949.0, ..Times::default() },
        ..PhaseFigures::default()
    };
    assert_eq!(criterion.judge(&figures), None);
    let slow = Times { p95: 951.0, ..Times::default() };
    let slow = PhaseFigures { response_time: slow, ..figures.clone() };
    assert!(criterion.judge(&slow).is_some_and(|why| why.contains("951 ms")));
    let behind = PhaseFigures { achieved_rate: 94.0, ..figures.clone() };
    assert!(criterion.judge(&behind).is_some_and(|why| why.contains("94.0% were answered")));
    let errors = [("reset".to_owned(), 2)].into();
    let wrong = PhaseFigures { errors, ..figures };
    assert!(criterion.judge(&wrong).is_some_and(|why| why.contains("went wrong")));
}
