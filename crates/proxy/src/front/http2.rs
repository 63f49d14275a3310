//! HTTP/2 towards clients: its limits, and what a request of it needs before the rest of the proxy
//! takes it for any other. A connection is served by `server`, over the `h2` crate itself rather
//! than hyper's server of it: that sends no interim answers (1xx), and does not say which of a
//! connection's requests is kept waiting for its body.
//!
//! A client may open many streams at once and break each at will, so everything that it can make
//! us keep is bounded: streams, the bytes of their heads and bodies in flight, resets that it
//! provokes or sends.

mod pings;
mod send;
mod server;
mod tunnel;

use std::time::Duration;

use h2::server::Builder;
use http::header::{self, HeaderMap, HeaderValue};

use crate::request::options::ClientLimits;

pub(crate) use crate::client::http2_body::StreamBody;
pub(crate) use crate::client::upload_rate::Upload;
pub(crate) use server::serve;
pub(crate) use tunnel::StreamIo;

/// How HTTP/2 is spoken to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http2Options {
    /// Streams that a client may have open at once. Default 100, the least that RFC 9113 section
    /// 6.5.2 recommends.
    pub streams: u32,
    /// Bytes of a request's body that may be on their way, per stream. Default 64 KiB.
    pub stream_window: u32,
    /// … and per connection. Default 256 KiB.
    pub connection_window: u32,
    /// Bytes of an answer's body kept per stream for a client that takes them slowly. Default
    /// 64 KiB.
    pub send_buffer: usize,
    /// Streams that the client may reset before we have looked at them (the rapid reset of
    /// CVE-2023-44487); one more ends the connection. Default 20.
    pub early_resets: usize,
    /// Streams that we may have to reset for the client's errors; one more ends the connection.
    /// Default 100.
    pub error_resets: usize,
    /// Time without anything from the client after which it is asked for a sign of life. Default
    /// 30 s.
    pub ping_interval: Duration,
    /// Time for its answer; then the connection ends. Default 20 s.
    pub ping_timeout: Duration,
}

impl Default for Http2Options {
    fn default() -> Self {
        Http2Options {
            streams: 100,
            stream_window: 64 * 1024,
            connection_window: 256 * 1024,
            send_buffer: 64 * 1024,
            early_resets: 20,
            error_resets: 100,
            ping_interval: Duration::from_secs(30),
            ping_timeout: Duration::from_secs(20),
        }
    }
}

/// What the `h2` crate is told of our limits.
pub(crate) fn builder(limits: &ClientLimits, options: &Http2Options) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(options.streams)
        .initial_window_size(options.stream_window)
        .initial_connection_window_size(options.connection_window)
        .max_send_buffer_size(options.send_buffer)
        // The crate refuses what is as large as this.
        .max_header_list_size(u32::try_from(limits.head_bytes + 1).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(options.early_resets)
        .max_local_error_reset_streams(Some(options.error_resets))
        .enable_connect_protocol();
    builder
}

/// Joins the pieces into which a client may split `Cookie` (RFC 9113, 8.2.3): beyond HTTP/2 there
/// is one line.
pub(crate) fn join_cookies(headers: &mut HeaderMap) {
    let pieces: Vec<&[u8]> =
        headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if pieces.len() < 2 {
        return;
    }
    // What was two good values is one.
    if let Ok(mut whole) = HeaderValue::from_bytes(&pieces.join(&b"; "[..])) {
        whole.set_sensitive(true);
        headers.insert(header::COOKIE, whole);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn cookies_become_one_line() {
        let mut headers = HeaderMap::new();
        join_cookies(&mut headers);
        assert!(headers.is_empty());
        for piece in ["a=1", "b=2; c=3", "d=4"] {
            headers.append(header::COOKIE, piece.parse().unwrap());
        }
        join_cookies(&mut headers);
        let all: Vec<_> = headers.get_all(header::COOKIE).iter().collect();
        assert_eq!(all, ["a=1; b=2; c=3; d=4"]);
    }
}
