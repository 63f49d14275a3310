//! A certificate authority for tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

/// An authority that issues certificates; its own certificate makes clients trust them.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    roots: Arc<RootCertStore>,
    pem: String,
}

impl Authority {
    pub fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let pem = certificate.pem();
        Authority { issuer: Issuer::new(params, key), roots: Arc::new(roots), pem }
    }

    /// Writes its own certificate and returns the path.
    pub fn file(&self, directory: &Path) -> PathBuf {
        let path = directory.join("authority.pem");
        fs::write(&path, &self.pem).unwrap();
        path
    }

    /// Writes `NAME.pem`, certificate and key in one file, and returns the path.
    pub fn issue(&self, directory: &Path, name: &str, hosts: &[&str]) -> PathBuf {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(hosts).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let path = directory.join(format!("{name}.pem"));
        fs::write(&path, certificate.pem() + &key.serialize_pem()).unwrap();
        path
    }

    /// Returns a client that trusts this authority and offers these protocols.
    pub fn client(&self, alpn: &[&str]) -> ClientConfig {
        self.client_of(rustls::DEFAULT_VERSIONS, alpn)
    }

    /// Returns a client that only speaks these versions of TLS.
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
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config
    }
}
