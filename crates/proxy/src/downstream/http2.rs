//! HTTP/2 for clients: limits, and the conversion of requests for the rest of the proxy. `server`
//! serves a connection directly over the `h2` crate, so that it can send interim responses (1xx)
//! and see whether a request waits for 100 Continue.
//!
//! A client may open many streams at once and reset any of them. Everything it can make the proxy
//! keep or do is therefore bounded: streams, their heads and body bytes in flight, resets that it
//! provokes or sends, and frames without effect.

pub(crate) mod client_io;
mod frame_watch;
mod pings;
mod send;
mod server;

use h2::server::Builder;

use crate::client::http2_options::Http2Options;
use crate::client::limits::ClientLimits;

pub(crate) use server::serve;

/// Returns the `h2` server builder with these limits.
pub(crate) fn builder(limits: &ClientLimits, options: &Http2Options) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(options.streams)
        .initial_window_size(options.stream_window)
        .initial_connection_window_size(options.connection_window)
        .max_send_buffer_size(options.send_buffer)
        // The crate rejects lists of exactly this size.
        .max_header_list_size(u32::try_from(limits.head_bytes + 1).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(options.early_resets)
        .max_local_error_reset_streams(Some(options.error_resets))
        .enable_connect_protocol();
    builder
}
