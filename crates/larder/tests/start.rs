//! Starting and stopping `larder serve`: what it creates, what it rejects, how it ends.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use testkit::client::exchange_bytes;
use testkit::loop_device::{Blocks, LoopDevice};
use testkit::skip::skipped;

/// Longer than any machine needs; only reached if the program hangs.
const PATIENCE: Duration = Duration::from_secs(60);

fn command(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.current_dir(directory).stdin(Stdio::null());
    command
}

fn larder(directory: &Path, arguments: &[&str]) -> Output {
    command(directory).args(arguments).output().expect("the binary runs")
}

/// A running `larder serve` on ports of its own.
struct Server {
    child: Child,
    lines: Receiver<String>,
    /// All output so far.
    said: Vec<String>,
}

impl Server {
    fn start(directory: &Path, arguments: &[&str]) -> Server {
        let mut child = command(directory)
            .args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let (send, lines) = channel();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let mut server = Server { child, lines, said: Vec::new() };
        server.wait_for("ready: ");
        server
    }

    /// Waits for a line that contains `text` and returns it.
    fn wait_for(&mut self, text: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("no {text:?} in {:#?}", self.said));
            self.said.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    fn says(&self, text: &str) -> bool {
        self.said.iter().any(|line| line.contains(text))
    }

    /// Returns the address after `before` in the ready line.
    fn address(&self, before: &str) -> String {
        let ready = self.said.iter().find(|line| line.contains("ready: ")).expect("ready");
        let (_, rest) = ready.split_once(before).expect(before);
        rest.split(',').next().expect("an address").to_owned()
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &pid]).status().expect("kill runs");
        assert!(status.success());
    }

    fn stop(self, signal: &str) -> (ExitStatus, Vec<String>) {
        self.signal(signal);
        self.wait()
    }

    /// Waits for its end; returns all output.
    fn wait(mut self) -> (ExitStatus, Vec<String>) {
        let status = self.child.wait().expect("it ends");
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.said.push(line);
        }
        (status, std::mem::take(&mut self.said))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // No effect on a process that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn get(address: &str, target: &str) -> String {
    let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let to = address.parse().expect("an address");
    // The admin interface gives up a client that ends its side.
    let heard = exchange_bytes(to, &[request], |_, _| (), (Some(PATIENCE), PATIENCE));
    String::from_utf8(heard.bytes).expect("UTF-8")
}

#[test]
fn a_demo_has_an_origin_server_and_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::start(dir.path(), &["--demo"]);
    let (proxy, admin) = (server.address(") on "), server.address("admin on "));
    assert!(get(&proxy, "/hello").contains("Hello from the origin server: /hello"));
    assert!(get(&proxy, "/hello").contains("larder; hit"));
    let told = get(&admin, &format!("/explain?url=http://{proxy}/hello"));
    assert!(told.contains("answer from the cache"), "{told}");
    let status = larder(dir.path(), &["status", "--admin", &admin]);
    let screen = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.status.success() && screen.starts_with("state "), "{screen}");
    let (_, rest) = server.said.iter().find_map(|line| line.split_once(" cache ")).expect("cache");
    let cache = rest.split(':').next().expect("a path").to_owned();
    assert!(Path::new(&cache).exists(), "{cache}");
    assert!(server.stop("-TERM").0.success());
    assert!(!Path::new(&cache).exists() && fs::read_dir(dir.path()).expect("read").count() == 0);
    assert_eq!(larder(dir.path(), &["status", "--admin", &admin]).status.code(), Some(1));
}

#[track_caller]
fn expect_failure(output: &Output, code: i32, parts: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "{part:?} is not in {stderr}");
    }
}

const SERVE: [&str; 5] = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];

fn serve_fails(directory: &Path, arguments: &[&str]) -> Output {
    larder(directory, &[&SERVE, arguments].concat())
}

