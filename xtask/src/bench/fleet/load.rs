//! The clients: sessions with a keep-alive connection to each node; every response is checked.
//!
//! The caller chooses the documents, the nodes and the duration. The fields of a response tell
//! where it came from.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::task::LocalSet;

use crate::bench::exchange::{Connection, all};
use crate::bench::interruption::{self, interrupted};
use crate::bench::scenario::is_body;

/// Timeout for a response.
const PATIENCE: Duration = Duration::from_secs(15);

/// A request.
pub struct Asked {
    /// The node that receives it.
    pub node: usize,
    /// The path of the document.
    pub path: String,
    /// Number of the document.
    pub document: u64,
    /// Bytes of the document.
    pub size: usize,
}

/// Where a response came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// The memory of the node that received the request.
    Memory,
    /// The disk of that node.
    Disk,
    /// Either of the two.
    Cache,
    /// The cache of another node.
    Peer,
    /// The origin, or a fetch in progress.
    Origin,
}

impl Came {
    /// Reads the head of a node's response: `Cache-Status` of larder, or the fields that the other
    /// systems were configured to send, with the node whose cache responded and whether it was a
    /// hit.
    fn read(head: &[u8], node: usize) -> Came {
        let text = String::from_utf8_lossy(head);
        let field = |name: &str| {
            let fields = text.split("\r\n").filter_map(|line| line.split_once(':'));
            let values = fields.filter(|(found, _)| found.eq_ignore_ascii_case(name));
            values.map(|(_, value)| value.trim()).last()
        };
        if let Some(status) = field("cache-status") {
            return match status.rsplit_once("detail=").map(|(_, detail)| detail) {
                Some("HIT_RAM") => Came::Memory,
                Some("HIT_DISK") => Came::Disk,
                Some("HIT_PEER") => Came::Peer,
                _ => Came::Origin,
            };
        }
        match (field(NODE), field(RESULT)) {
            (Some(of), Some("HIT")) if of == node.to_string() => Came::Cache,
            (Some(_), Some("HIT")) => Came::Peer,
            _ => Came::Origin,
        }
    }

    /// Returns whether the response came from the node's own cache.
    pub fn is_own(self) -> bool {
        matches!(self, Came::Memory | Came::Disk | Came::Cache)
    }
}

/// Field with the number of the node whose cache responded, for systems without `Cache-Status`.
pub const NODE: &str = "x-node";
/// Field that is "HIT" if that node had the document.
pub const RESULT: &str = "x-result";

/// Results of requests.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Number of responses.
    pub answers: u64,
    /// Responses by [`Came`].
    pub came: [u64; 5],
    /// Bytes of the bodies.
    pub bytes: u64,
    /// Requests without a response, where such are expected.
    pub errors: u64,
    /// The first of these errors.
    pub first_error: Option<String>,
    /// Latency of each response in microseconds.
    latencies: Vec<u32>,
}

impl Counts {
    /// Returns the share of the responses that came from there.
    pub fn share(&self, came: Came) -> f64 {
        self.came[came as usize] as f64 / self.answers.max(1) as f64
    }

    /// Returns the latency in µs that `percent` of the responses did not exceed.
    pub fn percentile(&self, percent: f64) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
        f64::from(sorted[(last as f64 * percent / 100.0) as usize])
    }
}

/// Failure of one request.
enum Failure {
    /// No response, an error, or a truncated response.
    Missing(String),
    /// Bytes that are not those of the document.
    Wrong(String),
}

/// The load generator.
pub struct Load {
    to: Vec<SocketAddr>,
    sessions: usize,
    body_max: usize,
    counts: RefCell<Counts>,
    /// True if requests to a node may fail.
    may_fail: Cell<bool>,
    gone: Cell<Option<usize>>,
}

impl Load {
    /// Returns a load of `sessions` sessions for the nodes at `to`, with bodies of at most
    /// `body_max` bytes.
    pub fn new(to: Vec<SocketAddr>, sessions: usize, body_max: usize) -> Load {
        let (counts, may_fail, gone) = (RefCell::default(), Cell::new(false), Cell::new(None));
        Load { to, sessions, body_max, counts, may_fail, gone }
    }

    /// Permits failures from now on. They are counted, except those of requests to the killed node.
    pub fn expect_failures(&self, killed: usize) {
        self.may_fail.set(true);
        self.gone.set(Some(killed));
    }

    /// Returns the number of responses since the counts were last taken.
    pub fn answers(&self) -> u64 {
        self.counts.borrow().answers
    }

    /// Returns the counts and resets them.
    pub fn take(&self) -> Counts {
        self.counts.take()
    }

