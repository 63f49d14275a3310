//! How origin servers are spoken to: what `[upstream]` says for all and a `[[site]]` for its own,
//! in the terms of the proxy.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::header::HeaderValue;
use http::{StatusCode, Uri};
use proxy::upstream::balance::Balance;
use proxy::upstream::group::{Group, GroupOptions, Next};
use proxy::upstream::health_check::HealthCheck;
use proxy::upstream::origin::{At, Http2, Origin};
use proxy::upstream::tls::{Identity, Tls, TlsOptions};

use crate::config::origin_server::{Place, Server};

/// The keys that `[upstream]` and each `[[site]]` have in common. `None`: as in `[upstream]`, or
/// there the word that stands for nothing.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Manner {
    pub http2: Option<Http2>,
    pub tls_ca: Option<PathBuf>,
    pub tls_certificate: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub tls_name: Option<String>,
    pub tls_verify: Option<bool>,
    pub balance: Option<Balance>,
    pub max_fails: Option<u32>,
    pub fail_timeout: Option<Duration>,
    pub next_upstream: Option<Vec<String>>,
    pub next_upstream_tries: Option<u32>,
    pub queue: Option<u32>,
    pub queue_timeout: Option<Duration>,
    pub check_path: Option<String>,
    pub check_interval: Option<Duration>,
    pub check_timeout: Option<Duration>,
    pub check_status: Option<Vec<String>>,
    pub check_rise: Option<u32>,
    pub check_fall: Option<u32>,
}

/// In a site: the system's authorities in place of a file that `[upstream]` names.
pub const SYSTEM: &str = "system";
/// In a site: none in place of what `[upstream]` names.
pub const NONE: &str = "none";
/// Servers of a site at most.
const SERVERS_MAX: usize = 64;

/// What `next-upstream` may hold.
pub const NEXT: &[&str] =
    &["error", "timeout", "http-429", "http-500", "http-502", "http-503", "http-504"];

impl Manner {
    /// This, and what it leaves open as in `general`.
    pub fn over(&self, general: &Manner) -> Manner {
        /// The site's value, or the general one.
        macro_rules! each {
            ($($field:ident),*) => {
                Manner { $($field: self.$field.clone().or_else(|| general.$field.clone()),)* }
            };
        }
        let mut both = each!(
            http2,
            tls_ca,
            tls_certificate,
            tls_key,
            tls_name,
            tls_verify,
            balance,
            max_fails,
            fail_timeout,
            next_upstream,
            next_upstream_tries,
            queue,
            queue_timeout,
            check_path,
            check_interval,
            check_timeout,
            check_status,
            check_rise,
            check_fall
        );
        both.tls_ca.take_if(|path| path.as_path() == Path::new(SYSTEM));
        both.tls_certificate.take_if(|path| path.as_path() == Path::new(NONE));
        both.tls_key.take_if(|path| path.as_path() == Path::new(NONE));
        both.tls_name.take_if(|name| name == NONE);
        both.check_path.take_if(|path| path == NONE);
        both
    }

    /// What is wrong with it as a whole: the key and a sentence.
    pub fn problem(&self) -> Option<(&'static str, String)> {
        match (&self.tls_certificate, &self.tls_key) {
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
        let statuses = self.check_status.iter().flatten();
        statuses.filter(|text| statuses_of(text).is_none()).map(wrong_status).next()
    }

    /// True when any certificate is believed.
    pub fn is_unverified(&self) -> bool {
        self.tls_verify == Some(false)
    }

    /// Whether HTTP/2 is spoken.
    pub fn http2(&self) -> Http2 {
        self.http2.unwrap_or_default()
    }

    /// The settings of TLS. Nothing is read yet.
    pub fn tls(&self) -> Tls {
        let identity = match (&self.tls_certificate, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                Some(Identity { certificate: certificate.clone(), key: key.clone() })
            }
            _ => None,
        };
        let options = TlsOptions {
            authorities: self.tls_ca.clone(),
            identity,
            name: self.tls_name.clone(),
            unverified: self.is_unverified(),
        };
        Tls::new(options, self.http2())
    }

