//! Larder under callgrind, configured for a route, and the other programs that the route needs.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use testkit::address;

use super::client::Way;
use super::origin;
use super::routes::{Counted, Protocol, Route, Setup};
use crate::systems::{Running, admin};

/// Maximum time until a node is ready, and until two nodes see each other serve.
const GATHER: Duration = Duration::from_secs(60);

/// Documents are kept in memory and on disk only by their owners, however often they are requested.
const KEPT_BY_OWNERS: &str = "[fleet]\nhot-rate = 1000000\n\
     [[fleet.class]]\nname = \"rest\"\ncopies = \"discard-cache\"\n";

/// A fleet key, which makes the nodes use TLS between each other.
const FLEET_KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// The running programs of a route.
pub struct Server {
    /// The address and protocol for clients.
    pub way: Way,
    /// The process whose instructions are counted.
    pub callgrind: Callgrind,
    _nodes: Vec<Running>,
    _files: TempDir,
}

/// The properties that all nodes of a route share.
struct Common<'a> {
    counting: &'a Counting<'a>,
    route: &'a Route,
    /// Files that all nodes read.
    files: &'a Path,
}

/// State that all routes share.
pub struct Counting<'a> {
    /// Larder's program.
    pub program: &'a Path,
    /// The address of the origin.
    pub origin: SocketAddr,
    /// The directory for temporary files.
    pub base: &'a Path,
    /// Set when the counting is to end.
    pub interrupted: &'a AtomicBool,
}

/// The addresses of a node.
#[derive(Clone, Copy)]
struct Addresses {
    front: SocketAddr,
    secure: SocketAddr,
    admin: SocketAddr,
    between: SocketAddr,
}

impl Server {
    /// Starts Larder as configured by `route`; its profile is written to `profile`.
    ///
    /// # Errors
    ///
    /// When a program does not start, or two nodes do not find each other.
    pub fn start(counting: &Counting, route: &Route, profile: &Path) -> Result<Server, String> {
        let files = counting.directory()?;
        let roots = write_files(route, files.path())?;
        let (nodes, counted) = match route.setup {
            Setup::TwoNodes(Counted::Asking) => (2, 0),
            Setup::TwoNodes(Counted::Answering) => (2, 1),
            _ => (1, 0),
        };
        let free = || Addresses {
            front: address::free(),
            secure: address::free(),
            admin: address::free(),
            between: address::free(),
        };
        let addresses: Vec<Addresses> = (0..nodes).map(|_| free()).collect();
        let common = Common { counting, route, files: files.path() };
        let mut running = Vec::new();
        for number in 0..nodes {
            let profile = (number == counted).then_some(profile);
            running.push(common.start(number, &addresses, profile)?);
        }
        if nodes > 1 {
            addresses.iter().try_for_each(|node| {
                admin::gather(node.admin, nodes, GATHER, counting.interrupted)
            })?;
        }
        let pid = running[counted].process();
        let callgrind = Callgrind { profile: profile.to_owned(), pid };
        let way = match route.protocol {
            Protocol::Plain => Way::Plain(addresses[0].front),
            Protocol::Tls => Way::Tls(addresses[0].secure, client(roots, b"http/1.1")?),
            Protocol::Http2 => Way::Http2(addresses[0].secure, client(roots, b"h2")?),
        };
        Ok(Server { way, callgrind, _nodes: running, _files: files })
    }
}

impl Counting<'_> {
    fn directory(&self) -> Result<TempDir, String> {
        TempDir::new_in(self.base).map_err(|e| format!("{}: {e}", self.base.display()))
    }

    /// Fails if the counting is to end.
    pub fn check(&self) -> Result<(), String> {
        if self.interrupted.load(Ordering::Relaxed) { Err("interrupted".into()) } else { Ok(()) }
    }
}

