//! Access log: one line per request, written to the file by a dedicated thread.
//!
//! A worker formats its line and appends it to a buffer shared by all workers. The log's thread
//! writes the buffer to the file at least once a second. A worker never waits for the log's disk.
//! If that disk is full, slow or gone, the buffer fills, further lines are dropped and counted, and
//! the first error is reported once. Requests are served as before.
//!
//! The file is opened for appending and reopened on request ([`AccessLog::reopen`], for log
//! rotation). If a failed write leaves a partial line, a line feed is written before the next line,
//! so at most that one line is unreadable.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

mod format;
mod line;
mod text;

pub use format::Format;
pub use line::{Hierarchy, Record};

/// Number of buffered bytes at which the writer is woken early.
const BATCH: usize = 64 << 10;
/// Upper bound on buffered bytes; lines beyond it are dropped.
const BOUND: usize = 4 << 20;
/// Longest time that a line stays in the buffer.
const INTERVAL: Duration = Duration::from_secs(1);

/// Destination of the lines.
enum Target {
    /// File, opened again on each [`AccessLog::reopen`].
    File(PathBuf),
    /// Standard output.
    Stdout,
}

impl Target {
    fn open(&self) -> io::Result<Box<dyn Write + Send>> {
        match self {
            Target::Stdout => Ok(Box::new(io::stdout())),
            Target::File(path) => open_file(path).map(|file| Box::new(file) as _),
        }
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).open(path).map_err(|error| {
        let path = path.display();
        io::Error::new(error.kind(), format!("the access log {path} cannot be opened: {error}"))
    })
}

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
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl AccessLog {
    /// Opens the log at `path` (`-`: standard output), creating the file if necessary, and starts
    /// its thread. The error names the file.
    pub fn open(path: &Path, format: Format) -> io::Result<AccessLog> {
        let target = match path.as_os_str() == "-" {
            true => Target::Stdout,
            false => Target::File(path.to_owned()),
        };
        let sink = target.open()?;
        AccessLog::start(format, sink, move || target.open())
    }

    fn start(
        format: Format,
        sink: Box<dyn Write + Send>,
        open: impl Fn() -> io::Result<Box<dyn Write + Send>> + Send + 'static,
    ) -> io::Result<AccessLog> {
        let shared = Arc::new(Shared::default());
        let mut writer = Writer { shared: shared.clone(), sink, torn: false, warned: false };
        let thread = std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || writer.run(open))?;
        Ok(AccessLog { format: Arc::new(format), shared, writer: Mutex::new(Some(thread)) })
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

    /// Writes the buffered lines and ends the thread. Later lines are dropped.
    pub fn close(&self) {
        self.shared.waiting().close = true;
        self.shared.wake.notify_one();
        let thread = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            log::error!("the access log thread panicked");
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
    sink: Box<dyn Write + Send>,
    /// True if the last write ended in the middle of a line.
    torn: bool,
    /// True if an error was reported since the log was opened.
    warned: bool,
}

impl Writer {
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
        let deadline = Instant::now() + INTERVAL;
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
            let lost = rest.iter().filter(|&&b| b == b'\n').count() as u64;
            self.shared.dropped.fetch_add(lost, Ordering::Relaxed);
            let hint = match error.kind() {
                io::ErrorKind::FileTooLarge => {
                    "; it has reached the limit on file sizes (ulimit -f, LimitFSIZE=): rotate it, \
                     or raise the limit"
                }
                _ => "",
            };
            self.trouble(format_args!("the access log cannot be written: {error}{hint}"));
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
        self.warned = false;
        match open() {
            Ok(sink) => {
                self.sink = sink;
                self.torn = false;
            }
            Err(error) => self.trouble(format_args!("{error}; the open file stays in use")),
        }
    }

    fn trouble(&mut self, what: std::fmt::Arguments<'_>) {
        self.shared.errors.fetch_add(1, Ordering::Relaxed);
        if !self.warned {
            self.warned = true;
            log::warn!("{what}; lines are lost and counted, requests are served as before");
        }
    }
}

#[cfg(test)]
mod tests;
