//! Trace context (W3C, level 1): `traceparent` and `tracestate`, by which the logs and spans of
//! several programs are joined to a trace.
//!
//! The trace of a request is continued: the origin server gets the same trace id, and a span id of
//! this proxy. Nothing of it is part of a key or of a stored response.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use net::random::random;
use semantics::Fields;

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
static TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// Fields in which servers tell of a trace.
const OF_RESPONSES: [&str; 3] = ["traceparent", "tracestate", "traceresponse"];

/// Length in bytes of a `traceparent` of version 00.
const LENGTH: usize = 55;

/// Treatment of traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tracing {
    /// The fields are forwarded like any other.
    #[default]
    Off,
    /// Traces are continued.
    Continue,
    /// Requests without a trace begin one.
    Start,
}

/// The span of a request in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// `traceparent` for the origin server, in version 00.
    text: [u8; LENGTH],
    /// Id of the client's span, in hex; zeros if the trace began here.
    parent: [u8; 16],
    /// True if the trace began here, so that a `tracestate` of the client belongs to none.
    is_new: bool,
}

impl Tracing {
    /// Returns the span of a request with these fields, if it is traced.
    pub fn context(self, fields: &impl Fields) -> Option<Box<TraceContext>> {
        if self == Tracing::Off {
            return None;
        }
        let mut lines = fields.lines(&TRACEPARENT);
        let given = match (lines.next(), lines.next()) {
            (Some(line), None) => parsed(line),
            _ => None,
        };
        let is_new = given.is_none();
        let mut text = match (given, self) {
            (Some(text), _) => text,
            (None, Tracing::Start) => started(),
            (None, Tracing::Off | Tracing::Continue) => return None,
        };
        let mut parent = [0; 16];
        parent.copy_from_slice(&text[36..52]);
        write_hex(random_id(), &mut text[36..52]);
        Some(Box::new(TraceContext { text, parent, is_new }))
    }

    /// Sets the fields of a request to an origin server. Those that belong to no valid trace are
    /// removed.
    pub(crate) fn set(self, context: Option<&TraceContext>, fields: &mut HeaderMap) {
        if self == Tracing::Off {
            return;
        }
        if context.is_none_or(|context| context.is_new) {
            fields.remove(&TRACESTATE);
        }
        match context.and_then(|context| HeaderValue::from_bytes(&context.text).ok()) {
            Some(value) => _ = fields.insert(&TRACEPARENT, value),
            None => _ = fields.remove(&TRACEPARENT),
        }
    }

    /// Removes the fields of a response that name the trace of one request, because others may get
    /// the response too.
    pub(crate) fn remove_from_response(self, fields: &mut HeaderMap) {
        if self != Tracing::Off {
            OF_RESPONSES.iter().for_each(|name| _ = fields.remove(*name));
        }
    }
}

impl TraceContext {
    /// Returns the id of the trace: 32 hex digits.
    pub fn trace_id(&self) -> &[u8] {
        &self.text[3..35]
    }

    /// Returns the id of this proxy's span: 16 hex digits.
    pub fn span_id(&self) -> &[u8] {
        &self.text[36..52]
    }

    /// Returns the id of the client's span, 16 hex digits; `None` if the trace began here.
    pub fn parent_id(&self) -> Option<&[u8]> {
        (!self.is_new).then_some(&self.parent)
    }

    /// Returns whether spans of the trace are recorded.
    pub fn is_sampled(&self) -> bool {
        self.text[54] == b'1'
    }
}

/// Returns a `traceparent` in version 00, with the flags of that version; `None` if it is invalid.
fn parsed(line: &[u8]) -> Option<[u8; LENGTH]> {
    let mut text: [u8; LENGTH] = line.get(..LENGTH)?.try_into().ok()?;
    let is_hex = |part: &[u8]| part.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let is_set = |part: &[u8]| is_hex(part) && part.iter().any(|digit| *digit != b'0');
    let version = &text[..2];
    let is_whole = match version {
        b"00" => line.len() == LENGTH,
        _ => is_hex(version) && version != b"ff" && line.get(LENGTH).is_none_or(|b| *b == b'-'),
    };
    let dashes = [2, 35, 52].iter().all(|at| text[*at] == b'-');
    let flags = &text[53..];
    if !(is_whole && dashes && is_set(&text[3..35]) && is_set(&text[36..52]) && is_hex(flags)) {
        return None;
    }
    let is_sampled = hex_digit(text[54]) & 1 == 1;
    text[..2].copy_from_slice(b"00");
    text[53..].copy_from_slice(if is_sampled { b"01" } else { b"00" });
    Some(text)
}

