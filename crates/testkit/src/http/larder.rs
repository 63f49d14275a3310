//! The program under test: `larder serve` with start parameters of a test.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::address;
use crate::client::{Client, Reply, Request, get, request};
use crate::io::{PATIENCE, eventually};
use crate::program::built;

/// Returns the path of `larder`: that in `LARDER_PROGRAM`, for example a static one, or that which
/// cargo built.
pub fn larder_path() -> PathBuf {
    std::env::var_os("LARDER_PROGRAM").map_or_else(|| built("larder"), PathBuf::from)
}

/// Returns a command that runs `larder`.
pub fn larder_command() -> Command {
    Command::new(larder_path())
}

/// Waits until `address` accepts connections; returns false if `child` ends or the time is up.
pub fn await_listener(child: &mut Child, address: SocketAddr) -> bool {
    let is_over = |child: &mut Child| child.try_wait().is_ok_and(|ended| ended.is_some());
    eventually(|| is_over(child) || TcpStream::connect(address).is_ok()) && !is_over(child)
}

/// Start parameters of `larder serve`: a directory of its own, addresses, flags. Starting it twice
/// runs it on the same cache again.
pub struct Setup {
    directory: TempDir,
    /// Directory for memory that outlives a killed process, where there is a tmpfs.
    shared_memory: Option<TempDir>,
    listen: SocketAddr,
    admin: SocketAddr,
    flags: Vec<String>,
    descriptors: Option<u32>,
    cache: Option<PathBuf>,
    program: PathBuf,
}

impl Setup {
    /// Returns a forward proxy with a small cache.
    pub fn forward() -> Setup {
        Setup {
            directory: TempDir::new().expect("a temporary directory"),
            shared_memory: TempDir::new_in("/dev/shm").ok(),
            listen: address::free(),
            admin: address::free(),
            flags: Vec::new(),
            descriptors: None,
            cache: None,
            program: larder_path(),
        }
        .flag("cache-size", "64M")
        .flag("memory", "32M")
    }

    /// Returns a reverse proxy for `upstream`.
    pub fn reverse(upstream: &str) -> Setup {
        Setup::forward().flag("reverse", upstream)
    }

    /// Sets a flag, replacing an earlier one of that name.
    pub fn flag(mut self, name: &str, value: &str) -> Setup {
        let name = format!("--{name}");
        if let Some(at) = self.flags.iter().position(|f| *f == name) {
            self.flags.drain(at..at + 2);
        }
        self.flags.extend([name, value.to_owned()]);
        self
    }

    /// Removes a flag.
    pub fn without(mut self, name: &str) -> Setup {
        let name = format!("--{name}");
        if let Some(at) = self.flags.iter().position(|f| *f == name) {
            self.flags.drain(at..at + 2);
        }
        self
    }

    /// Adds a flag that may be given several times.
    pub fn more(mut self, name: &str, value: &str) -> Setup {
        self.flags.extend([format!("--{name}"), value.to_owned()]);
        self
    }

    /// Writes a configuration file and uses it.
    pub fn config(self, text: &str) -> Setup {
        let path = self.path("larder.toml");
        fs::write(&path, text).expect("the configuration can be written");
        let path = path.display().to_string();
        self.flag("config", &path)
    }

    /// Limits the file descriptors of the process.
    pub fn descriptors(mut self, limit: u32) -> Setup {
        self.descriptors = Some(limit);
        self
    }

    /// Replaces the cache file in the directory.
    pub fn cache_at(mut self, path: &Path) -> Setup {
        self.cache = Some(path.to_path_buf());
        self
    }

    /// Replaces the program.
    pub fn program(mut self, path: &Path) -> Setup {
        self.program = path.to_path_buf();
        self
    }

    /// Replaces the address on which it serves.
    pub fn listen(mut self, address: SocketAddr) -> Setup {
        self.listen = address;
        self
    }

    /// Replaces the address of the admin interface.
    pub fn admin_at(mut self, address: SocketAddr) -> Setup {
        self.admin = address;
        self
    }

