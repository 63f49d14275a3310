//! Checks that concern more than one value: settings that contradict each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use http::{HeaderName, Uri, header};
use proxy::message::trace_context::Tracing;
use proxy::observe::access_log::Destination;
use proxy::origin::path_prefix::PathPrefix;
use proxy::rules::classes::Classes;
use proxy::rules::purging::{PurgeSecret, Purging};
use store::LayoutName;

use crate::config::configuration::{Config, DEFAULT_SITE, KeyHost, Resolver, Site};
use crate::config::file::File;
use crate::config::layers::{FileLayer, Layer, Location, Place, Problem};
use crate::config::listen_addr;
use crate::config::listen_addr::ListenAddr;
use crate::config::request_rule::RequestRule;
use crate::config::rule_actions::RuleUpstream;
use crate::config::rule_condition::{Wrong, listener};
use crate::config::upstreams::wrong_servers;
use crate::config::value::Value;

/// Fields that have other uses in requests, so they cannot carry the secret of a purge or an id.
const MEANT_OTHERWISE: [HeaderName; 12] = [
    header::AUTHORIZATION,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::COOKIE,
    header::HOST,
    header::PROXY_AUTHORIZATION,
    header::RANGE,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::VIA,
];

/// Returns all problems of `config`, which was built from `file` and `flags`.
pub fn problems(config: &Config, file: &File, flags: &Layer) -> Vec<Problem> {
    Checker { config, name: &file.name, file: &file.layer, flags, list: Vec::new() }.run()
}

/// Runs the checks that concern more than one value.
struct Checker<'a> {
    config: &'a Config,
    /// The name of the main file; empty if there is none.
    name: &'a Arc<str>,
    file: &'a FileLayer,
    flags: &'a Layer,
    list: Vec<Problem>,
}

/// Maximum number of rules that may each double the names of an object.
const ADDING_MAX: usize = 8;

