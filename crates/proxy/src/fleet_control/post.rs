//! Sends one message to another node, and reads its answer.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fleet::MemberId;
use http::header::{self, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use upstream::connection::request_body::{ClientBody, OutBody};
use upstream::failure::error::Failure;
use upstream::message::request_body::RequestBody;
use upstream::send::origin::{Connector, Origin};
use upstream::send::outgoing::Outgoing;
use upstream::settings::endpoint::Endpoint;

use crate::peers::node::Node;
use crate::peers::question::FLEET;
use crate::services::Services;

/// Bytes of a message at most: 256 purges of the longest keys, in hexadecimal digits.
pub(crate) const MESSAGE_MAX: usize = 12 << 20;

/// Tells a member something and returns its answer.
///
/// # Errors
/// It is not known, could not be reached in time, or refused; says why.
pub(crate) async fn post<T: DeserializeOwned>(
    services: &Rc<Services>,
    node: &Arc<Node>,
    member: &MemberId,
    (path, message): (&'static str, &impl Serialize),
    patience: Duration,
) -> Result<T, String> {
    let body = serde_json::to_vec(message).map_err(|why| why.to_string())?;
    post_bytes(services, node, member, (path, Bytes::from(body)), patience).await
}

/// Does as [`post`] with a message that is not JSON.
///
/// # Errors
/// See [`post`].
pub(crate) async fn post_bytes<T: DeserializeOwned>(
    services: &Rc<Services>,
    node: &Arc<Node>,
    member: &MemberId,
    (path, body): (&'static str, Bytes),
    patience: Duration,
) -> Result<T, String> {
    let (peer, permit) = node.permit(member).ok_or_else(|| {
        "it is not known, or failed so often that it is not asked for a moment".to_owned()
    })?;
    let to = (peer.endpoint.clone(), peer.protocol);
    let answer = send_to(services, node, to, (path, body), patience).await;
    match &answer {
        Ok(_) => node.succeeded(member, permit),
        // What it refuses it has read.
        Err(Failed::Refused(_)) => node.succeeded(member, permit),
        Err(Failed::Unreached(_)) => node.failed(member, permit),
    }
    answer.map_err(Failed::text)
}

/// The reason why there is no answer.
pub(crate) enum Failed {
    Refused(String),
    Unreached(String),
}

impl Failed {
    /// Returns why, in words.
    pub fn text(self) -> String {
        match self {
            Failed::Refused(why) | Failed::Unreached(why) => why,
        }
    }
}

/// Does as [`post`] with a node of which the address is known, in a protocol.
pub(crate) async fn post_to<T: DeserializeOwned>(
    services: &Rc<Services>,
    node: &Arc<Node>,
    to: (Arc<Endpoint>, u16),
    (path, message): (&'static str, &impl Serialize),
    patience: Duration,
) -> Result<T, Failed> {
    let body = serde_json::to_vec(message).map_err(|why| Failed::Refused(why.to_string()))?;
    send_to(services, node, to, (path, Bytes::from(body)), patience).await
}

async fn send_to<T: DeserializeOwned>(
    services: &Rc<Services>,
    node: &Arc<Node>,
    to: (Arc<Endpoint>, u16),
    (path, body): (&'static str, Bytes),
    patience: Duration,
) -> Result<T, Failed> {
    let sending = send(services, node, to, path, body);
    match timeout(patience, sending).await {
        Ok(Ok((StatusCode::OK, answer))) => serde_json::from_slice(&answer)
            .map_err(|why| Failed::Refused(format!("its answer is not understood: {why}"))),
        Ok(Ok((_, answer))) => {
            Err(Failed::Refused(String::from_utf8_lossy(&answer).trim().to_owned()))
        }
        Ok(Err(why)) => Err(Failed::Unreached(why)),
        Err(_) => {
            let seconds = patience.as_secs_f32();
            Err(Failed::Unreached(format!("no response within {seconds} s")))
        }
    }
}

async fn send(
    services: &Rc<Services>,
    node: &Arc<Node>,
    (endpoint, protocol): (Arc<Endpoint>, u16),
    path: &'static str,
    body: Bytes,
) -> Result<(StatusCode, Bytes), String> {
    let from = format!("{protocol} {}", node.id());
    let from = HeaderValue::try_from(from).map_err(|why| why.to_string())?;
    // All messages may be sent twice: a kept connection may prove dead.
    let make = || {
        let whole = Full::new(body.clone()).map_err(|never| match never {});
        let body = ClientBody::new(RequestBody::Stream(Box::pin(whole)), None);
        let mut request = Request::new(OutBody::Client(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from_static(path);
        request.headers_mut().insert(FLEET, from.clone());
        request.headers_mut().insert(header::HOST, HeaderValue::from_static("larder.fleet"));
        Box::new(request)
    };
    let connector =
        Connector { upstream: &services.upstream, limits: node.limits(), check: &|_| true };
    let outgoing = Outgoing {
        request: Some(make()),
        spellings: Default::default(),
        progress: None,
        interim: None,
        again: Some(&make),
        idempotent: true,
        rewrite_host: false,
        reuse_only: false,
        place: "",
        pinned: None,
        store_max: 0,
        upgrade: None,
        trail: None,
        next_server: None,
    };
    let response = endpoint.send(connector, outgoing).await.map_err(in_words)?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MESSAGE_MAX).collect().await;
    Ok((status, body.map_err(|why| why.to_string())?.to_bytes()))
}

/// Returns why a node could not be asked.
fn in_words(failure: Failure) -> String {
    match failure {
        Failure::Denied => "no address of it may be connected to".to_owned(),
        Failure::Failed(_, cause) | Failure::Request(_, cause) => {
            format!("it did not answer: {cause}")
        }
    }
}
