//! Settings for the choices that the RFCs leave to an operator.
//!
//! Each field documents its effect and the RFC section that permits the choice.

pub mod identifying;
pub mod lifetimes;
pub(crate) mod name_filter;
pub mod pattern;
pub mod stale_cases;
pub mod usual_names;

use http::HeaderName;

use crate::settings::identifying::IdentifyingFields;
pub use crate::settings::lifetimes::{Lifetime, Lifetimes, StatusPattern};
use crate::settings::stale_cases::StaleCases;
use crate::time::Seconds;

/// How readily responses are shared between clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// A response to a request that can identify its client is shared only if the origin or the
    /// operator states a positive lifetime, or if `Vary` names the identifying fields. Stale use
    /// needs a positive stated lifetime. Heuristic lifetimes are limited to a few minutes.
    #[default]
    Careful,
    /// Everything that RFC 9111 permits.
    Rfc,
}

/// The effect of a reload by a client: a request with `no-cache`, or with a `max-age` or
/// `min-fresh` that the stored response does not meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientReload {
    /// Every reload goes to the origin (RFC 9111, 5.2.1).
    #[default]
    Obey,
    /// Reloads that arrive during a fetch share the next one. Each client gets a response that was
    /// requested after its own request.
    Share,
    /// No effect: directives about the age of responses are ignored.
    Ignore,
}

/// Settings of a shared cache. [`Settings::default`] uses careful sharing.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Which responses are shared.
    pub sharing: Sharing,
    /// The request fields that identify a client under careful sharing.
    pub identifying: IdentifyingFields,
    /// Heuristic lifetime as a percentage of the time since the last modification
    /// (RFC 9111, 4.2.2 names 10% as typical).
    pub heuristic_percent: u8,
    /// Maximum heuristic lifetime.
    pub heuristic_max: Seconds,
    /// Heuristic lifetime of a response without `Last-Modified`; zero: none.
    pub heuristic_without_date: Seconds,
    /// The targeted fields that this cache obeys instead of `Cache-Control`, such as
    /// `CDN-Cache-Control`, most specific first (RFC 9213, 2.2). Leave it empty in a forward proxy,
    /// which acts for its clients rather than for the origin.
    pub targets: Vec<HeaderName>,
    /// Default `stale-while-revalidate` of a response (RFC 5861); zero: none.
    pub stale_while_revalidate: Seconds,
    /// Default `stale-if-error` of a response (RFC 5861); zero: none.
    pub stale_if_error: Seconds,
    /// Maximum staleness of a response that is served because the origin is unreachable (RFC 9111,
    /// 4.2.4: "unless it is disconnected"). Zero: never.
    pub stale_when_unreachable: Seconds,
    /// Errors to which the two windows above apply.
    pub stale_if: StaleCases,
    /// True if `stale-while-revalidate` and `stale-if-error` of the origin apply beside `s-maxage`.
    /// RFC 9111 (5.2.2.10) says that `s-maxage` forbids stale use; the older RFC 5861 does not
    /// consider it.
    pub stale_despite_s_maxage: bool,
    /// True if a response with `Set-Cookie` may be stored if the origin gives it a positive
    /// lifetime or calls it public. RFC 9111 (7.3) permits it and leaves it to the origin to forbid
    /// it. A heuristic lifetime or an operator's lifetime alone is never enough.
    pub store_set_cookie: bool,
    /// True if a response to a request without `Authorization` may be used for a request with it,
    /// even without `public`, `s-maxage` or `must-revalidate`. RFC 9111 (3.5) restricts only
    /// responses to requests *with* `Authorization`; without these directives such responses are
    /// not stored at all.
    pub reuse_for_authorized: bool,
    /// True if a request that selects no stored variant is sent with the tags of the stored
    /// variants (RFC 9111, 4.3.1). If an origin gives several variants the same tag, the wrong one
    /// is served.
    pub validate_variants: bool,
    /// The effect of a reload by a client.
    pub client_reload: ClientReload,
    /// True if every request is treated as if the client had sent `no-cache`.
    pub refresh: bool,
    /// True if responses are stored. If not, responses that are already stored may still be used.
    pub store: bool,
    /// Lifetimes set by the operator.
    pub lifetimes: Lifetimes,
    /// Maximum staleness of a response that is used in any way, including validation; `None`: no
    /// limit.
    pub keep: Option<Seconds>,
    /// Final share of the lifetime, in percent, in which a hit may trigger a validation before the
    /// response expires; zero: none.
    pub refresh_ahead_percent: u8,
    /// Maximum number of stale neighbours that are validated after a validation; zero: none.
    pub validate_neighbours: u8,
    /// True if the origin vouches: it says at every use whether a response is current, outside HTTP
    /// (a directory of files). Its lifetimes then apply to clients only. A 200 response with a
    /// strong entity tag is stored and does not expire; no other response is stored.
    pub origin_vouches: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings::of(Sharing::Careful)
    }
}

impl Settings {
    /// Returns the defaults for this kind of sharing.
    pub fn of(sharing: Sharing) -> Settings {
        let is_rfc = sharing == Sharing::Rfc;
        Settings {
            sharing,
            identifying: IdentifyingFields::default(),
            heuristic_percent: 10,
            heuristic_max: Settings::heuristic_max(sharing),
            heuristic_without_date: Seconds::ZERO,
            targets: Vec::new(),
            stale_while_revalidate: Seconds::ZERO,
            stale_if_error: Seconds::ZERO,
            stale_when_unreachable: Seconds::new(24 * 3600),
            stale_if: StaleCases::USUAL,
            stale_despite_s_maxage: false,
            store_set_cookie: is_rfc,
            reuse_for_authorized: is_rfc,
            validate_variants: false,
            client_reload: ClientReload::Obey,
            refresh: false,
            store: true,
            lifetimes: Lifetimes::default(),
            keep: None,
            refresh_ahead_percent: 0,
            validate_neighbours: 0,
            origin_vouches: false,
        }
    }

    /// Returns the maximum heuristic lifetime for this kind of sharing.
    pub fn heuristic_max(sharing: Sharing) -> Seconds {
        Seconds::new(match sharing {
            Sharing::Careful => 10 * 60,
            Sharing::Rfc => 24 * 3600,
        })
    }
}
