//! An access log in memory: the cacheable requests in order of time, which can be replayed once for
//! each cache to compare.
//!
//! Several files become one log, merged by time. A kept request takes 48 bytes. If a log has more
//! requests than may be kept, only requests for a share of the objects are kept (SHARDS,
//! [`Sampling`]), and the share is reported. The statistics always cover all requests.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use crate::advise::missratio::{Sampling, Tally};
use workload::request::Request;
use workload::trace::statistics::{Statistics, Summary};
use workload::trace::{
    ReadOptions, Requests, STANDARD_INPUT, SkipReason, Skipped, Trace, TraceError,
};

/// Number of requests between two calls of the progress callback.
const WATCHED: u64 = 1 << 14;

/// Options for reading a log.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// How the files are read.
    pub read: ReadOptions,
    /// Which objects are kept; fewer if there are too many requests.
    pub sampling: Sampling,
    /// Maximum number of requests kept, as long as enough objects remain; at least one.
    pub most: usize,
    /// Maximum number of requests kept in any case.
    pub limit: usize,
}

/// Number of objects below which a sample is not halved for the sake of [`LogOptions::most`].
const OBJECTS_LEAST: usize = 8 << 10;

/// A log that cannot be read.
#[derive(Debug)]
pub struct Unreadable {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub why: TraceError,
}

/// An access log in memory.
pub struct AccessLog {
    requests: Vec<Request>,
    sampling: Sampling,
    summary: Summary,
    skipped: Vec<(PathBuf, Skipped)>,
}

impl AccessLog {
    /// Reads the files, in the order of their first requests. Calls `watch` from time to time with
    /// the number of requests read.
    ///
    /// # Errors
    /// The first file that cannot be read to its end.
    pub fn read(
        paths: Vec<PathBuf>,
        options: &LogOptions,
        mut watch: impl FnMut(u64),
    ) -> Result<AccessLog, Unreadable> {
        let mut source = Requests::new(by_time(paths, &options.read)?, options.read);
        let (mut statistics, mut requests) = (Statistics::default(), Vec::new());
        let (mut sampling, mut most) = (options.sampling, options.most.max(1));
        for (number, request) in (1_u64..).zip(source.by_ref()) {
            statistics.take(&request);
            if sampling.takes(u64::from(request.object)) {
                requests.push(request);
            }
            while requests.len() > most && sampling.rate() > 1e-6 {
                if most < options.limit && objects(&requests) < OBJECTS_LEAST {
                    most = most.saturating_mul(2).min(options.limit);
                    continue;
                }
                sampling = half(sampling);
                requests.retain(|kept| sampling.takes(u64::from(kept.object)));
            }
            if number.is_multiple_of(WATCHED) {
                watch(number);
            }
        }
        let skipped = source.finish().map_err(|(path, why)| Unreadable { path, why })?;
        // Servers log a request when it has completed, and files may overlap in time. The sort is
        // stable: requests with equal times keep their order.
        if !requests.is_sorted_by_key(|request| request.time_ms) {
            requests.sort_by_key(|request| request.time_ms);
        }
        set_sizes(&mut requests);
        Ok(AccessLog { requests, sampling, summary: statistics.summary(), skipped })
    }

    /// Returns the requests that were kept.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Returns the sampling, which tells which objects were kept.
    pub fn sampling(&self) -> Sampling {
        self.sampling
    }

    /// Returns the statistics of all requests.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Returns the skipped lines and requests of each file.
    pub fn skipped(&self) -> &[(PathBuf, Skipped)] {
        &self.skipped
    }

    /// Returns the number of requests that were skipped for this reason.
    pub fn skip_reason(&self, why: SkipReason) -> u64 {
        self.skipped.iter().map(|(_, skipped)| skipped.skip_reason(why)).sum()
    }

    /// Returns the number of damaged lines or records.
    pub fn damaged(&self) -> u64 {
        self.skipped.iter().map(|(_, skipped)| skipped.damaged).sum()
    }

    /// Returns whether the log has request times.
    pub fn has_times(&self) -> bool {
        self.summary.seconds > 0.0
    }

    /// Extrapolates the misses of the sample to the whole log. Misses are divided by all requests,
    /// not by those of the sample (SHARDS-adj, see [`crate::advise::missratio::Sampling`]).
    pub fn whole(&self, sample: Tally) -> Tally {
        let Summary { requests, bytes, .. } = self.summary;
        Tally {
            requests,
            misses: self.sampling.grow(sample.misses, requests),
            bytes,
            missed_bytes: self.sampling.grow(sample.missed_bytes, bytes),
        }
    }
}

fn objects(requests: &[Request]) -> usize {
    requests.iter().map(|request| request.object).collect::<HashSet<u32>>().len()
}

/// Gives each version of an object the largest of its sizes: a log may show only parts of it at
/// first.
fn set_sizes(requests: &mut [Request]) {
    let mut sizes: HashMap<(u32, u32), u64> = HashMap::new();
    for request in requests.iter() {
        let size = sizes.entry((request.object, request.version)).or_default();
        *size = request.size.max(*size);
    }
    for request in requests {
        request.size = sizes[&(request.object, request.version)];
    }
}

