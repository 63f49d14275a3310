//! Traces of requests for objects, read as a stream: logs of proxies and servers, traces of
//! simulators, text tables.
//!
//! [`Requests`] reads any of them as the lab's requests; [`Trace`] reads a single one as written.
//! Files may be compressed with gzip, zstd or xz, which is detected from their first bytes. A
//! damaged line or record does not stop the reader: it is skipped, counted and reported.

mod clf;
pub mod co_location;
mod csv;
mod detect;
mod error;
mod event;
mod filter;
mod format;
#[cfg(test)]
mod fuzz;
mod input;
mod json;
mod lines;
mod named;
mod oracle;
mod outcome;
mod requests;
mod squid;
pub mod stack_distance;
pub mod statistics;
mod time;
mod url;
mod w3c;
pub mod write;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

pub use csv::Columns;
pub use error::{Damage, TraceError};
pub use event::{Access, Event, Measure, SkipReason};
pub use filter::Filter;
pub use format::{Format, UnknownFormat};
use input::Cut;
pub use requests::{ReadOptions, Requests};

/// The name by which commands read standard input.
pub const STANDARD_INPUT: &str = "-";

/// Number of damaged places that are remembered; all are counted.
const DAMAGES_KEPT: usize = 8;

/// Parts of a trace that were skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Number of damaged lines or records.
    pub damaged: u64,
    /// The first of them.
    pub damages: Vec<Damage>,
    /// The compression of a file that ends in the middle of its data.
    pub cut: Option<&'static str>,
    skip_reason: [u64; SkipReason::ALL.len()],
}

impl Skipped {
    /// Returns the number of requests skipped for this reason.
    pub fn skip_reason(&self, why: SkipReason) -> u64 {
        self.skip_reason[why as usize]
    }
}

/// A trace that is being read.
pub struct Trace {
    source: Source,
    filter: Filter,
    skipped: Skipped,
    cut: Cut,
    /// Sizes of objects, for lines without one; filled only by [`Trace::next_access`].
    sizes: HashMap<u64, u64>,
}

enum Source {
    /// The file is empty, like a log that has just been started.
    Empty,
    Oracle(oracle::Reader),
    Csv(csv::Reader),
    W3c(w3c::Reader),
    Log(lines::Lines, event::Parse),
}

impl Source {
    /// Returns whether requests without a size may occur.
    fn has_sizeless(&self) -> bool {
        match self {
            Source::Empty | Source::Oracle(_) => false,
            Source::Csv(reader) => reader.has_sizeless(),
            Source::W3c(_) | Source::Log(..) => true,
        }
    }
}

impl Trace {
    /// Opens the file `path`, or standard input for `-`. `columns` names those of a CSV file
    /// without a header. An empty file of unknown format is a trace without requests.
    ///
    /// # Errors
    /// The file cannot be read, or its format is unknown.
    pub fn open(
        path: &Path,
        format: Format,
        columns: Option<Columns>,
    ) -> Result<Trace, TraceError> {
        let format = match (format, columns) {
            (Format::Auto, Some(_)) => Format::Csv,
            (Format::Auto, None) => detect::by_name(path).unwrap_or_default(),
            (format, _) => format,
        };
        match path == Path::new(STANDARD_INPUT) {
            true => Trace::read(io::stdin(), format, columns),
            false => Trace::read(File::open(path)?, format, columns),
        }
    }

