//! A client for a running proxy's admin interface, used by the commands on a running proxy.
//!
//! The address and the token of the interface come from the proxy's configuration or from flags.

use std::fmt::{self, Display};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgMatches, value_parser};
use cli::outcome::Failure;

use crate::commands::pid_of_proxy::flags_of;
use crate::config::configuration::Config;
use crate::config::layers::Layer;
use crate::config::loaded::Loaded;

/// Timeouts for connecting, and for the response, which may wait for a device flush behind other
/// work.
const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(60);
/// Maximum bytes of a response to read.
const LONGEST: usize = 4 << 20;

pub struct AdminClient {
    address: SocketAddr,
    token: Option<String>,
    /// Timeout for a response.
    patience: Duration,
}

pub struct Answer {
    pub status: u16,
    pub body: String,
}

pub fn flags() -> [Arg; 5] {
    let text = |id: &'static str, name: &'static str, help: &'static str| {
        Arg::new(id).long(id).value_name(name).help(help)
    };
    let token = "The token that the admin interface requires. Prefer --token-file: other users \
                 can see arguments in the process list.";
    [
        text("config", "FILE", "The proxy's configuration file.")
            .value_parser(value_parser!(PathBuf)),
        text(
            "admin",
            "ADDR",
            "Address and port of the admin interface, instead of those in the \
                               configuration.",
        )
        .value_parser(value_parser!(SocketAddr)),
        text(
            "pid-file",
            "FILE",
            "The running proxy's `pid-file`, in place of --config and --admin.",
        )
        .value_parser(value_parser!(PathBuf))
        .conflicts_with_all(["config", "admin"]),
        text("token", "TOKEN", token).conflicts_with("token-file"),
        text("token-file", "FILE", "A file that contains the token.")
            .value_parser(value_parser!(PathBuf)),
    ]
}

impl AdminClient {
    /// Returns a client for the interface that [`flags`] select.
    pub fn of(matches: &ArgMatches) -> Result<AdminClient, Failure> {
        let running = matches.get_one::<PathBuf>("pid-file").map(|path| flags_of(path));
        let running = running.transpose().map_err(Failure::runtime)?.unwrap_or_default();
        let path = matches.get_one::<PathBuf>("config").or(running.config.as_ref());
        let loaded = Loaded::load(path.map(PathBuf::as_path), &Layer::new());
        let config = loaded.map_err(Failure::usage)?.config;
        let given = matches.get_one::<SocketAddr>("admin").copied().or(running.admin);
        let (address, token) = (address(given, &config)?, token(matches, &config)?);
        // A purge may wait for other nodes to be accepted, and then until it holds at all.
        let patience = ANSWER + config.fleet.lease * 2;
        Ok(AdminClient { address, token, patience })
    }

    pub fn get(&self, target: &str) -> Result<Answer, Failure> {
        self.send(&format!("GET {target}"), None).map_err(|error| self.no_answer(&error))
    }

    /// Sends a request with a JSON body.
    pub fn post(&self, target: &str, json: &str) -> Result<Answer, Failure> {
        self.post_as("application/json", target, json)
    }

    /// Sends a request with a body of media type `kind`.
    pub fn post_as(&self, kind: &str, target: &str, body: &str) -> Result<Answer, Failure> {
        let line = format!("POST {target}");
        self.send(&line, Some((kind, body))).map_err(|error| self.no_answer(&error))
    }

    fn no_answer(&self, error: &io::Error) -> Failure {
        let error = match error.kind() {
            io::ErrorKind::WouldBlock => format!("nothing came within {:?}", self.patience),
            _ => error.to_string(),
        };
        Failure::runtime(format!(
            "no response from the admin interface at {}: {error}; is larder running, and with \
             this address (--config, --admin)?",
            self.address
        ))
    }

    fn send(&self, line: &str, content: Option<(&str, &str)>) -> io::Result<Answer> {
        let mut head =
            format!("{line} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        if let Some((kind, body)) = content {
            head.push_str(&format!("Content-Type: {kind}\r\nContent-Length: {}\r\n", body.len()));
        }
        if let Some(token) = &self.token {
            if !token.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
                let text = "the token has characters that are not allowed in a header field";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        let mut stream = TcpStream::connect_timeout(&self.address, CONNECT)?;
        stream.set_read_timeout(Some(self.patience))?;
        stream.set_write_timeout(Some(self.patience))?;
        let body = content.map_or("", |(_, body)| body);
        stream.write_all(format!("{head}\r\n{body}").as_bytes())?;
        let text = read_response(stream)?;
        Answer::read(&String::from_utf8_lossy(&text)).map_err(io::Error::other)
    }
}

/// Reads a response up to the length that it states, or else to the end of the connection.
fn read_response(mut stream: impl Read) -> io::Result<Vec<u8>> {
    let (mut text, mut chunk) = (Vec::new(), [0; 16 << 10]);
    while text.len() < LONGEST {
        let count = stream.read(&mut chunk)?;
        text.extend_from_slice(&chunk[..count]);
        if count == 0 || end_of(&text).is_some_and(|end| end <= text.len()) {
            break;
        }
    }
    Ok(text)
}

/// Returns the length of a response with its head; `None` if the head is incomplete or states none.
fn end_of(text: &[u8]) -> Option<usize> {
    let head_len = text.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&text[..head_len]).ok()?;
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = fields.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = lengths.next()?.1.trim().parse().ok()?;
    head_len.checked_add(length)
}

impl Answer {
    /// Parses a response.
    ///
    /// # Errors
    ///
    /// A sentence, when the text is not HTTP/1.1 or shorter than it says.
    pub fn read(text: &str) -> Result<Answer, &'static str> {
        let parsed = || {
            let (head, body) = text.split_once("\r\n\r\n")?;
            let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
            Some(Answer { status, body: body.to_owned() })
        };
        match end_of(text.as_bytes()) {
            Some(end) if end > text.len() => Err("the response ended early"),
            _ => parsed().ok_or("the response is not HTTP"),
        }
    }
}

impl Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status, self.body.trim())
    }
}

fn address(given: Option<SocketAddr>, config: &Config) -> Result<SocketAddr, Failure> {
    let mut address = given.or(config.admin).ok_or_else(|| {
        Failure::usage("the configuration has no admin interface (admin = \"off\"): give --admin")
    })?;
    // An interface on all addresses is reached via loopback.
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    Ok(address)
}

fn token(matches: &ArgMatches, config: &Config) -> Result<Option<String>, Failure> {
    if let Some(token) = matches.get_one::<String>("token") {
        return Ok(Some(token.clone()));
    }
    let given = matches.get_one::<PathBuf>("token-file");
    let Some(path) = given.or(config.admin_token_file.as_ref()) else {
        return Ok(config.admin_token.clone());
    };
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    Ok(Some(text.trim().to_owned()))
}
