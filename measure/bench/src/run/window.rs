//! The time span of a phase, with all counters at its start and at its end.

use std::time::Instant;

use super::subject::Subject;
use crate::measure::{
    Answered, DeviceCounts, DeviceFigures, GeneratorFigures, Latencies, Outcome, PhaseFigures,
    ProcessCounts, ProcessFigures, Second, SystemCalls, Tally, ThreadTime, thread_time,
};
use crate::origin::{Counts, Origin};

/// The counters at one moment.
#[derive(Clone, Copy)]
struct Moment {
    at: Instant,
    origin: Counts,
    process: Option<ProcessCounts>,
    device: Option<DeviceCounts>,
    client_time: Option<ThreadTime>,
    origin_time: Option<ThreadTime>,
}

impl Moment {
    fn now(subject: &Subject, origin: &Origin, client: u32) -> Moment {
        Moment {
            at: Instant::now(),
            origin: origin.counts(),
            process: subject.process_counts(),
            device: subject.device_counts(),
            client_time: thread_time(client),
            origin_time: thread_time(origin.thread()),
        }
    }
}

/// A phase that has begun.
pub struct Window {
    /// The name of the phase.
    pub name: String,
    /// Start in seconds since the run began.
    start: f64,
    from: Moment,
    to: Option<Moment>,
    system_calls: Option<Result<SystemCalls, String>>,
    counted_calls: Option<Result<u64, String>>,
    /// Requests that ended while this was the current phase.
    pub ended: u64,
    /// Requests among these that got a response.
    pub answered: u64,
    /// Maximum number of busy connections.
    pub busy: usize,
    /// The seconds so far.
    pub by_second: Vec<Second>,
    /// The current second.
    pub second: Second,
    /// The times of the requests of the current second.
    pub times: Latencies,
    client: u32,
}

impl Window {
    /// Begins a phase, `start` seconds after the run began. `client` is the kernel's ID of the
    /// client's thread.
    pub fn open(name: &str, start: f64, subject: &Subject, origin: &Origin, client: u32) -> Window {
        let system_calls =
            subject.system_calls.then(|| SystemCalls::start(&subject.all_processes()));
        Window {
            name: name.to_owned(),
            start,
            from: Moment::now(subject, origin, client),
            to: None,
            system_calls,
            counted_calls: None,
            ended: 0,
            answered: 0,
            busy: 0,
            by_second: Vec::new(),
            second: Second { at: start, ..Second::default() },
            times: Latencies::new(),
            client,
        }
    }

    /// Ends the current second; `now` is in seconds since the run began.
    pub fn end_second(&mut self, now: f64) {
        let mut second = self.second;
        second.length = now - second.at;
        let at = |percent: f64| self.times.percentile(percent) / 1e6;
        (second.p50, second.p95, second.p99) = (at(50.0), at(95.0), at(99.0));
        if second.length > 0.0 {
            self.by_second.push(second);
        }
        self.second = Second { at: now, ..Second::default() };
        self.times.clear();
    }

    /// Counts a response that arrived in this phase.
    pub fn note(&mut self, answered: &Answered) {
        let is_hit = answered.outcome == Outcome::Hit;
        self.ended += 1;
        self.answered += 1;
        self.second.answered += 1;
        self.second.hits += u64::from(is_hit);
        self.second.repeats += u64::from(answered.is_repeat);
        self.second.bytes += answered.bytes;
        self.second.hit_bytes += if is_hit { answered.bytes } else { 0 };
        self.times.record(answered.since_due);
    }

    /// Counts a failed request; `waited` is how long it took at least, if it timed out.
    pub fn note_error(&mut self, waited: Option<u64>) {
        self.ended += 1;
        self.second.errors += 1;
        if let Some(waited) = waited {
            self.times.record(waited);
        }
    }

    /// Ends the phase.
    pub fn close(&mut self, subject: &Subject, origin: &Origin) {
        self.counted_calls =
            self.system_calls.take().map(|counting| counting.and_then(SystemCalls::stop));
        self.to = Some(Moment::now(subject, origin, self.client));
    }

    /// Returns whether the phase has ended.
    pub fn is_closed(&self) -> bool {
        self.to.is_some()
    }

    /// Returns the figures of the requests that came due in this phase.
    pub fn figures(&self, tally: &Tally) -> PhaseFigures {
        let Some(to) = self.to else { return PhaseFigures::default() };
        let from = &self.from;
        let seconds = (to.at - from.at).as_secs_f64();
        let mut figures = PhaseFigures::new(&self.name, self.start, seconds, tally);
        figures.achieved_rate = self.answered as f64 / seconds.max(1e-9);
        figures.origin_answers = to.origin.answers - from.origin.answers;
        figures.origin_bytes = to.origin.bytes - from.origin.bytes;
        let used = to.process.zip(from.process).map(|(to, from)| to - from);
        figures.process = used.map(|used| {
            let mut process = ProcessFigures::new(&used, seconds, self.ended);
            match &self.counted_calls {
                Some(Ok(calls)) => {
                    let each = *calls as f64 / self.ended.max(1) as f64;
                    process.system_calls_per_request = Some(each);
                }
                Some(Err(why)) => process.system_calls_unread = Some(why.clone()),
                None => {}
            }
            process
        });
        let did = to.device.zip(from.device).map(|(to, from)| to.since(&from));
        figures.device = did.map(|did| DeviceFigures::new(&did, self.ended, figures.origin_bytes));
        figures.generator = self.generator(&to, seconds, tally);
        figures.by_second.clone_from(&self.by_second);
        figures
    }

    fn generator(&self, to: &Moment, seconds: f64, tally: &Tally) -> GeneratorFigures {
        let from = &self.from;
        let used = |to: Option<ThreadTime>, from: Option<ThreadTime>| Some(to? - from?);
        let both = [used(to.client_time, from.client_time), used(to.origin_time, from.origin_time)];
        let [client, origin] = both.map(|used| used.map(|used| used.ran as f64));
        let waited =
            both.into_iter().flatten().map(|used| used.waited as f64 / 1e9).max_by(f64::total_cmp);
        let answers = to.origin.answers - from.origin.answers;
        GeneratorFigures {
            client_us_per_request: client.map(|time| time / 1e3 / self.ended.max(1) as f64),
            origin_us_per_answer: origin
                .filter(|_| answers > 0)
                .map(|time| time / 1e3 / answers as f64),
            client_cores: client.map(|time| time / 1e9 / seconds.max(1e-9)),
            origin_cores: origin.map(|time| time / 1e9 / seconds.max(1e-9)),
            starved: waited.map(|waited| waited / seconds.max(1e-9)),
            late_p50: tally.lateness.percentile(50.0) / 1e6,
            late_p99: tally.lateness.percentile(99.0) / 1e6,
            connections_busy: self.busy,
        }
    }
}
