//! Tags: names that an origin gives its responses, so that all responses with one of them can be
//! purged together. No RFC defines them. Caches read them from `Surrogate-Key` and `xkey`, where
//! white space separates tags, and `Cache-Tag`, where commas do. Tags are bytes and case-sensitive.

use http::header::HeaderName;

use crate::fields::list::trim;
use crate::stored::meta;

/// The fields that carry tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagFields {
    /// Fields with tags separated by white space.
    pub spaced: Vec<HeaderName>,
    /// Fields with tags separated by commas; tags may contain spaces.
    pub listed: Vec<HeaderName>,
}

impl Default for TagFields {
    fn default() -> TagFields {
        let all = |names: &[&'static str]| {
            names.iter().map(|name| HeaderName::from_static(name)).collect()
        };
        TagFields {
            spaced: all(&["surrogate-key", "xkey", "cache-tags", "purge-cache-tags"]),
            listed: all(&["cache-tag", "x-cache-tags", "x-magento-tags"]),
        }
    }
}

impl TagFields {
    /// Returns the names of all fields that carry tags.
    pub fn names(&self) -> impl Iterator<Item = &HeaderName> {
        self.spaced.iter().chain(&self.listed)
    }

    /// Returns the tags in one value of the field `name`. Case does not matter in the name.
    pub fn of_value<'a>(&self, name: &str, value: &'a [u8]) -> Vec<&'a [u8]> {
        let mut tags = Vec::new();
        self.of_field(name.as_bytes(), value, &mut |tag| tags.push(tag));
        tags
    }

    /// Calls `see` with each tag of a stored response, given its metadata from the store. Metadata
    /// of other objects has no tags. Damaged metadata may yield only some of its tags.
    pub fn of_stored<'a>(&self, meta: &'a [u8], mut see: impl FnMut(&'a [u8])) {
        for (name, value) in meta::fields(meta) {
            self.of_field(name, value, &mut see);
        }
    }

    fn of_field<'a>(&self, name: &[u8], value: &'a [u8], see: &mut impl FnMut(&'a [u8])) {
        let is = |known: &HeaderName| known.as_str().as_bytes().eq_ignore_ascii_case(name);
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        if self.spaced.iter().any(is) {
            value.split(is_blank).filter(|tag| !tag.is_empty()).for_each(see);
        } else if self.listed.iter().any(is) {
            value.split(|byte| *byte == b',').map(trim).filter(|tag| !tag.is_empty()).for_each(see);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::stored;
    use crate::stored::sparse::{Layout, PartHead, SparseHead};
    use crate::stored::vary_marker::VaryMarker;

    const LINES: [&str; 5] =
        ["Surrogate-Key: a  b\tc,d", "Cache-Tag: e f, g,,h ", "xkey: i", "xkey: J", "X-Other: k"];
    const TAGS: [&str; 8] = ["a", "b", "c,d", "i", "J", "e f", "g", "h"];

    #[test]
    fn each_field_has_its_own_separator() {
        let (default, none) =
            (TagFields::default(), TagFields { spaced: Vec::new(), listed: Vec::new() });
        let mut tags = Vec::new();
        for line in LINES {
            let (name, value) = line.split_once(": ").unwrap();
            let name = name.to_ascii_lowercase();
            tags.extend(default.of_value(&name, value.as_bytes()));
            assert!(none.of_value(&name, value.as_bytes()).is_empty());
        }
        let mut expected: Vec<&[u8]> = TAGS.iter().map(|tag| tag.as_bytes()).collect();
        tags.sort_unstable();
        expected.sort_unstable();
        assert_eq!(tags, expected);
    }

    #[test]
    fn stored_responses_show_theirs_whole_or_in_parts() {
        let head = stored(&LINES);
        let layout = Layout { epoch: 1, length: 10, window: 5 };
        let sparse = SparseHead { layout, head: head.clone() };
        let mut expected = TAGS.to_vec();
        expected.sort_unstable();
        for meta in [head.encode(), sparse.encode()] {
            let mut tags = Vec::new();
            TagFields::default().of_stored(&meta, |tag| {
                tags.push(std::str::from_utf8(tag).unwrap());
            });
            tags.sort_unstable();
            assert_eq!(tags, expected);
            // Truncated metadata yields the tags that are complete.
            for len in 0..meta.len() {
                TagFields::default().of_stored(&meta[..len], |_| ());
            }
        }
        let names = ["surrogate-key".parse().unwrap()];
        for meta in [VaryMarker::new(1, &names).encode(), PartHead { start: 1 }.encode()] {
            TagFields::default().of_stored(&meta, |tag| panic!("a tag {tag:?}"));
        }
    }
}
