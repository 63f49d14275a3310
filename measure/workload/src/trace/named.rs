//! Logs whose fields have names: the event that the fields of one line state.
//!
//! JSON and W3C logs of several programs name the same things differently; [`FIELDS`] has the names
//! of each.

use std::borrow::Cow;

use store::Kind;

use super::event::{self, Event, Measure, hash, millis, number, shown};
use super::filter::Filter;
use super::outcome::Outcome;
use super::time;
use super::url::Url;

/// A thing that a line states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Time,
    Date,
    Clock,
    Client,
    Request,
    Method,
    Host,
    Url,
    Query,
    Status,
    /// Bytes of the body that were sent.
    Body,
    /// Bytes of head and body that were sent.
    Sent,
    Kind,
    Outcome,
    Reason,
    Aborted,
}

/// Number of fields.
const COUNT: usize = Field::Aborted as usize + 1;

/// Names of fields, in lower case: those of Larder, of Caddy, of nginx (the names of its
/// variables), of CloudFront and of IIS. If several have the same meaning, the first one here
/// counts.
const FIELDS: [(&str, Field); 45] = [
    ("msec", Field::Time),
    ("time_iso8601", Field::Time),
    ("ts", Field::Time),
    ("time", Field::Time),
    ("@timestamp", Field::Time),
    ("timestamp", Field::Time),
    ("time_local", Field::Time),
    ("client", Field::Client),
    ("remote_addr", Field::Client),
    ("client_ip", Field::Client),
    ("remote_ip", Field::Client),
    ("c-ip", Field::Client),
    ("request", Field::Request),
    ("method", Field::Method),
    ("request_method", Field::Method),
    ("cs-method", Field::Method),
    ("x-host-header", Field::Host),
    ("host", Field::Host),
    ("http_host", Field::Host),
    ("cs(host)", Field::Host),
    ("cs-host", Field::Host),
    ("server_name", Field::Host),
    ("url", Field::Url),
    ("request_uri", Field::Url),
    ("uri", Field::Url),
    ("cs-uri", Field::Url),
    ("cs-uri-stem", Field::Url),
    ("cs-uri-query", Field::Query),
    ("args", Field::Query),
    ("query_string", Field::Query),
    ("status", Field::Status),
    ("sc-status", Field::Status),
    ("body_out", Field::Body),
    ("body_bytes_sent", Field::Body),
    ("size", Field::Body),
    ("bytes_sent", Field::Sent),
    ("sc-bytes", Field::Sent),
    ("content_type", Field::Kind),
    ("sent_http_content_type", Field::Kind),
    ("sc-content-type", Field::Kind),
    ("outcome", Field::Outcome),
    ("upstream_cache_status", Field::Outcome),
    ("x-edge-result-type", Field::Outcome),
    ("reason", Field::Reason),
    ("aborted", Field::Aborted),
];

/// A field, and the rank of its name among those with the same meaning.
pub(super) type Named = (Field, usize);

impl Field {
    /// Returns the field of this name.
    pub(super) fn named(name: &str) -> Option<Named> {
        let rank = FIELDS.iter().position(|(known, _)| name.eq_ignore_ascii_case(known));
        rank.map(|rank| (FIELDS[rank].1, rank))
    }
}

