//! A larder that runs until it is stopped or dropped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::root::Root;

/// Longer than any machine needs; reached only if the program hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running larder, and the root that it needs.
pub struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    _root: Option<Root>,
}

impl Running {
    /// Starts `larder serve` and waits until it is ready.
    ///
    /// # Errors
    ///
    /// When it ends before; the text is what it said.
    pub fn start(mut command: Command, root: Option<Root>) -> Result<Running, String> {
        let shown = format!("{command:?}");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("cannot start {shown}: {e}"))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (Some(stdout), Some(stderr)) = (stdout, stderr) else { return Err(shown) };
        let running = Running { child, stdout: BufReader::new(stdout), _root: root };
        let mut stderr = BufReader::new(stderr);
        let mut said = String::new();
        while !said.contains(" ready: ") {
            match stderr.read_line(&mut said) {
                Ok(0) | Err(_) => return Err(format!("{shown} did not get ready:\n{said}")),
                Ok(_) => {}
            }
        }
        // Its later messages must not fill the pipe.
        thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Ok(running)
    }

    /// Returns the rest of the first line of standard output that begins with `begin`.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn first_line_after(&mut self, begin: &str) -> Result<String, String> {
        for line in (&mut self.stdout).lines().map_while(Result::ok) {
            if let Some(rest) = line.strip_prefix(begin) {
                return Ok(rest.to_owned());
            }
        }
        Err(format!("no line with {begin}"))
    }

    /// Ends it in order.
    ///
    /// # Errors
    ///
    /// When it reports a failure.
    pub fn stop(mut self) -> Result<(), String> {
        let pid = self.child.id().to_string();
        let mut kill = Command::new("kill");
        kill.args(["-TERM", &pid]);
        crate::workspace::succeed(kill)?;
        let status = self.child.wait().map_err(|error| format!("waiting for larder: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("larder ended with {status}")) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // No effect on a process that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Requests a path and returns the response.
///
/// # Errors
///
/// When there is no response.
pub fn get(address: &str, path: &str) -> Result<String, String> {
    let ask = || {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        Ok(response)
    };
    ask().map_err(|error: std::io::Error| format!("http://{address}{path}: {error}"))
}
