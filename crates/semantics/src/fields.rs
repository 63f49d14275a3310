//! Header fields, one per module: parsing and writing.

pub mod cache_control;
pub mod cache_status;
pub mod claims;
pub mod coding;
pub mod compressed;
pub mod connection_login;
pub mod date;
pub mod device_class;
pub mod etag;
pub mod field_names;
pub mod forwarded;
pub mod hop_by_hop;
pub mod ignored_fields;
pub mod language;
pub(crate) mod list;
pub mod max_forwards;
pub mod multipart;
pub mod one_exchange;
pub mod proxy_status;
pub mod range;
pub(crate) mod spellings;
pub mod trusted;
pub mod validators;
pub mod value;
pub mod vary;
pub(crate) mod view;
