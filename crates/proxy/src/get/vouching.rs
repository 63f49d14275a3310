//! Asks an origin that vouches for its responses whether a stored one is current, in place of
//! freshness lifetimes. This happens at every use, and for the fetches of other requests as well.

use http::header::{self, HeaderMap};
use http1::RequestHead;
use semantics::{EncodedHead, Fields};
use upstream::send::origin::{Earlier, VERSION, Voucher};

use crate::object::lookup::LookupResult;
use crate::origin::site::Site;

/// Returns whether the origin vouches for the stored response. `None` if the origin does not vouch
/// for responses or nothing is stored.
pub(crate) async fn vouched(site: &Site, head: &RequestHead, found: &LookupResult) -> Option<bool> {
    let voucher = site.voucher()?;
    let LookupResult::Stored(stored) = found else { return None };
    let fields = stored.head.stored().headers();
    Some(vouches(voucher, head, fields).await)
}

/// Returns whether the origin vouches for its stored response, as far as is known without waiting.
pub(crate) fn is_known_current(
    voucher: &dyn Voucher,
    head: &RequestHead,
    stored: &EncodedHead<'_>,
) -> bool {
    let Some(version) = stored.line(&VERSION) else { return false };
    let varies = stored.has(&header::VARY);
    let earlier = Earlier { version, varies, path: head.target.path(), request: &head.fields };
    voucher.is_current(&earlier)
}

/// Returns whether the origin vouches for its response with these fields.
pub(crate) async fn vouches(voucher: &dyn Voucher, head: &RequestHead, fields: &HeaderMap) -> bool {
    let Some(version) = fields.get(VERSION) else { return false };
    let (path, request) = (head.target.path(), &head.fields);
    let varies = fields.contains_key(header::VARY);
    let earlier = Earlier { version: version.as_bytes(), varies, path, request };
    voucher.is_current(&earlier) || voucher.look(earlier).await
}
