//! The scripts played to the proxies that people use: not to judge them, but to know where we
//! differ from what operators are used to, and why. Every difference is printed with the section of
//! the RFC and our reason; one in a script without a reason fails.
//!
//! Each runs with as little configuration as lets it cache in front of an origin, in a directory of
//! its own.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::origin::Origin;
use crate::play::{Proxies, play_all};
use crate::program::{await_listener, free_address};
use crate::script::Front;

mod nginx;
mod squid;
mod traffic_server;
mod varnish;

/// Another proxy.
struct Peer {
    /// What it is called here.
    name: &'static str,
    /// A command that succeeds where it is installed.
    probe: &'static [&'static str],
    /// The command that serves on an address for an origin, its files in a directory.
    command: fn(&Path, SocketAddr, SocketAddr) -> Command,
    /// Why we do otherwise, by script.
    reasons: &'static [(&'static str, &'static str)],
}

impl Peer {
    fn is_installed(&self) -> bool {
        let mut probe = Command::new(self.probe[0]);
        probe.args(&self.probe[1..]).stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    }

    /// Plays all scripts that need no configuration of ours, and prints the differences.
    fn compare(&self) {
        if std::env::var("LARDER_DIFFERENTIAL").as_deref() != Ok(self.name) {
            let name = self.name;
            eprintln!("SKIPPED: {name} is compared with LARDER_DIFFERENTIAL={name} only");
            return;
        }
        if !self.is_installed() {
            eprintln!("SKIPPED: {} is not installed, nothing was compared", self.name);
            return;
        }
        let mut tests = crate::tests();
        tests.retain(|test| test.front == Front::Reverse && !test.place.file.starts_with("purge"));
        let (origin, directory) = (Origin::start(), TempDir::new().unwrap());
        let listen = free_address();
        let mut command = (self.command)(directory.path(), listen, origin.address());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let started = await_listener(&mut child, listen);
        // Some listen before they are ready.
        std::thread::sleep(std::time::Duration::from_secs(3));
        let proxies = Proxies { reverse: listen, forward: None, rules: None };
        let failures = if started { play_all(&tests, &origin, &proxies) } else { Vec::new() };
        // SIGKILL would leave its workers behind.
        let pid = child.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = child.wait();
        assert!(started, "{} did not start", self.name);
        eprintln!("{} does otherwise in {} of {} tests:\n", self.name, failures.len(), tests.len());
        for (script, _) in self.reasons {
            let is_of = |file: &str| file.trim_end_matches(".http") == *script;
            let differs = failures.iter().filter(|failure| is_of(&failure.place.file)).count();
            let all = tests.iter().filter(|test| is_of(&test.place.file)).count();
            eprintln!("  {script}: {differs} of {all}");
        }
        for failure in failures {
            let script = failure.place.file.trim_end_matches(".http");
            let reason = self.reasons.iter().find(|(name, _)| *name == script);
            let (_, reason) = reason.unwrap_or_else(|| panic!("without a reason: {failure}"));
            eprintln!("\n{failure}\n  we: {reason}");
        }
    }
}

#[test]
fn nginx_differs_where_we_have_a_reason() {
    nginx::PEER.compare();
}

#[test]
fn varnish_differs_where_we_have_a_reason() {
    varnish::PEER.compare();
}

#[test]
fn squid_differs_where_we_have_a_reason() {
    squid::PEER.compare();
}

#[test]
fn traffic_server_differs_where_we_have_a_reason() {
    traffic_server::PEER.compare();
}
