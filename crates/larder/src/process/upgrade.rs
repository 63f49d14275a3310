//! SIGUSR2: starts the program's file anew. The new process takes over the listening sockets and,
//! once this process no longer needs them, the caches.
//!
//! Nothing is released before the new process has reported that it is ready. If it fails while this
//! process drains, this process cuts the drain short and serves again.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use proxy::Control;
use proxy::observe::systemd;

use crate::process::open_listeners::OpenListeners;
use crate::process::upgrade_protocol::{Failed, Successor};

/// The inputs of an upgrade. Created at startup, because the program's file may be replaced at any
/// time.
pub struct Upgrader {
    program: io::Result<PathBuf>,
    arguments: Vec<OsString>,
    sockets: Arc<Mutex<OpenListeners>>,
    control: Control,
    successor: Mutex<Option<Successor>>,
}

impl Upgrader {
    /// Returns an upgrader; `sockets` are all sockets that this process listens on.
    pub fn new(sockets: Arc<Mutex<OpenListeners>>, control: Control) -> Upgrader {
        Upgrader {
            program: env::current_exe(),
            arguments: env::args_os().skip(1).collect(),
            sockets,
            control,
            successor: Mutex::new(None),
        }
    }

    /// Starts the new process and begins to drain once it is ready. Returns its number, or why this
    /// process continues, which is logged.
    pub fn upgrade(&self) -> Result<u32, String> {
        let new = self.begin();
        match &new {
            Ok(pid) => log::info!("upgrade: process {pid} takes over; finishing running requests"),
            Err(why) => log::error!("upgrade: {why}; THIS PROCESS CONTINUES"),
        }
        new
    }

    fn begin(&self) -> Result<u32, String> {
        if self.control.leaving() {
            return Err("this process is stopping".to_owned());
        }
        let Ok(mut successor) = self.successor.try_lock() else {
            return Err("an upgrade is under way".to_owned());
        };
        log::info!("upgrade: starting the new process");
        let new = self.raise()?;
        let pid = new.pid();
        *successor = Some(new);
        self.control.hand_over();
        Ok(pid)
    }

    fn raise(&self) -> Result<Successor, String> {
        let program = self
            .program
            .as_ref()
            .map_err(|error| format!("cannot find this program's executable: {error}"))?;
        let passed = self.sockets.lock().unwrap_or_else(PoisonError::into_inner).passed()?;
        let (control, sockets) = (self.control.clone(), self.sockets.clone());
        let ended = move |in_order: bool| match in_order {
            // New clients must be refused, not kept waiting.
            true => sockets.lock().unwrap_or_else(PoisonError::into_inner).close(),
            false => control.cut_handover(),
        };
        let mut successor = Successor::raise(program, &self.arguments, &passed, ended)?;
        successor.stopped().map_err(|error| format!("the new process is gone: {error}"))?;
        Ok(successor)
    }

    /// Closes the listening sockets because this process stops: new clients must be refused, not
    /// kept waiting. Does nothing if a new process shares them.
    pub fn close(&self) {
        // If the lock is taken, a new process is being started.
        if self.successor.try_lock().is_ok_and(|successor| successor.is_none()) {
            self.sockets.lock().unwrap_or_else(PoisonError::into_inner).close();
        }
    }

    /// Returns why a reload is refused: this process stops, or another one takes over and reads the
    /// configuration itself.
    pub fn check_reload(&self) -> Result<(), String> {
        if self.successor.try_lock().is_err() {
            return Err("an upgrade is under way".to_owned());
        }
        match self.control.leaving() {
            true => Err("this process is stopping".to_owned()),
            false => Ok(()),
        }
    }

    /// Returns the new process if the drain that has ended was for one.
    pub fn successor(&self) -> Option<Successor> {
        // If the lock is taken, a process is being started although this one was told to stop. It
        // ends with this one.
        self.successor.try_lock().ok()?.take()
    }

    /// Releases the caches to the new process, while work that does not need them continues here.
    pub fn release(&self) {
        let mut successor = self.successor.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(successor) = &mut *successor else { return };
        match successor.released() {
            Ok(()) => log::info!("upgrade: the caches are released to process {}", successor.pid()),
            // The end of the drain deals with the consequences.
            Err(error) => log::debug!("upgrade: process {} is gone: {error}", successor.pid()),
        }
    }

    /// Lets the new process use everything that this one has released.
    ///
    /// # Errors
    ///
    /// It failed, and this process must serve again.
    pub fn hand_over(&self, successor: Successor) -> Result<(), Failed> {
        let pid = successor.pid();
        match successor.take_over() {
            Ok(()) => {
                systemd::main_pid(pid);
                log::info!("upgrade: process {pid} serves; this one exits");
                Ok(())
            }
            Err(failed) => {
                log::error!("upgrade: {}; THIS PROCESS SERVES AGAIN", failed.why);
                self.control.resume();
                Err(failed)
            }
        }
    }
}
