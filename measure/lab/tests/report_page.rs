//! The report in a real browser: every plot is drawn, in light and dark, in a wide and a narrow
//! window. Without Chromium on this machine the test prints so and passes.

#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::experiment::{Axis, Meter, Outcome, Paper, Plot, Record, Scale, Stated, Table};
use lab::experiments;
use serde_json::Value;

/// Names of the browser on different systems.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

fn browser() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&paths).collect();
    let all = BROWSERS.iter().flat_map(|name| folders.iter().map(move |path| path.join(name)));
    all.into_iter().find(|path| path.is_file())
}

/// Returns a result with every kind of plot.
fn record() -> Record {
    let groups =
        ["SIMPLE", "SQUID", "MULTIPLE-DIRS", "BUDDY", "STREAM-PACKETIZER", "LAZY-READS-LOC"];
    let bars = Plot::bars("bars", "Bars on powers of ten", groups, Axis::log("gets per second"))
        .paper_bars("gets", [14.0, 20.0, 23.0, 133.0, 358.0, 495.0])
        .ours_bars("gets", [10.0, 24.0, f64::NAN, 150.0, 333.0, 600.0]);
    let bins = ["under 1", "1 – 6", "6 – 9", "over 9"];
    let histogram =
        Plot::histogram("histogram", "Bins", bins, "response time (ms)", Axis::linear("%"))
            .paper_bars("UCFS", [65.5, 14.5, 20.0, 0.0])
            .ours_bars("UCFS", [60.0, 15.0, 20.0, 5.0]);
    let series = (0..12).map(|series| {
        let points = (1..9).map(move |x| (f64::from(x * x), f64::from(x * (series + 1))));
        (format!("the system number {series}"), points)
    });
    let many = Plot::lines("many", "Many", Axis::log("x"), Axis::linear("y"));
    let many = series.fold(many, |plot, (label, points)| plot.ours(&label, points));
    let mut table = Table::new("t", "Numbers");
    table.row("one", "ms", 7.0..=19.0, 8.0).row("two", "ms", Stated::AtLeast(3.0), 1.0);
    let outcome = Outcome::new("Because.").table(table).plot(bars).plot(histogram).plot(many);
    Record {
        name: "beyond-streams".to_owned(),
        paper: Paper::Beyond,
        place: "nowhere".to_owned(),
        title: "All kinds of plots".to_owned(),
        parameters: Vec::new(),
        scale: Scale::Quick,
        seed: 1,
        outcome,
    }
}

/// Lays out a page and reports the positions of its elements.
const MEASURE: &str = r#"<script>
const box = element => { const r = element.getBoundingClientRect();
    return [r.x + scrollX, r.y + scrollY, r.width, r.height]; };
const plots = [...document.querySelectorAll("figure svg")].map(svg => ({
    box: box(svg),
    shapes: [...svg.querySelectorAll("rect,polyline,circle,polygon")].map(box),
    texts: [...svg.querySelectorAll("text")].map(text => [text.textContent.trim(), box(text)]) }));
const missing = [...document.querySelectorAll("a[href^='#']")]
    .map(a => a.getAttribute("href").slice(1)).filter(id => !document.getElementById(id));
const measured = document.createElement("pre");
measured.id = "measured";
measured.textContent = JSON.stringify({ plots, missing,
    wide: document.documentElement.scrollWidth, window: innerWidth,
    high: document.documentElement.scrollHeight });
document.body.append(measured);
</script>"#;

struct Browser {
    program: PathBuf,
    folder: tempfile::TempDir,
}

impl Browser {
    fn run(&self, page: &Path, width: u64, height: u64, more: &[OsString]) -> Vec<u8> {
        let mut command = Command::new(&self.program);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
        // A fresh profile, and no network access.
        let profile = self.folder.path().join("profile");
        command.arg(format!("--user-data-dir={}", profile.display()));
        command.arg("--host-resolver-rules=MAP * ~NOTFOUND");
        command.arg(format!("--window-size={width},{height}")).args(more);
        command.arg(format!("file://{}", page.display()));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the browser failed: {said}");
        output.stdout
    }

    /// Returns the positions of the elements on `page` in a window of this width.
    fn measure(&self, page: &Path, width: u64) -> Value {
        let copy = self.folder.path().join("measured.html");
        let text = fs::read_to_string(page).unwrap();
        fs::write(&copy, text.replace("</body>", &format!("{MEASURE}</body>"))).unwrap();
        let dom = self.run(&copy, width, 900, &["--dump-dom".into()]);
        let dom = String::from_utf8(dom).unwrap();
        let (_, rest) = dom.split_once("<pre id=\"measured\">").expect("the page was not laid out");
        let (json, _) = rest.split_once("</pre>").unwrap();
        let json = json.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        serde_json::from_str(&json).unwrap()
    }

