//! A certificate and its private key in PEM files, read completely and checked before use.
//!
//! Guarantee: a loaded certificate can be served. Its key matches, the hosts it covers are known,
//! and a warning is available if it expires soon or has expired. No message contains any part of a
//! key, only the name of its file.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::pem;

/// Remaining validity below which a certificate causes a warning.
const SOON: Duration = Duration::from_secs(14 * 24 * 3600);

/// A certificate chain and its private key.
pub struct Certificate {
    /// The chain and its private key.
    pub key: Arc<CertifiedKey>,
    names: Vec<String>,
    ends: SystemTime,
    source: PathBuf,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({}, {})", self.source.display(), self.names.join(" "))
    }
}

impl Certificate {
    /// Reads a certificate chain (the server's own certificate first) and its key from PEM files,
    /// which may be the same file. `names` are the hosts to serve it for; `*.` before a domain
    /// covers all names one level below it. If `names` is empty, the names in the certificate are
    /// used.
    ///
    /// # Errors
    ///
    /// Fails with a sentence that names the file if a file cannot be read or holds nothing usable,
    /// or if the key does not belong to the certificate.
    pub fn load(chain: &Path, key: &Path, names: &[String]) -> Result<Certificate, String> {
        let at = |path: &Path, why: String| format!("{}: {why}", path.display());
        let certificates = certificates(chain, &read(chain).map_err(|why| at(chain, why))?)?;
        let private = private_key(key, &read(key).map_err(|why| at(key, why))?)?;
        let (named, ends) = describe(&certificates[0]).map_err(|why| at(chain, why))?;
        let names = if names.is_empty() { named } else { names.to_vec() };
        if names.is_empty() {
            return Err(at(chain, "the certificate names no host: give `hosts`".to_owned()));
        }
        let signer = ring::sign::any_supported_type(&private)
            .map_err(|_| at(key, "this kind of private key cannot be used".to_owned()))?;
        let certified = CertifiedKey::new(certificates, signer);
        match certified.keys_match() {
            // Unknown: the key lacks its public part, so only a handshake can tell.
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(_) => {
                let why = format!("the private key is not that of {}", chain.display());
                return Err(at(key, why));
            }
        }
        let names = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Ok(Certificate { key: Arc::new(certified), names, ends, source: chain.to_owned() })
    }

    /// Returns the hosts that the certificate is served for, in lower case.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the time at which the certificate expires.
    pub fn ends(&self) -> SystemTime {
        self.ends
    }

    /// Returns the path of the chain's file.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// Returns a warning sentence if the certificate has expired or soon will.
    pub fn warning(&self, now: SystemTime) -> Option<String> {
        let at = self.source.display();
        let names = self.names.join(", ");
        match self.ends.duration_since(now) {
            Err(_) => Some(format!("{at}: the certificate for {names} has expired")),
            Ok(left) if left < SOON => {
                let days = left.as_secs() / (24 * 3600);
                Some(format!("{at}: the certificate for {names} expires in {days} days"))
            }
            Ok(_) => None,
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| error.to_string())
}

/// Reads the certificate authorities from a PEM file. The error names the file.
pub fn authorities(file: &Path) -> Result<RootCertStore, String> {
    let at = file.display();
    let mut store = RootCertStore::empty();
    for certificate in certificates(file, &read(file).map_err(|why| format!("{at}: {why}"))?)? {
        store.add(certificate).map_err(|error| format!("{at}: not an authority: {error}"))?;
    }
    Ok(store)
}

/// Parses the certificates in `text`, the content of `file`. The error names the file and the line.
pub fn certificates(file: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let at = file.display().to_string();
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let all = all.map_err(|error| pem::located(&at, "certificates", text, &error))?;
    if all.is_empty() {
        return Err(format!("{at}: expected a certificate in PEM, found none"));
    }
    Ok(all)
}

/// Parses the private key in `text`, the content of `file`. The error names the file and the line.
pub fn private_key(file: &Path, text: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let at = file.display().to_string();
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match pem::fault(text, &error) {
        (None, _) if matches!(error, rustls_pki_types::pem::Error::NoItemsFound) => {
            format!("{at}: expected a private key in PEM without a passphrase, found none")
        }
        _ => pem::located(&at, "a private key", text, &error),
    })
}

