//! `Proxy-Status` (RFC 9209): why a proxy generated a response itself.
//!
//! Like that of `Cache-Status`, the entry is appended after those of proxies nearer to the origin.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::fields::cache_status::write_token_or_string;

/// The field name.
pub const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

/// The error types of RFC 9209 (2.3) that this proxy reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorType {
    /// The name of the origin could not be resolved.
    DnsError,
    /// Resolving the name of the origin timed out.
    DnsTimeout,
    /// No connection to the next hop was possible.
    DestinationUnavailable,
    /// This client may not reach the address of the next hop.
    DestinationIpProhibited,
    /// The next hop refused the connection.
    ConnectionRefused,
    /// No TLS connection to the next hop was possible.
    TlsProtocolError,
    /// The certificate of the next hop is not trusted.
    TlsCertificateError,
    /// The next hop aborted the TLS handshake with an alert.
    TlsAlertReceived,
    /// The connection ended before the response was complete.
    ConnectionTerminated,
    /// Connecting timed out.
    ConnectionTimeout,
    /// Reading from the connection timed out.
    ConnectionReadTimeout,
    /// A connection limit was reached.
    ConnectionLimitReached,
    /// The request is invalid.
    HttpRequestError,
    /// The request is denied.
    HttpRequestDenied,
    /// The response of the next hop is not valid HTTP.
    HttpProtocolError,
    /// The proxy generated the response without asking another server.
    ProxyInternalResponse,
    /// An internal error of the proxy.
    ProxyInternalError,
    /// The request passed through this proxy before.
    ProxyLoopDetected,
}

impl ErrorType {
    /// Returns the token defined in RFC 9209.
    pub const fn token(self) -> &'static str {
        match self {
            ErrorType::DnsError => "dns_error",
            ErrorType::DnsTimeout => "dns_timeout",
            ErrorType::ConnectionRefused => "connection_refused",
            ErrorType::TlsProtocolError => "tls_protocol_error",
            ErrorType::TlsCertificateError => "tls_certificate_error",
            ErrorType::TlsAlertReceived => "tls_alert_received",
            ErrorType::DestinationUnavailable => "destination_unavailable",
            ErrorType::DestinationIpProhibited => "destination_ip_prohibited",
            ErrorType::ConnectionTerminated => "connection_terminated",
            ErrorType::ConnectionTimeout => "connection_timeout",
            ErrorType::ConnectionReadTimeout => "connection_read_timeout",
            ErrorType::ConnectionLimitReached => "connection_limit_reached",
            ErrorType::HttpRequestError => "http_request_error",
            ErrorType::HttpRequestDenied => "http_request_denied",
            ErrorType::HttpProtocolError => "http_protocol_error",
            ErrorType::ProxyInternalResponse => "proxy_internal_response",
            ErrorType::ProxyInternalError => "proxy_internal_error",
            ErrorType::ProxyLoopDetected => "proxy_loop_detected",
        }
    }
}

/// Appends an entry with `proxy` as the name of the proxy.
pub fn append(headers: &mut HeaderMap, proxy: &str, error: ErrorType) {
    let mut text = String::with_capacity(48);
    let _ = write_token_or_string(&mut text, proxy);
    text.push_str("; error=");
    text.push_str(error.token());
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.append(PROXY_STATUS, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_structured_lists_behind_those_of_others() {
        let mut headers = HeaderMap::new();
        headers.append(PROXY_STATUS, HeaderValue::from_static("origin; error=http_request_error"));
        append(&mut headers, "larder", ErrorType::DnsError);
        append(&mut headers, "my proxy", ErrorType::ProxyLoopDetected);
        let lines: Vec<_> = headers.get_all(PROXY_STATUS).iter().collect();
        let ours = ["larder; error=dns_error", "\"my proxy\"; error=proxy_loop_detected"];
        assert_eq!(lines[1..], ours);
        for line in lines {
            assert!(sfv::Parser::new(line.as_bytes()).parse::<sfv::List>().is_ok());
        }
    }
}
