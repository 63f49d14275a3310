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

/// Fields that clients may be denied.
pub const HIDEABLE: Kind = Kind::OneOf(&["via", "age", "cache-status"]);

/// The table `[client]`.
pub const SETTINGS: &[Setting] = fields! {
    Config;

    /// Most client connections. A further one closes an idle one; if all are busy it waits. "auto"
    /// is 16384, less where the limit of open files leaves fewer than two for each.
    "client.connections", Kind::Int(1, MANY), ["auto"], word("auto") -> connections;

    /// Largest request head; a longer one gets 431.
    "client.head-size", Kind::Size(8 * K, M), ["32K"], live -> client.head_bytes;

    /// Request field names that are accepted; others are dropped: letters, digits and hyphens
    /// ("plain"), also underscores, or "any" that HTTP permits. Other values than "plain" let a
    /// client change what others get: CGI programs take X_Real_IP for X-Real-IP.
    "client.field-names", FIELD_NAMES, ["plain"], live -> client.field_names;

    /// Fields left out of all responses to clients. Caches in front count the time that a response
    /// spent here only if they see `Age`.
    "client.hide", Kind::List(&HIDEABLE), [], live -> client_hide;

    /// Time from the first byte of a request head to its last; then 408.
    "client.head-timeout", TIMEOUT, ["30s"], live -> client.head_timeout;

    /// Longest wait of a connection for its next request.
    "client.idle-timeout", TIMEOUT, ["75s"], live -> client.idle_timeout;

    /// Most connections of one client address (an IPv6 /64 counts as one); further ones are closed.
    /// No limit for Unix sockets and proxies in `forwarded.trust`.
    "client.connections-per-address", Kind::Int(1, MANY), ["unlimited"], word("unlimited"), live
        -> client.per_address;

    /// A client that takes or sends less than `rate-min` over this time, while it is waited for, is
    /// cut.
    "client.stall-timeout", TIMEOUT, ["60s"], live -> client.stall_timeout;

    /// Bytes a second that a client must take or send while it is waited for; 0 asks for one byte
    /// per `stall-timeout`.
    "client.rate-min", Kind::Size(0, 1 << 40), ["16"], live -> client.rate_min;

    /// Bytes of a request body read before an origin server is asked, so that slow uploads hold no
    /// connection. A longer body, and always gRPC, is streamed.
    "client.request-buffer", Kind::Size(0, 1 << 30), ["1M"], live -> client.request_buffer;

    /// Memory for all bodies that wait for slow clients, beside `memory`. Bodies without memory
    /// pass at their client's speed. "auto" is a quarter of `memory`, at most 64M.
    "client.buffers", Kind::Size(0, 1 << 40), ["auto"], word("auto"), live -> client_buffers;

    /// Most tunnels (CONNECT, WebSocket). A further one replaces an idle tunnel of its own address
    /// or of one that has more, or gets 503.
    "client.tunnels", Kind::Int(0, MANY), ["4096"], live -> tunnels.max;

    /// Longest time without a byte either way; then a tunnel ends.
    "client.tunnel-idle", Kind::Time(ms(100), YEARS), ["15m"], live -> tunnels.idle;

    /// Longest life of a tunnel, even an active one; "none": no limit.
    "client.tunnel-time", Kind::Time(ms(100), YEARS), ["none"], word("none"), live
        -> tunnels.longest;
};
