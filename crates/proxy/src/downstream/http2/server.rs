//! One HTTP/2 client connection from its preface to its end (RFC 9113).
//!
//! Its task drives the connection and answers the streams whose response is available at once
//! (`dispatch`); every other stream has a task of its own. Guarantees: a request is cancelled when
//! the client resets it or its connection ends, unless its response may invalidate stored ones
//! (`run_on`). After a GOAWAY the client still gets the responses to its earlier requests. A
//! connection that the sweep cuts ends at once.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::server::{Handshake, SendResponse};
use h2::{Reason, RecvStream, SendStream, server};
use http::request::Parts;
use http::{Method, Request, Response};
use http_body::Body as _;
use http1::{RequestHead, has_no_body};
use net::http2_stream::StreamIo;
use tokio::task::spawn_local;
use upstream::message::request_body::RequestBody;
use upstream::message::upgrade;

use super::pings::Keepalive;
use super::send::{send_body, send_whole, settle};
use crate::client::connection_state::{CloseReason, Phase};
use crate::client::handle::Client;
use crate::client::http2_body::StreamBody;
use crate::downstream::connection::tunnel_through;
use crate::downstream::connections::Connections;
use crate::downstream::http2::client_io::ClientIo;
use crate::downstream::stream::Stream;
use crate::exchange::dispatch;
use crate::exchange::dispatch::{Answering, Unanswered};
use crate::response::client_response::ClientResponse;
use crate::response::response_body::ResponseBody;
use crate::response::stored_fields;
use crate::response::transaction::head_bytes;
use crate::response::tunnel::Tunnel;
use crate::services::Services;

/// Maximum number of requests answered per turn. Responses that are available at once share their
/// writes.
const ANSWERED_AT_ONCE: usize = 32;

thread_local! {
    /// Requests that were accepted but not started. All connections of a worker share this memory.
    static ACCEPTED: Cell<Vec<(Request<RecvStream>, SendResponse<Bytes>)>> =
        const { Cell::new(Vec::new()) };
}

enum Http2Stage {
    Handshake(Handshake<ClientIo, Bytes>),
    Serving { http: server::Connection<ClientIo, Bytes>, pings: Option<Keepalive> },
}

struct Server<'a> {
    services: &'a Rc<Services>,
    client: &'a Rc<Client>,
    stage: Http2Stage,
    told_to_end: bool,
    /// Set when the client floods the connection with frames; nothing is read after that.
    is_flooded: Rc<Cell<bool>>,
    told_to_calm: bool,
}

pub(crate) async fn serve(connections: &Connections, client: &Rc<Client>, stream: Stream) {
    let services = &connections.services;
    let (io, is_flooded) = ClientIo::new(stream, client, services.clock);
    let stage = Http2Stage::Handshake(connections.begin_http2(io));
    let mut server =
        Server { services, client, stage, told_to_end: false, is_flooded, told_to_calm: false };
    if let Err(error) = poll_fn(|cx| server.poll(cx)).await {
        services.observer.refused(client.address, None, &error);
    }
}

