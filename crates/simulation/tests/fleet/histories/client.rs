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

/// Sends a request and reads the answer to its end.
///
/// # Errors
/// There is none, or it broke off; says which.
pub async fn ask(
    from: &Host,
    to: SocketAddr,
    method: Method,
    (host, path): (&str, &str),
) -> Result<Answer, String> {
    let connection = from.connect(to).await.map_err(|error| error.to_string())?;
    let handshake = http1::handshake(TokioIo::new(connection)).await;
    let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
    // An error of the connection reaches whoever waits for the answer.
    let task = spawn_local(async move { drop(connection.await) });
    let request = Request::builder().method(method).uri(path).header("Host", host);
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let status = answer.status().as_u16();
    let detail = answer.headers().get_all("cache-status").iter();
    let detail: Vec<&str> = detail.filter_map(|value| value.to_str().ok()).collect();
    let detail = detail.join(", ");
    let body = answer.into_body().collect().await;
    let body = body.map_err(|error| format!("{status} {detail} broke off: {error}"))?.to_bytes();
    task.abort();
    Ok(Answer { status, detail, body })
}
