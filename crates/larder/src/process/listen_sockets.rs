//! The listening sockets.
//!
//! A socket is bound early, so that an address in use or a privileged port is detected before
//! anything is created or changed. It listens late, when the cache is ready to serve.

use std::fs::{self, Permissions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use nix::errno::Errno;
use nix::unistd::{Group, User, chown};
use proxy::downstream::handshake::{FleetProtocol, ListenerProtocol};
use proxy::{ListenSocket, Listener};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::config::fleet::FleetSettings;
use crate::config::listen_addr::ListenAddr;
use crate::config::listener;
use crate::process::upgrade_protocol::{Inherited, PassedSocket};

/// Length of the accept queue; the kernel caps it at net.core.somaxconn.
const BACKLOG: i32 = 4096;

/// Prefix of the admin interface's name when sockets are handed over.
const ADMIN: &str = "admin ";

/// A bound socket that does not listen yet.
#[derive(Debug)]
pub struct Bound {
    socket: Socket,
    address: ListenAddr,
    asked: ListenAddr,
    protocol: Arc<ListenerProtocol>,
}

/// Binds the listeners of the configuration. `[::]` accepts IPv4 clients too, unless one of the
/// addresses or of `others` is an IPv4 address with the same port: then each serves its own family.
pub fn bind_listeners(
    listeners: &[listener::Listener],
    others: &[SocketAddr],
    inherited: &mut Inherited,
) -> Result<Vec<Bound>, String> {
    let bind_one = |listener| bind_listener(listener, listeners, others, inherited);
    listeners.iter().map(bind_one).collect()
}

/// Binds one of `listeners`, as [`bind_listeners`] does.
pub fn bind_listener(
    listener: &listener::Listener,
    listeners: &[listener::Listener],
    others: &[SocketAddr],
    inherited: &mut Inherited,
) -> Result<Bound, String> {
    let before = listener.address.as_ref().and_then(|at| inherited.take(&at.to_string()));
    let bound = match &listener.address {
        Some(address) if before.is_some() => adopt(before, address)?,
        Some(ListenAddr::Ip(address)) => {
            bind(*address, shares_port(*address, &ip_addresses(listeners), others))?
        }
        Some(ListenAddr::Unix(path)) => bind_path(path, listener)?,
        None => return Err("a listener has no address".to_owned()),
    };
    Ok(Bound { protocol: protocol(listener), ..bound })
}

/// Returns the protocol of a listener's connections.
pub fn protocol(listener: &listener::Listener) -> Arc<ListenerProtocol> {
    Arc::new(ListenerProtocol {
        fleet: None,
        name: listener.address.as_ref().map(|address| address.to_string().into()),
        tls: listener.tls,
        h2c: listener.h2c,
        proxies: listener.proxy_protocol.clone(),
    })
}

/// Binds the address at which other nodes of the fleet reach this one. Respects the addresses of
/// `listeners` as [`bind_listeners`] does.
pub fn bind_fleet(
    settings: &FleetSettings,
    listeners: &[listener::Listener],
    inherited: &mut Inherited,
) -> Result<Bound, String> {
    let address = settings.listen;
    let bound = match inherited.take(&address.to_string()) {
        Some(socket) => adopt(Some(socket), &ListenAddr::Ip(address))?,
        None => bind(address, shares_port(address, &[], &ip_addresses(listeners)))?,
    };
    let fleet = Arc::new(FleetProtocol { tls: settings.tls.clone(), ..FleetProtocol::default() });
    let protocol = ListenerProtocol { fleet: Some(fleet), ..ListenerProtocol::default() };
    Ok(Bound { protocol: Arc::new(protocol), ..bound })
}

/// Binds the admin interface. Respects the addresses of `listeners` as [`bind_listeners`] does.
pub fn bind_admin(
    address: SocketAddr,
    listeners: &[listener::Listener],
    inherited: &mut Inherited,
) -> Result<Bound, String> {
    let before = inherited.take(&format!("{ADMIN}{address}"));
    if let Some(socket) = before.or_else(|| inherited.take(&address.to_string())) {
        return adopt(Some(socket), &ListenAddr::Ip(address));
    }
    bind(address, shares_port(address, &[], &ip_addresses(listeners)))
}

/// Adopts a socket that was bound before.
fn adopt(socket: Option<OwnedFd>, asked: &ListenAddr) -> Result<Bound, String> {
    let socket = Socket::from(socket.ok_or_else(|| format!("{asked}: no socket"))?);
    let failed = |error: io::Error| describe(asked, &error);
    let address = match socket.local_addr().map_err(failed)?.as_socket() {
        Some(address) => ListenAddr::Ip(address),
        None => asked.clone(),
    };
    Ok(Bound { socket, address, asked: asked.clone(), protocol: Arc::default() })
}

fn ip_addresses(listeners: &[listener::Listener]) -> Vec<SocketAddr> {
    listeners.iter().filter_map(|listener| listener.address.as_ref()?.ip()).collect()
}

/// Returns whether one of these addresses is IPv4 and has the same port.
fn shares_port(address: SocketAddr, addresses: &[SocketAddr], others: &[SocketAddr]) -> bool {
    let port = address.port();
    let mut all = addresses.iter().chain(others);
    port != 0 && all.any(|other| other.is_ipv4() && other.port() == port)
}

/// Binds to `address`; port 0 selects a free port. The error names the address. With `only_v6`,
/// `[::]` does not accept IPv4 clients.
fn bind(address: SocketAddr, only_v6: bool) -> Result<Bound, String> {
    let asked = ListenAddr::Ip(address);
    let bound = match bind_to(address, only_v6) {
        // A listener on all addresses uses the families that exist.
        Err(error) if is_all_v6(address) && !only_v6 && knows_no_v6(&error) => {
            log::warn!("{asked}: this machine has no IPv6: listening on its IPv4 addresses");
            bind_to((Ipv4Addr::UNSPECIFIED, address.port()).into(), false)
        }
        bound => bound,
    };
    let (socket, bound) = bound.map_err(|error| describe(&asked, &error))?;
    Ok(Bound { socket, address: ListenAddr::Ip(bound), asked, protocol: Arc::default() })
}

fn is_all_v6(address: SocketAddr) -> bool {
    address.is_ipv6() && address.ip().is_unspecified()
}

/// Returns whether a socket was refused because the system has no IPv6.
fn knows_no_v6(error: &io::Error) -> bool {
    let none = [Errno::EAFNOSUPPORT, Errno::EADDRNOTAVAIL];
    none.iter().any(|errno| error.raw_os_error() == Some(*errno as i32))
}

fn bind_to(address: SocketAddr, only_v6: bool) -> io::Result<(Socket, SocketAddr)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Lingering connections of an earlier process must not block its address; a process that still
    // listens does block it.
    socket.set_reuse_address(true)?;
    if is_all_v6(address) {
        // Set explicitly, because the system's default varies.
        socket.set_only_v6(only_v6)?;
    }
    socket.bind(&address.into())?;
    let bound = socket.local_addr()?.as_socket().unwrap_or(address);
    Ok((socket, bound))
}

