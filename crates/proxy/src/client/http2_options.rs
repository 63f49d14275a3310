//! HTTP/2 options for client connections.

use std::time::Duration;

/// HTTP/2 options for client connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http2Options {
    /// Streams that a client may have open at once. Default 100, the minimum that RFC 9113, 6.5.2,
    /// recommends.
    pub streams: u32,
    /// Bytes of request body that may be in flight per stream. Default 64 KiB.
    pub stream_window: u32,
    /// Bytes of request bodies that may be in flight per connection. Default 256 KiB.
    pub connection_window: u32,
    /// Bytes of response body buffered per stream for a client that reads slowly. Default 64 KiB.
    pub send_buffer: usize,
    /// Streams that the client may reset before they are accepted (rapid reset, CVE-2023-44487);
    /// one more ends the connection. Default 20.
    pub early_resets: usize,
    /// Streams that the proxy may reset because of the client's errors; one more ends the
    /// connection. Default 100.
    pub error_resets: usize,
    /// Silence of the client after which it is sent a ping. Default 30 s.
    pub ping_interval: Duration,
    /// Time for the client to answer a ping before the connection is closed. Default 20 s.
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
