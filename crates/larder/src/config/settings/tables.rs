//! The keys of the tables that may be repeated: the sites of a reverse proxy, the access rules.

use super::{ACTION, HOST_HEADER, KEY_HOST, RuleField, SiteField, count, joined, upstream};
use crate::config::loaded::{Rule, Site};
use crate::config::setting::{Field, Take};
use crate::config::value::Kind;

/// The parts of [`SITE`].
const SITE_PARTS: &[&[SiteField]] = &[SITE_ITSELF, upstream::FOR_SITE];

/// The keys of a `[[site]]` table: one origin server of a reverse proxy.
pub const SITE: &[Field<Site>] = &joined::<Site, { count(SITE_PARTS) }>(SITE_PARTS);

/// What a site is.
const SITE_ITSELF: &[SiteField] = &[
    SiteField::new(
        "hosts",
        Kind::List(&Kind::Host),
        &[],
        |s, v| s.hosts = Take::take(v),
        "Hosts that this site answers for.",
    )
    .required(),
    SiteField::new(
        "upstream",
        Kind::List(&Kind::Origin),
        &[],
        |s, v| s.upstream = Take::take(v),
        "The site's origin server, or several of the same content: each a URL, and behind it \
         weight=N, max-conns=N or backup where wanted (docs/upstreams.md).",
    )
    .required(),
    SiteField::new(
        "host-header",
        HOST_HEADER,
        &["client"],
        |s, v| s.host_header = Take::take(v),
        "The Host that the origin server is sent: the client's (with GET and HEAD that of \
         `key-host`), or that of `upstream`.",
    ),
    SiteField::new(
        "key-host",
        KEY_HOST,
        &["auto"],
        |s, v| s.key_host = Take::take(v),
        "Whether the site's hosts, and the ports of Larder's own listeners, are one to the cache. \
         \"site\": what is stored is called by the first of `hosts`, and GET and HEAD name it to \
         the origin server, too. \"client\": each host and port that a client names has answers \
         of its own. \"auto\" is \"site\", with a warning where the origin server is told of \
         several hosts.",
    )
    .word("auto"),
    SiteField::new(
        "name",
        Kind::Text("a name"),
        &["none"],
        |s, v| s.name = Take::take(v),
        "Name of the site, part of the key of everything stored for it. \"none\" takes the first \
         of `hosts`.",
    )
    .word("none"),
];

/// The keys of an `[[access]]` table: one rule; the first rule that matches decides.
pub const ACCESS: &[Field<Rule>] = &[
    RuleField::new(
        "action",
        ACTION,
        &[],
        |r, v| r.action = Take::take(v),
        "What happens to a request that matches.",
    )
    .required()
    .live(),
    RuleField::new(
        "clients",
        Kind::List(&Kind::Network),
        &[],
        |r, v| r.clients = Take::take(v),
        "Networks of the client; none: any client.",
    )
    .live(),
    RuleField::new(
        "methods",
        Kind::List(&Kind::Method),
        &[],
        |r, v| r.methods = Take::take(v),
        "Request methods; none: any method.",
    )
    .live(),
    RuleField::new(
        "hosts",
        Kind::List(&Kind::HostPattern),
        &[],
        |r, v| r.hosts = Take::take(v),
        "Destination as the request names it; a leading dot includes all names below; none: any.",
    )
    .live(),
    RuleField::new(
        "destinations",
        Kind::List(&Kind::Network),
        &[],
        |r, v| r.destinations = Take::take(v),
        "Networks of the address that is connected to; none: any address. An allowing rule that \
         names a private network here opens it to clients from elsewhere.",
    )
    .live(),
    RuleField::new(
        "ports",
        Kind::List(&Kind::Ports),
        &[],
        |r, v| r.ports = Take::take(v),
        "Destination ports; none: any port.",
    )
    .live(),
];