#[test]
fn it_creates_its_cache_serves_and_ends_in_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::start(dir.path(), &["--cache-size", "16M"]);
    let cache = fs::metadata(dir.path().join("larder.cache")).expect("created");
    assert_eq!(cache.len(), 16 << 20);
    assert!(cache.blocks() * 512 >= 16 << 20, "not preallocated: {} blocks", cache.blocks());
    assert_eq!(cache.permissions().mode() & 0o777, 0o600);
    let admin = server.address("admin on ");
    assert!(get(&admin, "/healthz").starts_with("HTTP/1.1 200 "));
    assert!(get(&admin, "/readyz").starts_with("HTTP/1.1 200 "));
    let metrics = get(&admin, "/metrics");
    assert!(metrics.contains("larder_cache_bytes{cache=\"larder.cache\"} 16777216\n"), "{metrics}");
    let answer = get(&server.address("forward proxy on "), "/");
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    let (status, said) = server.stop("-TERM");
    assert_eq!(status.code(), Some(0), "{said:#?}");
    assert!(said.iter().any(|line| line.contains("everything is saved")), "{said:#?}");
    // A second start on the existing cache; SIGINT ends it as well.
    let server = Server::start(dir.path(), &[]);
    assert!(!server.says("creating"), "{:#?}", server.said);
    let (status, said) = server.stop("-INT");
    assert_eq!(status.code(), Some(0), "{said:#?}");
}

#[test]
fn the_size_that_it_chose_is_said() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::start(dir.path(), &["--cache", "a.cache", "--memory", "512M"]);
    assert!(server.says("a.cache: creating a cache of "), "{:#?}", server.said);
}

#[test]
fn a_second_process_on_the_same_cache_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let _server = Server::start(dir.path(), &["--cache-size", "16M"]);
    let output = serve_fails(dir.path(), &[]);
    expect_failure(&output, 1, &["larder.cache: in use by another process"]);
}

#[test]
fn a_second_process_on_the_same_address_is_refused_and_creates_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::start(dir.path(), &["--cache-size", "16M"]);
    let address = server.address("forward proxy on ");
    let arguments = ["serve", "--listen", &address, "--admin", "off", "--cache", "other.cache"];
    let output = larder(dir.path(), &arguments);
    let message = format!("cannot listen on {address}: ");
    expect_failure(&output, 1, &[&message, "another process listens there"]);
    assert!(!dir.path().join("other.cache").exists());
}

#[test]
fn what_is_not_a_cache_is_refused_with_the_way_out() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("larder.cache");
    fs::write(&path, "my thesis").expect("written");
    let output = serve_fails(dir.path(), &["--cache-size", "16M"]);
    expect_failure(&output, 1, &["larder.cache: ", "larder format --force larder.cache"]);
    assert_eq!(fs::read(&path).expect("still there"), b"my thesis");
    let output = larder(dir.path(), &["format", "larder.cache", "--cache-size", "16M"]);
    expect_failure(&output, 1, &["larder.cache: ", "--force"]);
    assert_eq!(fs::read(&path).expect("still there"), b"my thesis");
    let force = ["format", "larder.cache", "--cache-size", "16M", "--force"];
    assert!(larder(dir.path(), &force).status.success());
    let server = Server::start(dir.path(), &[]);
    assert!(server.says("cache larder.cache: 16M, 0% full"), "{:#?}", server.said);
}

/// Offsets of the two superblocks in a cache of 16 MiB.
const SUPERBLOCKS: [u64; 2] = [0, (16 << 20) - (64 << 10)];

#[test]
fn another_format_version_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("larder.cache");
    assert!(
        larder(dir.path(), &["format", "larder.cache", "--cache-size", "16M"]).status.success()
    );
    let file = fs::File::options().read(true).write(true).open(&path).expect("opened");
    for offset in SUPERBLOCKS {
        file.write_all_at(&99_u32.to_le_bytes(), offset + 8).expect("written");
    }
    let output = serve_fails(dir.path(), &[]);
    expect_failure(&output, 1, &["format version 99", "larder format --force"]);
}

#[test]
fn with_both_superblocks_bad_it_serves_without_caching_and_overwrites_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("larder.cache");
    assert!(
        larder(dir.path(), &["format", "larder.cache", "--cache-size", "16M"]).status.success()
    );
    let file = fs::File::options().read(true).write(true).open(&path).expect("opened");
    for offset in SUPERBLOCKS {
        file.write_all_at(&[0x55; 64], offset + 64).expect("written");
    }
    let before = fs::read(&path).expect("read");
    let server = Server::start(dir.path(), &[]);
    assert!(server.says("SERVING WITHOUT CACHING"), "{:#?}", server.said);
    let admin = server.address("admin on ");
    // It serves; a balancer that took it out would turn a slow site into an unreachable one.
    let ready = get(&admin, "/readyz");
    assert!(ready.starts_with("HTTP/1.1 200 "), "{ready}");
    assert!(ready.ends_with("ready, but no cache can be used: nothing is stored\n"), "{ready}");
    let metrics = get(&admin, "/metrics");
    assert!(metrics.contains("larder_cache_online{cache=\"larder.cache\"} 0\n"), "{metrics}");
    let (status, said) = server.stop("-TERM");
    assert_eq!(status.code(), Some(0), "{said:#?}");
    assert!(fs::read(&path).expect("read") == before, "the damaged cache was written to");
}

