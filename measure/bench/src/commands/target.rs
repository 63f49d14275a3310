//! The target of a run, parsed from a URL.

use std::net::{SocketAddr, ToSocketAddrs};

/// The program under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its address.
    pub address: SocketAddr,
    /// Its name and port as given, for the `Host` field.
    pub authority: String,
}

impl Target {
    /// Parses `http://HOST[:PORT][/]`, or `HOST:PORT`.
    ///
    /// # Errors
    /// Fails if the text has another form, or the name cannot be resolved.
    pub fn read(text: &str) -> Result<Target, String> {
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest,
            Some((scheme, _)) => return Err(format!("{text:?}: {scheme} is not spoken, http is")),
            None => text,
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.is_empty() || authority.contains(['/', '?', '@', ' ']) {
            return Err(format!("{text:?}: expected http://HOST:PORT"));
        }
        let with_port = match authority.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => authority.to_owned(),
            _ => format!("{authority}:80"),
        };
        let found = with_port.to_socket_addrs().map(|mut found| found.next());
        match found {
            Ok(Some(address)) => Ok(Target { address, authority: authority.to_owned() }),
            Ok(None) => Err(format!("{text:?}: the name has no address")),
            Err(error) => Err(format!("{text:?}: {error}")),
        }
    }
}

#[test]
fn targets_are_read() {
    let target = Target::read("http://127.0.0.1:8080/").unwrap();
    assert_eq!(target.address, SocketAddr::from(([127, 0, 0, 1], 8080)));
    assert_eq!(target.authority, "127.0.0.1:8080");
    assert_eq!(Target::read("127.0.0.1").unwrap().address.port(), 80);
    for wrong in ["https://127.0.0.1", "http://", "http://127.0.0.1/path", "u@127.0.0.1:1"] {
        assert!(Target::read(wrong).is_err(), "{wrong}");
    }
}