impl Server<'_> {
    /// Completes when the connection has ended or the sweep has cut it.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        let state = &self.client.state;
        state.note_task(cx);
        match state.cut() {
            // Send GOAWAY first, because a request may be on its way. If the connection stays idle,
            // the next sweep cuts it.
            Some(CloseReason::Idle) if !self.told_to_end => {
                state.undo_cut();
                self.tell_to_end();
            }
            // A request arrived in time.
            Some(CloseReason::Reclaimed) if state.phase() == Phase::Busy => state.undo_cut(),
            Some(CloseReason::Reclaimed) => {
                self.close_for_room(cx);
                return Poll::Ready(Ok(()));
            }
            Some(_) => return Poll::Ready(Ok(())),
            None if state.draining() && !self.told_to_end => self.tell_to_end(),
            None => {}
        }
        if let Http2Stage::Handshake(handshake) = &mut self.stage {
            let mut http = ready!(Pin::new(handshake).poll(cx))?;
            let options = self.services.options();
            let keepalive = |sender| Keepalive::new(sender, &options.http2, self.services.clock);
            let pings = http.ping_pong().map(keepalive);
            if self.told_to_end {
                http.graceful_shutdown();
            }
            self.stage = Http2Stage::Serving { http, pings };
        }
        self.poll_requests(cx)
    }

    /// Sends GOAWAY, if the socket takes it at once, so that the client may resend requests on
    /// their way.
    fn close_for_room(&mut self, cx: &mut Context<'_>) {
        if let Http2Stage::Serving { http, .. } = &mut self.stage {
            http.abrupt_shutdown(Reason::NO_ERROR);
            // The connection ends whether or not the frame was sent.
            let _ = http.poll_closed(cx);
        }
    }

    fn tell_to_end(&mut self) {
        self.told_to_end = true;
        if let Http2Stage::Serving { http, .. } = &mut self.stage {
            http.graceful_shutdown();
        }
    }

    fn poll_requests(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        let Http2Stage::Serving { http, pings } = &mut self.stage else { return Poll::Pending };
        let mut accepted = ACCEPTED.take();
        loop {
            let next = http.poll_accept(cx);
            let mut is_shut_down = false;
            let received = self.client.state.received();
            if pings.as_mut().is_some_and(|pings| pings.poll_silence(received, cx).is_ready()) {
                log::debug!("{}: no reply to a ping", self.client.address);
                (*pings, is_shut_down) = (None, true);
                http.abrupt_shutdown(Reason::NO_ERROR);
            }
            if self.is_flooded.get() && !self.told_to_calm {
                (self.told_to_calm, is_shut_down) = (true, true);
                let why = "too many frames without effect";
                self.services.observer.refused(self.client.address, None, &why);
                http.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
            }
            let end = match next {
                Poll::Ready(Some(Ok(request))) => {
                    accepted.push(request);
                    if accepted.len() < ANSWERED_AT_ONCE {
                        continue;
                    }
                    None
                }
                Poll::Ready(Some(Err(error))) => Some(Poll::Ready(Err(error))),
                Poll::Ready(None) => Some(Poll::Ready(Ok(()))),
                // The GOAWAY frame still waits to be sent.
                Poll::Pending if is_shut_down => None,
                Poll::Pending if accepted.is_empty() => Some(Poll::Pending),
                Poll::Pending => None,
            };
            let is_turn_over = accepted.len() == ANSWERED_AT_ONCE;
            accepted.drain(..).for_each(|(request, reply)| {
                begin_stream(self.services, self.client, request, reply);
            });
            if is_turn_over && end.is_none() {
                cx.waker().wake_by_ref();
                ACCEPTED.set(accepted);
                return Poll::Pending;
            }
            if let Some(end) = end {
                ACCEPTED.set(accepted);
                return end;
            }
        }
    }
}

/// Begins to answer the request of a stream. Work that cannot finish at once gets a task of its
/// own.
fn begin_stream(
    services: &Rc<Services>,
    connection: &Rc<Client>,
    request: Request<RecvStream>,
    mut reply: SendResponse<Bytes>,
) {
    // The client may send a refused stream's request to the next process, whatever the method.
    if services.leases.is_released() {
        return reply.send_reset(Reason::REFUSED_STREAM);
    }
    let client = connection.of_stream(reply);
    let (mut parts, stream) = request.into_parts();
    // Bytes after a CONNECT are not part of the request.
    let (body, behind) = match parts.method == Method::CONNECT {
        true => (RequestBody::Empty, Some(stream)),
        false if stream.is_end_stream() => (RequestBody::Empty, None),
        false => {
            let body = StreamBody::new(stream, &parts.headers, &client);
            (RequestBody::Stream(Box::pin(body)), None)
        }
    };
    let is_extended_connect = upgrade::is_of_stream(&parts);
    upgrade::from_stream(&mut parts);
    let mut head = services.heads.take();
    read_head(&parts, is_extended_connect, &mut head);
    let asked = PendingRequest { services: services.clone(), client, method: parts.method, behind };
    match dispatch::answer(services, &asked.client, head, body) {
        Answering::Now(response) => {
            if let Some(unsent) = asked.begin_response(response) {
                spawn_local(unsent.send());
            }
        }
        Answering::Later(answering) => {
            spawn_local(async move {
                let response = unless_reset(&asked.services, &asked.client, answering).await;
                if let Some(unsent) = response.and_then(|response| asked.begin_response(response)) {
                    unsent.send().await;
                }
            });
        }
    }
}

