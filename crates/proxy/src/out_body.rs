//! The body of a request on its way to an upstream.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Sleep, sleep};

use crate::interim::Interim;

/// An upstream that does not answer an expectation gets the body after this time all the same
/// (RFC 9110 section 10.1.1).
const CONTINUE_WAIT: Duration = Duration::from_secs(1);

/// A request body: none, or a client's as it streams in.
pub(crate) enum OutBody {
    Empty,
    Client(ClientBody),
}

/// A client's body, with what the upstream's time-out must know of it.
pub(crate) struct ClientBody {
    incoming: Incoming,
    progress: Rc<Progress>,
    hold: Option<(Arc<Interim>, Pin<Box<Sleep>>)>,
}

/// How far a client's body has come.
#[derive(Default)]
pub(crate) struct Progress {
    frames: Cell<u64>,
    ended: Cell<bool>,
    broken: Cell<bool>,
}

impl Progress {
    /// Frames passed on so far.
    pub fn frames(&self) -> u64 {
        self.frames.get()
    }

    /// True when the body broke off, or turned out not to be framed as it should.
    pub fn broken(&self) -> bool {
        self.broken.get()
    }

    /// True when all of the body was passed on.
    pub fn ended(&self) -> bool {
        self.ended.get()
    }
}

impl ClientBody {
    /// `expects`: the interim answers of a request with `Expect: 100-continue`, whose body is not
    /// asked for before the upstream wants it.
    pub fn new(incoming: Incoming, expects: Option<Arc<Interim>>) -> ClientBody {
        let progress = Rc::new(Progress::default());
        progress.ended.set(incoming.is_end_stream());
        let hold = expects.map(|interim| (interim, Box::pin(sleep(CONTINUE_WAIT))));
        ClientBody { incoming, progress, hold }
    }

    pub fn progress(&self) -> Rc<Progress> {
        self.progress.clone()
    }

    fn poll_hold(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some((interim, wait)) = &mut self.hold {
            if interim.poll_continue(cx).is_pending() {
                ready!(wait.as_mut().poll(cx));
            }
            self.hold = None;
        }
        Poll::Ready(())
    }
}

impl Body for OutBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let OutBody::Client(body) = self.get_mut() else { return Poll::Ready(None) };
        ready!(body.poll_hold(cx));
        let frame = ready!(Pin::new(&mut body.incoming).poll_frame(cx));
        let progress = &body.progress;
        progress.frames.set(progress.frames.get() + 1);
        progress.broken.set(matches!(frame, Some(Err(_))));
        if frame.is_none() || body.incoming.is_end_stream() {
            progress.ended.set(true);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match self {
            OutBody::Empty => true,
            OutBody::Client(body) => body.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            OutBody::Empty => SizeHint::with_exact(0),
            OutBody::Client(body) => body.incoming.size_hint(),
        }
    }
}