/// Returns the hosts that a certificate names and its expiry time.
fn describe(der: &CertificateDer<'_>) -> Result<(Vec<String>, SystemTime), String> {
    let (_, certificate) = X509Certificate::from_der(der)
        .map_err(|error| format!("the certificate cannot be understood: {error}"))?;
    let names = certificate
        .subject_alternative_name()
        .map_err(|error| format!("the certificate's names cannot be understood: {error}"))?
        .map(|names| names.value.general_names.iter().filter_map(host).collect())
        .unwrap_or_default();
    let seconds = certificate.validity().not_after.timestamp();
    let ends = UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    Ok((names, ends))
}

fn host(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|b| std::net::Ipv4Addr::from(b).to_string()),
            16 => {
                <[u8; 16]>::try_from(*bytes).ok().map(|b| std::net::Ipv6Addr::from(b).to_string())
            }
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
        let path = dir.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn made(names: &[&str]) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_after = date_time_ymd(2100, 1, 1);
        let certificate = params.self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    #[test]
    fn a_chain_and_its_key_are_loaded_with_the_names_and_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let (chain, key) = made(&["A.example", "*.b.example", "192.0.2.1"]);
        let both = write(dir.path(), "both.pem", &format!("{key}{chain}"));
        let loaded = Certificate::load(&both, &both, &[]).unwrap();
        assert_eq!(loaded.names(), ["a.example", "*.b.example", "192.0.2.1"]);
        let hosts = ["Other.example".to_owned()];
        let told = Certificate::load(&both, &both, &hosts).unwrap();
        assert_eq!(told.names(), ["other.example"]);
        let day = Duration::from_secs(24 * 3600);
        assert_eq!(loaded.warning(loaded.ends() - 15 * day), None);
        let soon = loaded.warning(loaded.ends() - 3 * day).unwrap();
        assert!(soon.ends_with("expires in 3 days"), "{soon}");
        let over = loaded.warning(loaded.ends() + day).unwrap();
        assert!(over.ends_with("has expired"), "{over}");
        assert!(!format!("{loaded:?}").contains("PRIVATE"));
    }

    #[test]
    fn what_cannot_be_served_is_refused_by_file() {
        let dir = tempfile::tempdir().unwrap();
        let (chain, key) = made(&["a.example"]);
        let (_, other) = made(&["a.example"]);
        let (chain, key) =
            (write(dir.path(), "chain.pem", &chain), write(dir.path(), "key.pem", &key));
        let other = write(dir.path(), "other.pem", &other);
        let refused =
            |chain: &Path, key: &Path| Certificate::load(chain, key, &[]).expect_err("refused");
        let why = refused(&chain, &other);
        assert!(why.contains("other.pem") && why.contains("is not that of"), "{why}");
        let why = refused(&key, &key);
        assert!(why.contains("key.pem: expected a certificate in PEM, found none"), "{why}");
        let why = refused(&chain, &chain);
        assert!(why.contains("chain.pem: expected a private key in PEM"), "{why}");
        let why = refused(&dir.path().join("missing.pem"), &key);
        assert!(why.contains("missing.pem"), "{why}");
        let torn = write(dir.path(), "torn.pem", "-----BEGIN CERTIFICATE-----\nMII\n");
        let why = refused(&torn, &key);
        assert!(why.contains("torn.pem:1: expected certificates in PEM: the block"), "{why}");
        let torn = write(dir.path(), "torn.key", "\n-----BEGIN PRIVATE KEY-----\n?\n");
        let why = refused(&chain, &torn);
        assert!(why.contains("torn.key:3: expected a private key in PEM: not base64"), "{why}");
        let text = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let junk = write(dir.path(), "junk.pem", text);
        assert!(refused(&junk, &key).contains("junk.pem: the certificate cannot be understood"));
    }
}
