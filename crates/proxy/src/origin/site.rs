//! Sites, the units that a proxy serves: the source of their responses, the keys of their objects,
//! and their aliases.
//!
//! A forward proxy is one site without a name, whose requests name their server. All other
//! differences from a reverse proxy are decided here.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use crate::message::scheme::Scheme;
use http1::RequestHead;
use net::address;
use net::address::bare;
use semantics::{ClientReload, Identity, RequestFacts, Settings, Url};
use store::Key;
use upstream::send::origin::{Origin, Voucher};
use upstream::servers::group::Group;
use upstream::settings::endpoint::Endpoint;
use upstream::settings::limits::UpstreamLimits;

use crate::object::key::{key_prefix, primary_key};
use crate::observe::front_kind::FrontKind;
use crate::observe::site_slots::{SiteSlot, SiteSlots};
use crate::origin::path_prefix::PathPrefix;
use crate::origin::target::Target;
use crate::rules::aliases::Aliases;
use crate::rules::request_rules::Rule;
use crate::rules::tables::words::Words;

/// All sites of a proxy.
#[derive(Clone, Debug)]
pub struct Front {
    kind: FrontKind,
    sites: Vec<Site>,
    /// Sites that no request leads to: rules name them for their origins.
    hidden: Vec<Site>,
    /// Indices of the sites that claim a host; hosts have no brackets.
    by_host: Words<Vec<usize>>,
    /// Indices of the sites that claim no host: they serve every host.
    for_all: Vec<usize>,
    /// True if some sites serve only some paths.
    by_path: bool,
    /// The slots of the sites in the counters.
    slots: SiteSlots,
}

impl Default for Front {
    fn default() -> Front {
        Front::forward()
    }
}

impl Front {
    /// Creates a forward proxy: clients name the origin in an absolute-form request target, or ask
    /// for a tunnel.
    pub fn forward() -> Front {
        let site = Site {
            number: 0,
            slot: SiteSlot::NONE,
            name: None,
            key_prefix: key_prefix(None),
            hosts: Vec::new(),
            paths: Vec::new(),
            source: Source::Named,
            pass_host: false,
            aliases: Aliases::default(),
            vouched: None,
        };
        Front::new(FrontKind::Forward, vec![site])
    }

    /// Creates a reverse proxy: the configuration determines the origin, and the request's host and
    /// path select the site.
    pub fn reverse(sites: Vec<Site>) -> Front {
        Front::new(FrontKind::Reverse, sites)
    }

