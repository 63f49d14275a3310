//! Logs and traces as requests.

use std::path::PathBuf;

use workload::request::Request;
use workload::trace::{ReadOptions, Requests, SkipReason, Skipped};

/// The requests of several traces in sequence.
pub struct Replay {
    requests: Option<Requests>,
    done: Vec<(PathBuf, Skipped)>,
}

impl Replay {
    /// Starts a replay. Each file is opened when it is needed.
    pub fn new(files: &[PathBuf], options: ReadOptions) -> Replay {
        Replay { requests: Some(Requests::new(files.to_vec(), options)), done: Vec::new() }
    }

    /// Returns the next request; `None` at the end.
    ///
    /// # Errors
    /// Fails if a trace cannot be read, or cannot be read further.
    pub fn next(&mut self) -> Result<Option<Request>, String> {
        let Some(requests) = self.requests.as_mut() else { return Ok(None) };
        if let Some(request) = requests.next() {
            return Ok(Some(request));
        }
        if let Some(requests) = self.requests.take() {
            let finished = requests.finish();
            self.done = finished.map_err(|(path, error)| format!("{}: {error}", path.display()))?;
        }
        Ok(None)
    }

    /// Returns notes on skipped lines and requests, once everything has been read.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (path, skipped) in &self.done {
            let path = path.display();
            if let Some(how) = skipped.cut {
                notes.push(format!("{path}: its {how} data was cut short"));
            }
            if let Some(first) = skipped.damages.first() {
                let damaged = skipped.damaged;
                let (line, what) = (first.number, &first.what);
                notes.push(format!(
                    "{path}: {damaged} damaged lines passed over, the first is {line}: {what}"
                ));
            }
            for why in SkipReason::ALL {
                if let count @ 1.. = skipped.skip_reason(why) {
                    notes.push(format!("{path}: {count} requests passed over: {}", why.as_str()));
                }
            }
        }
        notes
    }
}

#[test]
fn a_log_is_replayed_and_what_is_left_out_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.log");
    let log = "1.000 5 a TCP_MISS/200 10 GET http://h/x - DIRECT/- text/html\n\
               no line\n\
               3.500 5 b TCP_HIT/200 20 GET http://h/y - NONE/- text/html\n";
    std::fs::write(&path, log).unwrap();
    let mut replay = Replay::new(&[path], ReadOptions::default());
    let times: Vec<(u64, u64)> = std::iter::from_fn(|| replay.next().unwrap())
        .map(|request| (request.time_ms, request.size))
        .collect();
    assert_eq!(times, [(1_000, 10), (3_500, 20)]);
    assert!(replay.notes()[0].contains("1 damaged lines"), "{:?}", replay.notes());
    let absent = Replay::new(&[directory.path().join("absent")], ReadOptions::default()).next();
    assert!(absent.is_err_and(|why| why.contains("absent")));
}
