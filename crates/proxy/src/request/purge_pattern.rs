//! Regular expressions in purge requests that need no ban, because a purge of another kind carries
//! them out: a literal path, a literal path prefix, a choice of whole tags.

/// Substrings of regular expressions that occur in neither plain tags nor plain URLs.
const SIGNS: [&str; 15] = [
    "(^", "|$)", "($|", "(?", ".*", ".+", "\\", "[^", "]+", "]*", "[0-9", "[a-z", "[A-Z", ")*",
    ")+",
];

/// Expressions that match where a tag begins: at the start of the value or after a separator.
const BEGINS: [&str; 5] = ["(^|,)", "(^|\\,)", "(^|\\s)", "(^| )", "(^|, )"];
/// Expressions that match where a tag ends.
const ENDS: [&str; 10] = [
    "(,|$)", "(\\,|$)", "($|,)", "($|\\,)", "(\\s|$)", "($|\\s)", "( |$)", "($| )", "(, |$)",
    "($|, )",
];

/// Returns whether a text seems to be a regular expression.
pub(super) fn is_pattern(text: &str) -> bool {
    let is_choice = || {
        let open = text.find('(');
        open.is_some_and(|open| text[open..].contains('|') && text[open..].contains(')'))
    };
    text.starts_with('^')
        || text.starts_with("/^")
        || text.ends_with('$')
        || SIGNS.iter().any(|sign| text.contains(sign))
        || is_choice()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathPattern {
    Begin(String),
    Whole(String),
}

impl PathPattern {
    /// Reads a regular expression on paths with their queries. Without `^` it still matches from
    /// the start of the path, as its senders intend.
    pub(super) fn read(pattern: &str) -> Option<PathPattern> {
        let (rest, at_begin) = match pattern.strip_prefix('^') {
            Some(rest) => (rest, true),
            None => (pattern, false),
        };
        let (rest, at_end) = match unescaped_suffix(rest, "$") {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        let (text, is_open) = match unescaped_suffix(rest, ".*") {
            Some(text) => (text, true),
            None => (rest, false),
        };
        let path = literal(text, false)?;
        match path.starts_with('/') {
            true if is_open => Some(PathPattern::Begin(path)),
            true if at_begin && at_end => Some(PathPattern::Whole(path)),
            true if at_begin => Some(PathPattern::Begin(path)),
            false if path.is_empty() && is_open => Some(PathPattern::Begin("/".to_owned())),
            _ => None,
        }
    }
}

/// Strips `suffix` from `text`, unless the suffix's first character is escaped.
fn unescaped_suffix<'a>(text: &'a str, suffix: &str) -> Option<&'a str> {
    let rest = text.strip_suffix(suffix)?;
    let escapes = rest.bytes().rev().take_while(|byte| *byte == b'\\').count();
    escapes.is_multiple_of(2).then_some(rest)
}

/// Returns the text that a regular expression without any choice matches. With `dots`, an unescaped
/// dot matches itself.
fn literal(pattern: &str, dots: bool) -> Option<String> {
    let mut text = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => text.push(characters.next().filter(char::is_ascii_punctuation)?),
            '.' if !dots => return None,
            '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '^' | '$' | '|' => return None,
            other => text.push(other),
        }
    }
    Some(text)
}

/// Returns the tags that a regular expression on a tag field chooses among. An unescaped dot
/// matches itself. With `is_bounded`, the expression must say where each tag begins and ends;
/// otherwise it may.
pub(super) fn tag_choice(pattern: &str, is_bounded: bool) -> Option<Vec<String>> {
    let mut tags = Vec::new();
    for alternative in alternatives(pattern)? {
        let begin = BEGINS.iter().find_map(|begin| alternative.strip_prefix(begin));
        let rest = begin.unwrap_or(alternative);
        let end = ENDS.iter().find_map(|end| unescaped_suffix(rest, end));
        let tag = end.unwrap_or(rest);
        let has_bounds = begin.is_some();
        if has_bounds != end.is_some() {
            return None;
        }
        match group(tag) {
            Some(inner) => tags.extend(tag_choice(inner, is_bounded && !has_bounds)?),
            None if is_bounded && !has_bounds => return None,
            None => {
                let tag = literal(tag, true)?;
                let is_one = !tag.is_empty() && !tag.contains([',', ' ', '\t']);
                tags.push(Some(tag).filter(|_| is_one)?);
            }
        }
    }
    Some(tags)
}

