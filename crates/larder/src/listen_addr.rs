//! Where clients come in: an IP address and a port, or the path of a Unix socket.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// What begins the name of a Unix socket.
const UNIX: &str = "unix:";

/// The longest path that a Unix socket can have.
const PATH_MAX: usize = 107;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddr {
    /// An IP address and a port.
    Ip(SocketAddr),
    /// A path of the file system.
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
            None => text.parse().map(ListenAddr::Ip).map_err(|_| ()),
        }
    }
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
    /// The address and port, if it is one.
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
        let long = format!("unix:/{}", "x".repeat(107));
        for text in ["", "a.example:80", "127.0.0.1", "unix:", "unix:run/x", "/run/x", &long] {
            assert!(text.parse::<ListenAddr>().is_err(), "{text}");
        }
    }
}