/// Sorts the files by the time of their first request; files without requests come last.
fn by_time(paths: Vec<PathBuf>, options: &ReadOptions) -> Result<Vec<PathBuf>, Unreadable> {
    if paths.len() < 2 {
        return Ok(paths);
    }
    let mut begun = Vec::new();
    for path in paths {
        if path == Path::new(STANDARD_INPUT) {
            let why = "standard input can be read only once: give it alone, or give a file";
            let why = TraceError::Io(io::Error::new(io::ErrorKind::InvalidInput, why));
            return Err(Unreadable { path, why });
        }
        let first = Trace::open(&path, options.format, options.columns)
            .and_then(|trace| trace.with_filter(options.filter).next_event());
        match first {
            Ok(event) => begun.push((event.map_or(u64::MAX, |event| event.time_ms), path)),
            Err(why) => return Err(Unreadable { path, why }),
        }
    }
    begun.sort_by_key(|(time, _)| *time);
    Ok(begun.into_iter().map(|(_, path)| path).collect())
}

/// Halves a sample; the smaller sample is a subset of the larger one.
fn half(sampling: Sampling) -> Sampling {
    // Half of a rate above 0 and up to 1 is a valid rate, too.
    Sampling::new(sampling.rate() / 2.0).unwrap_or(sampling)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write as _;
    use std::fs;

    use super::*;

    const OPTIONS: LogOptions =
        LogOptions { read: READ, sampling: Sampling::ALL, most: usize::MAX, limit: usize::MAX };
    const READ: ReadOptions = ReadOptions {
        format: workload::trace::Format::Auto,
        columns: None,
        filter: workload::trace::Filter::Served,
    };

    fn line(second: u32, object: u32) -> String {
        format!("{second}.000 5 c TCP_MISS/200 100 GET http://h/{object} - DIRECT/- -\n")
    }

    #[test]
    fn files_are_merged_by_time_and_damage_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ["late", "early", "over"].map(|name| dir.path().join(name));
        fs::write(&paths[0], line(30, 1) + &line(50, 2) + &line(40, 3)).unwrap();
        fs::write(&paths[1], line(10, 1) + "no line\n" + &line(20, 4) + &line(21, 5)).unwrap();
        fs::write(&paths[2], line(15, 6) + &line(45, 1)).unwrap();
        let log = AccessLog::read(paths.to_vec(), &OPTIONS, |_| {}).unwrap();
        let seconds: Vec<u64> =
            log.requests().iter().map(|request| request.time_ms / 1_000).collect();
        assert_eq!(seconds, [10, 15, 20, 21, 30, 40, 45, 50]);
        let firsts = [0, 3, 1].map(|at| log.requests()[at].object);
        assert_eq!(firsts, [0, 2, 3], "the early file is numbered first, then the one over both");
        assert_eq!((log.damaged(), log.skipped()[0].1.damages[0].number), (1, 2));
        assert_eq!((log.summary().requests, log.summary().objects), (8, 6));
        assert!(log.has_times());
        let gone = AccessLog::read(vec![dir.path().join("none")], &OPTIONS, |_| {});
        assert!(gone.err().unwrap().path.ends_with("none"));
    }

    #[test]
    fn an_object_of_which_parts_come_first_has_its_whole_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let part = |line: String| line.replace("MISS/200", "MISS/206");
        fs::write(&path, part(line(1, 1)) + &line(2, 1).replace(" 100 ", " 900 ")).unwrap();
        let log = AccessLog::read(vec![path], &OPTIONS, |_| {}).unwrap();
        let found: Vec<_> = log.requests().iter().map(|kept| (kept.version, kept.size)).collect();
        assert_eq!(found, [(0, 900); 2]);
    }

    #[test]
    fn logs_that_do_not_fit_are_sampled_by_object() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut text = String::new();
        for number in 0..20_000 {
            let _ = write!(text, "{}", line(number, number % 5_000));
        }
        fs::write(&path, text).unwrap();
        let few = LogOptions { most: 6_000, ..OPTIONS };
        let whole = AccessLog::read(vec![path.clone()], &few, |_| {}).unwrap();
        assert_eq!(whole.sampling().rate(), 1.0, "a sample of 5,000 objects would be rough");
        let options = LogOptions { limit: 6_000, ..few };
        let log = AccessLog::read(vec![path], &options, |_| {}).unwrap();
        assert_eq!(log.sampling().rate(), 0.25);
        let objects: BTreeSet<u32> = log.requests().iter().map(|request| request.object).collect();
        // All four requests of each object, for about a quarter of the objects.
        assert_eq!(log.requests().len(), objects.len() * 4);
        assert!((1_100..1_400).contains(&objects.len()), "{}", objects.len());
        assert_eq!(log.summary().requests, 20_000);
        let missed = Tally { requests: 9, misses: 1_250, bytes: 9, missed_bytes: 125_000 };
        let whole = log.whole(missed);
        assert_eq!((whole.requests, whole.misses, whole.missed_bytes), (20_000, 5_000, 500_000));
    }
}
