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

    /// Hosts of this site; none: every host, with `paths`. Without both, only rules lead to its
    /// servers, by its `name` in their `upstream`.
    "hosts", Kind::List(&Kind::Host), [], live, example(r#"["www.example.com"]"#) -> hosts;

    /// Path prefixes of this site, in whole segments, such as /static/; none: all. The longest
    /// prefix wins (of equals the host's), then the host's site without `paths`, then `reverse` or
    /// `static`, else 404.
    "paths", Kind::List(&Kind::PathPrefix), [], live, example(r#"["/static/"]"#) -> paths;

    /// Origin server, or several with the same content: URLs, each with weight=N, max-conns=N or
    /// backup where wanted (docs/guide/upstreams.md). It gets the whole path.
    "upstream", Kind::List(&Kind::Origin), [], live,
        example(r#"["http://127.0.0.1:8080 weight=2", "http://127.0.0.1:8081"]"#) -> upstream;

    /// In place of an origin server: directory of the site's files (docs/guide/static.md).
    "root", Kind::Path, ["none"], word("none"), live -> root;

    /// Leaves out `paths` below `root`: /static/a.css is the file a.css (nginx's `alias`),
    /// otherwise static/a.css (nginx's `root`).
    "strip-prefix", Kind::Bool, ["false"], live -> strip_prefix;

    /// Host field sent to the origin server: the client's (with GET and HEAD that of `key-host`),
    /// or that of `upstream`.
    "host-header", HOST_HEADER, ["client"], live
        => |s, v| s.pass_host = String::take(v) == PASS;

    /// Stored responses of the site's hosts, and of the ports of Larder's listeners: shared under
    /// the first of `hosts` ("site"), or separate ("client"). "auto" is "site", with a warning if
    /// the origin server sees several hosts.
    "key-host", KEY_HOST, ["auto"], word("auto"), live -> key_host;

    /// Gets the lines of this site in place of the general `access-log`; "off" for none.
    "access-log", Kind::Path, ["general"], word("general"), live,
        example(r#""/var/log/larder/shop.log""#) -> access_log;

    /// Name of the site, part of the key of everything stored for it. "none" takes the first of
    /// `hosts`.
    "name", Kind::Text("a name"), ["none"], word("none"), live, example(r#""example""#) -> name;
};

/// The keys of an `[[access]]` table: one rule; the first rule that matches decides.
pub const ACCESS: &[Field<Rule>] = fields! {
    Rule;

    /// Decision for requests that match.
    "action", ACTION, [], required, live, example(r#""deny""#) -> action;

    /// Networks of the client; none: any.
    "clients", Kind::List(&Kind::Network), [], live, example(r#"["192.168.0.0/16"]"#) -> clients;

    /// Request methods; none: any. A denying rule ignores case, since servers may take `delete` for
    /// DELETE.
    "methods", Kind::List(&Kind::Method), [], live, example(r#"["GET", "CONNECT"]"#) -> methods;

    /// Destination as the request names it; a leading dot includes all names below; none: any.
    "hosts", Kind::List(&Kind::HostPattern), [], live, example(r#"[".example.net"]"#) -> hosts;

    /// Networks of the address connected to; none: any. An allowing rule that names a private
    /// network opens it to clients from elsewhere.
    "destinations", Kind::List(&Kind::Network), [], live, example(r#"["10.0.0.0/8"]"#)
        -> destinations;

    /// Destination ports; none: any.
    "ports", Kind::List(&Kind::Ports), [], live, example(r#"[25, "6660-6669"]"#) -> ports;
};
