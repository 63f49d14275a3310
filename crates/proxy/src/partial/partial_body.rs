//! Body of an object stored in parts: stored bytes from the store and missing ones from the origin,
//! in order. A fetch that breaks off is repeated from the point where it broke, under the validator
//! of the bytes already sent. If that fails, the transfer is cut.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use semantics::range::ByteRange;

use crate::observe::outcome::Error;
use crate::partial::partial_object::{PartialObject, Segment, SegmentBody, Unavailable};

/// Maximum number of repetitions of a broken fetch without [`PROGRESS`] bytes in between.
const RETRIES: u32 = 2;
/// Bytes since the last break after which repetitions are counted anew. Prevents endless requests
/// to an origin that closes after each byte.
const PROGRESS: u64 = 64 * 1024;

pub(crate) struct PartsBody {
    parts: Rc<PartialObject>,
    /// Positions of the next byte and after the last byte.
    range: ByteRange,
    state: State,
    /// A segment opened ahead of its use, and its start.
    ahead: Option<(u64, Segment)>,
    /// Keeps a fetch running into the windows that follow.
    interest: Option<Arc<()>>,
    breaks: RetryCount,
}

/// Retry count of a body, reset by progress.
#[derive(Default)]
struct RetryCount {
    retries: u32,
    progress: u64,
}

impl RetryCount {
    fn progressed(&mut self, bytes: usize) {
        self.progress += bytes as u64;
    }

    /// Returns whether a fetch that has just broken off is repeated.
    fn may_retry(&mut self) -> bool {
        if std::mem::take(&mut self.progress) >= PROGRESS {
            self.retries = 0;
        }
        let may = self.retries < RETRIES;
        self.retries += u32::from(may);
        may
    }
}

type Opening = Pin<Box<dyn Future<Output = Result<Segment, Unavailable>>>>;

enum State {
    Between,
    Opening(Opening),
    Reading(SegmentBody),
    Done,
}

impl PartsBody {
    /// Creates a body of the bytes `range`. `ahead` is a segment of it that is already open, and
    /// its start.
    pub fn new(
        parts: Rc<PartialObject>,
        range: ByteRange,
        mut ahead: Option<(u64, Segment)>,
    ) -> PartsBody {
        let interest = ahead.as_mut().and_then(|(_, segment)| segment.interest.take());
        let (state, breaks) = (State::Between, RetryCount::default());
        PartsBody { parts, range, state, ahead, interest, breaks }
    }

    /// Returns the number of bytes still to come.
    pub fn left(&self) -> u64 {
        self.range.end - self.range.start
    }

    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        loop {
            if self.left() == 0 {
                return Poll::Ready(None);
            }
            match &mut self.state {
                State::Between => self.state = self.next_segment(),
                State::Opening(opening) => match ready!(opening.as_mut().poll(cx)) {
                    Ok(mut segment) => {
                        // Keep an interest in a running fetch while stored windows are read.
                        self.interest = segment.interest.take().or(self.interest.take());
                        self.state = State::Reading(segment.body);
                    }
                    Err(unavailable) => return self.cut(unavailable.reason()),
                },
                State::Reading(body) => {
                    let why = match ready!(poll_segment(body, cx)) {
                        Some(Ok(bytes)) => {
                            self.range.start += bytes.len() as u64;
                            self.breaks.progressed(bytes.len());
                            return Poll::Ready(Some(Ok(bytes)));
                        }
                        None => {
                            self.state = State::Between;
                            continue;
                        }
                        Some(Err(why)) => why,
                    };
                    if !self.breaks.may_retry() {
                        return self.cut(why);
                    }
                    if matches!(body, SegmentBody::Stored(_)) {
                        self.parts.lose_trunk();
                    }
                    self.state = State::Between;
                }
                State::Done => return Poll::Ready(None),
            }
        }
    }

    fn next_segment(&mut self) -> State {
        let ByteRange { start, end } = self.range;
        let (parts, mut until) = (self.parts.clone(), end);
        match self.ahead.take() {
            Some((at, segment)) if at == start => return State::Reading(segment.body),
            Some((at, segment)) if at > start => {
                until = at;
                self.ahead = Some((at, segment));
            }
            _ => {}
        }
        State::Opening(Box::pin(async move { parts.open(start, until).await }))
    }

    fn cut<T>(&mut self, why: Error) -> Poll<Option<Result<T, Error>>> {
        self.state = State::Done;
        Poll::Ready(Some(Err(why)))
    }
}

/// Polls for the next bytes of a segment; `None` at its end.
fn poll_segment(
    body: &mut SegmentBody,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, Error>>> {
    match body {
        SegmentBody::Stored(body) => {
            body.poll(cx).map(|next| next.map(|bytes| bytes.map_err(|_| Error::Store)))
        }
        SegmentBody::Fill(body) => {
            if body.left() == Some(0) {
                return Poll::Ready(None);
            }
            body.poll(cx).map(|next| {
                let data = |frame: http_body::Frame<Bytes>| frame.into_data().unwrap_or_default();
                next.map(|frame| frame.map(data))
            })
        }
    }
}

impl Unavailable {
    /// Returns the error with which a running transfer is cut.
    fn reason(&self) -> Error {
        match self {
            Unavailable::Changed | Unavailable::Refused | Unavailable::Other(_) => Error::Upstream,
            Unavailable::Failed(failed) => failed.reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_fetch_is_repeated_twice_and_again_after_progress() {
        let mut breaks = RetryCount::default();
        assert!(breaks.may_retry() && breaks.may_retry() && !breaks.may_retry());
        breaks.progressed(PROGRESS as usize - 1);
        assert!(!breaks.may_retry(), "too little came");
        breaks.progressed(PROGRESS as usize - 1);
        breaks.progressed(1);
        assert!(breaks.may_retry() && breaks.may_retry() && !breaks.may_retry());
        breaks.progressed(PROGRESS as usize - 1);
        assert!(!breaks.may_retry());
        breaks.progressed(1);
        assert!(!breaks.may_retry(), "bytes count since the last break");
    }
}
