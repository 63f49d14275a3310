//! The clients: sessions with a keep-alive connection to each node, every answer checked.
//!
//! Which document is asked for at which node, and for how long, is the caller's. What an answer
//! says of itself tells where it came from.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::task::LocalSet;

use crate::bench::exchange::{Connection, all};
use crate::bench::interruption::{self, interrupted};
use crate::bench::scenario::is_body;

/// Time for an answer, after which there is none.
const PATIENCE: Duration = Duration::from_secs(15);

/// A request.
pub struct Asked {
    /// The node that is asked.
    pub node: usize,
    /// The path of the document.
    pub path: String,
    /// Its number.
    pub document: u64,
    /// Its bytes.
    pub size: usize,
}

/// Where an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// The memory of the node that was asked.
    Memory,
    /// Its disk.
    Disk,
    /// One of the two.
    Cache,
    /// The cache of another node.
    Peer,
    /// The origin, or a fetch that was under way.
    Origin,
}

impl Came {
    /// Reads the head of the answer of a node: `Cache-Status` of larder, or what the others were
    /// configured to say, the node whose cache has answered and whether it had the document.
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

    /// Returns whether it is the node's own.
    pub fn is_own(self) -> bool {
        matches!(self, Came::Memory | Came::Disk | Came::Cache)
    }
}

/// The field with the number of the node whose cache has answered, of systems without one.
pub const NODE: &str = "x-node";
/// The field with "HIT" where it had the document.
pub const RESULT: &str = "x-result";

/// What came of requests.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Answers.
    pub answers: u64,
    /// Of them, by [`Came`].
    pub came: [u64; 5],
    /// Bytes of the bodies.
    pub bytes: u64,
    /// Requests without an answer, where such are expected.
    pub errors: u64,
    /// What the first of them was.
    pub first_error: Option<String>,
    /// Microseconds of each answer.
    latencies: Vec<u32>,
}

impl Counts {
    /// Returns the share of the answers that came from there.
    pub fn share(&self, came: Came) -> f64 {
        self.came[came as usize] as f64 / self.answers.max(1) as f64
    }

    /// Returns the latency in µs that `percent` of the answers did not exceed.
    pub fn percentile(&self, percent: f64) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
        f64::from(sorted[(last as f64 * percent / 100.0) as usize])
    }
}

/// What goes wrong with one request.
enum Failure {
    /// No answer, an error, or one that is cut off.
    Missing(String),
    /// Bytes that are not those of the document.
    Wrong(String),
}

/// See the module.
pub struct Load {
    to: Vec<SocketAddr>,
    sessions: usize,
    body_max: usize,
    counts: RefCell<Counts>,
    /// Whether requests may fail at a node.
    may_fail: Cell<bool>,
    gone: Cell<Option<usize>>,
}

impl Load {
    /// Returns so many sessions with the nodes at `to`, for bodies of so many bytes at most.
    pub fn new(to: Vec<SocketAddr>, sessions: usize, body_max: usize) -> Load {
        let (counts, may_fail, gone) = (RefCell::default(), Cell::new(false), Cell::new(None));
        Load { to, sessions, body_max, counts, may_fail, gone }
    }

    /// Lets requests fail from now on, which then are counted; those to the node that is killed
    /// are not.
    pub fn expect_failures(&self, killed: usize) {
        self.may_fail.set(true);
        self.gone.set(Some(killed));
    }

    /// Returns the number of answers so far, since the counts were taken.
    pub fn answers(&self) -> u64 {
        self.counts.borrow().answers
    }

    /// Returns the counts, which begin anew.
    pub fn take(&self) -> Counts {
        self.counts.take()
    }

    /// Asks until `next` returns nothing. Meanwhile does `beside`, which need not end.
    ///
    /// # Errors
    ///
    /// When an answer is not the right one or the program is interrupted; when there is none,
    /// unless that is expected.
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

    /// Asks for each of these once, one after another, and returns where the answers came from.
    ///
    /// # Errors
    ///
    /// As [`Load::run`].
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

    /// Asks on the connection to the node, which is closed after a failure.
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
