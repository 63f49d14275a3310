//! Replays request streams on a simulated drive, one request at a time, and measures response
//! times.
//!
//! Two forms are read, plain or compressed with gzip:
//!
//! * A CSV file with the columns `start_ms`, `op` (`R` or `W`), `lbn` and `blocks` (others are
//!   ignored). A request is issued at its start or, if that is later, when the previous one
//!   completes.
//! * A trace of a real drive with the fields `R|W`, `Hit|Miss`, first sector, sectors, service time
//!   and interval (microseconds). The next request is issued this interval after the previous one
//!   completes.
//!
//! Guarantees: input in another form is an error that names the line.

use std::io::Read;

use device::Nanos;
use flate2::read::MultiGzDecoder;
use sim::drives::{Drive, Operation, Request};

/// When a request is issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issue {
    /// At this time (nanoseconds), or when the previous request completes if that is later.
    At(Nanos),
    /// This many nanoseconds after the previous request completes.
    After(Nanos),
}

/// A request of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When the request is issued.
    pub issue: Issue,
    /// The request.
    pub request: Request,
}

/// Why a stream is rejected.
#[derive(Debug, thiserror::Error)]
pub enum BadStream {
    /// The input cannot be read or decompressed.
    #[error("cannot read it: {0}")]
    Unreadable(std::io::Error),
    /// A malformed line, by its number from 1.
    #[error("line {0}: {1}")]
    Line(usize, String),
    /// The input has no requests.
    #[error("it has no requests")]
    Empty,
}

/// Reads the requests of `input` for a drive of `sectors` sectors.
pub fn read_stream(mut input: impl Read, sectors: u64) -> Result<Vec<Step>, BadStream> {
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).map_err(BadStream::Unreadable)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut unpacked = Vec::new();
        let mut decoder = MultiGzDecoder::new(bytes.as_slice());
        decoder.read_to_end(&mut unpacked).map_err(BadStream::Unreadable)?;
        bytes = unpacked;
    }
    let line_of = |at: usize| bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
    let text = std::str::from_utf8(&bytes)
        .map_err(|error| BadStream::Line(line_of(error.valid_up_to()), "not text".to_owned()))?;
    let steps = match text.lines().find(|line| !line.trim().is_empty()) {
        None => return Err(BadStream::Empty),
        Some(first) if first.contains(',') => csv(text)?,
        Some(_) => trace(text)?,
    };
    if steps.is_empty() {
        return Err(BadStream::Empty);
    }
    for (line, step) in &steps {
        let Request { sector, sectors: count, .. } = step.request;
        if sector.checked_add(count).is_none_or(|end| end > sectors) {
            let why = format!(
                "the sectors {sector} to {} do not exist, the drive has {sectors}",
                sector.saturating_add(count - 1)
            );
            return Err(BadStream::Line(*line, why));
        }
    }
    Ok(steps.into_iter().map(|(_, step)| step).collect())
}

type Numbered = Vec<(usize, Step)>;

fn csv(text: &str) -> Result<Numbered, BadStream> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let Some((at, header)) = lines.next() else {
        return Err(BadStream::Empty);
    };
    let names: Vec<&str> = header.split(',').map(str::trim).collect();
    let column = |name: &str| {
        names.iter().position(|known| *known == name).ok_or_else(|| {
            let why = format!(
                "no column {name:?}: the header must have start_ms, op, lbn and blocks, or the \
                 lines must be \"R|W Hit|Miss lbn sectors service_us interval_us\""
            );
            BadStream::Line(at + 1, why)
        })
    };
    let columns = [column("start_ms")?, column("op")?, column("lbn")?, column("blocks")?];
    let mut steps = Vec::new();
    for (index, line) in lines {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let field = |which: usize| fields.get(columns[which]).copied().unwrap_or_default();
        let step = || {
            let start = time(field(0), "start_ms", 1e6)?;
            let request = request(field(1), field(2), field(3))?;
            Ok(Step { issue: Issue::At(start), request })
        };
        steps.push((index + 1, step().map_err(|why| BadStream::Line(index + 1, why))?));
    }
    Ok(steps)
}

