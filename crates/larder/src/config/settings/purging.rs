//! Declarations of purging: the clients that may purge, and the fields that carry tags.

use super::common::{MANY, Setting};
use crate::config::configuration::Config;
use crate::config::setting::fields;
use crate::config::value::Kind;

/// The table `[purge]`.
pub const SETTINGS: &[Setting] = fields! {
    Config;

    /// Networks of the clients that may use the method PURGE; others get 403, unless they know the
    /// secret. With neither networks nor a secret it is a method like any other, which is passed
    /// on. The address that counts is that of the connection: behind another proxy that is the
    /// proxy's.
    "purge.from", Kind::List(&Kind::Network), [], live -> purging.from;

    /// A secret that admits a PURGE from any address, in the field `purge.secret-field`. The field
    /// is removed from all requests.
    "purge.secret", Kind::Text("a secret"), ["none"], word("none"), live -> purge_secret;

    /// A file that holds the secret of PURGE; white space around it is dropped.
    "purge.secret-file", Kind::Path, ["none"], word("none"), live -> purge_secret_file;

    /// The header field that carries the secret of PURGE.
    "purge.secret-field", Kind::Header, ["x-purge-secret"], live -> purge_secret_field;

    /// Header fields of answers, and of PURGE, with tags that are separated by spaces.
    "purge.tag-fields", Kind::List(&Kind::Header), ["surrogate-key", "xkey"] -> purging.tags.spaced;

    /// Header fields of answers, and of PURGE, with tags that are separated by commas.
    /// X-Magento-Tags is one of them also where `purge.tag-fields` names it.
    "purge.tag-lists", Kind::List(&Kind::Header), ["cache-tag"] -> purging.tags.listed;

    /// Whether clients see the fields with tags. "auto" takes them from answers on a reverse proxy,
    /// where they are between origin server and cache, and leaves them on a forward proxy.
    "purge.pass-tags", Kind::Bool, ["auto"], word("auto"), live -> pass_tags;

    /// Purges by tag, host, prefix and of everything that are remembered, until no object is left
    /// that is older; at most as many as a checkpoint of the cache has room for (16,000 for each
    /// GiB) and a thirty-second of the memory (104,000 for 256 MiB). Tags and hosts that nothing
    /// stored bears, and prefixes that nothing begins with, take no room. When there are more, the
    /// oldest quarter of them becomes one purge of everything that is as old, and the log says so.
    "purge.entries", Kind::Int(1, MANY), ["262144"] -> store.purges;
};
