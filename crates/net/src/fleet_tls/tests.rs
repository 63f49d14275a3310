//! Handshakes over an in-memory stream: which peers are accepted as nodes, and what others are
//! told.

use std::fs;
use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, date_time_ymd,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;

fn key(first: u8) -> FleetKey {
    let secret: Vec<u8> = (first..first + 32).collect();
    FleetKey::parse(&secret).unwrap()
}

fn of_key(first: u8) -> FleetTls {
    FleetTls::of_key(&key(first)).unwrap()
}

/// Sends a byte and receives one; returns the negotiated protocol.
async fn connect(client: &Arc<ClientConfig>, io: DuplexStream) -> io::Result<Vec<u8>> {
    let connector = TlsConnector::from(client.clone());
    let mut stream = connector.connect(FleetTls::server_name(), io).await?;
    stream.write_all(b"?").await?;
    let mut answer = [0];
    stream.read_exact(&mut answer).await?;
    Ok(stream.get_ref().1.alpn_protocol().unwrap_or_default().to_owned())
}

async fn accept(server: &Arc<ServerConfig>, io: DuplexStream) -> io::Result<()> {
    let mut stream = TlsAcceptor::from(server.clone()).accept(io).await?;
    let mut question = [0];
    stream.read_exact(&mut question).await?;
    stream.write_all(b"!").await
}

/// Connects client and server, and returns the result of each.
async fn meet(
    client: &Arc<ClientConfig>,
    server: &Arc<ServerConfig>,
) -> (io::Result<Vec<u8>>, io::Result<()>) {
    let (near, far) = duplex(1 << 16);
    tokio::join!(connect(client, near), accept(server, far))
}

/// Connects client and server, both of which must refuse, and returns their reasons.
async fn refused(client: &FleetTls, server: &FleetTls) -> [String; 2] {
    let (near, far) = meet(&client.client, &server.server).await;
    [client.reason(&near.unwrap_err()), server.reason(&far.unwrap_err())]
}

#[tokio::test]
async fn nodes_with_the_same_key_meet_and_others_say_why_not() {
    let (one, other) = (of_key(0), of_key(1));
    let (near, far) = meet(&one.client, &of_key(0).server).await;
    assert_eq!(near.unwrap(), PROTOCOL);
    far.unwrap();
    let [near, far] = refused(&one, &other).await;
    assert_eq!(near, "it has another fleet key");
    assert_eq!(far, "it refused this node: it has another fleet key");
    // A client that accepts any server is still refused, and so is its server.
    let mut lax = (*one.client).clone();
    lax.dangerous().set_certificate_verifier(Arc::new(AnyServer));
    let (near, far) = meet(&Arc::new(lax), &other.server).await;
    assert_eq!(one.reason(&near.unwrap_err()), "it refused this node: it has another fleet key");
    let far = far.unwrap_err();
    assert_eq!(other.reason(&far), "it has another fleet key");
    assert!(far.to_string().contains("another fleet key"), "{far}");
}

#[tokio::test]
async fn a_session_is_not_resumed() {
    let tls = of_key(0);
    for _ in 0..2 {
        let (near, far) = duplex(1 << 16);
        let connector = TlsConnector::from(tls.client.clone());
        let acceptor = TlsAcceptor::from(tls.server.clone());
        let ends =
            tokio::join!(connector.connect(FleetTls::server_name(), near), acceptor.accept(far));
        let kind = ends.0.unwrap().get_ref().1.handshake_kind();
        assert_eq!(kind, Some(rustls::HandshakeKind::Full));
        ends.1.unwrap();
    }
}

/// Accepts any raw public key as a server's.
#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
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
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        outdated_signature()
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn who_shows_no_key_or_speaks_no_tls_is_refused() {
    let tls = of_key(0);
    let nobody = builder(ClientConfig::builder_with_provider)
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer))
        .with_no_client_auth();
    let (near, far) = meet(&Arc::new(nobody), &tls.server).await;
    assert!(near.is_err());
    let why = tls.reason(&far.unwrap_err());
    assert_eq!(why, "it does not know the fleet's key, or uses certificates instead");
    for plain in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[0; 64]] {
        let (mut near, far) = duplex(1 << 16);
        near.write_all(plain).await.unwrap();
        let why = tls.reason(&accept(&tls.server, far).await.unwrap_err());
        assert_eq!(why, "it does not speak TLS");
        let (near, mut far) = duplex(1 << 16);
        far.write_all(plain).await.unwrap();
        let why = tls.reason(&connect(&tls.client, near).await.unwrap_err());
        assert_eq!(why, "it does not speak TLS");
    }
    let (near, far) = duplex(1 << 16);
    drop(near);
    assert_eq!(
        tls.reason(&accept(&tls.server, far).await.unwrap_err()),
        "it closed the connection"
    );
}

