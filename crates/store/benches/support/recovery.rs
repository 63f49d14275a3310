//! How long starts take by the number of objects: the figures, kept as CSV, and their plot.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use plotters::prelude::*;

const HEADER: &str = "layout,objects,after,first_hit_s,whole_s,processor_s,percent_read";
const CSV: &str = "recovery-cost.csv";

/// One start.
pub struct Start {
    pub layout: String,
    pub objects: u64,
    /// "stop" or "kill".
    pub after: String,
    /// Seconds of wall-clock time until the first hit, and until the index was whole.
    pub first_hit: f64,
    pub whole: f64,
    /// Processor seconds until then, those of the device taken off.
    pub processor: f64,
    /// Percent of the device that was read.
    pub percent_read: f64,
}

impl Start {
    /// Prints the start, and adds it to the table in `directory`.
    pub fn tell(&self, directory: Option<&Path>) {
        let Start { layout, objects, after, first_hit, whole, processor, percent_read } = self;
        println!(
            "{layout:14} after a {after}: first hit after {first_hit:.3} s, index whole after \
             {whole:.3} s; {processor:.3} s of processor, {percent_read:.3}% of the device read"
        );
        let Some(directory) = directory else { return };
        let file = OpenOptions::new().append(true).create(true).open(directory.join(CSV));
        let mut file = file.unwrap();
        if file.metadata().unwrap().len() == 0 {
            writeln!(file, "{HEADER}").unwrap();
        }
        writeln!(
            file,
            "{layout},{objects},{after},{first_hit:.3},{whole:.3},{processor:.3},{percent_read:.3}"
        )
        .unwrap();
    }

    fn parse(line: &str) -> Start {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields[at].parse::<f64>().expect("a number");
        Start {
            layout: fields[0].to_owned(),
            objects: number(1) as u64,
            after: fields[2].to_owned(),
            first_hit: number(3),
            whole: number(4),
            processor: number(5),
            percent_read: number(6),
        }
    }
}

fn count(number: f64) -> String {
    format!("{:.0} M", number / 1e6)
}

/// Draws the table in `directory`: processor seconds over objects, both logarithmic, so that a cost
/// for each object is a straight line.
pub fn draw(directory: &Path) {
    let text = std::fs::read_to_string(directory.join(CSV)).expect("the table to draw");
    let starts: Vec<Start> = text.lines().skip(1).map(Start::parse).collect();
    let path = directory.join("recovery-cost.svg");
    let root = SVGBackend::new(&path, (760, 420)).into_drawing_area();
    root.fill(&WHITE).unwrap();
    let of = |of: fn(&Start) -> f64| starts.iter().map(of);
    let objects = (
        of(|start| start.objects as f64).fold(f64::MAX, f64::min) * 0.8,
        of(|start| start.objects as f64).fold(1.0, f64::max) * 1.25,
    );
    let seconds = (
        of(|start| start.processor).fold(f64::MAX, f64::min) * 0.7,
        of(|start| start.processor).fold(0.01, f64::max) * 1.5,
    );
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .margin_right(36)
        .x_label_area_size(42)
        .y_label_area_size(56)
        .build_cartesian_2d((objects.0..objects.1).log_scale(), (seconds.0..seconds.1).log_scale())
        .unwrap();
    chart
        .configure_mesh()
        .x_desc("objects")
        .y_desc("processor seconds until the index is whole")
        .x_label_formatter(&|objects| count(*objects))
        .y_label_formatter(&|seconds| format!("{seconds}"))
        .light_line_style(WHITE)
        .draw()
        .unwrap();
    let colours = [
        ("cluster", RGBColor(90, 90, 90)),
        ("stream", RGBColor(20, 80, 160)),
        ("unified", RGBColor(190, 30, 45)),
        ("buddy", RGBColor(40, 130, 60)),
    ];
    for (layout, colour) in colours {
        let line = |after: &'static str| {
            let own = starts.iter().filter(move |s| s.layout == layout && s.after == after);
            let mut points: Vec<_> = own.map(|s| (s.objects as f64, s.processor)).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points
        };
        chart
            .draw_series(LineSeries::new(line("kill"), colour.stroke_width(2)).point_size(3))
            .unwrap()
            .label(format!("{layout}, after a kill"))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], colour.stroke_width(2)));
        chart
            .draw_series(DashedLineSeries::new(line("stop"), 5, 4, colour.stroke_width(2)))
            .unwrap()
            .label(format!("{layout}, after a stop"))
            .legend(move |(x, y)| {
                let dash = move |from: i32| {
                    PathElement::new([(x + from, y), (x + from + 6, y)], colour.stroke_width(2))
                };
                EmptyElement::at((0, 0)) + dash(0) + dash(9) + dash(18)
            });
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .legend_area_size(32)
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()
        .unwrap();
    root.present().unwrap();
}
