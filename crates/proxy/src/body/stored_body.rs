//! Bodies read from the store while they are sent: of a stored object, of parts of one, and of a
//! fill. Store reads are `async fn`s that borrow their source, but a body is polled. Each read is
//! therefore a boxed future that owns its source and returns it: one allocation per piece of up to
//! 128 KiB, none for objects in one record.

use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::message::cut_short::Truncated;
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use store::{Key, ReadError};
use tokio::task::spawn_local;

use crate::body::resume::{Resume, ResumedBody};
use crate::object::store::{Body, Entry, Store};
use crate::object::stored_response::StoredResponse;

pub(crate) type Reading<T> = Pin<Box<dyn Future<Output = T>>>;
type ReadOne = (Body, Option<Result<Bytes, ReadError>>);

pub(crate) struct EntryBody {
    state: State,
    /// Positions of the next byte and after the last byte.
    range: Range<u64>,
    rescue: Option<Resume>,
    /// Store and key, to remove the object if a piece is gone; otherwise every further hit would
    /// lack it.
    place: Option<(Store, Key)>,
}

enum State {
    Idle(Body),
    Reading(Reading<ReadOne>),
    Rescued(ResumedBody),
    Done,
}

impl EntryBody {
    /// Creates a body of the bytes `range` of `stored`. With a rescue, the origin supplies the rest
    /// if the store cannot.
    pub fn new(
        store: Option<Store>,
        stored: &StoredResponse,
        range: Range<u64>,
        rescue: Option<Resume>,
    ) -> EntryBody {
        let place = store.map(|store| (store, stored.key.clone()));
        let state = State::Idle(stored.entry.body(range.clone()));
        EntryBody { state, range, rescue, place }
    }

    /// Creates a body of the bytes `range` of `entry`, which is stored under `key` in `store`.
    pub fn of_entry(store: Store, key: Key, entry: &Entry, range: Range<u64>) -> EntryBody {
        let state = State::Idle(entry.body(range.clone()));
        EntryBody { state, range, rescue: None, place: Some((store, key)) }
    }

    /// Returns whether the origin may supply the rest if the store cannot.
    pub fn has_rescue(&self) -> bool {
        self.rescue.is_some()
    }

    fn remove(&mut self) {
        if let Some((store, key)) = self.place.take() {
            spawn_local(async move { store.remove(&key).await });
        }
    }

    pub fn left(&self) -> u64 {
        self.range.end - self.range.start
    }

    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Truncated>>> {
        loop {
            if self.range.is_empty() {
                return Poll::Ready(None);
            }
            match &mut self.state {
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
                    // The piece is gone, or the body ended before the announced length.
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
                    return Poll::Ready(Some(Err(Truncated("a stored piece is missing"))));
                }
            }
        }
    }
}

/// Lets a fill carry a stored body.
impl http_body::Body for EntryBody {
    type Data = Bytes;
    type Error = Truncated;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        self.get_mut().poll(cx).map(|next| next.map(|bytes| bytes.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left())
    }
}

/// Stored body followed by its stored trailers.
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

    /// Returns whether the body is read from the store while it is sent.
    pub fn is_read(&self) -> bool {
        matches!(self.body, Stored::Entry(_))
    }

    /// Returns whether the body and its trailers have been returned.
    pub fn is_done(&self) -> bool {
        self.trailers.is_none()
    }

    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
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