    /// Returns a screenshot: its width, and red, green, blue of each pixel.
    fn picture(&self, page: &Path, width: u64, height: u64, dark: bool) -> (usize, Vec<[u8; 3]>) {
        let path = self.folder.path().join("picture.png");
        let mut more: Vec<OsString> = vec![format!("--screenshot={}", path.display()).into()];
        more.extend(dark.then(|| "--force-dark-mode".into()));
        self.run(page, width, height, &more);
        let file = std::io::BufReader::new(fs::File::open(&path).unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        let samples = info.color_type.samples();
        let pixels = bytes.chunks(samples).map(|pixel| [pixel[0], pixel[1], pixel[2]]);
        (info.width as usize, pixels.collect())
    }
}

fn rectangle(value: &Value) -> [f64; 4] {
    [0, 1, 2, 3].map(|index| value[index].as_f64().unwrap())
}

fn inside([x, y, wide, high]: [f64; 4], [left, top, width, height]: [f64; 4]) -> bool {
    let slack = 1.0;
    x >= left - slack
        && y >= top - slack
        && x + wide <= left + width + slack
        && y + high <= top + height + slack
}

/// Checks that all elements of a plot lie within it, and that texts do not overlap.
fn check_layout(measured: &Value, plots: usize, title: &str) {
    assert_eq!(measured["plots"].as_array().unwrap().len(), plots, "{title}");
    assert_eq!(measured["missing"], serde_json::json!([]), "{title}: links to nowhere");
    for (number, plot) in measured["plots"].as_array().unwrap().iter().enumerate() {
        let title = format!("{title}, plot {number}");
        let whole = rectangle(&plot["box"]);
        assert!(whole[2] >= 300.0 && whole[3] >= 150.0, "{title} is small: {whole:?}");
        let shapes = plot["shapes"].as_array().unwrap();
        assert!(shapes.len() > 12, "{title} has {} shapes", shapes.len());
        for shape in shapes {
            assert!(inside(rectangle(shape), whole), "{title}: {shape} is outside of {whole:?}");
        }
        let texts: Vec<(&str, [f64; 4])> = plot["texts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|text| (text[0].as_str().unwrap(), rectangle(&text[1])))
            .collect();
        assert!(texts.len() > 6, "{title}: {texts:?}");
        for (index, (text, place)) in texts.iter().enumerate() {
            assert!(inside(*place, whole), "{title}: {text:?} at {place:?} is outside");
            // Lines of text are slightly higher than their letters.
            let [x, y, wide, high] = *place;
            let core = [x, y + 0.25 * high, wide, 0.5 * high];
            for (other, [left, top, width, height]) in &texts[index + 1..] {
                let apart = x + wide <= *left
                    || left + width <= x
                    || core[1] + core[3] <= top + 0.25 * height
                    || top + 0.75 * height <= core[1];
                assert!(apart, "{title}: {text:?} and {other:?} lie on each other");
            }
        }
    }
}

#[test]
fn every_plot_is_drawn_in_a_browser() {
    let Some(program) = browser() else {
        eprintln!("SKIPPED: none of {BROWSERS:?} is installed, the report was not looked at");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let experiment = experiments::named("ucfs-disk").unwrap();
    let disk = Record::of(experiment, Scale::Quick, 2, &Meter::default()).unwrap();
    let records = [disk, record()];
    let plots = records.iter().map(|record| record.outcome.plots.len()).sum();
    for record in &records {
        lab::report::write(record, folder.path()).unwrap();
    }
    let report = lab::report::build(folder.path()).unwrap();
    assert_eq!(report.records, records.len());
    let browser = Browser { program, folder: tempfile::tempdir().unwrap() };

    let narrow = browser.measure(&report.page, 500);
    check_layout(&narrow, plots, "narrow");
    assert!(narrow["wide"].as_f64() <= narrow["window"].as_f64(), "narrow: the page is too wide");
    let wide = browser.measure(&report.page, 1_000);
    check_layout(&wide, plots, "wide");
    let height = wide["high"].as_u64().unwrap();
    let mut grounds = Vec::new();
    for dark in [false, true] {
        let (width, pixels) = browser.picture(&report.page, 1_000, height, dark);
        for plot in wide["plots"].as_array().unwrap() {
            let [x, y, wide, high] = rectangle(&plot["box"]).map(|number| number as usize);
            let rows = (y + 4..y + high - 4).map(|row| row * width);
            let within: Vec<[u8; 3]> =
                rows.flat_map(|row| pixels[row + x + 4..row + x + wide - 4].to_vec()).collect();
            let ground = within[0];
            let drawn = within.iter().filter(|pixel| **pixel != ground).count();
            let share = drawn as f64 / within.len() as f64;
            assert!((0.01..0.7).contains(&share), "dark {dark}: {share} of the plot is drawn");
            grounds
                .push((dark, u32::from(ground[0]) + u32::from(ground[1]) + u32::from(ground[2])));
        }
    }
    let right = |(dark, ground): &(bool, u32)| if *dark { *ground < 150 } else { *ground > 700 };
    assert!(grounds.iter().all(right), "light and dark grounds: {grounds:?}");
}
