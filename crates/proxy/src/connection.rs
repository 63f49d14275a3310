//! One client connection from accept to close: hyper's HTTP/1 server in between two things of
//! ours, the socket (`client_io`) and the decisions (`serve`).
//!
//! What hyper refuses by itself (400, 414, 431: it answers with a bare head) is counted here; a
//! head that does not end in time gets its 408 here; a CONNECT leaves HTTP here.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::account::{Account, Observer};
use crate::client_io::{ClientIo, ConnState, Cut, Phase};
use crate::metrics::Event;
use crate::options::ClientLimits;
use crate::scheme::Scheme;
use crate::serve;
use crate::tunnel::{self, End};
use crate::worker::Worker;

/// After our last byte a client that still sends is listened to for this long and this much: a
/// close with unread bytes would reset the connection and take our answer with it.
const LINGER_TIME: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 256 * 1024;

const TIMEOUT_ANSWER: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\
    content-type: text/plain\r\ncontent-length: 37\r\n\r\nThe request's head came too slowly.\r\n";

/// What the requests of one connection share.
pub(crate) struct Connection {
    pub worker: Rc<Worker>,
    pub state: Rc<ConnState>,
    pub client: SocketAddr,
    /// What its requests' URLs begin with, on a reverse proxy.
    pub scheme: Scheme,
    /// Set by the service when it answers a CONNECT: what to join the client with when hyper is
    /// done.
    pub tunnel: RefCell<Option<Tunnel>>,
}

/// A tunnel about to open.
pub(crate) struct Tunnel {
    pub upstream: TcpStream,
    pub account: Account,
    pub idle: Duration,
}

/// hyper's server with our limits.
pub(crate) fn builder(limits: &ClientLimits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.half_close(true).max_buf_size(limits.head_bytes.max(8192));
    if limits.headers != ClientLimits::default().headers {
        builder.max_headers(limits.headers);
    }
    builder
}

/// How hyper's part ended.
enum HttpEnd {
    Done(hyper::Result<()>),
    Cut(Cut),
}

/// Serves a connection until it ends.
pub(crate) async fn run(worker: Rc<Worker>, stream: TcpStream, client: SocketAddr) {
    // Answers must not wait for acknowledgements; a failure only costs time.
    let _ = stream.set_nodelay(true);
    let state = Rc::new(ConnState::default());
    let _watched = worker.watch(&state);
    let connection = Rc::new(Connection {
        worker: worker.clone(),
        state: state.clone(),
        client,
        scheme: Scheme::Http,
        tunnel: RefCell::new(None),
    });
    let service = service_fn(|request: Request<Incoming>| {
        let connection = connection.clone();
        async move {
            connection.state.set_phase(Phase::Busy);
            let answer = serve::answer(&connection, request).await;
            connection.state.request_is_read();
            Ok::<_, Infallible>(answer)
        }
    });
    let io = TokioIo::new(ClientIo::new(stream, state.clone()));
    let mut http = worker.context().server.serve_connection(io, service);
    let mut told_to_drain = false;
    let end = poll_fn(|cx| {
        state.note_task(cx);
        if let Some(cut) = state.cut() {
            return Poll::Ready(HttpEnd::Cut(cut));
        }
        if state.draining() && !told_to_drain {
            told_to_drain = true;
            Pin::new(&mut http).graceful_shutdown();
        }
        Pin::new(&mut http).poll(cx).map(HttpEnd::Done)
    })
    .await;
    let parts = http.into_parts();
    let socket = parts.io.into_inner().into_inner();
    if state.open_ended() {
        // A plain end would pass for the end of the body: only a reset, if it can be had, tells.
        let _ = SockRef::from(&socket).set_linger(Some(Duration::ZERO));
        if let HttpEnd::Done(Err(error)) = &end {
            refused(&connection, error);
        }
        return;
    }
    match end {
        HttpEnd::Cut(Cut::Head) => {
            worker.observer.refused(client, Some(StatusCode::REQUEST_TIMEOUT), &"head too slow");
            // Nothing of ours is on its way: a head is what we waited for. The client may be gone.
            let _ = socket.try_write(TIMEOUT_ANSWER);
            close(socket, false).await;
        }
        HttpEnd::Cut(_) => {}
        HttpEnd::Done(result) => {
            if let Err(error) = &result {
                refused(&connection, error);
            }
            let tunnel = connection.tunnel.borrow_mut().take();
            match tunnel {
                Some(tunnel) if result.is_ok() => {
                    let observer = &*worker.observer;
                    observer.count(Event::TunnelOpened, 1);
                    tunnel_through(&state, socket, parts.read_buf, tunnel, observer).await;
                    observer.count(Event::TunnelClosed, 1);
                }
                _ => close(socket, state.eof()).await,
            }
        }
    }
}

/// Counts what hyper refused.
fn refused(connection: &Connection, error: &hyper::Error) {
    let status = if error.is_parse_too_large() {
        Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE)
    } else if error.is_parse() {
        Some(StatusCode::BAD_REQUEST)
    } else {
        None
    };
    connection.worker.observer.refused(connection.client, status, error);
}

/// Ends a connection so that the last answer arrives.
async fn close(mut socket: TcpStream, seen_eof: bool) {
    if socket.shutdown().await.is_err() || seen_eof {
        return;
    }
    let mut left = LINGER_BYTES;
    let mut sink = [0u8; 2048];
    let drain = async {
        while left > 0 {
            match socket.read(&mut sink).await {
                Ok(0) | Err(_) => return,
                Ok(n) => left = left.saturating_sub(n),
            }
        }
    };
    // Elapsed or drained: either way the connection is dropped now.
    let _ = timeout(LINGER_TIME, drain).await;
}

/// Joins client and upstream until both have ended; `early` is what the client sent before our
/// answer. The drain cuts it.
async fn tunnel_through(
    state: &ConnState,
    client: TcpStream,
    early: Bytes,
    tunnel: Tunnel,
    observer: &dyn Observer,
) {
    // The connection has counted these.
    let early_bytes = early.len() as u64;
    let Tunnel { upstream, mut account, idle } = tunnel;
    let cut = poll_fn(|cx| {
        state.note_task(cx);
        if state.cut().is_some() { Poll::Ready(()) } else { Poll::Pending }
    });
    let ended = tunnel::join(client, early, upstream, idle, cut).await;
    account.sent(ended.received);
    observer.count(Event::BytesReceived, ended.sent.saturating_sub(early_bytes));
    observer.count(Event::BytesSent, ended.received);
    match ended.how {
        End::Closed | End::Idle => account.ended(),
        End::Cut => log::debug!("a tunnel was cut at the end of the drain"),
        End::Broken(error) => log::debug!("a tunnel broke: {error}"),
    }
}
