//! Transaction of one request: opened when its head has been read, closed when its response body is
//! dropped, then reported to the [`Observer`](crate::observe::observer::Observer).

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use crate::message::scheme::Scheme;
use http::header::HeaderValue;
use http::{HeaderMap, HeaderName, Method, StatusCode, Version, header};
use http1::RequestHead;
use net::random::random;
use semantics::{Fields, Seconds, UsualName, value};
use upstream::send::attempts::Attempts;

use crate::client::handle::Client;
use crate::client::pool::Pooled;
use crate::object::store_lease::Leases;
use crate::observe::access_log::Format;
use crate::observe::log_fields::LogFields;
use crate::observe::observer::RequestRecord;
use crate::observe::outcome::{Error, Outcome};
use crate::observe::site_slots::SiteSlot;
use crate::request::context::RequestContext;
use crate::request::request_values::{RequestValues, Requester};
use crate::request::upstream_request::UpstreamRequest;
use crate::response::failure_text;
use crate::rules::request_rules::Rule;
use crate::services::Services;

const HOST: UsualName = UsualName::known("host");
const REFERER: UsualName = UsualName::known("referer");
const USER_AGENT: UsualName = UsualName::known("user-agent");

/// Record of a request that is being answered.
pub(crate) struct Transaction {
    services: Rc<Services>,
    client: Rc<Client>,
    method: Method,
    version: Version,
    site: SiteSlot,
    status: StatusCode,
    outcome: Outcome,
    body_bytes: u64,
    complete: bool,
    waits_for_client: bool,
    began: Instant,
    upstream: Option<String>,
    trail: Option<Arc<Attempts>>,
    texts: Option<Pooled<LogFields>>,
}

impl Transaction {
    /// Opens the transaction of a request, which occupies the connection of `client` from now on.
    /// `scheme` is the scheme of its URL if the URL names none. If the request is logged, `logged`
    /// is the format of the log, and whom the request comes from.
    pub fn open(
        services: &Rc<Services>,
        client: &Rc<Client>,
        head: &RequestHead,
        scheme: Scheme,
        logged: Option<(Arc<Format>, Requester<'_>)>,
    ) -> Transaction {
        let texts = logged.map(|(format, from)| {
            let mut texts = services.log_fields.take();
            texts.clear();
            push_url(head, scheme, &mut texts);
            let line = |name| head.fields.lines_of(name).next();
            texts.set_client(line(REFERER), line(USER_AGENT));
            texts.set_request_id(from.id.map(HeaderValue::as_bytes));
            texts.set_trace(from.trace);
            if let Format::Own(template) = &*format {
                let values = RequestValues::before_routing(from, head, scheme);
                texts.set_variables(template, &values);
            }
            texts.format = Some(format);
            texts
        });
        Transaction::begin(services, client, (head.method.clone(), head.version), texts)
    }

    fn begin(
        services: &Rc<Services>,
        client: &Rc<Client>,
        (method, version): (Method, Version),
        texts: Option<Pooled<LogFields>>,
    ) -> Transaction {
        let began = services.clock.instant();
        client.state.request_began(began);
        Transaction {
            services: services.clone(),
            client: client.clone(),
            method,
            version,
            site: SiteSlot::NONE,
            status: StatusCode::OK,
            outcome: Outcome::Miss,
            body_bytes: 0,
            complete: false,
            waits_for_client: false,
            began,
            upstream: None,
            trail: None,
            texts,
        }
    }

    /// Records the site of the request and, if it is logged, the rule, which may exempt it from the
    /// log.
    pub fn note_request(&mut self, context: &RequestContext) {
        self.site = context.site().slot();
        let Some(texts) = &mut self.texts else { return };
        let percent = context.rule.as_ref().map_or(100, |rule| rule.log_percent);
        if percent < 100 && random() % 100 >= percent {
            self.texts = None;
            return;
        }
        let rule = context.rule.as_deref().and_then(Rule::shown_name);
        texts.set_place(context.site().name(), rule);
        if let Some(Format::Own(template)) = texts.format.clone().as_deref() {
            texts.set_routed_variables(template, &context.values());
        }
    }

    /// Notes status, outcome and fields of the response head.
    pub fn note_answer(&mut self, status: StatusCode, outcome: Outcome, headers: &HeaderMap) {
        self.status = status;
        self.outcome = outcome;
        if let Some(texts) = &mut self.texts {
            note_fields(texts, |name| headers.get(name).map(HeaderValue::as_bytes));
            texts.head_bytes = head_bytes(status, headers);
            texts.age = headers.get(header::AGE).and_then(|age| age.to_str().ok()?.parse().ok());
            texts.note_answered(|| self.services.clock.instant());
        }
    }

    /// Records the head of a response whose fields are sent in their stored form.
    pub fn note_stored<'a>(
        &mut self,
        status: StatusCode,
        outcome: Outcome,
        age: Option<Seconds>,
        field: impl Fn(&HeaderName) -> Option<&'a [u8]>,
    ) {
        self.status = status;
        self.outcome = outcome;
        if let Some(texts) = &mut self.texts {
            note_fields(texts, field);
            texts.age = age.map(|age| age.get().into());
            texts.note_answered(|| self.services.clock.instant());
        }
    }

