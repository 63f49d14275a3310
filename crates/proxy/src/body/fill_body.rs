//! Body of a running fill, for one of its readers.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use store::{Unfinished, UnfinishedRead};

use crate::body::resume::{Resume, ResumedBody};
use crate::body::stored_body::Reading;
use crate::fill::state::{Fill, Next, Reader};
use crate::object::store::Store;
use crate::observe::outcome::Error;

/// Pause before a piece that a fill has just given to the store is read again.
const NOT_YET_PAUSE: Duration = Duration::from_millis(2);
/// Number of pauses in a row (5 s) after which the reader gives up on the store. It then continues
/// from the origin, or the transfer is cut.
const NOT_YET_MAX: u32 = 2500;

pub(crate) struct FillBody {
    reader: Reader,
    store: Option<Store>,
    lagging: Option<Reading<UnfinishedRead>>,
    pauses: u32,
    /// Position after the last byte, if known.
    end: Option<u64>,
    rescue: Option<Resume>,
    rest: Option<ResumedBody>,
    trailers: bool,
    done: bool,
}

impl FillBody {
    /// Creates the body. `end` is the position after the last byte, if known.
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

    pub fn stored_fill(&self) -> Option<&Arc<Fill>> {
        Some(self.reader.fill()).filter(|fill| fill.is_stored())
    }

    /// Sets how to fetch the rest from the origin if the store cannot return it.
    pub fn with_rescue(mut self, rescue: Option<Resume>) -> FillBody {
        if rescue.is_some() {
            self.reader.set_resumable();
        }
        self.rescue = rescue;
        self
    }

    /// Returns the number of bytes still to come, if known.
    pub fn left(&self) -> Option<u64> {
        self.end.map(|end| end.saturating_sub(self.reader.at()))
    }

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
                    UnfinishedRead::Bytes(bytes) => {
                        self.pauses = 0;
                        let bytes = self.within_end(bytes);
                        self.reader.advance(bytes.len() as u64);
                        return Poll::Ready(Some(Ok(Frame::data(bytes))));
                    }
                    UnfinishedRead::NotYet if self.pauses < NOT_YET_MAX => self.pauses += 1,
                    UnfinishedRead::NotYet | UnfinishedRead::Gone => {
                        if !self.continue_from_origin() {
                            return self.cut(Error::Store);
                        }
                        continue;
                    }
                }
            }
            match ready!(self.reader.poll_next(cx)) {
                Next::Bytes(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Next::Lagging(partial, at) => self.read_on(partial, at),
                Next::Broken(Error::Store) if self.continue_from_origin() => {}
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

    /// Requests the bytes lost by the window and the store from the origin. Returns false if that
    /// is impossible.
    fn continue_from_origin(&mut self) -> bool {
        let (Some(end), Some(rescue)) = (self.end, self.rescue.take()) else { return false };
        self.rest = Some(rescue.begin(self.reader.at()..end));
        true
    }

    fn read_on(&mut self, partial: Unfinished, at: u64) {
        let Some(store) = self.store.clone() else { return };
        let pause = self.pauses > 0;
        self.lagging = Some(Box::pin(async move {
            if pause {
                tokio::time::sleep(NOT_YET_PAUSE).await;
            }
            store.read_unfinished(&partial, at).await
        }));
    }

    /// Truncates a piece that extends beyond this client's range.
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
