//! Body of a request to an upstream, without its trailers. Trailers bypass all rules and may have
//! names that are removed from heads; RFC 9110 (6.5.1) permits dropping them.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::failure::error::Failure;
use crate::message::informational::Informational;
use crate::message::request_body::{BrokenOff, RequestBody};

/// Time after which the body is sent although the upstream has not answered `Expect: 100-continue`
/// (RFC 9110, 10.1.1).
const CONTINUE_WAIT: Duration = Duration::from_secs(1);

/// Request body: none, or a client's as it streams in.
pub enum OutBody {
    /// No body.
    Empty,
    /// A body that a client sends.
    Client(ClientBody),
}

/// A client's body, with the progress that the upstream timeout depends on.
pub struct ClientBody {
    incoming: RequestBody,
    progress: Rc<Progress>,
    hold: Option<(Arc<Informational>, Pin<Box<Sleep>>)>,
}

/// Progress of a client's body.
#[derive(Default)]
pub struct Progress {
    frames: Cell<u64>,
    /// True if the client had not sent the whole body when forwarding began.
    is_open: Cell<bool>,
    ended: Cell<bool>,
    broken: Cell<Option<Broken>>,
}

#[derive(Clone, Copy)]
enum Broken {
    Off,
    Slow,
    TooLarge,
}

impl Broken {
    fn of(error: &BrokenOff) -> Broken {
        match error {
            BrokenOff::Slow => Broken::Slow,
            BrokenOff::TooLarge => Broken::TooLarge,
            BrokenOff::Malformed(_) | BrokenOff::Ended | BrokenOff::Io(_) | BrokenOff::Http2(_) => {
                Broken::Off
            }
        }
    }

    fn status_and_text(self) -> (StatusCode, &'static str) {
        match self {
            Broken::Off => (
                StatusCode::BAD_REQUEST,
                "The request's body broke off or is not framed as HTTP has it.",
            ),
            Broken::TooLarge => {
                (StatusCode::PAYLOAD_TOO_LARGE, "The request's body is larger than permitted.")
            }
            Broken::Slow => (StatusCode::REQUEST_TIMEOUT, "The request's body came too slowly."),
        }
    }
}

/// Returns the status and the message for a client whose body broke off.
pub fn status_of(error: &BrokenOff) -> (StatusCode, &'static str) {
    Broken::of(error).status_and_text()
}

impl Progress {
    /// Returns the number of frames passed on so far, counting the end.
    pub fn frames(&self) -> u64 {
        self.frames.get()
    }

    /// Returns the failure to report to the client if its body broke off, was malformed, or arrived
    /// too slowly.
    pub fn failure(&self) -> Option<Failure> {
        let (status, text) = self.broken.get()?.status_and_text();
        Some(Failure::Request(status, text.to_owned()))
    }

    /// Returns whether the client had not sent the whole body when forwarding began.
    pub fn is_open(&self) -> bool {
        self.is_open.get()
    }

    /// Returns whether the whole body was passed on.
    pub fn ended(&self) -> bool {
        self.ended.get()
    }
}

impl ClientBody {
    /// Creates the body. `expects` receives interim responses for a request that expects 100
    /// Continue; its body is not read until the upstream asks for it or `CONTINUE_WAIT` has passed.
    pub fn new(incoming: RequestBody, expects: Option<Arc<Informational>>) -> ClientBody {
        let progress = Rc::new(Progress::default());
        progress.ended.set(incoming.is_end_stream());
        progress.is_open.set(!incoming.is_whole());
        let hold = expects.map(|interim| (interim, Box::pin(sleep(CONTINUE_WAIT))));
        ClientBody { incoming, progress, hold }
    }

    /// Returns the progress, to watch while the body is being sent.
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
    type Error = BrokenOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let OutBody::Client(body) = self.get_mut() else { return Poll::Ready(None) };
        ready!(body.poll_hold(cx));
        let frame = ready!(Pin::new(&mut body.incoming).poll_frame(cx));
        // Trailers are the last frame.
        let frame = frame.filter(|frame| !frame.as_ref().is_ok_and(Frame::is_trailers));
        let progress = &body.progress;
        progress.frames.set(progress.frames.get() + 1);
        progress.broken.set(match &frame {
            Some(Err(error)) => Some(Broken::of(error)),
            _ => None,
        });
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
