//! Whether a response may be stored by a shared cache (RFC 9111, 3 and 3.5).

use http::StatusCode;
use http::header::{HeaderMap, SET_COOKIE};

use crate::age;
use crate::cache_control::{ResponseDirectives, Scope};
use crate::freshness;
use crate::request::{MethodClass, RequestFacts};
use crate::settings::Settings;
use crate::time::{Exchange, Seconds};
use crate::validators;
use crate::vary::Vary;

/// Why a response is not stored. The first reason that applies, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotStorable {
    /// The request was no GET.
    Method,
    /// The status is interim, depends on the request's own conditions, or forbids storing.
    Status,
    /// A part of the whole (206).
    PartialContent,
    /// `no-store` in the request.
    NoStoreRequest,
    /// `no-store` in the response.
    NoStore,
    /// `must-understand`, and this cache does not know the status.
    MustUnderstand,
    /// `private`.
    Private,
    /// The request carried `Authorization`, and the response does not permit sharing.
    Authorization,
    /// `Vary: *` or a `Vary` that cannot be read: no request would match it.
    VaryStar,
    /// `Set-Cookie`, and the settings keep such responses out.
    SetCookie,
    /// Neither fresh for a moment nor something that could be validated: storing it is useless.
    NoFreshness,
}

impl NotStorable {
    /// A short name for logs and metrics: lower case, words joined by `-`.
    pub const fn name(self) -> &'static str {
        match self {
            NotStorable::Method => "method",
            NotStorable::Status => "status",
            NotStorable::PartialContent => "partial-content",
            NotStorable::NoStoreRequest => "no-store-request",
            NotStorable::NoStore => "no-store",
            NotStorable::MustUnderstand => "must-understand",
            NotStorable::Private => "private",
            NotStorable::Authorization => "authorization",
            NotStorable::VaryStar => "vary-star",
            NotStorable::SetCookie => "set-cookie",
            NotStorable::NoFreshness => "no-freshness",
        }
    }
}

/// May the final response to `request` be stored? `Err` names the first reason against it.
///
/// That its body arrived whole is for the caller to see to (RFC 9111, 3.3).
pub fn judge(
    request: &RequestFacts,
    status: StatusCode,
    headers: &HeaderMap,
    exchange: Exchange,
    settings: &Settings,
) -> Result<(), NotStorable> {
    let directives = ResponseDirectives::parse(headers, settings);
    if request.class != MethodClass::Cacheable || request.is_head {
        return Err(NotStorable::Method);
    }
    judge_status(status)?;
    if request.directives.no_store {
        return Err(NotStorable::NoStoreRequest);
    }
    judge_directives(request, status, &directives)?;
    if matches!(Vary::of(headers), Vary::Star) {
        return Err(NotStorable::VaryStar);
    }
    if headers.contains_key(SET_COOKIE) && !settings.store_set_cookie {
        return Err(NotStorable::SetCookie);
    }
    if is_useful(status, headers, &directives, exchange, settings) {
        Ok(())
    } else {
        Err(NotStorable::NoFreshness)
    }
}

fn judge_status(status: StatusCode) -> Result<(), NotStorable> {
    match status.as_u16() {
        206 => Err(NotStorable::PartialContent),
        // Answers to the conditions, the range or the expectation of one request.
        304 | 412 | 416 | 417 => Err(NotStorable::Status),
        // About this hop, this connection or this client. RFC 6585 forbids 428, 429, 431 and 511.
        407 | 408 | 421 | 425 | 426 | 428 | 429 | 431 | 511 => Err(NotStorable::Status),
        200..=599 => Ok(()),
        _ => Err(NotStorable::Status),
    }
}

/// The statuses whose caching requirements this cache knows and obeys (`must-understand`).
fn is_understood(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200..=205 | 300..=303 | 305 | 307 | 308 | 400..=406 | 409..=411 | 413..=415 | 422 | 451
            | 500..=505
    )
}

fn judge_directives(
    request: &RequestFacts,
    status: StatusCode,
    directives: &ResponseDirectives,
) -> Result<(), NotStorable> {
    // With must-understand, no-store is for caches that do not know the status (RFC 9111, 5.2.2.3).
    if directives.must_understand {
        if !is_understood(status) {
            return Err(NotStorable::MustUnderstand);
        }
    } else if directives.no_store {
        return Err(NotStorable::NoStore);
    }
    if directives.private == Scope::All {
        return Err(NotStorable::Private);
    }
    if request.authorized && !permits_sharing(directives) {
        return Err(NotStorable::Authorization);
    }
    Ok(())
}

/// The directives that let a shared cache store a response to a request with `Authorization`
/// (RFC 9111, 3.5).
pub(crate) fn permits_sharing(directives: &ResponseDirectives) -> bool {
    directives.public
        || directives.must_revalidate
        || directives.s_maxage.or_zero_when_invalid().is_some()
}

/// Storing helps only what some later request can use: for a while as it is, stale when permitted,
/// or after a validation.
fn is_useful(
    status: StatusCode,
    headers: &HeaderMap,
    directives: &ResponseDirectives,
    exchange: Exchange,
    settings: &Settings,
) -> bool {
    let freshness = freshness::lifetime(status, headers, directives, exchange.received, settings);
    let explicit = directives.public
        || freshness.is_explicit()
        || freshness::is_heuristically_cacheable(status);
    if !explicit {
        return false;
    }
    if status.is_success() && validators::has_any(headers, exchange.received) {
        return true;
    }
    if directives.no_cache == Scope::All {
        return false;
    }
    let stale_use = [directives.stale_while_revalidate, directives.stale_if_error]
        .into_iter()
        .filter_map(|delta| delta.or_zero_when_invalid())
        .max()
        .unwrap_or(Seconds::ZERO);
    freshness.lifetime.plus(stale_use) > age::initial(headers, exchange)
}
