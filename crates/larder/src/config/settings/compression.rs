//! Declarations: compression of the responses of origin servers.

use super::common::Setting;
use super::files::{CODING, COMPRESSED_TYPES};
use crate::config::configuration::Config;
use crate::config::setting::fields;
use crate::config::value::{Checked, Kind};

const MEDIA_TYPE: Kind = Kind::Checked(&Checked {
    check: compression::is_media_type,
    expected: "a media type",
    value_name: "TYPE",
    example: "text/html",
});

/// The table `[compression]`.
pub const SETTINGS: &[Setting] = fields! {
    Config;

    /// Codings in which responses of origin servers are compressed for clients that accept them, by
    /// their preference, then in this order (docs/guide/upstreams.md). Servers are then asked for
    /// bodies without a coding.
    "compression.codings", Kind::List(&CODING), [], live -> compress.codings;

    /// Media types that are compressed.
    "compression.types", Kind::List(&MEDIA_TYPE), [], defaults(COMPRESSED_TYPES), live
        -> compress.types;

    /// Smallest body that is compressed.
    "compression.min", Kind::Size(0, 1 << 30), ["1K"], live -> compress.least;

    /// Largest body that is compressed. One of unknown length is compressed while it is fetched.
    "compression.max", Kind::Size(0, 1 << 30), ["10M"], live -> compress.most;
};