/// Binds to a path. A socket left there by an earlier process is removed if no process listens on
/// it.
fn bind_path(path: &Path, listener: &listener::Listener) -> Result<Bound, String> {
    let address = ListenAddr::Unix(path.to_owned());
    let failed = |error: io::Error| describe(&address, &error);
    let refused = |why: String| format!("cannot listen on {address}: {why}");
    let permissions = permissions(listener).map_err(refused)?;
    clear(path).map_err(refused)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(failed)?;
    socket.bind(&SockAddr::unix(path).map_err(failed)?).map_err(failed)?;
    // No client can connect before the socket listens, which happens later.
    permit(path, permissions).map_err(refused)?;
    Ok(Bound { socket, asked: address.clone(), address, protocol: Arc::default() })
}

/// Gives a bound Unix socket the permissions and the owner of `listener`.
pub fn permit_clients(path: &Path, listener: &listener::Listener) -> Result<(), String> {
    permissions(listener).and_then(|permissions| permit(path, permissions))
}

fn permissions(listener: &listener::Listener) -> Result<(u32, Owners), String> {
    let mode = u32::from_str_radix(&listener.mode, 8)
        .map_err(|_| format!("{:?} are not permissions", listener.mode))?;
    Ok((mode, owners(listener)?))
}

fn permit(path: &Path, (mode, (owner, group)): (u32, Owners)) -> Result<(), String> {
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(|error| error.to_string())?;
    if owner.is_some() || group.is_some() {
        chown(path, owner, group).map_err(|error| format!("its owner: {error}"))?;
    }
    Ok(())
}

