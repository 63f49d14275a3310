//! Connection to the collector.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use ureq::{Agent, Body};

/// Bound on one request to the collector.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a response that are read; a collector says little.
const MAX_RESPONSE: u64 = 64 << 10;

/// Blocking HTTP client that logs when the collector begins and ceases to fail.
pub(crate) struct Collector {
    agent: Agent,
    endpoint: String,
    fails: AtomicBool,
}

impl Collector {
    /// Creates the client of the collector at this URL.
    pub fn new(endpoint: &str) -> Collector {
        let config = Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build();
        let (endpoint, fails) = (endpoint.to_owned(), AtomicBool::new(false));
        Collector { agent: config.new_agent(), endpoint, fails }
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let (head, body) = self.agent.run(request.map(|body| body.to_vec()))?.into_parts();
        let body = bounded(body)?;
        Ok(Response::from_parts(head, Bytes::from(body)))
    }

    /// Logs the result if it differs in kind from the one before.
    fn report(&self, failure: Option<&dyn fmt::Display>) {
        if self.fails.swap(failure.is_some(), Ordering::Relaxed) == failure.is_some() {
            return;
        }
        match failure {
            Some(why) => log::warn!("otlp-endpoint: {}: {why}: spans are lost", self.endpoint),
            None => log::info!("otlp-endpoint: {}: spans are taken again", self.endpoint),
        }
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let response = self.send(request);
        match &response {
            Err(error) => self.report(Some(error)),
            Ok(response) if response.status().is_success() => self.report(None),
            Ok(response) => self.report(Some(&response.status())),
        }
        Ok(response?)
    }
}

fn bounded(mut body: Body) -> Result<Vec<u8>, ureq::Error> {
    body.with_config().limit(MAX_RESPONSE).read_to_vec()
}
