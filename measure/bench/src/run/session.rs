//! The main loop of the client: sends requests that are due, receives responses, and counts.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{gettid, set_current_timer_slack};
use workload::generator::distributions::SplitMix;

use super::pages::Pages;
use super::phase::{End, Pace, PhasePlan};
use super::subject::Subject;
use super::window::Window;
use crate::client::{
    ABORTED, Addressing, Arrivals, Dispatcher, Due, Ended, Expectation, Failure, Nanos, Pool,
    Protocol, Request, SECOND, TIMED_OUT,
};
use crate::load::{LoadOptions, PhaseKind, Repeats, RequestsPerConnection, Source, Workload};
use crate::measure::{Answered, Outcome, PhaseFigures, Second, Tally};
use crate::object::{Ask, Object, ServedFrom, now as seconds_now};
use crate::origin::{self, Origin, Sent};
use crate::poll::{Events, Poll};

/// The options of a session.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The addresses of the targets, which are asked in turn; several only in HTTP/1.
    pub targets: Vec<SocketAddr>,
    /// The `Host` of requests.
    pub host: String,
    /// True if the target is a forward proxy, which receives absolute URLs.
    pub is_forward: bool,
    /// The listening address of the origin.
    pub origin: SocketAddr,
    /// The first segment of all paths.
    pub name: String,
    /// How the origin responds.
    pub answers: origin::Options,
    /// The requests.
    pub load: LoadOptions,
    /// The protocol towards the target.
    pub protocol: Protocol,
    /// Maximum number of connections.
    pub connections: usize,
    /// Requests per connection.
    pub requests_per_connection: RequestsPerConnection,
    /// Time after which a request is given up.
    pub timeout: Duration,
    /// The program under test.
    pub subject: Subject,
}

/// The state of a run, for progress output.
#[derive(Clone, Debug)]
pub struct Live<'a> {
    /// The phase.
    pub phase: &'a str,
    /// Seconds since the phase began.
    pub seconds: f64,
    /// The completed share of the phase, from 0 to 1, if known.
    pub share: Option<f64>,
    /// The last second.
    pub last: Second,
    /// Number of busy connections.
    pub busy: usize,
    /// Number of requests that wait for a connection.
    pub waiting: usize,
    /// Wrong responses so far.
    pub failures: u64,
}

/// Number of failures to keep; all are counted.
const FAILURES_KEPT: usize = 10;
/// Interval of the checks for timeouts; also the maximum interval of those for the end of a phase.
const LOOK: Nanos = SECOND / 10;
/// Concurrent requests during a fill at full speed, however many follow later.
const FILLING: usize = 32;
/// A cache holds the whole workload if less than this share of a second's requests are misses.
const FULL: f64 = 0.01;

/// Seconds without a response after which a fill ends, because the target no longer responds.
const SILENT: u32 = 30;

/// A running session.
pub struct Session {
    options: SessionOptions,
    origin: Origin,
    source: Source,
    repeats: Repeats,
    poll: Poll,
    pool: Pool,
    dispatcher: Dispatcher,
    begin: Instant,
    /// Requests of a trace or for images of pages that are due, in order.
    recorded: VecDeque<Ask>,
    /// Used by PolyMix only.
    pages: Option<Pages>,
    numbers: u64,
    /// One per phase, for the requests that came due in it.
    tallies: Vec<Tally>,
    windows: Vec<Window>,
    failures: Vec<Failure>,
    failure_count: u64,
    /// The target of the next request that names none.
    turn: usize,
    /// A target that is not asked any more.
    left_out: Option<usize>,
    /// Where each response came from, with its object and its target, if this is recorded.
    sources: Option<Vec<(u64, usize, ServedFrom)>>,
    /// Bytes of cacheable misses in the current phase.
    filled: u64,
    source_ended: bool,
    interrupted: Arc<AtomicBool>,
    /// Scratch space for outcomes.
    ended: Vec<(usize, Ended)>,
    events: Events,
}

