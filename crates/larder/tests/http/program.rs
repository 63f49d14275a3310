//! The program under test, with a small cache in a directory of its own.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testbed::address;

/// A running `larder serve`, killed on drop.
pub struct Larder {
    child: Child,
    address: SocketAddr,
    #[allow(dead_code)] // As [`Larder::admin`].
    admin: SocketAddr,
    _directory: TempDir,
}

/// Waits until `address` accepts connections; returns false if `child` ends or the time is up.
pub fn await_listener(child: &mut Child, address: SocketAddr) -> bool {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline && child.try_wait().is_ok_and(|ended| ended.is_none()) {
        if TcpStream::connect(address).is_ok() {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

impl Larder {
    /// Starts a reverse proxy for `origin`, or a forward proxy, with or without a configuration
    /// file.
    pub fn start(origin: Option<SocketAddr>, config: Option<&Path>) -> Larder {
        let directory = TempDir::new().expect("a temporary directory");
        let (address, admin) = (address::free(), address::free());
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.args(["serve", "--listen", &address.to_string(), "--admin", &admin.to_string()]);
        command.args(["--cache-size", "64M", "--memory", "32M"]);
        command.arg("--cache").arg(directory.path().join("cache"));
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        if let Some(origin) = origin {
            command.arg("--reverse").arg(format!("http://{origin}"));
        }
        command.current_dir(directory.path()).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program can be started");
        if !await_listener(&mut child, address) {
            let _ = child.kill();
            let mut said = String::new();
            let _ = child.stderr.take().map(|mut stream| stream.read_to_string(&mut said));
            panic!("larder did not start; it said:\n{said}");
        }
        // The output must be drained from here on, so that the program does not block on it.
        let mut stderr = child.stderr.take().expect("piped");
        thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Larder { child, address, admin, _directory: directory }
    }

    /// Returns the address on which it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of its admin interface.
    #[allow(dead_code)] // Other tests use this file, too.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }
}

impl Drop for Larder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
