//! Carries purges out, whoever asks: the admin interface, or a client with the method `PURGE`.
//!
//! A URL is removed for good by its key, under every front, which is said to have been there or
//! not. Everything else, and a URL that is only to be outdated, is one entry in the store that
//! concerns whatever is stored or is being fetched.

use http::{HeaderMap, Response, StatusCode};
use semantics::{TagFields, Url};
use store::{Mode, Target};

use crate::account::Account;
use crate::address;
use crate::admin::{Purge, Purged, Scope};
use crate::answer;
use crate::body::AnswerBody;
use crate::cache::{Store, primary_key};
use crate::labels;
use crate::options::{Front, Options};
use crate::outcome::{Denied, Outcome};
use crate::visit::Visit;
use crate::worker::Worker;

/// The method that removes what is stored. Not one of RFC 9110.
pub(crate) const METHOD: &str = "PURGE";
/// Fields that ask for a soft purge, with any value but `0`.
const SOFT: [&str; 2] = ["soft-purge", "fastly-soft-purge"];

/// Does what `purge` asks for.
pub(crate) async fn purge(worker: &Worker, options: &Options, purge: &Purge) -> Purged {
    if worker.awaits_store() {
        let text = "the process before holds the cache; ask again in a moment";
        return Purged::NotDurable(text.to_owned());
    }
    let Some(store) = &worker.store() else {
        return Purged::NotOurs("there is no cache".to_owned());
    };
    let mode = if purge.soft { Mode::Soft } else { Mode::Hard };
    let normal = |uri| Url::from_uri(uri).map_err(|error| Purged::NotOurs(error.to_string()));
    let targets = match &purge.scope {
        Scope::Url(uri) => {
            return match normal(uri) {
                Ok(url) => purge_url(store, options, &url, mode).await,
                Err(wrong) => wrong,
            };
        }
        Scope::Prefix(uri) => match normal(uri) {
            Ok(url) => return in_force(store, &[labels::of_prefix(&url)], mode).await,
            Err(wrong) => return wrong,
        },
        Scope::Host(host) => vec![labels::of_host(host)],
        Scope::Tags(tags) => tags.iter().map(|tag| labels::of_tag(tag)).collect(),
        Scope::Everything => vec![Target::Everything],
    };
    in_force(store, &targets, mode).await
}

async fn in_force(store: &Store, targets: &[Target<'_>], mode: Mode) -> Purged {
    match store.purge_all(targets, mode).await {
        Ok(()) => Purged::InForce,
        Err(refusal) => Purged::NotDurable(refusal.to_string()),
    }
}

/// Purges a URL under every front, scheme, usual spelling and name that a rule gives it: it is gone
/// however it is asked for.
async fn purge_url(store: &Store, options: &Options, url: &Url, mode: Mode) -> Purged {
    let sites: Vec<Option<&str>> = match &options.front {
        Front::Forward => vec![None],
        Front::Reverse(sites) => sites.iter().map(|site| Some(&*site.name)).collect(),
    };
    let (mut fronts, mut names, mut keys) = (Vec::new(), Vec::new(), Vec::new());
    for scheme in ["http", "https"] {
        let Ok(url) = Url::new(scheme, url.authority(), url.sent()) else { continue };
        let spellings = url.spellings();
        for site in &sites {
            for name in spellings.iter().flat_map(|url| options.rules.names(*site, url)) {
                let Some(key) = primary_key(*site, &name) else {
                    let text = "the URL is longer than any that is stored";
                    return Purged::NotOurs(text.to_owned());
                };
                fronts.push(site.unwrap_or("forward"));
                names.push(name);
                keys.push(key);
            }
        }
    }
    let there = match mode {
        Mode::Hard => store.purge_keys(&keys).await,
        Mode::Soft => {
            let there = keys.iter().map(|key| store.knows(key)).collect();
            let mut targets: Vec<Target<'_>> = names.iter().map(labels::of_url).collect();
            targets.dedup();
            store.purge_all(&targets, mode).await.map(|()| there)
        }
    };
    let there = match there {
        Ok(there) => there,
        Err(refusal) => return Purged::NotDurable(refusal.to_string()),
    };
    let found = fronts.into_iter().zip(there).filter(|(_, there)| *there);
    let mut found: Vec<String> = found.map(|(name, _)| name.to_owned()).collect();
    found.sort_unstable();
    found.dedup();
    if found.is_empty() { Purged::Nothing } else { Purged::Found(found) }
}

/// Answers a request with the method `PURGE`. Where nobody may use it, it is a method like any
/// other.
pub(crate) async fn answer(visit: &Visit<'_>, account: Account) -> Answered {
    let options = visit.options();
    let from = &options.purging.from;
    if visit.parts.method.as_str() != METHOD || from.is_empty() {
        return Answered::NotAPurge(account);
    }
    let client = address::canonical(visit.connection.client.ip());
    if !from.iter().any(|network| network.contains(&client)) {
        let text = "PURGE is not allowed from this address (purge.from).\n";
        let outcome = Outcome::Denied(Denied::Purge);
        let refused = answer::plain(account, StatusCode::FORBIDDEN, outcome, text);
        return Answered::Yes(Box::new(refused));
    }
    let asked = visit.url().ok_or_else(|| "the URL's path or host is not valid".to_owned());
    let asked = asked.and_then(|url| asked_for(&url, &visit.parts.headers, &options.purging.tags));
    let (status, json) = match asked {
        Ok(asked) => purge(visit.worker(), options, &asked).await.answer(&asked),
        Err(why) => (StatusCode::BAD_REQUEST, serde_json::json!({"error": why})),
    };
    let (kind, body) = ("application/json", format!("{json}\n").into());
    let told = answer::with_type(account, status, Outcome::Purge, kind, body);
    Answered::Yes(Box::new(told))
}

/// What became of a request that may be a purge.
pub(crate) enum Answered {
    Yes(Box<Response<AnswerBody>>),
    NotAPurge(Account),
}

/// What a `PURGE` of `url` asks for: with tags among its fields everything that bears one of them,
/// with `*` at the end of the URL everything that begins so, otherwise the URL.
fn asked_for(url: &Url, headers: &HeaderMap, fields: &TagFields) -> Result<Purge, String> {
    let tags = fields.of_headers(headers);
    let given = fields.names().any(|name| headers.contains_key(name));
    let scope = match url.as_str().strip_suffix('*') {
        _ if given => {
            let text = |tag: &[u8]| String::from_utf8(tag.to_vec());
            let tags: Result<_, _> = tags.into_iter().map(text).collect();
            Scope::tags(tags.map_err(|_| "a tag is not UTF-8".to_owned())?)?
        }
        Some(prefix) => Scope::prefix(prefix)?,
        None => Scope::url(url.as_str())?,
    };
    let on = |name: &&str| headers.get(*name).is_some_and(|value| value != "0");
    Ok(Purge { scope, soft: SOFT.iter().any(on) })
}

/// Takes the fields with tags from an answer to a client.
pub(crate) fn hide_tags(options: &Options, response: &mut Response<AnswerBody>) {
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
