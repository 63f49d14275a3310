//! The program under test, with a small cache in a directory of its own.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::origin::Origin;

/// A running `larder serve`. Dropped, it is killed.
pub struct Larder {
    child: Child,
    address: SocketAddr,
    _directory: TempDir,
}

/// An address on loopback that was free a moment ago and that no other test here was given. Its
/// port is below those that the kernel gives to connections, so that none of them takes it while a
/// program is stopped and started on it.
pub fn free_address() -> SocketAddr {
    const FIRST: u32 = 10_000;
    const PORTS: u32 = 22_000;
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    loop {
        // Tests of several programs at a time begin at different ports.
        let begin = std::process::id().wrapping_mul(64);
        let port = FIRST + begin.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % PORTS;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port as u16));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// Waits until something accepts connections at `address`; false when `child` ends or time is up.
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
    /// Starts a reverse proxy for `origin`, or a forward proxy, with a configuration file or none.
    pub fn start(origin: Option<&Origin>, config: Option<&Path>) -> Larder {
        let directory = TempDir::new().expect("a temporary directory");
        let (address, admin) = (free_address(), free_address());
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.args(["serve", "--listen", &address.to_string(), "--admin", &admin.to_string()]);
        command.args(["--cache-size", "64M", "--memory", "32M"]);
        command.arg("--cache").arg(directory.path().join("cache"));
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        if let Some(origin) = origin {
            command.arg("--reverse").arg(format!("http://{}", origin.address()));
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
        // Nobody reads what it says from here on; it must not wait for a reader.
        let mut stderr = child.stderr.take().expect("piped");
        thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Larder { child, address, _directory: directory }
    }

    /// Where it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Larder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
