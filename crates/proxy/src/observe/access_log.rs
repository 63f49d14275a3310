//! Access log: one line per request, written to the file by a dedicated thread.
//!
//! A worker formats its line and appends it to a buffer shared by all workers. The log's thread
//! writes the buffer to the file at least once a second. A worker never waits for the log's disk.
//! If that disk is full, slow or gone, the buffer fills and further lines are dropped and counted.
//! Losses and errors are reported at most once a minute. Requests are served as before.
//!
//! The file is opened for appending and reopened on request ([`AccessLog::reopen`], for log
//! rotation). If a failed write leaves a partial line, a line feed is written before the next line,
//! so at most that one line is unreadable.

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

mod destination;
mod format;
mod line;
mod syslog;
mod text;

pub use destination::Destination;
pub use format::Format;
pub use line::{Hierarchy, Record};

/// Number of buffered bytes at which the writer is woken early.
const BATCH: usize = 64 << 10;
/// Upper bound on buffered bytes; lines beyond it are dropped.
const BOUND: usize = 4 << 20;
/// Longest time that a line stays in the buffer.
const INTERVAL: Duration = Duration::from_secs(1);
/// The same for a syslog server, whose socket holds few messages.
const SYSLOG_INTERVAL: Duration = Duration::from_millis(100);
/// Shortest time between two reports of losses.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);
/// Longest time that a close waits for the last lines to be written.
const CLOSE_TIME: Duration = Duration::from_secs(5);

/// State shared by the workers and the writer.
#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    wake: Condvar,
    dropped: AtomicU64,
    errors: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    reopen: bool,
    close: bool,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Open access log, shared by all workers.
pub struct AccessLog {
    format: Arc<Format>,
    shared: Arc<Shared>,
    /// Disconnected when the thread has ended.
    ended: Mutex<Option<mpsc::Receiver<()>>>,
}

impl AccessLog {
    /// Opens the log at `path` ([`Destination::parse`]), creating a file if necessary, and starts
    /// its thread. The error names the destination.
    pub fn open(path: &Path, format: impl Into<Arc<Format>>) -> io::Result<AccessLog> {
        let destination = Destination::parse(path)
            .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        let sink = destination.open()?;
        let interval = match destination {
            Destination::Syslog(_) => SYSLOG_INTERVAL,
            Destination::File(_) | Destination::Stdout => INTERVAL,
        };
        AccessLog::start(format.into(), interval, sink, move || destination.open())
    }

    fn start(
        format: Arc<Format>,
        interval: Duration,
        sink: Box<dyn Write + Send>,
        open: impl Fn() -> io::Result<Box<dyn Write + Send>> + Send + 'static,
    ) -> io::Result<AccessLog> {
        let shared = Arc::new(Shared::default());
        let mut writer = Writer::new(shared.clone(), interval, sink);
        let (ends, ended) = mpsc::channel();
        std::thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            let _ends: mpsc::Sender<()> = ends;
            writer.run(open);
        })?;
        Ok(AccessLog { format, shared, ended: Mutex::new(Some(ended)) })
    }

    /// Returns the format of the lines.
    pub fn format(&self) -> &Arc<Format> {
        &self.format
    }

    /// Logs a request. Blocks only while other workers append their lines.
    pub fn log(&self, record: &Record<'_>) {
        thread_local! {
            static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        LINE.with_borrow_mut(|line| {
            line.clear();
            let of_request = record.texts.and_then(|texts| texts.format.as_deref());
            record.write(of_request.unwrap_or(&self.format), line);
            let mut waiting = self.shared.waiting();
            let before = waiting.lines.len();
            if waiting.close || before + line.len() > BOUND {
                drop(waiting);
                self.shared.dropped.fetch_add(1, Ordering::Relaxed);
                return;
            }
            waiting.lines.extend_from_slice(line);
            if before < BATCH && waiting.lines.len() >= BATCH {
                self.shared.wake.notify_one();
            }
        });
    }

    /// Makes the thread write the buffered lines to the open file and then open the path again. On
    /// failure, reports it and keeps using the open file.
    pub fn reopen(&self) {
        self.shared.waiting().reopen = true;
        self.shared.wake.notify_one();
    }

    /// Writes the buffered lines and ends the thread. Later lines are dropped. A destination that
    /// takes nothing is not waited for longer than `CLOSE_TIME`.
    pub fn close(&self) {
        self.shared.waiting().close = true;
        self.shared.wake.notify_one();
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = ended.map(|ended| ended.recv_timeout(CLOSE_TIME));
        if ended == Some(Err(mpsc::RecvTimeoutError::Timeout)) {
            log::warn!("the access log takes no lines: the last ones are lost");
        }
    }

    /// Returns the number of lines dropped because they could not be written.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Returns the number of failed writes and failed opens.
    pub fn errors(&self) -> u64 {
        self.shared.errors.load(Ordering::Relaxed)
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.close();
    }
}

