//! Detection of a trace's format, by the name of its file or by its first lines.

use std::path::Path;

use super::csv::Columns;
use super::event::Parse;
use super::filter::Filter;
use super::format::Format;
use super::{clf, json, squid, w3c};

const LINES: usize = 20;

/// Detects the format by the file name. `None`: examine the contents.
pub(super) fn by_name(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_str()?;
    let name = [".zst", ".gz", ".xz"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    if name.ends_with(".oracleGeneral") {
        return Some(Format::Oracle);
    }
    (name.ends_with(".csv") || name.ends_with(".tsv")).then_some(Format::Csv)
}

/// Detects the format by the first bytes: more than half of the lines are log lines, or the first
/// line names columns.
pub(super) fn by_start(start: &[u8]) -> Option<Format> {
    let lines: Vec<&[u8]> = start.split(|byte| *byte == b'\n').take(LINES).collect();
    // The last line may be incomplete.
    let whole = if lines.len() > 1 { &lines[..lines.len() - 1] } else { &lines[..] };
    if w3c::is_start(whole) {
        return Some(Format::W3c);
    }
    let formats: [(_, Parse); 3] =
        [(Format::Squid, squid::parse), (Format::Clf, clf::parse), (Format::Json, json::parse)];
    for (format, parse) in formats {
        let found =
            whole.iter().filter(|line| parse(line.trim_ascii_end(), Filter::All).is_ok()).count();
        if found * 2 > whole.len() {
            return Some(format);
        }
    }
    let header = std::str::from_utf8(whole.first()?).ok()?;
    header.parse::<Columns>().is_ok().then_some(Format::Csv)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_format() {
        let of = |name: &str| by_name(Path::new(name));
        assert_eq!(of("a/b.oracleGeneral.zst"), Some(Format::Oracle));
        assert_eq!(of("b.oracleGeneral"), Some(Format::Oracle));
        assert_eq!(of("b.csv.gz"), Some(Format::Csv));
        assert_eq!(of("b.tsv.xz"), Some(Format::Csv));
        assert_eq!(of("access.log"), None);
    }

    #[test]
    fn contents_tell_the_format() {
        let squid = "982800000.123 105 c TCP_MISS/200 43 GET http://h/ - DIRECT/- text/html\n";
        let clf = "h - - [01/Jul/1995:00:00:12 -0400] \"GET / HTTP/1.0\" 200 39\n";
        let json = "{\"ts\":5,\"method\":\"GET\",\"uri\":\"/\",\"status\":200,\"size\":4}\n";
        let cases = [
            (squid.repeat(3), Some(Format::Squid)),
            (squid.trim_end().to_owned(), Some(Format::Squid)),
            (format!("damaged\n{}", squid.repeat(3)), Some(Format::Squid)),
            (format!("{clf}{clf}h - - [01/Jul"), Some(Format::Clf)),
            ("url\tbytes\n".to_owned(), Some(Format::Csv)),
            (format!("{squid}{clf}"), None),
            ("0,1,2\n".to_owned(), None),
            (String::new(), None),
            ("#Version: 1.0\n#Fields: date time\n".to_owned(), Some(Format::W3c)),
            ("# a comment\n".to_owned(), None),
            (format!("{json}{json}"), Some(Format::Json)),
        ];
        for (text, format) in cases {
            assert_eq!(by_start(text.as_bytes()), format, "{text}");
        }
    }
}
