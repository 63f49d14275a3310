//! `server` blocks: sites, and rules for their locations.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::convert::nginx::access_log;
use crate::convert::nginx::backend::{self, DEFAULTS, Directory, NEXT, Servers};
use crate::convert::nginx::condition::Variables;
use crate::convert::nginx::hosts;
use crate::convert::nginx::known::APPLICATIONS;
use crate::convert::nginx::limits;
use crate::convert::nginx::location::{self, Source};
use crate::convert::nginx::matching::{self, Kind, Location};
use crate::convert::nginx::named_backend;
use crate::convert::nginx::own_directory;
use crate::convert::nginx::replies::{self, Place};
use crate::convert::nginx::responses;
use crate::convert::nginx::restrictions::Restrictions;
use crate::convert::nginx::scope::Scope;
use crate::convert::nginx::server_block::Server;
use crate::convert::nginx::server_group;
use crate::convert::nginx::slashes;
use crate::convert::nginx::spellings;
use crate::convert::nginx::syntax::{Directive, walk};
use crate::convert::nginx::target_path;
use crate::convert::nginx::tries::{self, Behind};
use crate::convert::nginx::{Http, account};
use crate::convert::output::{Output, Table, list, text};
use crate::convert::rule_draft::{RuleDraft, Tests};

/// Where the responses of a location come from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Backend {
    Servers(Servers),
    Files(Directory),
    /// Nothing, or rules alone.
    None,
}

impl Backend {
    /// Returns whether a site can have it.
    fn is_of_site(&self) -> bool {
        match self {
            Backend::Servers(servers) => servers.named.is_none() && servers.choices.is_empty(),
            Backend::Files(_) => true,
            Backend::None => false,
        }
    }
}

/// Returns whether requests name the servers of a location.
fn names_servers(block: &[Directive]) -> bool {
    let mut is_named = false;
    walk(block, &mut |one| {
        let server = one.arg(0).split_once("://").map_or("", |(_, rest)| rest);
        let server = server.split('/').next().unwrap_or_default();
        let server = server.trim_end_matches("$request_uri");
        is_named |= one.name == "proxy_pass" && server.contains('$');
    });
    is_named
}

/// The sites written so far: which server's backend answers for a host.
#[derive(Default)]
struct Sites {
    /// By host; the empty name is that of all other hosts.
    backends: BTreeMap<String, Backend>,
    /// Names of sites, by host.
    names: BTreeMap<String, String>,
    /// Settings in `[upstream]`.
    general: BTreeMap<&'static str, String>,
}

