//! Minimum rate of request bodies on HTTP/2. Requests share a connection, so the minimum applies
//! per body: a stalled body is cancelled and the others continue.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Instant;

use crate::client::connection_state::ConnectionState;
use crate::client::limits::ClientLimits;

/// Progress of a body, as seen by the sweep.
#[derive(Default)]
pub(crate) struct Upload {
    received: Cell<u64>,
    /// True while the proxy waits for bytes that the client's window allows.
    awaited: Cell<bool>,
    /// When the sweep first saw the wait, and the bytes received by then.
    measured: Cell<Option<(Instant, u64)>>,
    given_up: Cell<bool>,
    reader: RefCell<Option<Waker>>,
}

impl Upload {
    /// Records that the proxy waits for the next bytes.
    pub fn waits(&self, cx: &Context<'_>) {
        self.awaited.set(true);
        self.reader.borrow_mut().replace(cx.waker().clone());
    }

    pub fn note_received(&self, bytes: usize) {
        self.awaited.set(false);
        self.received.set(self.received.get() + bytes as u64);
    }

    /// Returns whether the body was cancelled for being too slow.
    pub fn is_given_up(&self) -> bool {
        self.given_up.get()
    }

    /// Cancels the body if it has been too slow for too long.
    pub fn check(&self, now: Instant, limits: &ClientLimits) {
        if !self.awaited.get() {
            return self.measured.set(None);
        }
        let received = self.received.get();
        let (since, before) = self.measured.get().unwrap_or((now, received));
        self.measured.set(Some((since, before)));
        if now.duration_since(since) < limits.stall_timeout {
            return;
        }
        self.measured.set(Some((now, received)));
        if received - before < limits.least_in_stall_timeout() {
            self.given_up.set(true);
            if let Some(reader) = self.reader.borrow_mut().take() {
                reader.wake();
            }
        }
    }
}

/// Guard that keeps an upload registered with the sweep.
pub(crate) struct Watched {
    state: Rc<ConnectionState>,
    pub upload: Rc<Upload>,
}

impl Watched {
    pub fn new(state: &Rc<ConnectionState>) -> Watched {
        let upload = Rc::<Upload>::default();
        state.upload_began(&upload);
        Watched { state: state.clone(), upload }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.state.upload_ended(&self.upload);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;
    use net::clock::TokioClock;

    #[test]
    fn only_stalled_bodies_are_cancelled() {
        let limits = ClientLimits {
            stall_timeout: Duration::from_secs(10),
            rate_min: 100,
            ..ClientLimits::default()
        };
        let (start, cx) = (TokioClock::system().instant(), Context::from_waker(Waker::noop()));
        let after = |seconds| start + Duration::from_secs(seconds);
        let upload = Upload::default();
        // The upstream is slow, so no bytes are expected.
        for seconds in 0..60 {
            upload.check(after(seconds), &limits);
        }
        // First at the minimum rate, then at half of it.
        for seconds in 60..120 {
            upload.waits(&cx);
            upload.check(after(seconds), &limits);
            // The sweep runs while the body is waited for.
            upload.received.set(upload.received.get() + 101);
        }
        assert!(!upload.is_given_up());
        for seconds in 120..150 {
            upload.check(after(seconds), &limits);
            upload.received.set(upload.received.get() + 50);
        }
        assert!(upload.is_given_up());
    }
}
