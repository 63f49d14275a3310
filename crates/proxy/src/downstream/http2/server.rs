//! One HTTP/2 connection of a client from its preface to its end (RFC 9113).
//!
//! Each stream is answered by a task of its own, like any other request (`dispatch`); this one
//! drives the connection. It promises: a request that the client takes back, or whose connection
//! ends, is given up; a client that is told to end (GOAWAY) gets the answers to its earlier
//! requests; a connection that the sweep cuts ends at once.

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
use message::request_body::RequestBody;
use message::upgrade;
use net::http2_stream::StreamIo;
use tokio::task::spawn_local;

use super::pings::Keepalive;
use super::send::{send_body, settle};
use crate::client::connection_state::{CloseReason, Phase};
use crate::client::handle::Client;
use crate::client::http2_body::StreamBody;
use crate::downstream::connection::tunnel_through;
use crate::downstream::connections::Connections;
use crate::downstream::http2::client_io::ClientIo;
use crate::downstream::stream::Stream;
use crate::exchange::dispatch;
use crate::exchange::dispatch::{Answering, Unanswered};
use crate::peers::question;
use crate::response::client_response::ClientResponse;
use crate::response::stored_fields;
use crate::response::tunnel::Tunnel;
use crate::services::Services;

/// The stage of a connection.
enum Http2Stage {
    Handshake(Handshake<ClientIo, Bytes>),
    Serving { http: server::Connection<ClientIo, Bytes>, pings: Option<Keepalive> },
}

/// A connection, and whether its client has been told that it ends.
struct Server<'a> {
    services: &'a Rc<Services>,
    client: &'a Rc<Client>,
    stage: Http2Stage,
    told_to_end: bool,
    /// It sends frames without end, which are read no longer.
    is_flooded: Rc<Cell<bool>>,
    told_to_calm: bool,
}

/// Serves a connection until it ends.
pub(crate) async fn serve(connections: &Connections, client: &Rc<Client>, stream: Stream) {
    let services = &connections.services;
    let (io, is_flooded) = ClientIo::new(stream, client, services.clock);
    let builders = connections.builders();
    let builder = if client.link.is_peer { &builders.nodes } else { &builders.http2 };
    let handshake = builder.handshake(io);
    let stage = Http2Stage::Handshake(handshake);
    let mut server =
        Server { services, client, stage, told_to_end: false, is_flooded, told_to_calm: false };
    if let Err(error) = poll_fn(|cx| server.poll(cx)).await {
        services.observer.refused(client.address, None, &error);
    }
}

impl Server<'_> {
    /// Waits until the connection is over, also when the sweep has cut it.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        let state = &self.client.state;
        state.note_task(cx);
        match state.cut() {
            // The client is told first: a request may be on its way. If it does not end, it is cut
            // next time.
            Some(CloseReason::Idle) if !self.told_to_end => {
                state.undo_cut();
                self.tell_to_end();
            }
            // A request came in time.
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

    /// Tells the client that no further request was processed, if its socket takes that at once:
    /// requests on their way may be sent again.
    fn close_for_room(&mut self, cx: &mut Context<'_>) {
        if let Http2Stage::Serving { http, .. } = &mut self.stage {
            http.abrupt_shutdown(Reason::NO_ERROR);
            // The connection ends whatever comes of it.
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
        loop {
            let next = http.poll_accept(cx);
            let received = self.client.state.received();
            if pings.as_mut().is_some_and(|pings| pings.poll_silence(received, cx).is_ready()) {
                log::debug!("{}: no answer to a ping", self.client.address);
                *pings = None;
                http.abrupt_shutdown(Reason::NO_ERROR);
                continue;
            }
            if self.is_flooded.get() && !self.told_to_calm {
                self.told_to_calm = true;
                let why = "frames without end that ask for nothing";
                self.services.observer.refused(self.client.address, None, &why);
                http.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                continue;
            }
            match ready!(next) {
                None => return Poll::Ready(Ok(())),
                Some(Err(error)) => return Poll::Ready(Err(error)),
                Some(Ok((request, mut reply))) => {
                    // The client sends a refused stream's request to the next process, whatever the
                    // method.
                    if self.services.leases.is_released() {
                        reply.send_reset(Reason::REFUSED_STREAM);
                        continue;
                    }
                    let named =
                        self.client.link.is_peer.then(|| question::client(request.headers()));
                    let address = named.flatten().unwrap_or(self.client.address);
                    let client = self.client.of_stream(reply, address);
                    spawn_local(answer(self.services.clone(), client, request));
                }
            }
        }
    }
}

/// Answers the request of one stream.
async fn answer(services: Rc<Services>, client: Rc<Client>, request: Request<RecvStream>) {
    let (mut parts, stream) = request.into_parts();
    // Bytes behind a CONNECT are not part of the request.
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
    let method = parts.method;
    let response = match dispatch::answer(&services, &client, head, body) {
        Answering::Now(response) => response,
        Answering::Later(answering) => match unless_reset(&services, &client, answering).await {
            Some(response) => response,
            None => return,
        },
    };
    let is_head = method == Method::HEAD;
    let (mut head, mut body) = stored_fields::with_map(response, &services, is_head).into_parts();
    let tunnel = body.take_tunnel();
    let is_bodiless = has_no_body(&method, head.status);
    settle(&mut head.headers, &body, is_head || !is_bodiless, services.clock);
    if is_bodiless {
        body.leave_out();
    }
    let ends = tunnel.is_none() && (is_bodiless || body.is_end_stream());
    let Some(sink) = send_head(&client, Response::from_parts(head, ()), ends) else { return };
    match (tunnel, behind) {
        (Some(tunnel), Some(source)) => {
            Box::pin(open_tunnel(&services, *tunnel, sink, source)).await;
        }
        _ if ends => {}
        _ => send_body(body, sink).await,
    }
}

/// Puts the head of a stream's request into `head`.
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

/// Returns the response, unless the client has taken the request back.
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
        // An error: the connection has ended.
        reply.borrow_mut().poll_reset(cx).map(|_| None)
    })
    .await;
    if answered.is_none() {
        answering.run_on(services, &client.state);
    }
    answered
}

/// Sends the head of an answer; `None` when that cannot be done.
fn send_head(client: &Client, head: Response<()>, ends: bool) -> Option<SendStream<Bytes>> {
    let reply: &mut SendResponse<Bytes> = &mut client.reply.as_ref()?.borrow_mut();
    let sent = reply.send_response(head, ends);
    sent.inspect_err(|error| {
        log::debug!("{}: an answer was not sent: {error}", client.address);
        reply.send_reset(Reason::INTERNAL_ERROR);
    })
    .ok()
}

/// Joins a stream with its tunnel. It ends with its connection, which counts its bytes.
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
