//! The page: one self-contained HTML file that needs neither a network nor scripts.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use plot::number::with_unit;
use plot::palette::dark_rules;
use plot::{NotDrawn, draw};

use super::number::stated;
use super::ratio_strip::strip;
use crate::experiment::{Deviation, Experiment, Outcome, Paper, Record, Scale, Stated, Table};
use crate::experiments;

/// Returns the page of these records.
pub fn page(records: &[Record]) -> Result<String, NotDrawn> {
    let css = include_str!("page.css");
    let dark = dark_rules("figure");
    let sections = Paper::ALL.into_iter().map(|paper| section(paper, records));
    let sections = sections.collect::<Result<Vec<Markup>, NotDrawn>>()?;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Larder: the papers again" }
                style {
                    (PreEscaped(css))
                    (PreEscaped(format!("@media (prefers-color-scheme:dark){{{dark}}}")))
                }
            }
            body {
                (opening(records))
                nav { ul {
                    li { a href="#results" { "Results" } }
                    @for paper in Paper::ALL { li { a href={ "#" (paper) } { (paper.heading()) } } }
                } }
                main {
                    (overview(records))
                    (all_numbers(records))
                    @for section in &sections { (section) }
                }
                footer {
                    "Every number of this page is in the CSV files beside the experiments; equal "
                    "scales give equal numbers."
                }
            }
        }
    };
    Ok(page.into_string())
}

fn opening(records: &[Record]) -> Markup {
    let all = experiments::all().count();
    let quick = records.iter().filter(|record| record.scale == Scale::Quick).count();
    let agreements = records.iter().map(|record| record.outcome.agreement());
    let (within, beyond) =
        agreements.fold((0, 0), |sum, agreement| (sum.0 + agreement.0, sum.1 + agreement.1));
    html! {
        header {
            h1 { "The papers again" }
            p {
                "Larder’s own engine, and models of the systems that the papers compared theirs "
                "with, under the papers’ workloads in virtual time: each figure and table beside "
                "the numbers that were printed."
            }
            p {
                (records.len()) " of " (all) " experiments were run. The papers state "
                (within + beyond) " of the numbers below: " span.ok { (within) " agree" } ", "
                span.off { (beyond) " do not" }
                ", that is, they are off by more than 25% or in another order."
            }
            @if quick > 0 {
                p.faint {
                    (quick) " of them were run with " code { "--quick" }
                    ": they show the rough shape, not the papers’ sizes."
                }
            }
        }
    }
}

/// Returns the overview, with a line for each experiment.
fn overview(records: &[Record]) -> Markup {
    html! {
        h2 #results { "Results" }
        p.faint {
            "A dot is a number: ours by the paper’s, from a quarter on the left to four times on "
            "the right, within the band when they agree."
        }
        div.scroll { table.overview {
            thead { tr {
                th { "experiment" } th.wide { "where" } th { "ours by the paper’s" }
                th.n { "agree" } th.n { "do not" }
            } }
            @for paper in Paper::ALL {
                tbody {
                    tr.part { th colspan="5" { (paper.heading()) } }
                    @for experiment in experiments::of(paper) {
                        @match records.iter().find(|record| record.name == experiment.name) {
                            Some(record) => (overview_row(record)),
                            None => (not_run(experiment)),
                        }
                    }
                }
            }
        } }
    }
}

/// Returns every number that a paper states, beside ours.
fn all_numbers(records: &[Record]) -> Markup {
    html! {
        details {
            summary { "All numbers that the papers state" }
            div.scroll { table {
                thead { tr {
                    th { "experiment" } th { "number" } th.n { "paper" } th.n { "ours" }
                    th.n { "ratio" } th {}
                } }
                tbody { @for record in records {
                    @for table in &record.outcome.tables {
                        @for (index, row) in table.rows.iter().enumerate() {
                            @if row.paper != Stated::Nothing { tr {
                                td { a href={ "#" (record.name) } { (record.name) } }
                                td { (table.title) ": " (row.what) }
                                (beside(table, index))
                            } }
                        }
                    }
                } }
            } }
        }
    }
}

/// Returns the cells of a row: the paper's number, ours, their ratio and the mark.
fn beside(table: &Table, index: usize) -> Markup {
    let row = &table.rows[index];
    html! {
        td.n.faint { (stated(row.paper, &row.unit)) }
        td.n { (with_unit(row.ours, &row.unit)) }
        td.n { @if let Some(ratio) = row.paper.ratio(row.ours) { (format!("{ratio:.2}")) } }
        td.off { (mark(table.deviation(index))) }
    }
}

fn overview_row(record: &Record) -> Markup {
    let (within, beyond) = record.outcome.agreement();
    html! {
        tr {
            td { a href={ "#" (record.name) } { (record.title) } " " (scale(record)) }
            td.wide.faint { (record.place) }
            td { (strip(&record.outcome)) }
            td.n.ok { @if within + beyond > 0 { (within) } }
            td.n.off { @if beyond > 0 { (beyond) } }
        }
    }
}

