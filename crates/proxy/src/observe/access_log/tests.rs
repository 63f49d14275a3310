//! Tests of the writer: order, rotation, and failed writes.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;
use std::time::SystemTime;

use super::*;
use crate::observe::outcome::Outcome;

fn record(url: &str) -> Record<'_> {
    Record {
        tls: None,
        ended: SystemTime::UNIX_EPOCH,
        duration: Duration::ZERO,
        client: "127.0.0.1".parse().unwrap(),
        method: "GET",
        url,
        version: http::Version::HTTP_11,
        status: 200,
        bytes_out: 2,
        body_out: 1,
        referer: None,
        user_agent: None,
        content_type: None,
        outcome: Outcome::HitRam,
        aborted: false,
        hierarchy: Hierarchy::None,
        upstream_addresses: None,
        texts: None,
    }
}

fn urls(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split(' ').nth(6).unwrap_or("torn").to_owned()).collect()
}

#[test]
fn every_line_of_every_worker_arrives() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    std::fs::write(&path, "before\n").unwrap();
    let log = AccessLog::open(&path, Format::Combined).unwrap();
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let log = &log;
            scope.spawn(move || {
                for i in 0..2000 {
                    log.log(&record(&format!("/{worker}/{i}")));
                }
            });
        }
    });
    log.close();
    log.log(&record("/late"));
    assert_eq!((log.dropped(), log.errors()), (1, 0));
    let text = std::fs::read_to_string(&path).unwrap();
    let urls = urls(text.strip_prefix("before\n").unwrap());
    assert_eq!(urls.len(), 8000);
    for worker in 0..4 {
        let of_worker: Vec<_> =
            urls.iter().filter(|url| url.starts_with(&format!("/{worker}/"))).cloned().collect();
        let expected: Vec<_> = (0..2000).map(|i| format!("/{worker}/{i}")).collect();
        assert_eq!(of_worker, expected);
    }
}

/// Waits until another thread makes `what` true.
fn eventually(what: impl Fn() -> bool) {
    for _ in 0..2000 {
        if what() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("did not happen");
}

#[test]
fn rotation_splits_between_lines() {
    let dir = tempfile::tempdir().unwrap();
    let (path, old) = (dir.path().join("access.log"), dir.path().join("access.log.1"));
    let log = AccessLog::open(&path, Format::Combined).unwrap();
    log.log(&record("/old"));
    std::fs::rename(&path, &old).unwrap();
    log.reopen();
    eventually(|| path.exists());
    log.log(&record("/new"));
    log.close();
    assert_eq!(urls(&std::fs::read_to_string(&old).unwrap()), ["/old"]);
    assert_eq!(urls(&std::fs::read_to_string(&path).unwrap()), ["/new"]);
}

#[test]
fn a_failed_reopening_keeps_the_open_file() {
    let dir = tempfile::tempdir().unwrap();
    let sub = dir.path().join("sub");
    std::fs::create_dir(&sub).unwrap();
    let path = sub.join("access.log");
    let log = AccessLog::open(&path, Format::Combined).unwrap();
    let kept = dir.path().join("kept");
    std::fs::rename(&sub, &kept).unwrap();
    log.reopen();
    eventually(|| log.errors() == 1);
    log.log(&record("/kept"));
    log.close();
    let text = std::fs::read_to_string(kept.join("access.log")).unwrap();
    assert_eq!(urls(&text), ["/kept"]);
    assert_eq!(log.dropped(), 0);
}

#[test]
fn opening_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("none/access.log");
    let error = AccessLog::open(&path, Format::Json).err().unwrap().to_string();
    assert!(error.contains("none/access.log"), "{error}");
}

#[test]
fn a_fifo_is_opened_only_with_a_reader() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let destination = Destination::parse(&path).unwrap();
    let error = destination.open().err().unwrap().to_string();
    assert!(error.ends_with("fifo cannot be opened: no program reads this FIFO"), "{error}");
    let reading = path.clone();
    let reader = std::thread::spawn(move || std::fs::read(reading).unwrap());
    eventually(|| destination.open().is_ok_and(|mut sink| sink.write_all(b"line\n").is_ok()));
    assert_eq!(reader.join().unwrap(), b"line\n");
}

/// Sink that fails on demand after accepting some bytes.
struct Failing {
    /// Number of bytes it still accepts.
    left: Arc<AtomicUsize>,
    taken: Arc<Mutex<Vec<u8>>>,
}

impl Write for Failing {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let n = buf.len().min(self.left.load(Ordering::SeqCst));
        if n == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.left.fetch_sub(n, Ordering::SeqCst);
        self.taken.lock().unwrap().extend_from_slice(&buf[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_costs_lines_and_nothing_else() {
    let left = Arc::new(AtomicUsize::new(10));
    let taken = Arc::new(Mutex::new(Vec::new()));
    let sink = Box::new(Failing { left: left.clone(), taken: taken.clone() });
    let log = AccessLog::start(Format::Combined.into(), INTERVAL, sink, || {
        Err(io::ErrorKind::NotFound.into())
    });
    let log = log.unwrap();
    log.log(&record("/torn"));
    log.log(&record("/lost"));
    log.reopen(); // writes what waits; the opening fails as well
    eventually(|| log.errors() == 2);
    assert_eq!(log.dropped(), 2);
    left.store(1 << 20, Ordering::SeqCst);
    log.log(&record("/again"));
    log.close();
    let text = String::from_utf8(taken.lock().unwrap().clone()).unwrap();
    assert_eq!(urls(&text), ["torn", "/again"], "{text}");
    assert_eq!(log.dropped(), 2);
}

/// Sink that blocks until it is released.
struct Stuck(mpsc::Receiver<()>);

impl Write for Stuck {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let _released = self.0.recv();
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_stuck_disk_blocks_no_worker_and_needs_bounded_memory() {
    let (release, stuck) = mpsc::channel();
    let sink = Box::new(Stuck(stuck));
    let log = AccessLog::start(Format::Json.into(), INTERVAL, sink, || {
        Err(io::ErrorKind::NotFound.into())
    })
    .unwrap();
    let long = "/".repeat(60_000);
    while log.dropped() < 10 {
        log.log(&record(&long));
    }
    assert!(log.shared.waiting().lines.len() <= BOUND);
    drop(release);
    log.close();
    assert_eq!(log.errors(), 0);
}
