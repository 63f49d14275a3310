//! Explains how a fleet node treats an object: its owners, its policy, and the nodes it would ask.

use fleet::KeyHash;
use fleet::class::{Class, Replication};
use fleet::lookup::{Ask, Asked, Reach, Request, Role, Step};
use http::header;
use serde_json::{Value, json};
use store::{Key, Source};

use crate::object::stored_response::StoredResponse;
use crate::peers::node::Node;

/// Explains the treatment of the object `key` at `host`. `stored` is this node's copy; `asks` says
/// whether other nodes may be asked about such a request.
pub(super) fn tell(
    node: &Node,
    key: &Key,
    host: &str,
    stored: Option<&StoredResponse>,
    asks: bool,
) -> Value {
    let key = node.hash(key.as_bytes());
    let before = node.known_class(key, host);
    let remembered = node.with_known(key, host, |facts| {
        let documents = node.depends_on_answers();
        let requests = node.depends_on_requests().then_some(facts.requests);
        let known = json!({"size": facts.size, "type": facts.content_type, "requests": requests});
        (documents || requests.is_some()).then_some(known)
    });
    let after = stored.map_or_else(|| before.clone(), |stored| class_of(node, key, host, stored));
    let on_own_disk = stored.is_some_and(|stored| stored.entry.source() == Source::Disk);
    let hot_owners = node.hot_owners(key);
    let request = Request { key, asked: Asked::ByClient, on_own_disk, hot_owners };
    let plan = node.plan(&request, &before.policy).filter(|_| asks);
    let kept = node.plan(&request, &after.policy).map(|plan| plan.keep);
    let wanted = match after.policy.replication {
        Replication::Owners(count) => usize::from(count.get()),
        Replication::All => 1,
    };
    let owners: Vec<String> =
        node.owners(key, wanted.max(hot_owners)).iter().map(ToString::to_string).collect();
    let steps: Vec<String> =
        plan.iter().flat_map(|plan| &plan.steps).filter_map(in_words).collect();
    json!({
        "node": node.id().as_str(),
        "caught_up": node.purges().is_current(node.now()),
        "owners": owners,
        "policy_version": node.classes().version(),
        "class": &*before.name,
        "policy": policy(&before),
        "remembered": remembered,
        "kept_as": &*after.name,
        "asks": if asks { json!(steps) } else { Value::Null },
        "keeps": kept.map(|keep| json!({"memory": keep.memory, "disk": keep.disk})),
    })
}

fn class_of(node: &Node, key: KeyHash, host: &str, stored: &StoredResponse) -> Class {
    let head = stored.head.stored();
    let kind = head.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    node.class(&node.facts(key, Some(stored.length()), kind, host))
}

fn policy(class: &Class) -> Value {
    let policy = &class.policy;
    json!({
        "lookup": policy.lookup.to_string(),
        "copies": policy.copies.to_string(),
        "eviction": policy.eviction.to_string(),
        "replication": policy.replication.to_string(),
    })
}

/// Describes a step; `None` for the first one, this node's memory.
fn in_words(step: &Step) -> Option<String> {
    let Ask { member, role, reach, .. } = match step {
        Step::OwnMemory => return None,
        Step::OwnDisk => return Some("the disk of this node".to_owned()),
        Step::Origin => return Some("the origin".to_owned()),
        Step::Ask(ask) => ask,
    };
    let who = match role {
        Role::Holder => "which may have a copy",
        Role::Owner => "an owner",
        Role::PreviousOwner => "the owner before the nodes changed",
        Role::Substitute => "in place of this one",
    };
    let how_far = match reach {
        Reach::Memory => "answers from its memory",
        Reach::Disk => "answers from its store",
        Reach::Origin => "answers from its store, or fetches it",
    };
    Some(format!("{member}, {who}, {how_far}"))
}
