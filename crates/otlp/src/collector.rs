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
/// Bytes of a response that are read; those of collectors are short.
const MAX_RESPONSE: u64 = 64 << 10;

/// Blocking HTTP client that logs the first failure of the collector and its recovery.
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
        // Logs must not have the password of a URL.
        let endpoint = without_user(endpoint);
        let fails = AtomicBool::new(false);
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
            Some(why) => {
                log::warn!("otlp-endpoint: {}: {why}; spans are lost until it works", self.endpoint)
            }
            None => log::info!("otlp-endpoint: {}: exporting spans again", self.endpoint),
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

/// Returns a URL without user and password.
fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority = rest.split('/').next().unwrap_or_default();
    let user = authority.rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{}", &rest[user..])
}

fn bounded(mut body: Body) -> Result<Vec<u8>, ureq::Error> {
    body.with_config().limit(MAX_RESPONSE).read_to_vec()
}
