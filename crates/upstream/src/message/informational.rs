//! 1xx responses from an upstream, forwarded to the client whose request caused them. The exchange
//! with the upstream delivers them; the client's connection writes them.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{Response, StatusCode};

/// Maximum number of interim responses forwarded per request, so that an origin cannot exhaust
/// memory.
const HEADS_MAX: usize = 64;

/// Maximum total size of their fields in bytes.
const BYTES_MAX: usize = 64 << 10;

/// The interim responses to one request.
#[derive(Default)]
pub struct Informational {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    heads: VecDeque<Response<()>>,
    count: usize,
    bytes: usize,
    continued: bool,
    reader: Option<Waker>,
    body: Option<Waker>,
}

impl Informational {
    /// Accepts a 1xx response from the upstream.
    pub fn receive(&self, status: StatusCode, headers: &http::HeaderMap) {
        let mut state = self.lock();
        if status == StatusCode::CONTINUE {
            // This releases the client's body. The code that reads the body from the client sends
            // the 100.
            state.continued = true;
            wake(&mut state.body);
            return;
        }
        let bytes: usize = headers.iter().map(|(n, v)| n.as_str().len() + v.len() + 4).sum();
        let room = state.count < HEADS_MAX && state.bytes + bytes <= BYTES_MAX;
        if status == StatusCode::SWITCHING_PROTOCOLS || !room {
            return;
        }
        state.count += 1;
        state.bytes += bytes;
        let mut head = Response::new(());
        *head.status_mut() = status;
        head.headers_mut().clone_from(headers);
        semantics::hop_by_hop::strip(head.headers_mut());
        // A 1xx response has no content (RFC 9110, 8.6), but the HTTP/2 library lets the field
        // through.
        head.headers_mut().remove(CONTENT_LENGTH);
        state.heads.push_back(head);
        wake(&mut state.reader);
    }

    /// Waits for the next head to forward.
    pub fn poll_head(&self, cx: &mut Context<'_>) -> Poll<Response<()>> {
        let mut state = self.lock();
        match state.heads.pop_front() {
            Some(head) => Poll::Ready(head),
            None => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Waits until the upstream has requested the body with a 100.
    pub fn poll_continue(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.continued {
            return Poll::Ready(());
        }
        state.body = Some(cx.waker().clone());
        Poll::Pending
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

/// Serialises a head in HTTP/1 form.
pub fn serialise(interim: &Response<()>) -> Bytes {
    let (status, headers) = (interim.status(), interim.headers());
    let mut head = String::with_capacity(128);
    let reason = status.canonical_reason().unwrap_or("");
    // Writing to a String cannot fail.
    let _ = write!(head, "HTTP/1.1 {} {reason}\r\n", status.as_u16());
    let mut head = head.into_bytes();
    for (name, value) in headers {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    Bytes::from(head)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_out_serialised_and_bounded() {
        let interim = Informational::default();
        let mut headers = http::HeaderMap::new();
        headers.insert("link", "</a.css>; rel=preload".parse().unwrap());
        headers.insert("connection", "x-hop".parse().unwrap());
        headers.insert("x-hop", "1".parse().unwrap());
        headers.insert("content-length", "5".parse().unwrap());
        headers.insert("transfer-encoding", "chunked".parse().unwrap());
        for _ in 0..HEADS_MAX + 5 {
            interim.receive(StatusCode::EARLY_HINTS, &headers);
        }
        let mut cx = Context::from_waker(Waker::noop());
        let expected = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n";
        for _ in 0..HEADS_MAX {
            let Poll::Ready(head) = interim.poll_head(&mut cx) else { panic!("none") };
            assert_eq!(serialise(&head), expected);
        }
        assert!(interim.poll_head(&mut cx).is_pending());
        let interim = Informational::default();
        headers.insert("x", "y".repeat(BYTES_MAX / 2).parse().unwrap());
        for _ in 0..3 {
            interim.receive(StatusCode::EARLY_HINTS, &headers);
        }
        assert!(interim.poll_head(&mut cx).is_ready());
        assert!(interim.poll_head(&mut cx).is_pending());
    }
}
