//! The outcome of an experiment: the paper's numbers beside ours, which of them differ, and why.

use serde::{Deserialize, Serialize};

use plot::Plot;

/// A number is marked if it differs by more than this share of the paper's.
pub const TOLERATED: f64 = 0.25;

/// The paper's statement on a number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stated {
    /// The paper does not state it.
    Nothing,
    /// Exactly this number.
    Number(f64),
    /// A range, both ends included.
    Range(f64, f64),
    /// This number or more.
    AtLeast(f64),
    /// This number or less.
    AtMost(f64),
}

impl Stated {
    /// Returns the lowest and the highest number that agree with the statement.
    pub fn bounds(self) -> Option<[f64; 2]> {
        match self {
            Stated::Nothing => None,
            Stated::Number(number) => Some([number, number]),
            Stated::Range(low, high) => Some([low, high]),
            Stated::AtLeast(low) => Some([low, f64::INFINITY]),
            Stated::AtMost(high) => Some([f64::NEG_INFINITY, high]),
        }
    }

    /// Returns `ours` divided by the nearest number that agrees; 1 within a range. `None` if
    /// nothing is stated, or if the nearest number is 0 and differs.
    pub fn ratio(self, ours: f64) -> Option<f64> {
        let [low, high] = self.bounds()?;
        let nearest = ours.clamp(low, high);
        if nearest == ours {
            return Some(1.0);
        }
        (nearest != 0.0).then(|| ours / nearest)
    }
}

impl From<f64> for Stated {
    fn from(number: f64) -> Stated {
        Stated::Number(number)
    }
}

impl From<Option<f64>> for Stated {
    fn from(number: Option<f64>) -> Stated {
        number.map_or(Stated::Nothing, Stated::Number)
    }
}

impl From<std::ops::RangeInclusive<f64>> for Stated {
    fn from(range: std::ops::RangeInclusive<f64>) -> Stated {
        Stated::Range(*range.start(), *range.end())
    }
}

/// How a row disagrees with the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deviation {
    /// It differs by more than [`TOLERATED`].
    Far,
    /// It has another rank among the rows of its table than in the paper.
    Order,
    /// Both.
    FarAndOrder,
}

impl Deviation {
    /// Returns the name in files.
    pub fn name(self) -> &'static str {
        match self {
            Deviation::Far => "far",
            Deviation::Order => "order",
            Deviation::FarAndOrder => "far+order",
        }
    }
}

/// A number of the paper and ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The quantity; unique in its table.
    pub what: String,
    /// The unit, such as `ms`, `gets/s`, `%`, `×`, or empty for a count.
    pub unit: String,
    /// The paper's statement.
    pub paper: Stated,
    /// Our result.
    pub ours: f64,
}

/// A table of related rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The id in CSV and golden numbers: short, lower case, with hyphens.
    pub id: String,
    /// The heading.
    pub title: String,
    /// The rows, in the order shown.
    pub rows: Vec<Row>,
    /// True if the paper also states the order of the rows by size.
    pub ordered: bool,
    /// True if each row divides one system by another that the paper puts behind it.
    #[serde(default)]
    pub pairs: bool,
}

impl Table {
    /// Returns a table without rows.
    pub fn new(id: &str, title: &str) -> Table {
        let (id, title) = (id.to_owned(), title.to_owned());
        Table { id, title, rows: Vec::new(), ordered: false, pairs: false }
    }

    /// Declares that the paper also states which number is larger: rows in another order are
    /// marked.
    pub fn ordered(mut self) -> Table {
        self.ordered = true;
        self
    }

    /// Adds a row.
    pub fn row(
        &mut self,
        what: impl Into<String>,
        unit: &str,
        paper: impl Into<Stated>,
        ours: f64,
    ) -> &mut Table {
        let (what, unit, paper) = (what.into(), unit.to_owned(), paper.into());
        self.rows.push(Row { what, unit, paper, ours });
        self
    }

    /// Returns how row `index` disagrees with the paper, if it does.
    pub fn deviation(&self, index: usize) -> Option<Deviation> {
        let row = self.rows.get(index)?;
        // If ours is NaN, it agrees with no stated number.
        let far = match row.paper.bounds() {
            None => false,
            Some([low, high]) => {
                let slack =
                    |bound: f64| if bound.is_finite() { TOLERATED * bound.abs() } else { 0. };
                !(low - slack(low)..=high + slack(high)).contains(&row.ours)
            }
        };
        let order = self.ordered && self.rows.iter().any(|other| swapped(row, other))
            || self.pairs && row.paper.ratio(row.ours) != Some(1.0);
        match (far, order) {
            (false, false) => None,
            (true, false) => Some(Deviation::Far),
            (false, true) => Some(Deviation::Order),
            (true, true) => Some(Deviation::FarAndOrder),
        }
    }
}

