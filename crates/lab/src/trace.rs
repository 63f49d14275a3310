//! Traces of requests for objects, read as a stream: what was asked for, and how large it is.
//!
//! Files may be compressed with zstd, which is told from their first bytes. A damaged line or
//! record is no reason to stop: it is skipped, counted and named.

mod csv;
mod oracle;

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::str::FromStr;

pub use csv::Columns;

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Names the object: its number, or the hash of its name.
    pub object: u64,
    /// Bytes of the object.
    pub size: u64,
}

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// By the name of the file: `.oracleGeneral` or `.csv`, each with `.zst` or without.
    Auto,
    /// libCacheSim's oracleGeneral: records of 24 bytes, little-endian: time (u32), object (u64),
    /// size (u32), index of the object's next request (i64).
    Oracle,
    /// Text, a request per line, columns separated by commas, named by the first line.
    Csv,
}

/// A format that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFormat(String);

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no trace format is called {:?}: choose one of auto, oracle, csv", self.0)
    }
}

impl std::error::Error for UnknownFormat {}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Format, UnknownFormat> {
        match text {
            "auto" => Ok(Format::Auto),
            "oracle" => Ok(Format::Oracle),
            "csv" => Ok(Format::Csv),
            _ => Err(UnknownFormat(text.to_owned())),
        }
    }
}

/// Why a trace cannot be read (any further).
#[derive(Debug)]
pub enum TraceError {
    /// The file cannot be opened or read, or its compressed data is damaged.
    Io(io::Error),
    /// The name says nothing of the format.
    FormatUnknown,
    /// The first line does not name the columns that are needed.
    Header(String),
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::Io(error) => write!(f, "cannot be read: {error}"),
            TraceError::FormatUnknown => f.write_str(
                "its name ends in none of .oracleGeneral, .csv (and .zst): \
                 say what it is with --format oracle or --format csv",
            ),
            TraceError::Header(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for TraceError {}

impl From<io::Error> for TraceError {
    fn from(error: io::Error) -> TraceError {
        TraceError::Io(error)
    }
}

/// A place that was skipped: its line or record number, from 1, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Line, or record of a binary trace.
    pub number: u64,
    /// What was found, and what was expected.
    pub what: String,
}

/// A trace that is being read.
pub struct Trace {
    source: Source,
    damaged: u64,
    first_damage: Option<Damage>,
}

enum Source {
    Oracle(oracle::Reader),
    Csv(csv::Reader),
}

impl Trace {
    /// Opens the file `path`. `columns` names those of a CSV file without a header.
    pub fn open(
        path: &Path,
        format: Format,
        columns: Option<Columns>,
    ) -> Result<Trace, TraceError> {
        let format = match format {
            Format::Auto => format_of(path).ok_or(TraceError::FormatUnknown)?,
            format => format,
        };
        let file = BufReader::with_capacity(1 << 16, File::open(path)?);
        Trace::read(Box::new(file), format, columns)
    }

    /// Reads a trace from anywhere. [`Format::Auto`] is an error: there is no name to go by.
    pub fn read(
        mut input: Box<dyn BufRead>,
        format: Format,
        columns: Option<Columns>,
    ) -> Result<Trace, TraceError> {
        const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
        if input.fill_buf()?.starts_with(&ZSTD) {
            let decoder: Box<dyn Read> = Box::new(zstd::Decoder::with_buffer(input)?);
            input = Box::new(BufReader::with_capacity(1 << 16, decoder));
        }
        let source = match format {
            Format::Auto => return Err(TraceError::FormatUnknown),
            Format::Oracle => Source::Oracle(oracle::Reader::new(input)),
            Format::Csv => Source::Csv(csv::Reader::new(input, columns)?),
        };
        Ok(Trace { source, damaged: 0, first_damage: None })
    }

    /// The next request; `None` at the end.
    pub fn next_access(&mut self) -> Result<Option<Access>, TraceError> {
        loop {
            let next = match &mut self.source {
                Source::Oracle(reader) => reader.next()?,
                Source::Csv(reader) => reader.next()?,
            };
            match next {
                None => return Ok(None),
                Some(Ok(access)) => return Ok(Some(access)),
                Some(Err(damage)) => {
                    self.damaged += 1;
                    self.first_damage.get_or_insert(damage);
                }
            }
        }
    }

    /// Lines or records skipped so far, and the first of them.
    pub fn damage(&self) -> Option<(u64, &Damage)> {
        self.first_damage.as_ref().map(|first| (self.damaged, first))
    }
}

fn format_of(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_suffix(".zst").unwrap_or(name);
    if name.ends_with(".oracleGeneral") {
        return Some(Format::Oracle);
    }
    name.ends_with(".csv").then_some(Format::Csv)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_format() {
        let of = |name: &str| format_of(Path::new(name));
        assert_eq!(of("a/b.oracleGeneral.zst"), Some(Format::Oracle));
        assert_eq!(of("b.oracleGeneral"), Some(Format::Oracle));
        assert_eq!(of("b.csv.zst"), Some(Format::Csv));
        assert_eq!(of("b.txt"), None);
        assert!(matches!("oracel".parse::<Format>(), Err(UnknownFormat(_))));
    }

    #[test]
    fn compression_is_told_from_the_first_bytes() {
        let plain = b"object,size\nx,5\n";
        let packed = zstd::encode_all(&plain[..], 3).unwrap();
        let read = |bytes: Vec<u8>| {
            let input = Box::new(io::Cursor::new(bytes));
            let mut trace = Trace::read(input, Format::Csv, None).unwrap();
            trace.next_access().unwrap()
        };
        assert_eq!(read(packed), read(plain.to_vec()));
        assert_eq!(read(plain.to_vec()).map(|access| access.size), Some(5));
    }

    #[test]
    fn cut_compressed_data_is_an_error() {
        let mut packed = zstd::encode_all(&[1; 24_000][..], 3).unwrap();
        packed.truncate(packed.len() - 4);
        let input = Box::new(io::Cursor::new(packed));
        let mut trace = Trace::read(input, Format::Oracle, None).unwrap();
        let end = loop {
            match trace.next_access() {
                Ok(Some(_)) => {}
                end => break end,
            }
        };
        assert!(matches!(end, Err(TraceError::Io(_))));
    }
}