/// The values of a line's fields.
#[derive(Default)]
pub(super) struct Values<'a> {
    values: [Option<(usize, Cow<'a, [u8]>)>; COUNT],
}

impl<'a> Values<'a> {
    /// Adds the value of a field; the one of the lowest rank counts.
    pub(super) fn set(&mut self, (field, rank): Named, value: Cow<'a, [u8]>) {
        let known = &mut self.values[field as usize];
        if known.as_ref().is_none_or(|(other, _)| rank < *other) {
            *known = Some((rank, value));
        }
    }

    fn get(&self, field: Field) -> Option<&[u8]> {
        let value = self.values[field as usize].as_ref().map(|(_, value)| &**value);
        value.filter(|value| !matches!(*value, b"" | b"-"))
    }

    /// Returns the event.
    ///
    /// # Errors
    /// A description of what is missing, or not what it should be.
    pub(super) fn event(&self, filter: Filter) -> Result<Event, String> {
        let time_ms = self.time()?;
        let words = self.get(Field::Request).unwrap_or_default().split(|byte| *byte == b' ');
        let mut words = words.filter(|word| !word.is_empty());
        let method = self.get(Field::Method).or_else(|| words.next());
        let method = event::method(method.ok_or("no method")?);
        let path = self.get(Field::Url).or_else(|| words.next());
        let name = self.name(path.ok_or("no URL")?);
        let status = self.get(Field::Status).ok_or("no status")?;
        let status = number(status)
            .and_then(|status| u16::try_from(status).ok())
            .ok_or_else(|| format!("{} is not a status", shown(status)))?;
        let (size, measure) = self.size(status)?;
        let url = Url::new(&name);
        let mut event = Event {
            time_ms,
            object: hash(&name),
            site: url.site,
            group: url.group,
            client: self.get(Field::Client).map_or(0, hash),
            size: (status != 304).then_some(size).flatten(),
            measure,
            kind: match self.get(Field::Kind) {
                Some(kind) if kind.starts_with(b"text/html") => Kind::Html,
                Some(_) => Kind::Other,
                None => url.kind,
            },
            method,
            status,
            skip_reason: event::skip_reason(method, url.is_dynamic, status, filter),
            ..Event::default()
        };
        match (self.get(Field::Outcome), self.get(Field::Reason)) {
            (Some(name), Some(reason)) => {
                Outcome::apply(&[name, b"(", reason, b")"].concat(), &mut event);
            }
            (Some(name), None) => Outcome::apply(name, &mut event),
            (None, _) => {}
        }
        Ok(event)
    }

    fn time(&self) -> Result<u64, String> {
        let is_out = |time: &[u8]| format!("the time {} is not one", shown(time));
        if let Some(date) = self.get(Field::Date) {
            let clock = self.get(Field::Clock).ok_or("no time")?;
            let time = [date, b" ", clock].concat();
            return time::iso(&time).ok_or_else(|| is_out(&time));
        }
        let time = self.get(Field::Time).ok_or("no time")?;
        let since = millis(time).map(|since| match since {
            // A number beyond the year 5138 is one of milliseconds.
            100_000_000_000_000.. => since / 1_000,
            since => since,
        });
        since
            .or_else(|| time::iso(time))
            .or_else(|| time::of_servers(time))
            .ok_or_else(|| is_out(time))
    }

    /// Returns the URL, with the host if it is known.
    fn name(&self, path: &[u8]) -> Vec<u8> {
        let mut name = Vec::with_capacity(path.len());
        if let Some(host) = self.get(Field::Host).filter(|_| path.starts_with(b"/")) {
            name.extend_from_slice(b"http://");
            name.extend_from_slice(host);
        }
        name.extend_from_slice(path);
        if let Some(query) = self.get(Field::Query).filter(|_| !path.contains(&b'?')) {
            name.push(b'?');
            name.extend_from_slice(query);
        }
        name
    }

    fn size(&self, status: u16) -> Result<(Option<u64>, Measure), String> {
        let is_cut = status == 206 || self.get(Field::Aborted) == Some(b"true");
        let measured = [(Field::Body, Measure::Sent), (Field::Sent, Measure::SentWithHead)];
        let found =
            measured.iter().find_map(|(field, measure)| Some((self.get(*field)?, *measure)));
        let Some((bytes, measure)) = found else {
            return match status {
                304 => Ok((None, Measure::Sent)),
                _ => Err("no number of bytes sent".to_owned()),
            };
        };
        let size =
            number(bytes).ok_or_else(|| format!("{} is not a number of bytes", shown(bytes)))?;
        Ok((Some(size), if is_cut { Measure::Part } else { measure }))
    }
}
