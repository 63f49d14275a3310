//! Declarations of purging: the clients that may purge, and the fields that carry tags.

use std::time::Duration;

use proxy::rules::purge_dialect::{FIELDS, METHODS, PurgeField, PurgeMethod};
use purge_stream::StreamAddress;

use super::common::{MANY, Setting};
use crate::config::configuration::Config;
use crate::config::setting::fields;
use crate::config::value::{Checked, Kind};

/// The names of promises in a fleet.
pub(in crate::config) const CONSISTENCIES: [&str; 2] = ["bounded", "strict"];

/// A node asks the others for news each second.
const LEASE: Kind = Kind::Time(Duration::from_secs(5), Duration::from_secs(3600));

const STREAM: Kind = Kind::Checked(&Checked {
    check: Checked::read::<StreamAddress>,
    expected: "nats://HOST:PORT/STREAM or tls://HOST:PORT/STREAM, without a password",
    value_name: "ADDRESS",
    example: "tls://nats.example:4222/purges",
});

const METHOD: Kind = Kind::Checked(&Checked {
    check: Checked::read::<PurgeMethod>,
    expected: "a method that no RFC defines, alone or with =purge, =ban, =url, =tags or \
               =everything",
    value_name: "METHOD",
    example: "BAN=ban",
});

const FIELD: Kind = Kind::Checked(&Checked {
    check: Checked::read::<PurgeField>,
    expected: "a field with =soft, =method, =host, =url-regex, =host-regex, =regex:FIELD, \
               =tags-regex:FIELD, =tags:FIELD or =soft-tags:FIELD",
    value_name: "FIELD",
    example: "x-ban-url=url-regex",
});

/// The table `[purge]`.
pub const SETTINGS: &[Setting] = fields! {
    Config;

    /// Networks of clients that may use the method PURGE; others get 403 without the secret. With
    /// neither networks nor a secret PURGE is passed on. The address of the connection counts.
    "purge.from", Kind::List(&Kind::Network), [], live -> purging.from;

    /// Secret that permits a PURGE from any address, in the field `purge.secret-field`, which is
    /// removed from all requests.
    "purge.secret", Kind::Text("a secret"), ["none"], word("none"), live -> purge_secret;

    /// File with the secret of PURGE; white space around it is dropped.
    "purge.secret-file", Kind::Path, ["none"], word("none"), live -> purge_secret_file;

    /// Request field that carries the secret of PURGE.
    "purge.secret-field", Kind::Header, ["x-purge-secret"], live -> purge_secret_field;

    /// Methods that purge, each with what it purges; =purge, as METHOD alone, is what the fields
    /// name, else the URL; =ban the same, with the URL as a regular expression.
    "purge.methods", Kind::List(&METHOD), [], defaults(&METHODS), live
        -> purging.dialect.methods;

    /// Request fields of a purge besides those with tags, each with its meaning: FIELD=soft (any
    /// value but 0), =method (default, exact, regex or ban-regex: how to read the URL), =host (of
    /// the URL), =url-regex and =host-regex (regular expressions), =regex:FIELD (one for a response
    /// field), =tags-regex:FIELD (the same, and .* is everything), =tags:FIELD (tags, written as in
    /// that response field), =soft-tags:FIELD.
    "purge.fields", Kind::List(&FIELD), [], defaults(&FIELDS), live
        -> purging.dialect.fields;

    /// Fields of responses, and of PURGE, with tags separated by spaces.
    "purge.tag-fields", Kind::List(&Kind::Header), ["surrogate-key", "xkey", "cache-tags",
        "purge-cache-tags"] -> purging.tags.spaced;

    /// Fields of responses, and of PURGE, with tags separated by commas.
    "purge.tag-lists", Kind::List(&Kind::Header), ["cache-tag", "x-cache-tags", "x-magento-tags"]
        -> purging.tags.listed;

    /// Shows the tag fields to clients. "auto" removes them on a reverse proxy and keeps them on
    /// a forward proxy.
    "purge.pass-tags", Kind::Bool, ["auto"], word("auto"), live -> pass_tags;

    /// Most purges other than of URLs that are remembered (docs/guide/purging.md, "How many"); at
    /// most 16,000 per GiB of cache and 1/32 of the memory (104,000 for 256 MiB).
    "purge.entries", Kind::Int(1, MANY), ["262144"] -> store.purges;

    /// The promise of a purge that some nodes of a fleet could not be told. "bounded": they stop
    /// giving out what it concerns within `purge.lease`. "strict", with `fleet.members` alone: the
    /// answer comes when they have stopped.
    "purge.consistency", Kind::OneOf(&CONSISTENCIES), ["bounded"] -> fleet.consistency;

    /// How long a node that hears no news of the others uses what it has stored; then it validates
    /// each object with its origin. As long, at most, a purge waits for other nodes. The same on
    /// all nodes.
    "purge.lease", LEASE, ["10s"] -> fleet.lease;

    /// Share purges with other sites through a stream of NATS JetStream (docs/guide/streams.md):
    /// servers, separated by commas, the name of the stream, and its subject if that is another
    /// (nats://HOST:PORT/STREAM/SUBJECT). tls:// encrypts.
    "purge.stream", STREAM, ["none"], word("none") -> stream;

    /// File with what authenticates this node at the servers of the stream: USER:PASSWORD, or a
    /// token.
    "purge.stream-credentials", Kind::Path, ["none"], word("none") -> stream_credentials;

    /// PEM file with the authorities of the stream's servers. "system": those of the system.
    "purge.stream-ca", Kind::Path, ["system"], word("system") -> stream_ca;
};
