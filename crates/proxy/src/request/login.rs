//! Connection logins (NTLM, Negotiate): decides when a client's connection gets an origin
//! connection of its own.
//!
//! A connection that may carry requests of several users never gets one.

use http::header::{self, HeaderName};
use semantics::Fields;
use semantics::connection_login::has_credentials;

use crate::client::handle::Client;
use crate::options::Options;

/// Fields that proxies add. Several users may share a connection that carries them.
const OF_PROXIES: [HeaderName; 3] =
    [header::VIA, header::FORWARDED, HeaderName::from_static("x-forwarded-for")];

/// Records a request of this client, with all fields that it arrived with. From the first request
/// with credentials on, all requests on the connection belong to the same user, unless one came
/// through a proxy.
pub(crate) fn note(client: &Client, fields: &impl Fields, options: &Options) {
    let Some(login) = &client.login else { return };
    if !login.is_logged_in() && !has_credentials(fields) {
        return;
    }
    let is_trusted = options.forwarded.trusts(client.address.ip());
    match is_trusted || OF_PROXIES.iter().any(|name| fields.has(name)) {
        true => login.refuse(),
        false => login.log_in(),
    }
}
