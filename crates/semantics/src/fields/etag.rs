//! Entity tags (RFC 9110, 8.8.3).

use crate::fields::list;

/// One entity tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityTag<'a> {
    /// True if the tag has the prefix `W/`: it then proves semantic equivalence, not equality byte
    /// by byte.
    pub weak: bool,
    /// The text between the quotes.
    pub opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// Parses a whole field value as one tag; `None` if it is anything else.
    pub fn parse(value: &'a [u8]) -> Option<EntityTag<'a>> {
        match Self::read(value)? {
            (tag, []) => Some(tag),
            _ => None,
        }
    }

    /// Parses the tag at the start of `text` and returns it with the remaining bytes.
    fn read(text: &'a [u8]) -> Option<(EntityTag<'a>, &'a [u8])> {
        let (weak, rest) = match text.strip_prefix(b"W/") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let rest = rest.strip_prefix(b"\"")?;
        let end = rest.iter().position(|&byte| byte == b'"')?;
        let opaque = &rest[..end];
        let is_etagc = |&byte: &u8| byte > b' ' && byte != 0x7f;
        opaque.iter().all(is_etagc).then_some((EntityTag { weak, opaque }, &rest[end + 1..]))
    }

    /// Returns whether the tags are equal and both strong (RFC 9110, 8.8.3.2).
    pub fn strong_eq(&self, other: &EntityTag) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// Returns whether the tags are equal, ignoring their strength.
    pub fn weak_eq(&self, other: &EntityTag) -> bool {
        self.opaque == other.opaque
    }
}

/// Returns whether a line of `If-Match` or `If-None-Match` is `*`, which matches any tag.
pub fn is_any(line: &[u8]) -> bool {
    list::trim(line) == b"*"
}

/// Returns the tags in a line of `If-Match` or `If-None-Match`. Malformed text is skipped up to the
/// next comma. Tags may contain commas and have no escapes, so the general list syntax does not
/// apply.
pub fn tags(line: &[u8]) -> impl Iterator<Item = EntityTag<'_>> {
    let mut rest = skip_separators(line);
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let read = EntityTag::read(rest)
                .filter(|(_, after)| matches!(after.first(), None | Some(b',' | b' ' | b'\t')));
            let comma = || rest.iter().position(|&byte| byte == b',').unwrap_or(rest.len());
            let after = read.map_or_else(|| &rest[comma()..], |(_, after)| after);
            rest = skip_separators(after);
            if let Some((tag, _)) = read {
                return Some(tag);
            }
        }
        None
    })
}

/// Returns whether the lines of `If-Match` or `If-None-Match` contain `*` or a tag that equals
/// `tag` by `is_same`. Without a `tag` only `*` matches.
pub fn is_named<'a>(
    mut lines: impl Iterator<Item = &'a [u8]>,
    tag: Option<&EntityTag<'_>>,
    is_same: fn(&EntityTag<'_>, &EntityTag<'_>) -> bool,
) -> bool {
    let has = |line, tag| tags(line).any(|member| is_same(&member, tag));
    lines.any(|line| is_any(line) || tag.is_some_and(|tag| has(line, tag)))
}

fn skip_separators(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !matches!(byte, b',' | b' ' | b'\t'));
    &text[start.unwrap_or(text.len())..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strong(opaque: &str) -> EntityTag<'_> {
        EntityTag { weak: false, opaque: opaque.as_bytes() }
    }

    fn weak(opaque: &str) -> EntityTag<'_> {
        EntityTag { weak: true, opaque: opaque.as_bytes() }
    }

    #[test]
    fn tags_are_read_exactly() {
        for (text, expected) in [
            (&b"\"a\""[..], Some(strong("a"))),
            (b"W/\"a\"", Some(weak("a"))),
            (b"\"\"", Some(strong(""))),
            (b"\"a,b\\\"", Some(strong("a,b\\"))),
            (b"\"\xff\"", Some(EntityTag { weak: false, opaque: b"\xff" })),
            (b"a", None),
            (b"\"a", None),
            (b"w/\"a\"", None),
            (b"W/ \"a\"", None),
            (b"\"a b\"", None),
            (b"\"a\"b", None),
            (b"\"a\" ", None),
            (b"", None),
        ] {
            assert_eq!(EntityTag::parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_comparison_table_of_rfc_9110() {
        // RFC 9110, 8.8.3.2
        for (one, other, is_strong, is_weak) in [
            (weak("1"), weak("1"), false, true),
            (weak("1"), weak("2"), false, false),
            (weak("1"), strong("1"), false, true),
            (strong("1"), strong("1"), true, true),
            (strong("1"), strong("2"), false, false),
        ] {
            assert_eq!(one.strong_eq(&other), is_strong, "{one:?} {other:?}");
            assert_eq!(other.strong_eq(&one), is_strong, "{other:?} {one:?}");
            assert_eq!(one.weak_eq(&other), is_weak, "{one:?} {other:?}");
        }
    }

    #[test]
    fn lists_may_hold_commas_in_tags_and_garbage_is_skipped() {
        let list = |lines: &[&'static str]| -> Vec<EntityTag<'static>> {
            lines.iter().flat_map(|line| tags(line.as_bytes())).collect()
        };
        assert!(is_any(b"*") && is_any(b" * ") && !is_any(b"\"*\"") && !is_any(b"*, *"));
        assert_eq!(list(&["\"a\", W/\"b\",,\"c,d\""]), [strong("a"), weak("b"), strong("c,d")]);
        assert_eq!(list(&["\"a\"", "\"b\""]), [strong("a"), strong("b")]);
        assert_eq!(list(&["\"a\", b, \"c\""]), [strong("a"), strong("c")]);
        assert_eq!(list(&["\"a b\", \"c\"d, \"e\" f"]), [strong("e")]);
        assert_eq!(list(&["\"a"]), []);
        assert_eq!(list(&["\"a\"b"]), []);
        assert_eq!(list(&["a"]), []);
        assert_eq!(list(&[""]), []);
    }
}
