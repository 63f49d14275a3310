//! Carries out purges, for the admin interface and for clients that send `PURGE`.
//!
//! A hard purge of a URL removes its keys durably, under every front and every name, and reports
//! whether it was stored. Every other purge, including a soft purge of a URL, adds one purge entry
//! per name to the store. An entry applies to everything stored or being fetched.

use std::rc::Rc;

use bytes::Bytes;
use fleet::purges::Consistency;
use http::{HeaderMap, Response, StatusCode};
use http_body::Body as _;
use http1::RequestHead;
use semantics::Url;
use serde_json::Value;
use store::{Key, Mode, PATTERN_MAX, PurgedTarget, Target};
use upstream::message::request_body::RequestBody;

use crate::exchange::purge_hint;
use crate::fleet_control::purging::{Wait, await_others, refusal};
use crate::fleet_control::pushing::note_own;
use crate::object::purge_labels;
use crate::object::store::Store;
use crate::observe::outcome::{Denied, Outcome};
use crate::options::Options;
use crate::request::context::RequestContext;
use crate::request::purge_dialect;
use crate::request::purge_names::{Name, all_names, targets};
use crate::request::purge_order::{MESSAGE_MAX, Purge, PurgeResult, Purged, Scope, Spread};
use crate::response::error_response;
use crate::response::response_body::ResponseBody;
use crate::response::transaction::Transaction;
use crate::rules::purging::{GivenSecret, PurgeSecret};
use crate::services::Services;

/// The usual purge method, which RFC 9110 does not define.
const METHOD: &str = "PURGE";

/// Carries out a purge, in a fleet on all nodes, for which it waits so.
pub(crate) async fn purge(
    services: &Rc<Services>,
    options: &Options,
    purge: &Purge,
    wait: Wait,
) -> PurgeResult {
    // Another process that takes over the cache waits a moment for it to be told to other nodes.
    let _lease = services.leases.lease_until_grace();
    let node = services.shared.node.as_ref();
    let purging = node.map(|node| node.offering.begin_purge());
    let under_way = node.map(|node| node.purges().begin_own());
    let leaves = "this node leaves the fleet: purge at another one".to_owned();
    let leaving = node.filter(|node| node.leaves_others()).map(|_| leaves);
    let purged = match leaving.or_else(|| node.and_then(|node| refusal(node))) {
        Some(why) => Purged::NotNow(why),
        None => purge_here(services, options, purge).await,
    };
    let is_done = matches!(purged, Purged::Found { .. } | Purged::Nothing(_) | Purged::InForce);
    let spreading = async {
        let node = node.filter(|_| is_done)?;
        note_own(services, node);
        drop((under_way, purging));
        Some(await_others(node, wait).await)
    };
    let publishing = async {
        // What an unsafe request invalidates stays in its fleet.
        let is_published = is_done && wait == Wait::Purge;
        let stream = services.shared.stream.as_ref().filter(|_| is_published)?;
        let text = Value::Object(purge.words()).to_string();
        if text.len() > MESSAGE_MAX {
            let why = format!("a message has {MESSAGE_MAX} bytes at most: purge less at a time");
            return Some(Err(why));
        }
        Some(stream.publish(text.into()).await)
    };
    let (spread, stream) = tokio::join!(spreading, publishing);
    let is_strict = node.is_some_and(|node| node.consistency() == Consistency::Strict);
    let purged = match &spread {
        Some(Spread { copies: Some(copies), .. }) if is_strict => {
            Purged::NoQuorum { copies: *copies }
        }
        _ => purged,
    };
    PurgeResult { purged, spread, stream }
}

async fn purge_here(services: &Services, options: &Options, purge: &Purge) -> Purged {
    if services.awaits_store() {
        let text = "the previous process holds the cache; send it again in a moment";
        return Purged::NotNow(text.to_owned());
    }
    let Some(store) = &services.store() else {
        if options.caches > 0 {
            let text =
                "no cache can be used now, and its objects may be used later; send it again then";
            return Purged::NotNow(text.to_owned());
        }
        let text = match services.shared.node {
            Some(_) => "there is no cache at this node of the fleet; send it to one that has one",
            None => "there is no cache",
        };
        return Purged::NotOurs(text.to_owned());
    };
    let mode = if purge.soft { Mode::Soft } else { Mode::Hard };
    match &purge.scope {
        Scope::Url(url) => purge_url(store, options, url, mode).await,
        scope => {
            let targets = targets(options, scope);
            if targets.iter().any(is_too_long) {
                let text = format!("a ban has {PATTERN_MAX} bytes at most: ban less at a time");
                return Purged::NotOurs(text);
            }
            let targets: Vec<_> = targets.iter().filter_map(PurgedTarget::as_target).collect();
            match store.purge_all(&targets, mode).await {
                Ok(()) => Purged::InForce,
                Err(refusal) => Purged::NotDurable(refusal.to_string()),
            }
        }
    }
}

