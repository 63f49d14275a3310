//! The origin's thread: its sockets, and responses that wait for their think time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::thread::gettid;
use workload::generator::distributions::SplitMix;

use super::answer::{Answer, answer};
use super::asked::Asked;
use super::seen::{Seen, Sent};
use super::think::Think;
use crate::object::{date, fill, now};
use crate::poll::{Events, Poll, Ready};

/// The behaviour of an origin.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The seed of all random choices.
    pub seed: u64,
    /// The think time.
    pub think: Think,
    /// Maximum number of responses on a connection, drawn as in PolyMix; `None`: unlimited.
    pub answers_max: Option<u32>,
    /// Share of responses in which the origin closes the connection midway.
    pub aborts: f64,
}

/// The counts of an origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that got a response.
    pub answers: u64,
    /// Responses among these with a new body (200, 206).
    pub bodies: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Requests that were malformed or named no object.
    pub refused: u64,
}

#[derive(Default)]
struct Shared {
    seen: Seen,
    answers: AtomicU64,
    bodies: AtomicU64,
    bytes: AtomicU64,
    refused: AtomicU64,
    /// True if think times are skipped.
    hurries: AtomicBool,
    stop: AtomicBool,
}

/// A running origin. Stops when dropped.
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The kernel's ID of its thread.
    number: u32,
}

/// The longest wait, which bounds how soon the origin notices that it must stop.
const WAIT: Duration = Duration::from_millis(100);
/// The token of the listener.
const LISTENER: u64 = u64::MAX;
/// Size of a read and of a write in bytes.
const READ: usize = 16 << 10;
const WRITE: usize = 128 << 10;
/// Maximum length of a request head in bytes.
const HEAD_MAX: usize = 64 << 10;

impl Origin {
    /// Starts an origin at an address; port 0 selects a free port.
    ///
    /// # Errors
    /// Fails if the address cannot be bound.
    pub fn start(address: SocketAddr, options: Options) -> Result<Origin, String> {
        let fail = |error: io::Error| format!("the origin at {address}: {error}");
        let socket = socket2::Socket::new(
            socket2::Domain::for_address(address),
            socket2::Type::STREAM,
            None,
        )
        .map_err(fail)?;
        socket.set_reuse_address(true).map_err(fail)?;
        socket.bind(&address.into()).map_err(fail)?;
        socket.listen(4_096).map_err(fail)?;
        let listener = TcpListener::from(socket);
        listener.set_nonblocking(true).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let poll = Poll::new().map_err(fail)?;
        poll.add_listener(&listener, LISTENER).map_err(fail)?;
        let shared = Arc::new(Shared::default());
        let server = Server {
            listener,
            poll,
            options,
            shared: Arc::clone(&shared),
            connections: Vec::new(),
            free: Vec::new(),
            accepted: 0,
            thinking: BinaryHeap::new(),
            clock: Clock::default(),
            input: vec![0; READ],
            output: vec![0; WRITE],
        };
        let (tell, told) = mpsc::channel();
        let run = move || {
            // The thread that started the origin waits for this.
            let _ = tell.send(gettid().as_raw_nonzero().get() as u32);
            server.run();
        };
        let thread = thread::Builder::new().name("origin".into()).spawn(run).map_err(fail)?;
        let number = told.recv().unwrap_or(0);
        Ok(Origin { address, shared, thread: Some(thread), number })
    }

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the record of the requests that it has served.
    pub fn seen(&self) -> &Seen {
        &self.shared.seen
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Shared { answers, bodies, bytes, refused, .. } = &*self.shared;
        Counts { answers: of(answers), bodies: of(bodies), bytes: of(bytes), refused: of(refused) }
    }

    /// Sets whether think times are skipped from now on.
    pub fn set_hurry(&self, hurries: bool) {
        self.shared.hurries.store(hurries, Ordering::Relaxed);
    }