impl Session {
    /// Starts the origin and creates a session. The session ends early once `interrupted` is set.
    ///
    /// # Errors
    /// Fails if an address cannot be bound, or the workload is invalid.
    pub fn new(options: SessionOptions, interrupted: Arc<AtomicBool>) -> Result<Session, String> {
        // Requests wake-ups with microsecond accuracy; if this is refused they are later, which is
        // measured.
        let _ = set_current_timer_slack(std::num::NonZeroU64::new(1));
        let origin = Origin::start(options.origin, options.answers.clone())?;
        let poll = Poll::new().map_err(|error| format!("sockets: {error}"))?;
        let prefix = match options.is_forward {
            true => format!("http://{}", options.host),
            false => String::new(),
        };
        let addressing = Addressing {
            host: options.host.clone(),
            prefix,
            run: options.name.clone(),
            is_http10: options.protocol == Protocol::Http10,
            fields: if options.load.browser { &testkit::browser::FIELDS } else { &[] },
        };
        let is_polymix = matches!(options.load.workload, Workload::PolyMix(_));
        let pages = is_polymix.then(Pages::default);
        let mut dice = SplitMix::new(options.load.seed ^ 0x636f_6e6e);
        let requests = options.requests_per_connection;
        let draw = Box::new(move || requests.draw(&mut dice));
        Ok(Session {
            pool: Pool::new(options.targets.clone(), options.protocol, addressing, draw),
            source: Source::new(&options.load)?,
            dispatcher: Dispatcher::new(options.connections * options.protocol.streams()),
            options,
            origin,
            poll,
            repeats: Repeats::default(),
            begin: Instant::now(),
            recorded: VecDeque::new(),
            pages,
            numbers: 0,
            tallies: Vec::new(),
            windows: Vec::new(),
            failures: Vec::new(),
            failure_count: 0,
            turn: 0,
            left_out: None,
            sources: None,
            filled: 0,
            source_ended: false,
            interrupted,
            ended: Vec::new(),
            events: Events::default(),
        })
    }

    /// Sets the program under test, from the next phase on.
    pub fn set_subject(&mut self, subject: Subject) {
        self.options.subject = subject;
    }

    /// Sets the targets, before the first request.
    pub fn set_targets(&mut self, targets: Vec<SocketAddr>) {
        self.pool.set_targets(targets.clone());
        self.options.targets = targets;
    }

    /// Leaves a target out from now on: it is asked no more, and its missing responses are not
    /// counted as errors.
    pub fn leave_out(&mut self, target: usize) {
        self.left_out = Some(target);
    }

    /// Sets the requests, from the next phase on.
    ///
    /// # Errors
    /// Fails if the workload is invalid.
    pub fn set_load(&mut self, load: LoadOptions) -> Result<(), String> {
        self.source = Source::new(&load)?;
        self.options.load = load;
        Ok(())
    }

    /// Records from now on where each response comes from.
    pub fn record_sources(&mut self) {
        self.sources = Some(Vec::new());
    }

    /// Ends the recording. Returns each response's object, its target, and where it came from.
    pub fn take_sources(&mut self) -> Vec<(u64, usize, ServedFrom)> {
        self.sources.take().unwrap_or_default()
    }

    /// Returns the listening address of the origin.
    pub fn origin_address(&self) -> SocketAddr {
        self.origin.address()
    }

    /// Runs a phase, and returns its number. Requests that wait for a connection at its end are
    /// given up. Requests that were already sent get their responses in the next phase or in
    /// [`Session::settle`].
    ///
    /// # Errors
    /// Fails if the workload cannot be read, or the kernel refuses.
    pub fn run(&mut self, plan: &PhasePlan, watch: &mut dyn FnMut(&Live)) -> Result<usize, String> {
        let number = self.windows.len();
        let thread = gettid().as_raw_nonzero().get() as u32;
        let start = self.now();
        let Session { options, origin, .. } = self;
        let seconds = start as f64 / SECOND as f64;
        let window = Window::open(&plan.name, seconds, &options.subject, origin, thread);
        self.windows.push(window);
        self.tallies.push(Tally::default());
        self.source.enter(plan.kind);
        // The origin's think time should not limit how fast a cache can be filled.
        self.origin.set_hurry(plan.kind == PhaseKind::Fill);
        self.filled = 0;
        let mut course =
            Course::new(plan, self.now(), self.options.load.seed.wrapping_add(number as u64));
        if plan.pace == Pace::Closed {
            let most = if plan.kind == PhaseKind::Fill { FILLING } else { usize::MAX };
            self.dispatcher.set_closed(Some((number, most)));
        }
        while !self.is_over(plan, &course) {
            self.turn(&mut course, number)?;
            self.look(plan, &mut course, watch);
        }
        self.dispatcher.set_closed(None);
        let now = self.now();
        for due in self.dispatcher.give_up() {
            self.tallies[due.phase].add_unsent(now.saturating_sub(due.at));
        }
        self.recorded.clear();
        self.pages.iter_mut().for_each(Pages::give_up);
        let seconds = self.seconds();
        let Session { options, origin, windows, .. } = self;
        windows[number].end_second(seconds);
        windows[number].close(&options.subject, origin);
        Ok(number)
    }

