//! The socket of gossip. It seals and opens datagrams, validates them, and admits them while there
//! is room for the nodes that they name.
//!
//! `chitchat` ends when a socket fails, so this one never does: failures to send or receive are
//! counted, and the next datagram is tried.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::warning_limiter::WarningLimiter;
use chitchat::transport::{Socket, Transport};
use chitchat::{Chitchat, ChitchatId, ChitchatMessage, Deserializable, Serializable};
use fleet::members::MEMBERS_MAX;
use net::clock::TokioClock;
use tokio::net::UdpSocket;
use tokio::sync::Mutex;

use crate::gossip::figures::Counters;
use crate::gossip::seal::{OVERHEAD, Seal};
use crate::gossip::wire;

/// Maximum bytes of a UDP datagram over IPv4.
const DATAGRAM_MAX: usize = 65_507;

/// Maximum bytes of the list of all known nodes, live and recently dead. Each message has such a
/// list, and `chitchat` panics if less than one block (16,384 bytes) of a datagram remains for the
/// rest. About 900 nodes with short names fit, or 400 with the longest.
const DIGEST_MAX: usize = 48_000;

/// Pause after a failed receive, so that a persistent failure does not occupy a processor.
const FAILED_PAUSE: Duration = Duration::from_millis(100);

/// State shared by the sockets of a node: a restart of gossip opens another socket.
pub struct Wire {
    pub socket: std::net::UdpSocket,
    /// `None`: datagrams are sent unsealed.
    pub seal: Option<Seal>,
    pub counters: Counters,
    pub clock: TokioClock,
    pub warnings: Warnings,
}

/// Rate limits by kind of warning.
#[derive(Default)]
pub struct Warnings {
    unopened: WarningLimiter,
    malformed: WarningLimiter,
    crowded: WarningLimiter,
    oversized: WarningLimiter,
    unsent: WarningLimiter,
    unreceived: WarningLimiter,
}

/// A transport over the node's socket.
pub struct SealedTransport {
    pub wire: Arc<Wire>,
    /// The node that gossips over it.
    pub own: ChitchatId,
    /// State of that node; set once gossip has started.
    pub known: Arc<OnceLock<Arc<Mutex<Chitchat>>>>,
}

struct SealedSocket {
    wire: Arc<Wire>,
    own: ChitchatId,
    known: Arc<OnceLock<Arc<Mutex<Chitchat>>>>,
    socket: UdpSocket,
    sending: Vec<u8>,
    receiving: Box<[u8]>,
}

#[async_trait::async_trait]
impl Transport for SealedTransport {
    async fn open(&self, _bind: SocketAddr) -> anyhow::Result<Box<dyn Socket>> {
        Ok(Box::new(SealedSocket {
            wire: self.wire.clone(),
            own: self.own.clone(),
            known: self.known.clone(),
            socket: UdpSocket::from_std(self.wire.socket.try_clone()?)?,
            sending: Vec::new(),
            // One byte more than the largest datagram, so that none is truncated unnoticed.
            receiving: vec![0; DATAGRAM_MAX + 1].into(),
        }))
    }
}

#[async_trait::async_trait]
impl Socket for SealedSocket {
    async fn send(&mut self, to: SocketAddr, message: ChitchatMessage) -> anyhow::Result<()> {
        let wire = &self.wire;
        if !wire.write(&message, &mut self.sending) {
            return Ok(());
        }
        match self.socket.send_to(&self.sending, to).await {
            Ok(_) => {
                wire.counters.sent.count();
                wire.counters.sent_bytes.add(self.sending.len() as u64);
            }
            Err(error) => {
                wire.counters.unsent.count();
                wire.warn(&wire.warnings.unsent, || format!("cannot send gossip to {to}: {error}"));
            }
        }
        Ok(())
    }

