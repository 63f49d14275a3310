//! Connecting to a server: resolves its name, checks each address for the requesting client, tries
//! the addresses as in RFC 8305, and performs the TLS handshake.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::connection::events::Event;
use crate::connection::stream::Stream;
use crate::connection::tls_stream::TlsStream;
use crate::connection::tls_transport::TlsTransport;
use crate::failure::cause;
use crate::failure::error::Failure;
use crate::failure::error::Reason;
use crate::failure::failure_log::Phase;
use crate::send::client::Upstream;
use crate::send::origin::Origin;
use crate::settings::endpoint::{At, Endpoint};
use crate::settings::limits::Check;
use crate::settings::limits::{UpstreamLimits, in_time};
use crate::settings::tls;
use crate::settings::tls::Tls;
use net::descriptors::lacks_resource;
use net::network::Network;
use net::socket::Socket;

impl Upstream {
    /// Opens a connection that is not pooled, for a tunnel.
    pub async fn dial(
        &self,
        endpoint: &Endpoint,
        limits: &UpstreamLimits,
        check: Check<'_>,
    ) -> Result<Socket, Failure> {
        let At::Tcp(host, port) = &endpoint.at else {
            let cause = "a tunnel leads to no socket in the file system".to_owned();
            return Err(Failure::Failed(Reason::Connect, cause));
        };
        let phase = Cell::new(Phase::Resolve);
        let dialling = self.dial_any((host, *port), limits, check, &phase);
        let dialled = in_time(limits, &phase, dialling).await;
        dialled.map(|(stream, _)| stream).inspect_err(|why| self.failed(endpoint, phase.get(), why))
    }

    /// Opens a stream to the origin. Also returns the address at its other end.
    pub(crate) async fn open(
        &self,
        endpoint: &Endpoint,
        limits: &UpstreamLimits,
        check: Check<'_>,
        phase: &Cell<Phase>,
    ) -> Result<(Stream, Option<IpAddr>), Failure> {
        let (host, port) = match &endpoint.at {
            At::Tcp(host, port) => (host, *port),
            At::Unix(path) => {
                phase.set(Phase::Connect);
                return self.open_socket(path).await;
            }
        };
        let (stream, ip) = self.dial_any((host, port), limits, check, phase).await?;
        let stream = match &endpoint.tls {
            None => Stream::Plain(stream),
            Some(settings) => {
                phase.set(Phase::Tls);
                secure(host, settings, stream).await?
            }
        };
        Ok((stream, Some(ip)))
    }

    async fn open_socket(&self, path: &Path) -> Result<(Stream, Option<IpAddr>), Failure> {
        let stream =
            self.network.connect_path(path).await.map_err(|error| not_connected(&error))?;
        self.events.count(Event::Connected);
        Ok((Stream::Plain(stream), None))
    }

    async fn dial_any(
        &self,
        (host, port): (&str, u16),
        limits: &UpstreamLimits,
        check: Check<'_>,
        phase: &Cell<Phase>,
    ) -> Result<(Socket, IpAddr), Failure> {
        phase.set(Phase::Resolve);
        let permitted = self.addresses(host, port, limits, check).await?;
        phase.set(Phase::Connect);
        let connected = match race(&self.network, &permitted, limits.stagger).await {
            Err(error) if lacks_resource(&error) && self.free_descriptors().await => {
                race(&self.network, &permitted, limits.stagger).await
            }
            connected => connected,
        };
        let stream = connected.map_err(|error| not_connected(&error))?;
        self.events.count(Event::Connected);
        // Small requests must not wait for acknowledgements.
        stream.send_at_once();
        if let Some(bound) = limits.loss_bound {
            stream.notice_loss(bound);
        }
        let address = stream.peer_addr().map_or(permitted[0].ip(), |peer| peer.ip());
        Ok((stream, address))
    }

    async fn free_descriptors(&self) -> bool {
        let Some(descriptors) = &self.descriptors else { return false };
        let freed = descriptors.free().await;
        if freed {
            // The tasks that own them close them when they run next.
            sleep(Duration::from_millis(5)).await;
        }
        freed
    }