/// Writes sites and rules of all servers.
pub fn write(servers: &[Server<'_>], http: &Http<'_>, out: &mut Output) {
    let mut sites = Sites::default();
    let mains: Vec<Backend> = servers.iter().map(|server| main(server, http, out)).collect();
    let mut order: Vec<usize> = (0..servers.len()).collect();
    // Of two servers for a host, that with TLS has the content as a rule.
    order.sort_by_key(|at| {
        let server = &servers[*at];
        let is_files = matches!(mains[*at], Backend::Files(_));
        // Sites differ from what the default server says for all. Rules can have a directory at a
        // site with origin servers, such as that of a server for certificates alone.
        let is_none = mains[*at] == Backend::None;
        (is_none, !server.is_default, server.is_local(), is_files, !server.https)
    });
    for at in order {
        let scope = http.scope.inner(servers[at].block());
        if !site(&servers[at], &mains[at], &scope, &mut sites, out) {
            access_log::lose(&scope, out);
        }
    }
    if out.get("reverse").is_none() && out.get("static").is_none() && sites.backends.is_empty() {
        let at = &servers[0].directive.at;
        if !servers.iter().any(|server| names_servers(server.block())) {
            out.lose(at, "server", "no origin server: reverse names one that does not exist");
        }
        out.set("reverse", text("http://127.0.0.1:9"));
    }
    servers.iter().for_each(|server| hosts::close_lost(server, servers, &http.scope, out));
    for server in servers {
        account(server.block(), out);
        if !server.is_default && server.hosts().next().is_none() {
            let reason = "no request reaches it: it has no host, and is not the default";
            server.lose("server", reason, out);
            continue;
        }
        hosts::close_ports(server, servers, out);
        for when in hosts::parts(server, servers) {
            rules((server, servers), &when, http, &sites, out);
        }
    }
}

/// Returns where the responses for `/` come from. Where a directory and an application share paths
/// that sites cannot tell apart, it is the application, and rules have the directory.
fn main(server: &Server<'_>, http: &Http<'_>, out: &mut Output) -> Backend {
    let scope = http.scope.inner(server.block());
    if server.block().iter().any(|one| one.name == "return") {
        return Backend::None;
    }
    let (locations, _) = matching::ordered(server.block());
    let passed: Vec<(&Location<'_>, Scope<'_>)> =
        locations.iter().filter_map(|one| Some((one, tries::passed(one, &scope)?))).collect();
    let is_root = |one: &Location<'_>| one.kind != Kind::Regex && one.path == "/";
    let root = locations.iter().find(|one| is_root(one));
    let is_site = |(one, _): &(&Location<'_>, Scope<'_>)| {
        let is_own = one.directive.inner().iter().any(|own| own.name == "proxy_pass");
        one.is_whole_path(&locations) && !server.names.is_empty() && is_own
    };
    let of_root = passed.iter().find(|(one, _)| is_root(one));
    let found = match (of_root, root) {
        (Some((_, root)), _) => Some(of_location(root, http, out)),
        (None, Some(root)) if passed.iter().all(is_site) => {
            Some(of_location(&root.scope(&scope), http, &mut Output::default()))
        }
        _ => None,
    };
    let found = found.filter(Backend::is_of_site);
    let any = || {
        let all: Vec<Backend> =
            passed.iter().map(|(_, scope)| of_location(scope, http, out)).collect();
        let is_any = !all.is_empty();
        is_any.then(|| all.into_iter().rfind(Backend::is_of_site).unwrap_or(Backend::None))
    };
    found.or_else(any).unwrap_or_else(|| match scope.get("root") {
        Some(_) => {
            backend::directory(&scope, &mut Output::default()).map_or(Backend::None, Backend::Files)
        }
        None => Backend::None,
    })
}

fn of_location(scope: &Scope<'_>, http: &Http<'_>, out: &mut Output) -> Backend {
    if let Some(pass) = scope.own("proxy_pass") {
        let servers = backend::servers(pass, scope, &http.upstreams, out);
        return servers.map_or(Backend::None, Backend::Servers);
    }
    if scope.own("return").is_some() {
        return Backend::None;
    }
    backend::directory(scope, out).map_or(Backend::None, Backend::Files)
}

/// Returns the backend of a location at a server that also has applications. Names to try and error
/// pages are keys of its rule there, not of the directory.
fn of_location_beside(scope: &Scope<'_>, http: &Http<'_>, out: &mut Output) -> Backend {
    if scope.own("proxy_pass").is_some() || scope.own("return").is_some() {
        return of_location(scope, http, out);
    }
    backend::bare_directory(scope, out).map_or(Backend::None, Backend::Files)
}

/// Writes the site of a server; returns whether there is one.
fn site(
    server: &Server<'_>,
    main: &Backend,
    scope: &Scope<'_>,
    sites: &mut Sites,
    out: &mut Output,
) -> bool {
    let odd = server.odd.iter().filter(|_| !server.is_default);
    odd.for_each(|(name, why)| server.lose(&format!("server_name {name}"), why, out));
    // Hosts below a domain have no site of their own. The rules of the default server answer for
    // all hosts that no server names.
    let is_for_all = server.is_default || !server.below.is_empty();
    if is_for_all && !sites.backends.contains_key("") && *main != Backend::None {
        match main {
            Backend::Servers(servers) => {
                out.set("reverse", list(&servers.all));
                for (key, value) in &servers.options {
                    out.set(&format!("upstream.{key}"), value.clone());
                    sites.general.insert(key, value.clone());
                }
            }
            Backend::Files(files) => {
                out.set("static", text(&files.root));
                for (key, value) in &files.options {
                    out.set(&format!("files.{key}"), value.clone());
                }
            }
            Backend::None => {}
        }
        out.settle();
        access_log::of_default(scope, server.block(), out);
        sites.backends.insert(String::new(), main.clone());
        return true;
    }
    if server.is_default && (*main != Backend::None || sites.backends.contains_key("")) {
        return false;
    }
    let hosts: Vec<String> =
        server.names.iter().filter(|name| !sites.backends.contains_key(*name)).cloned().collect();
    if hosts.is_empty() {
        return false;
    }
    let mut table = Table::new("site");
    let name = out.unique("site", &hosts[0]);
    table.set("name", text(&name));
    table.set("hosts", list(&hosts));
    match main {
        Backend::Servers(servers) => table_of(servers, &hosts, sites, &mut table),
        Backend::Files(files) => {
            table.set("root", text(&files.root));
            files.options.iter().for_each(|(key, value)| table.set(key, value.clone()));
        }
        Backend::None => {
            // Its rules answer; a site must have an origin server all the same.
            if sites.backends.contains_key("") {
                return false;
            }
            table.comments.push("rules answer all requests for this site".to_owned());
            table.set("upstream", list(&["http://127.0.0.1:9"]));
        }
    }
    for host in hosts {
        sites.names.insert(host.clone(), name.clone());
        sites.backends.insert(host, main.clone());
    }
    access_log::of_site(scope, server.block(), &mut table, out);
    out.push(table);
    true
}

fn table_of(servers: &Servers, hosts: &[String], sites: &Sites, table: &mut Table) {
    table.set("upstream", list(&servers.all));
    if hosts.len() > 1 {
        table.set("key-host", text("client"));
    }
    for (key, default) in DEFAULTS {
        match servers.options.get(key) {
            Some(value) => table.set(key, value.clone()),
            // `[upstream]` has the default server's.
            None if sites.general.contains_key(key) => table.set(key, (*default).to_owned()),
            None => {}
        }
    }
}

/// Writes the rules of a server, or of a part of its requests.
fn rules(
    (server, servers): (&Server<'_>, &[Server<'_>]),
    when: &Tests,
    http: &Http<'_>,
    sites: &Sites,
    out: &mut Output,
) {
    let scope = http.scope.inner(server.block());
    let mut variables = http.variables.clone();
    replies::collect(server.block(), &mut variables);
    let name = server.called();
    hosts::ask_certificates(server, &scope, when, out);
    let site = sites
        .backends
        .get(server.names.first().map_or("", String::as_str))
        .or_else(|| sites.backends.get(""))
        .unwrap_or(&Backend::None);
    let first = server.names.first().and_then(|name| sites.names.get(name));
    let site_name = first.map_or("default", String::as_str);
    let refused = &Cell::new(0);
    let (locations, lost) = matching::ordered(server.block());
    let restrictions = &Restrictions::new(&locations, &scope);
    let inner = LocationOf {
        server,
        http,
        site,
        site_name,
        server_when: when,
        name,
        servers,
        restrictions,
        refused,
    };
    let enter = |one: &Directive, draft: &RuleDraft, out: &mut Output| {
        inner.enter((&scope, true), one, draft, out)
    };
    let place = Place {
        when,
        any: &[],
        name,
        server_name: name,
        scope: &scope,
        variables: &variables,
        is_server: true,
        enter: Some(&enter),
    };
    if replies::write(&place, out) {
        return;
    }
    let mut reached: Vec<&String> = (locations.iter())
        .map(|one| one.scope(&scope))
        .filter(|inner| tries::behind(inner, &scope).is_some())
        .filter_map(|inner| inner.own("try_files")?.args.last())
        .collect();
    walk(server.block(), &mut |one| {
        let is_reached = responses::follows(&scope, one) || responses::has_text(&scope, one);
        reached.extend(one.args.last().filter(|_| is_reached));
    });
    for (one, why) in lost.into_iter().filter(|(one, _)| !reached.contains(&&one.args[0])) {
        out.lose(&one.at, &format!("location {}", one.args.join(" ")), why);
    }
    slashes::redirect(&locations, &place, out);
    for one in &locations {
        inner.write(one, &scope, &variables, out);
    }
    if !locations.iter().any(|one| one.kind == Kind::Prefix && one.path == "/") {
        inner.rest(&Place { is_server: false, ..place }, out);
    }
}

