//! A request as a span: names and attributes of OpenTelemetry's semantic conventions for HTTP
//! servers.

use std::borrow::Cow;
use std::time::Duration;

use http::{Uri, Version};
use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use proxy::observe::access_log::Record;
use proxy::{LogFields, TraceContext};

/// Methods that are names of spans. Clients may send any other, and names should be few.
const METHODS: [&str; 9] =
    ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"];

/// Returns the span of a request.
pub(crate) fn span(
    record: &Record<'_>,
    trace: &TraceContext,
    scope: &InstrumentationScope,
) -> SpanData {
    let parent_span_id = trace.parent_id().map_or(SpanId::INVALID, span_id);
    SpanData {
        span_context: SpanContext::new(
            trace_id(trace.trace_id()),
            span_id(trace.span_id()),
            TraceFlags::SAMPLED,
            false,
            TraceState::NONE,
        ),
        parent_span_id,
        parent_span_is_remote: parent_span_id != SpanId::INVALID,
        span_kind: SpanKind::Server,
        name: name(record.method),
        start_time: record.ended.checked_sub(record.duration).unwrap_or(record.ended),
        end_time: record.ended,
        attributes: attributes(record),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: status(record),
        instrumentation_scope: scope.clone(),
    }
}

fn name(method: &str) -> Cow<'static, str> {
    Cow::Borrowed(METHODS.into_iter().find(|known| *known == method).unwrap_or("HTTP"))
}

/// Returns an error for failures of servers and of this proxy; those of clients are none.
fn status(record: &Record<'_>) -> Status {
    match record.status {
        500.. => Status::error(record.status.to_string()),
        _ => Status::Unset,
    }
}

fn attributes(record: &Record<'_>) -> Vec<KeyValue> {
    let mut list = vec![
        KeyValue::new("http.request.method", record.method.to_owned()),
        KeyValue::new("http.response.status_code", i64::from(record.status)),
        KeyValue::new("network.protocol.version", version(record.version)),
        KeyValue::new("client.address", record.client.to_string()),
        KeyValue::new("larder.outcome", record.outcome.name()),
        KeyValue::new("larder.body_bytes", i64::try_from(record.body_out).unwrap_or(i64::MAX)),
    ];
    if record.status >= 500 {
        list.push(KeyValue::new("error.type", record.status.to_string()));
    }
    push_url(record.url, &mut list);
    let mut push = |name: &'static str, value: Option<Value>| {
        list.extend(value.map(|value| KeyValue::new(name, value)));
    };
    push("user_agent.original", record.user_agent.map(text));
    push("larder.reason", record.outcome.reason().map(Value::from));
    push("larder.servers", record.upstream_addresses.map(|servers| servers.to_owned().into()));
    let texts = record.texts;
    push("larder.site", texts.and_then(LogFields::site).map(text));
    push("larder.rule", texts.and_then(LogFields::rule).map(text));
    push("larder.request_id", texts.and_then(LogFields::request_id).map(text));
    push("larder.first_byte_ms", texts.and_then(|texts| texts.first_byte).map(millis));
    push("larder.server_first_byte_ms", texts.and_then(|texts| texts.upstream_time).map(millis));
    list
}

/// Appends the parts of a URL; of `CONNECT` it is host and port.
fn push_url(url: &str, list: &mut Vec<KeyValue>) {
    let Ok(url) = url.parse::<Uri>() else { return };
    let mut push = |name, value: Option<&str>| {
        list.extend(value.map(|value| KeyValue::new(name, value.to_owned())));
    };
    push("url.scheme", url.scheme_str());
    push("server.address", url.host());
    push("url.path", url.path_and_query().map(|_| url.path()));
    push("url.query", url.query());
    list.extend(url.port_u16().map(|port| KeyValue::new("server.port", i64::from(port))));
}

fn text(bytes: &[u8]) -> Value {
    String::from_utf8_lossy(bytes).into_owned().into()
}

fn millis(time: Duration) -> Value {
    (time.as_secs_f64() * 1e3).into()
}

fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        Version::HTTP_3 => "3",
        _ => "1.1",
    }
}

fn trace_id(hex: &[u8]) -> TraceId {
    str::from_utf8(hex).ok().and_then(|hex| TraceId::from_hex(hex).ok()).unwrap_or(TraceId::INVALID)
}

fn span_id(hex: &[u8]) -> SpanId {
    str::from_utf8(hex).ok().and_then(|hex| SpanId::from_hex(hex).ok()).unwrap_or(SpanId::INVALID)
}
