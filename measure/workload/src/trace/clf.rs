//! The common log format of servers, and the combined one: `host identity user [time] "request"
//! status bytes`, followed in the combined format by referrer and agent, which are ignored. Larder
//! adds the outcome.

use super::event::{self, Event, Measure, hash, number, shown};
use super::filter::Filter;
use super::outcome::Outcome;
use super::time;
use super::url::Url;

/// Parses a line.
///
/// # Errors
/// A description of what is wrong with the line.
pub(super) fn parse(line: &[u8], filter: Filter) -> Result<Event, String> {
    let (host, _) = split(line, b" ").ok_or("no client: there is no space")?;
    if host.is_empty() {
        return Err("no client: the line begins with a space".to_owned());
    }
    let (_, rest) = split(line, b" [").ok_or("no time in brackets")?;
    let (time, rest) = split(rest, b"] \"").ok_or("no request in quotes after the time")?;
    let time_ms = time::of_servers(time).ok_or_else(|| {
        format!("the time {} is not like 10/Oct/2000:13:55:36 -0700", shown(time))
    })?;
    let (request, status, rest) =
        request_and_status(rest).ok_or("no status of three digits after the request in quotes")?;
    let bytes = rest.split(|byte| *byte == b' ').next().unwrap_or_default();
    let size = match bytes {
        b"-" => 0,
        bytes => {
            number(bytes).ok_or_else(|| format!("{} is not a number of bytes", shown(bytes)))?
        }
    };
    let mut words = request.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let (Some(method), Some(name)) = (words.next(), words.next()) else {
        return Err(format!("the request {} is not a method and a path", shown(request)));
    };
    let (method, url) = (event::method(method), Url::new(name));
    let mut event = Event {
        time_ms,
        object: hash(name),
        site: url.site,
        group: url.group,
        client: hash(host),
        size: (status != 304).then_some(size),
        measure: if status == 206 { Measure::Part } else { Measure::Sent },
        kind: url.kind,
        method,
        status,
        skip_reason: event::skip_reason(method, url.is_dynamic, status, filter),
        ..Event::default()
    };
    if let Some(outcome) = outcome(rest) {
        Outcome::apply(outcome, &mut event);
    }
    Ok(event)
}

/// Returns the outcome behind the agent in quotes, as Larder writes it: capital letters, and
/// perhaps a reason in parentheses.
fn outcome(rest: &[u8]) -> Option<&[u8]> {
    let (_, word) = rest.split_at(memchr::memmem::rfind(rest, b"\" ")? + 2);
    let name = word.split(|byte| *byte == b'(').next()?;
    let is_name = name.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_');
    (is_name && !name.is_empty() && !word.contains(&b' ')).then_some(word)
}

fn split<'a>(bytes: &'a [u8], at: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let found = memchr::memmem::find(bytes, at)?;
    Some((&bytes[..found], &bytes[found + at.len()..]))
}

/// Finds the quote that ends the request: the first one followed by a status, since some logs have
/// quotes within requests. Returns the request, the status, and what follows the status.
fn request_and_status(rest: &[u8]) -> Option<(&[u8], u16, &[u8])> {
    memchr::memchr_iter(b'"', rest).find_map(|quote| {
        let after = rest[quote + 1..].strip_prefix(b" ")?;
        let (status, more) = (after.get(..3)?, after.get(3..)?.strip_prefix(b" ")?);
        let status = number(status).and_then(|status| u16::try_from(status).ok())?;
        Some((&rest[..quote], status, more))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Kind, Method};
    use crate::trace::SkipReason;

    const LINE: &str = "host.example - - [01/Jul/1995:00:00:12 -0400] \
                        \"GET /shuttle/countdown/ HTTP/1.0\" 200 3985";

    #[test]
    fn a_line_says_everything() {
        let event = parse(LINE.as_bytes(), Filter::Served).unwrap();
        let url = Url::new(b"/shuttle/countdown/");
        let expected = Event {
            time_ms: 804_571_212_000,
            object: hash(b"/shuttle/countdown/"),
            group: url.group,
            client: hash(b"host.example"),
            size: Some(3_985),
            measure: Measure::Sent,
            kind: Kind::Html,
            status: 200,
            ..Event::default()
        };
        assert_eq!(event, expected);
        let combined = format!("{LINE} \"http://from.example/\" \"Mozilla/2.0 [en]\"");
        assert_eq!(parse(combined.as_bytes(), Filter::Served).unwrap(), expected);
    }

    #[test]
    fn lines_of_real_logs_are_read() {
        let event = |from: &str, to: &str| {
            parse(LINE.replace(from, to).as_bytes(), Filter::Served).unwrap()
        };
        assert_eq!(event("200 3985", "304 -").size, None);
        assert_eq!(event("3985", "-").size, Some(0));
        assert_eq!(event("GET", "POST").skip_reason, Some(SkipReason::Method));
        assert_eq!(event("GET", "HEAD").method, Method::Head);
        assert_eq!(event(" HTTP/1.0", "").object, hash(b"/shuttle/countdown/"), "HTTP/0.9");
        assert_eq!(event("countdown/", "a\"b\"").object, hash(b"/shuttle/a\"b\""));
    }

    #[test]
    fn larders_outcome_follows_the_agent() {
        let event =
            |end: &str| parse(format!("{LINE} \"-\" {end}").as_bytes(), Filter::Served).unwrap();
        assert!(event("\"Mozilla/2.0 [en]\" HIT_RAM").is_hit);
        assert!(event("\"a\" REFRESHED").is_new_version);
        assert_eq!(event("\"a\" BYPASS(rule)").skip_reason, Some(SkipReason::Outcome));
        for other in ["\"HIT_RAM\"", "\"a\" 0.005", "\"a\" 7 MISS"] {
            assert_eq!(event(other), parse(LINE.as_bytes(), Filter::Served).unwrap(), "{other}");
        }
    }

    #[test]
    fn damage_is_named() {
        let what = |from: &str, to: &str| {
            parse(LINE.replace(from, to).as_bytes(), Filter::Served).unwrap_err()
        };
        assert!(what("Jul", "Jly").contains("is not like 10/Oct/2000"));
        assert!(what("[", "").contains("no time"));
        assert!(what("GET /shuttle/countdown/ HTTP/1.0", "GET").contains("a method and a path"));
        assert!(what("200", "2xx").contains("no status"));
        assert!(what("3985", "many").contains("\"many\" is not a number of bytes"));
        assert!(parse(b"", Filter::Served).unwrap_err().contains("no client"));
    }
}
