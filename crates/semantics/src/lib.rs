//! The rules of HTTP caching (RFC 9110, RFC 9111) for a shared cache, as pure functions.
//!
//! The proxy asks, this crate answers: may this answer be stored ([`storability`]), may a stored
//! one be used for this request ([`reuse`]), which part of it ([`range`]), which parts of it may be
//! put together ([`partial`]), does the client have it
//! already ([`validators`]), what does a 304 change ([`merge`]), what does an unsafe request make
//! invalid ([`invalidation`]). Nothing here reads a clock, draws a random number or does I/O: `now`
//! is an argument, so the same answers come out of the product, of the simulator and of a test.
//!
//! The way of one request:
//!
//! 1. [`Url::from_uri`] and [`cache_key::primary`] name the object; [`RequestFacts::of`] parses the
//!    request's directives once.
//! 2. What the store holds under that name is a [`Meta`]: a [`StoredHead`], or a [`VaryMarker`]
//!    that leads to [`cache_key::variant`].
//! 3. [`reuse::decide`] says what may be done with it, from 40 bytes of [`Packed`] facts and
//!    without parsing a header.
//! 4. A fetched answer is judged by [`storability::judge`] and becomes a [`StoredHead`]; a 304 is
//!    merged by [`merge::freshen`].
//!
//! One principle decides the doubtful cases: a cache may lose data but never lie. What cannot be
//! parsed makes an answer stale or not storable; no input panics.

#![forbid(unsafe_code)]

pub mod age;
pub mod cache_control;
pub mod cache_key;
pub mod cache_status;
pub mod coding;
pub mod date;
pub mod device_class;
pub mod disguise;
pub mod etag;
pub mod field_names;
#[cfg(test)]
mod fixture;
pub mod forwarded;
pub mod freshness;
pub mod hop_by_hop;
pub mod invalidation;
pub mod language;
mod list;
pub mod max_forwards;
pub mod merge;
pub mod multipart;
pub mod packed;
pub mod partial;
pub mod pattern;
pub mod proxy_status;
pub mod query;
pub mod range;
pub mod request;
pub mod reuse;
pub mod settings;
pub mod sparse;
pub mod storability;
pub mod stored_head;
pub mod tags;
pub mod time;
pub mod url;
pub mod validators;
pub mod vary;
mod vary_marker;
pub mod via;

pub use cache_control::{RequestDirectives, ResponseDirectives};
pub use etag::EntityTag;
pub use field_names::FieldNames;
pub use packed::Packed;
pub use pattern::Pattern;
pub use query::QueryRule;
pub use request::{MethodClass, RequestFacts};
pub use reuse::Reuse;
pub use settings::{Lifetimes, Settings};
pub use sparse::{PartHead, SparseHead};
pub use storability::NotStorable;
pub use stored_head::{Damaged, Meta, StoredHead};
pub use tags::TagFields;
pub use time::{Exchange, Millis, Seconds, Time};
pub use url::Url;
pub use vary_marker::VaryMarker;