    /// Reads a trace, compressed or not, from any source. [`Format::Auto`] detects the format from
    /// the first lines.
    ///
    /// # Errors
    /// The input cannot be read, or its format is unknown.
    pub fn read(
        input: impl Read + 'static,
        format: Format,
        columns: Option<Columns>,
    ) -> Result<Trace, TraceError> {
        const START: usize = 1 << 15;
        let cut = Cut::default();
        let mut input = input::unpack(input, &cut)?;
        let mut format = format;
        if format == Format::Auto {
            let start = input::peek(&mut input, START)?;
            if start.is_empty() {
                return Ok(Trace::new(Source::Empty, cut));
            }
            format = detect::by_start(&start).ok_or(TraceError::FormatUnknown)?;
            input = Box::new(io::Cursor::new(start).chain(input));
        }
        let source = match format {
            Format::Auto => return Err(TraceError::FormatUnknown),
            Format::Oracle => Source::Oracle(oracle::Reader::new(input)),
            Format::Csv => Source::Csv(csv::Reader::new(input, columns)?),
            Format::W3c => Source::W3c(w3c::Reader::new(input)),
            Format::Json => Source::Log(lines::Lines::new(input), json::parse),
            Format::Squid => Source::Log(lines::Lines::new(input), squid::parse),
            Format::Clf => Source::Log(lines::Lines::new(input), clf::parse),
        };
        Ok(Trace::new(source, cut))
    }

    fn new(source: Source, cut: Cut) -> Trace {
        let (filter, skipped) = (Filter::default(), Skipped::default());
        Trace { source, filter, skipped, cut, sizes: HashMap::new() }
    }

    /// Replaces the filter, which is initially [`Filter::Served`].
    #[must_use]
    pub fn with_filter(self, filter: Filter) -> Trace {
        Trace { filter, ..self }
    }

    /// Returns the next request as its line or record states it; `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read any further.
    pub fn next_event(&mut self) -> Result<Option<Event>, TraceError> {
        loop {
            let next = match &mut self.source {
                Source::Empty => return Ok(None),
                Source::Oracle(reader) => reader.next_event()?,
                Source::Csv(reader) => reader.next(self.filter)?,
                Source::W3c(reader) => reader.next(self.filter)?,
                Source::Log(lines, parse) => next_of_log(lines, *parse, self.filter)?,
            };
            match next {
                None => return Ok(None),
                Some(Err(damage)) => self.damaged(damage),
                Some(Ok(event)) => match event.skip_reason {
                    Some(why) if self.filter != Filter::All => self.pass_over(why),
                    _ => return Ok(Some(event)),
                },
            }
        }
    }

    /// Returns the object and size of the next request; `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read any further.
    pub fn next_access(&mut self) -> Result<Option<Access>, TraceError> {
        while let Source::Oracle(reader) = &mut self.source {
            match reader.next()? {
                None => return Ok(None),
                Some(Ok(access)) => return Ok(Some(access)),
                Some(Err(damage)) => self.damaged(damage),
            }
        }
        while let Some(event) = self.next_event()? {
            let object = event.object;
            // The length of a part, or of a hit's response, is not that of the object.
            let is_certain = event.measure != Measure::Part && !event.is_hit;
            let known = self.sizes.get(&object).filter(|_| !is_certain);
            match known.copied().or(event.size) {
                Some(size) => {
                    if self.source.has_sizeless() {
                        self.sizes.insert(object, size);
                    }
                    return Ok(Some(Access { object, size }));
                }
                None => match self.sizes.get(&object) {
                    Some(size) => return Ok(Some(Access { object, size: *size })),
                    None => self.pass_over(SkipReason::NoSize),
                },
            }
        }
        Ok(None)
    }

    fn damaged(&mut self, damage: Damage) {
        self.skipped.damaged += 1;
        if self.skipped.damages.len() < DAMAGES_KEPT {
            self.skipped.damages.push(damage);
        }
    }

    /// Counts a request that is skipped.
    fn pass_over(&mut self, why: SkipReason) {
        self.skipped.skip_reason[why as usize] += 1;
    }

    /// Returns the counts of what was skipped so far, and whether the file was cut short.
    pub fn skipped(&self) -> Skipped {
        Skipped { cut: self.cut.get(), ..self.skipped.clone() }
    }
}

