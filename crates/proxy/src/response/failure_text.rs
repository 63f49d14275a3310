//! Texts for clients about an origin server that gave no response.

use crate::observe::outcome::Error as Reason;
use crate::origin::site::Front;

/// Returns the text for a failure. A reverse proxy reveals nothing about its servers: it sends one
/// fixed sentence per reason. The client of a forward proxy named the server itself and also gets
/// the cause, unless the cause adds nothing or may concern the proxy's own environment (name
/// servers, files).
pub(crate) fn told(front: &Front, reason: Reason, cause: &str) -> String {
    let sentence = sentence(reason);
    let is_ours = matches!(reason, Reason::Dns | Reason::DnsTimeout | Reason::Internal);
    let adds = reason != Reason::ConnectRefused && !cause.is_empty();
    if front.is_clients_choice() && adds && !is_ours {
        return format!("{sentence}: {cause}.\n");
    }
    format!("{sentence}.\n")
}

/// Returns a reason as a sentence without its full stop.
pub(crate) fn sentence(reason: Reason) -> &'static str {
    match reason {
        Reason::Dns => "The name of the origin server could not be resolved",
        Reason::DnsTimeout => "The name of the origin server was not resolved in time",
        Reason::Connect => "There is no connection to the origin server",
        Reason::ConnectRefused => "The origin server refused the connection",
        Reason::ConnectTimeout => "There was no connection to the origin server in time",
        Reason::Tls => "There is no TLS connection to the origin server",
        Reason::TlsAlert => "The origin server ended the TLS handshake",
        Reason::Certificate => "The origin server does not prove who it is",
        Reason::NoUpstream => "All origin servers of this site are out of use",
        Reason::UpstreamBusy => "The origin servers have as many requests as they may",
        Reason::Upstream => "The origin server ended the connection without a whole answer",
        Reason::UpstreamTimeout => "The origin server did not answer in time",
        Reason::BadAnswer => "The origin server's answer cannot be passed on",
        _ => "The request could not be answered",
    }
}