struct PendingRequest {
    services: Rc<Services>,
    client: Rc<Client>,
    method: Method,
    /// Bytes after a CONNECT.
    behind: Option<RecvStream>,
}

/// Rest of a response whose head was sent.
struct Unsent {
    asked: PendingRequest,
    tunnel: Option<Box<Tunnel>>,
    body: ResponseBody,
    sink: SendStream<Bytes>,
}

impl PendingRequest {
    /// Sends the head of the response, and the body if it is complete and the client's window holds
    /// it. Returns the rest.
    fn begin_response(self, response: ClientResponse) -> Option<Unsent> {
        let PendingRequest { services, client, method, .. } = &self;
        let is_head = *method == Method::HEAD;
        let response = stored_fields::with_map(response, services, (is_head, false));
        let (mut head, mut body) = response.into_parts();
        let tunnel = body.take_tunnel();
        let is_bodiless = has_no_body(method, head.status);
        settle(&mut head.headers, &body, is_head || !is_bodiless, services.clock);
        body.note_head(|| head_bytes(head.status, &head.headers));
        if is_bodiless {
            body.end_with_head();
        }
        let ends = tunnel.is_none() && (is_bodiless || body.is_end_stream());
        let mut sink = send_head(client, Response::from_parts(head, ()), ends)?;
        if ends || (tunnel.is_none() && send_whole(&mut body, &mut sink)) {
            return None;
        }
        Some(Unsent { asked: self, tunnel, body, sink })
    }
}

impl Unsent {
    /// Sends the body, or joins the stream with its tunnel.
    async fn send(self) {
        let Unsent { asked, tunnel, body, sink } = self;
        match (tunnel, asked.behind) {
            (Some(tunnel), Some(source)) => {
                Box::pin(open_tunnel(&asked.services, *tunnel, sink, source)).await;
            }
            _ => send_body(body, sink).await,
        }
    }
}

/// Copies the request head of a stream into `head`.
fn read_head(parts: &Parts, is_extended_connect: bool, head: &mut RequestHead) {
    let uri = &parts.uri;
    let path = uri.path_and_query().map_or("", |path| path.as_str());
    let authority = uri.authority().map(|authority| authority.as_str());
    head.method = parts.method.clone();
    head.version = parts.version;
    head.target.read_parts(uri.scheme_str(), authority, path);
    head.fields.read_map(&parts.headers);
    head.is_extended_connect = is_extended_connect;
}

/// Returns the response, or `None` if the client cancelled the request.
async fn unless_reset(
    services: &Services,
    client: &Client,
    mut answering: Unanswered,
) -> Option<ClientResponse> {
    let answered = poll_fn(|cx| {
        if let Poll::Ready(response) = answering.poll(cx) {
            return Poll::Ready(Some(response));
        }
        let Some(reply) = &client.reply else { return Poll::Pending };
        // An error means that the connection has ended.
        reply.borrow_mut().poll_reset(cx).map(|_| None)
    })
    .await;
    if answered.is_none() {
        answering.run_on(services, &client.state);
    }
    answered
}

/// Sends the head of a response; returns `None` if that fails.
fn send_head(client: &Client, head: Response<()>, ends: bool) -> Option<SendStream<Bytes>> {
    let reply: &mut SendResponse<Bytes> = &mut client.reply.as_ref()?.borrow_mut();
    let sent = reply.send_response(head, ends);
    sent.inspect_err(|error| {
        log::debug!("{}: a response was not sent: {error}", client.address);
        reply.send_reset(Reason::INTERNAL_ERROR);
    })
    .ok()
}

/// Relays bytes between a stream and its tunnel. Both end with the connection, which counts the
/// bytes.
async fn open_tunnel(
    services: &Services,
    tunnel: Tunnel,
    sink: SendStream<Bytes>,
    source: RecvStream,
) {
    let client = StreamIo { sink, source, early: Bytes::new() };
    let cut = std::future::pending::<()>();
    tunnel_through(services, client, Bytes::new(), tunnel, cut).await;
}
