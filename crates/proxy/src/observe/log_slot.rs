//! The access log in use, which a reload may open, replace or end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwapOption;

use crate::observe::access_log::{AccessLog, Format, Record};
use crate::observe::metrics::{Samples, Source};

/// The access log of a process, if it has one now.
#[derive(Default)]
pub struct LogSlot {
    /// True if there is a log.
    is_on: AtomicBool,
    log: ArcSwapOption<AccessLog>,
    /// Figures of the logs that were replaced.
    dropped: AtomicU64,
    errors: AtomicU64,
}

impl LogSlot {
    /// Creates a slot with the first log.
    pub fn new(log: Option<AccessLog>) -> LogSlot {
        let slot = LogSlot::default();
        slot.replace(log);
        slot
    }

    /// Returns the format of the log, if there is one.
    pub fn format(&self) -> Option<Arc<Format>> {
        if !self.is_on.load(Ordering::Relaxed) {
            return None;
        }
        self.log.load().as_ref().map(|log| log.format().clone())
    }

    /// Writes a request to the log, if there is one.
    pub fn log(&self, record: &Record<'_>) {
        if let Some(log) = &*self.log.load() {
            log.log(record);
        }
    }

    /// Opens the log's file again, see [`AccessLog::reopen`].
    pub fn reopen(&self) {
        if let Some(log) = &*self.log.load() {
            log.reopen();
        }
    }

    /// Replaces the log, then writes the buffered lines of the old one and closes it.
    pub fn replace(&self, log: Option<AccessLog>) {
        self.is_on.store(log.is_some(), Ordering::Relaxed);
        let Some(old) = self.log.swap(log.map(Arc::new)) else { return };
        // Workers hold it only while they append a line; a late line is dropped and counted.
        for _ in 0..100 {
            if Arc::strong_count(&old) == 1 {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        old.close();
        self.dropped.fetch_add(old.dropped(), Ordering::Relaxed);
        self.errors.fetch_add(old.errors(), Ordering::Relaxed);
    }

    /// Writes the buffered lines and closes the log.
    pub fn close(&self) {
        self.replace(None);
    }
}

/// The figures of the logs of a process.
pub(crate) struct LogFigures(pub Arc<LogSlot>);

impl Source for LogFigures {
    fn samples(&self, out: &mut Samples) {
        let slot = &self.0;
        let log = slot.log.load();
        let (dropped, errors) = log.as_ref().map_or((0, 0), |log| (log.dropped(), log.errors()));
        let help = "Access log lines that could not be written.";
        let all = dropped + slot.dropped.load(Ordering::Relaxed);
        out.counter("larder_access_log_lines_dropped", help, &[], all);
        let help = "Failed writes and openings of the access log.";
        let all = errors + slot.errors.load(Ordering::Relaxed);
        out.counter("larder_access_log_errors", help, &[], all);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::SystemTime;

    use http::Version;

    use super::*;
    use crate::observe::access_log::Hierarchy;
    use crate::observe::outcome::Outcome;

    #[test]
    fn lines_go_to_the_log_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| dir.path().join(name));
        let open = |path, format| Some(AccessLog::open(path, format).unwrap());
        let record = Record {
            ended: SystemTime::UNIX_EPOCH,
            duration: Duration::ZERO,
            client: IpAddr::V4(Ipv4Addr::LOCALHOST),
            method: "GET",
            url: "/",
            version: Version::HTTP_11,
            tls: None,
            status: 200,
            bytes_out: 0,
            body_out: 0,
            referer: None,
            user_agent: None,
            content_type: None,
            outcome: Outcome::Miss,
            aborted: false,
            hierarchy: Hierarchy::None,
            upstream_addresses: None,
            texts: None,
        };
        let slot = LogSlot::default();
        assert!(slot.format().is_none());
        slot.log(&record);
        slot.replace(open(&one, Format::Combined));
        assert!(slot.format().is_some());
        slot.log(&record);
        slot.replace(open(&two, Format::Json));
        slot.log(&record);
        slot.close();
        slot.log(&record);
        assert!(slot.format().is_none());
        let [one, two] = [one, two].map(|path| std::fs::read_to_string(path).unwrap());
        assert_eq!((one.lines().count(), two.lines().count()), (1, 1));
        assert!(one.starts_with("127.0.0.1 - ") && two.starts_with('{'), "{one}{two}");
    }
}