    /// Returns the kernel's ID of its thread.
    pub fn thread(&self) -> u32 {
        self.number
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // A panic of the thread was already reported.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Connection {
    stream: TcpStream,
    /// The number of the connection among all connections.
    number: u64,
    /// Bytes that were read but not yet parsed.
    input: Vec<u8>,
    /// Bytes of a request body that are still to arrive.
    skip: u64,
    state: State,
    /// The number of further responses allowed.
    left: u32,
    has_answered: bool,
}

enum State {
    Reading,
    /// The response waits for its think time.
    Thinking(Box<Answer>),
    /// The response, and how many bytes of it were sent.
    Writing(Box<Answer>, u64),
}

/// The next step for a connection.
#[derive(PartialEq, Eq)]
enum Goes {
    On,
    Away,
}

/// The formatted time, updated once per second.
#[derive(Default)]
struct Clock {
    seconds: u64,
    date: String,
}

impl Clock {
    fn update(&mut self) {
        let seconds = now();
        if seconds != self.seconds {
            (self.seconds, self.date) = (seconds, date(seconds));
        }
    }
}

struct Server {
    listener: TcpListener,
    poll: Poll,
    options: Options,
    shared: Arc<Shared>,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    accepted: u64,
    /// Time, place and number of connections whose response waits.
    thinking: BinaryHeap<Reverse<(Instant, usize, u64)>>,
    clock: Clock,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Server {
    fn run(mut self) {
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let mut events = Events::default();
        while !self.shared.stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            let next =
                self.thinking.peek().map(|Reverse((at, ..))| at.saturating_duration_since(now));
            let wait = next.unwrap_or(WAIT).min(WAIT);
            if let Err(error) = self.poll.wait(Some(wait), &mut events) {
                eprintln!("larder: bench: the origin: {error}");
                return;
            }
            self.clock.update();
            for Ready { token, read, write, .. } in events.drain() {
                match token {
                    LISTENER => self.accept(),
                    place => self.attend(place as usize, read, write),
                }
            }
            self.end_thinking();
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            self.accepted += 1;
            let place = self.free.pop().unwrap_or(self.connections.len());
            let prepared = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
            if prepared.and_then(|()| self.poll.add(&stream, place as u64)).is_err() {
                if place < self.connections.len() {
                    self.free.push(place);
                }
                continue;
            }
            let drawn = self.options.answers_max.map(|most| {
                SplitMix::of(self.options.seed ^ 0x6f72_6967, self.accepted).zipf(most)
            });
            let connection = Connection {
                stream,
                number: self.accepted,
                input: Vec::new(),
                skip: 0,
                state: State::Reading,
                left: drawn.unwrap_or(u32::MAX),
                has_answered: false,
            };
            match self.connections.get_mut(place) {
                Some(free) => *free = Some(connection),
                None => self.connections.push(Some(connection)),
            }
        }
    }

    /// Handles a connection that is ready.
    fn attend(&mut self, place: usize, read: bool, write: bool) {
        let Some(mut connection) = self.connections.get_mut(place).and_then(Option::take) else {
            return;
        };
        let mut goes = Goes::On;
        if write && matches!(connection.state, State::Writing(..)) {
            goes = self.write(&mut connection);
            if goes == Goes::On {
                goes = self.serve(&mut connection, place);
            }
        }
        if goes == Goes::On && read {
            goes = self.read(&mut connection, place);
        }
        self.put_back(place, connection, goes);
    }

    fn put_back(&mut self, place: usize, connection: Connection, goes: Goes) {
        match goes {
            Goes::On => self.connections[place] = Some(connection),
            Goes::Away => self.free.push(place),
        }
    }

    fn end_thinking(&mut self) {
        let now = Instant::now();
        while let Some(Reverse((at, place, number))) = self.thinking.peek().copied() {
            if at > now {
                return;
            }
            self.thinking.pop();
            let is_it = |there: &&mut Option<Connection>| {
                there.as_ref().is_some_and(|connection| connection.number == number)
            };
            let there = self.connections.get_mut(place).filter(is_it);
            let Some(mut connection) = there.and_then(Option::take) else { continue };
            if let State::Thinking(answer) =
                std::mem::replace(&mut connection.state, State::Reading)
            {
                connection.state = State::Writing(answer, 0);
            }
            let mut goes = self.write(&mut connection);
            if goes == Goes::On {
                goes = self.serve(&mut connection, place);
            }
            self.put_back(place, connection, goes);
        }
    }