    /// Records that the response begins now, and the size of its head in bytes.
    pub fn note_head(&mut self, bytes: impl FnOnce() -> u64) {
        if let Some(texts) = &mut self.texts {
            texts.head_bytes = bytes();
            let now = self.services.clock.instant();
            texts.first_byte = Some(now.saturating_duration_since(self.began));
        }
    }

    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Marks the response as the last one of its connection. No effect in HTTP/2, where each
    /// request has bounds of its own.
    pub fn mark_last(&self) {
        if !self.client.state.is_multiplexed() {
            self.client.state.end_after_answer();
        }
    }

    /// Returns the store leases of this worker.
    pub fn leases(&self) -> &Rc<Leases> {
        &self.services.leases
    }

    /// Returns the proxy's name in `Cache-Status`.
    pub fn pseudonym(&self) -> &str {
        self.services.shared.pseudonym.as_str()
    }

    /// Returns the client text about a server that gave no response.
    pub fn failure_text(&self, why: Error, cause: &str) -> String {
        failure_text::told(&self.services.options().front, why, cause)
    }

    /// Records the upstream that the request is sent to, and the trail of its servers.
    pub fn note_upstream(&mut self, request: &UpstreamRequest) {
        self.note_server(&request.to, request.trail.as_ref());
    }

    /// Records the server that is asked, and the trail of its addresses.
    pub fn note_server(&mut self, server: &impl fmt::Display, trail: Option<&Arc<Attempts>>) {
        if let Some(texts) = &mut self.texts {
            texts.note_asked(self.services.clock.instant());
            self.upstream = Some(server.to_string());
            self.trail = trail.cloned();
        }
    }

    pub fn count_sent(&mut self, bytes: u64) {
        self.body_bytes += bytes;
    }

    /// Records whether the body's next bytes wait for the client to take them (`true`) or are still
    /// awaited. Reported only on connections whose requests overlap.
    pub fn note_waiting(&mut self, waits: bool) {
        if self.client.state.is_multiplexed() && self.waits_for_client != waits {
            self.waits_for_client = waits;
            self.client.state.body_waits(waits);
        }
    }

    /// Records that the body's length is unknown. For an HTTP/1.0 client it ends with the
    /// connection.
    pub fn note_unknown_length(&self) {
        self.client.state.set_open_ended(self.version == Version::HTTP_10);
    }

    pub fn note_whole(&mut self) {
        self.client.state.set_open_ended(false);
        self.complete = true;
    }

