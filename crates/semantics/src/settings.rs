//! An operator's choices where the RFCs leave one.
//!
//! Each field says what it changes and which RFC section grants the freedom.

pub mod identifying;
pub mod lifetimes;
pub(crate) mod name_filter;
pub mod pattern;
pub mod usual_names;

use http::HeaderName;

use crate::settings::identifying::IdentifyingFields;
pub use crate::settings::lifetimes::{Lifetime, Lifetimes, StatusPattern};
use crate::time::Seconds;

/// How much one client's answer is trusted to be right for others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// An answer to a request that can identify its client is shared only when the origin or the
    /// operator states a positive lifetime, or `Vary` names the fields that identify. Stale use
    /// needs a positive stated lifetime, and lifetimes are guessed for a few minutes at most.
    #[default]
    Careful,
    /// All that RFC 9111 permits.
    Rfc,
}

/// The effect of a client's reload: a request with `no-cache`, or with a `max-age` or `min-fresh`
/// that the stored answer does not meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientReload {
    /// Each asks the origin (RFC 9111, 5.2.1).
    #[default]
    Obey,
    /// Those that arrive while the origin is asked share the next request to it: each gets an
    /// answer that was asked for after it.
    Share,
    /// Nothing: what the client says about the age of answers does not count.
    Ignore,
}

/// Choices of a shared cache. [`Settings::default`] is what a plain proxy uses: careful sharing.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Whose answers are shared.
    pub sharing: Sharing,
    /// The request fields that identify a client, where sharing is careful.
    pub identifying: IdentifyingFields,
    /// Heuristic lifetime as a percentage of the time since the last modification
    /// (RFC 9111, 4.2.2 names 10% as typical).
    pub heuristic_percent: u8,
    /// Longest heuristic lifetime.
    pub heuristic_max: Seconds,
    /// Heuristic lifetime of an answer that has no `Last-Modified` either; zero: none.
    pub heuristic_without_date: Seconds,
    /// The targeted fields this cache obeys instead of `Cache-Control`, most specific first (RFC
    /// 9213, 2.2), such as `CDN-Cache-Control`. Empty: none, which suits a forward proxy: it acts
    /// for its clients, not for the origin.
    pub targets: Vec<HeaderName>,
    /// `stale-while-revalidate` of an answer that does not say (RFC 5861); zero: none.
    pub stale_while_revalidate: Seconds,
    /// `stale-if-error` of an answer that does not say (RFC 5861); zero: none.
    pub stale_if_error: Seconds,
    /// Largest staleness of an answer that is served because the origin cannot be reached (RFC
    /// 9111, 4.2.4: "unless it is disconnected"). Zero: never.
    pub stale_when_unreachable: Seconds,
    /// Whether the origin's own `stale-while-revalidate` and `stale-if-error` count beside
    /// `s-maxage`. RFC 9111 (5.2.2.10) says that `s-maxage` forbids stale use, and RFC 5861, which
    /// is older, does not know of it.
    pub stale_despite_s_maxage: bool,
    /// Whether an answer with `Set-Cookie` may be stored when the origin gives it a positive
    /// lifetime or calls it public. RFC 9111 says yes (7.3), and leaves it to the origin to forbid
    /// it. On a guess, or by the operator's lifetime alone, such an answer is never stored.
    pub store_set_cookie: bool,
    /// Whether a response to a request without `Authorization` may answer one with it, even when it
    /// does not say `public`, `s-maxage` or `must-revalidate`. RFC 9111 (3.5) only restricts
    /// answers to requests *with* `Authorization`, which are then not stored at all.
    pub reuse_for_authorized: bool,
    /// Whether a request that selects no stored variant asks the origin about the others by their
    /// tags (RFC 9111, 4.3.1). An origin that gives the same tag to several variants would have
    /// the wrong one served.
    pub validate_variants: bool,
    /// The effect of a client's reload.
    pub client_reload: ClientReload,
    /// Whether answers are stored. Where they are not, what is stored already may still be used.
    pub store: bool,
    /// Lifetimes that the operator decides.
    pub lifetimes: Lifetimes,
    /// Largest staleness of an answer that is of any use, a validation included; `None`: any.
    pub keep: Option<Seconds>,
    /// The last part of a lifetime, in percent, in which a hit may have the answer validated before
    /// it expires; zero: none.
    pub refresh_ahead_percent: u8,
    /// Largest number of stale neighbours that are validated after a validation; zero: none.
    pub validate_neighbours: u8,
    /// Whether the origin itself says at every use whether an answer is current, outside of HTTP (a
    /// directory of files). What it says of lifetimes is for clients then: an answer 200 with a
    /// strong entity tag is stored and does not expire, and no other answer is stored.
    pub origin_vouches: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings::of(Sharing::Careful)
    }
}

impl Settings {
    /// Returns the defaults under this way of sharing.
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
            stale_despite_s_maxage: false,
            store_set_cookie: is_rfc,
            reuse_for_authorized: is_rfc,
            validate_variants: false,
            client_reload: ClientReload::Obey,
            store: true,
            lifetimes: Lifetimes::default(),
            keep: None,
            refresh_ahead_percent: 0,
            validate_neighbours: 0,
            origin_vouches: false,
        }
    }

    /// Returns the longest guessed lifetime under this way of sharing.
    pub fn heuristic_max(sharing: Sharing) -> Seconds {
        Seconds::new(match sharing {
            Sharing::Careful => 10 * 60,
            Sharing::Rfc => 24 * 3600,
        })
    }
}
