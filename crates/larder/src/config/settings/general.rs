//! Declarations for the whole program: listeners, caches, admin interface, logs, process.

use proxy::message::trace_context::Tracing;

use super::common::{Setting, hours, ms};
use crate::config::configuration::Config;
use crate::config::setting::{Take, choice, fields};
use crate::config::sizing;
use crate::config::value::Kind;

const INCLUDED: &str = "a file, a directory or a pattern such as sites/*.toml";
const PRESET: Kind = Kind::OneOf(store::PRESETS);
const LAYOUT: Kind = Kind::OneOf(store::LayoutName::NAMES);
/// The `Host` field that an origin server receives.
pub const HOST_HEADER: Kind = Kind::OneOf(&[PASS, "upstream"]);
/// Passes on the client's `Host` field.
pub const PASS: &str = "client";
choice!(TRACING for Tracing {
    "off" => Tracing::Off,
    "continue" => Tracing::Continue,
    "start" => Tracing::Start,
});
const LOG_LEVEL: Kind = Kind::OneOf(&["error", "warn", "info", "debug"]);

/// The keys outside of tables.
pub const SETTINGS: &[Setting] = fields! {
    Config;

    /// Files, directories (their *.toml files by name) and patterns, relative to this file, read as
    /// if their text stood here. Only repeated tables may be given twice.
    "include", Kind::List(&Kind::Text(INCLUDED)), [], live
        => |_, _| ();

    /// Address and port, or Unix socket, to serve on; may be given several times. TLS, h2c and the
    /// PROXY protocol need a [[listener]] table; with one, the default is none.
    "listen", Kind::List(&Kind::Listen), ["127.0.0.1:3128"], flag, live -> listen;

    /// Serve as a reverse proxy for this origin server, or for several with the same content
    /// (docs/guide/upstreams.md), instead of as a forward proxy. [[site]] tables add sites for
    /// single hosts.
    "reverse", Kind::List(&Kind::Origin), ["none"], word("none"), flag, live -> reverse;

    /// Serve the files of this directory as a web server (docs/guide/static.md). [[site]] tables
    /// add sites for single hosts.
    "static", Kind::Path, ["none"], word("none"), flag, live -> root;

    /// Host field sent to the origin server of `reverse`: the client's ("client") or the name of
    /// the origin server ("upstream").
    "reverse-host", HOST_HEADER, ["client"], live => |c, v| c.pass_host = String::take(v) == PASS;

    /// File or block device that holds the cache; a missing or empty file is created. With several,
    /// objects are spread over all. "none" stores nothing.
    "cache", Kind::List(&Kind::Path), ["larder.cache"], word("none"), flag,
        example(r#""/var/lib/larder/larder.cache""#) -> cache;

    /// Size of each cache file. "auto" keeps the size of an existing cache and creates a new one
    /// with 10G, at most a tenth of the free space. A larger size grows an existing cache; it never
    /// shrinks.
    "cache-size", Kind::Size(store::CACHE_SIZE_MIN, 1 << 50), ["auto"], word("auto"), flag
        -> cache_size;

    /// Memory for the index, objects in memory and buffers together. "auto" is 256M, at most half
    /// of the memory of the machine or of the control group.
    "memory", Kind::Size(sizing::MEMORY_MIN, 1 << 46), ["auto"], word("auto"), flag
        => |c, v| c.set_memory(Take::take(v));

    /// Values for store settings that are "auto": the product's own, or the system of a paper
    /// (docs/reference/configuration.md, "Presets").
    "preset", PRESET, ["larder"], flag => |c, v| c.set_preset(&String::take(v));

    /// Placement of objects on the device (docs/research/layouts.md). "auto": the preset's; an
    /// existing cache keeps its layout.
    "layout", LAYOUT, ["auto"], word("auto"), flag, at_creation
        => |c, v| c.set_layout(Take::take(v));

    /// Address and port of the admin interface: /healthz, /readyz, /metrics, /purge. /readyz is 200
    /// even when a cache cannot be used; its text says so.
    "admin", Kind::Addr, ["127.0.0.1:3129"], word("off"), flag -> admin;

    /// Host names that requests to the admin interface may carry, besides localhost and IP
    /// addresses.
    "admin-names", Kind::List(&Kind::Host), [], live -> admin_names;

    /// Token that requests to the admin interface must carry as `Authorization: Bearer TOKEN`.
    "admin-token", Kind::Text("a token"), ["none"], word("none"), live -> admin_token;

    /// File with the token of the admin interface; white space around it is dropped. Read again at
    /// every reload.
    "admin-token-file", Kind::Path, ["none"], word("none"), live -> admin_token_file;

    /// Gets one line per request: a file, which SIGHUP reopens, "-" for standard output, or a
    /// syslog server: "syslog:unix:/dev/log" (journald reads it too) or "syslog:HOST:PORT" (UDP).
    "access-log", Kind::Path, ["off"], word("off"), flag, live -> access_log;

    /// Format of the access log: that of web servers ("combined"), Squid's native one, JSON lines,
    /// or a text with variables (docs/guide/running.md, "Access log").
    "log-format", Kind::LogFormat, ["combined"], flag, live -> log_format;

    /// Field in which origin servers get the id of a request, such as X-Request-ID: the one of a
    /// proxy in `forwarded.trust`, else a random one.
    "request-id", Kind::Header, ["off"], word("off"), live -> request_id;

    /// W3C Trace Context. "off" forwards the fields unchanged. "continue" gives origin servers the
    /// trace of the client with a span id of this proxy. "start" also begins a sampled trace where
    /// there is none.
    "tracing", TRACING, ["off"], live -> tracing;

    /// URL of an OpenTelemetry collector that gets a span of each request in a sampled trace, such
    /// as http://127.0.0.1:4318/v1/traces. Needs `tracing`, and a program that was built with
    /// `--features otlp`.
    "otlp-endpoint", Kind::Text("a URL"), ["none"], word("none") -> otlp_endpoint;

    /// Least severe messages written to standard error.
    "log-level", LOG_LEVEL, ["info"], live -> log_level;

    /// Number of worker threads. "auto" is the number of cores that this process may use (affinity
    /// and cgroup quota).
    "workers", Kind::Int(1, 1024), ["auto"], word("auto"), flag -> workers;

    /// Network whose clients may use the forward proxy, besides this machine; may be given several
    /// times.
    "allow", Kind::List(&Kind::Network), [], flag, live -> allow;

    /// User to become, when started as root, once caches and ports are open.
    "user", Kind::Text("the name of a user"), ["none"], word("none"), flag -> user;

    /// Ports to which CONNECT may open a tunnel.
    "connect-ports", Kind::List(&Kind::Ports), ["443"], live -> connect_ports;

    /// Name of this proxy in Via and Cache-Status. Proxies in a chain need different names.
    "pseudonym", Kind::Token, ["larder"] -> pseudonym;

    /// Time for running requests and tunnels to end after SIGTERM or SIGINT; then they are cut.
    "drain", Kind::Time(ms(0), hours(1)), ["30s"], live -> client.drain;

    /// Time before that in which only /readyz says that the process ends, so that load balancers
    /// send clients elsewhere before the listeners close.
    "drain-delay", Kind::Time(ms(0), hours(1)), ["0s"], live -> client.drain_delay;

    /// File that gets the number of the process once it serves, for `larder reload --pid-file` and
    /// other programs.
    "pid-file", Kind::Path, ["none"], word("none"), flag -> pid_file;
};
