//! Connections for sequences of requests, on which any response is taken as far as it comes.

use std::net::SocketAddr;
use std::time::Duration;

use testkit::client::{Client, exchange_bytes};

/// Silence after which the client ends its side.
const SILENCE: Duration = Duration::from_millis(400);

/// Pause between two parts of a request.
const PAUSE: Duration = Duration::from_millis(20);

/// Sends bytes on a new connection, part after part, and returns all received bytes until it ends.
pub fn exchange(proxy: SocketAddr, parts: &[&[u8]], patience: Duration) -> Vec<u8> {
    let pause = |_: &_, left: usize| {
        if left > 0 {
            std::thread::sleep(PAUSE);
        }
    };
    exchange_bytes(proxy, parts, pause, (Some(SILENCE), patience)).bytes
}

/// Returns the statuses of the final responses in these bytes, in order. No body contains such a
/// line.
pub fn statuses(bytes: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.match_indices("HTTP/1.").filter_map(|(at, _)| {
        let rest = text.get(at + 9..)?;
        let digits = rest.get(..3)?;
        let is_line = text.as_bytes().get(at + 8) == Some(&b' ')
            && rest.as_bytes().get(3).is_none_or(|b| b" \r".contains(b));
        digits.parse().ok().filter(|status| is_line && *status >= 200)
    });
    lines.collect()
}

/// A response, as far as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Zero without a response.
    pub status: u16,
    pub head: String,
    pub body: String,
    /// True if its end is where its head states.
    pub whole: bool,
}

/// A connection for a sequence of requests.
pub struct Sequence {
    proxy: SocketAddr,
    client: Option<Client>,
    patience: Duration,
}

impl Sequence {
    pub fn new(proxy: SocketAddr, patience: Duration) -> Sequence {
        Sequence { proxy, client: None, patience }
    }

    /// Sends a request on the previous connection if it still exists; 1xx responses are skipped.
    pub fn ask(&mut self, method: &str, path: &str) -> Answer {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: site.test\r\n\r\n");
        let mut client = self.client.take().unwrap_or_else(|| {
            let mut client = Client::connect(self.proxy);
            client.take_silence();
            client.stream().set_read_timeout(Some(self.patience)).expect("a time-out can be set");
            client
        });
        let _ = client.try_send(request);
        let Ok(reply) = client.read(method) else {
            return Answer { status: 0, head: String::new(), body: String::new(), whole: false };
        };
        let says_close = reply.field("connection").is_some_and(|value| value.contains("close"));
        let stays = reply.whole && !says_close && !client.has_excess();
        let is_open = stays && !client.is_closed_after(Duration::from_millis(5));
        self.client = is_open.then_some(client);
        let head = reply.head.headers.iter().map(|(name, value)| format!("{name}: {value}"));
        Answer {
            status: reply.status,
            head: head.collect::<Vec<_>>().join("\n"),
            body: reply.text(),
            whole: reply.whole,
        }
    }
}
