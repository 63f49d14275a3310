//! All certificates of a proxy, the selection of one for each client, and the TLS parameters.
//!
//! A store is built and replaced as a whole: a failed reload leaves the previous store in force. A
//! handshake finishes with the store that it began with. Session ticket keys outlive all stores of
//! the process, so a reload does not force full handshakes.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ProducesTickets, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::certificate::Certificate;

/// TLS options for client connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// Offers TLS 1.2 as well. Default true: without it some clients from 2018 and earlier cannot
    /// connect, and the part of it that rustls implements has no known weakness.
    pub tls12: bool,
    /// Refuses a client that names a host that no certificate covers, instead of sending it the
    /// first certificate. Default false.
    pub strict_sni: bool,
    /// Offers HTTP/2. Default true.
    pub http2: bool,
    /// Time limit of a handshake, from accept to its end, default 10 s. Then the connection is
    /// closed.
    pub handshake_timeout: Duration,
}

impl Default for TlsOptions {
    fn default() -> Self {
        TlsOptions {
            tls12: true,
            strict_sni: false,
            http2: true,
            handshake_timeout: Duration::from_secs(10),
        }
    }
}

/// The certificates of a proxy, ready for handshakes.
pub struct CertificateStore {
    /// The rustls configuration for handshakes.
    pub config: Arc<ServerConfig>,
    /// Time limit of a handshake; then the connection is closed.
    pub handshake_timeout: Duration,
    chooser: Arc<CertResolver>,
}

impl fmt::Debug for CertificateStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.chooser.certificates).finish()
    }
}

impl CertificateStore {
    /// Builds a store of these certificates. The first one serves clients that name no host or a
    /// host that no certificate covers.
    ///
    /// # Errors
    ///
    /// Fails with a sentence if there is no certificate or the system provides no randomness.
    pub fn new(
        certificates: Vec<Certificate>,
        options: &TlsOptions,
    ) -> Result<CertificateStore, String> {
        if certificates.is_empty() {
            return Err("TLS needs at least one certificate".to_owned());
        }
        let versions: &[_] = match options.tls12 {
            true => &[&rustls::version::TLS13, &rustls::version::TLS12],
            false => &[&rustls::version::TLS13],
        };
        let chooser = Arc::new(CertResolver::new(certificates, options.strict_sni));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_cert_resolver(chooser.clone());
        config.ticketer = ticketer()?;
        if options.http2 {
            config.alpn_protocols.push(b"h2".to_vec());
        }
        config.alpn_protocols.push(b"http/1.1".to_vec());
        let handshake_timeout = options.handshake_timeout;
        Ok(CertificateStore { config: Arc::new(config), handshake_timeout, chooser })
    }

    /// Returns the certificates in the order given.
    pub fn certificates(&self) -> &[Certificate] {
        &self.chooser.certificates
    }

    /// Returns whether a connection whose client sent `sni` may carry requests for `host` (RFC
    /// 9110, 7.4): the client named that host, it named none, or the certificate that it received
    /// also covers that host (RFC 9113, 9.1.1).
    pub fn covers(&self, sni: Option<&str>, host: &str) -> bool {
        let Some(sni) = sni else { return true };
        let host = host.strip_suffix('.').unwrap_or(host);
        if sni.eq_ignore_ascii_case(host) {
            return true;
        }
        // The client has one of these, by the signatures that it knows.
        let host = host.to_ascii_lowercase();
        let names = |number: &usize| self.chooser.certificates[*number].names();
        let of_name = self.chooser.candidates(sni);
        let received = if of_name.is_empty() { &self.chooser.defaults } else { of_name };
        received.iter().all(|number| names(number).iter().any(|name| matches(name, &host)))
    }
}

/// Returns the keys that encrypt session tickets: one set per process, rotated by rustls every six
/// hours.
fn ticketer() -> Result<Arc<dyn ProducesTickets>, String> {
    static TICKETER: OnceLock<Arc<dyn ProducesTickets>> = OnceLock::new();
    if let Some(ticketer) = TICKETER.get() {
        return Ok(ticketer.clone());
    }
    let made = ring::Ticketer::new().map_err(|error| format!("session tickets: {error}"))?;
    Ok(TICKETER.get_or_init(|| made).clone())
}

