//! Traces as text with columns separated by commas.
//!
//! Columns that count: `object` (also `obj_id`, `id`, `key`, `url`), a number or any text without
//! a comma, and `size` (also `bytes`, `obj_size`) in bytes or `size_kb` in units of 1,024. Others
//! are passed over.

use std::fmt;
use std::io::{self, BufRead};
use std::str::FromStr;

use xxhash_rust::xxh3::xxh3_64;

use super::{Access, Damage, TraceError};

const OBJECT: [&str; 5] = ["object", "obj_id", "id", "key", "url"];
const SIZE: [&str; 3] = ["size", "bytes", "obj_size"];
const SIZE_KB: &str = "size_kb";

/// Where in a line the object and its size are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    object: usize,
    size: usize,
    /// Bytes of a unit of size.
    unit: u64,
}

/// Names of columns that lack what is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadColumns(String);

impl fmt::Display for BadColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "columns {:?} name no {}: needed are object ({}) and size ({}; or {SIZE_KB})",
            self.0,
            if names(&self.0).any(|name| OBJECT.contains(&&*name)) { "size" } else { "object" },
            OBJECT[1..].join(", "),
            SIZE[1..].join(", "),
        )
    }
}

impl std::error::Error for BadColumns {}

fn names(header: &str) -> impl Iterator<Item = String> {
    header.trim().split(',').map(|name| name.trim().trim_matches('"').to_ascii_lowercase())
}

impl FromStr for Columns {
    type Err = BadColumns;

    fn from_str(header: &str) -> Result<Columns, BadColumns> {
        let bad = || BadColumns(header.trim().to_owned());
        let object = names(header).position(|name| OBJECT.contains(&&*name)).ok_or_else(bad)?;
        let bytes = names(header).position(|name| SIZE.contains(&&*name)).map(|at| (at, 1));
        let kb = || names(header).position(|name| name == SIZE_KB).map(|at| (at, 1_024));
        let (size, unit) = bytes.or_else(kb).ok_or_else(bad)?;
        Ok(Columns { object, size, unit })
    }
}

pub(super) struct Reader {
    input: Box<dyn BufRead>,
    columns: Columns,
    line: u64,
    text: Vec<u8>,
}

impl Reader {
    pub(super) fn new(
        mut input: Box<dyn BufRead>,
        columns: Option<Columns>,
    ) -> Result<Reader, TraceError> {
        let mut text = Vec::new();
        if let Some(columns) = columns {
            return Ok(Reader { input, columns, line: 0, text });
        }
        input.read_until(b'\n', &mut text)?;
        let columns = String::from_utf8_lossy(&text).parse().map_err(|error| {
            let hint = "name them in the first line or with --columns";
            TraceError::Header(format!("line 1: {error}; {hint}"))
        })?;
        Ok(Reader { input, columns, line: 1, text })
    }

    pub(super) fn next(&mut self) -> io::Result<Option<Result<Access, Damage>>> {
        self.text.clear();
        if self.input.read_until(b'\n', &mut self.text)? == 0 {
            return Ok(None);
        }
        self.line += 1;
        let access = self.columns.parse(&self.text);
        Ok(Some(access.map_err(|what| Damage { number: self.line, what })))
    }
}

impl Columns {
    fn parse(&self, line: &[u8]) -> Result<Access, String> {
        let field = |column: usize| {
            let field = line.split(|byte| *byte == b',').nth(column);
            let field = field.map(<[u8]>::trim_ascii).filter(|field| !field.is_empty());
            field.ok_or_else(|| format!("nothing in column {}", column + 1))
        };
        let object = field(self.object)?;
        let size = field(self.size)?;
        let bytes = number(size).and_then(|size| size.checked_mul(self.unit));
        let size = bytes.ok_or_else(|| {
            format!("the size {:?} is not a number of bytes", String::from_utf8_lossy(size))
        })?;
        Ok(Access { object: number(object).unwrap_or_else(|| xxh3_64(object)), size })
    }
}

fn number(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(text: &'static str, columns: Option<Columns>) -> Result<Reader, TraceError> {
        Reader::new(Box::new(text.as_bytes()), columns)
    }

    #[test]
    fn the_first_line_names_the_columns() {
        let mut lines = reader("Time, \"URL\", x, size\n1,http://a/,,10\n2,7,,20", None).unwrap();
        let first = lines.next().unwrap().unwrap().unwrap();
        assert_eq!((first.object, first.size), (xxh3_64(b"http://a/"), 10));
        assert_eq!(lines.next().unwrap(), Some(Ok(Access { object: 7, size: 20 })));
        assert_eq!(lines.next().unwrap(), None);
    }

    #[test]
    fn columns_may_be_named_from_outside() {
        let columns = "time,object,size_kb".parse().unwrap();
        let mut lines = reader("0,2,3\n", Some(columns)).unwrap();
        assert_eq!(lines.next().unwrap(), Some(Ok(Access { object: 2, size: 3_072 })));
    }

    #[test]
    fn missing_columns_are_named() {
        let told = |text| reader(text, None).map(|_| ()).unwrap_err().to_string();
        assert!(told("0,2,806\n").starts_with("line 1: columns \"0,2,806\" name no object"));
        assert!(told("url,time\n").contains("name no size"));
        assert!(told("").contains("name no object"));
    }

    #[test]
    fn damaged_lines_are_named() {
        let mut lines = reader("id,size\n1\n2,-5\n3,4\n5,\n", None).unwrap();
        let mut next = || lines.next().unwrap().unwrap();
        assert_eq!(next().unwrap_err(), Damage { number: 2, what: "nothing in column 2".into() });
        assert!(next().unwrap_err().what.contains("\"-5\""));
        assert_eq!(next().unwrap().object, 3);
        assert_eq!(next().unwrap_err().number, 5);
    }
}
