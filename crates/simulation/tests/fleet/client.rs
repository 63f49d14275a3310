//! The client: a connection for each request.

use std::io;
use std::net::SocketAddr;

use sim::network::Host;
use testkit::client::Reply;

/// Asks for an object, and reads the whole response.
pub async fn get(host: &Host, to: SocketAddr, object: u32) -> io::Result<Reply> {
    let connection = host.connect(to).await?;
    let request = testkit::client::get(&format!("/{object}")).header("Host", "site.test");
    let (reply, _) = request.exchange(connection).await?;
    if reply.whole { Ok(reply) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
