//! Expressions with lookarounds, which Larder's do not have.

use std::collections::BTreeMap;

use crate::convert::regex_of_text::escaped;

/// Returns an expression without a negative lookahead of texts at its end, such as
/// `/\.(?!well-known)`; `None` if it has another form. Matches the same texts.
pub fn expanded(regex: &str) -> Option<String> {
    let (before, rest) = regex.split_once("(?!")?;
    let (inner, after) = rest.split_once(')')?;
    if !matches!(after, "" | ".*" | ".*$" | ".+" | ".+$") || before.contains("(?") {
        return None;
    }
    let mut texts = Vec::new();
    for one in inner.split('|') {
        let text = one.replace("\\/", "/").replace("\\.", "\0").replace("\\-", "-");
        if text.contains(['.', '\\', '(', '[', '*', '+', '?', '$', '^', '{']) || text.is_empty() {
            return None;
        }
        texts.push(text.replace('\0', "."));
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut others = not_begun(&texts);
    if after.starts_with(".+") {
        // It needs a character, which the end of the text is not.
        others = others.replacen("$|", "", 1);
    }
    Some(format!("{before}{others}"))
}

/// Returns an expression for what begins with none of these texts, none of which is empty.
fn not_begun(texts: &[&str]) -> String {
    let mut next: BTreeMap<char, Vec<&str>> = BTreeMap::new();
    for text in texts {
        let mut rest = text.chars();
        if let Some(first) = rest.next() {
            next.entry(first).or_default().push(rest.as_str());
        }
    }
    let class = escaped(&next.keys().collect::<String>());
    let mut all = format!("(?:$|[^{class}]");
    for (first, rests) in next {
        if !rests.contains(&"") {
            all.push('|');
            all.push_str(&escaped(&first.to_string()));
            all.push_str(&not_begun(&rests));
        }
    }
    all.push(')');
    all
}

/// Returns an expression without its lookarounds and other signs that Larder's do not have. It
/// matches at least the same texts, if it is valid.
pub fn stripped(regex: &str) -> String {
    let (mut out, mut rest) = (String::new(), regex);
    while let Some(c) = rest.chars().next() {
        let look = ["(?!", "(?=", "(?<!", "(?<="].iter().find(|sign| rest.starts_with(**sign));
        if look.is_some() {
            rest = after_group(rest);
        } else if let Some(after) = rest.strip_prefix("(?>") {
            out.push_str("(?:");
            rest = after;
        } else if rest.starts_with('\\') {
            let length = rest.chars().take(2).map(char::len_utf8).sum();
            let pair: &str = &rest[..length];
            let is_back = pair.ends_with(|c: char| c.is_ascii_digit());
            out.push_str(if is_back { ".*" } else { pair });
            rest = &rest[length..];
        } else {
            let is_possessive = c == '+' && out.ends_with(['*', '+', '?', '}']);
            if !is_possessive {
                out.push(c);
            }
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

/// Returns what is behind the group that a text begins with.
fn after_group(text: &str) -> &str {
    let (mut depth, mut is_escaped) = (0_usize, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '(' => depth += 1,
            ')' => {
                depth -= 1;
                if depth == 0 {
                    return &text[at + 1..];
                }
            }
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookarounds_are_expanded_or_stripped() {
        assert_eq!(expanded("/\\.(?!ab)").as_deref(), Some("/\\.(?:$|[^a]|a(?:$|[^b]))"));
        assert_eq!(expanded("^/(?!a|ab).*$").as_deref(), Some("^/(?:$|[^a])"));
        assert_eq!(
            expanded("^/(?!a\\.b).+").as_deref(),
            Some("^/(?:[^a]|a(?:$|[^\\.]|\\.(?:$|[^b])))")
        );
        for odd in ["^/x(?!a)b", "(?=a)", "(?!a+)", "(?!)"] {
            assert_eq!(expanded(odd), None, "{odd}");
        }
        for (regex, expected) in
            [("^/(?!a(b)\\)).*x", "^/.*x"), ("(a)\\1++(?>b)", "(a).*(?:b)"), ("(?!", "")]
        {
            assert_eq!(stripped(regex), expected);
        }
    }
}
