//! Values of settings: their kinds, how each is parsed from text, and how it is printed.
//!
//! Flags and keys of the configuration file are parsed by the same code, so they accept the same
//! spellings and report the same errors.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use cli::units;
use ipnet::IpNet;
use proxy::observe::access_log::Format;
use proxy::origin::path_prefix::PathPrefix;
use proxy::rules::access::{HostPattern, PortRange};

use crate::config::listen_addr;
use crate::config::listen_addr::ListenAddr;
use crate::config::origin_server;
use crate::config::origin_server::Server;

/// The values that a setting accepts.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Bool,
    /// A whole number within bounds, both included.
    Int(u64, u64),
    /// A size in bytes within bounds, both included.
    Size(u64, u64),
    /// A duration within bounds, both included.
    Time(Duration, Duration),
    Addr,
    /// An IP address and a port, or `unix:` and the path of a socket.
    Listen,
    Mode,
    /// A host that a certificate covers: a name, or `*.` and a domain.
    CertificateHost,
    /// A network in CIDR notation, or one IP address.
    Network,
    Origin,
    /// A host name or IP address, without a port.
    Host,
    /// A host, or a dot and a domain: `.example.com` is example.com and all names below.
    HostPattern,
    PathPrefix,
    /// A format of the access log: a name, or a text with variables.
    LogFormat,
    Method,
    /// A port or a range of ports, both ends included.
    Ports,
    Header,
    /// A token that begins with a letter (RFC 9110 section 5.6.2, RFC 9651 section 3.3.4).
    Token,
    Path,
    /// Any non-empty text; the string describes it.
    Text(&'static str),
    Checked(&'static Checked),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Any number of values of another kind.
    List(&'static Kind),
}

/// A validator for text that a specific type parses.
#[derive(Debug)]
pub struct Checked {
    /// Returns whether the text can be parsed.
    pub check: fn(&str) -> bool,
    pub expected: &'static str,
    /// The name of a value in a usage line.
    pub value_name: &'static str,
    pub example: &'static str,
}

impl Checked {
    /// Returns whether a `T` can be parsed from `text`.
    pub fn read<T: FromStr>(text: &str) -> bool {
        text.parse::<T>().is_ok()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The setting's special word (`auto`, `off`, `none`), which stands for no value.
    Word(&'static str),
    Bool(bool),
    Int(u64),
    /// A value of [`Kind::Size`], in bytes.
    Size(u64),
    Time(Duration),
    Addr(SocketAddr),
    Listen(ListenAddr),
    /// A value of [`Kind::Network`]; host bits are zero.
    Network(IpNet),
    /// A value of any kind that is text.
    Text(String),
    List(Vec<Value>),
}

/// Returns the error for a word without a value that was used as an element of a list.
pub fn alone(word: &str) -> String {
    format!("expected {word:?} alone, or values without it")
}

impl Kind {
    /// Parses one value; the error is the sentence that follows the key in a message. A list treats
    /// the text as its only element.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let value = match *self {
            Kind::Bool => text.parse().ok().map(Value::Bool),
            Kind::Int(min, max) => {
                let digits = text.bytes().all(|b| b.is_ascii_digit());
                let number = text.parse().ok().filter(|_| digits);
                number.filter(|n| (min..=max).contains(n)).map(Value::Int)
            }
            Kind::Size(min, max) => {
                units::parse_size(text).filter(|n| (min..=max).contains(n)).map(Value::Size)
            }
            Kind::Time(min, max) => {
                units::parse_duration(text).filter(|t| (min..=max).contains(t)).map(Value::Time)
            }
            Kind::Addr => listen_addr::ip(text).map(Value::Addr),
            Kind::Listen => text.parse().ok().map(Value::Listen),
            Kind::Mode => {
                let octal =
                    (3..=4).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
                let mode = u64::from_str_radix(text, 8).ok();
                mode.filter(|&mode| octal && mode <= 0o777).map(|_| Value::Text(text.to_owned()))
            }
            Kind::CertificateHost => match text.strip_prefix("*.") {
                Some(domain) => host(domain).map(|domain| Value::Text(format!("*.{domain}"))),
                None => host(text).map(Value::Text),
            },
            Kind::Network => return network(text).map(Value::Network),
            Kind::Origin => return Server::parse(text).map(|_| Value::Text(text.to_owned())),
            Kind::Host => host(text).map(Value::Text),
            Kind::HostPattern => {
                let read = text.parse::<HostPattern>().map_err(|error| error.to_string());
                return read.map(|_| Value::Text(text.to_owned()));
            }
            Kind::PathPrefix => {
                return text.parse::<PathPrefix>().map(|_| Value::Text(text.to_owned()));
            }
            Kind::LogFormat => {
                return text.parse::<Format>().map(|_| Value::Text(text.to_owned()));
            }
            Kind::Method => {
                let token = |b: u8| b.is_ascii_uppercase() || b == b'-';
                let good = !text.is_empty() && text.bytes().all(token);
                good.then(|| Value::Text(text.to_owned()))
            }
            Kind::Ports => text.parse::<PortRange>().ok().map(|_| Value::Text(text.to_owned())),
            Kind::Header => {
                let name = text.parse::<http::HeaderName>().ok();
                name.map(|name| Value::Text(name.to_string()))
            }
            Kind::Token => token(text).then(|| Value::Text(text.to_owned())),
            Kind::Path | Kind::Text(_) => {
                (!text.is_empty() && !text.contains('\0')).then(|| Value::Text(text.to_owned()))
            }
            Kind::Checked(checked) => (checked.check)(text).then(|| Value::Text(text.to_owned())),
            Kind::OneOf(words) => words.contains(&text).then(|| Value::Text(text.to_owned())),
            Kind::List(item) => return item.parse(text).map(|value| Value::List(vec![value])),
        };
        value.ok_or_else(|| format!("expected {}, got {text:?}", self.expected()))
    }

    /// Returns a description of the accepted values, for messages and documentation: `a size such
    /// as 10G, at least 16M`.
    pub fn expected(&self) -> String {
        match *self {
            Kind::Bool => "true or false".to_owned(),
            Kind::Int(min, u64::MAX) => format!("a whole number, at least {min}"),
            Kind::Int(min, max) => format!("a whole number from {min} to {max}"),
            Kind::Size(min, max) => bounds(
                units::SIZE_EXAMPLE,
                (min > 0).then(|| units::size(min)),
                (max < u64::MAX).then(|| units::size(max)),
            ),
            Kind::Time(min, max) => bounds(
                units::DURATION_EXAMPLE,
                (min > Duration::ZERO).then(|| units::duration(min)),
                (max < Duration::MAX).then(|| units::duration(max)),
            ),
            Kind::Addr => {
                "an IP address and a port such as 127.0.0.1:3128 or [::1]:3128".to_owned()
            }
            Kind::Listen => "an IP address and a port such as 127.0.0.1:3128 or [::1]:3128, :3128 \
                             for all addresses, or a Unix socket such as unix:/run/larder.sock"
                .to_owned(),
            Kind::Mode => "permissions in octal such as 660".to_owned(),
            Kind::CertificateHost => "a host such as www.example.com, or *.example.com".to_owned(),
            Kind::Network => "a network such as 192.168.0.0/16 or one IP address".to_owned(),
            Kind::Origin => origin_server::EXPECTED.to_owned(),
            Kind::Host => "a host name or IP address without a port".to_owned(),
            Kind::HostPattern => {
                "a host such as www.example.com, or .example.com and all below it".to_owned()
            }
            Kind::PathPrefix => "the beginning of a path such as /static/".to_owned(),
            Kind::LogFormat => "combined, squid, json or a text with variables".to_owned(),
            Kind::Method => "a method in capitals such as GET".to_owned(),
            Kind::Ports => "a port or a range of ports such as \"8000-8999\"".to_owned(),
            Kind::Header => "the name of a header field".to_owned(),
            Kind::Token => "a name of at most 64 letters, digits and -".to_owned(),
            Kind::Path => "a path".to_owned(),
            Kind::Text(what) => what.to_owned(),
            Kind::Checked(checked) => format!("{}, such as {}", checked.expected, checked.example),
            Kind::OneOf(words) => one_of(words),
            Kind::List(item) => item.expected(),
        }
    }

    /// Returns the name of a value of this kind in a usage line.
    pub fn value_name(&self) -> &'static str {
        match *self {
            Kind::Bool => "BOOL",
            Kind::Int(..) => "N",
            Kind::Size(..) => "SIZE",
            Kind::Time(..) => "TIME",
            Kind::Addr | Kind::Listen => "ADDR",
            Kind::Mode => "MODE",
            Kind::CertificateHost => "HOST",
            Kind::Network => "CIDR",
            Kind::Origin => "URL",
            Kind::Host | Kind::HostPattern => "HOST",
            Kind::LogFormat => "FORMAT",
            Kind::Method => "METHOD",
            Kind::Ports => "PORT",
            Kind::Header | Kind::Token => "NAME",
            Kind::Path | Kind::PathPrefix => "PATH",
            Kind::Text(_) => "NAME",
            Kind::Checked(checked) => checked.value_name,
            Kind::OneOf(_) => "WORD",
            Kind::List(item) => item.value_name(),
        }
    }
}

/// Joins words: `a`, `a or b`, `a, b or c`.
pub fn one_of(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

fn bounds(what: &str, min: Option<String>, max: Option<String>) -> String {
    match (min, max) {
        (None, None) => what.to_owned(),
        (Some(min), None) => format!("{what}, at least {min}"),
        (None, Some(max)) => format!("{what}, at most {max}"),
        (Some(min), Some(max)) => format!("{what}, from {min} to {max}"),
    }
}

fn network(text: &str) -> Result<IpNet, String> {
    let parsed = text.parse::<IpNet>().ok();
    let parsed = parsed.or_else(|| text.parse::<std::net::IpAddr>().ok().map(IpNet::from));
    let network =
        parsed.ok_or_else(|| format!("expected {}, got {text:?}", Kind::Network.expected()))?;
    match network.trunc() == network {
        true => Ok(network),
        false => {
            Err(format!("expected a network, got {text:?}, an address within {}", network.trunc()))
        }
    }
}

fn token(text: &str) -> bool {
    let byte = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(byte)
}

/// Returns a host as it appears in a URL, in lower case; IPv6 addresses without brackets.
pub fn host(text: &str) -> Option<String> {
    if text.parse::<std::net::IpAddr>().is_ok() {
        return Some(text.to_ascii_lowercase());
    }
    let label = |label: &str| {
        let byte = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(byte)
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    (name.len() <= 253 && name.split('.').all(label)).then(|| name.to_ascii_lowercase())
}

impl Value {
    /// Returns the value as written in a file.
    pub fn literal(&self) -> String {
        match self {
            Value::Bool(_) | Value::Int(_) => self.to_string(),
            Value::List(values) => {
                format!("[{}]", values.iter().map(Value::literal).collect::<Vec<_>>().join(", "))
            }
            other => format!("\"{other}\""),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Word(word) => f.write_str(word),
            Value::Bool(value) => value.fmt(f),
            Value::Int(value) => value.fmt(f),
            Value::Size(bytes) => f.write_str(&units::size(*bytes)),
            Value::Time(time) => f.write_str(&units::duration(*time)),
            Value::Addr(addr) => addr.fmt(f),
            Value::Listen(address) => address.fmt(f),
            Value::Network(network) => network.fmt(f),
            Value::Text(text) => f.write_str(text),
            Value::List(values) => {
                let texts: Vec<String> = values.iter().map(Value::to_string).collect();
                f.write_str(&texts.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(kind: Kind, text: &str) -> String {
        kind.parse(text).expect_err(text)
    }

    #[test]
    fn bounds_are_part_of_the_message() {
        let memory = Kind::Size(16 << 20, u64::MAX);
        assert_eq!(memory.parse("16M"), Ok(Value::Size(16 << 20)));
        assert_eq!(refused(memory, "1M"), r#"expected a size such as 10G, at least 16M, got "1M""#);
        let drain = Kind::Time(Duration::ZERO, Duration::from_secs(600));
        assert_eq!(
            refused(drain, "1h"),
            r#"expected a duration such as 30s, at most 10m, got "1h""#
        );
        assert_eq!(
            refused(Kind::Int(1, 64), "+2"),
            r#"expected a whole number from 1 to 64, got "+2""#
        );
    }

    #[test]
    fn networks() {
        assert_eq!(Kind::Network.parse("10.0.0.0/8").unwrap().to_string(), "10.0.0.0/8");
        assert_eq!(Kind::Network.parse("::1").unwrap().to_string(), "::1/128");
        assert_eq!(
            refused(Kind::Network, "10.1.2.3/8"),
            r#"expected a network, got "10.1.2.3/8", an address within 10.0.0.0/8"#
        );
        assert_eq!(
            refused(Kind::Network, "10.0.0.0/33"),
            r#"expected a network such as 192.168.0.0/16 or one IP address, got "10.0.0.0/33""#
        );
    }

    #[test]
    fn hosts() {
        assert_eq!(Kind::Host.parse("WWW.Example.com."), Ok(Value::Text("www.example.com".into())));
        assert_eq!(Kind::Host.parse("::1"), Ok(Value::Text("::1".into())));
        for text in ["", ".", "a..b", "a:80", "a/b", "a b", "*.example.com"] {
            assert!(Kind::Host.parse(text).is_err(), "{text}");
        }
    }
}
