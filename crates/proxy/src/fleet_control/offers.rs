//! Offers objects that leave this node's memory to other nodes, and takes their offers: last copies
//! of classes whose evictions are handled (Olaru and Tichy, section 3.1), and, when a node leaves,
//! objects that others own next ([`crate::fleet_control::departure`]).
//!
//! Guarantees: an offer never brings back a purged or invalidated copy
//! ([`crate::peers::offering`]). Offers are bounded in bytes per second, in number at a time, and
//! in how often a copy is passed on. No request waits for one.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use fleet::class::Copies;
use fleet::eviction::{self, EvictedCopy, Fate};
use fleet::member::State;
use fleet::purges::Vector;
use fleet::token_bucket::TokenBucket;
use http::header;
use net::clock::TokioClock;
use semantics::{Meta, StoredHead, cache_key};
use store::{EvictionLimits, Hint, Home, Key, Locality};
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::fleet_control::copies;
use crate::fleet_control::message::{Misunderstood, OFFER, Offered};
use crate::fleet_control::post::post_bytes;
use crate::object::store::Store;
use crate::peers::node::Node;
use crate::services::Services;

/// Bounds of the queue of evicted objects to offer.
const WAITING: EvictionLimits = EvictionLimits { offers: 256, bytes: 8 << 20 };

/// The time between two looks at what has left memory.
const LOOK: Duration = Duration::from_millis(20);

/// Evicted copies that are looked at at a time, and offers that are under way.
const AT_ONCE: usize = 256;
const UNDER_WAY: usize = 8;

/// Bytes of a copy that is offered at most: larger ones take longer to send than to read.
pub(crate) const COPY_MAX: u64 = 1 << 20;

/// How long another node may take for an offer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

type Evictions = store::Evictions<device::AnyDevice, TokioClock>;
type Evicted = store::Evicted<device::AnyDevice, TokioClock>;

/// Offers copies that leave memory and tells their owners, for ever.
pub(crate) async fn run(services: Rc<Services>, node: Arc<Node>) {
    let (offers, notices) = (Rc::default(), Rc::default());
    let mut evictions: Option<Evictions> = None;
    loop {
        sleep(LOOK).await;
        if !node.cooperates() && !node.offers_evicted() {
            evictions = None;
            continue;
        }
        match services.store().filter(|_| node.purges().is_current(node.now())) {
            Some(store) => {
                let evictions = evictions.get_or_insert_with(|| store.evictions(WAITING));
                let taken = std::iter::from_fn(|| evictions.take());
                taken.take(AT_ONCE).for_each(|evicted| left(&services, &node, evicted, &offers));
            }
            None => evictions = None,
        }
        copies::send(&services, &node, &notices);
    }
}

/// Notes that a copy left memory, and offers it.
fn left(services: &Rc<Services>, node: &Arc<Node>, evicted: Evicted, under_way: &Rc<Cell<usize>>) {
    let (name, meta) = (evicted.key.as_bytes(), &evicted.meta);
    if let Ok(Meta::Head(head)) = Meta::decode(meta)
        && let Some(policy) = policy_by(node, name, &head, evicted.len)
    {
        node.note_left(node.hash(cache_key::primary_of(name).unwrap_or(name)), &policy);
    }
    if under_way.get() < UNDER_WAY {
        offer(services, node, evicted, under_way);
    }
}

