//! Adapters that present the simulated network and disks to a proxy.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use device::AnyDevice;
use net::network::{Connecting, OtherListener, OtherNetwork};
use net::socket::OtherSocket;
use proxy::{ListenSocket, Network};
use sim::network::{Connection, Host, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use upstream::settings::lookup::{FoundAddresses, Lookup, LookupFuture};

/// Returns the network as one host sees it.
pub fn network_of(host: &Host) -> Network {
    Network::Other(Arc::new(OfHost(host.clone())))
}

/// Opens a listening socket on a host.
///
/// # Errors
///
/// Another listener has the port.
pub fn listen(host: &Host, port: u16) -> io::Result<ListenSocket> {
    Ok(ListenSocket::Other(Arc::new(Listening(host.listen(port)?))))
}

/// Name lookup among a network's hosts.
#[derive(Debug)]
pub(crate) struct Names(pub sim::network::Network);

impl Lookup for Names {
    fn lookup<'a>(&'a self, name: &'a str) -> LookupFuture<'a> {
        let found = self.0.lookup(name).ok_or_else(|| io::ErrorKind::NotFound.into());
        let found = found.map(|address| FoundAddresses { addresses: vec![address], ttl: None });
        Box::pin(async { found })
    }
}

#[derive(Debug)]
struct OfHost(Host);

impl OtherNetwork for OfHost {
    fn connect(&self, to: SocketAddr) -> Connecting<'_> {
        Box::pin(async move {
            let connection = self.0.connect(to).await?;
            Ok(Box::new(Simulated(connection)) as Box<dyn OtherSocket>)
        })
    }
}

#[derive(Debug)]
struct Listening(Listener);

impl OtherListener for Listening {
    fn poll_accept(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(Box<dyn OtherSocket>, SocketAddr)>> {
        let accepted = self.0.poll_accept(cx);
        accepted.map(|(connection, from)| {
            Ok((Box::new(Simulated(connection)) as Box<dyn OtherSocket>, from))
        })
    }

    fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }
}

/// A simulated connection as a socket.
struct Simulated(Connection);

impl OtherSocket for Simulated {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_readable(cx)
    }

    fn reset_at_close(&self) {
        self.0.reset_at_close();
    }

    fn peer_addr(&self) -> SocketAddr {
        self.0.peer_addr()
    }
}

impl AsyncRead for Simulated {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Simulated {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

thread_local! {
    /// Devices handed in by their thread and found by number. Devices may not leave their thread,
    /// and a proxy opens them where it runs.
    static DEVICES: RefCell<Vec<Option<AnyDevice>>> = const { RefCell::new(Vec::new()) };
}

/// A device that only its own thread can access. Dropping this removes the device from the table.
pub(crate) struct Deposited(usize);

impl Deposited {
    pub fn new(device: AnyDevice) -> Deposited {
        DEVICES.with_borrow_mut(|all| {
            all.push(Some(device));
            Deposited(all.len() - 1)
        })
    }

    pub fn get(&self) -> io::Result<AnyDevice> {
        let found = DEVICES.with_borrow(|all| all.get(self.0).cloned().flatten());
        found.ok_or_else(|| io::Error::other("the device belongs to another thread"))
    }
}

impl Drop for Deposited {
    fn drop(&mut self) {
        DEVICES.with_borrow_mut(|all| {
            if let Some(place) = all.get_mut(self.0) {
                *place = None;
            }
        });
    }
}