    fn new(kind: FrontKind, mut sites: Vec<Site>) -> Front {
        sites.iter_mut().enumerate().for_each(|(number, site)| site.number = number);
        let mut claimed: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, site) in sites.iter().enumerate() {
            let hosts: BTreeSet<String> =
                site.hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
            hosts.into_iter().for_each(|host| claimed.entry(host).or_default().push(at));
        }
        let by_host = claimed.iter().map(|(host, at)| (host.as_str(), at.clone())).collect();
        let for_all = (0..sites.len()).filter(|at| sites[*at].hosts.is_empty()).collect();
        let by_path = sites.iter().any(|site| !site.paths.is_empty());
        let (hidden, slots) = (Vec::new(), SiteSlots::default());
        let mut front = Front { kind, sites, hidden, by_host, for_all, by_path, slots };
        front.assign_slots();
        front
    }

    fn assign_slots(&mut self) {
        for site in self.sites.iter_mut().chain(&mut self.hidden) {
            site.slot = self.slots.slot(site.name.as_deref());
        }
    }

    /// Returns the slots of the sites in the counters.
    pub(crate) fn slots(&self) -> &SiteSlots {
        &self.slots
    }

    /// Adds sites that no request leads to, whose origins rules name.
    pub fn with_hidden(self, hidden: Vec<Site>) -> Front {
        let mut front = Front { hidden, ..self };
        front.assign_slots();
        front
    }

    /// Returns the site of this name, even a hidden one.
    pub(crate) fn site_named(&self, name: &str) -> Option<&Site> {
        self.hidden.iter().chain(&self.sites).find(|site| site.name() == Some(name))
    }

    /// Returns the kind of proxy.
    pub fn kind(&self) -> FrontKind {
        self.kind
    }

    /// Returns the sites, in the order of the configuration.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// Returns the sites that have servers of their own, by name.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &Arc<Group>)> {
        let sites = self.sites.iter().chain(&self.hidden);
        sites.filter_map(|site| Some((site.name.as_deref()?, site.group()?)))
    }

    /// Returns the origins that are not servers, by the names of their sites.
    pub fn other_origins(&self) -> impl Iterator<Item = (&str, &dyn Origin)> {
        self.sites.iter().filter_map(|site| match &site.source {
            Source::Other(origin) => Some((site.name.as_deref()?, origin.as_ref())),
            Source::Named | Source::Servers(_) => None,
        })
    }

    /// Returns the site for a host, with or without brackets, and a path as sent, with or without a
    /// query. Candidates are the sites that claim the host and those that serve every host. The
    /// longest path prefix wins; among equal prefixes, a site that claims the host.
    pub(crate) fn site_of(&self, host: &str, path: &str) -> Option<&Site> {
        let mut all = self.claiming(host).chain(&self.for_all).map(|at| &self.sites[*at]);
        if self.by_path { nearest(all, &Url::tidied(path)) } else { all.next() }
    }

    pub(crate) fn site_of_url(&self, url: &Url) -> Option<&Site> {
        self.site_of(Aliases::split(url.authority()).0, url.sent())
    }

    /// Returns whether any site serves a host, even if only for some paths.
    pub(crate) fn is_claimed(&self, host: &str) -> bool {
        !self.for_all.is_empty() || self.claiming(host).next().is_some()
    }

    /// Returns the indices of the sites that claim a host, with or without brackets.
    fn claiming<'a>(&'a self, host: &'a str) -> impl Iterator<Item = &'a usize> {
        self.by_host.find(bare(host)).flat_map(|(_, sites)| sites)
    }

    /// Returns whether requests name absolute URLs of either scheme. If not, `Host` and the
    /// connection determine the rest of the URL (RFC 9112, 3.2).
    pub(crate) fn takes_whole_urls(&self) -> bool {
        self.kind == FrontKind::Forward
    }

    /// Returns whether clients choose the servers. If so, they may open tunnels, and learn why a
    /// server that they named failed.
    pub(crate) fn is_clients_choice(&self) -> bool {
        self.kind == FrontKind::Forward
    }

    /// Returns whether the front represents its origins. If so, it has their certificates, and
    /// ignores fields from clients that only a trusted proxy may set.
    pub(crate) fn stands_for_origins(&self) -> bool {
        self.kind == FrontKind::Reverse
    }

    /// Returns all names of a URL under the sites' aliases, each once, the URL itself first.
    pub(crate) fn urls(&self, url: &Url) -> Vec<Url> {
        let mut all = vec![url.clone()];
        for name in self.sites.iter().flat_map(|site| site.aliases.urls(url)) {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        all
    }

    /// Returns all hosts that a host stands for, each once.
    pub(crate) fn hosts(&self, host: &str) -> Vec<String> {
        let of = |site: &Site| site.aliases.hosts(host);
        let mut all: Vec<String> = self.sites.iter().flat_map(of).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the hosts that responses are stored under for other names, if these fulfil
    /// `is_meant`.
    pub(crate) fn hosts_where(&self, is_meant: impl Fn(&str) -> bool) -> Vec<String> {
        let of = |site: &Site| site.aliases.host_where(&is_meant).map(str::to_owned);
        self.sites.iter().filter_map(of).collect()
    }

    /// Takes over the state of the servers of sites that existed before, and the slots of sites.
    pub(crate) fn adopt(&mut self, before: &Front) {
        self.slots = before.slots.clone();
        self.assign_slots();
        let before: HashMap<&Option<String>, &Site> =
            before.sites.iter().chain(&before.hidden).map(|site| (&site.name, site)).collect();
        for site in self.sites.iter_mut().chain(&mut self.hidden) {
            let same = before.get(&site.name);
            if let (Source::Servers(group), Some(old)) = (&mut site.source, same)
                // A new group has no other owner yet.
                && let (Some(group), Some(old)) = (Arc::get_mut(group), old.group())
            {
                group.adopt(old);
            }
        }
    }
}

impl fmt::Display for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == FrontKind::Forward {
            return f.write_str("forward proxy");
        }
        let sites: Vec<String> = self.sites.iter().map(Site::to_string).collect();
        write!(f, "reverse proxy ({})", sites.join(", "))
    }
}

