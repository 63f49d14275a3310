//! The client: a connection for each request.

use std::fmt;
use std::net::SocketAddr;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use sim::network::Host;
use tokio::task::spawn_local;

pub type Error = Box<dyn std::error::Error>;

/// An answer.
pub struct Answer {
    pub status: u16,
    /// `Cache-Status`.
    pub detail: String,
    pub body: Bytes,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({} bytes)", self.status, self.detail, self.body.len())
    }
}

/// Asks for an object, and reads the answer to its end.
pub async fn get(host: &Host, to: SocketAddr, object: u32) -> Result<Answer, Error> {
    let connection = host.connect(to).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(connection)).await?;
    // An error of the connection reaches whoever waits for the answer.
    let task = spawn_local(async move { drop(connection.await) });
    let request = Request::get(format!("/{object}")).header("Host", "site.test");
    let answer = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
    let status = answer.status().as_u16();
    let detail = answer.headers().get_all("cache-status").iter();
    let detail: Vec<&str> = detail.filter_map(|value| value.to_str().ok()).collect();
    let detail = detail.join(", ");
    let body = answer.into_body().collect().await?.to_bytes();
    task.abort();
    Ok(Answer { status, detail, body })
}