    /// Reads all available bytes.
    fn read(&mut self, connection: &mut Connection, place: usize) -> Goes {
        loop {
            match connection.stream.read(&mut self.input) {
                Ok(0) => return Goes::Away,
                Ok(len) => {
                    let skipped = connection.skip.min(len as u64);
                    connection.skip -= skipped;
                    connection.input.extend_from_slice(&self.input[skipped as usize..len]);
                    if self.serve(connection, place) == Goes::Away {
                        return Goes::Away;
                    }
                    // A short read means that no more bytes are available.
                    if len < self.input.len() {
                        return Goes::On;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Goes::On,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Goes::Away,
            }
        }
    }

    /// Serves the requests that have been read, until one must wait.
    fn serve(&mut self, connection: &mut Connection, place: usize) -> Goes {
        while matches!(connection.state, State::Reading) && !connection.input.is_empty() {
            let asked = match Asked::read(&connection.input) {
                Ok(Some(asked)) => asked,
                Ok(None) if connection.input.len() < HEAD_MAX => return Goes::On,
                Ok(None) | Err(_) => {
                    self.shared.refused.fetch_add(1, Ordering::Relaxed);
                    return Goes::Away;
                }
            };
            let there = (connection.input.len() - asked.head_len) as u64;
            let skipped = asked.body_len.min(there);
            connection.skip = asked.body_len - skipped;
            connection.input.drain(..asked.head_len + skipped as usize);
            let is_first = !std::mem::replace(&mut connection.has_answered, true);
            connection.left = connection.left.saturating_sub(1);
            let close = connection.left == 0;
            let mut answer = answer(&asked, self.clock.seconds, &self.clock.date, close);
            let mut dice = SplitMix::of(self.options.seed ^ 0x6162_6f72, asked.number.unwrap_or(0));
            answer.is_cut = answer.body.is_some() && dice.chance(self.options.aborts);
            answer.close |= answer.is_cut;
            self.count(&asked, &answer);
            let think = match self.shared.hurries.load(Ordering::Relaxed) {
                true => Duration::ZERO,
                false => {
                    let number = asked.number.unwrap_or(0);
                    self.options.think.delay(self.options.seed, number, is_first)
                }
            };
            if think.is_zero() {
                connection.state = State::Writing(Box::new(answer), 0);
                if self.write(connection) == Goes::Away {
                    return Goes::Away;
                }
            } else {
                connection.state = State::Thinking(Box::new(answer));
                self.thinking.push(Reverse((Instant::now() + think, place, connection.number)));
            }
        }
        Goes::On
    }

    /// Counts a response before it is sent, so that it is counted when the client receives it.
    fn count(&self, asked: &Asked, answer: &Answer) {
        let Shared { seen, answers, bodies, bytes, refused, .. } = &*self.shared;
        if let Some(number) = asked.number {
            let is_object = answer.body.is_some() || asked.is_head;
            let sent = if is_object { Sent::Object } else { Sent::Head };
            seen.mark(number, if answer.is_cut { Sent::Part } else { sent });
        }
        answers.fetch_add(1, Ordering::Relaxed);
        if answer.body.is_some() {
            bodies.fetch_add(1, Ordering::Relaxed);
            bytes.fetch_add(answer.sent_len(), Ordering::Relaxed);
        }
        if asked.object.is_none() {
            refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends as much of the response as the socket accepts.
    fn write(&mut self, connection: &mut Connection) -> Goes {
        let State::Writing(answer, sent) = &mut connection.state else { return Goes::On };
        let head = answer.head.len() as u64;
        let body = answer.sent_len();
        let all = head + body;
        while *sent < all {
            let begun = answer.head.as_bytes().get(*sent as usize..).unwrap_or_default();
            let begun_len = begun.len().min(WRITE);
            self.output[..begun_len].copy_from_slice(&begun[..begun_len]);
            let mut len = begun_len;
            if let Some((content, from, _)) = answer.body {
                let offset = from + sent.saturating_sub(head);
                let part = ((from + body - offset) as usize).min(WRITE - len);
                fill(content, offset, &mut self.output[len..len + part]);
                len += part;
            }
            match connection.stream.write(&self.output[..len]) {
                Ok(written) => *sent += written as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Goes::On,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Goes::Away,
            }
        }
        let close = answer.close;
        connection.state = State::Reading;
        if close { Goes::Away } else { Goes::On }
    }
}
