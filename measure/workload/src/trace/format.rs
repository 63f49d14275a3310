//! Names of trace formats.

use std::str::FromStr;

/// The format of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Detected by the name of the file (`.oracleGeneral`, `.csv` or `.tsv`, each compressed or
    /// not), else by its first lines.
    #[default]
    Auto,
    /// libCacheSim's oracleGeneral: records of 24 bytes, little-endian: time in seconds (u32),
    /// object (u64), size (u32), index of the object's next request (i64).
    Oracle,
    /// Text, one request per line, columns separated by commas, tabs or semicolons, named by the
    /// first line.
    Csv,
    /// Squid's native access log.
    Squid,
    /// The common log format of servers, or the combined one.
    Clf,
    /// An object in JSON per line: Larder's, Caddy's, or nginx's with the names of its variables.
    Json,
    /// W3C's extended log format, which CloudFront and IIS write.
    W3c,
}

impl Format {
    /// All formats, by their names on the command line.
    pub const ALL: [(&str, Format); 8] = [
        ("auto", Format::Auto),
        ("squid", Format::Squid),
        ("clf", Format::Clf),
        ("combined", Format::Clf),
        ("json", Format::Json),
        ("w3c", Format::W3c),
        ("oracle", Format::Oracle),
        ("csv", Format::Csv),
    ];

    pub(super) fn names() -> String {
        Format::ALL.map(|(name, _)| name).join(", ")
    }
}

/// Error of an unknown format name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown trace format {0:?}: choose one of {names}", names = Format::names())]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Format, UnknownFormat> {
        let found = Format::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, format)| *format).ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}
