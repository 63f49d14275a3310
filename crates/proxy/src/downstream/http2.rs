//! HTTP/2 towards clients: its limits, and what its requests need before the rest of the proxy can
//! treat them like any other. A connection is served by `server`, over the `h2` crate itself:
//! interim responses (1xx) are sent, and each request tells whether it waits for its body.
//!
//! A client may open many streams at once and break each at will, so everything that it can make
//! the proxy keep or do is bounded: streams, the bytes of their heads and bodies in flight, resets
//! that it provokes or sends, and frames that ask for nothing.

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

/// Bytes of the head of a question: those of a client's request, and what nodes tell each other.
const HEAD_OF_NODE: u32 = 256 << 10;

/// Returns the server for other nodes of the fleet, which are not to be kept in check: what their
/// clients do at will is spread over all of them.
pub(crate) fn builder_for_nodes(options: &Http2Options) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS_OF_NODE)
        // Questions have no bodies, and what nodes tell each other is short.
        .initial_window_size(256 << 10)
        .initial_connection_window_size(4 << 20)
        .max_send_buffer_size(options.send_buffer)
        .max_header_list_size(HEAD_OF_NODE)
        .max_pending_accept_reset_streams(STREAMS_OF_NODE as usize * 10)
        .max_concurrent_reset_streams(STREAMS_OF_NODE as usize)
        .max_local_error_reset_streams(None);
    builder
}

/// Returns the `h2` crate's server with these limits.
pub(crate) fn builder(limits: &ClientLimits, options: &Http2Options) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(options.streams)
        .initial_window_size(options.stream_window)
        .initial_connection_window_size(options.connection_window)
        .max_send_buffer_size(options.send_buffer)
        // The crate refuses lists of this size already.
        .max_header_list_size(u32::try_from(limits.head_bytes + 1).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(options.early_resets)
        .max_local_error_reset_streams(Some(options.error_resets))
        .enable_connect_protocol();
    builder
}