    /// The servers of a site. `host`: what health checks send as `Host`, when it is not the
    /// servers' own name.
    ///
    /// # Errors
    ///
    /// A sentence: a file that TLS needs cannot be used.
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
                proxy::upstream::group::Server::new(Origin { at, tls, http2: self.http2() });
            (server.weight, server.backup, server.max_requests) = (weight, backup, max_conns);
            Ok(server)
        };
        let servers: Result<Vec<_>, String> = upstreams.iter().map(server).collect();
        Ok(Group::new(name, servers?, self.options(host)))
    }

    fn options(&self, host: Option<&str>) -> GroupOptions {
        let defaults = GroupOptions::default();
        let next = self.next_upstream.as_ref().map(|words| Next {
            error: words.iter().any(|word| word == "error"),
            timeout: words.iter().any(|word| word == "timeout"),
            statuses: words.iter().filter_map(|word| status_of(word)).collect(),
        });
        GroupOptions {
            balance: self.balance.unwrap_or_default(),
            max_fails: self.max_fails.unwrap_or(defaults.max_fails),
            fail_timeout: self.fail_timeout.unwrap_or(defaults.fail_timeout),
            next: next.unwrap_or(defaults.next),
            tries: self.next_upstream_tries.unwrap_or(defaults.tries),
            queue: self.queue.unwrap_or(defaults.queue),
            queue_timeout: self.queue_timeout.unwrap_or(defaults.queue_timeout),
            check: self.check_path.as_deref().and_then(check_path).map(|path| {
                let defaults = HealthCheck::new(path);
                let statuses = self
                    .check_status
                    .as_ref()
                    .map(|all| all.iter().filter_map(|text| statuses_of(text)).collect());
                HealthCheck {
                    host: host.and_then(|host| HeaderValue::try_from(host).ok()),
                    interval: self.check_interval.unwrap_or(defaults.interval),
                    timeout: self.check_timeout.unwrap_or(defaults.timeout),
                    statuses: statuses.unwrap_or(defaults.statuses),
                    rise: self.check_rise.unwrap_or(defaults.rise),
                    fall: self.check_fall.unwrap_or(defaults.fall),
                    path: defaults.path,
                }
            }),
        }
    }
}

/// Path and query of a check.
fn check_path(text: &str) -> Option<Uri> {
    let uri = text.parse::<Uri>().ok().filter(|_| text.starts_with('/'))?;
    uri.authority().is_none().then_some(uri)
}

/// `http-502`.
fn status_of(word: &str) -> Option<StatusCode> {
    word.strip_prefix("http-")?.parse().ok()
}

/// `200`, `200-299` or `2xx`: from one to another, both included.
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

/// The servers of a site, shared by all that ask them.
pub fn group(
    manner: &Manner,
    name: &str,
    upstreams: &[String],
    host: Option<&str>,
) -> Result<Arc<Group>, String> {
    let made = manner.group(name, upstreams, host);
    made.map(Arc::new).map_err(|why| format!("site {name}: {why}"))
}

/// What is wrong with the list of a site's servers.
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
    fn a_site_says_what_it_does_not_inherit() {
        let general = Manner {
            tls_ca: Some("/general.pem".into()),
            tls_name: Some("general".to_owned()),
            tls_verify: Some(true),
            max_fails: Some(7),
            ..Manner::default()
        };
        assert_eq!(Manner::default().over(&general), general);
        let site = Manner {
            tls_ca: Some(SYSTEM.into()),
            tls_name: Some(NONE.to_owned()),
            tls_verify: Some(false),
            ..Manner::default()
        };
        let both = site.over(&general);
        assert_eq!((both.tls_ca, both.tls_name, both.tls_verify), (None, None, Some(false)));
        assert_eq!(both.max_fails, Some(7));
    }

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
