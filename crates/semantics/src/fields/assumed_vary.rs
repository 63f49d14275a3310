//! Request fields that a response is assumed to depend on, beside those that its `Vary` names.
//!
//! An application that says nothing about caching rarely says what its responses depend on either:
//! the language of a page, the origin in `Access-Control-Allow-Origin`, a part of a page in place
//! of the whole. A response for which no lifetime was stated is therefore used, or validated, only
//! for requests that are alike in these fields ([`crate::Sharing::Careful`]).
//!
//! The names are stored with the response in the field [`ASSUMED`].

use http::header::{HeaderName, HeaderValue};

use crate::settings::{Settings, Sharing};

/// Field of stored responses with the names of the request fields. Clients never get it, and
/// origins cannot set it. Its name is as long as [`crate::compressed::BODY_ID`], which makes it
/// cheap to leave out of a response.
pub const ASSUMED: HeaderName = HeaderName::from_static("larder-vary");

/// The field that all responses with assumed fields are assumed to depend on.
pub(crate) const OF_ALL: &str = OF_FILES;

/// Name that stands for the class of the client's device, which its `User-Agent` names.
pub(crate) const DEVICE: &str = "larder-device";

/// The fields that tell variants of a page apart: the device, negotiation (RFC 9110, 12.5; RFC
/// 7240), the requesting site (CORS), and the fields of scripts that want a part of the page or its
/// data.
const OF_PAGES: &str = "accept, accept-language, hx-boosted, hx-history-restore-request, \
                        hx-request, hx-target, larder-device, next-router-prefetch, \
                        next-router-state-tree, origin, prefer, rsc, save-data, turbo-frame, \
                        x-inertia, x-inertia-partial-component, x-inertia-partial-data, x-pjax, \
                        x-pjax-container, x-requested-with, x-up-target";

/// The same for images, fonts and the like whose URLs name no file. Some are made for the client.
const OF_MEDIA: &str = "accept, larder-device, origin, save-data";

/// The same for files, such as fonts and images.
const OF_FILES: &str = "origin";

/// Returns whether fields are assumed for responses without a stated lifetime.
pub(crate) fn is_added(settings: &Settings) -> bool {
    settings.sharing == Sharing::Careful && !settings.origin_vouches
}

/// Returns the value of [`ASSUMED`] for a response: whether its URL names a file, its
/// `Content-Type`, and whether it has a coding.
pub(crate) fn value(is_file: bool, content_type: Option<&[u8]>, is_coded: bool) -> HeaderValue {
    let names = match is_file {
        true => OF_FILES,
        false if content_type.is_some_and(is_media) => OF_MEDIA,
        false => OF_PAGES,
    };
    let with_coding = is_coded.then(|| format!("{names}, accept-encoding"));
    // All of it is visible ASCII.
    let with_coding = with_coding.and_then(|names| HeaderValue::try_from(names).ok());
    with_coding.unwrap_or(HeaderValue::from_static(names))
}

/// Returns whether a `Content-Type` is that of an image, a font, sound or film.
fn is_media(content_type: &[u8]) -> bool {
    ["audio/", "font/", "image/", "video/"].iter().any(|top| {
        let start = content_type.get(..top.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(top.as_bytes()))
    })
}
