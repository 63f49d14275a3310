//! Log messages on standard error.
//!
//! Messages from all crates arrive through the `log` crate. A line begins with a time and a level
//! or, if standard error is systemd's journal, with the level in the journal's form (`<4>`); the
//! journal adds the time itself.

use std::io;
use std::io::Write;
use std::time::SystemTime;

use log::{Level, LevelFilter, Log, Metadata, Record};

struct Messages {
    journal: bool,
}

/// Sends messages to standard error from now on. `level` is one of the words of `log-level`.
pub fn start(level: &str) {
    let journal = std::env::var_os("JOURNAL_STREAM").is_some();
    // Only a second call can fail, and then the existing logger is equivalent.
    let _ = log::set_boxed_logger(Box::new(Messages { journal }));
    set_level(level);
}

/// Changes the least severe level that is written.
pub fn set_level(level: &str) {
    log::set_max_level(level.parse().unwrap_or(LevelFilter::Info));
}

impl Log for Messages {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            // Writes each line with one call, so that lines of several threads do not mix. Errors
            // are ignored, because they cannot be reported without standard error.
            let line = line(self.journal, SystemTime::now(), record.level(), record.args());
            let _ = io::stderr().write_all(line.as_bytes());
        }
    }

    fn flush(&self) {}
}

/// Formats one line. Control characters are escaped, because parts of a message may come from
/// clients or servers.
fn line(journal: bool, now: SystemTime, level: Level, text: &std::fmt::Arguments<'_>) -> String {
    let mut line = match (journal, level) {
        (true, Level::Error) => "<3>".to_owned(),
        (true, Level::Warn) => "<4>".to_owned(),
        (true, Level::Info) => "<6>".to_owned(),
        (true, _) => "<7>".to_owned(),
        (false, level) => {
            format!("{} {level:5} ", humantime::format_rfc3339_millis(now))
        }
    };
    for c in text.to_string().chars() {
        match c.is_control() {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn lines() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_500);
        assert_eq!(
            line(false, now, Level::Warn, &format_args!("disk {}", 1)),
            "2023-11-14T22:13:20.500Z WARN  disk 1\n"
        );
        assert_eq!(line(true, now, Level::Warn, &format_args!("x")), "<4>x\n");
        assert_eq!(
            line(true, now, Level::Info, &format_args!("a\nb\u{1b}[1m")),
            "<6>a\\nb\\u{1b}[1m\n"
        );
    }
}
