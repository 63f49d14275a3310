//! Settings of purging: who may, and by what.

use super::{MANY, Setting};
use crate::config::setting::Take;
use crate::config::value::Kind;

/// The keys of `[purge]`.
pub(super) const SETTINGS: &[Setting] = &[FROM, TAG_FIELDS, TAG_LISTS, PASS_TAGS, ENTRIES];

const FROM: Setting = Setting::new(
    "purge.from",
    Kind::List(&Kind::Network),
    &[],
    |c, v| c.purge.from = Take::take(v),
    "Networks of the clients that may use the method PURGE; others get 403. With none it is a \
     method like any other, which is passed on. The address that counts is that of the \
     connection: behind another proxy that is the proxy's.",
)
.live();

const TAG_FIELDS: Setting = Setting::new(
    "purge.tag-fields",
    Kind::List(&Kind::Header),
    &["surrogate-key", "xkey"],
    |c, v| c.purge.tag_fields = Take::take(v),
    "Header fields of answers, and of PURGE, with tags that are separated by spaces.",
);

const TAG_LISTS: Setting = Setting::new(
    "purge.tag-lists",
    Kind::List(&Kind::Header),
    &["cache-tag"],
    |c, v| c.purge.tag_lists = Take::take(v),
    "Header fields of answers, and of PURGE, with tags that are separated by commas.",
);

const PASS_TAGS: Setting = Setting::new(
    "purge.pass-tags",
    Kind::Bool,
    &["auto"],
    |c, v| c.purge.pass_tags = Take::take(v),
    "Whether clients see the fields with tags. \"auto\" takes them from answers on a reverse \
     proxy, where they are between origin server and cache, and leaves them on a forward proxy.",
)
.word("auto")
.live();

const ENTRIES: Setting = Setting::new(
    "purge.entries",
    Kind::Int(1, MANY),
    &["262144"],
    |c, v| c.purge.entries = Take::take(v),
    "Purges by tag, host, prefix and of everything that are remembered, until no object is left \
     that is older; at most as many as a checkpoint of the cache has room for (16,000 for each \
     GiB) and a thirty-second of the memory (116,000 for 256 MiB). Tags and hosts that nothing \
     stored bears take no room. When there are more, the oldest quarter of them becomes one purge \
     of everything that is as old.",
);
