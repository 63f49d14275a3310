//! The page of a run: one self-contained file that needs neither a network nor scripts.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use plot::palette::dark_rules;
use plot::{Axis, Plot, draw};

use super::run_report::RunReport;
use super::table::run_text;
use crate::measure::Second;

/// Returns the page.
///
/// # Errors
/// Fails if a plot cannot be drawn.
pub fn page(report: &RunReport) -> Result<String, String> {
    let seconds: Vec<&Second> = report.phases.iter().flat_map(|phase| &phase.by_second).collect();
    let plots = [throughput(&seconds), latencies(&seconds), hit_ratio(&seconds)];
    let figures = plots.iter().map(figure).collect::<Result<Vec<Markup>, String>>()?;
    let body = html! {
        h1 { "larder bench: " (report.workload) }
        p.faint {
            (report.target) " · seed " (report.seed) " · larder bench " (report.version)
        }
        p { code { (report.command) } }
        @for failure in &report.failures { p.bad { "Wrong: " (failure) } }
        @for figure in &figures { (figure) }
        h2 { "Figures" }
        pre { (run_text(report)) }
    };
    Ok(document(&format!("larder bench: {}", report.workload), &body))
}

/// Returns a complete page with this body.
pub fn document(title: &str, body: &Markup) -> String {
    let dark = dark_rules("figure");
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style {
                    (PreEscaped(include_str!("page.css")))
                    (PreEscaped(format!("@media (prefers-color-scheme:dark){{{dark}}}")))
                }
            }
            body { (body) }
        }
    };
    page.into_string()
}

/// Returns a plot as part of a page.
///
/// # Errors
/// Fails if the plot cannot be drawn.
pub fn figure(plot: &Plot) -> Result<Markup, String> {
    let svg = draw(plot).map_err(|error| error.to_string())?;
    Ok(html! {
        figure { div.scroll role="img" aria-label=(plot.title) { (PreEscaped(svg)) } }
    })
}

fn points<'a>(
    seconds: &'a [&'a Second],
    of: impl Fn(&Second) -> f64 + 'a,
) -> impl Iterator<Item = (f64, f64)> + 'a {
    seconds.iter().map(move |second| (second.at, of(second)))
}

fn throughput(seconds: &[&Second]) -> Plot {
    let each = |count: u64, second: &Second| count as f64 / second.length.max(1e-9);
    Plot::lines("throughput", "Throughput", Axis::linear("seconds"), Axis::linear("requests/s"))
        .ours("offered", points(seconds, move |second| each(second.offered, second)))
        .ours("answered", points(seconds, move |second| each(second.answered, second)))
        .ours("errors", points(seconds, move |second| each(second.errors, second)))
}

fn latencies(seconds: &[&Second]) -> Plot {
    let title = "Response time, from when requests were due";
    Plot::lines("latency", title, Axis::linear("seconds"), Axis::log("ms"))
        .ours("50%", points(seconds, |second| second.p50))
        .ours("95%", points(seconds, |second| second.p95))
        .ours("99%", points(seconds, |second| second.p99))
}

fn hit_ratio(seconds: &[&Second]) -> Plot {
    let share = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
    let y = Axis::linear("% of the answers").range(0.0, 100.0);
    Plot::lines("hits", "Hit ratio", Axis::linear("seconds"), y)
        .ours("offered", points(seconds, move |s| share(s.repeats, s.answered)))
        .ours("hits", points(seconds, move |s| share(s.hits, s.answered)))
        .ours("bytes", points(seconds, move |s| share(s.hit_bytes, s.bytes)))
}

#[test]
fn a_page_has_everything_inside() {
    use crate::measure::PhaseFigures;

    let second =
        |at: f64| Second { at, length: 1.0, answered: 9, hits: 4, p50: 1.0, ..Second::default() };
    let phase = PhaseFigures {
        name: "plateau".into(),
        by_second: vec![second(0.0), second(1.0)],
        ..PhaseFigures::default()
    };
    let report = RunReport {
        workload: "zipf <b>".into(),
        phases: vec![phase],
        failures: vec!["wrong bytes".into()],
        failure_count: 1,
        ..RunReport::default()
    };
    let page = page(&report).unwrap();
    for part in ["zipf &lt;b&gt;", "<svg", "Hit ratio", "requests/s achieved", "Wrong: wrong bytes"]
    {
        assert!(page.contains(part), "{part}");
    }
    let addresses = page.split("http").skip(1).filter(|rest| !rest.starts_with("://www.w3.org"));
    assert_eq!(addresses.count(), 0);
    assert!(!page.contains("<script") && !page.contains("url("));
}
