//! An origin server as written in the configuration: its URL, or a socket in the file system, and
//! its options (`http://10.0.0.1 weight=2 max-conns=100`).

use std::path::PathBuf;

/// The expected form, for messages and documentation.
pub const EXPECTED: &str =
    "an origin server such as http://127.0.0.1:8080, https://example.com or unix:/run/app.sock";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub place: Place,
    /// The server's share of the requests, relative to the weights of the others.
    pub weight: u32,
    /// The server gets requests only while none of the others can.
    pub backup: bool,
    /// Maximum number of concurrent requests; `None`: unlimited.
    pub max_conns: Option<u32>,
}

/// Where an origin server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A TCP port, with or without TLS.
    Tcp {
        /// The host in lower case, an IPv6 address without brackets.
        host: String,
        port: u16,
        /// True if connections use TLS.
        tls: bool,
    },
    Unix(PathBuf),
}

impl Server {
    /// Parses an origin server with its options.
    ///
    /// # Errors
    ///
    /// A sentence that follows the key in a message. It never contains a password.
    pub fn parse(text: &str) -> Result<Server, String> {
        let mut words = text.split_ascii_whitespace();
        let place = place(words.next().unwrap_or_default())?;
        let mut server = Server { place, weight: 1, backup: false, max_conns: None };
        for word in words {
            let number = |text: &str, max: u32| {
                let digits = text.bytes().all(|b| b.is_ascii_digit());
                let number = text.parse().ok().filter(|n| digits && (1..=max).contains(n));
                number.ok_or_else(|| format!("expected a number from 1 to {max} in {word:?}"))
            };
            match word.split_once('=') {
                Some(("weight", n)) => server.weight = number(n, 1000)?,
                Some(("max-conns", n)) => server.max_conns = Some(number(n, 1_000_000)?),
                None if word == "backup" => server.backup = true,
                _ => {
                    return Err(format!(
                        "expected weight=N, max-conns=N or backup behind the URL, got {word:?}"
                    ));
                }
            }
        }
        Ok(server)
    }
}

/// Parses a place. Only the origin is configured: path and query are those of the request.
fn place(text: &str) -> Result<Place, String> {
    let wrong = |why: &str| format!("expected {EXPECTED}, got {text:?}{why}");
    if let Some(path) = text.strip_prefix("unix:") {
        let good = path.starts_with('/') && !path.contains('\0');
        return match good {
            true => Ok(Place::Unix(path.into())),
            false => Err(wrong(": expected an absolute path behind unix:")),
        };
    }
    let (tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
        (Some(rest), _) => (false, rest),
        (_, Some(rest)) => (true, rest),
        _ => return Err(wrong("")),
    };
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains('@') {
        return Err("expected an origin server without user name and password".to_owned());
    }
    if authority.contains(['/', '?', '#']) {
        return Err(wrong(": a path cannot be given here"));
    }
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (authority, None),
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let host = match bare {
        Some(address) => address.parse::<std::net::Ipv6Addr>().ok().map(|_| address.to_owned()),
        None if name.contains(':') => None,
        None => crate::config::value::host(name).map(|_| name.to_ascii_lowercase()),
    };
    let port = match port {
        None => Some(if tls { 443 } else { 80 }),
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => {
            port.parse::<u16>().ok().filter(|&port| port != 0)
        }
        Some(_) => None,
    };
    match (host, port) {
        (Some(host), Some(port)) => Ok(Place::Tcp { host, port, tls }),
        _ => Err(wrong("")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16, tls: bool) -> Place {
        Place::Tcp { host: host.to_owned(), port, tls }
    }

    #[test]
    fn places() {
        let good = [
            ("http://Example.com", tcp("example.com", 80, false)),
            ("http://example.com/", tcp("example.com", 80, false)),
            ("https://example.com", tcp("example.com", 443, true)),
            ("http://127.0.0.1:8080", tcp("127.0.0.1", 8080, false)),
            ("https://[::1]:8443", tcp("::1", 8443, true)),
            ("http://[::1]", tcp("::1", 80, false)),
            ("unix:/run/app.sock", Place::Unix("/run/app.sock".into())),
        ];
        for (text, place) in good {
            let server = Server { place, weight: 1, backup: false, max_conns: None };
            assert_eq!(Server::parse(text), Ok(server), "{text}");
        }
        let bad = [
            "",
            "example.com",
            "ftp://example.com",
            "http://",
            "http://:80",
            "http://a b",
            "http://example.com:0",
            "http://example.com:65536",
            "http://example.com:+80",
            "http://::1",
            "http://[::1",
            "http://[x]:80",
            "http://a/b",
            "http://a?b",
            "https://a#b",
            "unix:",
            "unix:app.sock",
            "http://a weight",
            "http://a weight=0",
            "http://a weight=1001",
            "http://a backup=1",
            "http://a max-conns=-1",
            "http://a heavy",
            "weight=1 http://a",
        ];
        for text in bad {
            assert!(Server::parse(text).is_err(), "{text}");
        }
        let server = Server::parse("http://a weight=3  backup max-conns=20").unwrap();
        assert_eq!((server.weight, server.backup, server.max_conns), (3, true, Some(20)));
        let secret = Server::parse("http://me:secret@example.com").unwrap_err();
        assert!(!secret.contains("secret"), "{secret}");
    }
}