/// Returns whether the store would take a pattern for everything, because of its length.
fn is_too_long(target: &PurgedTarget) -> bool {
    matches!(target, PurgedTarget::Pattern(text) if text.len() > PATTERN_MAX)
}

/// Purges a URL under every front, scheme and name.
async fn purge_url(store: &Store, options: &Options, url: &Url, mode: Mode) -> Purged {
    let Some(names) = all_names(options, url) else {
        return Purged::NotOurs("the URL is longer than any stored key".to_owned());
    };
    let there = match mode {
        Mode::Hard => {
            let keys: Vec<Key> = names.iter().map(|name| name.key.clone()).collect();
            store.purge_named(Bytes::from(url.to_sent()), &keys).await
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
        0 => Purged::Nothing(purge_hint::hint(store, options, url)),
        _ => Purged::Found { fronts, objects },
    }
}

/// Returns the names in `names` that a soft purge of `url` must enter: names in use, under which a
/// fetch may be about to store it, and names with a stored object. With request rules, all names
/// count as in use.
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

/// Fields that decide on a purge, copied before untrusted fields are removed.
pub(crate) struct PurgeFields {
    secret: GivenSecret,
    /// Fields of the request, if its method is a purge method and clients may purge.
    fields: Option<Box<HeaderMap>>,
}

impl PurgeFields {
    /// Copies the fields from a head as it was sent.
    pub(crate) fn of(options: &Options, head: &RequestHead) -> PurgeFields {
        let is_purge = options.purging.is_open()
            && purge_dialect::is_purge(&options.purging.dialect, &head.method);
        PurgeFields {
            secret: options.purging.secret_in(&head.fields),
            fields: is_purge.then(|| Box::new(head.fields.to_map(0))),
        }
    }

    pub(crate) fn may_be_purge(&self) -> bool {
        self.fields.is_some()
    }
}

/// Answers a request with the method `PURGE` or another cache's purge method. If no client may
/// purge, these methods are forwarded like any other.
pub(crate) async fn answer(
    context: &RequestContext,
    transaction: Transaction,
    body: &RequestBody,
    PurgeFields { secret, fields }: PurgeFields,
) -> Answered {
    let (options, method) = (&context.options, &context.head.method);
    let Some(fields) = fields else { return Answered::NotAPurge(transaction) };
    let purging = &options.purging;
    if !purging.admits(context.client.address.ip(), secret) {
        if method.as_str() != METHOD && secret == GivenSecret::None {
            return Answered::NotAPurge(transaction);
        }
        let text = match &purging.secret {
            Some(_) => {
                "PURGE is allowed neither from this address (purge.from) nor with this \
                        secret (purge.secret).\n"
            }
            None => "PURGE is not allowed from this address (purge.from).\n",
        };
        let outcome = Outcome::Denied(Denied::Purge);
        let refused = error_response::plain(transaction, StatusCode::FORBIDDEN, outcome, text);
        return Answered::Yes(Box::new(refused));
    }
    let (status, json) = match read(context, &fields, body) {
        Ok(asked) => {
            Box::pin(purge(&context.services, options, &asked, Wait::Purge)).await.answer(&asked)
        }
        Err(why) => (StatusCode::BAD_REQUEST, serde_json::json!({"error": why})),
    };
    let (kind, body) = ("application/json", format!("{json}\n").into());
    let told = error_response::with_type(transaction, status, Outcome::Purge, kind, body);
    Answered::Yes(Box::new(told))
}

pub(crate) enum Answered {
    Yes(Box<Response<ResponseBody>>),
    NotAPurge(Transaction),
}

/// Reads the purge that a request asks for. The error says why nothing is purged.
fn read(context: &RequestContext, fields: &HeaderMap, body: &RequestBody) -> Result<Purge, String> {
    if !body.is_end_stream() {
        return Err("a purge has no body, nothing was purged: its URL and fields say what to \
                    purge, or POST /purge of the admin interface"
            .to_owned());
    }
    let purging = &context.options.purging;
    let url = context.url().ok_or_else(|| "the URL's path or host is not valid".to_owned())?;
    let secret = purging.secret.as_ref().map(PurgeSecret::field);
    purge_dialect::read(&context.head.method, &url, (fields, secret), purging)
}

/// Removes the tag fields from a response to a client.
pub(crate) fn hide_tags(options: &Options, response: &mut Response<ResponseBody>) {
    let headers = response.headers_mut();
    if options.purging.pass_tags || headers.is_empty() {
        return;
    }
    for name in options.purging.tags.names() {
        if headers.contains_key(name) {
            headers.remove(name);
        }
    }
}
