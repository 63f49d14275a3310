//! Installs the packages, each in a root of its own, starts larder there, and removes them.
//!
//! Each has to serve a miss and then a hit over loopback. The tarball runs in a root with nothing
//! but devices of random bytes, as `larder serve --demo`, and is the origin server of the others.
//! The image runs in namespaces, as its own user. The deb and the rpm are installed in a system of
//! Debian; their removal must leave nothing. The chart is rendered and validated, and so is the
//! compose file. What this machine cannot try is skipped, and said.

pub mod chart;
pub mod compose;
mod root;
mod running;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use serde_json::Value;

use crate::workspace;
use crate::workspace::{at, is_installed, output};
use root::Root;
use running::Running;

/// The release of Debian in which packages are tried.
const RELEASE: &str = "bookworm";

/// The packages to try.
#[derive(Args)]
pub struct Options {
    /// The folder that `cargo xtask package` wrote.
    pub folder: PathBuf,
}

/// Tries all packages.
///
/// # Errors
///
/// The first failure.
pub fn run(options: &Options) -> Result<(), String> {
    for skipped in [chart::check()?, compose::check()?].into_iter().flatten() {
        println!("{skipped}");
    }
    let mut id = Command::new("id");
    id.arg("-u");
    if output(id)?.trim() != "0" {
        println!("SKIPPED: all packages: chroot wants the rights of root");
        return Ok(());
    }
    let package = |suffix: &str| find(&options.folder, suffix);
    let mut origin = tarball(&package(".tar.gz")?)?;
    let upstream = origin.first_line_after("curl -si ")?;
    let upstream = upstream.trim_end_matches("/hello").to_owned();
    hit("tarball", &upstream)?;
    image(&package(".oci.tar")?, &upstream)?;
    if let Some(tool) = ["mmdebstrap", "dpkg"].iter().find(|tool| !is_installed(tool)) {
        println!("SKIPPED: deb and rpm: {tool} is not installed");
        return Ok(());
    }
    let system = Root::of_debian(RELEASE)?;
    deb(&system, &package(".deb")?, &upstream)?;
    match is_installed("rpm") {
        true => rpm(&system, &package(".rpm")?, &upstream),
        false => {
            println!("SKIPPED: rpm: rpm is not installed");
            Ok(())
        }
    }
}

/// Starts the demo of the tarball in a root of its own, as an unprivileged user.
fn tarball(path: &Path) -> Result<Running, String> {
    let root = Root::empty()?;
    root.unpack_gz(&read(path)?)?;
    let folder = root.only_entry()?;
    root.make_directory("tmp", 0o1777, 0)?;
    root.make_random_devices()?;
    let mut command = root.command(&[], 65534, &format!("/{}/larder", folder));
    command.args(["serve", "--demo"]);
    Running::start(command, Some(root))
}

/// Runs the image's entry point and its health check as its user.
fn image(path: &Path, upstream: &str) -> Result<(), String> {
    let layout = Root::empty()?;
    layout.unpack(&read(path)?)?;
    let blob = |digest: &Value| {
        let digest = digest.as_str().unwrap_or_default().replace(':', "/");
        read(&layout.path().join("blobs").join(digest))
    };
    let index = json(&read(&layout.path().join("index.json"))?)?;
    let manifest = json(&blob(&index["manifests"][0]["digest"])?)?;
    let config = json(&blob(&manifest["config"]["digest"])?)?;
    let root = Root::empty()?;
    root.unpack_gz(&blob(&manifest["layers"][0]["digest"])?)?;
    root.make_random_devices()?;
    let words = |list: &Value| -> Vec<String> {
        let words = list.as_array().into_iter().flatten();
        words.filter_map(|word| Some(word.as_str()?.to_owned())).collect()
    };
    let user = config["config"]["User"].as_str().unwrap_or_default();
    let user = user.split(':').next().and_then(|id| id.parse().ok()).ok_or("image: no user")?;
    let (entry, check) =
        (words(&config["config"]["Entrypoint"]), words(&config["config"]["Healthcheck"]["Test"]));
    let namespaces = ["unshare", "--mount", "--ipc", "--uts"];
    let addresses = Addresses::free()?;
    let mut command = root.command(&namespaces, user, &entry[0]);
    command.args(&entry[1..]).envs(addresses.variables(upstream));
    let running = Running::start(command, None)?;
    hit("image", &addresses.url())?;
    let mut command = root.command(&[], user, &check[1]);
    command.args(&check[2..]).envs(addresses.variables(upstream));
    println!("image: health check: {}", output(command)?.trim());
    running.stop()
}

