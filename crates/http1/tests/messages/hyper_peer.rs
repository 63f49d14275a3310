//! Messages as hyper reads them, over an in-memory stream that is polled until no more progress is
//! made.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use http::{Method, Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::service::service_fn;

use crate::reader::{Message, told};

/// Maximum number of polls of one connection.
const POLLS: usize = 200;

/// A stream that returns these bytes and then ends. A response becomes readable once something was
/// written.
struct Stream {
    text: Vec<u8>,
    is_ready: bool,
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut cursor: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_ready {
            return Poll::Pending;
        }
        let count = self.text.len().min(cursor.remaining());
        cursor.put_slice(&self.text[..count]);
        self.text.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.is_ready = true;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Reads a body to its end; returns `None` if it is cut off.
async fn read_body(mut body: Incoming) -> Option<(Vec<u8>, usize)> {
    let (mut bytes, mut trailers) = (Vec::new(), 0);
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        match frame.ok()?.into_data() {
            Ok(data) => bytes.extend_from_slice(&data),
            Err(frame) => trailers = frame.trailers_ref().map_or(0, http::HeaderMap::len),
        }
    }
    Some((bytes, trailers))
}

fn message(line: String, fields: &http::HeaderMap, (body, trailers): (Vec<u8>, usize)) -> Message {
    let fields = told(fields.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
    Message { line, fields, body, trailers }
}

/// Returns the requests that hyper's server reads completely.
pub fn requests(text: &[u8]) -> Vec<Message> {
    let found = Rc::new(RefCell::new(Vec::new()));
    let service = service_fn(|request: Request<Incoming>| {
        let found = found.clone();
        async move {
            let (head, body) = request.into_parts();
            if let Some(body) = read_body(body).await {
                let line = format!("{} {}", head.method, head.uri);
                found.borrow_mut().push(message(line, &head.headers, body));
            }
            Ok::<_, Infallible>(Response::new(String::new()))
        }
    });
    let stream = Stream { text: text.to_vec(), is_ready: true };
    let server = hyper::server::conn::http1::Builder::new();
    let mut connection = pin!(server.serve_connection(stream, service));
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..POLLS {
        if connection.as_mut().poll(&mut cx).is_ready() {
            break;
        }
    }
    found.take()
}

/// Returns the response to a request with this method, if hyper's client reads it completely.
pub fn response(text: &[u8], method: &Method) -> Option<Message> {
    let stream = Stream { text: text.to_vec(), is_ready: false };
    let mut cx = Context::from_waker(Waker::noop());
    let mut handshake = pin!(hyper::client::conn::http1::handshake(stream));
    let Poll::Ready(Ok((mut sender, connection))) = handshake.as_mut().poll(&mut cx) else {
        return None;
    };
    let request = Request::builder().method(method).uri("/").header("host", "a");
    let asking = async {
        let (head, body) =
            sender.send_request(request.body(String::new()).ok()?).await.ok()?.into_parts();
        let body = read_body(body).await?;
        Some(message(head.status.as_u16().to_string(), &head.headers, body))
    };
    let (mut asking, mut connection) = (pin!(asking), pin!(connection));
    let mut is_open = true;
    for _ in 0..POLLS {
        is_open = is_open && connection.as_mut().poll(&mut cx).is_pending();
        if let Poll::Ready(found) = asking.as_mut().poll(&mut cx) {
            return found;
        }
    }
    None
}