    /// Returns the address on which it serves.
    pub fn address(&self) -> SocketAddr {
        self.listen
    }

    /// Returns the address of the admin interface.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Returns its directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns a path in the directory of this setup.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the file or device of the cache.
    pub fn cache(&self) -> PathBuf {
        self.cache.clone().unwrap_or_else(|| self.path("cache"))
    }

    fn command(&self) -> Command {
        let mut words: Vec<String> = Vec::new();
        if let Some(limit) = self.descriptors {
            let script = format!("ulimit -n {limit} && exec \"$@\"");
            words.extend(["sh".into(), "-c".into(), script, "sh".into()]);
        }
        words.push(self.program.display().to_string());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("serve");
        command.args(["--listen", &self.listen.to_string(), "--admin", &self.admin.to_string()]);
        command.arg("--cache").arg(self.cache()).args(&self.flags);
        if let Some(directory) = &self.shared_memory {
            command.env("RUNTIME_DIRECTORY", directory.path());
        }
        command.current_dir(self.directory.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts the program without waiting for anything.
    pub fn launch(&self) -> Larder {
        let mut child = self.command().spawn().expect("the program can be started");
        let said = Arc::new(Output::default());
        said.collect(child.stdout.take().expect("piped"));
        said.collect(child.stderr.take().expect("piped"));
        Larder { child: Some(child), address: self.listen, admin: self.admin, said }
    }

    /// Starts the program and waits until it is ready.
    #[track_caller]
    pub fn start(&self) -> Larder {
        let mut larder = self.launch();
        assert!(larder.await_ready(), "did not become ready; it said:\n{}", larder.said());
        larder
    }

    /// Starts the program, expecting that it refuses to run; returns its status and its output.
    #[track_caller]
    pub fn refused(&self) -> (ExitStatus, String) {
        let mut larder = self.launch();
        let status = larder.await_exit();
        let status = status.unwrap_or_else(|| panic!("it runs; it said:\n{}", larder.said()));
        // Its output ends with it, but the readers may lag far behind on a busy machine.
        (status, larder.said.wait(PATIENCE, |(_, open)| *open == 0))
    }
}

/// The output of a process, for messages and for tests of messages.
#[derive(Default)]
struct Output {
    /// The text so far, and the number of streams that are open.
    said: Mutex<(String, usize)>,
    changed: Condvar,
}

impl Output {
    fn collect(self: &Arc<Self>, stream: impl std::io::Read + Send + 'static) {
        let output = self.clone();
        output.change(|(_, open)| *open += 1);
        thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                output.change(|(text, _)| {
                    text.push_str(&line);
                    text.push('\n');
                });
            }
            output.change(|(_, open)| *open -= 1);
        });
    }

    fn change(&self, change: impl FnOnce(&mut (String, usize))) {
        change(&mut self.said.lock().expect("nothing panics under this lock"));
        self.changed.notify_all();
    }

    /// Waits for an output for at most this time; returns it as far as it was written.
    fn wait(&self, longest: Duration, is_enough: impl Fn(&(String, usize)) -> bool) -> String {
        let said = self.said.lock().expect("nothing panics under this lock");
        let waited = self.changed.wait_timeout_while(said, longest, |said| !is_enough(said));
        waited.expect("nothing panics under this lock").0.0.clone()
    }
}

/// A running `larder serve`, killed on drop.
pub struct Larder {
    child: Option<Child>,
    address: SocketAddr,
    admin: SocketAddr,
    said: Arc<Output>,
}

impl Larder {
    /// Returns the address on which it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of its admin interface.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Returns its output so far.
    pub fn said(&self) -> String {
        // The readers lag behind the process.
        self.said.wait(Duration::from_millis(50), |(_, open)| *open == 0)
    }

    /// Waits until its output contains `text`.
    pub fn says(&self, text: &str) -> bool {
        self.said.wait(PATIENCE, |(said, _)| said.contains(text)).contains(text)
    }