/// Returns whether the paper and our results have the two rows in opposite orders.
fn swapped(one: &Row, other: &Row) -> bool {
    let (Some(one_is), Some(other_is)) = (one.paper.bounds(), other.paper.bounds()) else {
        return false;
    };
    (one_is[1] < other_is[0] && one.ours > other.ours)
        || (other_is[1] < one_is[0] && other.ours > one.ours)
}

/// The outcome of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The tables.
    pub tables: Vec<Table>,
    /// The charts.
    pub plots: Vec<Plot>,
    /// The explanation of what differs from the paper and why; paragraphs are separated by empty
    /// lines.
    pub why: String,
}

impl Outcome {
    /// Returns an outcome with this explanation.
    pub fn new(why: impl Into<String>) -> Outcome {
        Outcome { why: why.into(), ..Outcome::default() }
    }

    /// Adds a table.
    #[must_use]
    pub fn table(mut self, table: Table) -> Outcome {
        self.tables.push(table);
        self
    }

    /// Adds a plot.
    #[must_use]
    pub fn plot(mut self, plot: Plot) -> Outcome {
        self.plots.push(plot);
        self
    }

    /// Returns our number in a row, by table id and row name, for golden numbers and tests.
    pub fn number(&self, table: &str, what: &str) -> Option<f64> {
        let table = self.tables.iter().find(|known| known.id == table)?;
        table.rows.iter().find(|row| row.what == what).map(|row| row.ours)
    }

    /// Returns the number of rows that agree with the paper, and of those that do not. Rows without
    /// a statement of the paper count as neither.
    pub fn agreement(&self) -> (usize, usize) {
        let (mut within, mut beyond) = (0, 0);
        for table in &self.tables {
            for (index, row) in table.rows.iter().enumerate() {
                match (row.paper, table.deviation(index)) {
                    (Stated::Nothing, _) => {}
                    (_, None) => within += 1,
                    (_, Some(_)) => beyond += 1,
                }
            }
        }
        (within, beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_to_the_nearest_that_agrees() {
        assert_eq!(Stated::from(4.0).ratio(5.0), Some(1.25));
        assert_eq!(Stated::from(7.0..=19.0).ratio(8.0), Some(1.0));
        assert_eq!(Stated::from(7.0..=19.0).ratio(38.0), Some(2.0));
        assert_eq!(Stated::AtLeast(30.0).ratio(60.0), Some(1.0));
        assert_eq!(Stated::AtMost(30.0).ratio(60.0), Some(2.0));
        assert_eq!((Stated::Nothing.ratio(1.0), Stated::from(0.0).ratio(1.0)), (None, None));
        assert_eq!(Stated::from(0.0).ratio(0.0), Some(1.0));
    }

    #[test]
    fn deviating_numbers_and_orders_are_marked() {
        let mut table = Table::new("t", "T").ordered();
        table.row("a", "ms", 10.0, 12.5).row("b", "ms", 12.0, 12.4).row("c", "ms", 20.0, 14.0);
        table.row("d", "ms", Stated::Nothing, 1.0).row("e", "ms", 21.0..=22.0, f64::NAN);
        let marks: Vec<_> = (0..5).map(|index| table.deviation(index)).collect();
        let order = Some(Deviation::Order);
        assert_eq!(marks, [order, order, Some(Deviation::Far), None, Some(Deviation::Far)]);
        table.ordered = false;
        assert_eq!((table.deviation(0), table.deviation(2)), (None, Some(Deviation::Far)));
        assert_eq!(Outcome::new("").table(table).agreement(), (2, 2));
        let mut pairs = Table { pairs: true, ..Table::new("p", "P") };
        pairs.row("a by b", "×", Stated::AtLeast(1.0), 1.01);
        pairs.row("b by c", "×", Stated::AtLeast(1.0), 0.99);
        assert_eq!((pairs.deviation(0), pairs.deviation(1)), (None, order));
    }

    #[test]
    fn a_row_may_be_both() {
        let mut table = Table::new("t", "T").ordered();
        table.row("a", "", Stated::AtMost(3.0), 9.0).row("b", "", Stated::AtLeast(4.0), 1.0);
        assert_eq!(table.deviation(0), Some(Deviation::FarAndOrder));
        assert_eq!(table.deviation(1), Some(Deviation::FarAndOrder));
    }
}
