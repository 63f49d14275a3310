//! W3C's extended log format, as CloudFront and IIS write it: a line `#Fields:` names the fields of
//! the lines after it, which are separated by tabs or spaces.

use std::borrow::Cow;
use std::io::BufRead;

use super::error::{Damage, TraceError};
use super::event::Event;
use super::filter::Filter;
use super::lines::{LINE_MAX, Lines};
use super::named::{Field, Named, Values};

const FIELDS: &[u8] = b"#Fields:";

/// Returns whether a text of whole lines is a log of this format.
pub(super) fn is_start(lines: &[&[u8]]) -> bool {
    let mut comments = lines.iter().take_while(|line| line.starts_with(b"#"));
    comments.any(|line| line.starts_with(FIELDS))
}

pub(super) struct Reader {
    lines: Lines,
    /// The meaning of each field of a line, in their order; or the reason why lines cannot be read.
    fields: Result<Vec<Option<Named>>, String>,
    /// True once lines could be read.
    has_fields: bool,
}

impl Reader {
    pub(super) fn new(input: Box<dyn BufRead>) -> Reader {
        Reader { lines: Lines::new(input), fields: Ok(Vec::new()), has_fields: false }
    }

    /// Returns the next request.
    ///
    /// # Errors
    /// The file cannot be read, or its first fields lack a required one.
    pub(super) fn next(
        &mut self,
        filter: Filter,
    ) -> Result<Option<Result<Event, Damage>>, TraceError> {
        loop {
            let event = match self.lines.next()? {
                None => return Ok(None),
                Some(Ok(line)) => {
                    if let Some(names) = line.strip_prefix(FIELDS) {
                        self.fields = fields(names);
                        self.has_fields |= self.fields.is_ok();
                        if let (Err(why), false) = (&self.fields, self.has_fields) {
                            let number = self.lines.number();
                            return Err(TraceError::Header(format!("line {number}: {why}")));
                        }
                        continue;
                    }
                    if line.starts_with(b"#") || line.trim_ascii().is_empty() {
                        continue;
                    }
                    match &self.fields {
                        Ok(fields) => parse(line, fields, filter),
                        Err(why) => Err(why.clone()),
                    }
                }
                Some(Err(_)) => Err(format!("longer than {LINE_MAX} bytes")),
            };
            let number = self.lines.number();
            return Ok(Some(event.map_err(|what| Damage { number, what })));
        }
    }
}

/// Returns the meaning of the named fields.
///
/// # Errors
/// One that is required is missing.
fn fields(names: &[u8]) -> Result<Vec<Option<Named>>, String> {
    let names = String::from_utf8_lossy(names);
    let named = |name: &str| match name {
        "date" => Some((Field::Date, 0)),
        "time" => Some((Field::Clock, 0)),
        name => Field::named(name),
    };
    let fields: Vec<_> = names.split_ascii_whitespace().map(named).collect();
    let has = |wanted| fields.iter().flatten().any(|(field, _)| *field == wanted);
    for (wanted, name) in [
        (Field::Date, "date"),
        (Field::Clock, "time"),
        (Field::Method, "cs-method"),
        (Field::Url, "cs-uri-stem"),
        (Field::Status, "sc-status"),
        (Field::Sent, "sc-bytes"),
    ] {
        if !has(wanted) {
            return Err(format!("no field {name}: let the server log it"));
        }
    }
    Ok(fields)
}

fn parse(line: &[u8], fields: &[Option<Named>], filter: Filter) -> Result<Event, String> {
    let separator = if line.contains(&b'\t') { b'\t' } else { b' ' };
    let mut values = Values::default();
    let mut count = 0;
    for (field, value) in fields.iter().zip(line.split(|byte| *byte == separator)) {
        count += 1;
        if let Some(field) = field {
            values.set(*field, Cow::Borrowed(value));
        }
    }
    match count == fields.len() && count > 0 {
        true => values.event(filter),
        false => Err(format!("{count} fields, and #Fields: names {}", fields.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::{Measure, hash};
    use super::*;
    use crate::request::Method;

    const CLOUDFRONT: &str = "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip \
        cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query \
        cs(Cookie) x-edge-result-type x-edge-request-id x-host-header\n\
        2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td1.cloudfront.net\t/index.html\t200\t\
        -\tMozilla/5.0%20(X)\tv=1\t-\tHit\tSOX4xw==\tw.test\n\
        2019-12-04\t21:02:32\tLAX1\t-\t192.0.2.100\n";

    const IIS: &str = "#Software: Microsoft Internet Information Services 10.0\n\
        #Fields: date time cs-method cs-uri-stem cs-uri-query c-ip sc-status sc-bytes time-taken\n\
        2024-05-01 00:00:01 POST /a - 192.0.2.1 206 500 15\n";

    fn read(text: &'static str) -> Vec<Result<Event, Damage>> {
        let mut reader = Reader::new(Box::new(text.as_bytes()));
        std::iter::from_fn(|| reader.next(Filter::Served).unwrap()).collect()
    }

    #[test]
    fn lines_of_two_programs_are_read() {
        let found = read(CLOUDFRONT);
        let event = found[0].as_ref().unwrap();
        assert_eq!(event.object, hash(b"http://w.test/index.html?v=1"));
        assert_eq!((event.time_ms, event.client), (1_575_493_351_000, hash(b"192.0.2.100")));
        assert_eq!((event.size, event.measure), (Some(392), Measure::SentWithHead));
        assert!(event.is_hit);
        let Err(Damage { number: 4, what }) = &found[1] else { panic!("{found:?}") };
        assert!(what.starts_with("5 fields, and #Fields: names 16"), "{what}");
        let found = read(IIS);
        let event = found[0].as_ref().unwrap();
        assert_eq!((event.object, event.method), (hash(b"/a"), Method::Post));
        assert_eq!((event.size, event.measure), (Some(500), Measure::Part));
    }

    #[test]
    fn a_missing_field_is_named() {
        let told = |text: &'static str| {
            let mut reader = Reader::new(Box::new(text.as_bytes()));
            reader.next(Filter::Served).unwrap_err().to_string()
        };
        let names = "#Fields: date time cs-method cs-uri-stem sc-status\n";
        assert_eq!(told(names), "line 1: no field sc-bytes: let the server log it");
    }
}