/// Returns a `traceparent` of a new trace that is sampled, with an empty span.
fn started() -> [u8; LENGTH] {
    let mut text = *b"00-00000000000000000000000000000000-0000000000000000-01";
    write_hex(random_id(), &mut text[3..19]);
    write_hex(random_id(), &mut text[19..35]);
    text
}

/// Returns random bits that are not all zero, which would be no id.
fn random_id() -> u64 {
    random().max(1)
}

fn write_hex(bits: u64, digits: &mut [u8]) {
    for (at, digit) in digits.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(bits >> (60 - 4 * (at & 15))) as usize & 15];
    }
}

fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => digit - b'a' + 10,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const PARENT: &str = "00f067aa0ba902b7";

    /// Returns the fields that the origin gets for a request with these.
    fn sent(tracing: Tracing, parent: &str, state: &str) -> HeaderMap {
        let mut fields = HeaderMap::new();
        if !parent.is_empty() {
            fields.insert(&TRACEPARENT, parent.parse().unwrap());
        }
        fields.insert(&TRACESTATE, state.parse().unwrap());
        let context = tracing.context(&fields);
        tracing.set(context.as_deref(), &mut fields);
        fields
    }

    #[test]
    fn valid_traces_are_continued_with_a_span_of_this_proxy() {
        for (version, flags, after, expected) in [
            ("00", "01", "", Some("01")),
            ("00", "00", "", Some("00")),
            ("00", "ff", "", Some("01")),
            ("cc", "03", "-more", Some("01")),
            ("cc", "01", "", Some("01")),
            ("cc", "01", "more", None),
            ("00", "01", "-more", None),
            ("ff", "01", "", None),
            ("0A", "01", "", None),
            ("00", "0G", "", None),
        ] {
            let given = format!("{version}-{TRACE}-{PARENT}-{flags}{after}");
            let fields = sent(Tracing::Continue, &given, "a=1");
            let got = fields.get(&TRACEPARENT).map(|value| value.to_str().unwrap());
            assert_eq!(got.is_some(), expected.is_some(), "{given}");
            assert_eq!(fields.contains_key(&TRACESTATE), got.is_some(), "{given}");
            let (Some(got), Some(flags)) = (got, expected) else { continue };
            assert!(got.starts_with(&format!("00-{TRACE}-")), "{got}");
            assert!(got.ends_with(flags) && !got.contains(PARENT), "{got}");
        }
        for (trace, parent) in [
            ("00000000000000000000000000000000", PARENT),
            (TRACE, "0000000000000000"),
            ("4BF92F3577B34DA6A3CE929D0E0E4736", PARENT),
            (TRACE, "00f067aa0ba902b"),
        ] {
            let fields = sent(Tracing::Continue, &format!("00-{trace}-{parent}-01"), "a=1");
            assert!(fields.is_empty(), "{trace} {parent}");
        }
    }

    #[test]
    fn traces_begin_only_where_they_shall() {
        assert!(sent(Tracing::Continue, "", "a=1").is_empty());
        assert_eq!(sent(Tracing::Off, "x", "a=1").len(), 2);
        let [one, other] = ["", "x"].map(|parent| sent(Tracing::Start, parent, "a=1"));
        let ids = [&one, &other].map(|fields| {
            assert_eq!(fields.len(), 1);
            let context = parsed(fields[&TRACEPARENT].as_bytes()).unwrap();
            TraceContext { text: context, parent: [0; 16], is_new: true }
        });
        assert_ne!(ids[0].trace_id(), ids[1].trace_id());
        assert_ne!(ids[0].span_id(), ids[1].span_id());
    }
}
