//! Spans as a collector gets them.
#![allow(clippy::unwrap_used)]

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, Version};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use otlp::SpanExport;
use prost::Message;
use proxy::message::trace_context::Tracing;
use proxy::observe::access_log::{Hierarchy, Record};
use proxy::observe::outcome::Outcome;
use proxy::{SpanSink, TraceContext};
use testkit::origin::{Origin, ok};

fn record(status: u16, method: &'static str, url: &'static str) -> Record<'static> {
    Record {
        ended: SystemTime::UNIX_EPOCH + Duration::from_millis(5_000),
        duration: Duration::from_millis(20),
        client: IpAddr::V4(Ipv4Addr::LOCALHOST),
        method,
        url,
        version: Version::HTTP_2,
        tls: None,
        status,
        bytes_out: 100,
        body_out: 30,
        referer: None,
        user_agent: Some(b"agent \xff"),
        content_type: None,
        outcome: Outcome::Miss,
        aborted: false,
        hierarchy: Hierarchy::None,
        upstream_addresses: Some("192.0.2.1:80"),
        texts: None,
    }
}

fn trace(fields: &HeaderMap) -> TraceContext {
    *Tracing::Start.context(fields).unwrap()
}

/// Sends the spans and returns them as the collector decodes them.
fn exported(records: &[(Record<'_>, TraceContext)]) -> Vec<Span> {
    let collector = Origin::always(ok("", ""));
    let export = SpanExport::start(&collector.url("/v1/traces"), "1.2").unwrap();
    records.iter().for_each(|(record, trace)| export.finished(record, trace));
    export.close();
    let requests = collector.requests_for("/v1/traces");
    let decoded = |body: &[u8]| ExportTraceServiceRequest::decode(body).unwrap();
    let all = requests.iter().flat_map(|request| {
        assert_eq!(request.field("content-type").unwrap(), "application/x-protobuf");
        decoded(&request.body).resource_spans
    });
    let scopes = all.flat_map(|of_resource| {
        let attributes = of_resource.resource.unwrap().attributes;
        let service = attributes.iter().find(|pair| pair.key == "service.name").unwrap();
        let name = service.value.clone().unwrap().value.unwrap();
        assert_eq!(name, Value::StringValue("larder".to_owned()));
        of_resource.scope_spans
    });
    scopes.flat_map(|of_scope| of_scope.spans).collect()
}

/// Returns the attribute as text; empty if there is none.
fn attribute(span: &Span, name: &str) -> String {
    let found = span.attributes.iter().find(|pair| pair.key == name);
    match found.and_then(|pair| pair.value.clone()?.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => other.map(|value| format!("{value:?}")).unwrap_or_default(),
    }
}

#[test]
fn requests_become_spans_of_the_clients_trace() {
    let mut fields = HeaderMap::new();
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    fields.insert("traceparent", parent.parse().unwrap());
    let continued = trace(&fields);
    let begun = trace(&HeaderMap::new());
    let spans = exported(&[
        (record(200, "GET", "https://a.example:8443/x%20y?q=1"), continued),
        (record(502, "BREW", "a.example:443"), begun),
    ]);
    let [first, second] = &spans[..] else { panic!("{spans:?}") };

    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(&first.trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(hex(&first.parent_span_id), "00f067aa0ba902b7");
    assert_eq!(hex(&first.span_id).as_bytes(), continued.span_id());
    assert_eq!((first.name.as_str(), first.kind), ("GET", 2));
    let times = (first.start_time_unix_nano, first.end_time_unix_nano);
    assert_eq!(times, (4_980_000_000, 5_000_000_000));
    for (name, expected) in [
        ("http.request.method", "GET"),
        ("http.response.status_code", "200"),
        ("network.protocol.version", "2"),
        ("client.address", "127.0.0.1"),
        ("url.scheme", "https"),
        ("server.address", "a.example"),
        ("server.port", "8443"),
        ("url.path", "/x%20y"),
        ("url.query", "q=1"),
        ("user_agent.original", "agent \u{fffd}"),
        ("larder.outcome", "MISS"),
        ("larder.servers", "192.0.2.1:80"),
        ("error.type", ""),
    ] {
        assert_eq!(attribute(first, name), expected, "{name}");
    }

    assert!(second.parent_span_id.is_empty() && second.name == "HTTP", "{second:?}");
    assert_eq!(second.status.as_ref().unwrap().code, 2);
    for (name, expected) in [
        ("http.request.method", "BREW"),
        ("server.address", "a.example"),
        ("url.path", ""),
        ("error.type", "502"),
    ] {
        assert_eq!(attribute(second, name), expected, "{name}");
    }
}

#[test]
fn a_url_without_host_is_refused() {
    assert!(SpanExport::start("http://", "1.2").is_err());
}
