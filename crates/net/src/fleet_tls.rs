//! TLS between the nodes of a fleet: mutual, version 1.3 only, with ALPN `http/1.1`.
//!
//! A fleet that shares a [`FleetKey`] needs no certificates. All nodes derive one Ed25519 key pair
//! from it and present its public half unwrapped (raw public keys, RFC 7250); each node accepts
//! that key and no other. Any holder of the shared key is a node; nodes are not told apart. If the
//! operator provides certificates instead, any peer is a node whose certificate was issued by one
//! of the authorities for both sides of a connection, whatever names it contains.
//!
//! Guarantees:
//!
//! * No connection is made to, or accepted from, anything but a node, and none is unencrypted.
//! * Sessions are not resumed, so a key or an authority that was withdrawn opens no further
//!   connection.
//! * Both ends can report why they refused the other or were refused ([`FleetTls::reason`]). In TLS
//!   1.3 the connecting end finishes before the other end has checked it, so it learns of a refusal
//!   at its first read.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::CipherSuite::TLS13_AES_128_GCM_SHA256;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    AlwaysResolvesClientRawPublicKeys, Resumption, verify_server_cert_signed_by_trust_anchor,
};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{
    AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage, ParsedCertificate,
    WebPkiClientVerifier,
};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ConfigBuilder, ConfigSide,
    DigitallySignedStruct, DistinguishedName, OtherError, RootCertStore, ServerConfig,
    SignatureScheme, SupportedCipherSuite, WantsVerifier,
};
use rustls_pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};

use crate::certificate::{self, Certificate};
use crate::fleet_key::FleetKey;

/// DER prefix of an Ed25519 private key in PKCS #8 (RFC 8410, 7); the key's 32 bytes follow.
const ED25519_PKCS8: [u8; 16] =
    [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// ALPN protocol between nodes.
const PROTOCOL: &[u8] = b"http/1.1";

/// Client and server configuration for TLS between nodes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct FleetTls {
    /// For connections to other nodes, with [`FleetTls::server_name`] as the name.
    pub client: Arc<ClientConfig>,
    /// For connections from other nodes.
    pub server: Arc<ServerConfig>,
    proof: Proof,
}

/// The means by which a node proves that it belongs to the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    Key,
    Certificate,
}

impl FleetTls {
    /// Creates the TLS configuration of the nodes that share `key`.
    ///
    /// # Errors
    ///
    /// Fails with a sentence if the TLS library does not support what is needed.
    pub fn of_key(key: &FleetKey) -> Result<FleetTls, String> {
        let pair = [&ED25519_PKCS8[..], &key.identity()].concat();
        let signer = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(pair)).map_err(failed)?;
        let Some(public) = signer.public_key().map(SubjectPublicKeyInfoDer::into_owned) else {
            return Err("TLS cannot be set up: the key pair has no public half".to_owned());
        };
        let shown = CertificateDer::from(public.as_ref().to_owned());
        let certified = Arc::new(CertifiedKey::new(vec![shown], signer));
        let verifier = Arc::new(SameKey { public, algorithms: algorithms() });
        let client = builder(ClientConfig::builder_with_provider)?
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone())
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(
                certified.clone(),
            )));
        let server = builder(ServerConfig::builder_with_provider)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified)));
        Ok(FleetTls::new(client, server, Proof::Key))
    }

    /// Creates the TLS configuration of a node that presents `own` and accepts every peer whose
    /// certificate was issued by one of the `authorities`, a PEM file.
    ///
    /// # Errors
    ///
    /// Fails with a sentence if the file holds no authorities, or if other nodes would refuse
    /// `own`. An expired or not yet valid certificate is no error here: nodes come and go, and this
    /// machine's clock may be wrong.
    pub fn of_certificates(own: &Certificate, authorities: &Path) -> Result<FleetTls, String> {
        let roots = Arc::new(certificate::authorities(authorities)?);
        let provider = Arc::new(ring::default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider)
            .build()
            .map_err(|error| format!("{}: {error}", authorities.display()))?;
        let servers = Arc::new(AnyName { roots, algorithms: algorithms() });
        check(own, authorities, &*servers, &*clients)?;
        let shown = Arc::new(SingleCertAndKey::from(own.key.clone()));
        let client = builder(ClientConfig::builder_with_provider)?
            .dangerous()
            .with_custom_certificate_verifier(servers)
            .with_client_cert_resolver(shown.clone());
        let server = builder(ServerConfig::builder_with_provider)?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(shown);
        Ok(FleetTls::new(client, server, Proof::Certificate))
    }

    fn new(mut client: ClientConfig, mut server: ServerConfig, proof: Proof) -> FleetTls {
        client.alpn_protocols = vec![PROTOCOL.to_owned()];
        client.resumption = Resumption::disabled();
        // The name would tell eavesdroppers about the connection.
        client.enable_sni = false;
        server.alpn_protocols = vec![PROTOCOL.to_owned()];
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        FleetTls { client: Arc::new(client), server: Arc::new(server), proof }
    }

    /// Returns the name to pass when connecting. It is neither sent nor compared with anything.
    pub fn server_name() -> ServerName<'static> {
        ServerName::IpAddress(std::net::Ipv4Addr::LOCALHOST.into())
    }

    /// Returns why a connection with another node failed, for a log. "it" in the text is the other
    /// node.
    pub fn reason(&self, error: &io::Error) -> String {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let Some(tls) = tls else {
            return match error.kind() {
                io::ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
                _ => error.to_string(),
            };
        };
        self.tls_reason(tls)
    }

    /// Returns whether a connection failed because one end does not accept the other as a node.
    /// True for a peer that speaks the TLS of another fleet, false for a port scan.
    pub fn is_of_stranger(error: &io::Error) -> bool {
        use rustls::Error;
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        matches!(tls, Some(Error::InvalidCertificate(_) | Error::AlertReceived(_)))
    }

    fn tls_reason(&self, error: &rustls::Error) -> String {
        use rustls::Error;
        match (error, self.proof) {
            (Error::InvalidCertificate(CertificateError::Other(other)), _)
                if other.0.is::<AnotherKey>() =>
            {
                format!("it has {AnotherKey:?}")
            }
            (Error::InvalidCertificate(CertificateError::UnknownIssuer), _) => {
                "its certificate is of another authority than the fleet's".to_owned()
            }
            (Error::InvalidCertificate(CertificateError::BadSignature), _) => {
                "its certificate is not signed by the fleet's authority of that name, or it does \
                 not have its private key"
                    .to_owned()
            }
            (Error::InvalidCertificate(why), _) => format!("its certificate is refused: {why}"),
            (Error::AlertReceived(AlertDescription::CertificateUnknown), Proof::Key) => {
                format!("it refused this node: it has {AnotherKey:?}")
            }
            (Error::AlertReceived(AlertDescription::UnknownCA), Proof::Certificate) => {
                "it refused this node's certificate: it knows other authorities".to_owned()
            }
            (Error::AlertReceived(alert), _) => format!("it refused this node: alert {alert:?}"),
            (Error::NoCertificatesPresented | Error::PeerIncompatible(_), Proof::Key) => {
                "it does not know the fleet's key, or uses certificates instead".to_owned()
            }
            (Error::NoCertificatesPresented | Error::PeerIncompatible(_), Proof::Certificate) => {
                "it shows no certificate, or uses a fleet key instead".to_owned()
            }
            (Error::InvalidMessage(_), _) => "it does not speak TLS".to_owned(),
            (Error::NoApplicationProtocol, _) => "it does not speak HTTP/1.1".to_owned(),
            (other, _) => other.to_string(),
        }
    }
}

