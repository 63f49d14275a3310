//! Body of a response for one client only, read at the origin's speed so that a slow client does
//! not occupy an origin connection.
//!
//! Bytes that the client has not taken yet wait in memory, up to `fill.window` and within the
//! shared memory limit. Beyond that they go through the store, up to `fill.spill-max` bytes, under
//! a key that no request can name. That object is never committed; it is dropped when the body has
//! been sent, and does not survive a crash. A body with `no-store` or `private` waits in memory
//! only, up to the larger of `fill.spill-max` and the window. Beyond these limits the origin waits
//! for the client.
//!
//! Guarantee: received bytes are offered to the client at once.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body as _, Frame};
use semantics::range::ByteRange;
use store::{Hint, Home, Key, Locality, PIECE_MAX, Refusal};
use tokio::task::spawn_local;
use upstream::connection::origin_body::OriginBody;

use crate::body::fill_body::FillBody;
use crate::fill::pump::{Carried, Incoming, Pump};
use crate::fill::sink::Sink;
use crate::fill::state::{End, Fill};
use crate::fill::window::Window;
use crate::object::buffers::{Buffered, Buffers};
use crate::object::epoch::new_epoch;
use crate::object::store::{Store, Writer};
use crate::observe::outcome::Error;
use crate::options::Options;
use crate::services::Services;

/// Memory in bytes of a body that goes through the store: the end of its window, and the piece
/// being collected.
const SPILL_MEMORY: u64 = 2 * PIECE_MAX as u64;

/// Limits for reading a body from its origin.
pub(crate) struct Relay {
    services: Rc<Services>,
    options: Arc<Options>,
    /// The memory shares that the body counts in: the client's and the host's.
    shares: [u64; 2],
    /// True if the body may go through the store.
    may_spill: bool,
}

impl Relay {
    /// Creates a `Relay` for a response of `host` to this client.
    pub fn new(
        services: &Rc<Services>,
        options: &Arc<Options>,
        client: IpAddr,
        host: &str,
    ) -> Relay {
        let shares = services.shared.buffers.shares(client, host);
        let may_spill = options.fill.spill_max > 0;
        Relay { services: services.clone(), options: options.clone(), shares, may_spill }
    }

    /// Keeps the body out of the store (RFC 9111, 5.2.2.5 and 5.2.2.7: the store is not volatile).
    pub fn without_spill(self) -> Relay {
        Relay { may_spill: false, ..self }
    }

    /// Returns how many bytes may wait in memory.
    fn window(&self) -> u64 {
        let window = self.options.fill.window as u64;
        if self.may_spill { window } else { window.max(self.options.fill.spill_max) }
    }

    fn begin(&self) -> Buffered {
        Buffers::begin(&self.services.shared.buffers, self.shares, self.options.client.buffers)
    }
}

/// Body of a response on its way from the origin to one client.
pub(crate) struct RelayedBody {
    source: Source,
    /// Bytes to skip before the requested ones.
    skip: u64,
    /// Requested bytes still to come, if known.
    left: Option<u64>,
    is_done: bool,
}

type NextFrame = Option<Result<Frame<Bytes>, Error>>;

enum Source {
    /// The origin, read directly. A body that continues after its first frame moves to `Queue`.
    Origin(Option<Box<(OriginBody, Relay)>>),
    /// Bytes that a task has read from the origin.
    Queue(Rc<Queue>),
    /// Bytes that went through the store.
    Spilled(Box<FillBody>),
}

impl RelayedBody {
    /// Creates the body of an origin's response.
    pub fn new(body: OriginBody, relay: Relay) -> RelayedBody {
        let left = body.size_hint().exact();
        let source = Source::Origin(Some(Box::new((body, relay))));
        RelayedBody { source, skip: 0, left, is_done: false }
    }

    /// Creates a body of a range of an origin's response.
    pub fn part(body: OriginBody, relay: Relay, range: ByteRange) -> RelayedBody {
        let mut part = RelayedBody::new(body, relay);
        (part.skip, part.left) = (range.start, Some(range.count()));
        part
    }

    /// Returns the number of bytes still to come, if known.
    pub fn left(&self) -> Option<u64> {
        self.left
    }

