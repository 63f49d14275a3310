//! One client connection from accept to close: hyper's server (in HTTP/2 `http2::server`) between
//! the proxy's socket (`client_io`) and its decisions (`dispatch`). What comes before HTTP is in
//! `handshake`.
//!
//! Requests that hyper refuses by itself (400, 414, 431, with a bare head) are counted here; a head
//! that does not end in time gets its 408 here; a tunnel (CONNECT, Upgrade) leaves HTTP here.
//!
//! hyper keeps 16 KiB of buffers and the place of a request's future while it serves a connection.
//! So an HTTP/1 connection that waits for its next request for a while is parked: hyper's part
//! ends, only the socket is kept, and a new part begins with the next byte.

use std::cell::RefCell;
use std::convert::Infallible;
use std::error::Error;
use std::future::{pending, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderValue;
use http::{Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use message::framing_check::Trust;
use message::request_body::RequestBody;
use message::{date, upgrade};
use net::socket::Socket;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::client::connection_state::{CloseReason, ConnectionState};
use crate::client::handle::Client;
use crate::client::limits::ClientLimits;
use crate::downstream::answers_ahead::{AnswersAhead, LeftAnswer};
use crate::downstream::client_io::ClientIo;
use crate::downstream::connections::Connections;
use crate::downstream::file_response::{FileResponse, RequestForm};
use crate::downstream::handshake::{ListenerProtocol, Negotiated, Protocol, welcome};
use crate::downstream::stream::Stream;
use crate::downstream::tunnel::End;
use crate::downstream::{http2, tunnel};
use crate::exchange::dispatch;
use crate::observe::event::Event;
use crate::response::response_body::ResponseBody;
use crate::response::tunnel::Tunnel;
use crate::services::Services;

/// After the last byte of an answer a client that still sends is read from for this long and this
/// much: a close with unread bytes would reset the connection, and the answer might be lost.
const LINGER_TIME: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 256 * 1024;

const TIMEOUT_ANSWER: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\
    content-type: text/plain\r\ncontent-length: 37\r\n\r\nThe request's head came too slowly.\r\n";

/// A connection of HTTP/1.
struct Connection {
    connections: Rc<Connections>,
    client: Rc<Client>,
    /// The tunnel to join the client with once the answer that opens it was sent.
    tunnel: RefCell<Option<Tunnel>>,
    /// The answer to the request that hyper reads next, if it was decided on ahead of it.
    left_answer: Rc<LeftAnswer>,
    /// The kernel can send files to the client.
    sends_files: bool,
    /// The response that is to be sent without hyper, which waits for it.
    file_response: RefCell<Option<Box<FileResponse>>>,
}

/// Returns hyper's server with these limits.
pub(crate) fn builder(limits: &ClientLimits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    // The proxy sets the field `Date` itself, by its own clock.
    builder.half_close(true).auto_date_header(false).max_buf_size(limits.head_bytes.max(8192));
    if limits.headers != ClientLimits::default().headers {
        builder.max_headers(limits.headers);
    }
    builder
}

/// The end of hyper's part.
enum HttpEnd {
    Done(hyper::Result<()>),
    Closed(CloseReason),
    /// The connection is parked.
    Parked,
    /// A response is to be sent without hyper.
    Sends(Box<FileResponse>),
    /// Such a response broke off.
    Broken(Box<dyn Error>),
}

/// Serves a connection until it ends.
pub(crate) async fn run(
    connections: Rc<Connections>,
    socket: Socket,
    peer: SocketAddr,
    manners: &ListenerProtocol,
) {
    let state = Rc::new(ConnectionState::new(connections.services.clock));
    let _watched = connections.watch(&state, manners.group());
    let Services { observer, .. } = &*connections.services;
    let (options, addresses) =
        (connections.services.options(), &connections.connection_limit.addresses);
    let clock = connections.services.clock;
    let ready = Box::pin(welcome(socket, peer, manners, &options, addresses, &**observer, clock));
    let Some(Some(ready)) = unless_cut(&state, ready).await else { return };
    let Negotiated { stream, client: address, link, protocol, place: _place } = ready;
    let login = (protocol == Protocol::Http1 && !link.is_peer).then(Rc::default);
    let client = Client { state: state.clone(), address, link: Rc::new(link), login, reply: None };
    let client = Rc::new(client);
    match protocol {
        Protocol::Http1 => {
            observer.count(Event::Http1Connection, 1);
            let (connections, tunnel) = (connections.clone(), RefCell::default());
            let (left_answer, file_response) = (Rc::default(), RefCell::default());
            let sends_files = stream.bare_socket().is_some();
            let connection =
                Connection { connections, client, tunnel, left_answer, sends_files, file_response };
            http1(&Rc::new(connection), stream).await;
        }
        Protocol::Http2 => {
            observer.count(Event::Http2Connection, 1);
            state.set_multiplexed();
            Box::pin(http2::serve(&connections, &client, stream)).await;
        }
    }
}

/// Waits for `work`, or until the sweep or the drain cuts the connection.
async fn unless_cut<T>(state: &ConnectionState, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|cx| {
        state.note_task(cx);
        match state.cut() {
            Some(_) => Poll::Ready(None),
            None => work.as_mut().poll(cx).map(Some),
        }
    })
    .await
}

/// Answers a request in HTTP/1, and says in the answer whether it is the last one. Never returns
/// when the answer is sent without hyper: then it is left in the connection.
async fn answer(
    connection: &Rc<Connection>,
    request: Request<RequestBody>,
) -> Response<ResponseBody> {
    let Connection { connections, client, left_answer, .. } = &**connection;
    let state = &client.state;
    let number = state.next_request();
    let wants_tunnel =
        request.method() == Method::CONNECT || upgrade::protocols(request.headers()).is_some();
    let (trust, form) = (state.trust(number), RequestForm::of(&request));
    let answer = match left_answer.take() {
        Some(left) => left,
        None => dispatch::answer(&connections.services, client, request, trust).await,
    };
    // What is left of the body is not waited for (RFC 9112, 9.6).
    let is_early = state.is_receiving(number);
    let ends = wants_tunnel || is_early || state.trust(number) != Trust::Good;
    let answer = finished(connection, answer, ends);
    match form {
        RequestForm::Bare { closes }
            if connection.sends_files && !ends && state.holds_only(number) =>
        {
            match FileResponse::of(answer, closes || state.draining()) {
                Ok(response) => {
                    *connection.file_response.borrow_mut() = Some(Box::new(response));
                    pending().await
                }
                Err(answer) => *answer,
            }
        }
        _ => answer,
    }
}

/// Returns an answer as hyper is given it. `ends`: bytes behind the request are not another one,
/// unless a tunnel opens, which they are for.
fn finished(
    connection: &Connection,
    mut answer: Response<ResponseBody>,
    ends: bool,
) -> Response<ResponseBody> {
    let Connection { connections, client, tunnel, .. } = connection;
    let state = &client.state;
    date::set(answer.headers_mut(), connections.services.clock);
    state.request_is_read();
    if let Some(opened) = answer.body_mut().take_tunnel() {
        *tunnel.borrow_mut() = Some(opened);
        return answer;
    }
    if ends || state.is_last_answer() {
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// Serves a connection of HTTP/1 until it ends.
async fn http1(connection: &Rc<Connection>, mut stream: Stream) {
    let (services, state) = (&connection.connections.services, &connection.client.state);
    state.limit_heads(services.options().client.head_bytes);
    while let Some(parked) = Box::pin(speak_http1(connection, stream)).await {
        services.observer.count(Event::ConnectionParked, 1);
        // Also when the connection is to end: it does so as any other.
        poll_fn(|cx| {
            state.note_task(cx);
            match state.cut().is_some() || state.draining() {
                true => Poll::Ready(()),
                false => parked.poll_readable(cx),
            }
        })
        .await;
        state.unpark();
        stream = parked;
    }
}

/// Speaks HTTP/1 until the connection ends or is parked. Returns the stream of a parked one.
async fn speak_http1(connection: &Rc<Connection>, stream: Stream) -> Option<Stream> {
    let services = &connection.connections.services;
    let ahead = AnswersAhead::new(
        services.clone(),
        connection.client.clone(),
        connection.left_answer.clone(),
    );
    let io = ClientIo::new(stream, connection.client.state.clone());
    let mut io = io.with_answers_ahead(ahead);
    loop {
        let (end, early);
        (end, io, early) = speak_through_hyper(connection, io).await;
        let end = match end {
            HttpEnd::Sends(response) => {
                match Box::pin(send_file(connection, &mut io, *response, &early)).await {
                    Some(end) => end,
                    None => continue,
                }
            }
            end => end,
        };
        return after_http1(connection, end, io.into_inner(), early).await;
    }
}

/// Sends a response from a file. Returns the end of the connection; `None` when it goes on.
async fn send_file(
    connection: &Connection,
    io: &mut ClientIo,
    response: FileResponse,
    early: &[u8],
) -> Option<HttpEnd> {
    let state = &connection.client.state;
    debug_assert!(is_blank(early), "what came would be lost");
    let is_last = response.is_last || !is_blank(early);
    match (unless_cut(state, response.send(io)).await, state.cut()) {
        (None, cut) => Some(HttpEnd::Closed(cut.unwrap_or(CloseReason::Stall))),
        (Some(Ok(())), _) => is_last.then_some(HttpEnd::Done(Ok(()))),
        (Some(Err(why)), _) => Some(HttpEnd::Broken(why)),
    }
}

/// Returns whether bytes are only empty lines, which are not part of the request behind them
/// (RFC 9112, 2.2).
fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| b"\r\n".contains(byte))
}

/// Has hyper speak HTTP/1 until the connection ends, is parked, or is to send a file. Returns also
/// the bytes that hyper has read and not used.
async fn speak_through_hyper(
    connection: &Rc<Connection>,
    io: ClientIo,
) -> (HttpEnd, ClientIo, Bytes) {
    let (connections, state) = (&connection.connections, &connection.client.state);
    let service = service_fn(|request: Request<Incoming>| {
        let connection = connection.clone();
        let request = request.map(RequestBody::Http1);
        async move { Ok::<_, Infallible>(answer(&connection, request).await) }
    });
    let services = &connections.services;
    let mut http = connections.builders().http1.serve_connection(TokioIo::new(io), service);
    let mut told_to_drain = false;
    let end = poll_fn(|cx| {
        state.note_task(cx);
        if let Some(cut) = state.cut() {
            return Poll::Ready(HttpEnd::Closed(cut));
        }
        loop {
            // hyper takes a connection for idle while a request is answered ahead of it.
            let is_to_be_told = || state.draining() && !state.is_answering_ahead();
            if is_to_be_told() && !told_to_drain {
                told_to_drain = true;
                Pin::new(&mut http).graceful_shutdown();
            }
            let polled = Pin::new(&mut http).poll(cx).map(HttpEnd::Done);
            services.forget_found();
            if let Some(response) = connection.file_response.take().filter(|_| polled.is_pending())
            {
                return Poll::Ready(HttpEnd::Sends(response));
            }
            match polled {
                Poll::Pending if state.is_parked_now() => return Poll::Ready(HttpEnd::Parked),
                Poll::Pending if is_to_be_told() && !told_to_drain => {}
                polled => return polled,
            }
        }
    })
    .await;
    let parts = http.into_parts();
    (end, parts.io.into_inner(), parts.read_buf)
}

/// Does what is left when hyper's part has ended; `early` is what it has read and not used. Returns
/// the stream of a parked connection.
async fn after_http1(
    connection: &Rc<Connection>,
    end: HttpEnd,
    mut stream: Stream,
    early: Bytes,
) -> Option<Stream> {
    let (connections, state) = (&connection.connections, &connection.client.state);
    if state.open_ended() {
        // A plain end would look like the end of the body: only a reset, if it is possible, shows
        // the break.
        stream.reset_at_close();
        if let HttpEnd::Done(Err(error)) = &end {
            refused(connection, error);
        }
        return None;
    }
    match end {
        HttpEnd::Parked => {
            let is_empty = is_blank(&early);
            debug_assert!(is_empty, "what came would be lost, and what follows be no request");
            return is_empty.then_some(stream);
        }
        HttpEnd::Closed(CloseReason::Head) => {
            let (status, client) = (StatusCode::REQUEST_TIMEOUT, connection.client.address);
            connections.services.observer.refused(client, Some(status), &"head too slow");
            // No answer is being sent: a head was waited for. The client may be gone.
            let _ = timeout(LINGER_TIME, stream.write_all(TIMEOUT_ANSWER)).await;
            Box::pin(close(stream, false)).await;
        }
        HttpEnd::Closed(_) | HttpEnd::Sends(_) => {}
        HttpEnd::Broken(why) => {
            connections.services.observer.refused(connection.client.address, None, &why);
            let close = Box::pin(close(stream, state.eof()));
            unless_cut(state, close).await;
        }
        HttpEnd::Done(result) => {
            if let Err(error) = &result {
                refused(connection, error);
            }
            let tunnel = connection.tunnel.borrow_mut().take();
            match tunnel {
                Some(tunnel) if result.is_ok() => {
                    be_tunnel(connection, stream, early, tunnel).await;
                }
                _ => {
                    let close = Box::pin(close(stream, state.eof()));
                    unless_cut(state, close).await;
                }
            }
        }
    }
    None
}

/// Runs a tunnel; `early` is what the client sent before the answer.
async fn be_tunnel(connection: &Connection, stream: Stream, early: Bytes, tunnel: Tunnel) {
    let cut = unless_cut(&connection.client.state, pending::<()>());
    // The connection has counted these.
    let counted = early.len() as u64;
    let services = &connection.connections.services;
    let observer = &*services.observer;
    let ended = tunnel_through(services, stream, early, tunnel, cut).await;
    observer.count(Event::BytesReceived, ended.sent.saturating_sub(counted));
    observer.count(Event::BytesSent, ended.received);
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
    connection.connections.services.observer.refused(connection.client.address, status, error);
}

/// Closes a connection so that the last answer arrives.
async fn close(mut socket: Stream, seen_eof: bool) {
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

/// Joins client and upstream until both have ended; `early` is what the client sent before the
/// answer.
pub(crate) async fn tunnel_through<T>(
    services: &Services,
    client: impl AsyncRead + AsyncWrite + Unpin,
    early: Bytes,
    tunnel: Tunnel,
    cut: impl Future<Output = T>,
) -> tunnel::Ended {
    let Tunnel { upstream, mut transaction, lifetime, place } = tunnel;
    let displaced = async {
        match &place {
            Some(place) => place.displaced().await,
            None => pending().await,
        }
    };
    let cut = async {
        tokio::select! {
            _ = cut => End::Cut,
            () = displaced => End::Displaced,
        }
    };
    let Services { observer, clock, .. } = services;
    observer.count(Event::TunnelOpened, 1);
    let moved = |now| place.iter().for_each(|place| place.note_moved(now));
    let ended = tunnel::join(client, early, upstream, lifetime, *clock, cut, moved).await;
    observer.count(Event::TunnelClosed, 1);
    transaction.count_sent(ended.received);
    match &ended.how {
        End::Displaced => {
            observer.count(Event::TunnelMadeWay, 1);
            transaction.note_whole();
        }
        End::Closed | End::Idle | End::Expired => transaction.note_whole(),
        End::Cut => log::debug!("a tunnel was cut at the end of the drain"),
        End::Broken(error) => log::debug!("a tunnel broke: {error}"),
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of what `begin` returns.
    fn size<A, B, C, D, F>(_begin: impl Fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_parked_connection_takes_little() {
        // What goes on in it is in boxes that are there while it does.
        let parked = size(|all, socket, peer, manners: &'static _| run(all, socket, peer, manners));
        assert!(parked < 1024 && size_of::<ConnectionState>() < 512, "{parked} bytes");
    }
}
