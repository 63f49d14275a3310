//! Answers the messages of other nodes.

use std::rc::Rc;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::fleet_control::copies::COPIES;
use crate::fleet_control::message::{FORGET, HELLO, INVALIDATE, Misunderstood, POLICY, PURGED};
use crate::fleet_control::message::{OFFER, OFFER_OWNED};
use crate::fleet_control::{applying, classes, copies, forgetting, invalidating, meeting, offers};
use crate::peers::node::Node;
use crate::services::Services;

/// Answers the message `body` to `path`.
///
/// # Errors
/// It is not understood, or cannot be done now; says why.
pub(crate) async fn answer(
    services: &Rc<Services>,
    node: &Arc<Node>,
    path: &str,
    body: &[u8],
) -> Result<String, Misunderstood> {
    match path {
        HELLO => told(&meeting::answer(services, node, &read(body)?).await?),
        INVALIDATE => told(&invalidating::answer(services, node, &read(body)?).await?),
        FORGET => told(&forgetting::answer(node, &read(body)?)?),
        OFFER => told(&offers::answer(services, node, offers::Why::Evicted, body).await?),
        OFFER_OWNED => told(&offers::answer(services, node, offers::Why::Owned, body).await?),
        COPIES => told(&copies::answer(node, &read(body)?)?),
        POLICY => told(&classes::answer(node, &read(body)?)?),
        PURGED => told(&applying::answer(services, node, &read(body)?).await?),
        _ => Err(format!("no message of this version is sent to {path}").into()),
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Misunderstood> {
    Ok(serde_json::from_slice(body)?)
}

fn told(answer: &impl Serialize) -> Result<String, Misunderstood> {
    Ok(serde_json::to_string(answer)?)
}
