//! Asking an origin that vouches for its own answers whether a stored one is current, in place of
//! lifetimes: at every use, and of another request's fetch as well.

use http::header::{self, HeaderMap};
use http::request::Parts;
use upstream::send::origin::{Earlier, VERSION, Voucher};

use crate::object::lookup::LookupResult;
use crate::origin::site::Site;

/// Returns whether the origin vouches for what was found; `None` where it vouches for nothing, or
/// nothing was found.
pub(crate) async fn vouched(site: &Site, parts: &Parts, found: &LookupResult) -> Option<bool> {
    let voucher = site.voucher()?;
    let LookupResult::Stored(stored) = found else { return None };
    let fields = stored.head.stored().headers();
    Some(vouches(voucher, parts, fields).await)
}

/// Returns whether an origin vouches for an answer of its own with these fields.
pub(crate) async fn vouches(voucher: &dyn Voucher, parts: &Parts, fields: &HeaderMap) -> bool {
    let Some(version) = fields.get(VERSION) else { return false };
    let (path, request) = (parts.uri.path(), &parts.headers);
    let varies = fields.contains_key(header::VARY);
    let earlier = Earlier { version: version.as_bytes(), varies, path, request };
    voucher.is_current(&earlier) || voucher.look(earlier).await
}