/// Adds the keys that any location may have.
fn common(scope: &Scope<'_>, http: &Http<'_>, rule: &mut RuleDraft) {
    if http.compresses && !scope.is_on("gzip") && !scope.is_on("brotli") {
        rule.set("compress", "[]");
    }
    if scope.arg("access_log") == Some("off") {
        rule.set("log-percent", "0");
    }
}

/// Writes the rules of a location.
pub struct LocationOf<'a, 'b> {
    pub server: &'b Server<'a>,
    pub http: &'b Http<'a>,
    /// Source of responses without a rule.
    site: &'b Backend,
    site_name: &'b str,
    server_when: &'b Tests,
    pub name: &'b str,
    /// All servers.
    servers: &'b [Server<'a>],
    pub restrictions: &'b Restrictions<'a>,
    /// Number of the locations whose other spellings are refused.
    refused: &'b Cell<usize>,
}

impl<'a> LocationOf<'a, '_> {
    fn write(
        &self,
        one: &Location<'a>,
        scope: &Scope<'a>,
        variables: &Variables,
        out: &mut Output,
    ) {
        let location = one.scope(scope);
        account(location.block(), out);
        let when = match self.server_when.and(&one.when) {
            Some(when) => when,
            None => return out.lose(&one.directive.at, "location", "too many conditions"),
        };
        let name = format!("{} {}", self.name, one.directive.args.join(" "));
        let behind = tries::stated_behind(&location, scope, out);
        let passed = behind.as_ref().map(|behind| &behind.scope);
        for scope in [Some(&location), passed].into_iter().flatten() {
            let mut variables = variables.clone();
            replies::collect(scope.block(), &mut variables);
            let enter = |one: &Directive, draft: &RuleDraft, out: &mut Output| {
                self.enter((scope, false), one, draft, out)
            };
            let place = Place {
                when: &when,
                any: &one.any,
                name: &name,
                server_name: self.name,
                scope,
                variables: &variables,
                is_server: false,
                enter: Some(&enter),
            };
            let is_behind = !std::ptr::eq(scope, &location);
            if self.guarded(one, &place, is_behind, out) {
                return;
            }
            if is_behind || passed.is_none() {
                self.answered(one, &place, (behind.as_ref(), &location), None, out);
            }
        }
    }

    /// Writes the rules that come before the response of a location, or of the one behind its
    /// files. Returns whether they answer all requests.
    fn guarded(
        &self,
        one: &Location<'a>,
        place: &Place<'_, '_>,
        is_behind: bool,
        out: &mut Output,
    ) -> bool {
        // Clients reach a location behind files by them alone.
        if !is_behind && self.refused(one, place, out) {
            return true;
        }
        if is_behind {
            account(place.scope.block(), out);
        }
        let server = self.http.scope.inner(self.server.block());
        let before = is_behind.then(|| one.scope(&server));
        self.checked(place, before.as_ref(), out)
    }

    /// Writes the rules that come before the response, for requests that clients may make. `before`
    /// is the location whose files come first. Returns whether they answer all requests.
    pub fn checked(
        &self,
        place: &Place<'_, '_>,
        before: Option<&Scope<'a>>,
        out: &mut Output,
    ) -> bool {
        // nginx rewrites and returns before it checks access.
        if replies::write(place, out) {
            return true;
        }
        // The location before has the server's access control, unless it replaces that.
        let own = Scope::default().inner(place.scope.block());
        let inner = Place { scope: if before.is_some() { &own } else { place.scope }, ..*place };
        limits::write(place, before, &self.http.zones, out);
        if replies::access(&inner, out) {
            return true;
        }
        for limit in place.scope.block().iter().filter(|inner| inner.name == "limit_except") {
            replies::except(limit, place, out);
        }
        if let Some(program) = APPLICATIONS.iter().find_map(|name| place.scope.own(name)) {
            replies::unserved(program, place, out);
            return true;
        }
        false
    }

    /// Writes the rule of a location: that of the application behind its files, if there is one.
    pub fn answered(
        &self,
        one: &Location<'a>,
        place: &Place<'_, '_>,
        (behind, location): (Option<&Behind<'a>>, &Scope<'a>),
        rewritten: Option<&RuleDraft>,
        out: &mut Output,
    ) {
        let scope = place.scope;
        let new = || RuleDraft::new(place.name, place.when);
        let mut rule = rewritten.cloned().unwrap_or_else(new);
        rule.any.clone_from(&one.any);
        common(scope, self.http, &mut rule);
        let backend = match self.site {
            Backend::Files(_) => of_location(scope, self.http, out),
            _ if self.is_site(one) => of_location(scope, self.http, out),
            _ => of_location_beside(scope, self.http, out),
        };
        match &backend {
            Backend::Servers(servers) if !servers.choices.is_empty() => {
                self.chosen(one, servers, place, &rule, out);
                rule.set("respond", text("502 Bad Gateway"));
                location::response_fields(scope, Source::Rule(502), self.name, &mut rule, out);
            }
            Backend::Servers(servers) => {
                self.proxied(one, servers, place, &mut rule, out);
                if let Some(behind) = behind
                    && !rule.has("respond")
                {
                    self.files_before(one, (behind, location), &mut rule, out);
                }
                let named = servers.named.as_ref();
                named_backend::otherwise((one, named), &self.server.host_list(), &mut rule, out);
            }
            Backend::Files(files) => self.files(one, files, place, &mut rule, out),
            Backend::None => {
                let at = &one.directive.at;
                match own_directory::is_all(one, scope) {
                    true => out.note(at, place.name, own_directory::REASON),
                    false => out.lose(at, place.name, "nothing answers it: 404"),
                }
                rule.set("respond", text("404 Not Found"));
                location::response_fields(scope, Source::Rule(404), self.name, &mut rule, out);
            }
        }
        if rule.has("try-root") || matches!(backend, Backend::Files(_)) {
            self.refuse_spellings(one, out);
        }
        // The last location of a server needs no rule to end the search.
        if !(rule.is_empty() && one.kind == Kind::Prefix && one.path == "/") {
            rule.push(out);
        }
        self.keep_password(one, place, out);
    }

    /// Writes the rules of a location whose servers a variable chooses.
    fn chosen(
        &self,
        one: &Location<'a>,
        servers: &Servers,
        place: &Place<'_, '_>,
        rule: &RuleDraft,
        out: &mut Output,
    ) {
        for (class, servers) in &servers.choices {
            let Some(when) = place.when.and(&Tests::one("classes", class.as_str())) else {
                out.lose(&one.directive.at, "proxy_pass", "too many classes: answered with 502");
                return;
            };
            let mut rule = rule.clone();
            rule.name = format!("{} {class}", place.name);
            rule.when = when;
            let (when, name) = (rule.when.clone(), rule.name.clone());
            let place = Place { when: &when, name: &name, ..*place };
            self.proxied(one, servers, &place, &mut rule, out);
            rule.push(out);
        }
    }

    /// Refuses spellings of the paths of the locations before this one, unless an earlier one has.
    fn refuse_spellings(&self, one: &Location<'_>, out: &mut Output) {
        let scope = self.http.scope.inner(self.server.block());
        let (locations, _) = matching::ordered(self.server.block());
        let is_here = |other: &Location<'_>| std::ptr::eq(other.directive, one.directive);
        let end = locations.iter().position(is_here).unwrap_or(locations.len());
        let begin = self.refused.replace(end).min(end);
        let server = (self.name, self.server_when);
        spellings::refuse((&locations[begin..end], self.restrictions), &scope, server, out);
    }

    /// Writes the rule for requests that no location matches.
    fn rest(&self, place: &Place<'a, '_>, out: &mut Output) {
        limits::write(place, None, &self.http.zones, out);
        if replies::access(place, out) {
            return;
        }
        let (scope, name) = (place.scope, format!("{} rest", self.name));
        let place = Place { name: &name, ..*place };
        if scope.get("root").is_some() && !matches!(self.site, Backend::Files(_)) {
            let behind = tries::stated_behind(scope, scope, out);
            let behind_scope = behind.as_ref().map_or(scope, |behind| &behind.scope);
            let inner = Place { scope: behind_scope, ..place };
            let one = Location::of_server(self.server.directive);
            if behind.is_some() && self.guarded(&one, &inner, true, out) {
                return;
            }
            return self.answered(&one, &inner, (behind.as_ref(), scope), None, out);
        }
        let mut rule = RuleDraft::new(&name, place.when);
        match self.site {
            Backend::Files(_) => {
                self.refuse_spellings(&Location::of_server(self.server.directive), out);
                location::response_fields(scope, Source::Files, self.name, &mut rule, out);
                common(scope, self.http, &mut rule);
            }
            // nginx looks for a file below its own root.
            _ => rule.set("respond", text("404 Not Found")),
        }
        if !rule.is_empty() {
            rule.push(out);
        }
    }

    /// Returns whether a directory at the path of a location can be a site beside the server's.
    fn is_site(&self, one: &Location<'_>) -> bool {
        let (locations, _) = matching::ordered(self.server.block());
        // Elsewhere rules can have the directory, at the listeners of this server alone.
        let is_alone = matches!(self.site, Backend::Files(_))
            || !hosts::shares_path(self.server, self.servers, &one.path);
        is_alone && one.is_whole_path(&locations) && !self.server.names.is_empty()
    }

    /// Refuses the requests of a location that no client may reach, or that cannot be stated.
    fn refused(&self, one: &Location<'_>, place: &Place<'_, '_>, out: &mut Output) -> bool {
        if one.is_wider {
            let reason = "the expression is not supported: answered with 501, and perhaps more";
            out.lose(&one.directive.at, &format!("location {}", one.path), reason);
            replies::refuse(place, "501 Not converted: location", out);
            return true;
        }
        let Some(internal) = place.scope.get("internal") else { return false };
        if self.sends_files() {
            let reason = "the application is not told to use X-Accel-Redirect";
            out.note(&internal.at, "internal", reason);
        } else if !self.is_error_page(&one.path) {
            out.lose_once(&internal.at, "internal", "X-Accel-Redirect is not followed");
        }
        replies::refuse(place, "404 Not Found", out);
        true
    }

    /// Returns whether the application uses `X-Accel-Redirect` if requests say so.
    fn sends_files(&self) -> bool {
        let mut is_told = false;
        walk(self.server.block(), &mut |one| {
            let field = one.arg(0).to_ascii_lowercase();
            is_told |= one.name == "proxy_set_header" && field == "x-sendfile-type";
        });
        is_told
    }

    /// Returns whether a path is that of an error page of the server.
    fn is_error_page(&self, path: &str) -> bool {
        let mut pages = Vec::new();
        walk(self.server.block(), &mut |one| {
            pages.extend((one.name == "error_page").then_some(one))
        });
        pages.iter().any(|page| page.args.last().is_some_and(|target| target.starts_with(path)))
    }

    fn proxied(
        &self,
        one: &Location<'_>,
        servers: &Servers,
        place: &Place<'_, '_>,
        rule: &mut RuleDraft,
        out: &mut Output,
    ) {
        let scope = place.scope;
        location::body(scope, rule);
        self.upstream(one, servers, rule, out);
        self.next_upstream(servers, rule, out);
        location::timeouts(scope, rule, out);
        if let Some(path) = &servers.path {
            target_path::replace(one, path, rule, out);
        }
        if let Some(path) = &servers.whole_path {
            target_path::send(one, path, self.name, rule, out);
        }
        location::request_fields(scope, servers, self.name, rule, out);
        let is_rewritten = servers.path.as_ref().is_some_and(|path| *path != one.path);
        // By default nginx changes URLs with the name of the server, which it has not sent.
        if rule.has("set-host") || is_rewritten || scope.get("proxy_redirect").is_some() {
            let path = (one.kind == Kind::Prefix).then_some(one.path.as_str());
            responses::redirects(scope, path, (self.name, one.directive), rule, out);
        }
        responses::pages(scope, rule, out);
        responses::texts(scope, self.name, rule, out);
        if let Some(tries) = scope.own("try_files") {
            out.lose(&tries.at, "try_files", "a proxied path is not looked for in a directory");
        }
        let zone = scope.arg("proxy_cache").filter(|zone| *zone != "off");
        let store = scope.get("proxy_store").filter(|store| store.arg(0) != "off");
        let kept = store.filter(|store| store.arg(0) == "on" && self.is_named(scope));
        let is_stored = zone.is_some() || kept.is_some();
        let source = if is_stored { Source::Stored } else { Source::Passed };
        if let Some(store) = store.filter(|_| kept.is_none() || zone.is_some()) {
            out.lose(&store.at, "proxy_store", "what is fetched is stored in the cache only");
        }
        match (zone, kept) {
            (None, Some(store)) => location::kept(store, rule, out),
            (Some(zone), _) => {
                let inactive = self.http.inactive.get(zone).map_or("10m", String::as_str);
                location::caching(scope, inactive, rule, out);
                location::bypasses(place, &rule.name, out);
            }
            (None, None) => self.pass(one, place, rule, out),
        }
        if !replies::fields_outside_ifs(place, source, rule, out) {
            location::response_fields(scope, source, self.name, rule, out);
        }
    }

    /// Lets requests pass the cache. A rule with `bypass` would be for spellings of the paths of
    /// later locations, too; where one of these refuses requests, it is a rule that continues.
    fn pass(
        &self,
        one: &Location<'_>,
        place: &Place<'_, '_>,
        rule: &mut RuleDraft,
        out: &mut Output,
    ) {
        if !self.restrictions.are_later(one) {
            return rule.set("bypass", "true");
        }
        let mut passes = place.rule("passes");
        passes.continues = true;
        passes.set("bypass", "true");
        passes.push(out);
    }

    /// Refuses spellings of the paths of a location with another password than a later one has,
    /// which would be asked for in its place.
    fn keep_password(&self, one: &Location<'_>, place: &Place<'_, '_>, out: &mut Output) {
        if self.restrictions.has_other_password(one) && !one.when.0.is_empty() {
            spellings::refuse_rest(self.name, place.when, place.any, out);
        }
    }

    /// Returns whether a scope is that of a named location, which gets what no file is for.
    fn is_named(&self, scope: &Scope<'_>) -> bool {
        self.server
            .block()
            .iter()
            .any(|one| one.arg(0).starts_with('@') && std::ptr::eq(one.inner(), scope.block()))
    }

    /// Names the servers, unless they are those of the site.
    fn upstream(
        &self,
        one: &Location<'_>,
        servers: &Servers,
        rule: &mut RuleDraft,
        out: &mut Output,
    ) {
        let named = servers.named.as_ref();
        match self.site {
            Backend::Servers(site) if named.is_none() && site.all == servers.all => {}
            Backend::Files(_) => self.beside_files(one, servers, rule, out),
            Backend::Servers(_) | Backend::None => {
                match named {
                    Some(named) => {
                        let hosts = self.server.host_list();
                        if self.server.is_default && !hosts.is_empty() {
                            let reason = "hosts that neither server_name nor a map lists get 403";
                            out.note(&one.directive.at, "proxy_pass", reason);
                        }
                        named_backend::name_server(named, one, &hosts, rule, out);
                        let keys: Vec<&str> =
                            server_group::own_options(servers, out).into_keys().collect();
                        if !keys.is_empty() {
                            let reason = "a server that requests name has those of [upstream]";
                            out.lose(&one.directive.at, &keys.join(", "), reason);
                        }
                    }
                    None => rule.set("upstream", list(&server_group::of(servers, out))),
                }
                rule.when.add("sites", [self.site_name.to_owned()]);
            }
        }
    }

    /// Adds the files that come before an application.
    fn files_before(
        &self,
        one: &Location<'_>,
        (behind, location): (&Behind<'_>, &Scope<'_>),
        rule: &mut RuleDraft,
        out: &mut Output,
    ) {
        let Some(root) = location.arg("root") else {
            return out.note(&one.directive.at, "try_files", own_directory::REASON);
        };
        if rule.has("bypass") && one.when.get("not-paths").is_some() {
            let reason = "other spellings of longer paths would get files: answered with 501";
            out.lose(&one.directive.at, "try_files", reason);
            return rule.set("respond", text("501 Not converted: try_files"));
        }
        self.try_root(root, rule, out);
        behind.add_files(location, rule, out);
    }

    /// Names the directory whose files come before the application.
    fn try_root(&self, root: &str, rule: &mut RuleDraft, out: &mut Output) {
        rule.set("try-root", text(root));
        if rule.when.get("sites").is_none() {
            rule.when.add("sites", [self.site_name.to_owned()]);
        }
        // nginx serves these.
        out.set("files.dotfiles", "true".to_owned());
        out.set("files.symlinks", text("anywhere"));
    }

    /// Names the failures that lead to the next server, unless they are those of the site.
    fn next_upstream(&self, servers: &Servers, rule: &mut RuleDraft, out: &Output) {
        let of = |servers: &Servers| servers.options.get(NEXT).cloned();
        let inherited = match self.site {
            Backend::Files(_) => return,
            Backend::Servers(site) if !rule.has("upstream") => of(site),
            Backend::Servers(_) | Backend::None => out.get(&format!("upstream.{NEXT}")).cloned(),
        };
        let default = DEFAULTS.iter().find(|(key, _)| *key == NEXT).map(|(_, value)| *value);
        let wanted = of(servers).or(default.map(str::to_owned));
        if servers.all.len() > 1
            && wanted != inherited.or(default.map(str::to_owned))
            && let Some(wanted) = wanted
        {
            rule.set(NEXT, wanted);
        }
    }

    /// Writes a site for a proxied path of a host whose other paths are files.
    fn beside_files(
        &self,
        one: &Location<'_>,
        servers: &Servers,
        rule: &mut RuleDraft,
        out: &mut Output,
    ) {
        if !self.is_site(one) || servers.named.is_some() {
            let reason = "beside files, only a path that ends in / can have origin servers, at a \
                          server with a name: answered with 501";
            out.lose(&one.directive.at, "proxy_pass", reason);
            return rule.set("respond", text("501 Not converted: proxy_pass"));
        }
        let mut table = Table::new("site");
        table.set("hosts", list(&self.server.names));
        table.set("paths", list(&[&one.path]));
        table.set("upstream", list(&servers.all));
        servers.options.iter().for_each(|(key, value)| table.set(key, value.clone()));
        self.push_site(one, table, out);
    }

    /// Adds the site of a path, unless another part of the server's requests has added it.
    fn push_site(&self, one: &Location<'_>, mut table: Table, out: &mut Output) {
        if out.known(&table).is_none() {
            let name = out.unique("site", &format!("{} {}", self.name, one.path));
            table.keys.insert(0, ("name".to_owned(), text(&name)));
            out.push(table);
        }
    }

    /// Names the directory that answers a location of a server whose site has origin servers.
    fn files_alone(
        &self,
        one: &Location<'_>,
        files: &Directory,
        place: &Place<'_, '_>,
        rule: &mut RuleDraft,
        out: &mut Output,
    ) {
        let (scope, mut root) = (place.scope, files.root.clone());
        if !tries::add_names(scope, one, &mut root, rule, out) {
            return self.no_directory(one, rule, out);
        }
        self.try_root(&root, rule, out);
        rule.set("try-root-only", "true");
        // A rule with bypass matches if any reading does, which `not-paths` cannot exclude.
        if one.when.get("not-paths").is_none() {
            self.pass(one, place, rule, out);
        }
        if files.options.contains_key("listing") {
            out.lose(&one.directive.at, "autoindex", "not beside origin servers");
        }
        responses::pages(scope, rule, out);
    }

    fn no_directory(&self, one: &Location<'_>, rule: &mut RuleDraft, out: &mut Output) {
        let reason = "a directory, or its settings, can be chosen only by a path that ends in / at \
                      a server with a name: answered with 501";
        out.lose(&one.directive.at, "root", reason);
        rule.set("respond", text("501 Not converted: root"));
    }

    fn files(
        &self,
        one: &Location<'_>,
        files: &Directory,
        place: &Place<'_, '_>,
        rule: &mut RuleDraft,
        out: &mut Output,
    ) {
        let is_main = matches!(self.site, Backend::Files(site) if site.serves_as(files));
        if is_main {
            // The site's own directory.
        } else if self.is_site(one) {
            let mut table = Table::new("site");
            table.set("hosts", list(&self.server.names));
            table.set("paths", list(&[&one.path]));
            let root = match (files.strips, files.root.strip_suffix('/')) {
                (true, Some(root)) => root,
                _ => &files.root,
            };
            table.set("root", text(root));
            if files.strips {
                table.set("strip-prefix", "true".to_owned());
            }
            files.options.iter().for_each(|(key, value)| table.set(key, value.clone()));
            self.push_site(one, table, out);
        } else if !matches!(self.site, Backend::Files(_)) {
            self.files_alone(one, files, place, rule, out);
        } else {
            self.no_directory(one, rule, out);
        }
        location::response_fields(place.scope, Source::Files, self.name, rule, out);
    }
}