/// Returns the site with the longest matching path prefix.
fn nearest<'a>(sites: impl Iterator<Item = &'a Site>, tidy: &str) -> Option<&'a Site> {
    let of = |site: &'a Site| Some((site.prefix_length(tidy)?, site));
    // The first one wins among equals.
    sites.filter_map(of).min_by_key(|(length, _)| Reverse(*length)).map(|(_, site)| site)
}

/// The source of a site's responses.
#[derive(Clone, Debug)]
pub enum Source {
    /// The server that a request names.
    Named,
    /// The site's own servers.
    Servers(Arc<Group>),
    /// An origin that is not a server.
    Other(Arc<dyn Origin>),
}

impl From<Group> for Source {
    fn from(group: Group) -> Source {
        Source::Servers(Arc::new(group))
    }
}

/// One source of responses, with its hosts, paths and aliases.
#[derive(Clone, Debug)]
pub struct Site {
    /// The index of this site in its front.
    number: usize,
    /// Its slot in the counters.
    slot: SiteSlot,
    /// Unique among the sites; `None` for the single site of a forward proxy.
    name: Option<String>,
    key_prefix: String,
    hosts: Vec<String>,
    /// Path prefixes; empty covers every path.
    paths: Vec<PathPrefix>,
    source: Source,
    pass_host: bool,
    aliases: Aliases,
    /// The caching settings, if its origin vouches for its responses.
    vouched: Option<Arc<Settings>>,
}

impl Site {
    /// Creates the site `name` of a reverse proxy, for every host that no other site claims. Its
    /// origin gets its own name in `Host`.
    pub fn new(name: &str, source: impl Into<Source>) -> Site {
        let source = source.into();
        let vouches = matches!(&source, Source::Other(origin) if origin.voucher().is_some());
        let vouched = || Settings { origin_vouches: true, ..Settings::default() };
        Site {
            number: 0,
            slot: SiteSlot::NONE,
            name: Some(name.to_owned()),
            key_prefix: key_prefix(Some(name)),
            hosts: Vec::new(),
            paths: Vec::new(),
            source,
            pass_host: false,
            aliases: Aliases::default(),
            vouched: vouches.then(|| Arc::new(vouched())),
        }
    }

    /// Restricts the site to these hosts (lower case, without port). An empty list means every host
    /// that no other site claims.
    pub fn with_hosts(self, hosts: Vec<String>) -> Site {
        Site { hosts, ..self }
    }

    /// Restricts the site to these paths. An empty list means every path.
    pub fn with_paths(self, paths: Vec<PathPrefix>) -> Site {
        Site { paths, ..self }
    }

    /// Sets the site's aliases.
    pub fn with_aliases(self, aliases: Aliases) -> Site {
        Site { aliases, ..self }
    }

    /// Sets whether its origin gets the client's `Host` or its own name.
    pub fn with_pass_host(self, pass_host: bool) -> Site {
        Site { pass_host, ..self }
    }

