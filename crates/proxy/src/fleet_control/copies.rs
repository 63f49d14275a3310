//! Tells owners which copies entered or left this node's memory, and hears the same as an owner.
//!
//! Guarantees: best effort. A notice that cannot be sent is dropped; it then costs a question that
//! finds nothing. Notices are sent in batches, to the first owner of each document, and no request
//! waits for one.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fleet::{KeyHash, MemberId};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_local;

use crate::fleet_control::message::Misunderstood;
use crate::fleet_control::post::post;
use crate::peers::copy_notices::{CopyNotice, NoticedDocument};
use crate::peers::node::Node;
use crate::services::Services;

/// Path of the notices of copies.
pub(crate) const COPIES: &str = "/copies";

/// Maximum notices that are sent at a time.
const BATCH: usize = 1024;

/// Maximum messages under way; further notices wait.
const UNDER_WAY: usize = 8;

/// How long an owner may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Copies that entered or left the memory of a node, in that order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Copies {
    node: String,
    copies: Vec<Copy>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Copy {
    key: u64,
    /// The document of a copy that entered memory; absent if it left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entered: Option<Document>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Document {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    content_type: Option<Box<str>>,
}

/// Answer to notices: how many were heard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Heard {
    heard: usize,
}

/// Sends the notices that wait.
pub(crate) fn send(services: &Rc<Services>, node: &Arc<Node>, under_way: &Rc<Cell<usize>>) {
    if under_way.get() >= UNDER_WAY {
        return;
    }
    let mut by_owner: BTreeMap<MemberId, Vec<Copy>> = BTreeMap::new();
    for notice in node.copy_notices.take(BATCH) {
        let owner = node.owners(notice.key, 1).pop().filter(|owner| owner != node.id());
        if let Some(owner) = owner {
            by_owner.entry(owner).or_default().push(Copy::of(notice));
        }
    }
    for (owner, copies) in by_owner {
        let (services, node, under_way) = (services.clone(), node.clone(), under_way.clone());
        under_way.set(under_way.get() + 1);
        spawn_local(async move {
            let message = Copies { node: node.id().to_string(), copies };
            let told = post::<Heard>(&services, &node, &owner, (COPIES, &message), PATIENCE).await;
            if let Err(why) = told {
                log::debug!("{owner} is not told of copies: {why}");
            }
            under_way.set(under_way.get() - 1);
        });
    }
}

/// Takes in what another node tells of its copies.
pub(crate) fn answer(node: &Node, told: &Copies) -> Result<Heard, Misunderstood> {
    let holder: MemberId = told.node.parse()?;
    if node.members().get(&holder).is_none() {
        return Err("it is not a member here".into());
    }
    for Copy { key, entered } in &told.copies {
        let key = KeyHash::from_bits(*key);
        match entered {
            Some(Document { size, content_type }) => {
                node.note_document(key, *size, content_type.as_deref());
                node.note_holder(key, &holder);
            }
            None => node.forget_holder(key, &holder),
        }
    }
    Ok(Heard { heard: told.copies.len() })
}

impl Copy {
    fn of(notice: CopyNotice) -> Copy {
        let document = |NoticedDocument { size, content_type }| Document { size, content_type };
        Copy { key: notice.key.bits(), entered: notice.entered.map(document) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_left_takes_its_key_alone() {
        let of = |entered| Copy::of(CopyNotice { key: KeyHash::from_bits(7), entered });
        let text = |copy: &Copy| serde_json::to_string(copy).unwrap();
        assert_eq!(text(&of(None)), r#"{"key":7}"#);
        let document = NoticedDocument { size: Some(9), content_type: Some("a/b".into()) };
        let entered = of(Some(document));
        assert_eq!(text(&entered), r#"{"key":7,"entered":{"size":9,"type":"a/b"}}"#);
        assert_eq!(serde_json::from_str::<Copy>(&text(&entered)).unwrap(), entered);
    }
}
