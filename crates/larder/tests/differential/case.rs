//! A case: the bytes that a client sends on one connection, and how.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use testkit::client::{RawReply, exchange_bytes};

use crate::origin::Plan;
use crate::socket;

/// Silence after which the client ends its side.
const SILENCE: Duration = Duration::from_millis(400);

/// Maximum time until the end of a connection.
const PATIENCE: Duration = Duration::from_secs(20);

/// The bytes that a client sends on one connection.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// Name in reports and in the table of intended differences.
    pub name: String,
    /// The bytes, in the pieces in which they are sent: each when the previous one has been read.
    pub pieces: Vec<Vec<u8>>,
    /// Plans that the origin gets first.
    pub plans: Vec<(String, Plan)>,
    /// True if the client waits for a response before it ends its side of the connection.
    pub waits: bool,
    /// True if the response may come with a length or in chunks. A response that the origin sends
    /// in chunks gets a length if all of it has arrived by the time its head is sent.
    pub either_framing: bool,
}

impl Case {
    /// Returns a case of these bytes, sent at once.
    pub fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Case {
        Case { name: name.into(), pieces: vec![bytes.into()], ..Case::default() }
    }

    /// Plays the case; returns all received bytes and how the connection ended.
    pub fn play(&self, to: SocketAddr) -> RawReply {
        let is_read = |stream: &TcpStream, _| {
            let own = stream.local_addr().expect("a connected socket");
            socket::await_read(to, own);
        };
        exchange_bytes(to, &self.pieces, is_read, (self.waits.then_some(SILENCE), PATIENCE))
    }

    /// Returns the sent bytes in readable form.
    pub fn shown(&self) -> String {
        let pieces = self.pieces.iter().map(|piece| format!("\"{}\"", piece.escape_ascii()));
        pieces.collect::<Vec<_>>().join("\n    then ")
    }
}