    /// Returns the site's index in its front.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Returns the site's slot in the counters.
    pub(crate) fn slot(&self) -> SiteSlot {
        self.slot
    }

    /// Returns the site's name; `None` for the single site of a forward proxy.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the hosts that the site claims.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Returns the length of the longest prefix that covers a path; `None` when the site does not
    /// serve it.
    fn prefix_length(&self, tidy: &str) -> Option<usize> {
        if self.paths.is_empty() {
            return Some(0);
        }
        let fitting = self.paths.iter().filter(|prefix| prefix.is_for(tidy));
        fitting.map(|prefix| prefix.as_str().len()).max()
    }

    /// Returns whether requests name their server.
    pub(crate) fn is_named_by_requests(&self) -> bool {
        matches!(self.source, Source::Named)
    }

    /// Returns the site's own servers, if it has any.
    pub fn group(&self) -> Option<&Arc<Group>> {
        match &self.source {
            Source::Servers(group) => Some(group),
            Source::Named | Source::Other(_) => None,
        }
    }

    pub(crate) fn origin(&self, target: &Target<'_>, limits: &UpstreamLimits) -> Arc<dyn Origin> {
        match &self.source {
            Source::Servers(group) => group.clone(),
            Source::Other(origin) => origin.clone(),
            Source::Named => {
                // The server of the name under which the response is stored.
                let (host, port) = target.place();
                let plain = Endpoint::plain(address::bare(host), port);
                let UpstreamLimits { tls, http2, .. } = limits;
                Arc::new(match target.scheme {
                    Scheme::Http => plain,
                    Scheme::Https => Endpoint { tls: Some(tls.clone()), http2: *http2, ..plain },
                })
            }
        }
    }

    /// Returns whether its origin gets the client's `Host` rather than its own name.
    pub fn passes_host(&self) -> bool {
        self.pass_host
    }

    /// Returns the prefix of its objects' keys.
    pub(crate) fn key_prefix(&self) -> &str {
        &self.key_prefix
    }

    /// Returns the key of the object at `url`; `None` when it is too long. If the origin vouches
    /// for its responses, the query is not part of the key.
    pub(crate) fn key(&self, url: &Url) -> Option<Key> {
        match self.vouched {
            Some(_) => {
                let url = self.canonical(url.clone());
                primary_key(&self.key_prefix, &url.without_query())
            }
            None => primary_key(&self.key_prefix, url),
        }
    }

    /// Returns the canonical spelling of a URL, if the origin knows which spellings have the same
    /// response. Rules and keys then see the path that the origin sees.
    pub(crate) fn canonical(&self, url: Url) -> Url {
        let Some(voucher) = self.voucher() else { return url };
        let (path, query) = match url.sent().split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (url.sent(), None),
        };
        let Some(Cow::Owned(path)) = voucher.canonical_path(path) else { return url };
        let sent = match query {
            Some(query) => format!("{path}?{query}"),
            None => path,
        };
        Url::new(url.scheme(), url.authority(), &sent).unwrap_or(url)
    }

    /// Returns whether [`Site::canonical`] leaves a URL with this path and query unchanged.
    pub(crate) fn is_canonical(&self, sent: &str) -> bool {
        self.voucher().is_none_or(|voucher| {
            let path = sent.split('?').next().unwrap_or_default();
            !matches!(voucher.canonical_path(path), Some(Cow::Owned(_)))
        })
    }

    /// Returns the origin's voucher for stored responses, if it has one. Without one, HTTP's
    /// lifetimes apply.
    pub(crate) fn voucher(&self) -> Option<&dyn Voucher> {
        match &self.source {
            Source::Other(origin) => origin.voucher(),
            Source::Named | Source::Servers(_) => None,
        }
    }

    /// Returns the caching settings if the site's origin vouches for its responses. The settings of
    /// rules and of the whole proxy, which concern lifetimes, do not apply then.
    pub(crate) fn vouched(&self) -> Option<&Arc<Settings>> {
        self.vouched.as_ref()
    }

    /// Returns the facts of a request by a client with this identity, as far as they count at this
    /// site under the general `settings` and the rule for the request.
    pub(crate) fn facts(
        &self,
        head: &RequestHead,
        identity: Identity,
        (settings, rule): (&Settings, Option<&Rule>),
    ) -> RequestFacts {
        let facts = RequestFacts::of(&head.method, &head.fields);
        let facts = facts.with(head.target.path_and_query(), identity);
        match self.vouched {
            Some(_) => facts.without_wishes(),
            None if rule.is_some_and(|rule| rule.settings.refresh) => facts.with_reload(),
            None if settings.client_reload == ClientReload::Ignore => facts.without_reload(),
            None => facts,
        }
    }

    pub(crate) fn aliases(&self) -> &Aliases {
        &self.aliases
    }
}

