//! The rules of HTTP caching (RFC 9110, RFC 9111) for a shared cache, as pure functions.
//!
//! The proxy asks this crate: may a response be stored ([`storability`]), may a stored one be used
//! for a request ([`reuse`]), which part of it is sent ([`portion`]: [`validators`], then
//! [`range`]), which parts may be combined ([`partial`]), what does a 304 change ([`merge`]), and
//! what does an unsafe request invalidate ([`invalidation`]). Nothing here reads a clock, draws a
//! random number or does I/O. `now` is an argument, so the product, the simulator and tests get the
//! same results.
//!
//! The steps of one request:
//!
//! 1. [`Url::new`] and [`cache_key::primary`] name the object; [`RequestFacts::of`] parses the
//!    directives of the request once.
//! 2. The store returns a [`Meta`] for that name: a [`StoredHead`], or a [`VaryMarker`] that leads
//!    to [`cache_key::variant`].
//! 3. [`reuse::decide`] decides how the response may be used, from 40 bytes of [`Packed`] facts and
//!    without parsing a header.
//! 4. [`storability::judge`] decides whether a fetched response is stored as a [`StoredHead`];
//!    [`merge::freshen`] merges a 304.
//!
//! Doubtful cases follow one principle: a cache may lose data but must never serve wrong data.
//! Input that cannot be parsed makes a response stale or not storable. No input panics.

#![forbid(unsafe_code)]

mod decide;
mod fields;
#[cfg(test)]
mod fixture;
mod request;
mod response;
pub mod settings;
mod stored;
pub mod time;

pub use decide::portion::Portion;
pub use decide::reuse::Reuse;
pub use decide::{merge, partial, portion, reuse};
pub use fields::cache_control::{RequestDirectives, ResponseDirectives};
pub use fields::etag::EntityTag;
pub use fields::field_names::FieldNames;
pub use fields::spellings::{Speller, Spellings};
pub use fields::view::{EditFields, Fields};
pub use fields::{
    assumed_vary, cache_control, cache_status, claims, coding, compressed, connection_login, date,
    device_class, etag, field_names, forwarded, hop_by_hop, ignored_fields, language, max_forwards,
    multipart, one_exchange, proxy_status, range, trusted, validators, value, vary,
};
pub use request::facts::{Identity, MethodClass, RequestFacts};
pub use request::name_set::NameSet;
pub use request::query::QueryRule;
pub use request::url::Url;
pub use request::{disguise, facts, invalidation, query, readings, scanned_path, url};
pub use response::storability::NotStorable;
pub use response::{age, freshness, storability};
pub use settings::identifying::IdentifyingFields;
pub use settings::pattern::Pattern;
pub use settings::usual_names::{UsualName, UsualNames};
pub use settings::{ClientReload, Lifetime, Lifetimes, Settings, Sharing, StatusPattern};
pub use stored::encoding::Damaged;
pub use stored::meta::{EncodedHead, Meta};
pub use stored::packed::Packed;
pub use stored::sparse::{PartHead, SparseHead};
pub use stored::stored_head::StoredHead;
pub use stored::tags::TagFields;
pub use stored::vary_marker::{EncodedSet, VaryMarker};
pub use stored::{cache_key, meta, packed, sparse, stored_head, tags};
pub use time::{ExchangeTimes, Millis, Seconds, Time};
