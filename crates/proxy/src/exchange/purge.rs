//! Carries purges out, for the admin interface and for clients with the method `PURGE`.
//!
//! A URL is removed for good by its key, under every front and every name of its site, and the
//! result says whether it was there. Every other purge, and that of a URL that is only to be
//! outdated, is one entry in the store for each name, which concerns whatever is stored or is being
//! fetched.

use std::rc::Rc;

use http::{HeaderMap, Response, StatusCode};
use net::address;
use net::address::bare;
use semantics::{TagFields, Url};
use store::{Key, Mode, Target};

use crate::fleet_control::spreading::{note_own, spread};
use crate::object::purge_labels;
use crate::object::store::Store;
use crate::observe::outcome::{Denied, Outcome};
use crate::options::Options;
use crate::origin::site::{Front, Site};
use crate::request::context::RequestContext;
use crate::request::purge_order::{Purge, PurgeResult, Purged, Scope};
use crate::response::error_response;
use crate::response::response_body::ResponseBody;
use crate::response::transaction::Transaction;
use crate::rules::aliases::Aliases;
use crate::services::Services;

/// The method that removes what is stored. It is not in RFC 9110.
pub(crate) const METHOD: &str = "PURGE";
/// Fields that ask for a soft purge, with any value but `0`.
const SOFT: [&str; 2] = ["soft-purge", "fastly-soft-purge"];

/// Carries out a purge, in a fleet at all of its nodes.
pub(crate) async fn purge(
    services: &Rc<Services>,
    options: &Options,
    purge: &Purge,
) -> PurgeResult {
    let node = services.shared.node.as_ref();
    let purging = node.map(|node| node.offering.begin_purge());
    let under_way = node.map(|node| node.purges().begin_own());
    let purged = match node.is_some_and(|node| node.leaves_others()) {
        true => Purged::NotDurable("this node leaves the fleet: purge at another one".to_owned()),
        false => purge_here(services, options, purge).await,
    };
    let is_done = matches!(purged, Purged::Found { .. } | Purged::Nothing(_) | Purged::InForce);
    let spread = match &services.shared.node {
        Some(node) if is_done => {
            note_own(services, node);
            drop((under_way, purging));
            Some(spread(services, node).await)
        }
        _ => None,
    };
    PurgeResult { purged, spread }
}

async fn purge_here(services: &Services, options: &Options, purge: &Purge) -> Purged {
    if services.awaits_store() {
        let text = "the process before holds the cache; ask again in a moment";
        return Purged::NotDurable(text.to_owned());
    }
    let Some(store) = &services.store() else {
        let text = match services.shared.node {
            Some(_) => "there is no cache at this node of the fleet; send it to one that has one",
            None => "there is no cache",
        };
        return Purged::NotOurs(text.to_owned());
    };
    let mode = if purge.soft { Mode::Soft } else { Mode::Hard };
    let normal = |uri| Url::from_uri(uri).map_err(|error| Purged::NotOurs(error.to_string()));
    match &purge.scope {
        Scope::Url(uri) => match normal(uri) {
            Ok(url) => purge_url(store, options, &url, mode).await,
            Err(wrong) => wrong,
        },
        Scope::Prefix(uri) => match normal(uri) {
            Ok(url) => {
                let begins = options.front.urls(&url);
                let targets: Vec<_> = begins.iter().map(purge_labels::of_prefix).collect();
                in_force(store, &targets, mode).await
            }
            Err(wrong) => wrong,
        },
        Scope::Host(host) => {
            let hosts = options.front.hosts(host.as_str());
            let targets: Vec<_> = hosts.iter().map(|host| purge_labels::of_host(host)).collect();
            in_force(store, &targets, mode).await
        }
        Scope::Tags(tags) => {
            let targets: Vec<_> = tags.iter().map(|tag| purge_labels::of_tag(tag)).collect();
            in_force(store, &targets, mode).await
        }
        Scope::Everything => in_force(store, &[Target::Everything], mode).await,
    }
}

async fn in_force(store: &Store, targets: &[Target<'_>], mode: Mode) -> Purged {
    match store.purge_all(targets, mode).await {
        Ok(()) => Purged::InForce,
        Err(refusal) => Purged::NotDurable(refusal.to_string()),
    }
}

/// A name and key that a URL may be stored under.
struct Name<'a> {
    front: &'a str,
    url: Url,
    key: Key,
}