    /// Waits until all sent requests have a response or have timed out.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn settle(&mut self) -> Result<(), String> {
        let end = self.now() + self.options.timeout.as_nanos() as Nanos;
        while self.dispatcher.busy() > 0 && !self.is_interrupted() && self.now() < end {
            self.hear(LOOK)?;
            self.give_up_late();
        }
        self.pool.give_up(TIMED_OUT[1], Nanos::MAX);
        self.end_all();
        Ok(())
    }

    /// Returns the figures of a phase that has ended.
    pub fn figures(&self, number: usize) -> PhaseFigures {
        self.windows[number].figures(&self.tallies[number])
    }

    /// Returns the first failures, and their total number.
    pub fn failures(&self) -> (&[Failure], u64) {
        (&self.failures, self.failure_count)
    }

    /// Returns notes on skipped lines of traces.
    pub fn notes(&self) -> Vec<String> {
        self.source.notes()
    }

    /// Returns whether the run is to end.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Returns whether the workload has ended.
    pub fn has_ended(&self) -> bool {
        self.source_ended
    }

    fn now(&self) -> Nanos {
        self.begin.elapsed().as_nanos() as Nanos
    }

    fn seconds(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    fn is_over(&self, plan: &PhasePlan, course: &Course) -> bool {
        let is_empty = self.recorded.is_empty()
            && self.dispatcher.waiting() == 0
            && self.dispatcher.busy() == 0;
        let over = match plan.end {
            End::After(time) => self.now() - course.start >= time.as_nanos() as Nanos,
            End::Filled(bytes) => self.filled >= bytes || course.is_full || course.silent >= SILENT,
            End::Requests(count) => course.asked >= count && self.dispatcher.busy() == 0,
            End::Never => false,
        };
        over || self.is_interrupted() || self.source_ended && is_empty
    }

    /// Sends requests that are due, waits for the next event, and receives responses.
    fn turn(&mut self, course: &mut Course, number: usize) -> Result<(), String> {
        let now = self.now();
        self.take_due(course, now, number)?;
        // Bounded, because without a listener each request fails at once and the loop would not
        // end.
        for _ in 0..self.dispatcher.limit() {
            if self.source_ended && self.recorded.is_empty() {
                break;
            }
            let Some((due, place)) = self.dispatcher.next(self.now()) else { break };
            if !self.send(due, place)? {
                continue;
            }
            course.asked += 1;
            if course.is_closed {
                self.tallies[number].offered += 1;
                self.windows[number].second.offered += 1;
            }
            if course.most.is_some_and(|most| course.asked >= most) {
                self.dispatcher.set_closed(None);
                break;
            }
        }
        let window = &mut self.windows[number];
        window.busy = window.busy.max(self.dispatcher.busy());
        let until = [course.next_due(), Some(course.next_look), course.end];
        let until = until.into_iter().flatten().min().unwrap_or(now);
        let wait = until.saturating_sub(self.now());
        self.hear(wait)
    }

    /// Adds the requests that have come due.
    fn take_due(&mut self, course: &mut Course, now: Nanos, phase: usize) -> Result<(), String> {
        while let Some(at) = course.arrivals.as_mut().and_then(|arrivals| arrivals.due(now)) {
            self.add_due(Due { at, phase }, now);
        }
        let Some(speed) = course.speed else { return Ok(()) };
        loop {
            if course.pending.is_none() && !self.source_ended {
                course.pending = self.source.ask()?;
                self.source_ended = course.pending.is_none();
            }
            let Some(ask) = course.pending else { return Ok(()) };
            let at_ms = ask.at_ms.unwrap_or(0);
            let since = at_ms.saturating_sub(*course.first_ms.get_or_insert(at_ms));
            let at = course.start + (since as f64 * 1e6 / speed) as Nanos;
            course.recorded_due = Some(at);
            if at > now {
                return Ok(());
            }
            course.pending = None;
            course.recorded_due = None;
            self.recorded.push_back(ask);
            self.add_due(Due { at, phase }, now);
        }
    }

    fn add_due(&mut self, due: Due, now: Nanos) {
        let tally = &mut self.tallies[due.phase];
        tally.offered += 1;
        tally.lateness.record(now.saturating_sub(due.at));
        self.windows[due.phase].second.offered += 1;
        self.dispatcher.add(due);
    }

    /// Sends the next request of the workload; returns false if it must wait for its page.
    fn send(&mut self, due: Due, place: usize) -> Result<bool, String> {
        let recorded = self.recorded.pop_front();
        let has_waited = recorded.is_some();
        let ask = match recorded {
            Some(ask) => Some(ask),
            None => self.source.ask()?,
        };
        let Some(ask) = ask else {
            self.source_ended = true;
            self.dispatcher.release(place);
            self.dispatcher.set_closed(None);
            return Ok(true);
        };
        if !has_waited && self.pages.as_mut().is_some_and(|pages| pages.hold(&ask)) {
            self.dispatcher.release(place);
            if !self.dispatcher.is_closed() {
                let tally = &mut self.tallies[due.phase];
                tally.offered = tally.offered.saturating_sub(1);
                let second = &mut self.windows[due.phase].second;
                second.offered = second.offered.saturating_sub(1);
            }
            return Ok(false);
        }
        self.pages.iter_mut().for_each(|pages| pages.sent(&ask.object));
        self.numbers += 1;
        let (number, now) = (self.numbers, seconds_now());
        let is_repeat = self.repeats.ask(&ask, ask.object.version(now));
        let Ask { object, method, condition, range, aborts, .. } = ask;
        let (sent, node) = (now, ask.node.unwrap_or_else(|| self.next_target()));
        let has_no_origin = self.options.load.workload.has_no_origin();
        let expected =
            Expectation { number, object, method, condition, range, sent, node, has_no_origin };
        let request = Request { due, at: self.now(), expected, is_repeat, aborts };
        if self.pool.send(&self.poll, place, request).is_err() {
            self.tallies[due.phase].add_error("no connection");
            self.dispatcher.release(place);
            self.ask_for_images(&object);
        }
        self.end_all();
        Ok(true)
    }

    /// Returns the target whose turn it is.
    fn next_target(&mut self) -> usize {
        let count = self.options.targets.len().max(1);
        if self.left_out == Some(self.turn) {
            self.turn = (self.turn + 1) % count;
        }
        let target = self.turn;
        self.turn = (target + 1) % count;
        target
    }

    /// Makes the embedded objects due, because their page has arrived or failed.
    fn ask_for_images(&mut self, page: &Object) {
        let Some(pages) = self.pages.as_mut() else { return };
        let images = pages.ended(page);
        let phase = self.windows.len().saturating_sub(1);
        if self.windows.get(phase).is_none_or(Window::is_closed) {
            return;
        }
        let now = self.now();
        for image in images {
            self.recorded.push_back(image);
            match self.dispatcher.is_closed() {
                true => self.dispatcher.add(Due { at: now, phase }),
                false => self.add_due(Due { at: now, phase }, now),
            }
        }
    }

    /// Waits for sockets for at most `wait` nanoseconds, and receives responses.
    fn hear(&mut self, wait: Nanos) -> Result<(), String> {
        let mut events = std::mem::take(&mut self.events);
        let waited = self.poll.wait(Some(Duration::from_nanos(wait)), &mut events);
        waited.map_err(|error| format!("sockets: {error}"))?;
        let now = seconds_now();
        for ready in events.drain() {
            self.pool.hear(&self.poll, ready, now);
        }
        self.events = events;
        self.end_all();
        Ok(())
    }

    /// Counts the outcomes of the requests that have ended.
    fn end_all(&mut self) {
        let mut all = std::mem::take(&mut self.ended);
        all.extend(self.pool.ended());
        for (place, ended) in all.drain(..) {
            self.end(place, ended);
        }
        self.ended = all;
        if let (Some(tally), unasked @ 1..) = (self.tallies.last_mut(), self.pool.take_unasked()) {
            (0..unasked).for_each(|_| tally.add_error("bytes without a request"));
        }
    }

    /// Counts the outcome of a request.
    fn end(&mut self, place: usize, ended: Ended) {
        let Ended { request, verdict, error, is_repeated } = ended;
        self.dispatcher.release(place);
        self.ask_for_images(&request.expected.object);
        let now = self.now();
        let tally = &mut self.tallies[request.due.phase];
        tally.asked_again += u64::from(is_repeated);
        if let Some(failure) = verdict.failure {
            tally.failures += 1;
            self.failure_count += 1;
            if self.failures.len() < FAILURES_KEPT {
                self.failures.push(*failure);
            }
        }
        let sent = self.origin.seen().answer(request.expected.number);
        let is_broken = error.is_some() || verdict.status >= 500;
        let is_left_out = error.is_some() && self.left_out == Some(request.expected.node);
        if error == Some(ABORTED) || is_left_out || is_broken && sent == Some(Sent::Part) {
            tally.aborted += 1;
            return;
        }
        let (since_due, since_sent) =
            (now.saturating_sub(request.due.at), now.saturating_sub(request.at));
        let refused = (verdict.status >= 400).then(|| format!("status {}", verdict.status));
        let current = self.windows.iter_mut().rev().find(|window| !window.is_closed());
        let has_timed_out = error.is_some_and(|why| TIMED_OUT.contains(&why));
        if let Some(error) = error.map(str::to_owned).or(refused) {
            match has_timed_out {
                true => tally.add_timeout(&error, since_due, since_sent),
                false => tally.add_error(&error),
            }
            if let Some(window) = current {
                window.note_error(has_timed_out.then_some(since_due));
            }
            return;
        }
        let outcome = match sent {
            None => Outcome::Hit,
            Some(Sent::Head) => Outcome::Validated,
            Some(Sent::Object | Sent::Part) => Outcome::Miss,
        };
        let answered = Answered {
            outcome,
            bytes: verdict.bytes,
            since_due,
            since_sent,
            is_repeat: request.is_repeat,
            served_from: verdict.served_from,
        };
        if let Some(sources) = &mut self.sources {
            let Expectation { object, node, .. } = request.expected;
            sources.push((object.id, node, verdict.served_from));
        }
        tally.add(&answered);
        if outcome == Outcome::Miss && !request.expected.object.uncacheable {
            self.filled += verdict.bytes;
        }
        if let Some(window) = current {
            window.note(&answered);
        }
    }

    /// Gives up late requests, and ends the current second.
    fn look(&mut self, plan: &PhasePlan, course: &mut Course, watch: &mut dyn FnMut(&Live)) {
        let now = self.now();
        if now < course.next_look {
            return;
        }
        course.next_look = now + LOOK;
        self.give_up_late();
        let seconds = now as f64 / SECOND as f64;
        let Some(window) = self.windows.last_mut() else { return };
        if seconds - window.second.at < 1.0 {
            return;
        }
        window.end_second(seconds);
        let last = window.by_second.last().copied().unwrap_or_default();
        let misses = last.answered.saturating_sub(last.hits) as f64;
        let is_full = last.answered > 100 && misses < FULL * last.answered as f64;
        course.is_full = is_full && matches!(plan.end, End::Filled(_));
        course.silent = if last.answered > 0 { 0 } else { course.silent + 1 };
        let passed = now - course.start;
        let share = match plan.end {
            End::After(time) => Some(passed as f64 / time.as_nanos().max(1) as f64),
            End::Filled(bytes) => Some(self.filled as f64 / bytes.max(1) as f64),
            End::Requests(count) => Some(course.asked as f64 / count.max(1) as f64),
            End::Never => None,
        };
        watch(&Live {
            phase: &plan.name,
            seconds: passed as f64 / SECOND as f64,
            share: share.map(|share| share.min(1.0)),
            last,
            busy: self.dispatcher.busy(),
            waiting: self.dispatcher.waiting(),
            failures: self.failure_count,
        });
    }

    fn give_up_late(&mut self) {
        let timeout = self.options.timeout.as_nanos() as Nanos;
        let now = self.now();
        self.pool.give_up(TIMED_OUT[0], now.saturating_sub(timeout));
        self.end_all();
    }
}