impl Checker<'_> {
    fn run(mut self) -> Vec<Problem> {
        self.listeners();
        self.caches();
        self.addresses();
        self.admin();
        self.logs();
        self.spans();
        self.resolver();
        self.sharing();
        self.purging();
        self.sites();
        self.servers();
        self.server_and_file_settings();
        let classes = self.classes();
        self.rules(&classes);
        self.store();
        self.fleet();
        self.list
    }

    fn logs(&mut self) {
        let destination = self.config.access_log.as_deref().map(Destination::parse);
        if let Some(Err(why)) = destination {
            self.complain("access-log", why);
        }
        let id = self.config.request_id.as_ref();
        if let Some(name) = id.filter(|name| MEANT_OTHERWISE.contains(name)) {
            self.complain("request-id", format!("{name} has another use in requests"));
        }
    }

    fn spans(&mut self) {
        let Some(url) = &self.config.otlp_endpoint else { return };
        let parsed = url.parse::<Uri>().ok();
        let has_host = parsed.is_some_and(|url| {
            matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some()
        });
        let text = match (has_host, self.config.tracing) {
            _ if !cfg!(feature = "otlp") => "this program was built without OTLP: build it with \
                                             --features otlp"
                .to_owned(),
            (false, _) => {
                format!("expected a URL such as http://127.0.0.1:4318/v1/traces, got {url:?}")
            }
            (_, Tracing::Off) => "without traces there are no spans: set tracing to \"continue\" \
                                  or \"start\""
                .to_owned(),
            (true, Tracing::Continue | Tracing::Start) => return,
        };
        self.complain("otlp-endpoint", text);
    }

    fn resolver(&mut self) {
        if cfg!(target_feature = "crt-static") && self.config.resolver == Resolver::System {
            let text = "expected \"dns\": this program is linked statically, so it cannot load the \
                        modules of nsswitch.conf; a build from source can";
            self.complain("upstream.resolver", text.to_owned());
        }
    }

    fn caches(&mut self) {
        let given = self.flags.get("cache").or_else(|| self.file.settings.get("cache"));
        if given.is_none_or(|given| !matches!(given.value, Value::Word(_))) {
            self.repeats("cache", &self.config.cache);
        } else if self.config.fleet.capacity.is_some_and(|capacity| capacity > 0) {
            let text = "expected 0: without a cache a node owns nothing".to_owned();
            self.complain("fleet.capacity", text);
        }
    }

    fn sharing(&mut self) {
        let is_name = |name: &String| {
            !name.is_empty() && HeaderName::from_bytes(name.replace('*', "x").as_bytes()).is_ok()
        };
        if let Some(odd) = self.config.sharing.identifying.iter().find(|name| !is_name(name)) {
            let text = format!("expected a field's name, * for anything, or \"auto\", got {odd:?}");
            self.complain("caching.identifying-fields", text);
        }
    }

    fn store(&mut self) {
        if let Some(size) = self.config.format.cluster_size
            && !size.is_power_of_two()
        {
            self.complain("store.cluster-size", "expected a power of two such as 64K".to_owned());
        }
        self.slots();
        self.locality();
        let shares = self.config.store.tier_shares;
        let sum = u32::from(shares.hot) + u32::from(shares.medium);
        if sum > 100 {
            let key = if self.given("store.tier-hot") { "tier-hot" } else { "tier-medium" };
            let text = format!(
                "expected tier-hot and tier-medium to be at most 100 together, got {} + {}",
                shares.hot, shares.medium
            );
            self.complain(&format!("store.{key}"), text);
        }
    }

    /// Checks the settings of layouts with slots.
    fn slots(&mut self) {
        let (packet, format) = (self.config.store.packet, &self.config.format);
        if !format.slot_size.is_power_of_two() {
            let text = "expected 512, 1K, 2K or 4K".to_owned();
            return self.complain("store.slot-size", text);
        }
        if !packet.is_multiple_of(4096) {
            let text = "expected a multiple of 4K such as 8K, or 0".to_owned();
            self.complain("store.packet", text);
        }
        let (threshold, slot) = (format.buddy_threshold, format.slot_size);
        if !threshold.is_multiple_of(slot) {
            let threshold_given = self.given("store.buddy-threshold");
            let key = if threshold_given { "buddy-threshold" } else { "slot-size" };
            let text = format!(
                "expected buddy-threshold ({threshold} bytes) to be a multiple of slot-size \
                 ({slot} bytes)"
            );
            self.complain(&format!("store.{key}"), text);
        }
    }

    /// Refuses locality buffers in clusters, which have batches for the same purpose.
    fn locality(&mut self) {
        let given = self.given("store.locality-buffers");
        if self.config.format.layout == LayoutName::Cluster
            && self.config.store.locality.is_some()
            && (given || self.given("layout"))
        {
            let key = if given { "store.locality-buffers" } else { "layout" };
            let text = "expected layout \"stream\", \"buddy\" or \"unified\" with locality \
                        buffers: layout \"cluster\" collects objects in store.batch";
            self.complain(key, text.to_owned());
        }
    }

    fn fleet(&mut self) {
        let fleet = &self.config.fleet;
        let lines: Vec<Location> =
            self.file.fleet_classes.iter().map(|(_, at)| at.clone()).collect();
        for (table, key, text) in fleet.problems(&|key| self.given(key)) {
            match table.and_then(|table| lines.get(table)) {
                Some(line) => {
                    let place = Place::File(line.clone());
                    self.list.push(Problem { place, key: key.to_owned(), text });
                }
                None => self.complain(key, text),
            }
        }
        if fleet.listen.is_none() && self.flags.contains_key("fleet.join") {
            let text = "expected --fleet, or fleet.listen, beside it";
            self.complain("fleet.join", text.to_owned());
        }
        let listeners = self.config.all_listeners();
        let others = listeners.iter().filter_map(|listener| listener.address.as_ref()?.ip());
        let mut others = others.chain(self.config.admin);
        if let Some(listen) = fleet.listen.filter(|listen| others.any(|other| other == *listen)) {
            let text = format!("{listen} cannot be both: for nodes of the fleet and for clients");
            self.complain("fleet.listen", text);
        }
    }

    /// Adds a problem with `key`, located where its value was given.
    fn complain(&mut self, key: &str, text: String) {
        let given = self.flags.get(key).or_else(|| self.file.settings.get(key));
        let place = given.map_or_else(|| self.default_place(), |given| given.place.clone());
        self.list.push(Problem { place, key: key.to_owned(), text });
    }

    /// Returns the place of a value that was not given.
    fn default_place(&self) -> Place {
        match self.name.is_empty() {
            true => Place::Unknown,
            false => Place::File(Location { file: self.name.clone(), line: 1 }),
        }
    }

    fn repeats<T: PartialEq + fmt::Debug>(&mut self, key: &str, values: &[T]) {
        if values.is_empty() {
            self.complain(key, "expected at least one".to_owned());
        }
        for (at, value) in values.iter().enumerate() {
            if values[..at].contains(value) {
                self.complain(key, format!("{value:?} is given twice"));
            }
        }
    }

    fn listeners(&mut self) {
        let lines: Vec<Location> = self.file.listeners.iter().map(|(_, at)| at.clone()).collect();
        for (table, key, text) in self.config.listener_problems() {
            match table {
                Some(table) => {
                    let place = Place::File(lines[table].clone());
                    self.list.push(Problem { place, key: key.to_owned(), text });
                }
                None => self.complain(key, text),
            }
        }
    }

    fn addresses(&mut self) {
        if let Some(admin) = self.config.admin
            && admin.port() != 0
            && self.config.all_listeners().iter().any(|l| l.address == Some(ListenAddr::Ip(admin)))
        {
            let key = if self.given("admin") { "admin" } else { "listen" };
            let text = format!("{admin} cannot be both: a proxy and the admin interface");
            self.complain(key, text);
        }
    }

    fn admin(&mut self) {
        if self.config.admin_token.is_some() && self.config.admin_token_file.is_some() {
            let text = "expected one of admin-token and admin-token-file, got both".to_owned();
            self.complain("admin-token", text);
        }
    }

    /// Finds methods and fields of purges that are there twice, or are tags as well.
    fn purge_dialect(&mut self) {
        let Purging { dialect, tags, .. } = &self.config.purging;
        let mut methods = Vec::new();
        for method in &dialect.methods {
            if methods.contains(&method.name()) {
                let text = format!("expected one meaning of {}, got two", method.name());
                return self.complain("purge.methods", text);
            }
            methods.push(method.name());
        }
        let mut fields = Vec::new();
        for field in &dialect.fields {
            let name = field.name();
            if fields.contains(&name) || tags.names().any(|known| known == name) {
                let text = format!(
                    "expected one meaning of {name}, got two (purge.tag-fields and purge.tag-lists \
                     count)"
                );
                return self.complain("purge.fields", text);
            }
            fields.push(name);
        }
    }

    fn purging(&mut self) {
        self.purge_dialect();
        let config = self.config;
        if config.purge_secret.is_some() && config.purge_secret_file.is_some() {
            let text = "expected one of secret and secret-file, got both".to_owned();
            return self.complain("purge.secret", text);
        }
        let Some(field) = config.purge_secret_field.clone() else { return };
        if MEANT_OTHERWISE.contains(&field)
            || config.purging.tags.names().any(|name| *name == field)
            || config.purging.dialect.fields.iter().any(|known| *known.name() == field)
        {
            let text = format!(
                "expected a separate field such as x-purge-secret, but {field} has another meaning"
            );
            return self.complain("purge.secret-field", text);
        }
        if let Some(secret) = &config.purge_secret
            && let Err(why) = PurgeSecret::new(field, secret)
        {
            self.complain("purge.secret", why.to_owned());
        }
    }

    fn servers(&mut self) {
        let reverse = self.config.reverse.as_deref();
        let wrong = |servers| wrong_servers(servers).or_else(|| self.own_server(servers));
        if let Some(why) = reverse.and_then(wrong) {
            self.complain("reverse", why);
        }
        if self.config.reverse.is_some() && self.config.root.is_some() {
            let text = "expected one of reverse and static, got both".to_owned();
            self.complain("static", text);
        }
        for (site, line) in &self.file.sites {
            let wrong = match (&site.root, site.upstream.is_empty()) {
                (None, _) => {
                    wrong_servers(&site.upstream).or_else(|| self.own_server(&site.upstream))
                }
                (Some(_), true) => None,
                (Some(_), false) => Some("expected one of upstream and root, got both".to_owned()),
            };
            if let Some(text) = wrong {
                let (place, key) = (Place::File(line.clone()), "site.upstream".to_owned());
                self.list.push(Problem { place, key, text });
            }
        }
    }

    /// Returns why a server among `servers` can be none: it is this program.
    fn own_server(&self, servers: &[String]) -> Option<String> {
        let listeners = self.config.all_listeners();
        let listening = listeners.iter().filter_map(|listener| match &listener.address {
            Some(ListenAddr::Ip(address)) => Some(*address),
            _ => None,
        });
        let own: Vec<SocketAddr> = listening.chain(self.config.admin).collect();
        let is_own = |server: &&String| {
            let uri = server.split_whitespace().next().and_then(|url| url.parse::<Uri>().ok());
            let address = uri.and_then(|uri| listen_addr::ip(uri.authority()?.as_str()));
            address.is_some_and(|address| {
                let is_here = |own: &SocketAddr| {
                    own.ip() == address.ip()
                        || (own.ip().is_unspecified() && address.ip().is_loopback())
                };
                own.iter().any(|own| own.port() == address.port() && is_here(own))
            })
        };
        let server = servers.iter().find(is_own)?;
        Some(format!("{server} is an address of Larder itself, which refuses such requests"))
    }

    /// Checks the settings of origin servers and of files, for each site.
    fn server_and_file_settings(&mut self) {
        let general = &self.config.upstream_settings;
        if let Some((key, text)) = general.problem() {
            return self.complain(&format!("upstream.{key}"), text);
        }
        let files = &self.config.files;
        if let Some((key, text)) = files.problem() {
            return self.complain(&format!("files.{key}"), text);
        }
        for (site, line) in &self.file.sites {
            let problem = site.upstream_settings(general).problem();
            if let Some((key, text)) = problem.or_else(|| site.file_settings(files).problem()) {
                let (place, key) = (Place::File(line.clone()), format!("site.{key}"));
                self.list.push(Problem { place, key, text });
            }
        }
    }

    /// Returns the classes that can be used.
    fn classes(&mut self) -> Classes {
        let mut classes = Classes::default();
        let mut lines: BTreeMap<&str, &Location> = BTreeMap::new();
        for (class, line) in &self.file.classes {
            let wrong = match lines.insert(&class.name, line) {
                Some(first) => {
                    let first = first.seen_from(line);
                    Some(("name", format!("expected another name than that of {first}")))
                }
                None => class.add_to(&mut classes).err(),
            };
            if let Some((key, text)) = wrong {
                let (place, key) = (Place::File(line.clone()), format!("class.{key}"));
                self.list.push(Problem { place, key, text });
            }
        }
        classes
    }

    fn rules(&mut self, classes: &Classes) {
        let sites = self.config.sites.iter().filter_map(Site::called);
        let default = self.config.has_default_site().then_some(DEFAULT_SITE);
        let sites: BTreeSet<&str> = sites.chain(default).collect();
        let served = self.config.sites.iter().filter(|site| !site.is_for_rules());
        let served: BTreeSet<&str> = served.filter_map(Site::called).chain(default).collect();
        let mut names: BTreeMap<String, &Location> = BTreeMap::new();
        let mut adding = 0;
        for (at, (rule, line)) in self.file.rules.iter().enumerate() {
            let first = Some(*names.entry(rule.called(at + 1)).or_insert(line));
            adding += usize::from(rule.adds_names());
            let named = rule.when.sites();
            let unknown = named.into_iter().find(|name| !served.contains(&name.as_str()));
            let wrong = match unknown {
                Some(name) if sites.contains(name.as_str()) => {
                    Some(("sites", format!("no request leads to the site {name:?}")))
                }
                Some(name) => Some(("sites", format!("there is no site {name:?}"))),
                None if self.unknown_listener(rule).is_some() => self.unknown_listener(rule),
                None if first.is_some_and(|first| first != line) => {
                    let first = first.map(|first| first.seen_from(line)).unwrap_or_default();
                    Some(("name", format!("expected another name than that of {first}")))
                }
                None if rule.adds_names() && adding > ADDING_MAX => {
                    let text = format!(
                        "expected at most {ADDING_MAX} rules that continue and change the query of \
                         the key: a purge has to reach every name that they may give together"
                    );
                    Some(("then", text))
                }
                None => {
                    let made = rule.to_proxy(at + 1, &semantics::Settings::default(), classes);
                    let wrong = || {
                        self.wrong_upstream(rule, &sites).or_else(|| self.wrong_credentials(rule))
                    };
                    made.err().or_else(wrong)
                }
            };
            if let Some((key, text)) = wrong {
                let (place, key) = (Place::File(line.clone()), format!("rule.{key}"));
                self.list.push(Problem { place, key, text });
            }
        }
    }

    /// Refuses a condition on a listener that does not exist.
    fn unknown_listener(&self, rule: &RequestRule) -> Option<Wrong> {
        let known: Vec<String> = (self.config.all_listeners().iter())
            .filter_map(|listener| listener.address.as_ref().map(ToString::to_string))
            .collect();
        let names = rule.when.listeners();
        let is_known = |name: &str| {
            let test = listener(name);
            test.is_some_and(|test| known.iter().any(|address| test.matches(address)))
        };
        let unknown = names.into_iter().find(|name| !is_known(name))?;
        let all = known.join(", ");
        Some(("listeners", format!("no listener has the address or port {unknown:?} (of {all})")))
    }

    /// Refuses credentials that clients of a forward proxy could send to any server.
    fn wrong_credentials(&self, rule: &RequestRule) -> Option<Wrong> {
        let is_open = !self.config.is_reverse() && rule.when.is.hosts.is_empty();
        (is_open && rule.actions.credentials.is_some()).then(|| {
            let text = "expected hosts beside it: clients of a forward proxy name the server";
            ("credentials", text.to_owned())
        })
    }

    /// Returns the problem of a rule's `upstream` or `try-root` that only the sites show.
    fn wrong_upstream(&self, rule: &RequestRule, sites: &BTreeSet<&str>) -> Option<Wrong> {
        let upstream = rule.actions.upstream();
        let key = match (&upstream, &rule.actions.try_root) {
            (Some(_), _) => "upstream",
            (None, Some(_)) => "try-root",
            (None, None) => return None,
        };
        if !self.config.is_reverse() {
            let text =
                "only a reverse proxy has origin servers: expected reverse or [[site]] tables";
            return Some((key, text.to_owned()));
        }
        let of_files = self.config.sites.iter().filter(|site| site.root.is_some());
        let of_files = of_files.filter_map(Site::called);
        let of_files: Vec<&str> =
            of_files.chain(self.config.root.as_ref().map(|_| DEFAULT_SITE)).collect();
        let named = &rule.when.is.sites;
        let is_of_files = |name: &&str| named.is_empty() || named.iter().any(|one| one == name);
        if let Some(name) = of_files.iter().find(|name| is_of_files(name)) {
            let text = format!("expected `sites` beside it, without {name:?}, which serves files");
            return Some((key, text));
        }
        match upstream? {
            RuleUpstream::Site(name) if !sites.contains(name) || of_files.contains(&name) => {
                let text = format!(
                    "there is no site {name:?} with origin servers; expected one, a \
                     URL, or \"{{host}}\""
                );
                Some(("upstream", text))
            }
            _ => None,
        }
    }

    fn given(&self, key: &str) -> bool {
        self.flags.contains_key(key) || self.file.settings.contains_key(key)
    }

    fn sites(&mut self) {
        let mut places: BTreeMap<(&str, &str), &Location> = BTreeMap::new();
        let mut names: BTreeMap<&str, &Location> = BTreeMap::new();
        for (site, line) in &self.file.sites {
            let mut complain = |key: &str, text: String| {
                let place = Place::File(line.clone());
                self.list.push(Problem { place, key: key.to_owned(), text });
            };
            let is_named = || self.config.rules.iter().any(|rule| names_site(rule, site));
            if site.is_for_rules() && (site.root.is_some() || !is_named()) {
                let text = "expected hosts, paths, or both, or its name in upstream of a rule";
                complain("site.hosts", text.to_owned());
            }
            if site.hosts.is_empty() && site.paths.iter().any(|path| path.as_str().is_empty()) {
                let text =
                    "expected hosts beside /: for every host and path there is reverse, or static";
                complain("site.paths", text.to_owned());
            }
            let is_listed = site.root.is_some() || !site.hosts.is_empty();
            if site.key_host == Some(KeyHost::Site) && !is_listed {
                let text = "expected hosts beside \"site\", to ask the origin servers by the first";
                complain("site.key-host", text.to_owned());
            }
            for (host, path) in claims(site) {
                if let Some(other) = places.insert((host, path), line) {
                    let (key, text) = match (host, path) {
                        (host, "") => ("site.hosts", format!("{host:?}")),
                        ("", path) => ("site.paths", format!("{path}/ of every host")),
                        (host, path) => ("site.paths", format!("{path}/ of {host:?}")),
                    };
                    let other = other.seen_from(line);
                    complain(key, format!("{text} already belongs to the site of {other}"));
                }
            }
            let log = site.access_log.as_deref().map(Destination::parse);
            if let Some(Err(why)) = log {
                complain("site.access-log", why);
            }
            if site.strip_prefix && (site.root.is_none() || site.paths.is_empty()) {
                complain("site.strip-prefix", "expected root and paths beside it".to_owned());
            }
            if let Some(name) = site.called()
                && let Some(other) = names.insert(name, line)
            {
                let advice = if site.name.is_none() { ": give this one a name" } else { "" };
                let other = other.seen_from(line);
                let text = format!("{name:?} is the site of {other} already{advice}");
                complain("site.name", text);
            }
        }
    }
}