fn trace(text: &str) -> Result<Numbered, BadStream> {
    let mut steps = Vec::new();
    let mut interval = None;
    for (index, line) in text.lines().enumerate() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let mut step = || match fields.as_slice() {
            [] => Ok(None),
            [operation, "Hit" | "Miss", sector, sectors, service, next] => {
                let request = request(operation, sector, sectors)?;
                time(service, "the service time", 1e3)?;
                let issue = interval.map_or(Issue::At(0), Issue::After);
                interval = Some(time(next, "the interval", 1e3)?);
                Ok(Some(Step { issue, request }))
            }
            _ => Err("not \"R|W Hit|Miss lbn sectors service_us interval_us\", nor CSV with the \
                      columns start_ms,op,lbn,blocks"
                .to_owned()),
        };
        let step = step().map_err(|why| BadStream::Line(index + 1, why))?;
        steps.extend(step.map(|step| (index + 1, step)));
    }
    Ok(steps)
}

fn request(operation: &str, sector: &str, sectors: &str) -> Result<Request, String> {
    let operation = match operation {
        "R" => Operation::Read,
        "W" => Operation::Write,
        other => return Err(format!("the operation is {other:?}, not R or W")),
    };
    let whole = |text: &str, what: &str| {
        text.parse::<u64>().map_err(|_| format!("{what} is {text:?}, not a whole number"))
    };
    let sector = whole(sector, "the first sector")?;
    let sectors = whole(sectors, "the number of sectors")?;
    if sectors == 0 {
        return Err("a request for no sectors".to_owned());
    }
    Ok(Request { operation, sector, sectors })
}

/// Parses a number in units of `unit` nanoseconds.
fn time(text: &str, what: &str, unit: f64) -> Result<Nanos, String> {
    let number = text.parse::<f64>().ok().map(|number| number * unit);
    match number.filter(|nanos| (0.0..1e18).contains(nanos)) {
        Some(nanos) => Ok(nanos.round() as Nanos),
        None => Err(format!("{what} is {text:?}, not a time")),
    }
}

/// A request that was served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Served {
    /// The request.
    pub request: Request,
    /// When it was issued, in nanoseconds.
    pub start: Nanos,
    /// Response time in nanoseconds.
    pub response: Nanos,
}

impl Served {
    /// Returns the response time in milliseconds.
    pub fn response_ms(&self) -> f64 {
        self.response as f64 * 1e-6
    }
}

/// Serves `steps` one after the other.
pub fn replay<'a>(
    drive: &'a mut dyn Drive,
    steps: impl IntoIterator<Item = Step> + 'a,
) -> impl Iterator<Item = Served> + 'a {
    let mut done = 0;
    steps.into_iter().map(move |step| {
        let start = match step.issue {
            Issue::At(time) => time.max(done),
            Issue::After(interval) => done + interval,
        };
        done = drive.serve(start, step.request);
        Served { request: step.request, start, response: done - start }
    })
}

/// Mean, deviation and percentiles of response times, in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// The times in ascending order.
    sorted: Vec<f64>,
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub deviation: f64,
}

/// The percentiles that are reported.
pub const PERCENTILES: [u32; 9] = [1, 5, 10, 25, 50, 75, 90, 95, 99];

impl Distribution {
    /// Returns the distribution of these times (milliseconds); `None` if there are none.
    pub fn of(times: impl IntoIterator<Item = f64>) -> Option<Distribution> {
        let mut sorted: Vec<f64> = times.into_iter().collect();
        if sorted.is_empty() {
            return None;
        }
        sorted.sort_unstable_by(f64::total_cmp);
        let count = sorted.len() as f64;
        let mean = sorted.iter().sum::<f64>() / count;
        let square = sorted.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
        Some(Distribution { mean, deviation: (square / count).sqrt(), sorted })
    }

    /// Returns the number of times.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// Returns the smallest time that more than `percent` percent of the times do not exceed.
    pub fn percentile(&self, percent: u32) -> f64 {
        let index = self.sorted.len() * percent as usize / 100;
        self.sorted[index.min(self.sorted.len() - 1)]
    }

