//! Observer of a running proxy: counts every request and writes it to the access log.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{StatusCode, Version};
use net::clock::TokioClock;
use upstream::connection::events::FetchPoint;

use crate::observe::access_log::{Format, Hierarchy, Record};
use crate::observe::event::Event;
use crate::observe::front_kind::FrontKind;
use crate::observe::log_slot::{LogFigures, LogSlot};
use crate::observe::metrics::Metrics;
use crate::observe::observer::{Observer, RequestRecord};
use crate::observe::outcome::{Invalid, Outcome};
use crate::observe::site_slots::SiteSlot;
use crate::observe::span_sink::SpanSink;

/// Observer that updates the metrics and, if configured, writes the access log.
pub struct Recorder {
    /// Returns the kind of front in force.
    front: Box<dyn Fn() -> FrontKind + Send + Sync>,
    clock: TokioClock,
    metrics: Arc<Metrics>,
    log: Arc<LogSlot>,
    spans: Option<SpansOut>,
}

/// Receiver of spans, and the log format that has the texts of requests collected without a log.
struct SpansOut {
    sink: Arc<dyn SpanSink>,
    format: Arc<Format>,
}

impl Recorder {
    /// Creates the recorder of a process, given the kind of front in force. Create one per process,
    /// because it adds the figures of its logs to the metrics.
    pub fn new(
        front: impl Fn() -> FrontKind + Send + Sync + 'static,
        clock: TokioClock,
        metrics: Arc<Metrics>,
        log: Arc<LogSlot>,
    ) -> Recorder {
        metrics.add_source(Box::new(LogFigures(log.clone())));
        Recorder { front: Box::new(front), clock, metrics, log, spans: None }
    }

    /// Reports the spans of sampled traces, too.
    pub fn with_spans(mut self, sink: Option<Arc<dyn SpanSink>>) -> Recorder {
        self.spans = sink.map(|sink| SpansOut { sink, format: Arc::new(Format::Json) });
        self
    }
}

impl Observer for Recorder {
    fn log_format(&self) -> Option<Arc<Format>> {
        let of_spans = || self.spans.as_ref().map(|spans| spans.format.clone());
        self.log.format().or_else(of_spans)
    }

    fn finished(&self, done: &RequestRecord<'_>) {
        let status = done.status.as_u16();
        if done.is_peer {
            self.metrics.question(done.outcome, done.body_bytes);
            return;
        }
        self.metrics.request(done.site, done.outcome, status, done.body_bytes, done.duration);
        let Some(texts) = done.texts else { return };
        // A refused request counts as sent nowhere, even if a connection to the upstream had begun.
        let refused = matches!(done.outcome, Outcome::Denied(_) | Outcome::Invalid(_));
        let hierarchy = match done.upstream.filter(|_| !refused) {
            None => Hierarchy::None,
            Some(origin) => match (self.front)() {
                FrontKind::Forward => Hierarchy::Direct(origin),
                FrontKind::Reverse => Hierarchy::Parent(origin),
            },
        };
        let record = Record {
            ended: self.clock.wall(),
            duration: done.duration,
            client: done.client.ip(),
            method: done.method.as_str(),
            url: texts.url(),
            version: done.version,
            tls: done.tls,
            status,
            bytes_out: texts.head_bytes + done.body_bytes,
            body_out: done.body_bytes,
            referer: texts.referer(),
            user_agent: texts.user_agent(),
            content_type: texts.content_type(),
            outcome: done.outcome,
            aborted: !done.complete,
            hierarchy,
            upstream_addresses: done.upstream_addresses.filter(|_| !refused),
            texts: Some(texts),
        };
        self.log.log(&record);
        let sampled = texts.trace().filter(|trace| trace.is_sampled());
        if let (Some(spans), Some(trace)) = (&self.spans, sampled) {
            spans.sink.finished(&record, trace);
        }
    }

    fn count(&self, event: Event, n: u64) {
        self.metrics.count(event, n);
    }

    fn connection(&self, opened: bool) {
        let event = if opened { Event::ConnectionOpened } else { Event::ConnectionClosed };
        self.metrics.count(event, 1);
    }

    fn fetched(&self, site: SiteSlot, until: FetchPoint, time: Duration) {
        self.metrics.fetched(site, until, time);
    }

