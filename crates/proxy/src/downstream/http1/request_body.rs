//! Body of an HTTP/1 request, read from its connection on demand.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use upstream::message::request_body::BrokenOff;

use crate::client::connection_state::ConnectionState;
use crate::downstream::http1::wire::Wire;

/// Interim response that asks the client for the body (RFC 9110, 10.1.1).
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Body of a request. The connection is reused only after the body has ended.
pub(super) struct WireBody {
    /// Dangling once the connection has ended.
    wire: Weak<RefCell<Wire>>,
    state: Rc<ConnectionState>,
    /// True while the client waits for a 100 Continue.
    is_expected: bool,
}

impl WireBody {
    pub fn new(
        wire: &Rc<RefCell<Wire>>,
        state: Rc<ConnectionState>,
        expects_continue: bool,
    ) -> WireBody {
        WireBody { wire: Rc::downgrade(wire), state, is_expected: expects_continue }
    }
}

impl Body for WireBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let this = self.get_mut();
        let Some(wire) = this.wire.upgrade() else {
            return Poll::Ready(Some(Err(BrokenOff::Ended)));
        };
        let mut wire = wire.borrow_mut();
        if std::mem::take(&mut this.is_expected) && !wire.has_input() {
            this.state.push_interim(Bytes::from_static(CONTINUE));
            this.state.wake();
        }
        wire.poll_body(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.wire.upgrade().is_some_and(|wire| wire.borrow().body_is_done())
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.wire.upgrade().and_then(|wire| wire.borrow().body_left());
        left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
