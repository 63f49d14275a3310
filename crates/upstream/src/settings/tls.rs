//! TLS with origins: verification of their certificates, and the proxy's own certificate.
//!
//! Guarantees: a server's certificate is verified against the authorities and its name, unless the
//! configuration disables this for that origin, which is warned about at every start. Connections
//! made under different settings are never interchanged (each [`Tls`] equals only its clones). A
//! certificate that changed on disk is used from the next reload on.

use std::fmt;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::failure::error::Reason;
use crate::settings::endpoint::Http2;
use net::certificate;

/// Options by which a server and the proxy prove their identities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// PEM file with the trusted authorities; `None` for those of the system.
    pub authorities: Option<PathBuf>,
    /// Certificate and key to present on request, if any.
    pub identity: Option<Identity>,
    /// Name to request (SNI) and to verify in the certificate; `None` for the origin's host.
    pub name: Option<String>,
    /// Accept any certificate, so that the server's identity is unknown.
    pub unverified: bool,
}

/// The proxy's certificate for a server (mutual TLS).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// PEM file with the certificate and the intermediate certificates.
    pub certificate: PathBuf,
    /// PEM file with the key.
    pub key: PathBuf,
}

/// TLS settings, ready for use. Cheap to clone; equal only to its clones.
#[derive(Clone)]
pub struct Tls(Arc<Inner>);

struct Inner {
    options: TlsOptions,
    http2: Http2,
    /// Built when first needed, so that a proxy that fetches nothing over https does not read the
    /// authorities.
    config: OnceLock<Result<Arc<ClientConfig>, String>>,
    /// The same settings without HTTP/2.
    without_http2: OnceLock<Tls>,
}

impl Tls {
    /// Creates settings. The files are read by [`Tls::check`] or when first needed.
    pub fn new(options: TlsOptions, http2: Http2) -> Tls {
        let (config, without_http2) = (OnceLock::new(), OnceLock::new());
        Tls(Arc::new(Inner { options, http2, config, without_http2 }))
    }

    /// Creates settings from a complete configuration, for servers that are requested as `name`
    /// over HTTP/1.1, whatever their address. The configuration must verify their identity.
    pub fn ready(config: Arc<ClientConfig>, name: &str) -> Tls {
        let options = TlsOptions { name: Some(name.to_owned()), ..TlsOptions::default() };
        let (config, without_http2) = (OnceLock::from(Ok(config)), OnceLock::new());
        Tls(Arc::new(Inner { options, http2: Http2::Off, config, without_http2 }))
    }

    /// Returns the same settings offering only HTTP/1.1. Repeated calls return equal values.
    pub(crate) fn without_http2(&self) -> Tls {
        if self.0.http2 == Http2::Off {
            return self.clone();
        }
        let made = || Tls::new(self.0.options.clone(), Http2::Off);
        self.0.without_http2.get_or_init(made).clone()
    }

    /// Reads the files.
    ///
    /// # Errors
    ///
    /// Fails with a sentence that names the file and the problem.
    pub fn check(&self) -> Result<(), String> {
        self.config().map(drop)
    }

    /// Returns the options that the settings were created from.
    pub fn options(&self) -> &TlsOptions {
        &self.0.options
    }

    /// Returns the settings as they are used. Reads the files when first called.
    ///
    /// # Errors
    ///
    /// Fails like [`Tls::check`].
    pub fn config(&self) -> Result<Arc<ClientConfig>, String> {
        let Inner { options, http2, config, .. } = &*self.0;
        config.get_or_init(|| build(options, *http2).map(Arc::new)).clone()
    }

    /// Returns the name to request from a server on `host`.
    pub(crate) fn server_name(&self, host: &str) -> Result<ServerName<'static>, String> {
        let name = self.0.options.name.as_deref().unwrap_or(host);
        // A final dot is not part of the name in TLS (RFC 6066, 3).
        let bare = name.strip_suffix('.').unwrap_or(name).to_owned();
        ServerName::try_from(bare).map_err(|_| "its name is not valid in TLS".to_owned())
    }
}

impl PartialEq for Tls {
    fn eq(&self, other: &Tls) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Tls {}

impl Hash for Tls {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.options.fmt(f)
    }
}

