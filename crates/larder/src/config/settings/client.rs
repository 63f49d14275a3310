//! The declarations of what clients may take up: connections, heads, time.

use semantics::FieldNames;

use super::{K, M, MANY, Setting, TIMEOUT, tunnels};
use crate::config::setting::{Take, misdeclared};
use crate::config::value::{Kind, Value};

choice!(FIELD_NAMES for FieldNames {
    "plain" => FieldNames::Plain,
    "underscores" => FieldNames::Underscores,
    "any" => FieldNames::Any,
});

/// The keys of `[client]`.
pub const SETTINGS: &[Setting] = &[
    Setting::new(
        "client.connections",
        Kind::Int(1, MANY),
        &["auto"],
        |c, v| c.client.connections = Take::take(v),
        "Most client connections at a time. For a further one an idle one is closed: first \
         those that have asked for nothing for 5 s, then those that wait longest for their next \
         request; where all are busy it waits. \"auto\" is 16384, or less where the limit of open \
         files does not leave two for each.",
    )
    .word("auto"),
    Setting::new(
        "client.head-size",
        Kind::Size(8 * K, M),
        &["32K"],
        |c, v| c.client.head_size = Take::take(v),
        "Largest head of a request; a longer one is answered with 431.",
    )
    .live(),
    Setting::new(
        "client.headers",
        Kind::Int(16, 10_000),
        &["100"],
        |c, v| c.client.headers = Take::take(v),
        "Most header lines of a request; more are answered with 431. Another value than 100 costs \
         an allocation per request.",
    )
    .live(),
    Setting::new(
        "client.field-names",
        FIELD_NAMES,
        &["plain"],
        |c, v| c.client.field_names = Take::take(v),
        "Names of request fields that are let through; the others are left out. \"plain\" is \
         letters, digits and hyphens; \"underscores\" these and underscores; \"any\" what HTTP \
         permits. Programs behind CGI cannot tell X_Real_IP from X-Real-IP, nor Accept_Encoding \
         from Accept-Encoding: with another value than \"plain\" a client may choose by such a \
         field what others get.",
    )
    .live(),
    Setting::new(
        "client.head-timeout",
        TIMEOUT,
        &["30s"],
        |c, v| c.client.head_timeout = Take::take(v),
        "Time from the first byte of a request's head to its last; then 408.",
    )
    .live(),
    Setting::new(
        "client.idle-timeout",
        TIMEOUT,
        &["75s"],
        |c, v| c.client.idle_timeout = Take::take(v),
        "How long a connection may wait for its next request.",
    )
    .live(),
    Setting::new(
        "client.connections-per-address",
        Kind::Int(1, MANY),
        &["unlimited"],
        |c, v| c.client.connections_per_address = Take::take(v),
        "Most connections at a time of one client address, an IPv6 network of 64 bits counted as \
         one; further ones are closed. Unix sockets and proxies in `forwarded.trust` have no \
         limit; behind the PROXY protocol the address that it tells counts.",
    )
    .word("unlimited")
    .live(),
    Setting::new(
        "client.stall-timeout",
        TIMEOUT,
        &["60s"],
        |c, v| c.client.stall_timeout = Take::take(v),
        "A client that takes or sends less than `rate-min` over this time, while it is waited for, \
         is cut.",
    )
    .live(),
    Setting::new(
        "client.rate-min",
        Kind::Size(0, 1 << 40),
        &["16"],
        |c, v| c.client.rate_min = Take::take(v),
        "Bytes a second that a client must take or send while it is waited for; 0 asks for one \
         byte in each `stall-timeout`.",
    )
    .live(),
    tunnels::MOST,
    tunnels::IDLE,
    tunnels::TIME,
];