#[test]
fn one_bad_superblock_is_restored_from_the_other() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("larder.cache");
    assert!(
        larder(dir.path(), &["format", "larder.cache", "--cache-size", "16M"]).status.success()
    );
    let file = fs::File::options().write(true).open(&path).expect("opened");
    file.write_all_at(&[0x55; 64], 64).expect("written");
    let server = Server::start(dir.path(), &[]);
    assert!(server.says("one superblock was damaged"), "{:#?}", server.said);
    assert!(!server.says("WITHOUT CACHING"), "{:#?}", server.said);
}

#[test]
fn one_of_two_caches_may_be_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    for name in ["a.cache", "b.cache"] {
        assert!(larder(dir.path(), &["format", name, "--cache-size", "16M"]).status.success());
    }
    let file = fs::File::options().write(true).open(dir.path().join("a.cache")).expect("opened");
    for offset in SUPERBLOCKS {
        file.write_all_at(&[0x55; 64], offset + 64).expect("written");
    }
    let server = Server::start(dir.path(), &["--cache", "a.cache", "--cache", "b.cache"]);
    assert!(server.says("cache a.cache: NOT IN USE"), "{:#?}", server.said);
    assert!(server.says("cache b.cache: 16M"), "{:#?}", server.said);
}

#[test]
fn a_creation_that_was_cut_short_is_repeated() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("larder.cache");
    let mut mark = b"LARDER: a creation has begun and not ended\n".to_vec();
    mark.resize(4096, 0);
    for len in [4096, 16 << 20] {
        fs::write(&path, &mark).expect("written");
        fs::File::options().write(true).open(&path).and_then(|f| f.set_len(len)).expect("sized");
        let server = Server::start(dir.path(), &["--cache-size", "16M"]);
        assert!(server.says("its creation was interrupted"), "{:#?}", server.said);
        assert!(server.says("cache larder.cache: 16M"), "{:#?}", server.said);
    }
}

#[test]
fn copies_of_one_cache_are_not_used_and_a_second_name_is_used_once() {
    let dir = tempfile::tempdir().expect("a directory");
    assert!(larder(dir.path(), &["format", "a.cache", "--cache-size", "16M"]).status.success());
    let [a, copy, link] = ["a.cache", "copy", "link"].map(|name| dir.path().join(name));
    fs::copy(&a, copy).expect("copied");
    let server = Server::start(dir.path(), &["--cache", "a.cache", "--cache", "copy"]);
    for (cache, other) in [("a.cache", "copy"), ("copy", "a.cache")] {
        let line = format!("cache {cache}: NOT IN USE: it has the same identity as {other}");
        assert!(server.says(&line), "{:#?}", server.said);
    }
    assert!(server.says("SERVING WITHOUT CACHING"), "{:#?}", server.said);
    drop(server);
    fs::hard_link(&a, link).expect("linked");
    let server = Server::start(dir.path(), &["--cache", "a.cache", "--cache", "link"]);
    let line = "cache link: NOT IN USE: it is the same file as a.cache";
    assert!(server.says(line) && server.says("cache a.cache: 16M"), "{:#?}", server.said);
}

#[test]
fn a_file_that_is_removed_under_it_is_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = Server::start(dir.path(), &["--cache-size", "16M"]);
    fs::remove_file(dir.path().join("larder.cache")).expect("removed");
    server.wait_for("cache larder.cache: its file was removed while it is in use");
    let ready = get(&server.address("admin on "), "/readyz");
    let expected = "ready, but cache larder.cache: its file was removed";
    assert!(ready.starts_with("HTTP/1.1 200") && ready.contains(expected), "{ready}");
}

#[test]
fn a_limit_on_file_sizes_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = env!("CARGO_BIN_EXE_larder");
    let line = format!("ulimit -f 8192; exec {program} {} --cache-size 16M", SERVE.join(" "));
    let mut limited = Command::new("bash");
    let output = limited.args(["-c", &line]).current_dir(dir.path()).output().expect("it runs");
    let limit = "may write no file beyond 8388608 bytes";
    expect_failure(&output, 1, &["larder.cache: a file of 16777216 bytes", limit]);
    assert!(!dir.path().join("larder.cache").exists());
}

