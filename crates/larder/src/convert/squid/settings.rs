//! Settings of sizes, times and the log.

use crate::convert::output::{Output, text};
use crate::convert::rule_draft::{RuleDraft, Tests};
use crate::convert::squid::line::Line;

/// Sets the cache and its size.
pub fn cache_dir(line: &Line, out: &mut Output) {
    // cache_dir ufs DIRECTORY MEGABYTES LEVELS: Larder's cache is one file of that size.
    out.set("cache", text("/var/lib/larder/larder.cache"));
    match line.word(3).parse::<u64>().ok().and_then(|size| size.checked_mul(1 << 20)) {
        Some(size) if size >= 64 << 20 => out.set("cache-size", text(&cli::units::size(size))),
        _ => out.lose(&line.at, "cache_dir", "expected a size of at least 64 MB"),
    }
}

/// Returns a size such as `256 MB`.
fn bytes(line: &Line) -> Option<u64> {
    let unit: u64 = match line.word(2).to_ascii_uppercase().as_str() {
        "" | "BYTES" => 1,
        "KB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        _ => 0,
    };
    line.word(1).parse::<u64>().ok().and_then(|size| size.checked_mul(unit)).filter(|_| unit > 0)
}

/// Limits the bodies of requests; 0 is no limit.
pub fn max_body(line: &Line, out: &mut Output) {
    match bytes(line) {
        Some(0) => {}
        Some(bytes) => {
            let mut rule = RuleDraft::new(&line.words.join(" "), &Tests::default());
            rule.continues = true;
            rule.set("max-body", text(&cli::units::size(bytes)));
            rule.push(out);
        }
        None => out.lose(&line.at, line.word(0), "expected a size"),
    }
}

/// Sets a size.
pub fn size(line: &Line, key: &str, least: u64, out: &mut Output) {
    match bytes(line).filter(|bytes| *bytes >= least && *bytes > 0) {
        Some(bytes) => out.set(key, text(&cli::units::size(bytes))),
        None => out.lose(&line.at, line.word(0), "expected a size that Larder accepts"),
    }
}

fn duration(number: &str, unit: &str) -> Option<std::time::Duration> {
    let seconds: u64 = match unit.trim_end_matches('s') {
        "" | "second" => 1,
        "minute" => 60,
        "hour" => 3600,
        "day" => 86_400,
        "week" => 604_800,
        _ => return None,
    };
    let seconds = number.parse::<u64>().ok()?.checked_mul(seconds)?;
    (seconds <= 2_147_483_647).then(|| std::time::Duration::from_secs(seconds))
}

/// Sets times.
pub fn time(line: &Line, keys: &[&str], out: &mut Output) {
    match duration(line.word(1), line.word(2)) {
        Some(time) => keys.iter().for_each(|key| out.set(key, text(&cli::units::duration(time)))),
        None => out.lose(&line.at, line.word(0), "expected a duration"),
    }
}

/// Sets the log and its format.
pub fn access_log(line: &Line, out: &mut Output) {
    let target = line.word(1);
    let target = target.split_once(':').filter(|(kind, _)| *kind != "none");
    match (line.word(1), target) {
        ("none", _) => {}
        (_, Some(("daemon" | "stdio", path))) => out.set("access-log", text(path)),
        (path, None) if path.starts_with('/') => out.set("access-log", text(path)),
        _ => return out.lose(&line.at, "access_log", "expected a file"),
    }
    match line.word(2) {
        "" | "squid" => out.set("log-format", text("squid")),
        "combined" => {}
        format => {
            out.set("log-format", text("squid"));
            let name = format!("access_log {format}");
            out.lose(&line.at, &name, "written in Squid's native format");
        }
    }
}
