//! Logins of connections (NTLM, Negotiate): when a client's connection gets a connection to an
//! origin of its own.
//!
//! It promises: a client's connection that may carry requests of several users gets none.

use http::header::{self, HeaderName};
use semantics::Fields;
use semantics::connection_login::has_credentials;

use crate::client::handle::Client;
use crate::options::Options;

/// Fields that a proxy adds: behind it there may be several users.
const OF_PROXIES: [HeaderName; 3] =
    [header::VIA, header::FORWARDED, HeaderName::from_static("x-forwarded-for")];

/// Notes a request of this client, with all fields that it came with. From the first one with
/// credentials on, all on its connection are of the same user, unless one is of a proxy.
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