#[test]
fn on_a_read_only_file_system_it_serves_without_a_cache() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir(dir.path().join("ro")).expect("made");
    let program = env!("CARGO_BIN_EXE_larder");
    let check = format!("exec {program} check-config larder.toml");
    fs::write(dir.path().join("larder.toml"), "cache = 'ro/cache'\ncache-size = '16M'\n")
        .expect("written");
    let in_mount = |line: &str| {
        let line = format!("mount -t tmpfs -o ro none ro || exit 77; {line}");
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &line]).current_dir(dir.path()).output()
    };
    let Ok(output) = in_mount(&check) else { return };
    if output.status.code() == Some(77) || !Path::new("/proc/self/ns/mnt").exists() {
        return skipped("nothing can be mounted here");
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("unshare") {
        return skipped(&said);
    }
    assert!(output.status.success() && said.contains("is read-only"), "{said}");
    let serve = format!("timeout 3 {program} {} --config larder.toml", SERVE.join(" "));
    let output = in_mount(&serve).expect("it ran before");
    let said = String::from_utf8_lossy(&output.stderr);
    for part in ["cache ro/cache: NOT IN USE: its file system is read-only", "ready: "] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
}

#[test]
fn a_cache_grows_but_does_not_shrink() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("larder.cache");
    assert!(
        larder(dir.path(), &["format", "larder.cache", "--cache-size", "16M"]).status.success()
    );
    let server = Server::start(dir.path(), &["--cache-size", "32M"]);
    assert!(server.says("cache larder.cache: 32M"), "{:#?}", server.said);
    assert_eq!(fs::metadata(&path).expect("there").len(), 32 << 20);
    assert_eq!(server.stop("-TERM").0.code(), Some(0));
    let server = Server::start(dir.path(), &["--cache-size", "16M"]);
    assert!(server.says("cannot shrink to 16M"), "{:#?}", server.said);
    assert_eq!(fs::metadata(&path).expect("there").len(), 32 << 20);
}

#[test]
fn a_cache_that_does_not_fit_is_refused_with_needed_and_free_bytes() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = serve_fails(dir.path(), &["--cache-size", "10T", "--memory", "64G"]);
    expect_failure(&output, 1, &["larder.cache: ", "bytes free"]);
    assert!(!dir.path().join("larder.cache").exists());
}

#[test]
fn an_index_beyond_half_the_memory_is_refused_with_the_figures() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = serve_fails(dir.path(), &["--cache-size", "1T", "--memory", "16M"]);
    expect_failure(&output, 1, &["more than half of the 16M of memory", "--memory "]);
    assert!(!dir.path().join("larder.cache").exists());
}

#[test]
fn a_reload_takes_over_what_it_can_and_names_the_rest() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("larder.toml");
    fs::write(&file, "cache-size = '16M'\n").expect("written");
    let log = ["--access-log", "access.log"];
    let mut server = Server::start(dir.path(), &[&["--config", "larder.toml"][..], &log].concat());
    fs::write(&file, "cache-size = '16M'\nmemory = '64M'\ndrain = '5s'\n").expect("written");
    fs::rename(dir.path().join("access.log"), dir.path().join("access.log.1")).expect("renamed");
    server.signal("-HUP");
    assert!(server.wait_for("reload: now in effect").ends_with(": drain"));
    assert!(server.wait_for("only after a restart").ends_with(": memory"));
    fs::write(&file, "memory = 'much'\n").expect("written");
    server.signal("-HUP");
    server.wait_for("larder.toml:1: memory: expected");
    server.wait_for("the configuration is unchanged");
    let (status, said) = server.stop("-TERM");
    assert_eq!(status.code(), Some(0), "{said:#?}");
    assert!(said.iter().any(|line| line.contains("have 5s to finish")), "{said:#?}");
    assert!(dir.path().join("access.log").exists());
}

/// Sends a request that its origin receives and does not answer.
fn hanging_request(server: &Server, origin: &TcpListener) -> (TcpStream, TcpStream) {
    let address = origin.local_addr().expect("bound");
    let mut client = TcpStream::connect(server.address("forward proxy on ")).expect("connected");
    client.set_read_timeout(Some(PATIENCE)).expect("set");
    let head = format!("GET http://{address}/ HTTP/1.1\r\nHost: {address}\r\n\r\n");
    client.write_all(head.as_bytes()).expect("sent");
    let (mut upstream, _) = origin.accept().expect("the proxy comes");
    upstream.set_read_timeout(Some(PATIENCE)).expect("set");
    let _ = upstream.read(&mut [0; 4096]).expect("a request");
    (client, upstream)
}

