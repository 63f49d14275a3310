//! Settings of origin servers, those of `[upstream]` for all sites and those of a `[[site]]` for
//! itself, translated for the proxy.

use std::path::PathBuf;

use http::header::HeaderValue;
use http::{StatusCode, Uri};
use upstream::servers::group::{Group, GroupOptions, Next};
use upstream::servers::health_check::HealthCheck;
use upstream::settings::endpoint::{At, Endpoint, Http2};
use upstream::settings::tls::{Identity, Tls, TlsOptions};

use crate::config::origin_server::{Place, Server};

/// The settings of a site's servers, before the files that they name are read.
#[derive(Clone, Debug)]
pub struct UpstreamSettings {
    pub http2: Http2,
    /// How servers prove their identity; our own identity is in the next two fields.
    pub tls: TlsOptions,
    /// The client certificate that servers receive.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// How a server is chosen; health checks are in the next fields.
    pub group: GroupOptions,
    /// Path and query of health checks; `None`: no checks.
    pub check_path: Option<String>,
    /// The statuses that mean that a server is healthy.
    pub check_status: Vec<String>,
    pub check: HealthCheck,
}

impl Default for UpstreamSettings {
    fn default() -> UpstreamSettings {
        UpstreamSettings {
            http2: Http2::default(),
            tls: TlsOptions::default(),
            certificate: None,
            key: None,
            group: GroupOptions::default(),
            check_path: None,
            check_status: Vec::new(),
            check: HealthCheck::new(Uri::from_static("/")),
        }
    }
}

/// Maximum number of servers of a site.
const SERVERS_MAX: usize = 64;

pub const NEXT: &[&str] = &[
    "error", "timeout", "http-403", "http-404", "http-429", "http-500", "http-502", "http-503",
    "http-504",
];

pub fn next(words: &[String]) -> Next {
    Next {
        error: words.iter().any(|word| word == "error"),
        timeout: words.iter().any(|word| word == "timeout"),
        statuses: words.iter().filter_map(|word| status_of(word)).collect(),
    }
}

impl UpstreamSettings {
    /// Returns a problem of the settings as a whole: the key and a sentence.
    pub fn problem(&self) -> Option<(&'static str, String)> {
        match (&self.certificate, &self.key) {
            (Some(_), None) => {
                return Some(("tls-key", "expected the key of tls-certificate, got none".into()));
            }
            (None, Some(_)) => {
                let text = "expected the certificate of tls-key, got none".to_owned();
                return Some(("tls-certificate", text));
            }
            _ => {}
        }
        if let Some(path) = &self.check_path
            && check_path(path).is_none()
        {
            let text = format!("expected a path such as /healthz, got {path:?}");
            return Some(("check-path", text));
        }
        let statuses = self.check_status.iter();
        statuses.filter(|text| statuses_of(text).is_none()).map(wrong_status).next()
    }

    pub fn is_unverified(&self) -> bool {
        self.tls.unverified
    }

    /// Returns the TLS settings, without reading files.
    pub fn tls(&self) -> Tls {
        let pair = self.certificate.clone().zip(self.key.clone());
        let identity = pair.map(|(certificate, key)| Identity { certificate, key });
        Tls::new(TlsOptions { identity, ..self.tls.clone() }, self.http2)
    }

    /// Returns the servers of a site. `host`: the `Host` of health checks, if it is not the
    /// servers' own name.
    ///
    /// # Errors
    ///
    /// A sentence, if a file that TLS needs cannot be used.
    fn group(&self, name: &str, upstreams: &[String], host: Option<&str>) -> Result<Group, String> {
        let tls = self.tls();
        let server = |text: &String| {
            let Server { place, weight, backup, max_conns } = Server::parse(text)?;
            let (at, secured) = match place {
                Place::Tcp { host, port, tls } => (At::Tcp(host, port), tls),
                Place::Unix(path) => (At::Unix(path), false),
            };
            let tls = secured.then(|| tls.clone());
            if let Some(tls) = &tls {
                tls.check()?;
            }
            let mut server =
                upstream::servers::group::Server::new(Endpoint { at, tls, http2: self.http2 });
            (server.weight, server.backup, server.max_requests) = (weight, backup, max_conns);
            Ok(server)
        };
        let servers: Result<Vec<_>, String> = upstreams.iter().map(server).collect();
        Ok(Group::new(name, servers?, self.options(host)))
    }

