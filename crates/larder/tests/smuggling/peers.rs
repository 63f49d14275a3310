//! The same bytes sent to other widely used proxies: to know where we differ from what operators
//! and attackers are used to, and why.

use std::time::Duration;

use testkit::peer::{NGINX, Peer, SQUID, TRAFFIC_SERVER, VARNISH};

use crate::origin::Origin;
use crate::page;
use crate::play::{Player, Verdict};
use crate::play_all;

/// Timeout after which a peer counts as not responding.
const PATIENCE: Duration = Duration::from_secs(2);

/// All peers, in the order of the page's columns.
const PEERS: &[Peer] = &[NGINX, VARNISH, TRAFFIC_SERVER, SQUID];

/// Returns the results of all cases with a peer.
fn play(peer: &Peer) -> Vec<Verdict> {
    let origin = Origin::start();
    let running = peer.start(origin.address());
    play_all(&mut Player::new(running.address(), &origin, PATIENCE), 4)
}

/// Plays the cases to the selected peers, prints the differences, and writes the page.
#[test]
fn peers_differ_where_we_have_a_reason() {
    let mut columns = Vec::new();
    for peer in PEERS {
        let Some(version) = peer.wanted() else { continue };
        columns.push(page::Column { name: peer.name, version, verdicts: play(peer) });
    }
    if columns.is_empty() {
        return;
    }
    for column in &columns {
        column.print_differences();
    }
    if columns.len() == PEERS.len() && std::env::var_os("LARDER_BLESS").is_some() {
        std::fs::write(page::path(), page::write(&columns)).unwrap();
    }
}