    /// Notes that the body was cut short.
    pub fn note_broken(&mut self, why: Error) {
        self.outcome = Outcome::Error(why);
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.note_waiting(false);
        let now = self.services.clock.instant();
        self.client.state.request_ended(now);
        self.client.state.report_moved(&*self.services.observer);
        if let (Some(texts), Some(trail)) = (&mut self.texts, &self.trail) {
            texts.upstream_status = trail.status().map(|status| status.as_u16());
        }
        let (server, addresses) = self.trail.take().and_then(|trail| trail.summary()).unzip();
        self.services.observer.finished(&RequestRecord {
            client: self.client.address,
            is_peer: self.client.link.is_peer,
            method: &self.method,
            version: self.version,
            tls: self.client.link.tls.as_ref(),
            status: self.status,
            site: self.site,
            outcome: self.outcome,
            body_bytes: self.body_bytes,
            complete: self.complete,
            duration: now.saturating_duration_since(self.began),
            upstream: server.as_deref().or(self.upstream.as_deref()),
            upstream_addresses: addresses.as_deref(),
            texts: self.texts.as_deref(),
        });
    }
}

/// Notes the fields of a response that are logged.
fn note_fields<'a>(texts: &mut LogFields, field: impl Fn(&HeaderName) -> Option<&'a [u8]>) {
    texts.set_content_type(field(&header::CONTENT_TYPE));
    if let Some(Format::Own(template)) = texts.format.clone().as_deref() {
        texts.set_answer_variables(template, field);
    }
}

/// Returns the size in bytes of a head as written in HTTP/1.1.
pub(crate) fn head_bytes(status: StatusCode, headers: &HeaderMap) -> u64 {
    let reason = status.canonical_reason().unwrap_or_default();
    let fields = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    ("HTTP/1.1 200 \r\n\r\n".len() + reason.len() + fields.sum::<usize>()) as u64
}

/// Writes the URL of a request, without user information, to the log texts.
fn push_url(head: &RequestHead, scheme: Scheme, texts: &mut LogFields) {
    let path = head.target.path_and_query();
    let authority = match head.target.authority() {
        Some(authority) => authority.rsplit_once('@').map_or(authority, |(_, host)| host),
        None => match head.fields.lines_of(HOST).next().and_then(value::text) {
            Some(host) => host,
            None => return texts.push_url(path),
        },
    };
    if head.method == Method::CONNECT {
        return texts.push_url(authority);
    }
    let scheme = head.target.scheme().unwrap_or(scheme.name());
    [scheme, "://", authority, path].iter().for_each(|part| texts.push_url(part));
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {

    use super::*;

    #[test]
    fn heads_are_measured_as_written() {
        let mut headers = HeaderMap::new();
        headers.insert(header::ETAG, HeaderValue::from_static("\"x\""));
        headers.append(header::VIA, HeaderValue::from_static("1.1 a"));
        headers.append(header::VIA, HeaderValue::from_static("1.1 larder"));
        let written =
            "HTTP/1.1 404 Not Found\r\netag: \"x\"\r\nvia: 1.1 a\r\nvia: 1.1 larder\r\n\r\n";
        assert_eq!(head_bytes(StatusCode::NOT_FOUND, &headers), written.len() as u64);
    }

    #[test]
    fn user_information_is_not_shown() {
        let url = |method: &str, target: &str| {
            let mut head = RequestHead::default();
            let text = format!("{method} {target} HTTP/1.1\r\nHost: h:1\r\n\r\n");
            head.read(text.as_bytes(), text.len()).unwrap().unwrap();
            let mut texts = LogFields::default();
            push_url(&head, Scheme::Https, &mut texts);
            texts.url().to_owned()
        };
        assert_eq!(url("GET", "http://me:secret@a.example/x"), "http://a.example/x");
        assert_eq!(url("GET", "/x?y"), "https://h:1/x?y");
        assert_eq!(url("CONNECT", "a.example:443"), "a.example:443");
    }
}
