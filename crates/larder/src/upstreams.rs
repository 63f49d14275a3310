//! How origin servers are spoken to: what `[upstream]` says for all and a `[[site]]` for its own,
//! in the terms of the proxy.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proxy::upstream::{At, Group, Http2, Identity, Origin, Tls, TlsOptions};

use crate::server::{Place, Server};

/// The keys that `[upstream]` and each `[[site]]` have in common. `None`: as in `[upstream]`, or
/// there the word that stands for nothing.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Manner {
    pub tls_ca: Option<PathBuf>,
    pub tls_certificate: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub tls_name: Option<String>,
    pub tls_verify: Option<bool>,
}

/// In a site: the system's authorities in place of a file that `[upstream]` names.
pub const SYSTEM: &str = "system";
/// In a site: none in place of what `[upstream]` names.
pub const NONE: &str = "none";

impl Manner {
    /// This, and what it leaves open as in `general`.
    pub fn over(&self, general: &Manner) -> Manner {
        let path = |ours: &Option<PathBuf>, general: &Option<PathBuf>, word: &str| {
            let chosen = ours.as_ref().or(general.as_ref());
            chosen.filter(|path| path.as_path() != Path::new(word)).cloned()
        };
        let name = self.tls_name.as_ref().or(general.tls_name.as_ref());
        Manner {
            tls_ca: path(&self.tls_ca, &general.tls_ca, SYSTEM),
            tls_certificate: path(&self.tls_certificate, &general.tls_certificate, NONE),
            tls_key: path(&self.tls_key, &general.tls_key, NONE),
            tls_name: name.filter(|name| *name != NONE).cloned(),
            tls_verify: self.tls_verify.or(general.tls_verify),
        }
    }

    /// What is wrong with it as a whole: the key and a sentence.
    pub fn problem(&self) -> Option<(&'static str, String)> {
        match (&self.tls_certificate, &self.tls_key) {
            (Some(_), None) => {
                Some(("tls-key", "expected the key of tls-certificate, got none".to_owned()))
            }
            (None, Some(_)) => Some((
                "tls-certificate",
                "expected the certificate of tls-key, got none".to_owned(),
            )),
            _ => None,
        }
    }

    /// True when any certificate is believed.
    pub fn is_unverified(&self) -> bool {
        self.tls_verify == Some(false)
    }

    /// The settings of TLS. Nothing is read yet.
    pub fn tls(&self) -> Tls {
        let identity = match (&self.tls_certificate, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                Some(Identity { certificate: certificate.clone(), key: key.clone() })
            }
            _ => None,
        };
        let options = TlsOptions {
            authorities: self.tls_ca.clone(),
            identity,
            name: self.tls_name.clone(),
            unverified: self.is_unverified(),
        };
        Tls::new(options, Http2::Off)
    }

    /// The servers of a site.
    ///
    /// # Errors
    ///
    /// A sentence: a file that TLS needs cannot be used.
    pub fn group(&self, upstream: &str) -> Result<Group, String> {
        let server = Server::parse(upstream)?;
        let (at, tls) = match server.place {
            Place::Tcp { host, port, tls } => (At::Tcp(host, port), tls),
            Place::Unix(path) => (At::Unix(path), false),
        };
        let tls = tls.then(|| self.tls());
        if let Some(tls) = &tls {
            tls.check()?;
        }
        Ok(Group::one(Origin { at, tls, http2: Http2::Off }))
    }
}

/// The servers of a site, shared by all that ask them.
pub fn group(
    site: &Manner,
    general: &Manner,
    name: &str,
    upstream: &str,
) -> Result<Arc<Group>, String> {
    let made = site.over(general).group(upstream);
    made.map(Arc::new).map_err(|why| format!("site {name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_says_what_it_does_not_inherit() {
        let general = Manner {
            tls_ca: Some("/general.pem".into()),
            tls_name: Some("general".to_owned()),
            tls_verify: Some(true),
            ..Manner::default()
        };
        assert_eq!(Manner::default().over(&general), general);
        let site = Manner {
            tls_ca: Some(SYSTEM.into()),
            tls_name: Some(NONE.to_owned()),
            tls_verify: Some(false),
            ..Manner::default()
        };
        let both = site.over(&general);
        assert_eq!((both.tls_ca, both.tls_name, both.tls_verify), (None, None, Some(false)));
    }
}