/// Installs, starts and purges the deb.
fn deb(system: &Root, path: &Path, upstream: &str) -> Result<(), String> {
    let before = system.paths()?;
    system.copy(path, "larder.deb")?;
    workspace::succeed(system.root_command("dpkg", &["--install", "/larder.deb"]))?;
    let unit = "etc/systemd/system/multi-user.target.wants/larder.service";
    if fs::symlink_metadata(system.path().join(unit)).is_err() {
        return Err("deb: the service is not enabled".to_owned());
    }
    service("deb", system, upstream)?;
    workspace::succeed(system.root_command("dpkg", &["--purge", "larder"]))?;
    system.remove("larder.deb")?;
    left_nothing("deb", system, &before)
}

/// Installs, starts and removes the rpm.
fn rpm(system: &Root, path: &Path, upstream: &str) -> Result<(), String> {
    let rpm = |words: &[&str]| {
        let mut command = Command::new("rpm");
        command.arg("--root").arg(system.path()).args(words);
        command
    };
    workspace::succeed(rpm(&["--initdb"]))?;
    // Debian lacks the folders that base packages of other distributions own.
    for folder in ["fish/vendor_completions.d", "licenses", "zsh/site-functions"] {
        system.make_directory(&format!("usr/share/{folder}"), 0o755, 0)?;
    }
    let before = system.paths()?;
    // The system's own packages are unknown to rpm.
    let mut install = rpm(&["--install", "--nodeps"]);
    install.arg(path);
    workspace::succeed(install)?;
    service("rpm", system, upstream)?;
    workspace::succeed(rpm(&["--erase", "larder"]))?;
    left_nothing("rpm", system, &before)
}

/// Starts the installed larder as its service does, with its configuration and its user.
fn service(what: &str, system: &Root, upstream: &str) -> Result<(), String> {
    let user = system.user("larder")?.ok_or_else(|| format!("{what}: no user larder"))?;
    system.make_directory("var/lib/larder", 0o700, user)?;
    let addresses = Addresses::free()?;
    let mut command = system.command(&[], user, "/usr/bin/larder");
    command.args(["serve", "--config", "/etc/larder/larder.toml"]);
    command.envs(addresses.variables(upstream));
    let running = Running::start(command, None)?;
    hit(what, &addresses.url())?;
    running.stop()
}

fn left_nothing(what: &str, system: &Root, before: &[String]) -> Result<(), String> {
    let after = system.paths()?;
    let left: Vec<_> = after.iter().filter(|path| before.binary_search(path).is_err()).collect();
    if !left.is_empty() || system.user("larder")?.is_some() {
        return Err(format!("{what}: the removal leaves the user or files: {left:?}"));
    }
    println!("{what}: the removal leaves nothing");
    Ok(())
}

/// Free ports of this machine, for clients and for the admin interface.
struct Addresses(u16, u16);

impl Addresses {
    fn free() -> Result<Addresses, String> {
        let bind = || std::net::TcpListener::bind("127.0.0.1:0");
        let ports = bind().and_then(|one| {
            let two = bind()?;
            Ok(Addresses(one.local_addr()?.port(), two.local_addr()?.port()))
        });
        ports.map_err(|error| format!("no free port: {error}"))
    }

    /// Returns the variables of a reverse proxy with a small cache at these addresses.
    fn variables(&self, upstream: &str) -> [(&'static str, String); 4] {
        [
            ("LARDER_LISTEN", format!("127.0.0.1:{}", self.0)),
            ("LARDER_ADMIN", format!("127.0.0.1:{}", self.1)),
            ("LARDER_REVERSE", upstream.to_owned()),
            ("LARDER_CACHE_SIZE", "64M".to_owned()),
        ]
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.0)
    }
}

/// Requests a page twice; the second response has to be a hit.
fn hit(what: &str, url: &str) -> Result<(), String> {
    let address = url.trim_start_matches("http://");
    // A path of its own, so that the hit is that of this larder.
    let path = format!("/{what}");
    let first = running::get(address, &path)?;
    let second = running::get(address, &path)?;
    let is_hit = |head: &str| head.to_ascii_lowercase().contains("larder; hit; ttl=");
    if !first.starts_with("HTTP/1.1 200") || is_hit(&first) || !is_hit(&second) {
        return Err(format!("{what}: expected a miss and a hit, got\n{first}\n{second}"));
    }
    println!("{what}: a miss, then a hit");
    Ok(())
}

fn find(folder: &Path, suffix: &str) -> Result<PathBuf, String> {
    let entries = fs::read_dir(folder).map_err(|error| at(folder, &error))?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    let path = paths.find(|path| path.to_string_lossy().ends_with(suffix));
    path.ok_or_else(|| format!("{}: no package *{suffix}", folder.display()))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| at(path, &error))
}

fn json(bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("image: {error}"))
}