struct Writer {
    shared: Arc<Shared>,
    /// Longest time that a line stays in the buffer.
    interval: Duration,
    sink: Box<dyn Write + Send>,
    /// True if the last write ended in the middle of a line.
    torn: bool,
    /// Latest error that was not reported.
    problem: Option<String>,
    /// Number of lost lines that were reported, and the time of the report.
    reported: (u64, Option<Instant>),
}

impl Writer {
    fn new(shared: Arc<Shared>, interval: Duration, sink: Box<dyn Write + Send>) -> Writer {
        Writer { shared, interval, sink, torn: false, problem: None, reported: (0, None) }
    }

    fn run(&mut self, open: impl Fn() -> io::Result<Box<dyn Write + Send>>) {
        let mut batch = Vec::new();
        loop {
            let (reopen, close) = self.next(&mut batch);
            self.write(&batch);
            batch.clear();
            if batch.capacity() > 2 * BATCH {
                batch = Vec::new();
            }
            if reopen {
                self.reopen(&open);
            }
            self.report();
            if close {
                return;
            }
        }
    }

    /// Waits for work and swaps the lines to write into `batch`. Returns whether to reopen and
    /// whether to close. Runs on the log's own thread, so it may wait by the system clock.
    #[allow(clippy::disallowed_methods)]
    fn next(&self, batch: &mut Vec<u8>) -> (bool, bool) {
        let mut waiting = self.shared.waiting();
        let deadline = Instant::now() + self.interval;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let due = left.is_zero() || waiting.lines.len() >= BATCH;
            if waiting.reopen || waiting.close || due {
                std::mem::swap(&mut waiting.lines, batch);
                return (std::mem::take(&mut waiting.reopen), waiting.close);
            }
            let woken = self.shared.wake.wait_timeout(waiting, left);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn write(&mut self, batch: &[u8]) {
        if batch.is_empty() {
            return;
        }
        let mut rest = batch;
        if let Err(error) = self.write_some(&mut rest) {
            // With no line left the error is about an earlier one.
            let lost = rest.iter().filter(|&&b| b == b'\n').count().max(1) as u64;
            self.shared.dropped.fetch_add(lost, Ordering::Relaxed);
            let hint = match error.kind() {
                io::ErrorKind::FileTooLarge => {
                    "; it has reached the limit on file sizes (ulimit -f, LimitFSIZE=): rotate it, \
                     or raise the limit"
                }
                _ => "",
            };
            self.note(format!("the access log cannot be written: {error}{hint}"));
        }
    }

    /// Writes `rest` and advances it past the bytes that were written.
    fn write_some(&mut self, rest: &mut &[u8]) -> io::Result<()> {
        if self.torn {
            let ended = self.sink.write(b"\n");
            if ended? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.torn = false;
        }
        while !rest.is_empty() {
            match self.sink.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.torn = rest[n - 1] != b'\n';
                    *rest = &rest[n..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.sink.flush()
    }

    fn reopen(&mut self, open: impl Fn() -> io::Result<Box<dyn Write + Send>>) {
        self.reported.1 = None;
        match open() {
            Ok(sink) => {
                self.sink = sink;
                self.torn = false;
            }
            Err(error) => self.note(format!("{error}; the open file stays in use")),
        }
    }

    fn note(&mut self, problem: String) {
        self.shared.errors.fetch_add(1, Ordering::Relaxed);
        self.problem = Some(problem);
    }

    /// Reports errors and lost lines, at most once in [`REPORT_INTERVAL`]. Runs on the log's own
    /// thread, so it may use the system clock.
    #[allow(clippy::disallowed_methods)]
    fn report(&mut self) {
        let (before, at) = self.reported;
        let dropped = self.shared.dropped.load(Ordering::Relaxed);
        let is_news = dropped > before || self.problem.is_some();
        let now = Instant::now();
        if !is_news || at.is_some_and(|at| now.saturating_duration_since(at) < REPORT_INTERVAL) {
            return;
        }
        self.reported = (dropped, Some(now));
        let problem = self.problem.take();
        let problem = problem.as_deref().unwrap_or("the access log is written too slowly");
        let lost = dropped - before;
        log::warn!("{problem}; lines lost: {lost}; requests are served as before");
    }
}

#[cfg(test)]
mod tests;
