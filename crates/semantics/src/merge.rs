//! What a 304 or the answer to a HEAD changes in a stored response (RFC 9111, 3.2, 4.3.4, 4.3.5).
//!
//! The body stays as it is, and so does every field that says how those bytes are to be read.

use http::StatusCode;
use http::header::{
    AGE, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, HeaderName,
    LAST_MODIFIED,
};

use crate::date;
use crate::etag::EntityTag;
use crate::hop_by_hop;
use crate::packed::{Flag, Packed};
use crate::settings::Settings;
use crate::stored_head::StoredHead;
use crate::time::Exchange;
use crate::validators;

/// Fields of the stored response that no update touches: they belong to the stored bytes
/// (RFC 9111, 3.2). `ETag` has rules of its own.
const KEPT: [HeaderName; 5] = [
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_RANGE,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("content-md5"),
];

/// Whether a 304 speaks of this stored response (RFC 9111, 4.3.4). When not, the stored response
/// must not be used or refreshed: fetch it anew without conditions.
///
/// A 304 without any validator is taken to mean the one response whose validators were sent.
pub fn confirms(stored: &StoredHead, not_modified: &HeaderMap, exchange: Exchange) -> bool {
    let selected = stored.selected();
    let new_tag = not_modified.get(ETAG).and_then(|value| EntityTag::parse(value.as_bytes()));
    match (selected.etag(), new_tag) {
        (Some(old), Some(new)) if !new.weak && !old.weak => return old.strong_eq(&new),
        (Some(old), Some(new)) => return old.weak_eq(&new),
        _ => {}
    }
    let new_modified = date::of_field(not_modified, &LAST_MODIFIED, exchange.received);
    match (selected.last_modified(), new_modified) {
        (Some(old), Some(new)) => old == new,
        _ => true,
    }
}

/// The stored response as a 304 that [`confirms`] it leaves it: each field of the 304 replaces the
/// stored one, but for those that belong to the body; age and lifetime start anew.
///
/// Judge the result with [`crate::storability::judge`] before keeping it: the 304 may say
/// `no-store`.
pub fn freshen(
    stored: &StoredHead,
    not_modified: &HeaderMap,
    exchange: Exchange,
    settings: &Settings,
) -> StoredHead {
    let mut update = not_modified.clone();
    hop_by_hop::strip(&mut update);
    for name in KEPT {
        update.remove(name);
    }
    // The update itself is what has an age; a Date of the stored response would make it look older.
    date::ensure(&mut update, exchange.received);
    let mut headers = stored.headers().clone();
    headers.remove(AGE);
    for name in update.keys() {
        if *name == ETAG && !may_replace_etag(stored, &update) {
            continue;
        }
        headers.remove(name);
        for value in update.get_all(name) {
            headers.append(name.clone(), value.clone());
        }
    }
    StoredHead::new(stored.status(), &headers, exchange, settings)
}

/// A strong tag vouches for every byte. A stored response that carried none, or a weak one, cannot
/// acquire it from a comparison that was itself weak.
fn may_replace_etag(stored: &StoredHead, update: &HeaderMap) -> bool {
    let new = update.get(ETAG).and_then(|value| EntityTag::parse(value.as_bytes()));
    let packed: &Packed = stored.packed();
    match new {
        None => false,
        Some(tag) if tag.weak => true,
        Some(_) => {
            packed.is(Flag::StrongEtag)
                || (!packed.is(Flag::WeakEtag) && packed.is(Flag::StrongLastModified))
        }
    }
}

/// What the answer to a HEAD means for the stored GET of the same URL and variant.
#[derive(Clone, Debug, PartialEq)]
pub enum HeadEffect {
    /// It is the same: store this head in place of the old one.
    Refresh(StoredHead),
    /// The resource has changed: the stored response is no longer to be used without validation.
    Outdated,
    /// It says nothing about the stored response.
    Nothing,
}

/// Weighs the answer to a HEAD (RFC 9111, 4.3.5). `body_length` is the length of the stored body in
/// bytes.
pub fn head_effect(
    stored: &StoredHead,
    body_length: u64,
    status: StatusCode,
    headers: &HeaderMap,
    exchange: Exchange,
    settings: &Settings,
) -> HeadEffect {
    if status != StatusCode::OK || stored.status() != StatusCode::OK {
        return HeadEffect::Nothing;
    }
    // Another coding is another representation, chosen by something `Vary` did not name.
    if headers.get(CONTENT_ENCODING) != stored.headers().get(CONTENT_ENCODING) {
        return HeadEffect::Nothing;
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let same_length = lengths.all(|length| {
        length.to_str().ok().and_then(|text| text.parse::<u64>().ok()) == Some(body_length)
    });
    let same_validators =
        has_equal_or_no(stored, headers, ETAG) && has_equal_or_no(stored, headers, LAST_MODIFIED);
    if !(same_length && same_validators) {
        return HeadEffect::Outdated;
    }
    // The stored response can prove what it is and the answer does not try: an equal length alone
    // would extend the life of what may have changed.
    if stored.packed().has_validator() && !validators::has_any(headers, exchange.received) {
        return HeadEffect::Nothing;
    }
    HeadEffect::Refresh(freshen(stored, headers, exchange, settings))
}

fn has_equal_or_no(stored: &StoredHead, headers: &HeaderMap, name: HeaderName) -> bool {
    headers.get(&name).is_none_or(|value| stored.headers().get(&name) == Some(value))
}
