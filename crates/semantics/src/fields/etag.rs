//! Entity tags (RFC 9110, 8.8.3).

/// One entity tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityTag<'a> {
    /// Marked `W/`: good for "means the same", not for "is the same byte for byte".
    pub weak: bool,
    /// The text between the quotes.
    pub opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// Reads a whole field value as one tag; `None` unless it is exactly that.
    pub fn parse(value: &'a [u8]) -> Option<EntityTag<'a>> {
        match Self::read(value)? {
            (tag, []) => Some(tag),
            _ => None,
        }
    }

    /// Reads the tag that `text` begins with, and what follows it.
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

    /// Returns whether both are equal and strong (RFC 9110, 8.8.3.2).
    pub fn strong_eq(&self, other: &EntityTag) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// Returns whether both are equal but for their strength.
    pub fn weak_eq(&self, other: &EntityTag) -> bool {
        self.opaque == other.opaque
    }
}

/// The value of `If-Match` or `If-None-Match`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagList<'a> {
    /// `*`
    Any,
    /// The tags; what is malformed is left out, up to the next comma.
    Tags(Vec<EntityTag<'a>>),
}

impl<'a> TagList<'a> {
    /// Reads the lines of a field. Quotes in tags know no escapes and tags may hold commas, so this
    /// is not the general list syntax.
    pub fn parse(lines: impl IntoIterator<Item = &'a [u8]>) -> TagList<'a> {
        let mut tags = Vec::new();
        for line in lines {
            if crate::fields::list::trim(line) == b"*" {
                return TagList::Any;
            }
            let mut rest = skip_separators(line);
            while !rest.is_empty() {
                rest = match EntityTag::read(rest) {
                    Some((tag, after))
                        if matches!(after.first(), None | Some(b',' | b' ' | b'\t')) =>
                    {
                        tags.push(tag);
                        after
                    }
                    _ => &rest[rest.iter().position(|&byte| byte == b',').unwrap_or(rest.len())..],
                };
                rest = skip_separators(rest);
            }
        }
        TagList::Tags(tags)
    }

    /// Returns whether any member equals `tag` by strong comparison; `*` matches every tag.
    pub fn matches_strongly(&self, tag: &EntityTag) -> bool {
        match self {
            TagList::Any => true,
            TagList::Tags(tags) => tags.iter().any(|member| member.strong_eq(tag)),
        }
    }

    /// Returns whether any member equals `tag` by weak comparison; `*` matches every tag.
    pub fn matches_weakly(&self, tag: &EntityTag) -> bool {
        match self {
            TagList::Any => true,
            TagList::Tags(tags) => tags.iter().any(|member| member.weak_eq(tag)),
        }
    }
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
        let list = |lines: &[&'static str]| {
            TagList::parse(lines.iter().map(|line| line.as_bytes()).collect::<Vec<_>>())
        };
        let tags = |tags: &[EntityTag<'static>]| TagList::Tags(tags.to_vec());
        assert_eq!(list(&["*"]), TagList::Any);
        assert_eq!(list(&[" * "]), TagList::Any);
        assert_eq!(
            list(&["\"a\", W/\"b\",,\"c,d\""]),
            tags(&[strong("a"), weak("b"), strong("c,d")])
        );
        assert_eq!(list(&["\"a\"", "\"b\""]), tags(&[strong("a"), strong("b")]));
        assert_eq!(list(&["\"a\", b, \"c\""]), tags(&[strong("a"), strong("c")]));
        assert_eq!(list(&["\"a b\", \"c\"d, \"e\" f"]), tags(&[strong("e")]));
        assert_eq!(list(&["\"a"]), tags(&[]));
        assert_eq!(list(&["\"a\"b"]), tags(&[]));
        assert_eq!(list(&["a"]), tags(&[]));
        assert_eq!(list(&[""]), tags(&[]));
    }
}
