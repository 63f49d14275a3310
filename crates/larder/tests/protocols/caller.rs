//! A client that speaks HTTP/1.1 or HTTP/2 over any stream, with or without TLS.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use testkit::body::size_of;
use testkit::body::{self, Name};
use testkit::io::PATIENCE;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Runs a test's asynchronous part, with a time limit.
pub fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limited = async { tokio::time::timeout(PATIENCE * 2, work).await };
    runtime.block_on(limited).expect("it takes too long")
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub fn outcome(&self) -> String {
        let status = self.header("cache-status");
        let detail = status.split(';').find_map(|p| p.trim().strip_prefix("detail="));
        detail.unwrap_or_else(|| panic!("no outcome: {self:?}")).to_owned()
    }

    /// Panics unless this is the whole correct body of `target`.
    #[track_caller]
    pub fn verify(&self, target: &str) {
        assert_eq!(self.status, 200, "{self:?}");
        assert_eq!(self.body.len() as u64, size_of(target), "{:?}", self.headers);
        let version = self.header("x-version").parse().unwrap();
        let variant = self.header("x-variant").to_owned();
        let seed = Name { target: target.to_owned(), version, variant }.seed();
        assert_eq!(body::difference(seed, 0, &self.body), None, "{:?}", self.headers);
    }
}

/// A connection that speaks HTTP/1.1 or HTTP/2.
pub enum Caller {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

impl Caller {
    /// Starts HTTP/1.1 on `stream`.
    pub async fn one(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Caller {
        let (send, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Caller::One(send)
    }

    /// Starts HTTP/2 on `stream`.
    pub async fn two(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Caller {
        let io = TokioIo::new(stream);
        let (send, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        Caller::Two(send)
    }

    /// Starts the protocol that TLS negotiated.
    pub async fn secured(to: SocketAddr, host: &str, config: ClientConfig) -> io::Result<Caller> {
        let stream = handshake(to, host, config).await?;
        let two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(if two { Caller::two(stream).await } else { Caller::one(stream).await })
    }

    /// Waits until a request can be sent; returns false if the server has ended the connection.
    pub async fn is_open(&mut self) -> bool {
        match self {
            Caller::One(send) => send.ready().await.is_ok(),
            Caller::Two(send) => send.ready().await.is_ok(),
        }
    }

    pub async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        match self {
            Caller::One(send) => send.send_request(request).await,
            Caller::Two(send) => send.send_request(request).await,
        }
    }

    /// Requests `target` of `host`.
    pub async fn get(&mut self, scheme: &str, host: &str, target: &str) -> hyper::Result<Answer> {
        let request = match self {
            Caller::One(_) => Request::get(target).header("host", host),
            Caller::Two(_) => Request::get(format!("{scheme}://{host}{target}")),
        };
        self.ask(request.body(Full::default()).unwrap()).await
    }

    /// Sends a request and reads the whole response.
    pub async fn ask(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Answer> {
        let (head, body) = self.send(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answer { status: head.status, headers: head.headers, body })
    }
}

/// Performs a TLS handshake with `to` for `host`.
pub async fn handshake(
    to: SocketAddr,
    host: &str,
    config: ClientConfig,
) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let name = host.to_owned().try_into().unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}
