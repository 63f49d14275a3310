//! Declarations: limits of clients' connections, request heads, times and tunnels.

use semantics::FieldNames;

use super::common::{K, M, MANY, Setting, TIMEOUT, YEARS, ms};
use crate::config::configuration::Config;
use crate::config::setting::{choice, fields};
use crate::config::value::Kind;

choice!(FIELD_NAMES for FieldNames {
    "plain" => FieldNames::Plain,
    "underscores" => FieldNames::Underscores,
    "any" => FieldNames::Any,
});

/// The table `[client]`.
pub const SETTINGS: &[Setting] = fields! {
    Config;

    /// Most client connections at a time. For a further one an idle one is closed: first those that
    /// have asked for nothing for 5 s, then those that wait longest for their next request; where
    /// all are busy it waits. "auto" is 16384, or less where the limit of open files does not leave
    /// two for each.
    "client.connections", Kind::Int(1, MANY), ["auto"], word("auto") -> connections;

    /// Largest head of a request; a longer one is answered with 431.
    "client.head-size", Kind::Size(8 * K, M), ["32K"], live -> client.head_bytes;

    /// Names of request fields that are let through; the others are left out. "plain" is letters,
    /// digits and hyphens; "underscores" these and underscores; "any" what HTTP permits. Programs
    /// behind CGI cannot tell X_Real_IP from X-Real-IP, nor Accept_Encoding from Accept-Encoding:
    /// with another value than "plain" a client may choose by such a field what others get.
    "client.field-names", FIELD_NAMES, ["plain"], live -> client.field_names;

    /// Time from the first byte of a request's head to its last; then 408.
    "client.head-timeout", TIMEOUT, ["30s"], live -> client.head_timeout;

    /// How long a connection may wait for its next request.
    "client.idle-timeout", TIMEOUT, ["75s"], live -> client.idle_timeout;

    /// Most connections at a time of one client address, an IPv6 network of 64 bits counted as one;
    /// further ones are closed. Unix sockets and proxies in `forwarded.trust` have no limit; behind
    /// the PROXY protocol the address that it tells counts.
    "client.connections-per-address", Kind::Int(1, MANY), ["unlimited"], word("unlimited"), live
        -> client.per_address;

    /// A client that takes or sends less than `rate-min` over this time, while it is waited for, is
    /// cut.
    "client.stall-timeout", TIMEOUT, ["60s"], live -> client.stall_timeout;

    /// Bytes a second that a client must take or send while it is waited for; 0 asks for one byte
    /// in each `stall-timeout`.
    "client.rate-min", Kind::Size(0, 1 << 40), ["16"], live -> client.rate_min;

    /// Bytes of a request's body that are read before an origin server is asked, so that a slow
    /// upload holds no connection to it and no place of `max-conns`. A longer body is sent on as it
    /// comes once so much of it is there; one that is longer by its Content-Length and waits for
    /// `100 Continue` is left to the server. Bodies of gRPC are sent on as they come; 0: all are.
    "client.request-buffer", Kind::Size(0, 1 << 30), ["1M"], live -> client.request_buffer;

    /// Memory for all bodies that wait for slow clients, of requests and of answers that are not
    /// stored, beside `memory`. One host gets at most half of what is free, and one client half of
    /// what its host may have. What finds no memory is passed on at its client's speed.
    /// "auto" is a quarter of `memory`, at most 64M.
    "client.buffers", Kind::Size(0, 1 << 40), ["auto"], word("auto"), live -> client_buffers;

    /// Most tunnels at a time, of CONNECT and of connections that changed their protocol
    /// (WebSocket). A further one takes the place of an idle one, of its own address or one that
    /// has more. The first one of an address may also take that of an active one, of an address
    /// with more than half of all places. Else its request is answered with 503. Each holds a
    /// connection to a server, or a stream of one.
    "client.tunnels", Kind::Int(0, MANY), ["4096"], live -> tunnels.max;

    /// How long a tunnel may be without a byte either way; then it is ended.
    "client.tunnel-idle", Kind::Time(ms(100), YEARS), ["15m"], live -> tunnels.idle;

    /// How long a tunnel may be open, whatever moves in it; "none": as long as something does.
    "client.tunnel-time", Kind::Time(ms(100), YEARS), ["none"], word("none"), live
        -> tunnels.longest;
};
