//! Patterns in an operator's rules: text with wildcards.
//!
//! `*` matches any number of characters, including none. Every other character matches itself.
//! Matching takes at most time proportional to the product of both lengths.

use std::convert::Infallible;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// A pattern, such as `/static/*` or `utm_*`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern {
    text: String,
    /// Length in bytes of the text before the first star.
    begin: usize,
    ignores_case: bool,
}

impl Pattern {
    /// Returns a case-sensitive pattern.
    pub fn new(text: &str) -> Pattern {
        let begin = text.find('*').unwrap_or(text.len());
        Pattern { text: text.to_owned(), begin, ignores_case: false }
    }

    /// Returns a case-insensitive pattern.
    pub fn ignoring_case(text: &str) -> Pattern {
        Pattern { ignores_case: true, ..Pattern::new(text) }
    }

    /// Returns the text of the pattern.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the pattern matches the whole of `text`.
    pub fn matches(&self, text: &[u8]) -> bool {
        let pattern = self.text.as_bytes();
        let (begin, pattern) = pattern.split_at(self.begin);
        let (pattern, text) = match text.split_at_checked(self.begin) {
            Some((first, rest)) if self.are_equal(begin, first) => (pattern, rest),
            _ => return false,
        };
        if let b"*" = pattern {
            return true;
        }
        let fits = |a: u8, b: u8| a == b || (self.ignores_case && a.eq_ignore_ascii_case(&b));
        // Where to resume if the text after the last star does not match: one character further on.
        // Earlier stars need no retry.
        let (mut at, mut from, mut retry) = (0, 0, None);
        while from < text.len() {
            if pattern.get(at) == Some(&b'*') {
                retry = Some((at + 1, from));
                at += 1;
            } else if pattern.get(at).is_some_and(|&byte| fits(byte, text[from])) {
                (at, from) = (at + 1, from + 1);
            } else if let Some((after_star, begin)) = retry {
                retry = Some((after_star, begin + 1));
                (at, from) = (after_star, begin + 1);
            } else {
                return false;
            }
        }
        pattern[at..].iter().all(|&byte| byte == b'*')
    }

    /// Returns the ranges of `text` that the stars stand for, in order; `None` if the pattern does
    /// not match. All stars but the last stand for as little as possible.
    pub fn captures(&self, text: &[u8]) -> Option<Vec<Range<usize>>> {
        let mut pieces = self.text.as_bytes().split(|&byte| byte == b'*');
        let begin = pieces.next()?.len();
        let mut at = text
            .get(..begin)
            .filter(|part| self.are_equal(&self.text.as_bytes()[..begin], part))?
            .len();
        let pieces: Vec<&[u8]> = pieces.collect();
        let Some((last, inner)) = pieces.split_last() else {
            return (at == text.len()).then(Vec::new);
        };
        let mut found = Vec::with_capacity(pieces.len());
        for piece in inner {
            let end = (at..=text.len().checked_sub(piece.len())?)
                .find(|end| self.are_equal(piece, &text[*end..end + piece.len()]))?;
            found.push(at..end);
            at = end + piece.len();
        }
        let end = text.len().checked_sub(last.len()).filter(|end| *end >= at)?;
        found.push(at..end);
        self.are_equal(last, &text[end..]).then_some(found)
    }

    /// Returns whether a piece of the pattern is a part of a text.
    fn are_equal(&self, piece: &[u8], part: &[u8]) -> bool {
        match self.ignores_case {
            true => piece.eq_ignore_ascii_case(part),
            false => piece == part,
        }
    }
}

impl FromStr for Pattern {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Pattern, Infallible> {
        Ok(Pattern::new(text))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, fits, others) in [
            ("/a", &["/a"][..], &["/", "/a/", "/A", "/ab", ""][..]),
            ("/a/*", &["/a/", "/a/b", "/a/b/c"], &["/a", "/b/a/"]),
            ("*.css", &[".css", "/x.css", "/x.css.css"], &["/x.css?", "/x.CSS", "/xcss"]),
            ("*a*b", &["ab", "aab", "xaxbxb"], &["ba", "abx", ""]),
            ("a*b*c", &["abc", "axbxbc", "abcbc"], &["ac", "acb"]),
            ("*", &["", "anything"], &[]),
            ("**x", &["x", "ax"], &["xa"]),
            ("", &[""], &["x"]),
        ] {
            let pattern = Pattern::new(pattern);
            for text in fits {
                assert!(pattern.matches(text.as_bytes()), "{pattern} {text}");
            }
            for text in others {
                assert!(!pattern.matches(text.as_bytes()), "{pattern} {text}");
            }
        }
        assert!(Pattern::ignoring_case("*Mobile*").matches(b"a mobile thing"));
    }

    #[test]
    fn captures_are_what_the_stars_stand_for() {
        let captured = |pattern: &str, text: &'static str| {
            let ranges = Pattern::new(pattern).captures(text.as_bytes())?;
            Some(ranges.into_iter().map(|range| &text[range]).collect::<Vec<_>>())
        };
        for (pattern, text, expected) in [
            ("/a", "/a", Some(&[][..])),
            ("/a", "/ab", None),
            ("/a/*", "/a/b/c", Some(&["b/c"])),
            ("*.css", "/x.css.css", Some(&["/x.css"])),
            ("/*/x/*", "/a/x/b/x/c", Some(&["a", "b/x/c"])),
            ("*ab", "ab", Some(&[""])),
            ("a*a", "a", None),
            ("*", "", Some(&[""])),
            ("/*/*.html", "/a/b", None),
        ] {
            assert_eq!(captured(pattern, text).as_deref(), expected, "{pattern} {text}");
        }
        assert!(Pattern::ignoring_case("/A/*").captures(b"/a/x").is_some());
    }

    #[test]
    fn many_stars_take_no_long_time() {
        let pattern = Pattern::new(&"*a".repeat(100));
        assert!(!pattern.matches("a".repeat(99).as_bytes()));
        assert!(!pattern.matches(format!("{}b", "a".repeat(20_000)).as_bytes()));
    }
}
