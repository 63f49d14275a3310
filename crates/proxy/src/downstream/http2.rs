//! HTTP/2 for clients: limits, and the conversion of its requests into the form that the rest of
//! the proxy handles. `server` serves a connection directly over the `h2` crate, which lets it send
//! interim responses (1xx) and know whether a request waits for 100 Continue.
//!
//! A client may open many streams at once and reset any of them, so everything that it can make the
//! proxy keep or do is bounded: streams, their heads and body bytes in flight, resets that it
//! provokes or sends, and frames without effect.

mod client_io;
mod frame_watch;
mod pings;
mod send;
mod server;

use h2::server::Builder;

use crate::client::http2_options::Http2Options;
use crate::client::limits::ClientLimits;

pub(crate) use server::serve;

/// Streams that another node may have open on one connection.
const STREAMS_OF_NODE: u32 = 1000;

/// Maximum size of a peer request head in bytes: a client's request and the fields that nodes add.
const HEAD_OF_NODE: u32 = 256 << 10;

/// Returns the server builder for other nodes of the fleet. Its limits are generous: nodes are
/// trusted, and the requests of their clients are spread over the fleet.
pub(crate) fn builder_for_nodes(options: &Http2Options) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS_OF_NODE)
        // Peer requests have no bodies, and messages between nodes are short.
        .initial_window_size(256 << 10)
        .initial_connection_window_size(4 << 20)
        .max_send_buffer_size(options.send_buffer)
        .max_header_list_size(HEAD_OF_NODE)
        .max_pending_accept_reset_streams(STREAMS_OF_NODE as usize * 10)
        .max_concurrent_reset_streams(STREAMS_OF_NODE as usize)
        .max_local_error_reset_streams(None);
    builder
}

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
