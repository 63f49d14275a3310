//! Bodies that are read from the store while they are sent: of a stored object, of parts of one,
//! and of a fill. The store's reads are `async fn`s that borrow what they read from; a body is
//! polled. So each read is a boxed future that takes its source along and brings it back: one
//! allocation for each piece of 128 KiB, none for objects in one record.

use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use semantics::multipart::Multipart;
use store::{Key, Partial, PartialRead, ReadError};
use tokio::task::spawn_local;

use crate::body::resume::{Rescue, Rest};
use crate::fill::state::{Fill, Next, Reader};
use crate::object::stored_response::{Answer, Body, Entry, Opened, Store};
use crate::observe::outcome::Error;
use crate::partial::partial_body::PartsBody;
use crate::partial::partial_object::Parts;
use crate::response::response_body::CutShort;

type Reading<T> = Pin<Box<dyn Future<Output = T>>>;
type ReadOne = (Body, Option<Result<Bytes, ReadError>>);

/// A piece that a fill has just given to the store is readable soon.
const NOT_YET_PAUSE: Duration = Duration::from_millis(2);
/// … and if it is not for this many pauses, the transfer is cut.
const NOT_YET_MAX: u32 = 2500;

/// A range of a stored object.
pub(crate) struct EntryBody {
    state: State,
    /// Position of the next byte, and of the one behind the last.
    range: Range<u64>,
    rescue: Option<Rescue>,
    /// Where the object lies: to be removed when a piece turns out to be gone, lest every further
    /// hit meets the same gap.
    place: Option<(Store, Key)>,
}

enum State {
    Idle(Body),
    Opened(Opened),
    Reading(Reading<ReadOne>),
    Rescued(Rest),
    Done,
}

impl EntryBody {
    /// The bytes `range` of what `answer` holds. With a rescue the origin goes on where the store
    /// cannot.
    pub fn new(
        store: Option<Store>,
        answer: &Answer,
        range: Range<u64>,
        rescue: Option<Rescue>,
    ) -> EntryBody {
        let place = store.map(|store| (store, answer.key.clone()));
        let whole = range == (0..answer.entry.len());
        let state = match answer.take_opened().filter(|_| whole) {
            Some(opened) => State::Opened(opened),
            None => State::Idle(answer.entry.body(range.clone())),
        };
        EntryBody { state, range, rescue, place }
    }

    /// The bytes `range` of `entry`, which lies under `key` in `store`.
    pub fn of_entry(store: Store, key: Key, entry: &Entry, range: Range<u64>) -> EntryBody {
        let state = State::Idle(entry.body(range.clone()));
        EntryBody { state, range, rescue: None, place: Some((store, key)) }
    }

    /// Whether the origin may go on where the store cannot.
    pub fn has_rescue(&self) -> bool {
        self.rescue.is_some()
    }

    fn remove(&mut self) {
        if let Some((store, key)) = self.place.take() {
            spawn_local(async move { store.remove(&key).await });
        }
    }

    /// Bytes still to come.
    pub fn left(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// The next bytes.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, CutShort>>> {
        loop {
            if self.range.is_empty() {
                return Poll::Ready(None);
            }
            match &mut self.state {
                State::Opened(_) => {
                    let State::Opened(opened) = std::mem::replace(&mut self.state, State::Done)
                    else {
                        continue;
                    };
                    self.state = State::Idle(opened.rest);
                    self.range.start += opened.first.len() as u64;
                    return Poll::Ready(Some(Ok(opened.first)));
                }
                State::Idle(_) => {
                    let State::Idle(mut body) = std::mem::replace(&mut self.state, State::Done)
                    else {
                        continue;
                    };
                    self.state = State::Reading(Box::pin(async move {
                        let next = body.next().await;
                        (body, next)
                    }));
                }
                State::Reading(reading) => {
                    let (body, next) = ready!(reading.as_mut().poll(cx));
                    if let Some(Ok(bytes)) = next {
                        self.state = State::Idle(body);
                        self.range.start += bytes.len() as u64;
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                    self.remove();
                    // Gone, or an end before the length that was promised, which is no end.
                    self.state = match self.rescue.take() {
                        Some(rescue) => State::Rescued(rescue.begin(self.range.clone())),
                        None => State::Done,
                    };
                }
                State::Rescued(rest) => {
                    let bytes = ready!(rest.poll(cx));
                    let Some(bytes) = bytes else {
                        self.state = State::Done;
                        continue;
                    };
                    self.range.start += bytes.len() as u64;
                    return Poll::Ready(Some(Ok(bytes)));
                }
                State::Done => {
                    return Poll::Ready(Some(Err(CutShort("a stored piece is gone"))));
                }
            }
        }
    }
}

/// So a fill carries what is stored.
impl http_body::Body for EntryBody {
    type Data = Bytes;
    type Error = CutShort;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutShort>>> {
        self.get_mut().poll(cx).map(|next| next.map(|bytes| bytes.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left())
    }
}

/// A stored body with the trailers that are stored beside it.
pub(crate) struct TrailedBody {
    body: Stored,
    trailers: Option<HeaderMap>,
}

/// A stored body, in one piece or read piece by piece.
pub(crate) enum Stored {
    Whole(Bytes),
    Entry(Box<EntryBody>),
}

impl TrailedBody {
    pub fn new(body: Stored, trailers: HeaderMap) -> TrailedBody {
        TrailedBody { body, trailers: Some(trailers) }
    }