/// Returns the text inside the parentheses that enclose all of `pattern`.
fn group(pattern: &str) -> Option<&str> {
    let inner = pattern.strip_prefix('(')?.strip_suffix(')')?;
    // In `(a)(b)` the outer parentheses do not belong together.
    alternatives(inner).map(|_| inner)
}

/// Splits a regular expression at each `|` outside parentheses; `None` if these are unbalanced.
fn alternatives(pattern: &str) -> Option<Vec<&str>> {
    let (mut all, mut from, mut depth, mut is_escaped) = (Vec::new(), 0, 0_u32, false);
    for (at, byte) in pattern.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'(' => depth += 1,
            b')' => depth = depth.checked_sub(1)?,
            b'|' if depth == 0 => {
                all.push(&pattern[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    all.push(&pattern[from..]);
    (depth == 0 && !is_escaped).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_paths_and_prefixes_are_understood() {
        let begin = |path: &str| Some(PathPattern::Begin(path.to_owned()));
        let whole = |path: &str| Some(PathPattern::Whole(path.to_owned()));
        for (pattern, read) in [
            ("/.*", begin("/")),
            (".*", begin("/")),
            ("^.*$", begin("/")),
            ("/news/.*", begin("/news/")),
            ("^/news/.*$", begin("/news/")),
            ("^/news/", begin("/news/")),
            ("/a\\.b.*", begin("/a.b")),
            ("^/a\\.html$", whole("/a.html")),
            ("^/a\\?b=1$", whole("/a?b=1")),
            ("/a\\\\.*", begin("/a\\")),
            // An unescaped dot, which matches anything, and a repeated escaped dot.
            ("/a.b.*", None),
            ("/a\\.*", None),
            ("/b/.*\\.html", None),
            ("/b/.*\\.html.*", None),
            ("/news", None),
            ("/news$", None),
            ("news/.*", None),
            ("^/a\\$", begin("/a$")),
            ("^/(a|b)/.*", None),
            ("/[0-9].*", None),
            ("/a+.*", None),
            ("/a\\d.*", None),
            ("/a|/b.*", None),
            ("^/a\\", None),
            ("", None),
        ] {
            assert_eq!(PathPattern::read(pattern), read, "{pattern}");
        }
    }

    #[test]
    fn a_choice_of_whole_tags_is_understood() {
        let tags = |tags: &[&str]| Some(tags.iter().map(|tag| (*tag).to_owned()).collect());
        for (pattern, read) in [
            ("((^|,)cat_p_1(,|$))", tags(&["cat_p_1"])),
            ("((^|,)cat_p_1(,|$))|((^|,)cat_p(,|$))", tags(&["cat_p_1", "cat_p"])),
            ("(^|\\,)/books/1($|\\,)", tags(&["/books/1"])),
            ("(^|,)(a|b)(,|$)", tags(&["a", "b"])),
            ("(^|\\s)node:1(\\s|$)|(^|\\s)node:2(\\s|$)", tags(&["node:1", "node:2"])),
            ("node:1|config:system.site", tags(&["node:1", "config:system.site"])),
            ("a\\-b", tags(&["a-b"])),
            ("^a$", None),
            ("(^|,)a", None),
            ("a(,|$)", None),
            ("a\\$", tags(&["a$"])),
            ("cat_p_.*", None),
            ("cat_p_[0-9]+", None),
            ("(^|,)cat_p_\\d(,|$)", None),
            ("((^|,)a(,|$))(b)", None),
            ("((^|,)a(,|$)", None),
            ("a||b", None),
            ("a,b|c", None),
            (".*", None),
            ("", None),
        ] {
            assert_eq!(tag_choice(pattern, false), read, "{pattern}");
        }
        assert_eq!(tag_choice("((^|,)(a|b)(,|$))", true), tags(&["a", "b"]));
        assert_eq!(tag_choice("a|((^|,)b(,|$))", true), None);
    }

    #[test]
    fn usual_tags_and_urls_are_not_patterns() {
        for text in [
            "node:1",
            "/books?page=1",
            "/wiki/Foo_(bar)",
            "/a?b[]=1&c=d|e",
            "a|b",
            "/a+b",
            "/~a/$1/b",
            "config:system.site",
        ] {
            assert!(!is_pattern(text), "{text}");
        }
        for text in ["/b/.*\\.html", "^a", "a$", "(^|,)a(,|$)", "/(a|b)/", "/[0-9]", "/a.+", "/^a"]
        {
            assert!(is_pattern(text), "{text}");
        }
    }
}