    /// Returns the root mean square of the horizontal distance between the two distribution curves
    /// (the demerit).
    pub fn demerit(&self, other: &Distribution) -> f64 {
        let steps = self.sorted.len().max(other.sorted.len());
        let at = |sorted: &[f64], step: usize| sorted[step * sorted.len() / steps];
        let square: f64 =
            (0..steps).map(|step| (at(&self.sorted, step) - at(&other.sorted, step)).powi(2)).sum();
        (square / steps as f64).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn why(text: &str) -> String {
        read_stream(text.as_bytes(), 1_000).unwrap_err().to_string()
    }

    fn step(issue: Issue, operation: Operation, sector: u64, sectors: u64) -> Step {
        Step { issue, request: Request { operation, sector, sectors } }
    }

    #[test]
    fn both_forms_plain_and_packed() {
        let csv = "op, lbn,blocks,x,start_ms\nR,10,8,y,0.5\n\nW,990,10,y,1.25\n";
        let steps = [
            step(Issue::At(500_000), Operation::Read, 10, 8),
            step(Issue::At(1_250_000), Operation::Write, 990, 10),
        ];
        assert_eq!(read_stream(csv.as_bytes(), 1_000).unwrap(), steps);
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(csv.as_bytes()).unwrap();
        let packed = packed.finish().unwrap();
        assert_eq!(read_stream(packed.as_slice(), 1_000).unwrap(), steps);
        let cut = &packed[..packed.len() - 12];
        assert!(matches!(read_stream(cut, 1_000), Err(BadStream::Unreadable(_))));

        let trace = "R Hit   10  8 6657.5 100.25\nW Miss 20 4 1.0 2.0\n";
        let steps = [
            step(Issue::At(0), Operation::Read, 10, 8),
            step(Issue::After(100_250), Operation::Write, 20, 4),
        ];
        assert_eq!(read_stream(trace.as_bytes(), 1_000).unwrap(), steps);
    }

    #[test]
    fn bad_lines_are_named() {
        assert_eq!(why(""), "it has no requests");
        assert_eq!(why("start_ms,op,lbn,blocks\n"), "it has no requests");
        assert!(why("start_ms,op,blocks\n").starts_with("line 1: no column \"lbn\""));
        let csv = |line: &str| why(&format!("start_ms,op,lbn,blocks\n0,R,1,1\n{line}\n"));
        assert_eq!(csv("0,X,1,1"), "line 3: the operation is \"X\", not R or W");
        assert_eq!(csv("-1,R,1,1"), "line 3: start_ms is \"-1\", not a time");
        assert_eq!(csv("nan,R,1,1"), "line 3: start_ms is \"nan\", not a time");
        assert_eq!(csv("0,R,1.5,1"), "line 3: the first sector is \"1.5\", not a whole number");
        assert_eq!(csv("0,R,1"), "line 3: the number of sectors is \"\", not a whole number");
        assert_eq!(csv("0,R,1,0"), "line 3: a request for no sectors");
        let beyond = "line 3: the sectors 999 to 1000 do not exist, the drive has 1000";
        assert_eq!(csv("0,R,999,2"), beyond);
        assert!(csv("0,R,18446744073709551615,2").starts_with("line 3: the sectors 18446744"));
        assert!(why("R Hit 1 1 5 6\nR Hit 1 1 5\n").starts_with("line 2: not \"R|W Hit|Miss"));
        assert!(why("R Hit 1 1 5 x\n").starts_with("line 1: the interval is \"x\""));
        let binary = read_stream([b'\n', 0xff].as_slice(), 1_000).unwrap_err().to_string();
        assert_eq!(binary, "line 2: not text");
    }

    #[test]
    fn figures_of_a_distribution() {
        assert_eq!(Distribution::of([]), None);
        let times = Distribution::of((1..=200).rev().map(f64::from)).unwrap();
        assert_eq!((times.count(), times.mean), (200, 100.5));
        assert!((times.deviation - 57.734).abs() < 0.001);
        assert_eq!(
            (times.percentile(1), times.percentile(50), times.percentile(99)),
            (3.0, 101.0, 199.0)
        );
        let later = Distribution::of((1..=100).map(|time| f64::from(time) * 2.0 + 3.0)).unwrap();
        assert_eq!(times.demerit(&times), 0.0);
        // The differences alternate between 3 and 4.
        assert!((times.demerit(&later) - 12.5_f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn requests_wait_for_the_one_before() {
        let mut drive = sim::Uniform { sectors: 100, depth: 1, request: 10, sector: 1, flush: 0 };
        let steps = [
            step(Issue::At(5), Operation::Read, 0, 10),
            step(Issue::At(6), Operation::Read, 0, 5),
            step(Issue::At(100), Operation::Write, 0, 1),
            step(Issue::After(7), Operation::Write, 0, 1),
        ];
        let served: Vec<_> = replay(&mut drive, steps).map(|s| (s.start, s.response)).collect();
        assert_eq!(served, [(5, 20), (25, 15), (100, 11), (118, 11)]);
    }
}