pub type Owners = (Option<nix::unistd::Uid>, Option<nix::unistd::Gid>);

/// Returns the configured owner and group of a Unix socket.
pub fn owners(listener: &listener::Listener) -> Result<Owners, String> {
    let none = |what: &str, name: &str| format!("no {what} {name:?} on this machine");
    let owner = listener.owner.as_deref().map(|name| {
        let user = User::from_name(name).map_err(|error| error.to_string())?;
        user.map(|user| user.uid).ok_or_else(|| none("user", name))
    });
    let group = listener.group.as_deref().map(|name| {
        let group = Group::from_name(name).map_err(|error| error.to_string())?;
        group.map(|group| group.gid).ok_or_else(|| none("group", name))
    });
    Ok((owner.transpose()?, group.transpose()?))
}

/// Removes a socket that no process listens on.
fn clear(path: &Path) -> Result<(), String> {
    let Ok(data) = fs::symlink_metadata(path) else { return Ok(()) };
    if !data.file_type().is_socket() {
        return Err("something other than a socket is there; it is left unchanged".to_owned());
    }
    match UnixStream::connect(path) {
        Ok(_) => Err("another process listens there".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| format!("an old socket is there: {error}"))
        }
        Err(error) => Err(format!("a socket is there, perhaps in use: {error}")),
    }
}

impl Bound {
    /// Returns the address as configured.
    pub fn asked(&self) -> &ListenAddr {
        &self.asked
    }

    /// Returns the address with its actual port.
    pub fn address(&self) -> &ListenAddr {
        &self.address
    }

    /// Returns the IP address at which clients connect, and whether they use TLS.
    pub fn client_address(&self) -> Option<(SocketAddr, bool)> {
        let address = self.address.ip().filter(|_| self.protocol.fleet.is_none())?;
        Some((address, self.protocol.tls))
    }

    /// Returns a second handle of the admin interface for a process that takes over.
    pub fn pass_admin(&self) -> Result<PassedSocket, String> {
        let socket = self.socket.try_clone().map_err(|error| describe(&self.address, &error))?;
        Ok(PassedSocket { name: format!("{ADMIN}{}", self.asked), socket: socket.into() })
    }

    /// Returns the display form: the address, and whether TLS is used.
    pub fn describe(&self) -> String {
        let tls = if self.protocol.tls { " (TLS)" } else { "" };
        format!("{}{tls}", self.address)
    }

    pub fn listen(self) -> Result<Listener, String> {
        self.socket.listen(BACKLOG).map_err(|error| describe(&self.address, &error))?;
        let socket = match self.address {
            ListenAddr::Ip(_) => ListenSocket::Tcp(self.socket.into()),
            ListenAddr::Unix(_) => ListenSocket::Unix(self.socket.into()),
        };
        Ok(Listener { socket, protocol: self.protocol })
    }

    pub fn listen_plain(self) -> Result<std::net::TcpListener, String> {
        self.socket.listen(BACKLOG).map_err(|error| describe(&self.address, &error))?;
        Ok(self.socket.into())
    }
}

