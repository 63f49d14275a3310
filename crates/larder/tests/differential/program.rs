//! A program under comparison, with a small cache in a directory of its own.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use testkit::address;
use testkit::client::get;
use testkit::io::eventually;
use testkit::larder::{Larder, Setup};

/// Parameters of a program's start.
pub struct Start<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its origin server; without one it is a forward proxy.
    pub origin: Option<SocketAddr>,
    /// Text of its configuration file, in which `{FRONT}` and `{BETWEEN}` stand for addresses of
    /// its own.
    pub configuration: &'a str,
    /// True if it writes an access log, in JSON.
    pub logs: bool,
}

/// A `larder serve` that can be stopped and started again.
pub struct Program {
    // Ends before its directory is removed.
    running: Option<Larder>,
    setup: Setup,
    front: SocketAddr,
    between: SocketAddr,
}

impl Program {
    /// Starts a program, and waits until it serves.
    pub fn start(start: &Start) -> Program {
        let [front, between] = [(); 2].map(|()| address::free());
        let text = start.configuration.replace("{FRONT}", &front.to_string());
        let text = text.replace("{BETWEEN}", &between.to_string());
        let setup = match start.origin {
            Some(origin) => Setup::reverse(&format!("http://{origin}")),
            None => Setup::forward(),
        };
        let mut setup = setup.program(start.program).config(&text);
        if start.logs {
            let log = setup.path("access.log").display().to_string();
            setup = setup.flag("access-log", &log).flag("log-format", "json");
        }
        let mut program = Program { setup, running: None, front, between };
        program.restart();
        program
    }

    /// Stops it in order, so that all pending output is written.
    pub fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop();
        }
    }

    /// Stops it and starts it again, with an empty memory. Waits until it serves and, in a fleet,
    /// has caught up.
    pub fn restart(&mut self) {
        self.stop();
        self.running = Some(self.setup.start());
        let uses_store = |state: String| {
            let state: serde_json::Value = serde_json::from_str(&state).unwrap_or_default();
            state["caught_up"] == true && state["state"] == "serving"
        };
        let is_ready = || self.admin("/fleet").is_none_or(uses_store);
        assert!(eventually(is_ready), "it does not catch up:\n{}", self.said());
    }

    /// Returns the address on which it serves.
    pub fn address(&self) -> SocketAddr {
        self.setup.address()
    }

    /// Returns the address of `{FRONT}`.
    pub fn front(&self) -> SocketAddr {
        self.front
    }

    /// Returns the texts that differ between programs, such as addresses, with their substitutes.
    pub fn names(&self) -> Vec<(String, &'static str)> {
        let names = [
            (self.setup.address(), "<larder>"),
            (self.front, "<front>"),
            (self.setup.admin(), "<admin>"),
            (self.between, "<between>"),
        ];
        let names = names.map(|(address, name)| (address.to_string(), name));
        let directory = (self.setup.directory().display().to_string(), "<directory>");
        [directory].into_iter().chain(names).collect()
    }

    /// Returns the lines of the access log from number `from` on.
    pub fn log(&self, from: usize) -> Vec<String> {
        let bytes = fs::read(self.setup.path("access.log")).unwrap_or_default();
        let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
        let whole = &text[..text.rfind('\n').map_or(0, |at| at + 1)];
        whole.lines().skip(from).map(str::to_owned).collect()
    }

    /// Returns the response of its admin interface for this path.
    pub fn admin(&self, path: &str) -> Option<String> {
        let asked = get(path).header("Host", "localhost").try_send(self.setup.admin());
        asked.ok().filter(|reply| reply.status == 200).map(|reply| reply.text())
    }

    /// Returns whether it runs.
    pub fn lives(&mut self) -> bool {
        self.running.as_mut().is_some_and(Larder::is_running)
    }

    /// Returns its output so far.
    pub fn said(&self) -> String {
        self.running.as_ref().map(Larder::said).unwrap_or_default()
    }
}