    fn options(&self, host: Option<&str>) -> GroupOptions {
        let statuses = self.check_status.iter().filter_map(|text| statuses_of(text));
        let check = self.check_path.as_deref().and_then(check_path).map(|path| HealthCheck {
            path,
            host: host.and_then(|host| HeaderValue::try_from(host).ok()),
            statuses: statuses.collect(),
            ..self.check.clone()
        });
        GroupOptions { check, ..self.group.clone() }
    }
}

/// Parses path and query of a health check.
fn check_path(text: &str) -> Option<Uri> {
    let uri = text.parse::<Uri>().ok().filter(|_| text.starts_with('/'))?;
    uri.authority().is_none().then_some(uri)
}

/// Parses a status such as `http-502`.
fn status_of(word: &str) -> Option<StatusCode> {
    word.strip_prefix("http-")?.parse().ok()
}

/// Parses statuses such as `200`, `200-299` or `2xx`. Returns the first and the last, both
/// included.
fn statuses_of(text: &str) -> Option<(u16, u16)> {
    let status = |text: &str| {
        let digits = text.len() == 3 && text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<u16>().ok().filter(|n| digits && (100..=599).contains(n))
    };
    if let Some(class) = text.strip_suffix("xx") {
        let class = class.parse::<u16>().ok().filter(|n| (1..=5).contains(n))?;
        return Some((class * 100, class * 100 + 99));
    }
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    Some((status(from)?, status(to)?)).filter(|(from, to)| from <= to)
}

fn wrong_status(text: &String) -> (&'static str, String) {
    ("check-status", format!("expected a status such as 200, 200-299 or 2xx, got {text:?}"))
}

pub fn group(
    settings: &UpstreamSettings,
    name: &str,
    upstreams: &[String],
    host: Option<&str>,
) -> Result<Group, String> {
    let made = settings.group(name, upstreams, host);
    made.map_err(|why| format!("site {name}: {why}"))
}

/// Returns the problem of a list of a site's servers, if there is one.
pub fn wrong_servers(upstreams: &[String]) -> Option<String> {
    let twice = |at: &usize| upstreams[..*at].contains(&upstreams[*at]);
    let is_backup = |text: &String| Server::parse(text).is_ok_and(|server| server.backup);
    match upstreams.len() {
        0 => Some("expected at least one origin server".to_owned()),
        n if n > SERVERS_MAX => {
            Some(format!("expected at most {SERVERS_MAX} origin servers, got {n}"))
        }
        n => match (0..n).find(twice) {
            Some(at) => Some(format!("{:?} is given twice", upstreams[at])),
            None if upstreams.iter().all(is_backup) => {
                Some("expected at least one origin server that is no backup".to_owned())
            }
            None => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses() {
        assert_eq!(statuses_of("200"), Some((200, 200)));
        assert_eq!(statuses_of("200-299"), Some((200, 299)));
        assert_eq!(statuses_of("4xx"), Some((400, 499)));
        for text in ["", "xx", "6xx", "20", "2000", "299-200", "99", "2x", "-200", "+20"] {
            assert_eq!(statuses_of(text), None, "{text}");
        }
    }

    #[test]
    fn lists_of_servers() {
        let wrong = |texts: &[&str]| {
            wrong_servers(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(wrong(&["http://a", "http://b backup"]), None);
        for texts in [&[][..], &["http://a", "http://a"], &["http://a backup"], &["http://a"; 65]] {
            assert!(wrong(texts).is_some(), "{texts:?}");
        }
    }
}