fn describe(address: &ListenAddr, error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => "; another process listens there",
        io::ErrorKind::AddrNotAvailable => "; it is not an address of this machine",
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need root or the capability CAP_NET_BIND_SERVICE"
        }
        _ => "",
    };
    format!("cannot listen on {address}: {error}{advice}")
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn loopback() -> SocketAddr {
        "127.0.0.1:0".parse().unwrap()
    }

    #[test]
    fn a_second_listener_on_an_address_is_refused_by_name() {
        let bound = bind(loopback(), false).unwrap();
        let address = bound.address().ip().unwrap();
        assert_ne!(address.port(), 0);
        let _listener = bound.listen_plain().unwrap();
        let why = bind(address, false).expect_err("in use");
        assert!(why.starts_with(&format!("cannot listen on {address}: ")), "{why}");
        assert!(why.ends_with("another process listens there"), "{why}");
    }

    #[test]
    fn clients_come_in_once_it_listens() {
        let bound = bind(loopback(), false).unwrap();
        let address = bound.address().ip().unwrap();
        assert!(TcpStream::connect(address).is_err());
        let listener = bound.listen_plain().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let (_, peer) = listener.accept().unwrap();
        assert_eq!(peer, client.local_addr().unwrap());
    }

    #[test]
    fn the_unspecified_ipv6_address_takes_ipv4_clients() {
        let Ok(bound) = bind("[::]:0".parse().unwrap(), false) else {
            eprintln!("SKIPPED: no IPv6 on this machine");
            return;
        };
        let port = bound.address().ip().unwrap().port();
        let _listener = bound.listen_plain().unwrap();
        assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    }

    #[test]
    fn both_families_on_one_port_are_two_listeners() {
        let Ok(free) = bind("[::]:0".parse().unwrap(), false) else {
            eprintln!("SKIPPED: no IPv6 on this machine");
            return;
        };
        let port = free.address().ip().unwrap().port();
        drop(free);
        let addresses = ["0.0.0.0", "::"].map(|ip| SocketAddr::new(ip.parse().unwrap(), port));
        let wanted = addresses.map(|address| listener::Listener {
            address: Some(ListenAddr::Ip(address)),
            ..listener::Listener::default()
        });
        let bound = bind_listeners(&wanted, &[], &mut Inherited::default()).unwrap();
        let listeners: Vec<_> =
            bound.into_iter().map(|bound| bound.listen_plain().unwrap()).collect();
        let _client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (_, peer) = listeners[0].accept().unwrap();
        assert!(peer.is_ipv4());
    }

    #[test]
    fn an_address_of_another_machine_is_refused() {
        // TEST-NET-1 (RFC 5737), which no machine has.
        let why = bind("192.0.2.1:0".parse().unwrap(), false).expect_err("not ours");
        assert!(why.contains("it is not an address of this machine"), "{why}");
    }

    #[test]
    fn a_unix_socket_has_its_mode_and_an_old_one_gives_way() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("larder.sock");
        let listener = listener::Listener {
            address: Some(ListenAddr::Unix(path.clone())),
            mode: "600".to_owned(),
            ..listener::Listener::default()
        };
        let bind =
            || bind_listeners(std::slice::from_ref(&listener), &[], &mut Inherited::default());
        let bound = bind().unwrap().pop().unwrap().listen().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(UnixStream::connect(&path).is_ok());
        let why = bind().expect_err("in use");
        assert!(why.ends_with("another process listens there"), "{why}");
        drop(bound);
        assert!(path.exists());
        drop(bind().unwrap());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        let why = bind().expect_err("no socket");
        assert!(why.contains("something other than a socket"), "{why}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_file(&path).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        assert!(bind().is_ok());
        let nobody = listener::Listener { owner: Some("no-such-user-here".to_owned()), ..listener };
        let why =
            bind_listeners(&[nobody], &[], &mut Inherited::default()).expect_err("no such user");
        assert!(why.contains("no-such-user-here"), "{why}");
    }
}