/// Offers one copy, if its class is offered and another node may take it.
fn offer(services: &Rc<Services>, node: &Arc<Node>, evicted: Evicted, under_way: &Rc<Cell<usize>>) {
    // Nothing is said of a soft purge with a copy: what it made outdated stays here.
    let entry = evicted.entry.as_ref().filter(|entry| entry.outdated_since().is_none());
    let body = entry.and_then(store::Entry::whole);
    let Some(body) = body.filter(|body| body.len() as u64 <= COPY_MAX) else { return };
    let Some(policy) = policy_of(node, &evicted.key, &evicted.meta, body.len() as u64) else {
        return;
    };
    let key = node.hash(evicted.key.as_bytes());
    let (holders, moves) = (node.holders(key), node.offering.moves(key));
    let size = (body.len() + evicted.meta.len()) as u64;
    let copy = EvictedCopy { key, size, last: holders.is_empty(), moves };
    let (own, members, avoid) = (node.own(), node.members(), node.avoided());
    let fate = node.offering.with_rate(|rate| {
        eviction::decide(&copy, &policy, &own, &members, &avoid, rate, node.now())
    });
    let Fate::Offered { to, moves } = fate else { return };
    let message = encode(node, &evicted.key, &evicted.meta, &body, moves);
    let size = copy.size;
    let (services, node, counted) = (services.clone(), node.clone(), Counted::new(under_way));
    spawn_local(async move {
        let _counted = counted;
        // An object removed here meanwhile is not offered.
        if evicted.token.overtaken() {
            return;
        }
        for (at, to) in to.into_iter().enumerate() {
            let takes = |rate: &mut TokenBucket| rate.take(size, node.now());
            if at > 0 && !node.offering.with_rate(takes) {
                return;
            }
            let message = (OFFER, message.clone());
            match post_bytes::<Offered>(&services, &node, &to, message, PATIENCE).await {
                Ok(Offered { taken: false }) => {}
                Ok(Offered { taken: true }) => {
                    // To another owner the node that took it tells it.
                    if node.owners(key, 1).contains(node.id()) {
                        node.note_holder(key, &to);
                    }
                    return;
                }
                Err(why) => log::debug!("{to} takes no copy: {why}"),
            }
        }
    });
}

/// Returns the policy of a copy, if it is one that can be passed on: the whole answer to a GET that
/// does not vary.
pub(crate) fn policy_of(node: &Node, key: &Key, meta: &Bytes, size: u64) -> Option<fleet::Policy> {
    let Ok(Meta::Head(head)) = Meta::decode(meta) else { return None };
    if !head.vary().names().is_empty() || head.packed().is(semantics::packed::Flag::HeadOnly) {
        return None;
    }
    policy_by(node, key.as_bytes(), &head, size)
}

/// Returns the policy of a stored response with this key and head.
fn policy_by(node: &Node, key: &[u8], head: &StoredHead, size: u64) -> Option<fleet::Policy> {
    let described = cache_key::describe(key)?;
    let authority = described.url.split_once("://").map_or("", |(_, rest)| rest);
    let authority = authority.split('/').next().unwrap_or_default();
    let host = net::address::bare(authority.rsplit_once(':').map_or(authority, |(host, _)| host));
    let content_type = content_type(head);
    let key = node.hash(cache_key::primary_of(key).unwrap_or(key));
    Some(node.policy(&node.facts(key, Some(size), content_type, host)))
}

fn content_type(head: &StoredHead) -> Option<&str> {
    head.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok())
}

/// Counts an offer under way.
struct Counted(Rc<Cell<usize>>);