/// Returns every front, scheme, alias and name by a rule under which an object of `url` may be
/// stored; `None` when one is longer than any key.
fn all_names<'a>(options: &'a Options, url: &Url) -> Option<Vec<Name<'a>>> {
    let mut all: Vec<Name<'a>> = Vec::new();
    for site in options.front.sites() {
        let authorities = site.aliases().authorities(url);
        let schemed = ["http", "https"].into_iter().flat_map(|scheme| {
            authorities.iter().map(move |authority| (scheme, authority.as_str()))
        });
        for (scheme, authority) in schemed {
            let Ok(url) = Url::new(scheme, authority, url.sent()) else { continue };
            let spellings = url.spellings();
            for url in spellings.iter().flat_map(|url| options.rules.names(site.name(), url)) {
                let (key, front) = (site.key(&url)?, site.name().unwrap_or("forward"));
                // Equal names of one object are counted once.
                if !all.iter().any(|known| known.front == front && known.url == url) {
                    all.push(Name { front, url, key });
                }
            }
        }
    }
    Some(all)
}

/// Purges a URL under every front, scheme and name.
async fn purge_url(store: &Store, options: &Options, url: &Url, mode: Mode) -> Purged {
    let Some(names) = all_names(options, url) else {
        return Purged::NotOurs("the URL is longer than any that is stored".to_owned());
    };
    let there = match mode {
        Mode::Hard => {
            let keys: Vec<Key> = names.iter().map(|name| name.key.clone()).collect();
            store.purge_keys(&keys).await
        }
        Mode::Soft => {
            let there: Vec<bool> = names.iter().map(|name| store.knows(&name.key)).collect();
            let targets = soft_targets(options, url, &names, &there);
            let targets: Vec<Target<'_>> = targets.iter().map(purge_labels::of_url).collect();
            store.purge_all(&targets, mode).await.map(|()| there)
        }
    };
    let there = match there {
        Ok(there) => there,
        Err(refusal) => return Purged::NotDurable(refusal.to_string()),
    };
    let found = names.iter().zip(there).filter(|(_, there)| *there);
    let mut fronts: Vec<String> = found.map(|(name, _)| name.front.to_owned()).collect();
    let objects = fronts.len();
    fronts.sort_unstable();
    fronts.dedup();
    match objects {
        0 => Purged::Nothing(hint(store, options, url)),
        _ => Purged::Found { fronts, objects },
    }
}

/// Returns the names to enter for a soft purge of `url`: those in use, under which it may be on its
/// way into the store, and those of `names` that something is stored under.
fn soft_targets(options: &Options, url: &Url, names: &[Name<'_>], there: &[bool]) -> Vec<Url> {
    let in_use = options.front.urls(url);
    let in_use = |name: &Name<'_>| {
        in_use.iter().any(|url| purge_labels::of_url(url) == purge_labels::of_url(&name.url))
    };
    let by_rule = !options.rules.is_empty();
    let mut all: Vec<Url> = Vec::new();
    for (name, there) in names.iter().zip(there) {
        // The scheme is not part of a label.
        let known =
            all.iter().any(|url| purge_labels::of_url(url) == purge_labels::of_url(&name.url));
        if !known && (*there || by_rule || in_use(name)) {
            all.push(name.url.clone());
        }
    }
    all
}

/// Hosts of sites that are tried for a hint.
const HOSTS_TRIED: usize = 16;

/// Returns a sentence on what may have been meant by a URL that nothing is stored for.
fn hint(store: &Store, options: &Options, url: &Url) -> String {
    let is_stored = |text: &String| {
        let names = Url::parse(text).ok().and_then(|url| all_names(options, &url));
        names.is_some_and(|names| names.iter().any(|name| store.knows(&name.key)))
    };
    match near(&options.front, url).into_iter().find(is_stored) {
        Some(other) => format!("{other} is stored: is that one meant?"),
        None => unstored(&options.front, url),
    }
}