#[test]
fn what_runs_when_the_signal_comes_gets_its_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let origin = TcpListener::bind("127.0.0.1:0").expect("bound");
    let mut server = Server::start(dir.path(), &["--cache-size", "16M"]);
    let (mut client, mut upstream) = hanging_request(&server, &origin);
    server.signal("-TERM");
    server.wait_for("SIGTERM: stopping");
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    upstream.write_all(answer.as_bytes()).expect("sent");
    let mut got = String::new();
    client.read_to_string(&mut got).expect("the answer, then the end");
    assert!(got.starts_with("HTTP/1.1 200 ") && got.ends_with("\r\n\r\nhello"), "{got}");
    assert_eq!(server.wait().0.code(), Some(0));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let origin = TcpListener::bind("127.0.0.1:0").expect("bound");
    let mut server = Server::start(dir.path(), &["--cache-size", "16M"]);
    let _held = hanging_request(&server, &origin);
    server.signal("-TERM");
    server.wait_for("SIGTERM: stopping");
    let (status, said) = server.stop("-INT");
    assert_eq!(status.code(), Some(128 + 2), "{said:#?}");
}

#[test]
fn a_blank_block_device_is_taken_and_one_with_a_file_system_is_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let device = match LoopDevice::over(&dir.path().join("image"), 32 << 20, Blocks::Sparse) {
        Ok(device) => device,
        Err(why) => return skipped(&format!("no block device: {why}")),
    };
    let device = device.path().to_str().expect("UTF-8");
    let server = Server::start(dir.path(), &["--cache", device]);
    assert!(server.says(&format!("cache {device}: 32M")), "{:#?}", server.said);
    assert_eq!(server.stop("-TERM").0.code(), Some(0));
    let server = Server::start(dir.path(), &["--cache", device]);
    assert!(!server.says("creating"), "{:#?}", server.said);
    assert_eq!(server.stop("-TERM").0.code(), Some(0));
    let made = Command::new("mkfs.ext4").args(["-q", "-F", device]).status();
    if !made.is_ok_and(|status| status.success()) {
        return skipped("the half with a file system, as there is no mkfs.ext4");
    }
    let output = serve_fails(dir.path(), &["--cache", device]);
    expect_failure(&output, 1, &["file system", "larder format --force"]);
}

#[test]
fn started_as_root_it_becomes_the_user() {
    let dir = tempfile::tempdir().expect("a directory");
    let id = Command::new("id").arg("-u").output().expect("id runs");
    if id.stdout.trim_ascii() != b"0" {
        let output = serve_fails(dir.path(), &["--user", "root", "--cache-size", "16M"]);
        expect_failure(&output, 2, &["only root can become user \"root\""]);
        return skipped("becoming another user needs root");
    }
    // Files that the user cannot open are reported at once, not by the upgrade that fails.
    let closed = fs::Permissions::from_mode(0o700);
    fs::set_permissions(dir.path(), closed).expect("set");
    let server = Server::start(dir.path(), &["--user", "nobody", "--cache-size", "16M"]);
    assert!(server.says("nobody cannot open it, so no upgrade will"), "{:#?}", server.said);
    assert_eq!(server.stop("-TERM").0.code(), Some(0));
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("set");
    // A cache that root created before a user was configured.
    let cache = dir.path().join("larder.cache");
    std::os::unix::fs::chown(&cache, Some(0), Some(0)).expect("given back");
    let server = Server::start(dir.path(), &["--user", "nobody", "--cache-size", "16M"]);
    assert!(!server.says("cannot open it"), "{:#?}", server.said);
    assert_ne!(fs::metadata(&cache).expect("there").uid(), 0, "an upgrade opens it as the user");
    let status = fs::read_to_string(format!("/proc/{}/status", server.child.id())).expect("read");
    let uids = status.lines().find(|line| line.starts_with("Uid:")).expect("uids");
    assert!(uids.split_whitespace().skip(1).all(|uid| uid != "0"), "{uids}");
    assert!(!server.says("running as root"), "{:#?}", server.said);
    assert_eq!(server.stop("-TERM").0.code(), Some(0));
}
