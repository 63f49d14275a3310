//! The clients and the operators of a history: a connection for each request.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use sim::network::Host;
use tokio::task::spawn_local;

/// An answer, whole.
pub struct Answer {
    pub status: u16,
    /// `Cache-Status`.
    pub detail: String,
    pub body: Bytes,
}

/// Why there is no whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    pub why: String,
    /// The entity tag of an answer that broke off.
    pub tag: Option<String>,
}

impl Failed {
    fn of(why: &dyn std::fmt::Display) -> Failed {
        Failed { why: why.to_string(), tag: None }
    }
}

/// Sends a request and reads the answer to its end.
///
/// # Errors
/// There is none, or it broke off; says which.
pub async fn ask(
    from: &Host,
    to: SocketAddr,
    method: Method,
    (host, path): (&str, &str),
) -> Result<Answer, Failed> {
    let connection = from.connect(to).await.map_err(|error| Failed::of(&error))?;
    let handshake = http1::handshake(TokioIo::new(connection)).await;
    let (mut sender, connection) = handshake.map_err(|error| Failed::of(&error))?;
    // An error of the connection reaches whoever waits for the answer.
    let task = spawn_local(async move { drop(connection.await) });
    // What only nodes may say is believed of nobody else, and reaches no origin.
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("Host", host)
        .header("Larder-Fleet", "1 node-1 1 memory drop 00 http 198.51.100.9:9 *")
        .header("Larder-Purges", "node-0=1.ff;nobody=2.1");
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    let answer = sender.send_request(request).await.map_err(|error| Failed::of(&error))?;
    let status = answer.status().as_u16();
    let detail = answer.headers().get_all("cache-status").iter();
    let detail: Vec<&str> = detail.filter_map(|value| value.to_str().ok()).collect();
    let detail = detail.join(", ");
    let tag = answer.headers().get("etag").and_then(|tag| tag.to_str().ok()).map(str::to_owned);
    let body = answer.into_body().collect().await;
    let body = body.map_err(|error| {
        let why = format!("{status} {detail} broke off: {error}");
        Failed { why, tag }
    });
    let body = body?.to_bytes();
    task.abort();
    Ok(Answer { status, detail, body })
}
