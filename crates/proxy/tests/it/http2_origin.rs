//! An origin that speaks HTTP/2, with or without TLS. The path selects its behaviour.
//!
//! | path | response |
//! |---|---|
//! | `/early` | 103, then 200 |
//! | `/echo` | a head at once, then the pieces of the body as they arrive |
//! | `/trailers` | a body and a trailer |
//! | `/cut` | half of the body that its length states, then a reset |
//! | `/quiet` | a part of a body without length, then a reset without error |
//! | `/refuse` | refused the first time (REFUSED_STREAM) |
//! | `/wait/N` | sent when N requests wait for it |
//! | others | `METHOD bytes-of-body` |

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, Request, Response};
use rustls::ServerConfig;
use testkit::listener::serve_each;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

pub struct Http2Origin {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    connections: AtomicUsize,
    asked: Mutex<Vec<Request<()>>>,
    trailers: Mutex<Vec<HeaderMap>>,
    refused: AtomicUsize,
    waiting: AtomicUsize,
    all_there: Notify,
}

impl Http2Origin {
    pub fn start(tls: Option<Arc<ServerConfig>>) -> Http2Origin {
        Http2Origin::start_with(tls, 0)
    }

    /// Starts an origin whose first connections end with a GOAWAY for unprocessed streams.
    pub fn start_with(tls: Option<Arc<ServerConfig>>, goaways: usize) -> Http2Origin {
        let state = Arc::new(State::default());
        let shared = state.clone();
        let address = serve_each(move |stream| {
            let (state, tls) = (shared.clone(), tls.clone());
            match state.connections.fetch_add(1, SeqCst) < goaways {
                true => turn_away(stream),
                false => serve(stream, tls, state),
            }
        });
        Http2Origin { address, state }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn connections(&self) -> usize {
        self.state.connections.load(SeqCst)
    }

    pub fn requests(&self) -> Vec<Request<()>> {
        self.state.asked.lock().unwrap().clone()
    }

    /// Returns the trailers of requests that had any.
    pub fn trailers(&self) -> Vec<HeaderMap> {
        self.state.trailers.lock().unwrap().clone()
    }
}

fn serve(stream: TcpStream, tls: Option<Arc<ServerConfig>>, state: Arc<State>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        stream.set_nonblocking(true).unwrap();
        let stream = tokio::net::TcpStream::from_std(stream).unwrap();
        match tls {
            None => converse(stream, state).await,
            Some(config) => {
                if let Ok(stream) = TlsAcceptor::from(config).accept(stream).await {
                    converse(stream, state).await;
                }
            }
        }
    });
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, state: Arc<State>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let (head, body) = request.into_parts();
        let request = Request::from_parts(head, ());
        state.asked.lock().unwrap().push(request.clone());
        tokio::spawn(answer(request, body, respond, state.clone()));
    }
}

fn ok(length: Option<usize>) -> Response<()> {
    let response = Response::builder().header("cache-control", "max-age=60");
    match length {
        Some(length) => response.header("content-length", length).body(()).unwrap(),
        None => response.body(()).unwrap(),
    }
}

async fn answer(
    request: Request<()>,
    mut body: RecvStream,
    mut respond: SendResponse<Bytes>,
    state: Arc<State>,
) {
    let path = request.uri().path().to_owned();
    match path.as_str() {
        "/refuse" if state.refused.fetch_add(1, SeqCst) == 0 => {
            return respond.send_reset(h2::Reason::REFUSED_STREAM);
        }
        "/early" => {
            let hints =
                Response::builder().status(103).header("link", "</a.css>").body(()).unwrap();
            respond.send_informational(hints).unwrap();
        }
        "/trailers" => {
            let head = Response::builder().header("trailer", "x-sum").body(()).unwrap();
            let mut stream = respond.send_response(head, false).unwrap();
            stream.send_data("body".into(), false).unwrap();
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", "4".parse().unwrap());
            return stream.send_trailers(trailers).unwrap();
        }
        "/echo" => {
            let mut stream = respond.send_response(ok(None), false).unwrap();
            while let Some(Ok(data)) = body.data().await {
                let _ = body.flow_control().release_capacity(data.len());
                stream.send_data(data, false).unwrap();
            }
            return stream.send_data(Bytes::new(), true).unwrap();
        }
        "/cut" | "/quiet" => {
            let length = (path == "/cut").then_some(10);
            let mut stream = respond.send_response(ok(length), false).unwrap();
            stream.send_data("half!".into(), false).unwrap();
            // A reset overtakes data that has not been sent yet.
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            let code =
                if path == "/cut" { h2::Reason::INTERNAL_ERROR } else { h2::Reason::NO_ERROR };
            return stream.send_reset(code);
        }
        _ => {}
    }
    if let Some(all) = path.strip_prefix("/wait/") {
        let all: usize = all.split('/').next().unwrap().parse().unwrap();
        let arrived = state.all_there.notified();
        if state.waiting.fetch_add(1, SeqCst) + 1 == all {
            state.all_there.notify_waiters();
        } else {
            arrived.await;
        }
    }
    let mut bytes = 0;
    while let Some(Ok(data)) = body.data().await {
        bytes += data.len();
        let _ = body.flow_control().release_capacity(data.len());
    }
    if let Ok(Some(trailers)) = body.trailers().await {
        state.trailers.lock().unwrap().push(trailers);
    }
    let text = Bytes::from(format!("{} {bytes}", request.method()));
    if let Ok(mut stream) = respond.send_response(ok(Some(text.len())), false) {
        let _ = stream.send_data(text, true);
    }
}

/// Reads up to the first request and reports that no stream was processed (RFC 9113, 6.8).
fn turn_away(mut stream: TcpStream) {
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).unwrap();
    // An empty SETTINGS frame.
    stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).unwrap();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).unwrap();
        let is_headers = head[3] == 1;
        if is_headers {
            break;
        }
    }
    // GOAWAY: the last stream is 0, no error.
    stream.write_all(&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
}
