//! Traces as text with columns, separated by commas, tabs or semicolons and named by the first
//! line.
//!
//! [`ROLES`] lists the known column names; others are ignored. An object is a number or any text.
//! In a column called `url`, its site, directory and kind are derived from the text, and generated
//! responses are distinguished from documents. A line with the status 304 has no size.
//!
//! Boston University's browser traces are recognised by their column `retrieval_s`. There, size 0
//! means a hit in the browser's own cache, so such a line has no size either.

use std::fmt;
use std::io::{self, BufRead};
use std::str::FromStr;

use store::Kind;

use super::error::{Damage, TraceError};
use super::event;
use super::event::{Event, Measure, SkipReason, hash, millis, number, shown};
use super::filter::Filter;
use super::lines::{LINE_MAX, Lines};
use super::url::Url;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Seconds,
    Millis,
    Client,
    Site,
    Group,
    Object,
    Url,
    Bytes,
    Kilobytes,
    Method,
    Status,
    Kind,
    Modified,
    Cacheable,
    Browser,
}

/// Names of columns, in lower case. If several columns have the same meaning, the first one here
/// counts.
const ROLES: [(&str, Role); 32] = [
    ("time", Role::Seconds),
    ("timestamp", Role::Seconds),
    ("time_s", Role::Seconds),
    ("time_ms", Role::Millis),
    ("client", Role::Client),
    ("user", Role::Client),
    ("host", Role::Client),
    ("site", Role::Site),
    ("server", Role::Site),
    ("group", Role::Group),
    ("directory", Role::Group),
    ("object", Role::Object),
    ("obj_id", Role::Object),
    ("id", Role::Object),
    ("key", Role::Object),
    ("url", Role::Url),
    ("size", Role::Bytes),
    ("bytes", Role::Bytes),
    ("obj_size", Role::Bytes),
    ("size_kb", Role::Kilobytes),
    ("method", Role::Method),
    ("status", Role::Status),
    ("response", Role::Status),
    ("kind", Role::Kind),
    ("type", Role::Kind),
    ("content_type", Role::Kind),
    ("modified", Role::Modified),
    ("last_modified", Role::Modified),
    ("version", Role::Modified),
    ("etag", Role::Modified),
    ("cacheable", Role::Cacheable),
    ("retrieval_s", Role::Browser),
];

/// Columns beyond this number are ignored.
const COLUMNS_MAX: usize = 32;

/// The meaning of each column of a line, and their separator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    roles: [Option<Role>; COLUMNS_MAX],
    separator: u8,
    /// Positions of object and size, for messages.
    object: usize,
    size: usize,
}

/// Error of column names that lack a required one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadColumns {
    names: String,
    lacks_object: bool,
}

impl fmt::Display for BadColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names_of = |wanted: &[Role]| {
            let names = ROLES.iter().filter(|(_, role)| wanted.contains(role));
            names.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
        };
        write!(
            f,
            "columns {} have no {}: an object ({}) and a size ({}) are required",
            shown(self.names.as_bytes()),
            if self.lacks_object { "object" } else { "size" },
            names_of(&[Role::Object, Role::Url]),
            names_of(&[Role::Bytes, Role::Kilobytes]),
        )
    }
}

impl std::error::Error for BadColumns {}

impl FromStr for Columns {
    type Err = BadColumns;

    fn from_str(header: &str) -> Result<Columns, BadColumns> {
        let header = header.trim_matches(['\r', '\n']);
        let separator = [b'\t', b';', b','].into_iter().find(|s| header.as_bytes().contains(s));
        let separator = separator.unwrap_or(b',');
        let names: Vec<String> = header
            .split(char::from(separator))
            .map(|name| name.trim().trim_matches('"').to_ascii_lowercase())
            .take(COLUMNS_MAX)
            .collect();
        let mut roles = [None; COLUMNS_MAX];
        for (wanted, role) in ROLES {
            let at = names.iter().position(|name| name == wanted);
            match at {
                Some(at) if !roles.iter().flatten().any(|taken| same(*taken, role)) => {
                    roles[at] = Some(role);
                }
                _ => {}
            }
        }
        let place =
            |wanted| {
                roles.iter().flatten().any(|role| same(*role, wanted)).then(|| {
                    roles.iter().position(|role| role.is_some_and(|role| same(role, wanted)))
                })
            };
        let bad = |lacks_object| BadColumns { names: header.trim().to_owned(), lacks_object };
        let object = place(Role::Object).flatten().ok_or_else(|| bad(true))?;
        let size = place(Role::Bytes).flatten().ok_or_else(|| bad(false))?;
        Ok(Columns { roles, separator, object, size })
    }
}

