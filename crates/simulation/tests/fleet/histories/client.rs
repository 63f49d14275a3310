//! The clients and the operators of a history: a connection for each request.

use std::net::SocketAddr;

use sim::network::Host;
use testkit::client::{Reply, request};

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

/// Sends a request and reads the whole response.
///
/// # Errors
///
/// There is none, or it broke off.
pub async fn ask(
    from: &Host,
    to: SocketAddr,
    method: &str,
    (host, path): (&str, &str),
) -> Result<Reply, Failed> {
    let connection = from.connect(to).await.map_err(|error| Failed::of(&error))?;
    // The proxy ignores the fields of other nodes in a client's request, and does not forward them.
    let request = request(method, path)
        .header("Host", host)
        .header("Larder-Fleet", "1 node-1 1 memory drop 00 http 198.51.100.9:9 *")
        .header("Larder-Purges", "node-0=1.ff;nobody=2.1");
    let (reply, _) = request.exchange(connection).await.map_err(|error| Failed::of(&error))?;
    if !reply.whole {
        let why = format!("{} {} broke off", reply.status, reply.cache_status());
        return Err(Failed { why, tag: reply.field("etag") });
    }
    Ok(reply)
}