    fn refused(&self, client: SocketAddr, status: Option<StatusCode>, _why: &dyn fmt::Display) {
        self.metrics.malformed(status.map(|status| status.as_u16()));
        // Without a status there was no response: the connection just ended.
        let Some(status) = status.filter(|_| self.log.format().is_some()) else { return };
        let why = match status {
            StatusCode::REQUEST_TIMEOUT => Invalid::Timeout,
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Invalid::HeadSize,
            StatusCode::URI_TOO_LONG => Invalid::TargetSize,
            _ => Invalid::Syntax,
        };
        self.log.log(&Record {
            ended: self.clock.wall(),
            duration: Duration::ZERO,
            client: client.ip(),
            method: "",
            url: "",
            version: Version::HTTP_11,
            tls: None,
            status: status.as_u16(),
            bytes_out: 0,
            body_out: 0,
            referer: None,
            user_agent: None,
            content_type: None,
            outcome: Outcome::Invalid(why),
            aborted: false,
            hierarchy: Hierarchy::None,
            upstream_addresses: None,
            texts: None,
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use http::Method;

    use super::*;
    use crate::observe::access_logs::AccessLogs;
    use crate::observe::log_fields::LogFields;
    use crate::observe::outcome::{Denied, Error};

    fn squid_log(path: &Path) -> AccessLogs {
        AccessLogs::open(Some(path), &BTreeMap::new(), &Arc::new(Format::Squid)).unwrap()
    }

    #[test]
    fn requests_are_counted_and_logged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        let log = Arc::new(LogSlot::new(squid_log(&path)));
        let client: SocketAddr = "192.0.2.7:5".parse().unwrap();
        for front in [FrontKind::Forward, FrontKind::Reverse] {
            let (metrics, log) = (Arc::new(Metrics::default()), log.clone());
            let recorder = Recorder::new(move || front, TokioClock::system(), metrics.clone(), log);
            let mut texts = LogFields::default();
            texts.push_url("http://a.example/x?y");
            texts.set_content_type(Some(b"text/html; charset=utf-8"));
            let mut done = RequestRecord {
                client,
                is_peer: false,
                method: &Method::GET,
                version: Version::HTTP_11,
                tls: None,
                status: StatusCode::OK,
                site: SiteSlot::NONE,
                outcome: Outcome::Miss,
                body_bytes: 1000,
                complete: true,
                duration: Duration::from_millis(12),
                upstream: Some("a.example:80"),
                upstream_addresses: Some("192.0.2.1:80"),
                texts: Some(&texts),
            };
            recorder.finished(&done);
            (done.outcome, done.complete) = (Outcome::Error(Error::Upstream), false);
            recorder.finished(&done);
            let outcome = Outcome::Denied(Denied::OwnAddress);
            recorder.finished(&RequestRecord { outcome, status: StatusCode::FORBIDDEN, ..done });
            recorder.connection(true);
            recorder.refused(client, Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE), &"");
            recorder.refused(client, None, &"");
            assert_eq!(metrics.total(Event::ConnectionOpened), 1);
            let text = metrics.scrape(crate::observe::metrics::Format::Text);
            for series in [
                "larder_requests_total{outcome=\"MISS\",status=\"2xx\"} 1\n",
                "larder_requests_total{outcome=\"ERROR\",reason=\"upstream\",status=\"2xx\"} 1\n",
                "larder_requests_malformed_total{status=\"4xx\"} 1\n",
                "larder_requests_malformed_total{status=\"none\"} 1\n",
                "larder_access_log_lines_dropped_total 0\n",
            ] {
                assert!(text.contains(series), "{series}{text}");
            }
        }
        log.close();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
        let expected = |hierarchy: &str| {
            [
                format!(
                    "    12 192.0.2.7 TCP_MISS/200 1000 GET http://a.example/x?y - \
                     {hierarchy}/a.example text/html"
                ),
                format!(
                    "    12 192.0.2.7 TCP_MISS_ABORTED/200 1000 GET http://a.example/x?y - \
                     {hierarchy}/a.example text/html"
                ),
                "    12 192.0.2.7 TCP_DENIED_ABORTED/403 1000 GET http://a.example/x?y - \
                 HIER_NONE/- text/html"
                    .to_owned(),
                "     0 192.0.2.7 NONE_NONE/431 0 NONE error:invalid-request - HIER_NONE/- -"
                    .to_owned(),
            ]
        };
        let all = [expected("HIER_DIRECT"), expected("FIRSTUP_PARENT")].concat();
        assert_eq!(lines, all);
    }
}