    /// Sends requests until `next` returns `None`. Runs `beside` concurrently, which need not end.
    ///
    /// # Errors
    ///
    /// When a response is wrong or the program is interrupted; when a response is missing, unless
    /// failures are expected.
    pub fn run(
        &self,
        next: &dyn Fn() -> Option<Asked>,
        beside: impl Future<Output = ()>,
    ) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| format!("the load generator: {e}"))?;
        interruption::check()?;
        let ended = LocalSet::new().block_on(&runtime, async {
            let beside = async {
                beside.await;
                std::future::pending::<()>().await;
            };
            tokio::select! {
                ended = all((0..self.sessions).map(|_| self.session(next)).collect()) => ended,
                why = interrupted() => Err(why),
                () = beside => Ok(()),
            }
        });
        // The signal may have ended the nodes, too.
        interruption::check().and(ended)
    }

    /// Sends each of these requests once, one after another, and returns where the responses came
    /// from.
    ///
    /// # Errors
    ///
    /// Those of [`Load::run`].
    pub fn ask_each(&self, requests: Vec<Asked>) -> Result<Vec<Came>, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| format!("the load generator: {e}"))?;
        runtime.block_on(async {
            let mut connections: Vec<Option<Connection>> = self.to.iter().map(|_| None).collect();
            let mut came = Vec::new();
            for asked in &requests {
                interruption::check()?;
                match self.ask(&mut connections, asked).await {
                    Ok((from, _)) => came.push(from),
                    Err(Failure::Missing(why) | Failure::Wrong(why)) => return Err(why),
                }
            }
            Ok(came)
        })
    }

    async fn session(&self, next: &dyn Fn() -> Option<Asked>) -> Result<(), String> {
        let mut connections: Vec<Option<Connection>> = self.to.iter().map(|_| None).collect();
        while let Some(asked) = next() {
            let begin = Instant::now();
            match self.ask(&mut connections, &asked).await {
                Ok((came, bytes)) => self.count(came, bytes, begin.elapsed()),
                Err(Failure::Wrong(why)) => return Err(why),
                Err(Failure::Missing(why)) if !self.may_fail.get() => return Err(why),
                Err(Failure::Missing(_)) if self.gone.get() == Some(asked.node) => (),
                Err(Failure::Missing(why)) => {
                    let mut counts = self.counts.borrow_mut();
                    counts.errors += 1;
                    counts.first_error.get_or_insert(why);
                }
            }
        }
        Ok(())
    }

    fn count(&self, came: Came, bytes: u64, time: Duration) {
        let mut counts = self.counts.borrow_mut();
        counts.answers += 1;
        counts.came[came as usize] += 1;
        counts.bytes += bytes;
        counts.latencies.push(u32::try_from(time.as_micros()).unwrap_or(u32::MAX));
    }

    /// Sends a request on the connection to its node; after a failure the connection is closed.
    async fn ask(
        &self,
        connections: &mut [Option<Connection>],
        asked: &Asked,
    ) -> Result<(Came, u64), Failure> {
        let kept = &mut connections[asked.node];
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => Connection::open(self.to[asked.node], self.body_max)
                .await
                .map_err(Failure::Missing)?,
        };
        let answer = tokio::time::timeout(PATIENCE, connection.get_all(&asked.path)).await;
        let answer = answer.map_err(|_| format!("{}: no answer in time", asked.path));
        let (head, body) = answer.flatten().map_err(Failure::Missing)?;
        if !is_body(asked.document, asked.size, body) {
            let why = format!("{}: a wrong body of {} bytes", asked.path, body.len());
            return Err(Failure::Wrong(why));
        }
        let came = (Came::read(head, asked.node), body.len() as u64);
        *kept = Some(connection);
        Ok(came)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_where_it_came_from() {
        let came =
            |fields: &str| Came::read(format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes(), 1);
        assert_eq!(came("Cache-Status: larder; hit; ttl=3; detail=HIT_RAM\r\n"), Came::Memory);
        assert_eq!(came("cache-status: larder; hit; detail=HIT_DISK\r\n"), Came::Disk);
        assert_eq!(came("cache-status: larder; fwd=uri-miss; detail=HIT_PEER\r\n"), Came::Peer);
        assert_eq!(came("cache-status: larder; fwd=uri-miss; detail=MISS\r\n"), Came::Origin);
        assert_eq!(came("X-Node: 1\r\nX-Result: HIT\r\n"), Came::Cache);
        assert_eq!(came("X-Node: 2\r\nX-Result: HIT\r\n"), Came::Peer);
        assert_eq!(came("X-Node: 1\r\nX-Result: MISS\r\n"), Came::Origin);
        assert_eq!(came(""), Came::Origin);
    }

    #[test]
    fn shares_and_percentiles_are_of_the_answers() {
        let mut counts = Counts { answers: 4, latencies: vec![4, 2, 3, 1], ..Counts::default() };
        counts.came[Came::Peer as usize] = 3;
        assert_eq!((counts.share(Came::Peer), counts.share(Came::Disk)), (0.75, 0.0));
        assert_eq!((counts.percentile(0.0), counts.percentile(100.0)), (1.0, 4.0));
        assert_eq!(Counts::default().percentile(50.0), 0.0);
    }
}
