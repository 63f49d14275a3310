//! The listening sockets of this process while it serves, and their change at a reload.
//!
//! The serving threads have clones of them; these stay open for another round of serving, for a
//! process that takes over and for a reload, until the process is told to stop.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use proxy::{ListenSocket, Listener};

use crate::config::listen_addr::ListenAddr;
use crate::config::listener;
use crate::process::listen_sockets::{Bound, bind_listener, permit_clients, protocol};
use crate::process::upgrade_protocol::{Inherited, PassedSocket};

/// A socket that clients connect to.
#[derive(Debug)]
pub struct OpenListener {
    /// Its configuration; `None` for the address of a fleet's nodes.
    config: Option<listener::Listener>,
    asked: ListenAddr,
    address: ListenAddr,
    listener: Listener,
}

impl OpenListener {
    fn open(bound: Bound, config: Option<listener::Listener>) -> Result<OpenListener, String> {
        let (asked, address) = (bound.asked().clone(), bound.address().clone());
        Ok(OpenListener { config, asked, address, listener: bound.listen()? })
    }

    /// Returns this listener with another configuration of the same address.
    fn with(&self, config: &listener::Listener) -> io::Result<OpenListener> {
        let mut listener = self.listener.try_clone()?;
        let is_same = |before: &listener::Listener| {
            let of = |listener: &listener::Listener| {
                (listener.tls, listener.h2c, listener.proxy_protocol.clone())
            };
            of(before) == of(config)
        };
        if !self.config.as_ref().is_some_and(is_same) {
            listener.protocol = protocol(config);
        }
        Ok(OpenListener {
            config: Some(config.clone()),
            asked: self.asked.clone(),
            address: self.address.clone(),
            listener,
        })
    }

    fn pass(&self) -> Result<PassedSocket, String> {
        let socket = self.listener.socket.try_clone();
        let socket: OwnedFd = match socket.map_err(|error| format!("{}: {error}", self.address))? {
            ListenSocket::Tcp(socket) => socket.into(),
            ListenSocket::Unix(socket) => socket.into(),
            ListenSocket::Other(_) => return Err(format!("{}: no descriptor", self.address)),
        };
        Ok(PassedSocket { name: self.asked.to_string(), socket })
    }

    fn path(&self) -> Option<&Path> {
        match &self.address {
            ListenAddr::Unix(path) => Some(path),
            ListenAddr::Ip(_) => None,
        }
    }
}

/// The listening sockets for clients and operators.
#[derive(Debug, Default)]
pub struct OpenListeners {
    clients: Vec<OpenListener>,
    admin: Option<(TcpListener, PassedSocket)>,
    /// The paths of Unix sockets, which are removed at the end.
    paths: Vec<PathBuf>,
    is_open: bool,
}

impl OpenListeners {
    /// Lets the sockets listen. `bound` are those of `listeners`, in this order, and then that of a
    /// fleet's nodes, if there is one.
    pub fn open(
        listeners: Vec<listener::Listener>,
        bound: Vec<Bound>,
        admin: Option<Bound>,
    ) -> Result<OpenListeners, String> {
        let configs = listeners.into_iter().map(Some).chain(std::iter::repeat(None));
        let clients = bound.into_iter().zip(configs);
        let clients = clients.map(|(bound, config)| OpenListener::open(bound, config));
        let admin = admin.map(|bound| {
            let passed = bound.pass_admin()?;
            Ok::<_, String>((bound.listen_plain()?, passed))
        });
        let clients = clients.collect::<Result<_, _>>()?;
        let mut all = OpenListeners { admin: admin.transpose()?, ..OpenListeners::default() };
        all.take(clients);
        Ok(all)
    }

    /// Opens the sockets for a changed configuration. Those of the same addresses are kept, with
    /// their clients that wait to be accepted.
    pub fn changed(
        &self,
        listeners: &[listener::Listener],
        others: &[SocketAddr],
    ) -> Result<Vec<OpenListener>, String> {
        if !self.is_open {
            return Err("listener: not all listeners are open yet; reload again".to_owned());
        }
        let open = |config: &listener::Listener| {
            let same = |open: &&OpenListener| {
                open.config.is_some() && Some(&open.asked) == config.address.as_ref()
            };
            match self.clients.iter().find(same) {
                Some(open) => open.with(config).map_err(|error| format!("{}: {error}", open.asked)),
                None => {
                    let mut inherited = Inherited::default();
                    let bound = bind_listener(config, listeners, others, &mut inherited)?;
                    OpenListener::open(bound, Some(config.clone()))
                }
            }
        };
        let mut all = Vec::new();
        for config in listeners {
            match open(config) {
                Ok(listener) => all.push(listener),
                Err(why) => {
                    self.discard(&all);
                    return Err(why);
                }
            }
        }
        let fleet = self.clients.iter().filter(|open| open.config.is_none());
        for open in fleet {
            let listener = open.listener.try_clone().map_err(|error| error.to_string())?;
            let (asked, address) = (open.asked.clone(), open.address.clone());
            all.push(OpenListener { config: None, asked, address, listener });
        }
        Ok(all)
    }

