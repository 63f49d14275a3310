//! The same bytes to the proxies that people use: to know where we differ from what operators and
//! attackers are used to, and why. Each runs with as little configuration as lets it cache in front
//! of an origin server, in a directory of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::origin::Origin;
use crate::page;
use crate::play::{Player, Verdict};
use crate::play_all;
use crate::program::{await_listener, free_address};

#[path = "../http/peers/nginx.rs"]
mod nginx;
#[path = "../http/peers/squid.rs"]
mod squid;
#[path = "../http/peers/traffic_server.rs"]
mod traffic_server;
#[path = "../http/peers/varnish.rs"]
mod varnish;

/// Who has not answered by then does not.
const PATIENCE: Duration = Duration::from_secs(2);

/// Another proxy.
pub struct Peer {
    /// What it is called here.
    pub name: &'static str,
    /// A command that succeeds where it is installed, and says which version.
    probe: &'static [&'static str],
    /// The command that serves on an address for an origin, its files in a directory.
    command: fn(&Path, SocketAddr, SocketAddr) -> Command,
    /// For the scripts of `tests/http`.
    #[allow(dead_code)]
    reasons: &'static [(&'static str, &'static str)],
}

/// All of them, in the order of the page's columns.
pub const PEERS: &[Peer] = &[nginx::PEER, varnish::PEER, traffic_server::PEER, squid::PEER];

impl Peer {
    /// Its version; `None` where it is not installed.
    fn version(&self) -> Option<String> {
        let output = Command::new(self.probe[0]).args(&self.probe[1..]).output().ok()?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        let mut words = said.split(|c: char| !(c.is_ascii_digit() || c == '.'));
        let version = words.find(|word| word.contains('.') && word.len() > 2)?;
        output.status.success().then(|| version.trim_matches('.').to_owned())
    }

    /// What becomes of all cases there.
    fn play(&self) -> Vec<Verdict> {
        let (origin, directory) = (Origin::start(), TempDir::new().unwrap());
        let listen = free_address();
        let mut command = (self.command)(directory.path(), listen, origin.address());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let started = await_listener(&mut child, listen);
        // Some listen before they are ready.
        std::thread::sleep(Duration::from_secs(3));
        let verdicts = if started {
            play_all(&mut Player::new(listen, &origin, PATIENCE), 4)
        } else {
            Vec::new()
        };
        // SIGKILL would leave its workers behind.
        let pid = child.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = child.wait();
        assert!(started, "{} did not start", self.name);
        verdicts
    }
}

/// Plays the cases to those that are asked for, prints what differs, and writes the page.
#[test]
fn peers_differ_where_we_have_a_reason() {
    let chosen = std::env::var("LARDER_DIFFERENTIAL").unwrap_or_default();
    let mut columns = Vec::new();
    for peer in PEERS {
        if chosen != "all" && chosen != peer.name {
            let name = peer.name;
            eprintln!("SKIPPED: {name} is compared with LARDER_DIFFERENTIAL={name} or all only");
            continue;
        }
        let Some(version) = peer.version() else {
            eprintln!("SKIPPED: {} is not installed, nothing was compared", peer.name);
            continue;
        };
        columns.push(page::Column { name: peer.name, version, verdicts: peer.play() });
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