/// Returns the next nonempty line of a log; empty lines are not damage.
fn next_of_log(
    lines: &mut lines::Lines,
    parse: event::Parse,
    filter: Filter,
) -> io::Result<Option<Result<Event, Damage>>> {
    loop {
        let event = match lines.next()? {
            None => return Ok(None),
            Some(Ok(line)) if line.trim_ascii().is_empty() => continue,
            Some(Ok(line)) => parse(line, filter),
            Some(Err(_)) => Err(format!("longer than {} bytes", lines::LINE_MAX)),
        };
        return Ok(Some(event.map_err(|what| Damage { number: lines.number(), what })));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQUID: &str = "\
1.000 5 a TCP_MISS/200 10 GET http://h/x - DIRECT/- text/html
2.000 5 a TCP_MISS/200 20 GET http://h/y?q - DIRECT/- text/html

no line
3.000 5 b TCP_IMS_HIT/304 2 GET http://h/z - DIRECT/- -
4.000 5 b TCP_IMS_HIT/304 2 GET http://h/x - DIRECT/- -
";

    fn read(bytes: impl Into<Vec<u8>>, format: Format) -> Trace {
        Trace::read(io::Cursor::new(bytes.into()), format, None).unwrap()
    }

    fn sizes(mut trace: Trace) -> (Vec<u64>, Skipped) {
        let mut sizes = Vec::new();
        while let Some(access) = trace.next_access().unwrap() {
            sizes.push(access.size);
        }
        (sizes, trace.skipped)
    }

    #[test]
    fn skipped_requests_are_counted() {
        for bytes in input::tests::packed(SQUID.as_bytes()) {
            let trace = read(bytes, Format::Auto).with_filter(Filter::Papers);
            let (sizes, skipped) = sizes(trace);
            assert_eq!(sizes, [10, 10]);
            assert_eq!(skipped.damaged, 1);
            assert_eq!((skipped.damages[0].number, skipped.damages[0].what.len() > 5), (4, true));
            let skip_reason = SkipReason::ALL.map(|why| skipped.skip_reason(why));
            assert_eq!(skip_reason, [0, 1, 0, 0, 1]);
        }
        for filter in [Filter::Served, Filter::All] {
            let (sizes, _) = sizes(read(SQUID, Format::Squid).with_filter(filter));
            assert_eq!(sizes, [10, 20, 10]);
        }
    }

    #[test]
    fn formats_have_names() {
        assert_eq!("combined".parse(), Ok(Format::Clf));
        let told = "oracel".parse::<Format>().unwrap_err().to_string();
        assert!(told.contains("\"oracel\"") && told.contains("squid, clf"), "{told}");
        let unknown = Trace::read(io::Cursor::new(b"x\n"), Format::Auto, None).map(|_| ());
        assert!(matches!(unknown, Err(TraceError::FormatUnknown)));
    }

    #[test]
    fn a_log_that_has_just_been_begun_has_no_requests() {
        for bytes in input::tests::packed(b"").into_iter().chain([Vec::new()]) {
            let (sizes, skipped) = sizes(read(bytes, Format::Auto));
            assert_eq!((sizes.len(), skipped.damaged), (0, 0));
        }
    }

    #[test]
    fn a_file_that_was_cut_short_gives_what_is_there() {
        let mut random = fastrand::Rng::with_seed(1);
        let line = |_| format!("1 5 a TCP_MISS/200 10 GET http://h/{} - D/- -\n", random.u64(..));
        let text: String = (0..6_000).map(line).collect();
        for mut packed in input::tests::packed(text.as_bytes()) {
            packed.truncate(packed.len() - 4);
            let mut trace = read(packed, Format::Squid);
            let mut count = 0;
            while trace.next_event().unwrap().is_some() {
                count += 1;
            }
            let Skipped { cut, damaged, .. } = trace.skipped();
            assert!(cut.is_some() && damaged <= 1 && count > 2_000, "{cut:?} {damaged} {count}");
        }
    }
}
