//! Asking an origin that vouches for its own answers whether a stored one is current, in place of
//! lifetimes: at every use, and of another request's fetch as well.

use http::header::{self, HeaderValue};
use http::request::Parts;
use upstream::send::origin::{Earlier, Voucher};

use crate::object::lookup::LookupResult;
use crate::origin::site::Site;

/// Returns whether the origin vouches for what was found; `None` where it vouches for nothing, or
/// nothing was found.
pub(crate) async fn vouched(site: &Site, parts: &Parts, found: &LookupResult) -> Option<bool> {
    let voucher = site.voucher()?;
    let LookupResult::Stored(stored) = found else { return None };
    let tag = stored.head.stored().headers().get(header::ETAG);
    Some(vouches(voucher, parts, tag).await)
}

/// Returns whether an origin vouches for an answer of its own with this tag.
pub(crate) async fn vouches(
    voucher: &dyn Voucher,
    parts: &Parts,
    tag: Option<&HeaderValue>,
) -> bool {
    let Some(tag) = tag else { return false };
    let (path, request) = (parts.uri.path(), &parts.headers);
    let earlier = Earlier { tag: tag.as_bytes(), path, request };
    voucher.is_current(&earlier) || voucher.look(earlier).await
}
