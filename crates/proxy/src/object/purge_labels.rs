//! Labels by which an operator may purge stored objects: their host, their tags, and prefixes of
//! their URL.
//!
//! The store reads the labels from an object's key and metadata when a purge may concern the
//! object. It keeps only a summary of labels that no object bears. The scheme is not part of a
//! label: a purge removes an object whatever scheme is used to request it.

use ring::digest;
use semantics::{TagFields, Url, cache_key};
use store::{Label, Labels, Pattern, Target};

use crate::object::ban::Ban;

/// Kinds of labels. Their values are stored with the purges of a cache.
const HOST: u8 = b'h';
const TAG: u8 = b't';
const URL: u8 = b'u';

pub(crate) struct ObjectLabels {
    pub tags: TagFields,
}

/// Version of the label rules. Changes when an object gets other labels than before.
const READING: &[u8] = b"1";

impl Labels for ObjectLabels {
    /// Returns a hash of the names and the syntax of the fields that carry tags.
    fn version(&self) -> u64 {
        let mut hash = digest::Context::new(&digest::SHA256);
        hash.update(READING);
        for (kind, fields) in [(b" ", &self.tags.spaced), (b",", &self.tags.listed)] {
            let mut names: Vec<&str> = fields.iter().map(|name| name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                hash.update(kind);
                hash.update(name.as_bytes());
            }
        }
        let hash = hash.finish();
        hash.as_ref().iter().take(8).fold(0, |all, byte| all << 8 | u64::from(*byte))
    }

    fn labels(&self, key: &[u8], meta: &[u8], see: &mut dyn FnMut(Label<'_>)) {
        if let Some(url) = named(key) {
            let authority = url.split_once('/').map_or(url, |(authority, _)| authority);
            let host = without_port(authority);
            see(Label { kind: URL, name: url.as_bytes() });
            see(Label { kind: HOST, name: host.as_bytes() });
            if host.len() < authority.len() {
                see(Label { kind: HOST, name: authority.as_bytes() });
            }
        }
        self.tags.of_stored(meta, |name| see(Label { kind: TAG, name }));
    }

    fn text<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        named(key).map(str::as_bytes)
    }

    fn pattern(&self, pattern: &[u8]) -> Option<Box<dyn Pattern>> {
        Ban::read(pattern).map(|ban| Box::new(ban) as Box<dyn Pattern>)
    }
}

/// Returns the URL of a key, without its scheme.
fn named(key: &[u8]) -> Option<&str> {
    Some(without_scheme(cache_key::describe(key)?.url))
}

pub(crate) fn without_scheme(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, rest)| rest)
}

/// Returns `host:port` without its port; an IPv6 literal keeps its brackets.
pub(crate) fn without_port(authority: &str) -> &str {
    match authority.rfind([':', ']']) {
        Some(at) if authority[at..].starts_with(':') => &authority[..at],
        _ => authority,
    }
}

/// Returns the target of a purge of `url`: all variants, whatever the scheme.
pub(crate) fn of_url(url: &Url) -> Target<'_> {
    let name = without_scheme(url.as_str()).as_bytes();
    Target::Label(Label { kind: URL, name })
}

/// Returns the target of a purge of all objects whose URL begins with `url`, whatever the scheme.
pub(crate) fn of_prefix(url: &Url) -> Target<'_> {
    Target::Prefix(without_scheme(url.as_str()).as_bytes())
}

/// Returns the target of a purge of a host: on the port that `host` names, or on all ports.
pub(crate) fn of_host(host: &str) -> Target<'_> {
    Target::Label(Label { kind: HOST, name: host.as_bytes() })
}

/// Returns the target of a purge of all objects with a tag.
pub(crate) fn of_tag(tag: &str) -> Target<'_> {
    Target::Label(Label { kind: TAG, name: tag.as_bytes() })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::object::key::primary_key;

    fn labels(url: &str) -> Vec<String> {
        let key = primary_key("site site", &Url::parse(url).unwrap()).unwrap();
        let mut all = Vec::new();
        let reader = ObjectLabels { tags: TagFields::default() };
        reader.labels(key.as_bytes(), b"", &mut |label| {
            let name = std::str::from_utf8(label.name).unwrap();
            all.push(format!("{} {name}", char::from(label.kind)));
        });
        assert_eq!(all[0], format!("u {}", named(key.as_bytes()).unwrap()));
        all
    }

    #[test]
    fn the_label_version_follows_the_tag_fields() {
        let version = |spaced: &[&'static str], listed: &[&'static str]| {
            let names = |names: &[&'static str]| {
                names.iter().map(|name| http::HeaderName::from_static(name)).collect()
            };
            let tags = TagFields { spaced: names(spaced), listed: names(listed) };
            ObjectLabels { tags }.version()
        };
        let default = ObjectLabels { tags: TagFields::default() }.version();
        // The default must not change: caches keep their label summaries across upgrades of the
        // program.
        assert_eq!(default, 0x05b3_24b5_0db5_3648);
        let plain = version(&["xkey", "surrogate-key"], &["cache-tag"]);
        assert_eq!(version(&["surrogate-key", "xkey"], &["cache-tag"]), plain);
        let others: [(&[&str], &[&str]); 5] = [
            (&["xkey"], &["cache-tag"]),
            (&["xkey", "surrogate-key", "a"], &["cache-tag"]),
            (&["xkey", "surrogate-key", "cache-tag"], &[]),
            (&["xkey", "surrogate-key"], &["cache-tags"]),
            (&[], &["xkey", "surrogate-key", "cache-tag"]),
        ];
        let mut seen = vec![default, plain];
        for (spaced, listed) in others {
            let version = version(spaced, listed);
            assert!(!seen.contains(&version), "{spaced:?} {listed:?}");
            seen.push(version);
        }
    }

    #[test]
    fn an_object_has_url_and_host_labels() {
        assert_eq!(labels("http://a.example/x?y"), ["u a.example/x?y", "h a.example"]);
        assert_eq!(
            labels("https://A.example:8443/"),
            ["u a.example:8443/", "h a.example", "h a.example:8443"]
        );
        // All spellings of a URL have the labels of the normalized one.
        assert_eq!(labels("http://a.example/%61?%c3"), ["u a.example/a?%C3", "h a.example"]);
        assert_eq!(labels("http://[::1]/"), ["u [::1]/", "h [::1]"]);
        assert_eq!(labels("http://[::1]:81/"), ["u [::1]:81/", "h [::1]", "h [::1]:81"]);
    }
}
