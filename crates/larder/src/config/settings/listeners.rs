//! Declarations for connections before the first request: listeners, TLS, HTTP/2.

use std::time::Duration;

use super::common::{K, M, MANY, Setting, TIMEOUT, ms};
use crate::config::configuration::Config;
use crate::config::listener::{Certificate, Listener};
use crate::config::setting::{Field, Take, fields};
use crate::config::value::Kind;

const TLS_MIN: Kind = Kind::OneOf(&["1.2", "1.3"]);

/// The keys of `[tls]` and `[http2]`.
pub const SETTINGS: &[Setting] = fields! {
    Config;

    /// Oldest version of TLS accepted from clients.
    "tls.min-version", TLS_MIN, ["1.2"], live => |c, v| c.tls.tls12 = String::take(v) == "1.2";

    /// Longest TLS handshake of a client.
    "tls.handshake-timeout", TIMEOUT, ["10s"], live -> tls.handshake_timeout;

    /// Refuse handshakes for a host without a certificate, instead of showing the first
    /// certificate.
    "tls.strict-sni", Kind::Bool, ["false"], live -> tls.strict_sni;

    /// Offer HTTP/2 to TLS clients.
    "http2.enabled", Kind::Bool, ["true"], live -> tls.http2;

    /// Most concurrent requests of a connection.
    "http2.streams", Kind::Int(1, 10_000), ["100"], live -> http2.streams;

    /// Request body bytes that a client may send ahead, per request.
    "http2.stream-window", Kind::Size(K, 16 * M), ["64K"], live -> http2.stream_window;

    /// The same for all requests of a connection together.
    "http2.connection-window", Kind::Size(64 * K, 64 * M), ["256K"], live
        -> http2.connection_window;

    /// Bytes of one response kept for a slow client.
    "http2.send-buffer", Kind::Size(16 * K, 16 * M), ["64K"], live -> http2.send_buffer;

    /// Requests that a client may reset before they are processed; one more ends the connection
    /// (rapid reset).
    "http2.early-resets", Kind::Int(1, MANY), ["20"], live -> http2.early_resets;

    /// Faulty requests reset on one connection; one more ends it.
    "http2.error-resets", Kind::Int(1, MANY), ["100"], live -> http2.error_resets;

    /// Silence after which a client gets a PING.
    "http2.ping-interval", Kind::Time(ms(100), Duration::from_secs(3600)), ["30s"], live
        -> http2.ping_interval;

    /// Time to answer it.
    "http2.ping-timeout", TIMEOUT, ["20s"], live -> http2.ping_timeout;
};

/// The keys of a `[[listener]]` table: one listening address, with its protocols.
pub const LISTENER: &[Field<Listener>] = fields! {
    Listener;

    /// Address and port, or Unix socket, to serve on. `[::]:PORT` takes IPv4 clients as well.
    "address", Kind::Listen, [], required, live, example(r#""[::]:443""#)
        => |l, v| l.address = Some(Take::take(v));

    /// Speak TLS, with the certificates of the [[certificate]] tables.
    "tls", Kind::Bool, ["false"], live, example("true") -> tls;

    /// Without TLS: HTTP/2 for clients that begin with it ("prior knowledge"), HTTP/1 for others.
    "h2c", Kind::Bool, ["false"], live -> h2c;

    /// Networks of load balancers that begin every connection with a PROXY protocol header, version
    /// 1 or 2. Other connections are closed. None: no such header.
    "proxy-protocol", Kind::List(&Kind::Network), [], live, example(r#"["10.0.0.0/24"]"#)
        -> proxy_protocol;

    /// Permissions of a Unix socket, in octal.
    "mode", Kind::Mode, ["660"], live -> mode;

    /// Owner of a Unix socket; "none": the user that starts Larder.
    "owner", Kind::Text("the name of a user"), ["none"], word("none"), live -> owner;

    /// Group of a Unix socket; "none": that of the user that starts Larder.
    "group", Kind::Text("the name of a group"), ["none"], word("none"), live -> group;
};

/// The keys of a `[[certificate]]` table.
pub const CERTIFICATE: &[Field<Certificate>] = fields! {
    Certificate;

    /// PEM file with the certificate and its intermediates. Read again at every reload.
    "chain", Kind::Path, [], required, live, example(r#""/etc/larder/tls/fullchain.pem""#) -> chain;

    /// PEM file with the private key, without a passphrase; "none": it is in the file of `chain`.
    "key", Kind::Path, ["none"], word("none"), live, example(r#""/etc/larder/tls/key.pem""#) -> key;

    /// Hosts that it is shown for, `*.example.com` for all names one level below; none: those in
    /// the certificate. The first certificate also serves all other hosts.
    "hosts", Kind::List(&Kind::CertificateHost), [], live,
        example(r#"["www.example.com", "*.example.net"]"#) -> hosts;
};