    /// Whether it is read from the store while it is sent.
    pub fn is_read(&self) -> bool {
        matches!(self.body, Stored::Entry(_))
    }

    /// Whether nothing is left, trailers included.
    pub fn is_done(&self) -> bool {
        self.trailers.is_none()
    }

    /// The next frame.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutShort>>> {
        let next = match &mut self.body {
            Stored::Whole(bytes) if bytes.is_empty() => None,
            Stored::Whole(bytes) => Some(Ok(std::mem::take(bytes))),
            Stored::Entry(body) => ready!(body.poll(cx)),
        };
        Poll::Ready(match next {
            Some(bytes) => Some(bytes.map(Frame::data)),
            None => self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))),
        })
    }
}

/// Several ranges of a stored object (RFC 9110, 14.6).
pub(crate) struct MultipartBody {
    whole: Whole,
    frame: Multipart,
    next_part: usize,
    part: Option<PartBody>,
    left: u64,
    /// Until the last part is sent.
    _held: Option<Box<store::Reading>>,
}

/// What the parts are cut from.
pub(crate) enum Whole {
    /// An object that is stored whole.
    Stored(Option<Store>, Rc<Answer>),
    /// One that is there in parts.
    Sparse(Rc<Parts>),
}

/// One part on its way.
enum PartBody {
    Stored(Box<EntryBody>),
    Sparse(Box<PartsBody>),
}

impl PartBody {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, CutShort>>> {
        match self {
            PartBody::Stored(body) => body.poll(cx),
            PartBody::Sparse(body) => body
                .poll(cx)
                .map(|next| next.map(|bytes| bytes.map_err(|_| CutShort("a part is gone")))),
        }
    }
}

impl MultipartBody {
    pub fn new(whole: Whole, frame: Multipart) -> MultipartBody {
        let left = frame.total_length();
        let ranges = frame.parts().iter().map(|(_, range)| range.as_range());
        let all = ranges.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
        let held = match (&whole, all) {
            (Whole::Stored(_, answer), Some(all)) => answer.entry.hold(all).map(Box::new),
            _ => None,
        };
        MultipartBody { whole, frame, next_part: 0, part: None, left, _held: held }
    }

    /// Bytes still to come.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next bytes.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, CutShort>>> {
        let next = ready!(self.poll_next(cx));
        if let Some(Ok(bytes)) = &next {
            self.left = self.left.saturating_sub(bytes.len() as u64);
        }
        Poll::Ready(next)
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, CutShort>>> {
        if let Some(part) = &mut self.part {
            if let Some(next) = ready!(part.poll(cx)) {
                return Poll::Ready(Some(next));
            }
            self.part = None;
        }
        let parts = self.frame.parts();
        if let Some((head, range)) = parts.get(self.next_part) {
            self.next_part += 1;
            let body = match &self.whole {
                Whole::Stored(store, answer) => {
                    let range = range.as_range();
                    PartBody::Stored(Box::new(EntryBody::new(store.clone(), answer, range, None)))
                }
                Whole::Sparse(parts) => {
                    PartBody::Sparse(Box::new(PartsBody::new(parts.clone(), *range, None)))
                }
            };
            self.part = Some(body);
            return Poll::Ready(Some(Ok(head.clone())));
        }
        if self.next_part == parts.len() {
            self.next_part += 1;
            return Poll::Ready(Some(Ok(self.frame.closing())));
        }
        Poll::Ready(None)
    }
}