    pub fn is_end_stream(&self) -> bool {
        self.is_done || self.left == Some(0)
    }

    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        loop {
            let frame = match ready!(self.poll_source(cx)) {
                Some(Ok(frame)) => frame,
                end => {
                    self.is_done = true;
                    return Poll::Ready(end);
                }
            };
            let mut data = match frame.into_data() {
                Ok(data) => data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            };
            let skipped = self.skip.min(data.len() as u64);
            self.skip -= skipped;
            data.advance(skipped as usize);
            if let Some(left) = &mut self.left {
                data.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= data.len() as u64;
            }
            if !data.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
        }
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        loop {
            match &mut self.source {
                Source::Origin(origin) => {
                    let Some(begun) = origin else { return Poll::Ready(None) };
                    let body = &mut begun.0;
                    let frame = ready!(Pin::new(&mut *body).poll_frame(cx));
                    let frame: NextFrame =
                        frame.map(|frame| frame.map_err(|error| error.reason().into()));
                    if matches!(frame, Some(Ok(_)))
                        && !body.is_end_stream()
                        && let Some(begun) = origin.take()
                    {
                        let (body, relay) = *begun;
                        self.source = Source::Queue(Queue::begin(body, relay));
                    }
                    return Poll::Ready(frame);
                }
                Source::Queue(queue) => match ready!(queue.poll_next(cx)) {
                    Next::Frame(frame) => return Poll::Ready(frame),
                    Next::Spilled(body) => self.source = Source::Spilled(body),
                },
                Source::Spilled(body) => return body.poll(cx),
            }
        }
    }
}

impl Drop for RelayedBody {
    fn drop(&mut self) {
        if let Source::Queue(queue) = &self.source {
            queue.is_client_gone.set(true);
            queue.wake_task();
        }
    }
}

/// Bytes read from an origin by a task and not yet taken by the client.
struct Queue {
    waiting: RefCell<Waiting>,
    is_client_gone: Cell<bool>,
    reader: Cell<Option<Waker>>,
    task: Cell<Option<Waker>>,
}

struct Waiting {
    window: Window,
    /// Number of body bytes that the client has taken.
    at: u64,
    held: Buffered,
    trailers: Option<HeaderMap>,
    end: Option<Result<(), Error>>,
    spilled: Option<Box<FillBody>>,
}

enum Next {
    Frame(NextFrame),
    Spilled(Box<FillBody>),
}

