//! Entity tags (RFC 9110, 8.8.3).

/// One entity tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityTag<'a> {
    /// Marked `W/`: good for "means the same", not for "is the same byte for byte".
    pub weak: bool,
    /// What is between the quotes.
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

    /// Equal and both strong (RFC 9110, 8.8.3.2).
    pub fn strong_eq(&self, other: &EntityTag) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// Equal but for their strength.
    pub fn weak_eq(&self, other: &EntityTag) -> bool {
        self.opaque == other.opaque
    }
}

/// The value of `If-Match` or `If-None-Match`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagList<'a> {
    /// `*`
    Any,
    /// The tags; what is malformed, and what follows it in its line, is left out.
    Tags(Vec<EntityTag<'a>>),
}

impl<'a> TagList<'a> {
    /// Reads the lines of a field. Quotes in tags know no escapes and tags may hold commas, so this
    /// is not the general list syntax.
    pub fn parse(lines: impl IntoIterator<Item = &'a [u8]>) -> TagList<'a> {
        let mut tags = Vec::new();
        for line in lines {
            if crate::list::trim(line) == b"*" {
                return TagList::Any;
            }
            let mut rest = line;
            loop {
                rest = skip_separators(rest);
                let Some((tag, after)) = EntityTag::read(rest) else { break };
                tags.push(tag);
                rest = after;
                if !matches!(rest.first(), None | Some(b',' | b' ' | b'\t')) {
                    tags.pop();
                    break;
                }
            }
        }
        TagList::Tags(tags)
    }

    /// Whether any member equals `tag` by strong comparison; `*` matches every tag.
    pub fn matches_strongly(&self, tag: &EntityTag) -> bool {
        match self {
            TagList::Any => true,
            TagList::Tags(tags) => tags.iter().any(|member| member.strong_eq(tag)),
        }
    }

    /// Whether any member equals `tag` by weak comparison; `*` matches every tag.
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
