//! Other widely used proxies, to which the same tests can be played: how each is started, with the
//! minimal configuration to cache in front of an origin and a directory of its own, and stopped.
//!
//! They are started only if `LARDER_DIFFERENTIAL` names them, or is `all`.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::address;
use crate::client::get;
use crate::io::eventually;
use crate::larder::await_listener;

mod nginx;
mod squid;
mod traffic_server;
mod varnish;

/// Another proxy.
pub struct Peer {
    /// Name used by the tests.
    pub name: &'static str,
    /// A command that succeeds if the proxy is installed, and prints its version.
    probe: &'static [&'static str],
    /// Returns the command that serves on an address for an origin, with its files in a directory.
    command: fn(&Path, SocketAddr, SocketAddr) -> Command,
}

/// nginx.
pub const NGINX: Peer = Peer { name: "nginx", probe: &["nginx", "-v"], command: nginx::command };

/// Squid.
pub const SQUID: Peer = Peer { name: "squid", probe: &["squid", "-v"], command: squid::command };

/// Apache Traffic Server.
pub const TRAFFIC_SERVER: Peer = Peer {
    name: "trafficserver",
    probe: &["traffic_server", "-V"],
    command: traffic_server::command,
};

/// Varnish.
pub const VARNISH: Peer =
    Peer { name: "varnish", probe: &["varnishd", "-V"], command: varnish::command };

impl Peer {
    /// Returns its version if it is selected and installed; otherwise prints the reason and returns
    /// `None`.
    pub fn wanted(&self) -> Option<String> {
        let (name, chosen) = (self.name, std::env::var("LARDER_DIFFERENTIAL").unwrap_or_default());
        if chosen != "all" && chosen != name {
            eprintln!("SKIPPED: {name} is compared with LARDER_DIFFERENTIAL={name} or all only");
            return None;
        }
        let version = self.version();
        if version.is_none() {
            eprintln!("SKIPPED: {name} is not installed, nothing was compared");
        }
        version
    }

    fn version(&self) -> Option<String> {
        let output = Command::new(self.probe[0]).args(&self.probe[1..]).output().ok()?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        let mut words = said.split(|c: char| !(c.is_ascii_digit() || c == '.'));
        let version = words.find(|word| word.contains('.') && word.len() > 2)?;
        output.status.success().then(|| version.trim_matches('.').to_owned())
    }

    /// Starts it in front of `origin`, and waits until it responds.
    pub fn start(&self, origin: SocketAddr) -> Running {
        let (directory, address) = (TempDir::new().unwrap(), address::free());
        let mut command = (self.command)(directory.path(), address, origin);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let mut running = Running { child, address, _directory: directory };
        assert!(await_listener(&mut running.child, address), "{} did not start", self.name);
        // Some listen before they are ready.
        let responds = || {
            get("/").try_send(address).is_ok_and(|reply| ![404, 502, 503].contains(&reply.status))
        };
        assert!(eventually(responds), "{} does not respond", self.name);
        running
    }
}

/// A running peer, stopped on drop.
pub struct Running {
    child: Child,
    address: SocketAddr,
    _directory: TempDir,
}

impl Running {
    /// Returns the address on which it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SIGKILL would leave its workers behind.
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = self.child.wait();
    }
}
