//! The sockets that clients come in through.
//!
//! A socket is bound early, so that an address in use or a privileged port is found before
//! anything is created or changed, and listens late, when the cache is ready to answer.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that may wait to be accepted; the kernel caps it at net.core.somaxconn.
const BACKLOG: i32 = 4096;

/// A bound socket that does not listen yet.
#[derive(Debug)]
pub struct Bound {
    socket: Socket,
    address: SocketAddr,
}

/// Binds to all of `addresses`. `[::]` takes IPv4 clients too, except where another of the
/// addresses or of `others` is an IPv4 one with the same port: then each serves its own.
pub fn bind_all(addresses: &[SocketAddr], others: &[SocketAddr]) -> Result<Vec<Bound>, String> {
    let has_ipv4 = |port| {
        let mut all = addresses.iter().chain(others);
        port != 0 && all.any(|other| other.is_ipv4() && other.port() == port)
    };
    addresses.iter().map(|address| bind(*address, has_ipv4(address.port()))).collect()
}

/// Binds to `address`; port 0 takes a free one. The error names the address. `only_v6` keeps IPv4
/// clients from `[::]`.
fn bind(address: SocketAddr, only_v6: bool) -> Result<Bound, String> {
    let failed = |error: io::Error| describe(address, &error);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
        .map_err(failed)?;
    // Connections of an earlier process that linger do not keep its address from us; a process
    // that listens does.
    socket.set_reuse_address(true).map_err(failed)?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        // As told, whatever the system's default is.
        socket.set_only_v6(only_v6).map_err(failed)?;
    }
    socket.bind(&address.into()).map_err(failed)?;
    let bound = socket.local_addr().map_err(failed)?.as_socket().unwrap_or(address);
    Ok(Bound { socket, address: bound })
}

impl Bound {
    /// The address with its real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Begins to listen.
    pub fn listen(self) -> Result<TcpListener, String> {
        self.socket.listen(BACKLOG).map_err(|error| describe(self.address, &error))?;
        Ok(self.socket.into())
    }
}

fn describe(address: SocketAddr, error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => "; another process listens there",
        io::ErrorKind::AddrNotAvailable => "; it is no address of this machine",
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

    use super::*;

    fn loopback() -> SocketAddr {
        "127.0.0.1:0".parse().unwrap()
    }

    #[test]
    fn a_second_listener_on_an_address_is_refused_by_name() {
        let bound = bind(loopback(), false).unwrap();
        let address = bound.address();
        assert_ne!(address.port(), 0);
        let _listener = bound.listen().unwrap();
        let why = bind(address, false).expect_err("in use");
        assert!(why.starts_with(&format!("cannot listen on {address}: ")), "{why}");
        assert!(why.ends_with("another process listens there"), "{why}");
    }

    #[test]
    fn clients_come_in_once_it_listens() {
        let bound = bind(loopback(), false).unwrap();
        let address = bound.address();
        assert!(TcpStream::connect(address).is_err());
        let listener = bound.listen().unwrap();
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
        let port = bound.address().port();
        let _listener = bound.listen().unwrap();
        assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    }

    #[test]
    fn both_families_on_one_port_are_two_listeners() {
        let Ok(free) = bind("[::]:0".parse().unwrap(), false) else {
            eprintln!("SKIPPED: no IPv6 on this machine");
            return;
        };
        let port = free.address().port();
        drop(free);
        let addresses = ["0.0.0.0", "::"].map(|ip| SocketAddr::new(ip.parse().unwrap(), port));
        let bound = bind_all(&addresses, &[]).unwrap();
        let listeners: Vec<_> = bound.into_iter().map(|bound| bound.listen().unwrap()).collect();
        let _client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (_, peer) = listeners[0].accept().unwrap();
        assert!(peer.is_ipv4());
    }

    #[test]
    fn an_address_of_another_machine_is_refused() {
        // TEST-NET-1 (RFC 5737): on no machine.
        let why = bind("192.0.2.1:0".parse().unwrap(), false).expect_err("not ours");
        assert!(why.contains("it is no address of this machine"), "{why}");
    }
}