/// Returns URLs that are easily confused with `url`: with or without a slash at the end, with or
/// without a query, and on other ports and hosts of its site.
fn near(front: &Front, url: &Url) -> Vec<String> {
    let (text, mut all) = (url.as_str(), Vec::new());
    let (path, query) = text.split_once('?').map_or((text, None), |(path, q)| (path, Some(q)));
    let turned = match path.strip_suffix('/') {
        Some(without) => without.to_owned(),
        None => format!("{path}/"),
    };
    all.push(query.map_or_else(|| turned.clone(), |query| format!("{turned}?{query}")));
    if query.is_some() {
        all.push(path.to_owned());
    }
    for host in front.sites().iter().flat_map(Site::hosts).take(HOSTS_TRIED) {
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        all.push(format!("{}://{host}{}", url.scheme(), url.path_and_query()));
    }
    all
}

/// Returns a sentence on the name that an object of `url` would have.
fn unstored(front: &Front, url: &Url) -> String {
    let host = bare(Aliases::split(url.authority()).0);
    if url.as_str().contains('*') {
        return "a * stands for anything only at the end of a URL".to_owned();
    }
    let Some(site) = front.site_of_url(url) else {
        return match front.is_claimed(host) {
            true => format!("no site with the host {host} is for that path"),
            false => format!("no site has the host {host}"),
        };
    };
    match (site.name(), site.aliases().canonical(0, 0)) {
        (Some(site), Some((name, _))) => {
            format!("host, path and query count, as the site {site} names it: by the host {name}")
        }
        (Some(_), None) => {
            "host, port, path and query count, as the client named them in its request".to_owned()
        }
        (None, _) => "host, port, path and query count, as the client named them".to_owned(),
    }
}

/// Answers a request with the method `PURGE`. Where no address may use it, it is a method like any
/// other.
pub(crate) async fn answer(context: &RequestContext<'_>, transaction: Transaction) -> Answered {
    let options = context.options;
    let from = &options.purging.from;
    if context.parts.method.as_str() != METHOD || from.is_empty() {
        return Answered::NotAPurge(transaction);
    }
    let client = address::canonical(context.client.address.ip());
    if !from.iter().any(|network| network.contains(&client)) {
        let text = "PURGE is not allowed from this address (purge.from).\n";
        let outcome = Outcome::Denied(Denied::Purge);
        let refused = error_response::plain(transaction, StatusCode::FORBIDDEN, outcome, text);
        return Answered::Yes(Box::new(refused));
    }
    let asked = context.url().ok_or_else(|| "the URL's path or host is not valid".to_owned());
    let asked =
        asked.and_then(|url| asked_for(&url, &context.parts.headers, &options.purging.tags));
    let (status, json) = match asked {
        Ok(asked) => Box::pin(purge(context.services, options, &asked)).await.answer(&asked),
        Err(why) => (StatusCode::BAD_REQUEST, serde_json::json!({"error": why})),
    };
    let (kind, body) = ("application/json", format!("{json}\n").into());
    let told = error_response::with_type(transaction, status, Outcome::Purge, kind, body);
    Answered::Yes(Box::new(told))
}

/// The result for a request that may be a purge.
pub(crate) enum Answered {
    Yes(Box<Response<ResponseBody>>),
    NotAPurge(Transaction),
}

/// Reads what a `PURGE` of `url` asks for: with tags among its fields everything that bears one of
/// them, with `*` at the end of the URL everything that begins so, otherwise the URL.
fn asked_for(url: &Url, headers: &HeaderMap, fields: &TagFields) -> Result<Purge, String> {
    let tags = fields.of_headers(headers);
    let given = fields.names().any(|name| headers.contains_key(name));
    let scope = match given {
        true => {
            let text = |tag: &[u8]| String::from_utf8(tag.to_vec());
            let tags: Result<_, _> = tags.into_iter().map(text).collect();
            Scope::tags(tags.map_err(|_| "a tag is not UTF-8".to_owned())?)?
        }
        false => Scope::url_or_prefix(url.as_str())?,
    };
    let on = |name: &&str| headers.get(*name).is_some_and(|value| value != "0");
    Ok(Purge { scope, soft: SOFT.iter().any(on) })
}

/// Removes the fields with tags from an answer to a client.
pub(crate) fn hide_tags(options: &Options, response: &mut Response<ResponseBody>) {
    if options.purging.pass_tags {
        return;
    }
    let headers = response.headers_mut();
    for name in options.purging.tags.names() {
        if headers.contains_key(name) {
            headers.remove(name);
        }
    }
}
