//! Causes of failures in plain words. The error texts of the system, TLS and HTTP libraries are
//! written for programmers.
//!
//! Guarantees: a cause contains no address, name or path, so that it may be shown to the client
//! that named the server, and no internals of this program.

use std::error::Error;
use std::io;

use rustls::{AlertDescription, CertificateError, PeerIncompatible};

/// Returns the cause of an error, found in its chain of sources.
pub(crate) fn of(error: &(dyn Error + 'static)) -> String {
    let mut next = Some(error);
    let mut last = error;
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            return of_io(io);
        }
        if let Some(http2) = error.downcast_ref::<h2::Error>() {
            return of_http2(http2);
        }
        (last, next) = (error, error.source());
    }
    last.to_string()
}

/// Returns the cause of an I/O error, or of the error that it wraps.
pub(crate) fn of_io(error: &io::Error) -> String {
    if let Some(inner) = error.get_ref() {
        if let Some(tls) = inner.downcast_ref::<rustls::Error>() {
            return of_tls(tls).to_owned();
        }
        if let Some(http2) = inner.downcast_ref::<h2::Error>() {
            return of_http2(http2);
        }
        return inner.to_string();
    }
    let text = error.to_string();
    // Users know the text better than the error number.
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

/// Returns why an HTTP/2 connection or stream ended (RFC 9113, 7).
pub(crate) fn of_http2(error: &h2::Error) -> String {
    if let Some(io) = error.get_io() {
        return of_io(io);
    }
    let Some(reason) = error.reason() else { return error.to_string() };
    let what = if error.is_go_away() { "the connection was ended" } else { "it was broken off" };
    let by = if error.is_remote() { " by the server" } else { "" };
    format!("{what}{by}: {}", reason.description())
}

/// Returns why a TLS connection could not be made.
pub(crate) fn of_tls(error: &rustls::Error) -> &'static str {
    match error {
        rustls::Error::InvalidCertificate(why) => of_certificate(why),
        rustls::Error::NoCertificatesPresented => "it presented no certificate",
        rustls::Error::AlertReceived(alert) => of_alert(*alert),
        rustls::Error::NoApplicationProtocol => "it speaks none of the protocols offered (ALPN)",
        rustls::Error::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
        ) => "it speaks no version of TLS from 1.2 on",
        rustls::Error::PeerIncompatible(_) => "the two have no TLS version or cipher in common",
        rustls::Error::InvalidMessage(_) => "it does not speak TLS",
        rustls::Error::PeerMisbehaved(_) | rustls::Error::InappropriateMessage { .. } => {
            "it breaks the rules of TLS"
        }
        _ => "the TLS handshake failed",
    }
}

fn of_certificate(why: &CertificateError) -> &'static str {
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet"
        }
        CertificateError::UnknownIssuer => "its certificate has an unknown issuer",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name"
        }
        CertificateError::Revoked => "its certificate has been revoked",
        CertificateError::BadSignature => "its certificate's signature is wrong",
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is not meant for servers"
        }
        CertificateError::BadEncoding => "its certificate cannot be read",
        // The library has no variant for this error, usually a self-signed certificate.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "its certificate is an authority's own (it signed itself)"
        }
        _ => "its certificate is not acceptable",
    }
}

fn of_alert(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity => {
            "it refused the handshake: it requires other ciphers or keys"
        }
        AlertDescription::ProtocolVersion => "it refused the version of TLS",
        AlertDescription::CertificateRequired => "it requires a client certificate",
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied => "it does not accept our certificate",
        AlertDescription::UnrecognisedName => "it does not know the requested server name",
        AlertDescription::NoApplicationProtocol => "it speaks none of the protocols offered (ALPN)",
        _ => "it refused the handshake",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use rustls::OtherError;

    use super::*;

    #[test]
    fn causes_are_in_plain_words() {
        let refused = io::Error::from_raw_os_error(111);
        assert_eq!(of(&refused), "connection refused");
        #[derive(Debug)]
        struct CaUsedAsEndEntity;
        impl std::fmt::Display for CaUsedAsEndEntity {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{self:?}")
            }
        }
        impl Error for CaUsedAsEndEntity {}
        let other = CertificateError::Other(OtherError(Arc::new(CaUsedAsEndEntity)));
        for (why, words) in [
            (other, "signed itself"),
            (CertificateError::Expired, "expired"),
            (CertificateError::UnknownIssuer, "unknown issuer"),
            (CertificateError::NotValidForName, "another name"),
        ] {
            let error = rustls::Error::InvalidCertificate(why);
            let wrapped = io::Error::new(io::ErrorKind::InvalidData, error);
            let cause = of(&wrapped);
            assert!(cause.contains(words) && !cause.contains("Other("), "{cause}");
        }
        let reset = h2::Error::from(h2::Reason::ENHANCE_YOUR_CALM);
        assert!(!of(&reset).contains("CALM"), "{}", of(&reset));
    }
}