impl Counted {
    fn new(count: &Rc<Cell<usize>>) -> Counted {
        count.set(count.get() + 1);
        Counted(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A copy that is offered.
struct Offer {
    moves: u8,
    purges: Vector,
    key: Key,
    meta: Bytes,
    body: Bytes,
}

/// Writes an offer: how often it was passed on; the purges of its sender, the key and the
/// metadata, each behind its length; where it belongs; the body.
pub(crate) fn encode(node: &Node, key: &Key, meta: &Bytes, body: &Bytes, moves: u8) -> Bytes {
    let purges = node.purge_vector().to_string();
    let Locality { site, group } = key.locality();
    let mut out = BytesMut::with_capacity(body.len() + meta.len() + 1024);
    out.put_u8(moves);
    for part in [purges.as_bytes(), key.as_bytes(), meta] {
        out.put_u32(part.len() as u32);
        out.put_slice(part);
    }
    out.put_u64(site);
    out.put_u64(group);
    out.put_slice(body);
    out.freeze()
}

fn decode(mut message: Bytes) -> Option<Offer> {
    let moves = message.try_get_u8().ok()?;
    let mut part = || {
        let len = message.try_get_u32().ok()? as usize;
        (len <= message.len()).then(|| message.split_to(len))
    };
    let (purges, key, meta) = (part()?, part()?, part()?);
    let locality =
        Locality { site: message.try_get_u64().ok()?, group: message.try_get_u64().ok()? };
    Some(Offer {
        moves,
        purges: std::str::from_utf8(&purges).ok()?.parse().ok()?,
        key: Key::new(key, locality)?,
        meta,
        body: message,
    })
}

/// The reason why a copy is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It leaves memory for room.
    Evicted,
    /// Its node leaves, and this one owns it next.
    Owned,
}

/// Answers a node that offers a copy.
pub(crate) async fn answer(
    services: &Rc<Services>,
    node: &Arc<Node>,
    why: Why,
    message: &[u8],
) -> Result<Offered, Misunderstood> {
    let offer = decode(Bytes::copy_from_slice(message)).ok_or("this is no offer")?;
    let store = services.store().ok_or("there is no cache here")?;
    let taken = take(node, &store, why, offer).await;
    Ok(Offered { taken })
}

async fn take(node: &Arc<Node>, store: &Store, why: Why, offer: Offer) -> bool {
    let Offer { moves, purges, key, meta, body } = offer;
    let hash = node.hash(key.as_bytes());
    let policy = policy_of(node, &key, &meta, body.len() as u64);
    let owns = node.owners(hash, 1).contains(node.id());
    let home = policy.and_then(|policy| home(why, &policy, owns));
    let wanted = home.is_some()
        && moves <= eviction::MOVES_MAX
        && node.own().state == State::Serving
        && node.purges().is_current(node.now())
        && !store.knows(&key)
        && store.resident(&key).is_none();
    // From here on whatever is removed overtakes the copy.
    let token = store.begin_fetch(&key);
    let Some(quiet) = node.offering.quiet().filter(|_| wanted) else { return false };
    let is_known = || purges.covers(&node.purge_vector());
    if !is_known() {
        return false;
    }
    let home = home.unwrap_or_default();
    let len = body.len() as u64;
    let hint = Hint { size: Some(len), home, ..Hint::default() };
    let kind = match Meta::decode(&meta) {
        Ok(Meta::Head(head)) => content_type(&head).map(str::to_owned),
        _ => None,
    };
    let Ok(mut writer) = store.insert(&token, &key, meta, hint).await else { return false };
    if writer.write(body).await.is_err() || writer.commit().await.is_err() {
        return false;
    }
    if node.offering.quiet() != Some(quiet) || !is_known() {
        store.remove(&key).await;
        return false;
    }
    if why == Why::Evicted {
        node.offering.note_moves(hash, moves);
        let (size, kind) = (Some(len), kind.as_deref());
        node.note_entered(hash, size, kind);
    }
    true
}

/// Returns where a copy of a class with this policy is kept; `None` when it is not taken.
fn home(why: Why, policy: &fleet::Policy, owns: bool) -> Option<Home> {
    match why {
        Why::Evicted if owns => policy.eviction.offers().then_some(Home::MemoryAndDisk),
        Why::Evicted => policy.eviction.offers().then_some(Home::Memory),
        Why::Owned if policy.copies == Copies::None => Some(Home::Disk),
        Why::Owned => Some(Home::MemoryAndDisk),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_offer_is_refused_at_any_length() {
        let mut whole = BytesMut::new();
        whole.put_u8(1);
        for part in [&b"a/1=2"[..], b"key", b"meta"] {
            whole.put_u32(part.len() as u32);
            whole.put_slice(part);
        }
        whole.put_u64(7);
        whole.put_u64(8);
        let head = whole.len();
        whole.put_slice(b"body");
        let whole = whole.freeze();
        let offer = decode(whole.clone()).unwrap();
        assert_eq!(
            (offer.moves, &offer.body[..], &offer.meta[..]),
            (1, &b"body"[..], &b"meta"[..])
        );
        assert_eq!(offer.key.locality(), Locality { site: 7, group: 8 });
        assert!((0..head).all(|len| decode(whole.slice(..len)).is_none()));
        assert!(decode(Bytes::from_static(&[1, 255, 255, 255, 255])).is_none());
    }
}