    /// Receives a message. Cancel safe: at most one datagram is lost.
    async fn recv(&mut self) -> anyhow::Result<(SocketAddr, ChitchatMessage)> {
        loop {
            let (length, from) = match self.socket.recv_from(&mut self.receiving).await {
                Ok(received) => received,
                Err(error) => {
                    let wire = &self.wire;
                    wire.warn(&wire.warnings.unreceived, || {
                        format!("cannot receive gossip: {error}")
                    });
                    tokio::time::sleep(FAILED_PAUSE).await;
                    continue;
                }
            };
            let datagram = &mut self.receiving[..length];
            let Some((message, content)) = self.wire.read(datagram, from, &self.own) else {
                continue;
            };
            if self.has_room_for(&content).await {
                return Ok((from, message));
            }
            self.wire.counters.crowded.count();
            self.wire.warn(&self.wire.warnings.crowded, || {
                format!("ignoring gossip from {from}: it names too many members")
            });
        }
    }
}

impl SealedSocket {
    /// Returns whether this node has room for the nodes that a message names.
    async fn has_room_for(&self, content: &wire::Content) -> bool {
        let new: BTreeSet<&ChitchatId> = content.nodes.iter().collect();
        match self.known.get() {
            None => have_room(&new, &BTreeSet::new()),
            Some(known) => {
                let known = known.lock().await;
                have_room(&new, &known.node_states().keys().collect())
            }
        }
    }
}

/// Returns whether there is room for these nodes besides the known ones.
fn have_room(new: &BTreeSet<&ChitchatId>, known: &BTreeSet<&ChitchatId>) -> bool {
    let all = || known.union(new);
    let bytes: usize = all().map(|node| wire::digest_bytes(node)).sum();
    new.is_subset(known) || (all().count() <= MEMBERS_MAX && bytes <= DIGEST_MAX)
}

impl Wire {
    /// Writes a datagram; returns whether it may be sent.
    fn write(&self, message: &ChitchatMessage, datagram: &mut Vec<u8>) -> bool {
        datagram.clear();
        let sealed = match &self.seal {
            None => {
                message.serialize(datagram);
                Ok(())
            }
            Some(seal) => seal.begin(datagram).and_then(|()| {
                message.serialize(datagram);
                seal.finish(datagram)
            }),
        };
        if sealed.is_err() {
            self.counters.unsent.count();
            self.warn(&self.warnings.unsent, || "cannot seal gossip".to_owned());
            return false;
        }
        let fits = datagram.len() <= DATAGRAM_MAX;
        if !fits {
            self.counters.oversized.count();
            self.warn(&self.warnings.oversized, || {
                format!("gossip of {} bytes is too large to send", datagram.len())
            });
        }
        fits
    }

    /// Reads a datagram; returns `None` if it is not one of a member.
    fn read(
        &self,
        datagram: &mut [u8],
        from: SocketAddr,
        own: &ChitchatId,
    ) -> Option<(ChitchatMessage, wire::Content)> {
        self.counters.received.count();
        self.counters.received_bytes.add(datagram.len() as u64);
        let message = match &self.seal {
            None => &*datagram,
            Some(seal) => seal.open(datagram).or_else(|| {
                self.counters.unopened.count();
                self.warn(&self.warnings.unopened, || {
                    format!(
                        "ignoring gossip from {from}: it is not sealed with the key of this fleet"
                    )
                });
                None
            })?,
        };
        let read = wire::examine(message, own).and_then(|content| {
            let read = ChitchatMessage::deserialize(&mut &*message);
            Ok((read.map_err(|_| "it cannot be decoded")?, content))
        });
        read.inspect_err(|why| {
            self.counters.malformed.count();
            self.warn(&self.warnings.malformed, || format!("ignoring gossip from {from}: {why}"));
        })
        .ok()
    }

    fn warn(&self, kind: &WarningLimiter, what: impl FnOnce() -> String) {
        if let Some(more) = kind.due(self.clock.running()) {
            log::warn!("{}{more}", what());
        }
    }
}

/// The bytes that a seal adds leave room for the content that `chitchat` puts into a datagram.
const _: () = assert!(DIGEST_MAX + 16_384 + 300 + OVERHEAD < DATAGRAM_MAX);