    /// Removes the Unix sockets that [`OpenListeners::changed`] has created.
    pub fn discard(&self, listeners: &[OpenListener]) {
        let paths = listeners.iter().filter_map(OpenListener::path);
        for path in paths.filter(|path| !self.paths.iter().any(|known| known == path)) {
            // A leftover socket does no harm: the next start removes it.
            let _ = fs::remove_file(path);
        }
    }

    /// Takes these listeners in place of those for clients so far.
    pub fn take(&mut self, listeners: Vec<OpenListener>) {
        let paths = listeners.iter().filter_map(OpenListener::path).map(Path::to_owned);
        let paths: Vec<PathBuf> = paths.collect();
        for gone in self.paths.iter().filter(|path| !paths.contains(path)) {
            // A leftover socket does no harm: the next start removes it.
            let _ = fs::remove_file(gone);
        }
        for (path, config) in
            listeners.iter().filter_map(|open| open.path().zip(open.config.as_ref()))
        {
            if self.paths.iter().any(|known| known == path)
                && let Err(why) = permit_clients(path, config)
            {
                log::error!("cannot change {}: {why}", path.display());
            }
        }
        (self.clients, self.paths, self.is_open) = (listeners, paths, true);
    }

    /// Returns handles of all sockets: for clients, and for operators.
    pub fn try_clone(&self) -> io::Result<(Vec<Listener>, Option<TcpListener>)> {
        let clients = self.clients.iter().map(|open| open.listener.try_clone());
        let admin = self.admin.as_ref().map(|(admin, _)| admin.try_clone()).transpose()?;
        Ok((clients.collect::<Result<_, _>>()?, admin))
    }

    /// Returns handles for a process that takes over.
    pub fn passed(&self) -> Result<Vec<PassedSocket>, String> {
        if !self.is_open {
            return Err("not all listeners are open yet".to_owned());
        }
        let clients = self.clients.iter().map(OpenListener::pass);
        let mut all = clients.collect::<Result<Vec<_>, _>>()?;
        if let Some((_, passed)) = &self.admin {
            let socket = passed.socket.try_clone().map_err(|error| error.to_string())?;
            all.push(PassedSocket { name: passed.name.clone(), socket });
        }
        Ok(all)
    }

    /// Returns the addresses of these listeners and of the admin interface.
    pub fn own(&self, listeners: &[OpenListener]) -> Vec<SocketAddr> {
        let clients = listeners.iter().filter_map(|open| open.address.ip());
        let admin = self.admin.iter().filter_map(|(admin, _)| admin.local_addr().ok());
        clients.chain(admin).collect()
    }

    /// Returns the addresses of the listeners for clients, for a message.
    pub fn describe(&self) -> String {
        let all = self.clients.iter().map(|open| match open.listener.protocol.tls {
            true => format!("{} (TLS)", open.address),
            false => open.address.to_string(),
        });
        all.collect::<Vec<_>>().join(", ")
    }

    /// Closes all sockets; their paths stay until [`OpenListeners::remove_all_paths`].
    pub fn close(&mut self) {
        (self.clients, self.admin, self.is_open) = (Vec::new(), None, false);
    }

    /// Removes the Unix sockets of this process.
    pub fn remove_all_paths(&self) {
        for path in &self.paths {
            // A leftover socket does no harm: the next start removes it.
            let _ = fs::remove_file(path);
        }
    }
}

/// Returns handles of these listeners, for [`proxy::ListenerChanges`].
pub fn handles(listeners: &[OpenListener]) -> io::Result<Vec<Listener>> {
    listeners.iter().map(|open| open.listener.try_clone()).collect()
}

/// Locks the sockets, even after a panic: their state is consistent between any two statements that
/// use it.
pub fn locked(sockets: &Mutex<OpenListeners>) -> MutexGuard<'_, OpenListeners> {
    sockets.lock().unwrap_or_else(PoisonError::into_inner)
}
