//! Axes: their bounds, and the numbers along them.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use super::number::digits;
use super::plot::{Axis, AxisScale};

/// An axis with its bounds. Positions are the values themselves, or their decimal logarithms.
#[derive(Clone, Debug, PartialEq)]
pub struct Ruler {
    scale: AxisScale,
    /// The bounds, as positions.
    low: f64,
    high: f64,
    /// Positions of the numbers along the axis.
    pub ticks: Vec<f64>,
}

/// The use of a ruler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulerOf {
    /// Horizontal positions of points.
    Across,
    /// Heights of points.
    Points,
    /// Heights of bars, which begin at 0, or otherwise below the lowest so that no bar vanishes.
    Bars,
}

impl Ruler {
    /// Creates a ruler wide enough for `values`.
    pub fn new(axis: &Axis, values: impl Iterator<Item = f64>, of: RulerOf) -> Ruler {
        let logarithmic = axis.scale == AxisScale::Log;
        let seen = values.filter(|value| !logarithmic || *value > 0.0);
        let seen = seen.fold(None, |seen: Option<[f64; 2]>, value| {
            let [low, high] = seen.unwrap_or([value, value]);
            Some([low.min(value), high.max(value)])
        });
        let [low, high] = seen.unwrap_or([1.0, 10.0]);
        match axis.scale {
            AxisScale::Linear => linear(axis.range, low, high, of == RulerOf::Bars),
            AxisScale::Log => log(axis.range, low, high, of),
        }
    }

    /// Returns the first and the last position.
    pub fn bounds(&self) -> [f64; 2] {
        [self.low, self.high]
    }

    /// Returns the position of a value, if it has one.
    pub fn position(&self, value: f64) -> Option<f64> {
        match self.scale {
            AxisScale::Linear => Some(value),
            AxisScale::Log => (value > 0.0).then(|| value.log10()),
        }
    }

    /// Returns the label of a position.
    pub fn label(&self, position: f64) -> String {
        match self.scale {
            AxisScale::Linear => plain(position),
            AxisScale::Log => plain(10_f64.powf(position)),
        }
    }
}

