//! Where the stream is, and how a node authenticates there.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use fleet::MemberId;

/// Begin of the name of a stream among the makers of purges; its own name follows.
const MAKER: &str = "nats.";

/// Addresses of servers, a stream and its subject: `nats://HOST:PORT[,HOST:PORT…]/STREAM`, or
/// `tls://…`, with `/SUBJECT` behind it where that differs from the stream's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamAddress {
    text: Box<str>,
    /// Each with its scheme.
    pub(crate) servers: Vec<String>,
    pub(crate) stream: String,
    pub(crate) subject: String,
    maker: MemberId,
    is_tls: bool,
}

/// Error: a text is not the address of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidAddress;

impl fmt::Display for InvalidAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected nats://HOST:PORT/STREAM or tls://HOST:PORT/STREAM")
    }
}

impl Error for InvalidAddress {}

impl StreamAddress {
    /// Returns the name of the stream as a maker of purges.
    pub fn maker(&self) -> &MemberId {
        &self.maker
    }

    /// Returns whether connections must be encrypted.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }
}

impl fmt::Display for StreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for StreamAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<StreamAddress, InvalidAddress> {
        let (scheme, rest) = text.split_once("://").ok_or(InvalidAddress)?;
        let (hosts, path) = rest.split_once('/').ok_or(InvalidAddress)?;
        let (stream, subject) = path.split_once('/').unwrap_or((path, path));
        let is_token = |token: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            !token.is_empty() && token.bytes().all(plain)
        };
        let is_host = |host: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
            !host.is_empty() && host.bytes().all(plain)
        };
        let is_right = ["nats", "tls"].contains(&scheme)
            && hosts.split(',').all(is_host)
            && is_token(stream)
            && subject.split('.').all(is_token);
        let servers: Vec<String> =
            hosts.split(',').map(|host| format!("{scheme}://{host}")).collect();
        let is_server = |server: &String| server.parse::<async_nats::ServerAddr>().is_ok();
        if !is_right || !servers.iter().all(is_server) {
            return Err(InvalidAddress);
        }
        Ok(StreamAddress {
            text: text.into(),
            servers,
            stream: stream.to_owned(),
            subject: subject.to_owned(),
            maker: format!("{MAKER}{stream}").parse().map_err(|_| InvalidAddress)?,
            is_tls: scheme == "tls",
        })
    }
}

/// How a node authenticates at the servers.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// A user and a password.
    Password {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// A token.
    Token(String),
}

impl Credentials {
    /// Reads `USER:PASSWORD`; a text without a colon is a token.
    pub fn read(text: &str) -> Credentials {
        match text.split_once(':') {
            Some((user, password)) => {
                Credentials::Password { user: user.to_owned(), password: password.to_owned() }
            }
            None => Credentials::Token(text.to_owned()),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_servers_a_stream_and_a_subject() {
        let read = |text: &str| {
            let address: StreamAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            let StreamAddress { servers, stream, subject, maker, is_tls, .. } = address;
            (servers.join(" "), stream, subject, maker.to_string(), is_tls)
        };
        let told = |servers: &str, stream: &str, subject: &str, is_tls| {
            let maker = format!("nats.{stream}");
            (servers.to_owned(), stream.to_owned(), subject.to_owned(), maker, is_tls)
        };
        let plain = "nats://10.0.0.7:4222/purges";
        assert_eq!(read(plain), told("nats://10.0.0.7:4222", "purges", "purges", false));
        let full = "tls://a.example:1,[::1]:2/EU/cms.purges";
        assert_eq!(read(full), told("tls://a.example:1 tls://[::1]:2", "EU", "cms.purges", true));
        for wrong in [
            "10.0.0.7:4222/purges",
            "http://a/b",
            "nats://a:1",
            "nats://a:1/",
            "nats:///b",
            "nats://a:1,/b",
            "nats://user:secret@a:1/b",
            "nats://a:99999/b",
            "nats://a:1/b.c",
            "nats://a:1/b/c..d",
            "nats://a:1/b/c.*",
            "nats://a:1/b/c/d",
        ] {
            assert_eq!(wrong.parse::<StreamAddress>(), Err(InvalidAddress), "{wrong}");
        }
    }

    #[test]
    fn credentials_are_not_shown() {
        let password = Credentials::read("larder:a:b");
        let (user, pass) = ("larder".to_owned(), "a:b".to_owned());
        assert_eq!(password, Credentials::Password { user, password: pass });
        assert_eq!(Credentials::read("token"), Credentials::Token("token".to_owned()));
        assert_eq!(format!("{password:?}"), "Credentials");
    }
}