fn failed(error: rustls::Error) -> String {
    format!("TLS cannot be set up: {error}")
}

fn algorithms() -> WebPkiSupportedAlgorithms {
    ring::default_provider().signature_verification_algorithms
}

/// Starts a TLS 1.3 configuration. It prefers AES with keys of 128 bits, which takes 10 rounds for
/// each block in place of 14.
fn builder<S: ConfigSide>(
    begin: fn(Arc<CryptoProvider>) -> ConfigBuilder<S, rustls::WantsVersions>,
) -> Result<ConfigBuilder<S, WantsVerifier>, String> {
    let mut provider = ring::default_provider();
    let is_later = |suite: &SupportedCipherSuite| suite.suite() != TLS13_AES_128_GCM_SHA256;
    provider.cipher_suites.sort_by_key(is_later);
    begin(Arc::new(provider)).with_protocol_versions(&[&TLS13]).map_err(failed)
}

/// Checks that other nodes would accept `own` as a node, on both sides of a connection.
fn check(
    own: &Certificate,
    authorities: &Path,
    servers: &dyn ServerCertVerifier,
    clients: &dyn ClientCertVerifier,
) -> Result<(), String> {
    let [first, others @ ..] = &own.key.cert[..] else { return Ok(()) };
    let (name, now) = (FleetTls::server_name(), UnixTime::now());
    let as_server = servers.verify_server_cert(first, others, &name, &[], now).map(drop);
    let as_client = clients.verify_client_cert(first, others, now).map(drop);
    for (role, verdict) in [("to", as_server), ("from", as_client)] {
        let why = match verdict {
            Ok(()) => continue,
            Err(rustls::Error::InvalidCertificate(
                CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYetContext { .. },
            )) => continue,
            Err(rustls::Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature,
            )) => {
                format!("no authority of {} has issued it", authorities.display())
            }
            Err(rustls::Error::InvalidCertificate(why)) => why.to_string(),
            Err(other) => other.to_string(),
        };
        let at = own.source().display();
        return Err(format!("{at}: other nodes refuse connections {role} this node: {why}"));
    }
    Ok(())
}

/// The error for a key other than the fleet's.
struct AnotherKey;

impl fmt::Debug for AnotherKey {
    // rustls prints only the debug output of this error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another fleet key")
    }
}

impl fmt::Display for AnotherKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for AnotherKey {}

/// Refuses TLS 1.2 signatures; TLS 1.2 is never negotiated.
fn outdated_signature() -> Result<HandshakeSignatureValid, rustls::Error> {
    Err(rustls::PeerIncompatible::Tls12NotOffered.into())
}

/// A verifier that accepts peers that hold the private half of one key.
#[derive(Debug)]
struct SameKey {
    public: SubjectPublicKeyInfoDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl SameKey {
    fn verify(&self, shown: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        match shown.as_ref() == self.public.as_ref() {
            true => Ok(()),
            false => Err(CertificateError::Other(OtherError(Arc::new(AnotherKey))).into()),
        }
    }

    fn verify_signature(
        &self,
        message: &[u8],
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature_with_raw_key(message, &self.public, signature, &self.algorithms)
    }
}

impl ServerCertVerifier for SameKey {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.verify(shown).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        outdated_signature()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        _: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verify_signature(message, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for SameKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.verify(shown).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        outdated_signature()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        _: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verify_signature(message, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// A verifier that accepts peers with a certificate from one of the authorities, whatever its
/// names: nodes move, and are reached by address.
#[derive(Debug)]
struct AnyName {
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let (parsed, known) = (ParsedCertificate::try_from(shown)?, self.algorithms.all);
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, others, now, known)
            .map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        outdated_signature()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, shown, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