impl Common<'_> {
    /// Starts a node, under callgrind if `profile` is given.
    fn start(
        &self,
        number: usize,
        all: &[Addresses],
        profile: Option<&Path>,
    ) -> Result<Running, String> {
        let Counting { program, origin, interrupted, .. } = self.counting;
        let directory = self.counting.directory()?;
        let own = all[number];
        let configuration = directory.path().join("larder.toml");
        let text = self.configuration(own);
        fs::write(&configuration, text).map_err(|e| format!("larder.toml: {e}"))?;
        let mut command = match profile {
            Some(profile) => {
                let mut command = Command::new("valgrind");
                // The fill is not counted, which is faster.
                command.args(["--quiet", "--tool=callgrind", "--instr-atstart=no"]);
                command.arg(format!("--callgrind-out-file={}", profile.display()));
                command.arg(program);
                command
            }
            None => Command::new(program),
        };
        command.arg("serve").arg("--config").arg(configuration);
        command.arg("--cache").arg(directory.path().join("cache"));
        command.args(["--cache-size", "1G", "--workers", "1"]);
        command.args(["--memory", &format!("{}M", self.route.memory_mib)]);
        command.args(["--listen", &own.front.to_string(), "--admin", &own.admin.to_string()]);
        match self.route.setup {
            Setup::Static => command.arg("--static").arg(self.files),
            _ => command.args(["--reverse", &format!("http://{origin}")]),
        };
        match self.route.setup {
            Setup::Fleet | Setup::TwoNodes(_) => self.join(number, all, &mut command),
            Setup::Realistic => {
                command.arg("--access-log").arg(directory.path().join("access.log"));
                command.args(["--log-format", "json"]);
            }
            _ => (),
        }
        let running = Running::launch(command, directory, own.front, interrupted)?;
        admin::await_ready(own.admin, GATHER, interrupted)?;
        Ok(running)
    }

    /// Adds the arguments that make the node part of a fleet.
    fn join(&self, number: usize, all: &[Addresses], command: &mut Command) {
        command.args(["--fleet", &all[number].between.to_string()]);
        command.args(["--fleet-node", &format!("node-{number}")]);
        command.arg("--fleet-key").arg(self.files.join("key"));
        if number > 0 {
            command.args(["--join", &all[0].between.to_string()]);
        }
    }

    /// Returns the text of the configuration.
    fn configuration(&self, own: Addresses) -> String {
        // Read-ahead would turn a varying number of reads, depending on device speed, into hits
        // from memory.
        let mut text = "[store]\nread-unit = \"object\"\n".to_owned();
        let site =
            format!("[[site]]\nhosts = [\"files.test\"]\nroot = {:?}\n", self.files.display());
        match self.route.setup {
            Setup::Bare | Setup::Fleet | Setup::Static => (),
            Setup::Rules(count) => (0..count).for_each(|number| {
                text.push_str(&format!(
                    "[[rule]]\npaths = [\"/other-{number}/*\"]\nttl = \"1h\"\n"
                ));
            }),
            Setup::RulesTogether => text.push_str(&rules_together()),
            Setup::Trust => text.push_str("[forwarded]\ntrust = [\"192.0.2.0/24\"]\n"),
            Setup::Site => text.push_str(&site),
            Setup::TwoNodes(_) => text.push_str(KEPT_BY_OWNERS),
            Setup::Realistic => {
                text.push_str(&site);
                text.push_str(&REALISTIC_RULES.replace("<objects>", "/store/"));
            }
        }
        if self.route.protocol != Protocol::Plain {
            let (address, chain) = (own.secure, self.files.join("chain.pem"));
            text.push_str(&format!("[[listener]]\naddress = \"{address}\"\ntls = true\n"));
            text.push_str(&format!("[[certificate]]\nchain = {:?}\n", chain.display()));
        }
        text
    }
}