/// Returns whether one of two columns is enough.
fn same(a: Role, b: Role) -> bool {
    use Role::{Bytes, Kilobytes, Millis, Object, Seconds, Url};
    matches!(
        (a, b),
        (Seconds | Millis, Seconds | Millis)
            | (Object | Url, Object | Url)
            | (Bytes | Kilobytes, Bytes | Kilobytes)
    ) || a == b
}

pub(super) struct Reader {
    lines: Lines,
    columns: Columns,
}

impl Reader {
    pub(super) fn new(
        input: Box<dyn BufRead>,
        columns: Option<Columns>,
    ) -> Result<Reader, TraceError> {
        let mut lines = Lines::new(input);
        if let Some(columns) = columns {
            return Ok(Reader { lines, columns });
        }
        let header = match lines.next()? {
            Some(Ok(line)) => String::from_utf8_lossy(line).into_owned(),
            _ => String::new(),
        };
        let columns = header.parse().map_err(|error| {
            let hint = "name them in the first line or with --columns";
            TraceError::Header(format!("line 1: {error}; {hint}"))
        })?;
        Ok(Reader { lines, columns })
    }

    /// Returns whether a line may lack a size.
    pub(super) fn has_sizeless(&self) -> bool {
        let sizeless = [Some(Role::Status), Some(Role::Browser)];
        self.columns.roles.iter().any(|role| sizeless.contains(role))
    }

    pub(super) fn next(&mut self, filter: Filter) -> io::Result<Option<Result<Event, Damage>>> {
        let event = match self.lines.next()? {
            None => return Ok(None),
            Some(Ok(line)) => self.columns.parse(line, filter),
            Some(Err(_)) => Err(format!("longer than {LINE_MAX} bytes")),
        };
        Ok(Some(event.map_err(|what| Damage { number: self.lines.number(), what })))
    }
}

impl Columns {
    /// Parses a line.
    ///
    /// # Errors
    /// A description of what is wrong with the line.
    pub(super) fn parse(&self, line: &[u8], filter: Filter) -> Result<Event, String> {
        let mut event = Event { status: 200, ..Event::default() };
        let (mut has_object, mut is_dynamic, mut is_browser) = (false, false, false);
        let mut url = None;
        let fields = Fields { rest: Some(line), separator: self.separator };
        for (field, role) in fields.zip(self.roles) {
            let (Some(role), false) = (role, field.is_empty()) else { continue };
            match role {
                Role::Seconds => event.time_ms = millis(field).ok_or_else(|| bad("time", field))?,
                Role::Millis => event.time_ms = number(field).ok_or_else(|| bad("time", field))?,
                Role::Client => event.client = name(field),
                Role::Site => event.site = name(field),
                Role::Group => event.group = name(field),
                Role::Object => (event.object, has_object) = (name(field), true),
                Role::Url => {
                    (event.object, has_object) = (name(field), true);
                    url = Some(Url::new(field));
                }
                Role::Bytes => event.size = Some(number(field).ok_or_else(|| bad("size", field))?),
                Role::Kilobytes => {
                    let bytes = number(field).and_then(|size| size.checked_mul(1_024));
                    event.size = Some(bytes.ok_or_else(|| bad("size", field))?);
                }
                Role::Method => event.method = event::method(field),
                Role::Status => {
                    let status = number(field).and_then(|status| u16::try_from(status).ok());
                    event.status = status.ok_or_else(|| bad("status", field))?;
                }
                Role::Kind => event.kind = kind(field),
                Role::Modified => event.modified = name(field).wrapping_add(1),
                Role::Cacheable => {
                    event.skip_reason =
                        matches!(field, b"0" | b"no" | b"false").then_some(SkipReason::Outcome)
                }
                Role::Browser => is_browser = true,
            }
        }
        if !has_object || event.size.is_none() {
            let column = 1 + if has_object { self.size } else { self.object };
            return Err(format!("nothing in column {column}"));
        }
        if let Some(url) = url {
            // Columns of their own take precedence over the URL.
            event.site = if event.site == 0 { url.site } else { event.site };
            event.group = if event.group == 0 { url.group } else { event.group };
            event.kind = if self.roles.contains(&Some(Role::Kind)) { event.kind } else { url.kind };
            is_dynamic = url.is_dynamic;
        }
        if event.status == 304 || is_browser && event.size == Some(0) {
            event.size = None;
        }
        if event.status == 206 {
            event.measure = Measure::Part;
        }
        let skip_reason = event::skip_reason(event.method, is_dynamic, event.status, filter);
        event.skip_reason = event.skip_reason.or(skip_reason);
        Ok(event)
    }
}

fn bad(what: &str, field: &[u8]) -> String {
    let unit = if what == "size" { "a number of bytes" } else { "a number" };
    format!("the {what} {} is not {unit}", shown(field))
}

