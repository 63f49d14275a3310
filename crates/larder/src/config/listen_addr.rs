//! Listening addresses: an IP address and a port, or the path of a Unix socket.
//!
//! A port alone, `:port` and `*:port` mean all addresses of this machine, IPv6 and IPv4, like
//! `[::]:port`. `localhost:port` means `127.0.0.1:port`. No other name is looked up.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

const UNIX: &str = "unix:";

/// The maximum length of a Unix socket's path in bytes.
const PATH_MAX: usize = 107;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddr {
    Ip(SocketAddr),
    Unix(PathBuf),
}

impl FromStr for ListenAddr {
    type Err = ();

    fn from_str(text: &str) -> Result<ListenAddr, ()> {
        match text.strip_prefix(UNIX) {
            Some(path) => {
                let good = path.starts_with('/') && path.len() <= PATH_MAX && !path.contains('\0');
                if good { Ok(ListenAddr::Unix(path.into())) } else { Err(()) }
            }
            None => ip(text).or_else(|| all(text)).map(ListenAddr::Ip).ok_or(()),
        }
    }
}

/// Parses an IP address, or `localhost`, and a port.
pub fn ip(text: &str) -> Option<SocketAddr> {
    let local = |text: &str| Some((Ipv4Addr::LOCALHOST, port(text)?).into());
    text.parse().ok().or_else(|| local(text.strip_prefix("localhost:")?))
}

/// Parses a port on all addresses.
fn all(text: &str) -> Option<SocketAddr> {
    let text = text.strip_prefix('*').filter(|rest| rest.starts_with(':')).unwrap_or(text);
    let port = port(text.strip_prefix(':').unwrap_or(text))?;
    Some((Ipv6Addr::UNSPECIFIED, port).into())
}

fn port(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddr::Ip(address) => address.fmt(f),
            ListenAddr::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl ListenAddr {
    /// Returns the IP address and port; `None` for a Unix socket.
    pub fn ip(&self) -> Option<SocketAddr> {
        match self {
            ListenAddr::Ip(address) => Some(*address),
            ListenAddr::Unix(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_paths_are_read_and_written() {
        for text in ["127.0.0.1:80", "[::]:443", "unix:/run/larder.sock"] {
            assert_eq!(text.parse::<ListenAddr>().unwrap().to_string(), text);
        }
        for text in ["8080", ":8080", "*:8080", "[::]:8080"] {
            assert_eq!(text.parse::<ListenAddr>().unwrap().to_string(), "[::]:8080", "{text}");
        }
        let local = "localhost:8080".parse::<ListenAddr>().unwrap();
        assert_eq!(local.to_string(), "127.0.0.1:8080");
        for text in [":", "*", "*8080", "**:80", ":+80", "65536", "-1", "localhost", ":80:80"] {
            assert!(text.parse::<ListenAddr>().is_err(), "{text}");
        }
        let long = format!("unix:/{}", "x".repeat(107));
        for text in ["", "a.example:80", "127.0.0.1", "unix:", "unix:run/x", "/run/x", &long] {
            assert!(text.parse::<ListenAddr>().is_err(), "{text}");
        }
    }
}