fn not_run(experiment: &Experiment) -> Markup {
    html! {
        tr {
            td.faint { (experiment.title) }
            td.wide.faint { (experiment.place) }
            td.faint colspan="3" { "not run: " code { "larder lab run " (experiment.name) } }
        }
    }
}

fn scale(record: &Record) -> Markup {
    html! { @if record.scale == Scale::Quick { span.badge { "quick" } } }
}

fn section(paper: Paper, records: &[Record]) -> Result<Markup, NotDrawn> {
    let records = records.iter().filter(|record| record.paper == paper);
    let parts = records.map(experiment).collect::<Result<Vec<Markup>, NotDrawn>>()?;
    Ok(html! {
        section {
            h2 id=(paper) { (paper.heading()) }
            p.faint { (paper.citation()) }
            @if parts.is_empty() {
                p { "Nothing was run: " code { "larder lab run " (paper) } }
            }
            @for part in &parts { (part) }
        }
    })
}

fn experiment(record: &Record) -> Result<Markup, NotDrawn> {
    let figures = figures(&record.outcome)?;
    let csv = data_uri(&record.csv());
    Ok(html! {
        article id=(record.name) {
            h3 { (record.title) " " (scale(record)) }
            p.faint { (record.place) " · " code { (record.name) } " · seed " (record.seed) }
            @for figure in &figures { (figure) }
            @for table in &record.outcome.tables { (numbers(table)) }
            h4 { "What differs, and why" }
            @for paragraph in record.outcome.why.split("\n\n") { p { (paragraph) } }
            details {
                summary { "Parameters" }
                div.scroll { table { tbody {
                    @for (name, value, from) in &record.parameters {
                        tr { th { (name) } td { (value) } td.faint { (from) } }
                    }
                } } }
            }
            p { a href=(csv) download={ (record.name) ".csv" } { "Every number as CSV" } }
        }
    })
}

fn figures(outcome: &Outcome) -> Result<Vec<Markup>, NotDrawn> {
    let figure = |plot| {
        let svg = draw(plot)?;
        Ok(html! {
            figure {
                div.scroll role="img" aria-label=(plot.title) { (PreEscaped(svg)) }
                @if !plot.note.is_empty() { figcaption { (plot.note) } }
            }
        })
    };
    outcome.plots.iter().map(figure).collect()
}

fn numbers(table: &Table) -> Markup {
    let stated_any = table.rows.iter().any(|row| row.paper != Stated::Nothing);
    html! {
        h4 { (table.title) }
        div.scroll { table {
            thead { tr {
                th {}
                @if stated_any { th.n { "paper" } }
                th.n { "ours" }
                @if stated_any { th.n { "ratio" } th {} }
            } }
            tbody {
                @for (index, row) in table.rows.iter().enumerate() {
                    tr {
                        th { (row.what) }
                        @if stated_any { (beside(table, index)) }
                        @else { td.n { (with_unit(row.ours, &row.unit)) } }
                    }
                }
            }
        } }
    }
}

fn mark(deviation: Option<Deviation>) -> &'static str {
    match deviation {
        None => "",
        Some(Deviation::Far) => "over 25%",
        Some(Deviation::Order) => "order",
        Some(Deviation::FarAndOrder) => "over 25%, order",
    }
}

/// Returns a text as a data URI.
fn data_uri(text: &str) -> String {
    let mut uri = "data:text/csv;charset=utf-8,".to_owned();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b',' => {
                uri.push(char::from(byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Axis, Plot};

    #[test]
    fn a_page_has_everything_inside() {
        let mut table = Table::new("t", "Times & sizes");
        table.row("a <b>", "ms", 4.0, 6.0);
        let plot = Plot::lines("p", "A plot", Axis::linear("x"), Axis::linear("y"));
        let plot = plot.ours("one", [(1.0, 1.0)]).note("Sampled.");
        let record = Record {
            name: "ucfs-disk".to_owned(),
            paper: Paper::Ucfs,
            place: "section 1".to_owned(),
            title: "Reads".to_owned(),
            parameters: vec![("p".to_owned(), "v".to_owned(), "f".to_owned())],
            scale: Scale::Quick,
            seed: 7,
            outcome: Outcome::new("Because.\n\nAnd so.").table(table).plot(plot),
        };
        let page = page(&[record]).unwrap();
        let parts = [
            "Times &amp; sizes",
            "a &lt;b&gt;",
            "over 25%",
            "1.50",
            "<p>And so.</p>",
            "Sampled.",
            "<svg",
            "data:text/csv;charset=utf-8,part,id,what",
            "larder lab run beyond-streams",
            "prefers-color-scheme:dark",
        ];
        for part in parts {
            assert!(page.contains(part), "{part}");
        }
        // Nothing is fetched: the only URLs are XML namespaces.
        let addresses =
            page.split("http").skip(1).filter(|rest| !rest.starts_with("://www.w3.org"));
        assert_eq!(addresses.count(), 0);
        assert!(!page.contains("<script") && !page.contains("@import") && !page.contains("url("));
    }
}