/// A certificate authority and its file.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new(dir: &Path, name: &str) -> Authority {
        Authority::called(dir, name, name)
    }

    fn called(dir: &Path, name: &str, called: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, called);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let file = dir.join(format!("{name}.ca.pem"));
        fs::write(&file, issuer.pem()).unwrap();
        Authority { issuer, file }
    }

    /// Issues a certificate for these purposes that expires at the start of `year`.
    fn issue(&self, uses: &[ExtendedKeyUsagePurpose], year: i32) -> Certificate {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["some.node".to_owned()]).unwrap();
        params.extended_key_usages = uses.to_vec();
        params.not_after = date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let path = self.file.with_extension("node.pem");
        fs::write(&path, certificate.pem() + &key.serialize_pem()).unwrap();
        Certificate::load(&path, &path, &[]).unwrap()
    }

    fn node(&self) -> FleetTls {
        FleetTls::of_certificates(&self.issue(BOTH, 2100), &self.file).unwrap()
    }
}

const BOTH: &[ExtendedKeyUsagePurpose] =
    &[ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];

#[tokio::test]
async fn certificates_of_one_authority_meet_under_any_name_and_others_say_why_not() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (Authority::new(dir.path(), "ours"), Authority::new(dir.path(), "theirs"));
    let (one, other) = (ours.node(), theirs.node());
    let (near, far) = meet(&one.client, &ours.node().server).await;
    assert_eq!(near.unwrap(), PROTOCOL);
    far.unwrap();
    let [near, far] = refused(&one, &other).await;
    assert_eq!(near, "its certificate is of another authority than the fleet's");
    assert_eq!(far, "it refused this node's certificate: it knows other authorities");
    // Accepts both authorities as the fleet's, but only nodes of its own authority accept it.
    let both = dir.path().join("both.pem");
    fs::write(&both, [&ours, &theirs].map(|a| fs::read_to_string(&a.file).unwrap()).concat())
        .unwrap();
    let lax = FleetTls::of_certificates(&theirs.issue(BOTH, 2100), &both).unwrap();
    let [near, far] = refused(&lax, &one).await;
    assert_eq!(near, "it refused this node's certificate: it knows other authorities");
    assert_eq!(far, "its certificate is of another authority than the fleet's");
    let namesake = Authority::called(dir.path(), "namesake", "ours").node();
    let [near, far] = refused(&one, &namesake).await;
    assert!(near.starts_with("its certificate is not signed by the fleet's authority"), "{near}");
    assert!(far.starts_with("it refused this node: alert"), "{far}");
    let nobody = builder(ClientConfig::builder_with_provider)
        .unwrap()
        .with_root_certificates(certificate::authorities(&ours.file).unwrap())
        .with_no_client_auth();
    let (_, far) = meet(&Arc::new(nobody), &one.server).await;
    let far = one.reason(&far.unwrap_err());
    assert!(far.starts_with("it refused this node") || far.starts_with("it shows no"), "{far}");
    // One side has a key, the other certificates.
    let key = of_key(0);
    for (client, server) in [(&key, &one), (&one, &key)] {
        let (near, far) = meet(&client.client, &server.server).await;
        let why = server.reason(&far.unwrap_err());
        assert!(why.contains("instead"), "{why}");
        assert!(client.reason(&near.unwrap_err()).starts_with("it "));
    }
    let expired = FleetTls::of_certificates(&ours.issue(BOTH, 2000), &ours.file).unwrap();
    let [_, far] = refused(&one, &expired).await;
    assert!(far.contains("CertificateExpired"), "{far}");
}

#[test]
fn a_certificate_that_no_node_would_take_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (Authority::new(dir.path(), "ours"), Authority::new(dir.path(), "theirs"));
    let why = |own: &Certificate, file: &Path| FleetTls::of_certificates(own, file).unwrap_err();
    let said = why(&theirs.issue(BOTH, 2100), &ours.file);
    assert!(said.contains("no authority of") && said.contains("ours.ca.pem"), "{said}");
    let said = why(&ours.issue(&BOTH[..1], 2100), &ours.file);
    assert!(said.contains("refuse connections from this node"), "{said}");
    let said = why(&ours.issue(&BOTH[1..], 2100), &ours.file);
    assert!(said.contains("refuse connections to this node"), "{said}");
    assert!(FleetTls::of_certificates(&ours.issue(&[], 2100), &ours.file).is_ok());
    let said = why(&ours.issue(BOTH, 2100), &dir.path().join("missing.pem"));
    assert!(said.contains("missing.pem: No such file"), "{said}");
}