/// The course of a phase.
struct Course {
    start: Nanos,
    end: Option<Nanos>,
    arrivals: Option<Arrivals>,
    /// The speed-up of a trace.
    speed: Option<f64>,
    is_closed: bool,
    first_ms: Option<u64>,
    /// The next request of a trace, and when it is due.
    pending: Option<Ask>,
    recorded_due: Option<Nanos>,
    /// The number of sent requests, and its maximum.
    asked: u64,
    most: Option<u64>,
    next_look: Nanos,
    is_full: bool,
    /// Seconds since the last response.
    silent: u32,
}

impl Course {
    fn new(plan: &PhasePlan, start: Nanos, seed: u64) -> Course {
        let length = match plan.end {
            End::After(time) => time.as_nanos() as Nanos,
            _ => Nanos::MAX / 2,
        };
        let arrivals = match plan.pace {
            Pace::Open { rates, spacing } => {
                Some(Arrivals::new(spacing, seed, start, length, rates))
            }
            _ => None,
        };
        let speed = match plan.pace {
            Pace::Recorded { speed } => Some(speed),
            _ => None,
        };
        let most = match plan.end {
            End::Requests(most) => Some(most),
            _ => None,
        };
        Course {
            start,
            end: matches!(plan.end, End::After(_)).then_some(start + length),
            arrivals,
            speed,
            is_closed: plan.pace == Pace::Closed,
            first_ms: None,
            pending: None,
            recorded_due: None,
            asked: 0,
            most,
            next_look: start + LOOK,
            is_full: false,
            silent: 0,
        }
    }

    fn next_due(&self) -> Option<Nanos> {
        self.arrivals.as_ref().and_then(Arrivals::next).or(self.recorded_due)
    }
}