/// Returns whether a rule names the site as its origin.
fn names_site(rule: &RequestRule, site: &Site) -> bool {
    match rule.actions.upstream() {
        Some(RuleUpstream::Site(name)) => site.called() == Some(name),
        _ => false,
    }
}

/// Returns each pair of host and path prefix that a site serves; the empty string stands for all.
fn claims(site: &Site) -> impl Iterator<Item = (&str, &str)> {
    let hosts: Vec<&str> = match site.hosts.is_empty() {
        true if site.is_for_rules() => Vec::new(),
        true => vec![""],
        false => site.hosts.iter().map(String::as_str).collect(),
    };
    let paths: Vec<&str> = match site.paths.is_empty() {
        true => vec![""],
        false => site.paths.iter().map(PathPrefix::as_str).collect(),
    };
    let on = move |host| paths.clone().into_iter().map(move |path| (host, path));
    hosts.into_iter().flat_map(on)
}

impl Config {
    /// Returns the problems of the listeners: the index of the `[[listener]]` table if it is in
    /// one, the key, and a sentence.
    fn listener_problems(&self) -> Vec<(Option<usize>, &'static str, String)> {
        let all = self.all_listeners();
        let mut problems = Vec::new();
        if all.is_empty() {
            problems.push((None, "listen", "expected at least one".to_owned()));
        }
        for (at, listener) in all.iter().enumerate() {
            let Some(address) = &listener.address else { continue };
            let table = at.checked_sub(self.listen.len());
            let mut complain = |key, text: String| problems.push((table, key, text));
            if all[..at].iter().any(|other| other.address.as_ref() == Some(address)) {
                let key = if table.is_some() { "listener.address" } else { "listen" };
                complain(key, format!("{address} is given twice"));
            }
            if listener.tls && listener.h2c {
                let text = "expected tls or h2c: with TLS the client negotiates the HTTP version";
                complain("listener.h2c", text.to_owned());
            }
            if listener.tls && self.certificates.is_empty() {
                complain("listener.tls", "TLS needs a [[certificate]] table".to_owned());
            }
            if address.ip().is_some() && (listener.owner.is_some() || listener.group.is_some()) {
                let owner = listener.owner.is_some();
                let key = if owner { "listener.owner" } else { "listener.group" };
                complain(key, "only a Unix socket has one".to_owned());
            }
        }
        problems
    }
}