impl Queue {
    /// Starts a task that reads a body from its origin.
    fn begin(body: OriginBody, relay: Relay) -> Rc<Queue> {
        let (window, held) = (Window::default(), relay.begin());
        let waiting = Waiting { window, at: 0, held, trailers: None, end: None, spilled: None };
        let queue = Rc::new(Queue {
            waiting: RefCell::new(waiting),
            is_client_gone: Cell::default(),
            reader: Cell::default(),
            task: Cell::default(),
        });
        spawn_local(take(queue.clone(), body, relay));
        queue
    }

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Next> {
        let waiting = &mut *self.waiting.borrow_mut();
        if let Some(bytes) = waiting.read() {
            self.wake_task();
            return Poll::Ready(Next::Frame(Some(Ok(Frame::data(bytes)))));
        }
        if let Some(body) = waiting.spilled.take() {
            return Poll::Ready(Next::Spilled(body));
        }
        match (waiting.end, waiting.trailers.take()) {
            (Some(Ok(())), Some(trailers)) => {
                Poll::Ready(Next::Frame(Some(Ok(Frame::trailers(trailers)))))
            }
            (Some(Ok(())), None) => Poll::Ready(Next::Frame(None)),
            (Some(Err(why)), _) => Poll::Ready(Next::Frame(Some(Err(why)))),
            (None, trailers) => {
                waiting.trailers = trailers;
                self.reader.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }

    /// Polls for the origin's next frame; `None` if the client is gone.
    fn poll_origin(&self, body: &mut OriginBody, cx: &mut Context<'_>) -> Poll<Option<NextFrame>> {
        if self.is_client_gone.get() {
            return Poll::Ready(None);
        }
        self.task.set(Some(cx.waker().clone()));
        let frame = ready!(Pin::new(body).poll_frame(cx));
        Poll::Ready(Some(frame.map(|frame| frame.map_err(|error| error.reason().into()))))
    }

    /// Waits until the client has taken all received bytes or is gone.
    fn poll_taken(&self, cx: &mut Context<'_>) -> Poll<()> {
        let waiting = self.waiting.borrow();
        if self.is_client_gone.get() || waiting.at == waiting.window.end() {
            return Poll::Ready(());
        }
        self.task.set(Some(cx.waker().clone()));
        Poll::Pending
    }

    /// Appends bytes if there is memory for them, or in any case with `always`. Returns whether
    /// they were appended.
    fn push(&self, bytes: &Bytes, most: u64, always: bool) -> bool {
        let waiting = &mut *self.waiting.borrow_mut();
        let length = bytes.len() as u64;
        let is_held = waiting.window.occupied() + length <= most && waiting.held.grow(length);
        if is_held || always {
            waiting.window.push(bytes.clone());
            self.wake_reader();
        }
        is_held || always
    }

    fn end(&self, end: Result<(), Error>) {
        self.waiting.borrow_mut().end = Some(end);
        self.wake_reader();
    }

    fn wake_reader(&self) {
        self.reader.take().into_iter().for_each(Waker::wake);
    }

    fn wake_task(&self) {
        self.task.take().into_iter().for_each(Waker::wake);
    }
}

impl Waiting {
    fn read(&mut self) -> Option<Bytes> {
        let bytes = self.window.read(self.at, u64::MAX)?;
        self.at += bytes.len() as u64;
        while self.window.first_end().is_some_and(|end| end <= self.at) {
            self.window.drop_first();
        }
        self.held.shrink(bytes.len() as u64);
        Some(bytes)
    }
}

/// Reads a body from its origin until its end, or until the client is gone.
async fn take(queue: Rc<Queue>, mut body: OriginBody, relay: Relay) {
    let most = relay.window();
    loop {
        let Some(frame) = poll_fn(|cx| queue.poll_origin(&mut body, cx)).await else { return };
        let data = match frame {
            None => return queue.end(Ok(())),
            Some(Err(why)) => return queue.end(Err(why)),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => data,
                Err(frame) => {
                    queue.waiting.borrow_mut().trailers = frame.into_trailers().ok();
                    continue;
                }
            },
        };
        if queue.push(&data, most, false) {
            continue;
        }
        if let Some(spill) = Spill::begin(&queue, &relay, body.size_hint().exact(), &data).await {
            return spill.run(&relay, data, body).await;
        }
        poll_fn(|cx| queue.poll_taken(cx)).await;
        queue.push(&data, most, true);
    }
}

/// The rest of a body that goes through the store.
struct Spill {
    fill: Arc<Fill>,
    writer: Writer,
    _held: Buffered,
}

impl Spill {
    /// Starts to send `data` and the rest of the body through the store. Returns `None` if that is
    /// impossible.
    async fn begin(queue: &Queue, relay: &Relay, left: Option<u64>, data: &Bytes) -> Option<Spill> {
        let services = &relay.services;
        let store = services.store().filter(|_| relay.may_spill)?;
        let mut held = relay.begin();
        if queue.is_client_gone.get() || services.leases.is_released() || !held.grow(SPILL_MEMORY) {
            return None;
        }
        let (fill, writer) = open(&store, relay).await?;
        fill.publish_spill(writer.unfinished());
        let length = left.map(|left| left + data.len() as u64);
        let spilled = FillBody::new(fill.join()?, Some(store), length, true);
        queue.waiting.borrow_mut().spilled = Some(Box::new(spilled));
        queue.wake_reader();
        Some(Spill { fill, writer, _held: held })
    }

    /// Carries the rest to its end and waits until the client has taken it.
    async fn run(self, relay: &Relay, first: Bytes, body: OriginBody) {
        let Relay { services, options, .. } = relay;
        let (fill, mut sink) = (&*self.fill, Sink::Open(self.writer));
        let (leases, clock) = (&services.leases, services.clock);
        let mut pump = Pump::new(leases, clock, &options.fill, fill, (&mut sink, 0))
            .with_store_max(Some(options.fill.spill_max));
        let mut incoming = Incoming::behind(first, body);
        match pump.carry(&mut incoming, None, |_| false).await {
            Carried::Complete { last, trailers } => {
                fill.push_last(last);
                fill.end(End::Whole(trailers.map(Arc::new)));
            }
            Carried::Broken(why) => fill.end(End::Broken(why)),
            Carried::Abandoned => return,
        }
        // Frees the connection to the origin.
        drop(incoming);
        pump.discard(Refusal::NotAdmitted).await;
    }
}

/// Opens a writer in the store under a key that no request can name, and a fill for it.
async fn open(store: &Store, relay: &Relay) -> Option<(Arc<Fill>, Writer)> {
    let Relay { services, shares: [_, host], .. } = relay;
    let number = new_epoch();
    let mut name = BytesMut::from(&b"spill "[..]);
    name.extend_from_slice(&number.to_be_bytes());
    let place = number as u64;
    let key = Key::new(name.freeze(), Locality { site: place, group: place })?;
    let token = store.begin_fetch(&key);
    let hint = Hint { home: Home::Disk, ..Hint::default() };
    let writer = store.insert(&token, &key, Bytes::new(), hint).await;
    let writer = writer.inspect_err(|refusal| log::debug!("not spilled: {refusal}")).ok()?;
    let share = services.shared.fill_budget.share(*host);
    Some((Arc::new(Fill::new(token, services.clock.instant(), share)), writer))
}
