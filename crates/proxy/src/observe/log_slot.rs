//! The access logs in use, which a reload may open, replace or end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwapOption;

use crate::observe::access_log::{AccessLog, Format, Record};
use crate::observe::access_logs::AccessLogs;
use crate::observe::metrics::{Samples, Source};

/// The access logs of a process, if it has any now.
#[derive(Default)]
pub struct LogSlot {
    /// True if there is a log.
    is_on: AtomicBool,
    logs: ArcSwapOption<AccessLogs>,
    /// Figures of the logs that were replaced.
    dropped: AtomicU64,
    errors: AtomicU64,
}

impl LogSlot {
    /// Creates a slot with the first logs.
    pub fn new(logs: AccessLogs) -> LogSlot {
        let slot = LogSlot::default();
        slot.replace(logs);
        slot
    }

    /// Returns the format of the logs, if there are any.
    pub fn format(&self) -> Option<Arc<Format>> {
        if !self.is_on.load(Ordering::Relaxed) {
            return None;
        }
        self.logs.load().as_ref().and_then(|logs| logs.format().cloned())
    }

    /// Writes a request to the log of its site, if there is one.
    pub fn log(&self, record: &Record<'_>) {
        if let Some(logs) = &*self.logs.load() {
            logs.log(record);
        }
    }

    /// Opens the files of the logs again, see [`AccessLog::reopen`].
    pub fn reopen(&self) {
        if let Some(logs) = &*self.logs.load() {
            logs.all().iter().for_each(AccessLog::reopen);
        }
    }

    /// Replaces the logs, then writes the buffered lines of the old ones and closes them.
    pub fn replace(&self, logs: AccessLogs) {
        let logs = Some(logs).filter(|logs| !logs.all().is_empty());
        self.is_on.store(logs.is_some(), Ordering::Relaxed);
        let Some(old) = self.logs.swap(logs.map(Arc::new)) else { return };
        // Workers hold them only while they append a line; a late line is dropped and counted.
        for _ in 0..100 {
            if Arc::strong_count(&old) == 1 {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        for log in old.all() {
            log.close();
            self.dropped.fetch_add(log.dropped(), Ordering::Relaxed);
            self.errors.fetch_add(log.errors(), Ordering::Relaxed);
        }
    }

    /// Writes the buffered lines and closes the logs.
    pub fn close(&self) {
        self.replace(AccessLogs::default());
    }

    /// Returns a figure of all logs that there were; `replaced` is that of the replaced ones.
    fn sum(&self, replaced: &AtomicU64, figure: fn(&AccessLog) -> u64) -> u64 {
        let logs = self.logs.load();
        let now = logs.as_ref().map_or(0, |logs| logs.all().iter().map(figure).sum());
        replaced.load(Ordering::Relaxed) + now
    }
}

/// The figures of the logs of a process.
pub(crate) struct LogFigures(pub Arc<LogSlot>);

impl Source for LogFigures {
    fn samples(&self, out: &mut Samples) {
        let slot = &self.0;
        let help = "Access log lines that could not be written.";
        let dropped = slot.sum(&slot.dropped, AccessLog::dropped);
        out.counter("larder_access_log_lines_dropped", help, &[], dropped);
        let help = "Failed writes and openings of the access log.";
        let errors = slot.sum(&slot.errors, AccessLog::errors);
        out.counter("larder_access_log_errors", help, &[], errors);
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
    use crate::observe::log_fields::LogFields;
    use crate::observe::outcome::Outcome;

    #[test]
    fn lines_go_to_the_log_in_use_and_to_that_of_their_site() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two, shop] = ["one", "two", "shop"].map(|name| dir.path().join(name));
        let open = |path, format| {
            let own = |name: &str, path| (name.to_owned(), path);
            let sites = [own("shop", Some(&shop)), own("more", Some(&shop)), own("quiet", None)];
            let sites = sites.map(|(name, path)| (name, path.cloned())).into();
            AccessLogs::open(path, &sites, &Arc::new(format)).unwrap()
        };
        let mut texts = LogFields::default();
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
        slot.replace(open(Some(&one), Format::Combined));
        assert!(slot.format().is_some());
        slot.log(&record);
        slot.replace(open(Some(&two), Format::Json));
        slot.log(&record);
        for site in ["shop", "more", "quiet", "other"] {
            texts.clear();
            texts.set_place(Some(site), None);
            slot.log(&Record { texts: Some(&texts), ..record });
        }
        slot.close();
        slot.log(&record);
        assert!(slot.format().is_none());
        let [one, two, shop] = [one, two, shop].map(|path| std::fs::read_to_string(path).unwrap());
        let lines = [&one, &two, &shop].map(|text| text.lines().count());
        assert_eq!(lines, [1, 2, 2], "{one}{two}{shop}");
        assert!(one.starts_with("127.0.0.1 - ") && two.starts_with('{'), "{one}{two}");
    }
}
