//! SIGUSR2: starts the program's file anew; the new process takes over the listening sockets and,
//! when this process needs them no more, the caches.
//!
//! Nothing is released before the new process has reported that it is ready. If it fails later,
//! before it serves, this process serves again.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use proxy::Control;
use proxy::observe::systemd;

use crate::process::upgrade_protocol::{PassedSocket, Successor};

/// The inputs of an upgrade. Made at the start: the program's file may be replaced at any time.
pub struct Upgrader {
    program: io::Result<PathBuf>,
    arguments: Vec<OsString>,
    sockets: Mutex<Vec<PassedSocket>>,
    control: Control,
    successor: Mutex<Option<Successor>>,
}

impl Upgrader {
    /// Returns an upgrader; `sockets` are all sockets that this process listens on.
    pub fn new(sockets: Vec<PassedSocket>, control: Control) -> Upgrader {
        Upgrader {
            program: env::current_exe(),
            arguments: env::args_os().skip(1).collect(),
            sockets: Mutex::new(sockets),
            control,
            successor: Mutex::new(None),
        }
    }

    /// Starts the new process and, when it is ready, begins to drain for it.
    pub fn upgrade(&self) {
        if self.control.draining() {
            log::info!("SIGUSR2: stopping, nothing is upgraded");
            return;
        }
        let Ok(mut successor) = self.successor.try_lock() else {
            log::warn!("SIGUSR2: an upgrade is under way");
            return;
        };
        log::info!("SIGUSR2: upgrade: starting the new process");
        match self.raise() {
            Ok(new) => {
                log::info!("upgrade: process {} takes over; what runs here ends", new.pid());
                *successor = Some(new);
                self.control.hand_over();
            }
            Err(why) => log::error!("upgrade: {why}; THIS PROCESS GOES ON"),
        }
    }

    fn raise(&self) -> Result<Successor, String> {
        let program = self
            .program
            .as_ref()
            .map_err(|error| format!("the program's own file is not known: {error}"))?;
        let sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        let mut successor = Successor::raise(program, &self.arguments, &sockets)?;
        successor.stopped().map_err(|error| format!("the new process is gone: {error}"))?;
        Ok(successor)
    }

    /// Closes the listening sockets, because this process stops: new clients are to be refused, not
    /// kept waiting. Does nothing and returns false when a new process has them, too.
    pub fn close(&self) -> bool {
        // Locked: one is being started.
        let unshared = self.successor.try_lock().is_ok_and(|successor| successor.is_none());
        if unshared {
            self.sockets.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        unshared
    }

    /// Returns the new process, when the drain that has ended was for one.
    pub fn successor(&self) -> Option<Successor> {
        // Locked: it is being started while we were told to stop. It ends when we do.
        self.successor.try_lock().ok()?.take()
    }

    /// Lets the new process have the caches, while what does not need them still runs here.
    pub fn release(&self) {
        let mut successor = self.successor.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(successor) = &mut *successor else { return };
        match successor.released() {
            Ok(()) => log::info!("upgrade: the caches are released to process {}", successor.pid()),
            // What follows from that is seen when the drain is over.
            Err(error) => log::debug!("upgrade: process {} is gone: {error}", successor.pid()),
        }
    }

    /// Lets the new process have what this one has released. False: it failed, and this one is to
    /// serve again.
    pub fn hand_over(&self, successor: Successor) -> bool {
        let pid = successor.pid();
        match successor.take_over() {
            Ok(()) => {
                systemd::main_pid(pid);
                log::info!("upgrade: process {pid} serves; this one ends");
                true
            }
            Err(why) => {
                log::error!("upgrade: {why}; THIS PROCESS SERVES AGAIN");
                self.control.resume();
                false
            }
        }
    }
}