/// Returns a number as itself, and the hash of any other text.
fn name(field: &[u8]) -> u64 {
    number(field).unwrap_or_else(|| hash(field))
}

fn kind(field: &[u8]) -> Kind {
    match field {
        b"html" | b"text/html" => Kind::Html,
        _ => Kind::Other,
    }
}

/// The fields of a line, without surrounding blanks and quotes. Within quotes a separator is an
/// ordinary character.
struct Fields<'a> {
    rest: Option<&'a [u8]>,
    separator: u8,
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let quoted = rest.trim_ascii_start().strip_prefix(b"\"").and_then(|inside| {
            let end = memchr::memchr(b'"', inside)?;
            Some((&inside[..end], &inside[end + 1..]))
        });
        let (inside, after) = quoted.map_or((None, rest), |(inside, after)| (Some(inside), after));
        let end = memchr::memchr(self.separator, after);
        self.rest = end.map(|end| &after[end + 1..]);
        Some(inside.unwrap_or_else(|| after[..end.unwrap_or(after.len())].trim_ascii()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Method;

    fn reader(text: &'static str, columns: Option<Columns>) -> Result<Reader, TraceError> {
        Reader::new(Box::new(text.as_bytes()), columns)
    }

    fn event(header: &str, line: &str) -> Event {
        header.parse::<Columns>().unwrap().parse(line.as_bytes(), Filter::Papers).unwrap()
    }

    #[test]
    fn the_first_line_names_the_columns() {
        let text = "Time, \"URL\", x, size\n1,\"http://a/,b\",,10\n2,7,,20";
        let mut lines = reader(text, None).unwrap();
        let first = lines.next(Filter::Served).unwrap().unwrap().unwrap();
        assert_eq!((first.object, first.size), (hash(b"http://a/,b"), Some(10)));
        assert_eq!(first.site, Url::new(b"http://a/").site);
        let second = lines.next(Filter::Served).unwrap().unwrap().unwrap();
        assert_eq!((second.time_ms, second.object, second.size), (2_000, 7, Some(20)));
        assert_eq!(lines.next(Filter::Served).unwrap(), None);
    }

    #[test]
    fn columns_may_be_named_from_outside() {
        let columns = "time,object,size_kb".parse().unwrap();
        let mut lines = reader("0,2,3\n", Some(columns)).unwrap();
        assert_eq!(lines.next(Filter::Served).unwrap().unwrap().unwrap().size, Some(3_072));
    }

    #[test]
    fn all_columns_count() {
        let header = "time_ms;client;site;group;object;version;size;method;status;kind;cacheable";
        let found = event(header, "5;6;7;8;9;0;11;HEAD;404;html;no");
        let expected = Event {
            time_ms: 5,
            object: 9,
            site: 7,
            group: 8,
            client: 6,
            size: Some(11),
            modified: 1,
            kind: Kind::Html,
            method: Method::Head,
            status: 404,
            skip_reason: Some(SkipReason::Outcome),
            ..Event::default()
        };
        assert_eq!(found, expected);
        assert_eq!(
            event("key,size", "a?b,1").skip_reason,
            None,
            "only a URL is known for a program's"
        );
        assert_eq!(event("url,size", "/a?b,1").skip_reason, Some(SkipReason::Dynamic));
        assert_eq!(event("url\tresponse\tsize", "/a\t304\t0").size, None);
    }

    #[test]
    fn browser_cache_hits_have_no_size() {
        let header = "time\tuser\tmachine\tsession_start\turl\tbytes\tretrieval_s";
        let line = |bytes: &str| format!("7.5\tcon1\tcs20\t6\thttp://a/x.gif\t{bytes}\t0.5");
        assert_eq!(event(header, &line("0")).size, None);
        assert_eq!(event(header, &line("9")).size, Some(9));
        assert_eq!(event(header, &line("9")).client, hash(b"con1"));
    }

    #[test]
    fn missing_columns_are_named() {
        let told = |text| reader(text, None).map(|_| ()).unwrap_err().to_string();
        assert!(told("0,2,806\n").starts_with("line 1: columns \"0,2,806\" have no object"));
        assert!(told("url,time\n").contains("have no size"));
        assert!(told("").contains("have no object"));
    }

    #[test]
    fn damaged_lines_are_named() {
        let mut lines = reader("id,size\n1\n2,-5\n3,4\n5,\n", None).unwrap();
        let mut next = || lines.next(Filter::Served).unwrap().unwrap();
        assert_eq!(next().unwrap_err(), Damage { number: 2, what: "nothing in column 2".into() });
        assert!(next().unwrap_err().what.contains("\"-5\""));
        assert_eq!(next().unwrap().object, 3);
        assert_eq!(next().unwrap_err().number, 5);
    }
}
