//! Certificates for one test, and TLS in front of a scripted origin.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::{fs, io, thread};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use upstream::settings::tls::Identity;

/// A certificate authority that signs any certificate.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    dir: tempfile::TempDir,
}

/// A certificate and its key.
pub struct Issued {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    pem: String,
    key_pem: String,
}

impl Authority {
    pub fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("ca.pem"), certificate.pem()).unwrap();
        let certificate = certificate.der().clone();
        Authority { issuer: Issuer::new(params, key), certificate, dir }
    }

    /// Returns a file with the authority's own certificate.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    pub fn issue(&self, name: &str) -> Issued {
        self.issue_with(name, |_| ())
    }

    pub fn issue_with(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Issued {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
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

    /// Returns a server's settings; with `mutual`, it requires client certificates of this
    /// authority.
    pub fn server(&self, issued: Issued, protocols: &[&str], mutual: bool) -> Arc<ServerConfig> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if mutual {
            let mut roots = RootCertStore::empty();
            roots.add(self.certificate.clone()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build();
            builder.with_client_cert_verifier(verifier.unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let mut config = builder.with_single_cert(issued.chain, issued.key).unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}

impl Issued {
    /// Writes certificate and key into `dir`.
    pub fn files(&self, dir: &Path) -> Identity {
        let identity = Identity { certificate: dir.join("cert.pem"), key: dir.join("key.pem") };
        fs::write(&identity.certificate, &self.pem).unwrap();
        fs::write(&identity.key, &self.key_pem).unwrap();
        identity
    }
}

/// TLS in front of a plain server.
pub struct Front {
    pub address: SocketAddr,
    names: Arc<Mutex<Vec<Option<String>>>>,
}

impl Front {
    pub fn start(behind: SocketAddr, config: Arc<ServerConfig>) -> Front {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let names = Arc::new(Mutex::new(Vec::new()));
        let seen = names.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, seen) = (config.clone(), seen.clone());
                thread::spawn(move || {
                    // Some tests are about clients that reject this server.
                    let _ = relay(stream, behind, config, &seen);
                });
            }
        });
        Front { address, names }
    }

    /// Returns the server names (SNI), one for each completed handshake.
    pub fn names(&self) -> Vec<Option<String>> {
        self.names.lock().unwrap().clone()
    }
}

fn relay(
    mut stream: TcpStream,
    behind: SocketAddr,
    config: Arc<ServerConfig>,
    names: &Mutex<Vec<Option<String>>>,
) -> io::Result<()> {
    let mut tls = ServerConnection::new(config).map_err(io::Error::other)?;
    while tls.is_handshaking() {
        tls.complete_io(&mut stream)?;
    }
    names.lock().unwrap().push(tls.server_name().map(str::to_owned));
    stream.set_nonblocking(true)?;
    let mut secured = StreamOwned::new(tls, stream);
    let mut plain = TcpStream::connect(behind)?;
    plain.set_nonblocking(true)?;
    // Polling both directions in turn is enough for the little data of a test.
    loop {
        let ended = pump(&mut secured, &mut plain)? | pump(&mut plain, &mut secured)?;
        if ended {
            secured.conn.send_close_notify();
            let _ = io::Write::flush(&mut secured);
            return Ok(());
        }
        thread::sleep(std::time::Duration::from_micros(200));
    }
}

/// Moves available bytes; returns whether the end was reached.
fn pump(from: &mut impl io::Read, to: &mut impl io::Write) -> io::Result<bool> {
    let mut buffer = [0; 16 << 10];
    match from.read(&mut buffer) {
        Ok(0) => Ok(true),
        Ok(n) => {
            let mut rest = &buffer[..n];
            while !rest.is_empty() {
                match to.write(rest) {
                    Ok(n) => rest = &rest[n..],
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => thread::yield_now(),
                    Err(e) => return Err(e),
                }
            }
            while let Err(e) = to.flush() {
                if e.kind() != io::ErrorKind::WouldBlock {
                    return Err(e);
                }
            }
            Ok(false)
        }
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(e) => Err(e),
    }
}
