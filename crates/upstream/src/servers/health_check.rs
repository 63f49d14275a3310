//! Options of health checks.

use std::time::Duration;

use http::header::HeaderValue;
use http::{StatusCode, Uri};

/// Health check of a site's servers.
#[derive(Clone, Debug)]
pub struct HealthCheck {
    /// Path and query of the GET request.
    pub path: Uri,
    /// `Host` field to send; `None`: the server's own name.
    pub host: Option<HeaderValue>,
    /// Time between checks. Default 5 s.
    pub interval: Duration,
    /// Time to connect, and time to wait for the response head. Default 2 s.
    pub timeout: Duration,
    /// Ranges of statuses, both ends included, by which a server is healthy. Default 200 to 399.
    pub statuses: Vec<(u16, u16)>,
    /// Successful checks in a row that bring a server back into use. Default 2.
    pub rise: u32,
    /// Failed checks in a row that take a server out of use. Default 3.
    pub fall: u32,
}

impl HealthCheck {
    /// Creates a check of `path` with the defaults.
    pub fn new(path: Uri) -> HealthCheck {
        HealthCheck {
            path,
            host: None,
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(2),
            statuses: vec![(200, 399)],
            rise: 2,
            fall: 3,
        }
    }

    pub(crate) fn is_healthy(&self, status: StatusCode) -> bool {
        self.statuses.iter().any(|&(from, to)| (from..=to).contains(&status.as_u16()))
    }
}