/// Coordinates of the drawing are positions.
impl Ranged for Ruler {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, position: &f64, (first, last): (i32, i32)) -> i32 {
        let share = (position - self.low) / (self.high - self.low);
        first + (share * f64::from(last - first)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Ruler {
    fn format_ext(&self, position: &f64) -> String {
        self.label(*position)
    }
}

/// Formats a number without superfluous zeros; millions and billions have the suffixes M and G.
fn plain(number: f64) -> String {
    // Rounds to the precision of an axis: 0.30000000000000004 becomes 0.3.
    let number: f64 = format!("{number:.6e}").parse().unwrap_or(number);
    for (unit, letter) in [(1e9, "G"), (1e6, "M")] {
        if number.abs() >= unit {
            return format!("{}{letter}", number / unit);
        }
    }
    match number.abs() >= 10_000.0 {
        true => digits(number),
        false => number.to_string(),
    }
}

fn linear(range: Option<[f64; 2]>, low: f64, high: f64, zero: bool) -> Ruler {
    let near_zero = zero || low < 0.6 * high;
    let low = if low >= 0.0 && near_zero { 0.0 } else { low };
    let [low, high] = range.unwrap_or([low, high]);
    let span = if high > low { high - low } else { high.abs().max(1.0) };
    let power = 10_f64.powf((span / 5.0).log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    let step = steps.into_iter().map(|step| step * power).find(|step| span / step <= 6.5);
    let step = step.unwrap_or(10.0 * power);
    let (low, high) = match range {
        Some(_) => (low, high),
        None => ((low / step).floor() * step, ((low + span) / step).ceil() * step),
    };
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    let ticks = (first..=last).map(|count| count as f64 * step).collect();
    Ruler { scale: AxisScale::Linear, low, high, ticks }
}

fn log(range: Option<[f64; 2]>, low: f64, high: f64, of: RulerOf) -> Ruler {
    let range = range.filter(|[low, high]| *low > 0.0 && high > low);
    let [low, high] = range.unwrap_or([low, high]).map(f64::log10);
    // A bar must have some height.
    let low = if of == RulerOf::Bars && range.is_none() { low - 0.15 } else { low };
    let (first, last) = (low.floor() as i32, high.ceil() as i32);
    // Ticks at 1, 2 and 5 if there are few powers of ten, else at powers only, and of many powers
    // not at all.
    let few = last - first <= 3;
    let within: &[f64] = if few { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let every = ((last - first) / 8 + 1) as usize;
    let powers = (first..=last).step_by(every);
    let all: Vec<f64> = powers
        .flat_map(|power| within.iter().map(move |unit| f64::from(power) + unit.log10()))
        .collect();
    let (low, high) = match range {
        Some(_) => (low, high),
        None if of == RulerOf::Across && high > low => (low, high),
        None => {
            let below = all.iter().copied().rfind(|tick| *tick <= low + 1e-9).unwrap_or(low);
            let above = all.iter().copied().find(|tick| *tick >= high - 1e-9).unwrap_or(high);
            // A single value gets space on both sides.
            if above > below { (below, above) } else { (below - 0.5, above + 0.5) }
        }
    };
    let inside = |tick: &f64| (low - 1e-9..=high + 1e-9).contains(tick);
    let ticks = all.into_iter().filter(inside).collect();
    Ruler { scale: AxisScale::Log, low, high, ticks }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
        let ruler = Ruler::new(axis, values.iter().copied(), RulerOf::Points);
        ruler.ticks.iter().map(|tick| ruler.label(*tick)).collect()
    }

    #[test]
    fn even_axes_have_round_numbers_and_hold_all_values() {
        let axis = Axis::linear("");
        assert_eq!(labels(&axis, &[3.0, 9.7]), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(labels(&axis, &[88.0, 93.0]), ["88", "89", "90", "91", "92", "93"]);
        assert_eq!(labels(&axis, &[0.1, 0.3]), ["0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3"]);
        assert_eq!(labels(&axis, &[5e6, 9.5e6]), ["0", "2M", "4M", "6M", "8M", "10M"]);
        assert_eq!(labels(&axis, &[-3.0, 5.0]), ["-4", "-2", "0", "2", "4", "6"]);
        assert_eq!(
            labels(&axis.clone().range(0.0, 28.0), &[4.0]),
            ["0", "5", "10", "15", "20", "25"]
        );
        for values in [[0.0, 0.0], [7.0, 7.0], [-2.0, -2.0], [1e-9, 1e12]] {
            let ruler = Ruler::new(&axis, values.into_iter(), RulerOf::Points);
            let [low, high] = ruler.bounds();
            assert!(low <= values[0] && high >= values[1] && low < high, "{ruler:?}");
            assert!((2..=9).contains(&ruler.ticks.len()), "{ruler:?}");
        }
    }

    #[test]
    fn logarithmic_axes_have_powers_of_ten() {
        let axis = Axis::log("");
        assert_eq!(
            labels(&axis, &[0.1, 30.0]),
            ["0.1", "0.2", "0.5", "1", "2", "5", "10", "20", "50"]
        );
        assert_eq!(
            labels(&axis, &[3.0, 2e5]),
            ["1", "10", "100", "1000", "10,000", "100,000", "1M"]
        );
        assert_eq!(labels(&axis, &[0.0, 30.0, 60.0]), ["20", "50", "100"]);
        let ruler = Ruler::new(&axis, [5.0].into_iter(), RulerOf::Points);
        assert!(ruler.bounds()[0] < ruler.bounds()[1], "{ruler:?}");
        let across = Ruler::new(&axis, [3.0, 70.0].into_iter(), RulerOf::Across);
        assert_eq!(across.bounds(), [3.0_f64.log10(), 70.0_f64.log10()]);
        let bars = Ruler::new(&axis, [10.0, 70.0].into_iter(), RulerOf::Bars);
        assert_eq!(bars.label(bars.bounds()[0]), "5", "a bar of 10 is seen");
        assert_eq!((ruler.position(0.0), ruler.position(100.0)), (None, Some(2.0)));
    }
}
