//! The keys of the repeated tables: the sites of a reverse proxy, and the access rules.

use proxy::rules::access::{Action, Rule};

use super::general::{HOST_HEADER, PASS};
use super::{files, upstream};
use crate::config::configuration::{KeyHost, Site};
use crate::config::setting::{Field, Take, choice, count, fields, joined};
use crate::config::value::Kind;

choice!(ACTION for Action { "allow" => Action::Allow, "deny" => Action::Deny });
choice!(KEY_HOST for KeyHost { "site" => KeyHost::Site, "client" => KeyHost::Client });

/// The parts of [`SITE`].
const SITE_PARTS: &[&[Field<Site>]] = &[SITE_ITSELF, upstream::FOR_SITE, files::FOR_SITE];

/// The keys of a `[[site]]` table: one site of a reverse proxy or web server.
pub const SITE: &[Field<Site>] = &joined::<Site, { count(SITE_PARTS) }>(SITE_PARTS);

/// The keys that belong to the site itself.
const SITE_ITSELF: &[Field<Site>] = fields! {
    Site;

    /// Hosts that this site answers for; none: every host, with `paths`.
    "hosts", Kind::List(&Kind::Host), [], example(r#"["www.example.com"]"#) -> hosts;

    /// Paths that this site answers for: their beginnings, in whole segments, such as /static/;
    /// none: all. Of the sites of a host and those of every host the one with the longest beginning
    /// answers (of the same the host's), then the host's without `paths`, then `reverse` or
    /// `static`; 404 where there is none. Held against the path
    /// as a server reads it that decodes it, resolves dots and takes slashes in a row for one. An
    /// origin server is sent the whole path; below a `root` it is looked up whole, too
    /// (`strip-prefix`).
    "paths", Kind::List(&Kind::PathPrefix), [], example(r#"["/static/"]"#) -> paths;

    /// The site's origin server, or several of the same content: each a URL, and behind it
    /// weight=N, max-conns=N or backup where wanted (docs/guide/upstreams.md).
    "upstream", Kind::List(&Kind::Origin), [],
        example(r#"["http://127.0.0.1:8080 weight=2", "http://127.0.0.1:8081"]"#) -> upstream;

    /// In place of an origin server: a directory, whose files are the site
    /// (docs/guide/static.md).
    "root", Kind::Path, ["none"], word("none") -> root;

    /// Whether what `paths` says is left out of the path below `root`: with it /static/a.css is the
    /// file a.css (nginx's `alias`), without it static/a.css (nginx's `root`).
    "strip-prefix", Kind::Bool, ["false"] -> strip_prefix;

    /// The Host that the origin server is sent: the client's (with GET and HEAD that of
    /// `key-host`), or that of `upstream`.
    "host-header", HOST_HEADER, ["client"]
        => |s, v| s.pass_host = String::take(v) == PASS;

    /// Whether the site's hosts, and the ports of Larder's own listeners, are one to the cache.
    /// "site": what is stored is called by the first of `hosts`, and GET and HEAD name it to the
    /// origin server, too. "client": each host and port that a client names has answers of its own.
    /// "auto" is "site", with a warning where the origin server is told of several hosts.
    "key-host", KEY_HOST, ["auto"], word("auto") -> key_host;

    /// Name of the site, part of the key of everything stored for it. "none" takes the first of
    /// `hosts`.
    "name", Kind::Text("a name"), ["none"], word("none"), example(r#""example""#) -> name;
};

/// The keys of an `[[access]]` table: one rule; the first rule that matches decides.
pub const ACCESS: &[Field<Rule>] = fields! {
    Rule;

    /// What happens to a request that matches.
    "action", ACTION, [], required, live, example(r#""deny""#) -> action;

    /// Networks of the client; none: any client.
    "clients", Kind::List(&Kind::Network), [], live, example(r#"["192.168.0.0/16"]"#) -> clients;

    /// Request methods; none: any method. A denying rule is for any case of them: servers may take
    /// `delete` for DELETE.
    "methods", Kind::List(&Kind::Method), [], live, example(r#"["GET", "CONNECT"]"#) -> methods;

    /// Destination as the request names it; a leading dot includes all names below; none: any.
    "hosts", Kind::List(&Kind::HostPattern), [], live, example(r#"[".example.net"]"#) -> hosts;

    /// Networks of the address that is connected to; none: any address. An allowing rule that names
    /// a private network here opens it to clients from elsewhere.
    "destinations", Kind::List(&Kind::Network), [], live, example(r#"["10.0.0.0/8"]"#)
        -> destinations;

    /// Destination ports; none: any port.
    "ports", Kind::List(&Kind::Ports), [], live, example(r#"[25, "6660-6669"]"#) -> ports;
};
