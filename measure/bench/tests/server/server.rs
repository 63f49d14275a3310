//! A running `larder serve` with a small cache.

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testkit::{address, program};

/// The time that a server has to listen.
const START: Duration = Duration::from_secs(30);

/// A running server, killed on drop.
pub struct Server {
    child: Child,
    /// The address on which it serves.
    pub address: SocketAddr,
    _directory: TempDir,
}

impl Server {
    /// Starts a server in front of `origin`.
    pub fn start(origin: SocketAddr) -> Server {
        let (directory, address) = (TempDir::new().unwrap(), address::free());
        let mut command = Command::new(program::built("larder"));
        command.args(["serve", "--reverse", &format!("http://{origin}")]);
        command.args(["--listen", &address.to_string()]);
        command.args(["--admin", &address::free().to_string()]);
        command.arg("--cache").arg(directory.path().join("cache"));
        command.args(["--cache-size", "64M", "--memory", "32M"]).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let server = Server { child, address, _directory: directory };
        let deadline = Instant::now() + START;
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < deadline, "the server does not listen");
            sleep(Duration::from_millis(20));
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