    /// Checks that at least one address of one of the origin's servers is permitted. An origin
    /// without servers is permitted for every client.
    pub async fn permitted(
        &self,
        to: &dyn Origin,
        limits: &UpstreamLimits,
        check: Check<'_>,
    ) -> Result<(), Failure> {
        let mut last = Ok(());
        for endpoint in (0..).map_while(|number| to.endpoint(number)) {
            last = self.permitted_at(endpoint, limits, check).await;
            if last.is_ok() {
                break;
            }
        }
        last
    }

    async fn permitted_at(
        &self,
        endpoint: &Endpoint,
        limits: &UpstreamLimits,
        check: Check<'_>,
    ) -> Result<(), Failure> {
        match &endpoint.at {
            // Only the configuration can name it, no client.
            At::Unix(_) => Ok(()),
            At::Tcp(host, port) => {
                let found = self.addresses(host, *port, limits, check).await;
                found.map(drop).inspect_err(|why| self.failed(endpoint, Phase::Resolve, why))
            }
        }
    }

    /// Returns the addresses of a host that the check permits.
    async fn addresses(
        &self,
        host: &str,
        port: u16,
        limits: &UpstreamLimits,
        check: Check<'_>,
    ) -> Result<Vec<SocketAddr>, Failure> {
        let addresses = self.resolver.resolve(host, limits).await.map_err(|e| {
            let reason = match e.kind() {
                io::ErrorKind::TimedOut => Reason::DnsTimeout,
                _ => Reason::Dns,
            };
            Failure::Failed(reason, cause::of_io(&e))
        })?;
        let mut permitted = Vec::with_capacity(addresses.len());
        permitted.extend(addresses.iter().map(|&ip| SocketAddr::new(ip, port)));
        permitted.retain(|&address| check(address));
        if permitted.is_empty() && !addresses.is_empty() {
            return Err(Failure::Denied);
        }
        Ok(permitted)
    }
}

async fn secure(host: &str, settings: &Tls, stream: Socket) -> Result<Stream, Failure> {
    // The file names in this error are for operators only.
    let config = settings.config().map_err(|why| Failure::Failed(Reason::Internal, why))?;
    let name = settings.server_name(host).map_err(|why| Failure::Failed(Reason::Tls, why))?;
    let secured = TlsConnector::from(config).connect(name, TlsTransport::new(stream)).await;
    let stream = secured.map_err(|error| {
        let cause = match error.kind() {
            io::ErrorKind::UnexpectedEof => "it ended the connection in the handshake".to_owned(),
            _ => cause::of_io(&error),
        };
        Failure::Failed(tls::reason(&error), cause)
    })?;
    Ok(Stream::Tls(Box::new(TlsStream::new(stream))))
}

fn not_connected(error: &io::Error) -> Failure {
    let reason = match error.kind() {
        io::ErrorKind::ConnectionRefused => Reason::ConnectRefused,
        _ => Reason::Connect,
    };
    Failure::Failed(reason, cause::of_io(error))
}

/// Connects to the first address that accepts. Each address gets a head start of `stagger`, and the
/// other attempts are cancelled (RFC 8305, 5).
async fn race(
    network: &Network,
    addresses: &[SocketAddr],
    stagger: Duration,
) -> io::Result<Socket> {
    if let [only] = addresses {
        return network.connect(*only).await;
    }
    let mut attempts = JoinSet::new();
    let mut rest = addresses.iter().copied();
    let mut last_error = io::Error::new(io::ErrorKind::NotFound, "no address");
    loop {
        if let Some(address) = rest.next() {
            let network = network.clone();
            attempts.spawn_local(async move { network.connect(address).await });
        } else if attempts.is_empty() {
            return Err(last_error);
        }
        let bound = if rest.len() > 0 { stagger } else { Duration::from_secs(3600) };
        // On timeout the next address is tried as well.
        if let Ok(Some(Ok(result))) = timeout(bound, attempts.join_next()).await {
            match result {
                Ok(stream) => return Ok(stream),
                Err(error) => last_error = error,
            }
        }
    }
}
