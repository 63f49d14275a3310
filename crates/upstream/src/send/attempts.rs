//! Servers that a request was sent to, in order, for the access log.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::StatusCode;

use crate::settings::endpoint::{At, Endpoint};

/// Maximum number of attempts kept. A request for a large object that is fetched in parts is sent
/// many times.
const STEPS_MAX: usize = 16;

/// Servers that one request was sent to. Filled while the request runs, read at its end.
#[derive(Debug, Default)]
pub struct Attempts(Mutex<Vec<Step>>);

#[derive(Debug)]
struct Step {
    endpoint: Arc<Endpoint>,
    /// Address of the connection; `None`: there was no connection, or it is a Unix socket.
    address: Option<IpAddr>,
    /// The status of the response; `None` if there was none.
    status: Option<StatusCode>,
}

impl Attempts {
    /// Records an attempt, including a failed connect. Consecutive attempts at the same server and
    /// address are recorded once.
    pub fn note(&self, endpoint: &Arc<Endpoint>, address: Option<IpAddr>) {
        let mut steps = self.lock();
        if steps.last().is_some_and(|last| last.endpoint == *endpoint && last.address == address) {
            return;
        }
        if steps.len() == STEPS_MAX {
            steps.remove(0);
        }
        steps.push(Step { endpoint: endpoint.clone(), address, status: None });
    }

    /// Records the status of the response to the last attempt.
    pub fn note_status(&self, status: StatusCode) {
        if let Some(last) = self.lock().last_mut() {
            last.status = Some(status);
        }
    }

    /// Returns the status of the response to the last attempt, if there was one.
    pub fn status(&self) -> Option<StatusCode> {
        self.lock().last()?.status
    }

    /// Records the attempts of `other` as well.
    pub fn append(&self, other: &Attempts) {
        for step in &*other.lock() {
            self.note(&step.endpoint, step.address);
            step.status.into_iter().for_each(|status| self.note_status(status));
        }
    }

    /// Returns whether any attempt had a connection.
    pub fn had_connection(&self) -> bool {
        let is_connected =
            |step: &Step| step.address.is_some() || matches!(step.endpoint.at, At::Unix(_));
        self.lock().iter().any(is_connected)
    }

    /// Returns the last server, named as in the configuration, and the comma-separated addresses of
    /// all attempts in order; `None` if there were none.
    pub fn summary(&self) -> Option<(String, String)> {
        let steps = self.lock();
        let last = steps.last()?.endpoint.to_string();
        let all: Vec<_> = steps.iter().map(Step::to_string).collect();
        Some((last, all.join(", ")))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Step>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Step {
    /// Writes address and port, or the server's name if there was no connection.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.endpoint.at, self.address) {
            (At::Tcp(_, port), Some(ip)) => SocketAddr::new(ip.to_canonical(), *port).fmt(f),
            _ => self.endpoint.fmt(f),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn summary_has_the_last_server_and_all_addresses() {
        let trail = Attempts::default();
        assert_eq!(trail.summary(), None);
        trail.note(&Arc::new(Endpoint::plain("a.example", 81)), None);
        trail.note(&Arc::new(Endpoint::plain("b.example", 82)), Some("192.0.2.1".parse().unwrap()));
        for _ in 0..2 {
            trail.note(&Arc::new(Endpoint::plain("c.example", 83)), Some("::1".parse().unwrap()));
        }
        trail.note_status(StatusCode::NOT_FOUND);
        let longer = Attempts::default();
        longer.append(&trail);
        assert_eq!(longer.status(), Some(StatusCode::NOT_FOUND));
        let (last, all) = trail.summary().unwrap();
        assert_eq!(last, "c.example:83");
        assert_eq!(all, "a.example:81, 192.0.2.1:82, [::1]:83");
        for port in 0..100 {
            trail.note(&Arc::new(Endpoint::plain("d.example", port)), None);
        }
        assert_eq!(trail.summary().unwrap().1.split(", ").count(), STEPS_MAX);
    }
}
