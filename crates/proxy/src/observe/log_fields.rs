//! Request texts for the access log, in buffers that the next request reuses.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderName;

use crate::message::template::{Template, Values, Variable};
use crate::message::trace_context::TraceContext;
use crate::observe::access_log::Format;

/// Request texts for the access log. The URL has no user information.
#[derive(Clone, Debug, Default)]
pub struct LogFields {
    /// Format of the log when the request began, to which the variables belong.
    pub format: Option<Arc<Format>>,
    url: String,
    values: Vec<u8>,
    referer: Option<Range<usize>>,
    user_agent: Option<Range<usize>>,
    content_type: Option<Range<usize>>,
    request_id: Option<Range<usize>>,
    trace: Option<TraceContext>,
    site: Option<Range<usize>>,
    rule: Option<Range<usize>>,
    /// Values of the variables in the log's own format, in its order.
    variables: Vec<Range<usize>>,
    /// Time of the first question to a server.
    asked: Option<Instant>,
    /// Time from that question to the head of the response.
    pub upstream_time: Option<Duration>,
    /// Time from the request to the first byte of the response.
    pub first_byte: Option<Duration>,
    /// Status of the last response of a server.
    pub upstream_status: Option<u16>,
    /// Age of the response in seconds.
    pub age: Option<u64>,
    /// Bytes of the response head, excluding date and framing.
    pub head_bytes: u64,
}

impl LogFields {
    /// Removes all texts but keeps their buffers. A value is not moved, which would cost more.
    pub fn clear(&mut self) {
        let LogFields { format, url, values, variables, trace, asked, .. } = self;
        url.clear();
        values.clear();
        variables.clear();
        (*format, *trace, *asked) = (None, None, None);
        let LogFields { referer, user_agent, content_type, request_id, site, rule, .. } = self;
        for place in [referer, user_agent, content_type, request_id, site, rule] {
            *place = None;
        }
        let LogFields { upstream_time, upstream_status, first_byte, age, head_bytes, .. } = self;
        (*upstream_time, *upstream_status, *first_byte) = (None, None, None);
        (*age, *head_bytes) = (None, 0);
    }

    /// Returns the number of bytes of memory allocated for the texts.
    pub fn capacity(&self) -> usize {
        let variables = self.variables.capacity() * size_of::<Range<usize>>();
        self.url.capacity() + self.values.capacity() + variables
    }

    /// Appends a part of the URL.
    pub fn push_url(&mut self, part: &str) {
        self.url.push_str(part);
    }

    /// Sets the `Referer` and `User-Agent` of the request.
    pub fn set_client(&mut self, referer: Option<&[u8]>, user_agent: Option<&[u8]>) {
        self.referer = referer.map(|value| self.push(value));
        self.user_agent = user_agent.map(|value| self.push(value));
    }

    /// Sets the `Content-Type` of the response.
    pub fn set_content_type(&mut self, value: Option<&[u8]>) {
        self.content_type = value.map(|value| self.push(value));
    }

    /// Sets the id of the request.
    pub fn set_request_id(&mut self, id: Option<&[u8]>) {
        self.request_id = id.map(|id| self.push(id));
    }

    /// Sets the trace and the span of the request.
    pub(crate) fn set_trace(&mut self, context: Option<&TraceContext>) {
        self.trace = context.copied();
    }

    /// Sets the site and the rule of the request.
    pub fn set_place(&mut self, site: Option<&str>, rule: Option<&str>) {
        self.site = site.map(|name| self.push(name.as_bytes()));
        self.rule = rule.map(|name| self.push(name.as_bytes()));
    }

    /// Sets the values of the variables in the log's own format.
    pub(crate) fn set_variables(&mut self, template: &Template, values: &impl Values) {
        for variable in template.variables() {
            let place = self.push_variable(variable, values);
            self.variables.push(place);
        }
    }

    /// Sets the values of those variables that are known only with the site and the rule.
    pub(crate) fn set_routed_variables(&mut self, template: &Template, values: &impl Values) {
        for (number, variable) in template.variables().enumerate() {
            if matches!(variable, Variable::Site | Variable::Rule | Variable::Capture(_)) {
                let place = self.push_variable(variable, values);
                if let Some(known) = self.variables.get_mut(number) {
                    *known = place;
                }
            }
        }
    }

    /// Sets the values of those variables that are fields of the response.
    pub(crate) fn set_answer_variables<'a>(
        &mut self,
        template: &Template,
        field: impl Fn(&HeaderName) -> Option<&'a [u8]>,
    ) {
        for (number, variable) in template.variables().enumerate() {
            let Variable::ResponseHeader(name) = variable else { continue };
            let place = field(name).map(|value| self.push(value));
            if let (Some(place), Some(known)) = (place, self.variables.get_mut(number)) {
                *known = place;
            }
        }
    }

    fn push_variable(&mut self, variable: &Variable, values: &impl Values) -> Range<usize> {
        let begin = self.values.len();
        values.write(variable, &mut self.values);
        begin..self.values.len()
    }

    /// Records that a server is asked, unless one was before.
    pub fn note_asked(&mut self, now: Instant) {
        self.asked.get_or_insert(now);
    }

    /// Records that the head of the response is known.
    pub fn note_answered(&mut self, now: impl FnOnce() -> Instant) {
        if let (Some(asked), None) = (self.asked, self.upstream_time) {
            self.upstream_time = Some(now().saturating_duration_since(asked));
        }
    }

    fn push(&mut self, value: &[u8]) -> Range<usize> {
        let begin = self.values.len();
        self.values.extend_from_slice(value);
        begin..self.values.len()
    }

    /// Returns the whole URL; for `CONNECT`, host and port.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the id of the request.
    pub fn request_id(&self) -> Option<&[u8]> {
        self.request_id.clone().map(|place| &self.values[place])
    }

    /// Returns the trace of the request.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.trace.as_ref()
    }

    /// Returns the site of the request.
    pub fn site(&self) -> Option<&[u8]> {
        self.site.clone().map(|place| &self.values[place])
    }

    /// Returns the name of the rule that applies to the request.
    pub fn rule(&self) -> Option<&[u8]> {
        self.rule.clone().map(|place| &self.values[place])
    }

    /// Returns the value of the variable of this number in the log's own format, if it has one.
    pub fn variable(&self, number: usize) -> Option<&[u8]> {
        let value = &self.values[self.variables.get(number)?.clone()];
        Some(value).filter(|value| !value.is_empty())
    }

    /// Returns the `Referer` of the request.
    pub fn referer(&self) -> Option<&[u8]> {
        self.referer.clone().map(|place| &self.values[place])
    }

    /// Returns the `User-Agent` of the request.
    pub fn user_agent(&self) -> Option<&[u8]> {
        self.user_agent.clone().map(|place| &self.values[place])
    }

    /// Returns the `Content-Type` of the response.
    pub fn content_type(&self) -> Option<&[u8]> {
        self.content_type.clone().map(|place| &self.values[place])
    }
}