fn build(options: &TlsOptions, http2: Http2) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?;
    let verified = match options.unverified {
        true => versions
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(NoVerification(provider))),
        false => versions.with_root_certificates(authorities(options.authorities.as_deref())?),
    };
    let mut config = match &options.identity {
        None => verified.with_no_client_auth(),
        Some(Identity { certificate, key }) => {
            let shown = format!("{} and {}", certificate.display(), key.display());
            verified
                .with_client_auth_cert(certificates(certificate)?, read_key(key)?)
                .map_err(|error| format!("{shown} cannot be used together: {error}"))?
        }
    };
    let protocols: &[&[u8]] = match http2 {
        Http2::Off => &[b"http/1.1"],
        Http2::Negotiated => &[b"h2", b"http/1.1"],
        Http2::PriorKnowledge => &[b"h2"],
    };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

/// Reads the authorities in a file, or those that the system trusts.
fn authorities(file: Option<&Path>) -> Result<RootCertStore, String> {
    if let Some(file) = file {
        return certificate::authorities(file);
    }
    let mut store = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = store.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err("the system has no list of certificate authorities: install one \
                    (package ca-certificates), or name a file of authorities"
            .to_owned());
    }
    Ok(store)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let at = file.display();
    let text = fs::read(file).map_err(|error| format!("{at}: {error}"))?;
    certificate::certificates(file, &text)
}

fn read_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let at = file.display();
    let text = fs::read(file).map_err(|error| format!("{at}: {error}"))?;
    certificate::private_key(file, &text)
}

/// Returns why a handshake failed, for the request's outcome.
pub(crate) fn reason(error: &io::Error) -> Reason {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => {
            Reason::Certificate
        }
        Some(rustls::Error::AlertReceived(_)) => Reason::TlsAlert,
        _ => Reason::Tls,
    }
}

/// Returns the TLS reason of an error that occurred after the handshake, if any. With TLS 1.3 a
/// server may reject the proxy's certificate only after the request was sent.
pub(crate) fn refusal(error: &(dyn std::error::Error + 'static)) -> Option<Reason> {
    let mut source = Some(error);
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            let is_tls = io.get_ref().is_some_and(|inner| inner.is::<rustls::Error>());
            return is_tls.then(|| reason(io));
        }
        source = inner.source();
    }
    None
}

/// Verifier for origins that are configured as unverified. The handshake signature is still
/// checked: the server must at least hold the key of the certificate that it presents.
#[derive(Debug)]
struct NoVerification(Arc<CryptoProvider>);

impl ServerCertVerifier for NoVerification {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn refused(options: TlsOptions) -> String {
        Tls::new(options, Http2::Off).check().unwrap_err()
    }

    #[test]
    fn unusable_files_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let (empty, missing) = (dir.path().join("empty.pem"), dir.path().join("missing.pem"));
        fs::write(&empty, "nothing here\n").unwrap();
        for (file, why) in
            [(&empty, "expected a certificate in PEM, found none"), (&missing, "No such file")]
        {
            let authorities = Some(file.clone());
            let said = refused(TlsOptions { authorities, ..TlsOptions::default() });
            assert!(said.contains(why) && said.contains(file.to_str().unwrap()), "{said}");
        }
        let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        let certificate = dir.path().join("cert.pem");
        fs::write(&certificate, made.cert.pem()).unwrap();
        let identity = Some(Identity { certificate: certificate.clone(), key: certificate });
        let unverified = true;
        let said = refused(TlsOptions { identity, unverified, ..TlsOptions::default() });
        assert!(said.contains("expected a private key in PEM"), "{said}");
    }

    #[test]
    fn the_tls_name_is_the_host_unless_configured() {
        let of = |name: Option<&str>, host: &str| {
            let name = name.map(str::to_owned);
            let tls = Tls::new(TlsOptions { name, ..TlsOptions::default() }, Http2::Off);
            tls.server_name(host).map(|name| name.to_str().into_owned())
        };
        assert_eq!(of(None, "a.example.").unwrap(), "a.example");
        assert_eq!(of(None, "::1").unwrap(), "::1");
        assert_eq!(of(Some("b.example"), "10.0.0.1").unwrap(), "b.example");
        assert!(of(None, "a b").is_err());
    }
}