impl fmt::Display for Site {
    /// Writes the site's name and the source of its responses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to ", self.name().unwrap_or("every host"))?;
        match &self.source {
            Source::Named => f.write_str("the server that a request names"),
            Source::Other(origin) => origin.fmt(f),
            Source::Servers(group) => {
                let servers = group.servers().iter().map(|server| server.endpoint.to_string());
                f.write_str(&servers.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use semantics::scanned_path::ScannedPath;
    use upstream::servers::group::{GroupOptions, Server};

    fn site(name: &str, hosts: &[&str], servers: &[u16]) -> Site {
        let server = |port: &u16| Server::new(Endpoint::plain("127.0.0.1", *port));
        let servers = servers.iter().map(server).collect();
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let aliases = Aliases::new(&hosts, !hosts.is_empty(), &[8080]);
        let group = Group::new(name, servers, GroupOptions::default());
        Site::new(name, group).with_hosts(hosts).with_aliases(aliases)
    }

    #[test]
    fn a_forward_proxy_is_one_site_without_aliases() {
        let front = Front::forward();
        let one = front.site_of("any.example", "/").unwrap();
        let url = Url::parse("http://any.example:8080/x?y").unwrap();
        assert_eq!(front.urls(&url), std::slice::from_ref(&url));
        assert_eq!(front.hosts("any.example:8080"), ["any.example:8080"]);
        assert_eq!(one.aliases().authorities(&url), ["any.example:8080"]);
        assert_eq!(one.key(&url), primary_key("forward", &url));
        assert_eq!((one.name(), front.groups().count()), (None, 0));
        assert_eq!(front.to_string(), "forward proxy");
    }

    #[test]
    fn sites_keep_their_slots_when_others_come_and_go() {
        let [a, b, c] = ["a", "b", "c"].map(|name| site(name, &[], &[81]));
        let slots = |front: &Front| {
            let all = front.sites.iter().chain(&front.hidden);
            all.map(|site| (site.name().unwrap().to_owned(), site.slot().index())).collect()
        };
        let named = |all: &[(&str, usize)]| -> Vec<(String, usize)> {
            all.iter().map(|(name, slot)| ((*name).to_owned(), *slot)).collect()
        };
        let first = Front::reverse(vec![a, b.clone()]);
        let mut second = Front::reverse(vec![c]).with_hidden(vec![b]);
        second.adopt(&first);
        let of: Vec<_> = slots(&second);
        assert_eq!(of, named(&[("c", 3), ("b", 2)]));
    }

    #[test]
    fn the_host_selects_the_site_its_origin_and_its_key() {
        let front = Front::reverse(vec![
            site("a", &["a.example", "::1"], &[81, 82]),
            site("rest", &[], &[83]),
        ]);
        let name = |host| front.site_of(host, "/").and_then(Site::name);
        assert_eq!(["A.example", "[::1]", "b.example"].map(name), ["a", "a", "rest"].map(Some));
        let limits = UpstreamLimits::default();
        let origin = |host| {
            let site = front.site_of(host, "/").unwrap();
            let (scheme, port, path) = (Scheme::Http, 80, ScannedPath::new("/"));
            Target { site, scheme, host, port, aliases: None, path }.origin(&limits).to_string()
        };
        assert_eq!(origin("a.example"), "the servers of site a");
        assert_eq!(origin("b.example"), "127.0.0.1:83");
        let url = Url::parse("http://[::1]:8080/").unwrap();
        let keys = front.sites().iter().map(|site| site.key(&url));
        assert_eq!(
            keys.collect::<Vec<_>>(),
            [primary_key("site a", &url), primary_key("site rest", &url)]
        );
        let shown = "reverse proxy (a to 127.0.0.1:81, 127.0.0.1:82, rest to 127.0.0.1:83)";
        assert_eq!(front.to_string(), shown);
        let alone = Front::reverse(vec![site("a", &["a.example"], &[81])]);
        assert!(alone.site_of("b.example", "/").is_none());
    }

    #[test]
    fn the_longest_path_prefix_selects_among_the_sites_of_a_host() {
        let on = |name: &str, hosts: &[&str], paths: &[&str]| {
            let paths = paths.iter().map(|path| path.parse().unwrap()).collect();
            site(name, hosts, &[81]).with_paths(paths)
        };
        let mut sites = vec![
            on("app", &["a.example"], &[]),
            on("static", &["a.example", "b.example"], &["/static/", "/media"]),
            on("deep", &["a.example"], &["/static/deep/"]),
            on("other", &["c.example"], &["/static/"]),
        ];
        let front = Front::reverse(sites.clone());
        let everywhere = [sites.clone(), vec![on("every", &[], &["/static/deep/", "/m/"])]];
        let everywhere = Front::reverse(everywhere.concat());
        sites.push(on("rest", &[], &[]));
        let with_rest = Front::reverse(sites);
        for (host, path, expected) in [
            ("a.example", "/", Some("app")),
            ("a.example", "", Some("app")),
            ("a.example", "*", Some("app")),
            ("a.example", "/static", Some("static")),
            ("A.example", "/static/x?/..", Some("static")),
            ("a.example", "//%73tatic//x", Some("static")),
            ("a.example", "/x/../static/x", Some("static")),
            ("a.example", "/static/../x", Some("app")),
            ("a.example", "/statics", Some("app")),
            ("a.example", "/?/static/", Some("app")),
            ("a.example", "/static/deep", Some("deep")),
            ("a.example", "/static/deeper", Some("static")),
            ("a.example", "/static/%64eep/x", Some("deep")),
            ("a.example", "/static/deep/../x", Some("static")),
            ("b.example", "/media/x", Some("static")),
            ("b.example", "/x", None),
            ("c.example", "*", None),
            ("d.example", "/static/x", None),
        ] {
            let name = front.site_of(host, path).and_then(Site::name);
            assert_eq!(name, expected, "{host} {path}");
            let name = with_rest.site_of(host, path).and_then(Site::name);
            assert_eq!(name, expected.or(Some("rest")), "{host} {path}");
        }
        for (host, path, expected) in [
            ("a.example", "/static/deep/x", Some("deep")),
            ("b.example", "/static/deep/x", Some("every")),
            ("a.example", "/m/x", Some("every")),
            ("a.example", "/x", Some("app")),
            ("d.example", "/m/x", Some("every")),
            ("d.example", "/x", None),
        ] {
            assert_eq!(
                everywhere.site_of(host, path).and_then(Site::name),
                expected,
                "{host} {path}"
            );
        }
        assert!(everywhere.is_claimed("d.example"));
        assert!(front.is_claimed("c.example") && !front.is_claimed("d.example"));
        let url = Url::parse("http://a.example:8080/%73tatic/x").unwrap();
        assert_eq!(front.site_of_url(&url).and_then(Site::name), Some("static"));
    }
}
