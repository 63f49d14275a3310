//! The declarations of what clients meet before the first request: listeners, TLS, HTTP/2.

use std::time::Duration;

use super::{K, M, MANY, Setting, TIMEOUT, ms};
use crate::config::clients::{Certificate, Listener, TlsMin};
use crate::config::setting::{Field, Take, misdeclared};
use crate::config::value::{Kind, Value};

type ListenerField = Field<Listener>;
type CertificateField = Field<Certificate>;

choice!(TLS_MIN for TlsMin { "1.2" => TlsMin::Tls12, "1.3" => TlsMin::Tls13 });

/// The keys of `[tls]` and `[http2]`.
pub const SETTINGS: &[Setting] = &[
    Setting::new(
        "tls.min-version",
        TLS_MIN,
        &["1.2"],
        |c, v| c.tls.min_version = Take::take(v),
        "The oldest version of TLS that is spoken to clients.",
    )
    .live(),
    Setting::new(
        "tls.handshake-timeout",
        TIMEOUT,
        &["10s"],
        |c, v| c.tls.handshake_timeout = Take::take(v),
        "How long a client may take for its handshake.",
    )
    .live(),
    Setting::new(
        "tls.strict-sni",
        Kind::Bool,
        &["false"],
        |c, v| c.tls.strict_sni = Take::take(v),
        "Refuse the handshake of a client that names a host that no certificate is for, instead \
         of showing it the first certificate.",
    )
    .live(),
    Setting::new(
        "http2.enabled",
        Kind::Bool,
        &["true"],
        |c, v| c.http2.enabled = Take::take(v),
        "Offer HTTP/2 to clients that speak TLS.",
    )
    .live(),
    Setting::new(
        "http2.streams",
        Kind::Int(1, 10_000),
        &["100"],
        |c, v| c.http2.streams = Take::take(v),
        "Requests that one client may have running at once on a connection.",
    )
    .live(),
    Setting::new(
        "http2.stream-window",
        Kind::Size(K, 16 * M),
        &["64K"],
        |c, v| c.http2.stream_window = Take::take(v),
        "Bytes of the body of one request that a client may send before they are used.",
    )
    .live(),
    Setting::new(
        "http2.connection-window",
        Kind::Size(64 * K, 64 * M),
        &["256K"],
        |c, v| c.http2.connection_window = Take::take(v),
        "The same for all requests of a connection together.",
    )
    .live(),
    Setting::new(
        "http2.send-buffer",
        Kind::Size(16 * K, 16 * M),
        &["64K"],
        |c, v| c.http2.send_buffer = Take::take(v),
        "Bytes of one answer that are kept for a client that takes them slowly.",
    )
    .live(),
    Setting::new(
        "http2.early-resets",
        Kind::Int(1, MANY),
        &["20"],
        |c, v| c.http2.early_resets = Take::take(v),
        "Requests that a client may break off before they were looked at; one more ends the \
         connection (rapid reset).",
    )
    .live(),
    Setting::new(
        "http2.error-resets",
        Kind::Int(1, MANY),
        &["100"],
        |c, v| c.http2.error_resets = Take::take(v),
        "Faulty requests that are broken off on one connection; one more ends it.",
    )
    .live(),
    Setting::new(
        "http2.ping-interval",
        Kind::Time(ms(100), Duration::from_secs(3600)),
        &["30s"],
        |c, v| c.http2.ping_interval = Take::take(v),
        "Silence after which a client is asked for a sign of life.",
    )
    .live(),
    Setting::new(
        "http2.ping-timeout",
        TIMEOUT,
        &["20s"],
        |c, v| c.http2.ping_timeout = Take::take(v),
        "How long it may take to give one.",
    )
    .live(),
];

/// The keys of a `[[listener]]` table: one place where clients come in, with its manners.
pub const LISTENER: &[Field<Listener>] = &[
    ListenerField::new(
        "address",
        Kind::Listen,
        &[],
        |l, v| l.address = Some(Take::take(v)),
        "Address and port, or Unix socket, to serve on. `[::]:PORT` takes IPv4 clients as well.",
    )
    .required(),
    ListenerField::new(
        "tls",
        Kind::Bool,
        &["false"],
        |l, v| l.tls = Take::take(v),
        "Speak TLS, with the certificates of the [[certificate]] tables.",
    ),
    ListenerField::new(
        "h2c",
        Kind::Bool,
        &["false"],
        |l, v| l.h2c = Take::take(v),
        "Without TLS: speak HTTP/2 with clients that begin with it (\"prior knowledge\"), \
         HTTP/1 with all others.",
    ),
    ListenerField::new(
        "proxy-protocol",
        Kind::List(&Kind::Network),
        &[],
        |l, v| l.proxy_protocol = Take::take(v),
        "Networks of load balancers that begin every connection with a PROXY protocol header, \
         version 1 or 2. Connections from elsewhere, and those without a good header, are closed. \
         None: there is no such header.",
    ),
    ListenerField::new(
        "mode",
        Kind::Mode,
        &["660"],
        |l, v| l.mode = Take::take(v),
        "Permissions of a Unix socket, in octal.",
    ),
    ListenerField::new(
        "owner",
        Kind::Text("the name of a user"),
        &["none"],
        |l, v| l.owner = Take::take(v),
        "Owner of a Unix socket; \"none\": who starts Larder.",
    )
    .word("none"),
    ListenerField::new(
        "group",
        Kind::Text("the name of a group"),
        &["none"],
        |l, v| l.group = Take::take(v),
        "Group of a Unix socket; \"none\": that of who starts Larder.",
    )
    .word("none"),
];

/// The keys of a `[[certificate]]` table.
pub const CERTIFICATE: &[Field<Certificate>] = &[
    CertificateField::new(
        "chain",
        Kind::Path,
        &[],
        |c, v| c.chain = Take::take(v),
        "PEM file with the certificate, then those between it and the root. Read again at every \
         reload.",
    )
    .required()
    .live(),
    CertificateField::new(
        "key",
        Kind::Path,
        &["none"],
        |c, v| c.key = Take::take(v),
        "PEM file with the certificate's private key, without a passphrase; \"none\": it is in \
         the file of `chain`, too.",
    )
    .word("none")
    .live(),
    CertificateField::new(
        "hosts",
        Kind::List(&Kind::CertificateHost),
        &[],
        |c, v| c.hosts = Take::take(v),
        "Hosts that it is shown for, `*.example.com` for all names one level below; none: those \
         that the certificate names. The first certificate is shown for all other hosts, too.",
    )
    .live(),
];
