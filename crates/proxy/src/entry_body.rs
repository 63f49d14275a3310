//! Bodies that are read from the store while they are sent: of a stored object, of parts of one,
//! and of a fill. The store's reads are `async fn`s that borrow what they read from; a body is
//! polled. So each read is a boxed future that takes its source along and brings it back: one
//! allocation for each piece of 128 KiB, none for objects in one record.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use semantics::multipart::Multipart;
use store::{Partial, PartialRead, ReadError};

use crate::body::CutShort;
use crate::cache::{Answer, Store};
use crate::clock::TokioClock;
use crate::fill::{Next, Reader};
use crate::outcome::Error;

type StoreBody = store::Body<device::AnyDevice, TokioClock>;
type Reading<T> = Pin<Box<dyn Future<Output = T>>>;
type ReadOne = (StoreBody, Option<Result<Bytes, ReadError>>);

/// A piece that a fill has just given to the store is readable soon.
const NOT_YET_PAUSE: Duration = Duration::from_millis(2);
/// … and if it is not for this many pauses, the transfer is cut.
const NOT_YET_MAX: u32 = 2500;

/// A range of a stored object.
pub(crate) struct EntryBody {
    state: State,
    left: u64,
}

enum State {
    Idle(StoreBody),
    Reading(Reading<ReadOne>),
    Done,
}

impl EntryBody {
    /// `length`: bytes that `body` will give.
    pub fn new(body: StoreBody, length: u64) -> EntryBody {
        EntryBody { state: State::Idle(body), left: length }
    }

    /// Bytes still to come.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next bytes.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, CutShort>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        if let State::Idle(_) = self.state
            && let State::Idle(mut body) = std::mem::replace(&mut self.state, State::Done)
        {
            self.state = State::Reading(Box::pin(async move {
                let next = body.next().await;
                (body, next)
            }));
        }
        let State::Reading(reading) = &mut self.state else { return Poll::Ready(None) };
        let (body, next) = ready!(reading.as_mut().poll(cx));
        self.state = State::Done;
        Poll::Ready(match next {
            Some(Ok(bytes)) => {
                self.left = self.left.saturating_sub(bytes.len() as u64);
                self.state = State::Idle(body);
                Some(Ok(bytes))
            }
            // An end before the length that was promised is no end.
            Some(Err(_)) | None => Some(Err(CutShort("a stored piece is gone"))),
        })
    }
}

/// Several ranges of a stored object (RFC 9110, 14.6).
pub(crate) struct MultipartBody {
    answer: Rc<Answer>,
    frame: Multipart,
    next_part: usize,
    part: Option<EntryBody>,
    left: u64,
}

impl MultipartBody {
    pub fn new(answer: Rc<Answer>, frame: Multipart) -> MultipartBody {
        let left = frame.total_length();
        MultipartBody { answer, frame, next_part: 0, part: None, left }
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
            let body = self.answer.entry.body(range.as_range());
            self.part = Some(EntryBody::new(body, range.count()));
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
    /// Whether the client takes trailers.
    trailers: bool,
    done: bool,
}

impl FillBody {
    /// `end`: position behind the last byte to come, when known.
    pub fn new(reader: Reader, store: Option<Store>, end: Option<u64>, trailers: bool) -> FillBody {
        FillBody { reader, store, lagging: None, pauses: 0, end, trailers, done: false }
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
                    PartialRead::NotYet | PartialRead::Gone => return self.cut(Error::Store),
                }
            }
            match ready!(self.reader.poll_next(cx)) {
                Next::Bytes(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Next::Lagging(partial) => self.read_on(partial),
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

    fn read_on(&mut self, partial: Partial) {
        let Some(store) = self.store.clone() else { return };
        let at = self.reader.at();
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
