//! A certificate authority of one test, and TLS in front of an origin without it.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::{fs, io, thread};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// An authority that signs any certificate; its own certificate makes clients trust them.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    roots: Arc<RootCertStore>,
    directory: TempDir,
}

/// A certificate and its key.
pub struct Issued {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    pem: String,
    key_pem: String,
}

impl Default for Authority {
    fn default() -> Authority {
        Authority::new()
    }
}

impl Authority {
    /// Returns an authority with a new key.
    pub fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("ca.pem"), certificate.pem()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        Authority { issuer: Issuer::new(params, key), roots: Arc::new(roots), directory }
    }

    /// Returns the file with its own certificate, which exists as long as the authority.
    pub fn file(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// Copies the file with its own certificate into a directory; returns the path.
    pub fn file_in(&self, directory: &Path) -> PathBuf {
        let path = directory.join("authority.pem");
        fs::copy(self.file(), &path).unwrap();
        path
    }

    /// Issues a certificate for a host.
    pub fn issue(&self, name: &str) -> Issued {
        self.issue_with(&[name], |_| ())
    }

    /// Issues a certificate for hosts, with changed parameters.
    pub fn issue_with(
        &self,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Issued {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Issued {
            chain: vec![certificate.der().clone()],
            pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            key: key.into(),
        }
    }

    /// Writes `NAME.pem`, certificate and key in one file, and returns the path.
    pub fn issue_file(&self, directory: &Path, name: &str, hosts: &[&str]) -> PathBuf {
        let Issued { pem, key_pem, .. } = self.issue_with(hosts, |_| ());
        let path = directory.join(format!("{name}.pem"));
        fs::write(&path, pem + &key_pem).unwrap();
        path
    }

    /// Returns a server's settings; with `mutual`, it requires client certificates of this
    /// authority.
    pub fn server(&self, issued: Issued, alpn: &[&str], mutual: bool) -> Arc<ServerConfig> {
        server_config(issued.chain, issued.key, alpn, mutual.then_some(self))
    }

    /// Returns a client's settings: it trusts this authority and offers these protocols.
    pub fn client(&self, alpn: &[&str]) -> ClientConfig {
        self.client_of(rustls::DEFAULT_VERSIONS, alpn)
    }

    /// Works like [`Authority::client`] for a client that speaks only these versions of TLS.
    pub fn client_of(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        alpn: &[&str],
    ) -> ClientConfig {
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        config.alpn_protocols = protocols(alpn);
        config
    }
}

/// Returns the settings of a server with the certificate and key of a file. With `clients`, it
/// requires client certificates of that authority.
pub fn server_of_file(
    path: &Path,
    alpn: &[&str],
    clients: Option<&Authority>,
) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(path).unwrap().map(Result::unwrap).collect();
    server_config(chain, PrivateKeyDer::from_pem_file(path).unwrap(), alpn, clients)
}

fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    alpn: &[&str],
    clients: Option<&Authority>,
) -> Arc<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        Some(authority) => {
            let roots = authority.roots.clone();
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            builder.with_client_cert_verifier(verifier.unwrap())
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = protocols(alpn);
    Arc::new(config)
}

fn protocols(alpn: &[&str]) -> Vec<Vec<u8>> {
    alpn.iter().map(|name| name.as_bytes().to_vec()).collect()
}

impl Issued {
    /// Writes the certificate and the key into a directory; returns their paths.
    pub fn files(&self, directory: &Path) -> (PathBuf, PathBuf) {
        let (certificate, key) = (directory.join("cert.pem"), directory.join("key.pem"));
        fs::write(&certificate, &self.pem).unwrap();
        fs::write(&key, &self.key_pem).unwrap();
        (certificate, key)
    }
}

/// TLS in front of a plain server. It lives as long as the test process.
pub struct TlsFront {
    address: SocketAddr,
    names: Arc<Mutex<Vec<Option<String>>>>,
}

impl TlsFront {
    /// Starts to relay to the server `behind`.
    pub fn start(behind: SocketAddr, config: Arc<ServerConfig>) -> TlsFront {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let names = Arc::<Mutex<Vec<_>>>::default();
        let seen = names.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    // Some tests are about clients that reject this server.
                    tokio::spawn(relay(stream, behind, config.clone(), seen.clone()));
                }
            });
        });
        TlsFront { address, names }
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the server names (SNI), one for each completed handshake.
    pub fn names(&self) -> Vec<Option<String>> {
        self.names.lock().unwrap().clone()
    }
}

async fn relay(
    stream: TcpStream,
    behind: SocketAddr,
    config: Arc<ServerConfig>,
    names: Arc<Mutex<Vec<Option<String>>>>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut secured = TlsAcceptor::from(config).accept(stream).await?;
    names.lock().unwrap().push(secured.get_ref().1.server_name().map(str::to_owned));
    let mut plain = TcpStream::connect(behind).await?;
    plain.set_nodelay(true)?;
    copy_bidirectional(&mut secured, &mut plain).await?;
    Ok(())
}