/// The body of a fill for one of its clients.
pub(crate) struct FillBody {
    reader: Reader,
    store: Option<Store>,
    lagging: Option<Reading<PartialRead>>,
    pauses: u32,
    /// Where it ends, when that is known.
    end: Option<u64>,
    rescue: Option<Rescue>,
    rest: Option<Rest>,
    /// Whether the client takes trailers.
    trailers: bool,
    done: bool,
}

impl FillBody {
    /// `end`: position behind the last byte to come, when known.
    pub fn new(reader: Reader, store: Option<Store>, end: Option<u64>, trailers: bool) -> FillBody {
        FillBody {
            reader,
            store,
            lagging: None,
            pauses: 0,
            end,
            rescue: None,
            rest: None,
            trailers,
            done: false,
        }
    }

    /// The fill, when it is one that is stored.
    pub fn stored_fill(&self) -> Option<&Arc<Fill>> {
        Some(self.reader.fill()).filter(|fill| fill.is_stored())
    }

    /// The same with the origin to go on when the store cannot.
    pub fn with_rescue(mut self, rescue: Option<Rescue>) -> FillBody {
        self.rescue = rescue;
        self
    }

    /// Bytes still to come, when known.
    pub fn left(&self) -> Option<u64> {
        self.end.map(|end| end.saturating_sub(self.reader.at()))
    }

    /// The next frame.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        loop {
            if self.done {
                return Poll::Ready(None);
            }
            if let Some(rest) = &mut self.rest {
                if rest.left() == 0 {
                    return Poll::Ready(None);
                }
                let Some(bytes) = ready!(rest.poll(cx)) else { return self.cut(Error::Store) };
                self.reader.advance(bytes.len() as u64);
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if let Some(reading) = &mut self.lagging {
                let read = ready!(reading.as_mut().poll(cx));
                self.lagging = None;
                match read {
                    PartialRead::Bytes(bytes) => {
                        self.pauses = 0;
                        let bytes = self.within_end(bytes);
                        self.reader.advance(bytes.len() as u64);
                        return Poll::Ready(Some(Ok(Frame::data(bytes))));
                    }
                    PartialRead::NotYet if self.pauses < NOT_YET_MAX => self.pauses += 1,
                    PartialRead::NotYet | PartialRead::Gone => {
                        if !self.go_on_from_origin() {
                            return self.cut(Error::Store);
                        }
                        continue;
                    }
                }
            }
            match ready!(self.reader.poll_next(cx)) {
                Next::Bytes(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Next::Lagging(partial, at) => self.read_on(partial, at),
                Next::Broken(Error::Store) if self.go_on_from_origin() => {}
                Next::Broken(why) => return self.cut(why),
                Next::End(trailers) => {
                    self.done = true;
                    if self.left().is_some_and(|left| left > 0) {
                        return self.cut(Error::Upstream);
                    }
                    let Some(trailers) = trailers.filter(|_| self.trailers) else {
                        return Poll::Ready(None);
                    };
                    return Poll::Ready(Some(Ok(Frame::trailers((*trailers).clone()))));
                }
            }
        }
    }

    /// What the window and the store have lost, the origin may have still. True when it is asked.
    fn go_on_from_origin(&mut self) -> bool {
        let (Some(end), Some(rescue)) = (self.end, self.rescue.take()) else { return false };
        self.rest = Some(rescue.begin(self.reader.at()..end));
        true
    }

    fn read_on(&mut self, partial: Partial, at: u64) {
        let Some(store) = self.store.clone() else { return };
        let pause = self.pauses > 0;
        self.lagging = Some(Box::pin(async move {
            if pause {
                tokio::time::sleep(NOT_YET_PAUSE).await;
            }
            store.read_partial(&partial, at).await
        }));
    }

    /// A piece may reach beyond what this client wants.
    fn within_end(&self, mut bytes: Bytes) -> Bytes {
        if let Some(left) = self.left() {
            bytes.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        }
        bytes
    }

    fn cut<T>(&mut self, why: Error) -> Poll<Option<Result<T, Error>>> {
        self.done = true;
        Poll::Ready(Some(Err(why)))
    }
}
