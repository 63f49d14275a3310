//! Sends each line of the access log to a syslog server, as a datagram of its own.
//!
//! Over UDP a message has the form of RFC 5424. On a Unix socket it has that of `syslog(3)`, which
//! journald and other local servers read there. Facility and severity are local7 and info. A
//! message that the server does not take in [`PATIENCE`] is lost, and so is the rest of its batch.

use std::fs;
use std::io::{self, Write};
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;

/// Facility local7 (23), severity info (6).
const PRIORITY: u8 = 23 * 8 + 6;

/// Maximum length in bytes of a line; the rest is cut off. Common servers take messages of 8 KiB.
const LINE_MAX: usize = 8000;

/// Time to wait for a server that takes no message.
const PATIENCE: Duration = Duration::from_millis(100);

/// Address of a syslog server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// Unix socket.
    Unix(PathBuf),
    /// Host and port, for UDP.
    Udp(String),
}

impl FromStr for Receiver {
    type Err = String;

    fn from_str(text: &str) -> Result<Receiver, String> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| path.starts_with('/')) {
            return Ok(Receiver::Unix(path.into()));
        }
        let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty() && *host != "unix");
        match port.and_then(|(_, port)| port.parse::<u16>().ok()) {
            Some(1..) => Ok(Receiver::Udp(text.to_owned())),
            _ => Err(format!(
                "expected syslog:unix:/PATH or syslog:HOST:PORT, got \"syslog:{text}\""
            )),
        }
    }
}

enum Socket {
    /// Not connected, so that a server that starts again is found.
    Unix(UnixDatagram, PathBuf),
    Udp(UdpSocket),
}

/// Open connection to a syslog server.
pub(super) struct Syslog {
    socket: Socket,
    /// Name of this machine.
    machine: String,
    message: Vec<u8>,
    /// Error of a message that was sent earlier.
    refused: Option<io::Error>,
}

impl Syslog {
    /// Opens a socket for messages to the server, which need not be there. The error names the
    /// server.
    pub fn open(receiver: &Receiver) -> io::Result<Syslog> {
        let socket = match receiver {
            Receiver::Unix(path) => unix_socket().map(|socket| Socket::Unix(socket, path.clone())),
            Receiver::Udp(server) => udp_socket(server).map(Socket::Udp),
        };
        let socket = socket.map_err(|error| {
            let text = format!("the syslog server {receiver:?} cannot be used: {error}");
            io::Error::new(error.kind(), text)
        })?;
        let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let machine: String = machine.chars().filter(char::is_ascii_graphic).take(255).collect();
        let machine = if machine.is_empty() { "-".to_owned() } else { machine };
        Ok(Syslog { socket, machine, message: Vec::new(), refused: None })
    }

    /// Writes the message of a line. Runs on the log's own thread, so it may use the system clock.
    #[allow(clippy::disallowed_methods)]
    fn write_message(&mut self, line: &[u8]) -> io::Result<()> {
        let now = Timestamp::try_from(SystemTime::now()).unwrap_or(Timestamp::UNIX_EPOCH);
        let (machine, process) = (&self.machine, std::process::id());
        let message = &mut self.message;
        message.clear();
        match self.socket {
            Socket::Unix(..) => {
                let time = now.strftime("%b %e %H:%M:%S");
                write!(message, "<{PRIORITY}>{time} larder[{process}]: ")?;
            }
            Socket::Udp(_) => {
                let time = now.strftime("%Y-%m-%dT%H:%M:%S%.3fZ");
                write!(message, "<{PRIORITY}>1 {time} {machine} larder {process} access - ")?;
            }
        }
        message.extend_from_slice(&line[..line.len().min(LINE_MAX)]);
        Ok(())
    }

    fn send(&self) -> io::Result<()> {
        match &self.socket {
            Socket::Unix(socket, path) => socket.send_to(&self.message, path),
            Socket::Udp(socket) => socket.send(&self.message),
        }
        .map(drop)
    }
}

impl Write for Syslog {
    /// Sends the first line of `lines`.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let end = lines.iter().position(|byte| *byte == b'\n');
        let line = &lines[..end.unwrap_or(lines.len())];
        if !line.is_empty() {
            self.write_message(line)?;
            let earlier = self.refused.take();
            match self.send() {
                // The error of a message that was sent earlier: this one is not sent yet.
                Err(error)
                    if error.kind() == io::ErrorKind::ConnectionRefused && earlier.is_none() =>
                {
                    self.refused = Some(error);
                    self.send()?;
                }
                sent => {
                    sent?;
                    self.refused = earlier;
                }
            }
        }
        Ok(end.map_or(lines.len(), |end| end + 1))
    }

    /// Returns the error of an earlier message.
    fn flush(&mut self) -> io::Result<()> {
        self.refused.take().map_or(Ok(()), Err)
    }
}

fn unix_socket() -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

fn udp_socket(server: &str) -> io::Result<UdpSocket> {
    let mut addresses = server.to_socket_addrs()?;
    let address = addresses.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn receive(socket: impl Fn(&mut [u8]) -> io::Result<usize>) -> String {
        let mut buffer = [0; 16_000];
        let length = socket(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn addresses_of_servers() {
        let parse = |text: &str| text.parse::<Receiver>();
        assert_eq!(parse("unix:/dev/log"), Ok(Receiver::Unix("/dev/log".into())));
        assert_eq!(parse("[::1]:514"), Ok(Receiver::Udp("[::1]:514".to_owned())));
        for wrong in ["", "host", "host:0", "host:x", ":514", "unix:", "unix:log", "unix:514"] {
            assert!(parse(wrong).unwrap_err().contains("syslog:HOST:PORT"), "{wrong}");
        }
    }

    #[test]
    fn each_line_is_a_message() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let receiver = Receiver::Udp(server.local_addr().unwrap().to_string());
        let mut syslog = Syslog::open(&receiver).unwrap();
        syslog.write_all(format!("one\n{}\n", "x".repeat(20_000)).as_bytes()).unwrap();
        let (one, long) = (receive(|to| server.recv(to)), receive(|to| server.recv(to)));
        let head = format!(" larder {} access - one", std::process::id());
        assert!(one.starts_with("<190>1 20") && one.ends_with(&head), "{one}");
        assert!(long.ends_with('x') && long.len() < 8192, "{}", long.len());
    }

    #[test]
    fn a_local_server_may_come_and_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut syslog = Syslog::open(&Receiver::Unix(path.clone())).unwrap();
        assert!(syslog.write_all(b"lost\n").is_err());
        for line in ["first", "second"] {
            let server = UnixDatagram::bind(&path).unwrap();
            syslog.write_all(format!("{line}\n").as_bytes()).unwrap();
            let message = receive(|to| server.recv(to));
            let end = format!(" larder[{}]: {line}", std::process::id());
            assert!(message.starts_with("<190>") && message.ends_with(&end), "{message}");
            drop(server);
            assert!(syslog.write_all(b"lost\n").is_err());
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_server_that_takes_nothing_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let _server = UnixDatagram::bind(&path).unwrap();
        let mut syslog = Syslog::open(&Receiver::Unix(path)).unwrap();
        let sent = (0..100_000).try_for_each(|_| syslog.write_all(b"line\n"));
        assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