/// Selects certificates by host name.
struct CertResolver {
    certificates: Vec<Certificate>,
    /// Certificate numbers by name; `*.` covers all names one level below.
    by_name: HashMap<String, Vec<usize>>,
    /// The first certificate, and all others that share one of its names.
    defaults: Vec<usize>,
    strict: bool,
}

impl CertResolver {
    fn new(certificates: Vec<Certificate>, strict: bool) -> CertResolver {
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (number, certificate) in certificates.iter().enumerate() {
            for name in certificate.names() {
                by_name.entry(name.clone()).or_default().push(number);
            }
        }
        let of_first = certificates.first().map_or(&[][..], Certificate::names);
        let is_default = |number: &usize| {
            *number == 0 || certificates[*number].names().iter().any(|name| of_first.contains(name))
        };
        let defaults = (0..certificates.len()).filter(is_default).collect();
        CertResolver { certificates, by_name, defaults, strict }
    }

    /// Returns the first of several certificates (such as an RSA and an elliptic-curve one) whose
    /// signature the client supports; the first of all if it supports none.
    fn usable(&self, found: &[usize], hello: &ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let keys = || found.iter().map(|&number| &self.certificates[number].key);
        let can_check =
            |key: &&Arc<CertifiedKey>| key.key.choose_scheme(hello.signature_schemes()).is_some();
        keys().find(can_check).or_else(|| keys().next()).cloned()
    }

    /// Returns the certificates for a host in lower case: those that name it, else those of its
    /// wildcard.
    fn candidates(&self, host: &str) -> &[usize] {
        let exact = self.by_name.get(host);
        let wild = || host.split_once('.').and_then(|(_, up)| self.by_name.get(&format!("*.{up}")));
        exact.or_else(wild).map_or(&[], Vec::as_slice)
    }
}

impl fmt::Debug for CertResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.certificates.fmt(f)
    }
}

impl ResolvesServerCert for CertResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // rustls has converted it to lower case.
        let found = hello.server_name().map_or(&[][..], |host| self.candidates(host));
        match found {
            [] if self.strict && hello.server_name().is_some() => None,
            [] => self.usable(&self.defaults, &hello),
            found => self.usable(found, &hello),
        }
    }
}

/// Returns whether a certificate name covers `host`, both in lower case.
fn matches(name: &str, host: &str) -> bool {
    match name.strip_prefix("*.") {
        Some(domain) => host.split_once('.').is_some_and(|(_, up)| up == domain),
        None => name == host,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    fn certificate(names: &[&str]) -> Certificate {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("both.pem");
        let text = made.cert.pem() + &made.signing_key.serialize_pem();
        fs::write(&path, text).unwrap();
        Certificate::load(&path, &path, &[]).unwrap()
    }

    fn keyring() -> CertificateStore {
        let all = vec![
            certificate(&["default.example"]),
            certificate(&["*.a.example", "a.example"]),
            certificate(&["special.a.example"]),
        ];
        CertificateStore::new(all, &TlsOptions::default()).unwrap()
    }

    #[test]
    fn the_nearest_name_wins_and_a_wildcard_is_one_label() {
        let ring = keyring();
        let of = |host: &str| ring.chooser.candidates(host).to_vec();
        assert_eq!(of("a.example"), [1]);
        assert_eq!(of("x.a.example"), [1]);
        assert_eq!(of("special.a.example"), [2]);
        assert_eq!(of("x.y.a.example"), [0; 0]);
        assert_eq!(of("example"), [0; 0]);
    }

    #[test]
    fn a_connection_carries_what_its_certificate_is_for() {
        let ring = keyring();
        for (sni, host, covered) in [
            (Some("a.example"), "A.Example", true),
            (Some("a.example"), "x.a.example", true),
            (Some("a.example"), "x.a.example.", true),
            (Some("x.a.example"), "a.example", true),
            (Some("a.example"), "x.y.a.example", false),
            (Some("a.example"), "default.example", false),
            (Some("special.a.example"), "a.example", false),
            // A host without a certificate was served the first one.
            (Some("unknown.example"), "unknown.example", true),
            (Some("unknown.example"), "default.example", true),
            (Some("unknown.example"), "a.example", false),
            (None, "anything.example", true),
        ] {
            assert_eq!(ring.covers(sni, host), covered, "{sni:?} {host}");
        }
    }

    #[test]
    fn no_certificate_no_tls() {
        assert!(CertificateStore::new(Vec::new(), &TlsOptions::default()).is_err());
    }
}