    /// Returns its process id.
    pub fn pid(&self) -> Pid {
        let child = self.child.as_ref().expect("it runs");
        Pid::from_child(child)
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("our own child can be signalled");
    }

    fn await_ready(&mut self) -> bool {
        let admin = self.admin;
        let child = self.child.as_mut().expect("it runs");
        eventually(|| {
            child.try_wait().is_ok_and(|s| s.is_some())
                || get("/readyz")
                    .header("Host", "localhost")
                    .try_send(admin)
                    .is_ok_and(|r| r.status == 200)
        }) && child.try_wait().is_ok_and(|s| s.is_none())
    }

    /// Waits for its end.
    pub fn await_exit(&mut self) -> Option<ExitStatus> {
        let child = self.child.as_mut()?;
        let mut status = None;
        eventually(|| {
            status = child.try_wait().expect("our own child can be waited for");
            status.is_some()
        });
        status
    }

    /// Returns whether the process exists.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|c| c.try_wait().is_ok_and(|s| s.is_none()))
    }

    /// Sends SIGTERM and waits for an orderly end.
    #[track_caller]
    pub fn stop(mut self) -> String {
        self.signal(Signal::TERM);
        let status = self.await_exit();
        let said = self.said();
        assert!(status.is_some_and(|s| s.success()), "ended with {status:?}; it said:\n{said}");
        self.child = None;
        said
    }

    /// Sends SIGKILL, like `kill -9`.
    pub fn kill(mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("our own child can be killed");
            child.wait().expect("our own child can be waited for");
        }
    }

    /// Fetches an absolute URL (or a path, from a reverse proxy).
    #[track_caller]
    pub fn get(&self, url: &str) -> Reply {
        get(url).send(self.address)
    }

    /// Sends a request.
    #[track_caller]
    pub fn send(&self, request: &Request) -> Reply {
        request.send(self.address)
    }

    /// Opens a connection to it.
    pub fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Sends a request to the admin interface.
    #[track_caller]
    pub fn admin_send(&self, request: Request) -> Reply {
        request.header("Host", "localhost").send(self.admin)
    }

    /// Purges a URL; returns whether an object was stored under it. Panics on any other result.
    #[track_caller]
    pub fn purge(&self, url: &str) -> bool {
        let path = format!("/purge?url={}", percent(url));
        let reply = self.admin_send(request("POST", &path).body(b""));
        assert!([200, 404].contains(&reply.status), "{}: {}", reply.status, reply.text());
        reply.status == 200
    }

    /// Returns all metrics as text.
    #[track_caller]
    pub fn metrics(&self) -> String {
        let reply = self.admin_send(get("/metrics"));
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.text()
    }

    /// Waits until no fetch is running and everything stored is on the device. A kill of the
    /// process loses nothing then.
    #[track_caller]
    pub fn await_written(&self) {
        let is_written = || {
            let metrics = self.metrics();
            let mut gauges = metrics.lines().filter(|line| {
                line.starts_with("larder_fills ")
                    || line.starts_with("larder_store_unwritten_bytes{")
            });
            gauges.all(|line| line.ends_with(" 0"))
        };
        assert!(eventually(is_written), "objects stay unwritten: {}", self.metrics());
    }

    /// Returns the resident memory in bytes.
    pub fn resident(&self) -> u64 {
        let path = format!("/proc/{}/status", self.pid().as_raw_nonzero());
        let text = fs::read_to_string(path).expect("our own child's status can be read");
        let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"));
        let kib = line.and_then(|l| l.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        kib.expect("VmRSS in kB") << 10
    }
}

impl Drop for Larder {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Encodes `text` as a value in a query.
pub fn percent(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    text.bytes()
        .map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

/// Runs `larder` with `words` to its end; returns its status and all output.
pub fn larder(words: &[&str]) -> (ExitStatus, String) {
    let output = larder_command()
        .args(words)
        .stdin(Stdio::null())
        .output()
        .expect("the program can be started");
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    (output.status, said)
}