/// Returns 1,000 rules. Ten match: they drop parameters, edit fields of the request and of the
/// response, and state lifetimes.
fn rules_together() -> String {
    let edits = [
        "query-drop = [\"utm_*\"]",
        "ttl = \"1h\"",
        "answer-set = [\"X-Seen: yes\"]",
        "request-remove = [\"Cookie\"]",
        "answer-remove = [\"Set-Cookie\"]",
    ];
    let rule = |number: usize| match number % 100 {
        50 => {
            let edit = edits[number / 100 % edits.len()];
            format!("[[rule]]\npaths = [\"/store/*\"]\nthen = \"continue\"\n{edit}\n")
        }
        _ => format!("[[rule]]\npaths = [\"/other-{number}/*\"]\nttl = \"1h\"\n"),
    };
    (0..1_000).map(rule).collect()
}

/// Rules as an operator may have them.
const REALISTIC_RULES: &str = include_str!("../systems/site.toml");

/// Writes the files that the nodes of a route read, and returns the certificates that the client
/// trusts.
fn write_files(route: &Route, directory: &Path) -> Result<RootCertStore, String> {
    let fail = |e: std::io::Error| format!("{}: {e}", directory.display());
    let mut roots = RootCertStore::empty();
    match route.setup {
        Setup::Fleet | Setup::TwoNodes(_) => {
            use std::os::unix::fs::PermissionsExt;
            let path = directory.join("key");
            fs::write(&path, FLEET_KEY).map_err(fail)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(fail)?;
        }
        Setup::Static => {
            for object in 0..route.fill {
                let path = directory.join(route.path(object).trim_start_matches('/'));
                fs::create_dir_all(path.parent().unwrap_or(directory)).map_err(fail)?;
                fs::write(path, origin::body(object, route.size)).map_err(fail)?;
            }
        }
        _ => (),
    }
    if route.protocol != Protocol::Plain {
        let made = rcgen::generate_simple_self_signed(["bench.test".to_owned()]);
        let made = made.map_err(|e| format!("a certificate: {e}"))?;
        roots.add(made.cert.der().clone()).map_err(|e| format!("a certificate: {e}"))?;
        let text = made.cert.pem() + &made.signing_key.serialize_pem();
        fs::write(directory.join("chain.pem"), text).map_err(fail)?;
    }
    Ok(roots)
}

/// Returns a client configuration for TLS 1.3.
fn client(roots: RootCertStore, protocol: &[u8]) -> Result<Arc<ClientConfig>, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]);
    let builder = builder.map_err(|e| format!("TLS 1.3: {e}"))?;
    let mut client = builder.with_root_certificates(roots).with_no_client_auth();
    client.alpn_protocols = vec![protocol.to_vec()];
    Ok(Arc::new(client))
}

/// A program that runs under callgrind.
pub struct Callgrind {
    /// Path prefix of the profiles: each dump appends its number.
    profile: PathBuf,
    pid: u32,
}

impl Callgrind {
    /// Sends a command to callgrind.
    ///
    /// # Errors
    ///
    /// When the program does not accept it.
    pub fn tell(&self, words: &[&str]) -> Result<(), String> {
        let mut command = Command::new("vgdb");
        command.arg(format!("--pid={}", self.pid)).args(words);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.status().map_err(|e| format!("vgdb: {e}"))?;
        if status.success() { Ok(()) } else { Err(format!("vgdb {words:?} failed ({status})")) }
    }

    /// Writes the counts since the last dump, and returns their sum.
    ///
    /// # Errors
    ///
    /// When no profile is written, or it has no sum.
    pub fn dump(&self, number: u64) -> Result<u64, String> {
        self.tell(&["dump"])?;
        let path = format!("{}.{number}", self.profile.display());
        let text = fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        total(&text).ok_or(format!("{path}: no sum in it"))
    }
}

/// Returns the sum of a profile.
fn total(profile: &str) -> Option<u64> {
    profile.lines().rev().find_map(|line| line.strip_prefix("totals:"))?.trim().parse().ok()
}

#[test]
fn the_sum_of_a_profile_is_found() {
    assert_eq!(total("events: Ir\nsummary: 5\n\ntotals: 6\n"), Some(6));
    assert_eq!(total("events: Ir\n"), None);
}
