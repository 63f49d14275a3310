//! Upstream end of a tunnel, opened by CONNECT, a 101 response in HTTP/1.1, or extended CONNECT in
//! HTTP/2. While open, it counts as a request at its server.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::http2;
use crate::connection::put_back::PutBack;
use crate::connection::stream::Stream;
use crate::servers::group::Serving;
use net::http2_stream::StreamIo;
use net::socket::{Socket, transport};

/// Upstream end of a tunnel. Counts as a request at its server while open.
pub struct UpstreamTunnel {
    carrier: Carrier,
    serving: Option<Serving>,
}

enum Carrier {
    Socket(Socket),
    Http1(Box<PutBack<Stream>>),
    Http2(Shared),
}

/// Stream of a connection that other requests use as well.
struct Shared {
    io: StreamIo,
    /// Keeps the connection open.
    _stream: http2::Stream,
}

transport!(Carrier { Socket, Http1, Http2 });

impl UpstreamTunnel {
    pub(crate) fn http1(switched: PutBack<Stream>) -> UpstreamTunnel {
        Carrier::Http1(Box::new(switched)).into()
    }

    pub(crate) fn http2(io: StreamIo, stream: http2::Stream) -> UpstreamTunnel {
        Carrier::Http2(Shared { io, _stream: stream }).into()
    }

    /// Counts the tunnel as a request at its server until dropped.
    pub(crate) fn served_by(&mut self, serving: Serving) {
        self.serving = Some(serving);
    }
}

impl From<Carrier> for UpstreamTunnel {
    fn from(carrier: Carrier) -> UpstreamTunnel {
        UpstreamTunnel { carrier, serving: None }
    }
}

impl From<Socket> for UpstreamTunnel {
    fn from(stream: Socket) -> UpstreamTunnel {
        Carrier::Socket(stream).into()
    }
}

impl AsyncRead for Shared {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Shared {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl AsyncRead for UpstreamTunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.carrier).poll_read(cx, buf)
    }
}

impl AsyncWrite for UpstreamTunnel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.carrier).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.carrier).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.carrier).poll_shutdown(cx)
    }
}
