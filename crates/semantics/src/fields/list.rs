//! Comma-separated field values (RFC 9110, 5.6.1), parsed leniently.

use http::HeaderName;

use crate::fields::view::Fields;

/// Returns the members of all lines of field `name`, in order and trimmed. Empty members are
/// skipped (RFC 9110, 5.6.1.2).
pub(crate) fn members<'a>(
    fields: &'a impl Fields,
    name: &HeaderName,
) -> impl Iterator<Item = &'a [u8]> {
    fields.lines(name).flat_map(split)
}

/// Returns the members of one line. Commas inside a quoted string do not separate. An unclosed
/// quote is an ordinary character; otherwise a stray quote could hide a `no-store` after it.
pub(crate) fn split(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(line);
    let mut quotes_close = true;
    std::iter::from_fn(move || {
        loop {
            let (member, after) = cut(rest?, &mut quotes_close);
            rest = after;
            let member = trim(member);
            if !member.is_empty() {
                return Some(member);
            }
        }
    })
}

/// Returns the first member of a line and the rest after it. `quotes_close` becomes false at the
/// first unclosed quote. All later quotes are escaped and would not close either, so the search is
/// not repeated and the time stays linear.
fn cut<'a>(line: &'a [u8], quotes_close: &mut bool) -> (&'a [u8], Option<&'a [u8]>) {
    let mut at = 0;
    while at < line.len() {
        match line[at] {
            b',' => return (&line[..at], Some(&line[at + 1..])),
            b'"' if *quotes_close => match end_of_quoted(line, at) {
                Some(end) => at = end + 1,
                None => *quotes_close = false,
            },
            _ => at += 1,
        }
    }
    (line, None)
}

/// Returns the position of the quote that closes the one at `open`.
fn end_of_quoted(line: &[u8], open: usize) -> Option<usize> {
    let mut at = open + 1;
    while at < line.len() {
        match line[at] {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

/// Returns whether `text` is a token (RFC 9110, 5.6.2).
pub(crate) fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| is_token_byte(*byte))
}

/// Returns whether a token may contain this byte.
pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Removes spaces and tabs around `value`.
pub(crate) fn trim(value: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = value.iter().position(|b| !blank(b)).unwrap_or(value.len());
    let end = value.iter().rposition(|b| !blank(b)).map_or(start, |last| last + 1);
    &value[start..end]
}

/// Returns the weight among the parameters of a member, in thousandths; 1,000 if there is none
/// (RFC 9110, 12.4.2). `None` if the weight is malformed or not between 0 and 1.
pub(crate) fn weight<'a>(mut parameters: impl Iterator<Item = &'a [u8]>) -> Option<u16> {
    let given = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_at_checked(2)?;
        name.eq_ignore_ascii_case(b"q=").then(|| trim(value))
    });
    let Some(text) = given else { return Some(1000) };
    if let [b'0', b'.', digit @ b'0'..=b'9'] = text {
        // Fast path for the most common form.
        return Some(u16::from(digit - b'0') * 100);
    }
    let weight: f32 = std::str::from_utf8(text).ok()?.parse().ok()?;
    // A positive weight never rounds to 0.
    let least = u16::from(weight > 0.0);
    (0.0..=1.0).contains(&weight).then(|| ((weight * 1000.0).round() as u16).max(least))
}

/// Returns the content of a quoted string, unescaped; `None` if `value` is not a quoted string.
pub(crate) fn unquote(value: &[u8]) -> Option<Vec<u8>> {
    if value.first() != Some(&b'"') || end_of_quoted(value, 0)? + 1 != value.len() {
        return None;
    }
    let mut plain = Vec::with_capacity(value.len());
    let mut inside = value[1..value.len() - 1].iter();
    while let Some(&byte) = inside.next() {
        plain.push(if byte == b'\\' { *inside.next()? } else { byte });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(line: &str) -> Vec<&str> {
        split(line.as_bytes()).map(|part| std::str::from_utf8(part).unwrap()).collect()
    }

    #[test]
    fn lists_are_split_at_commas_outside_quotes() {
        let cases: [(&str, &[&str]); 9] = [
            ("", &[]),
            (" , ,\t", &[]),
            ("a", &["a"]),
            (" a ,b\t, c", &["a", "b", "c"]),
            (r#"a="x,y", b"#, &[r#"a="x,y""#, "b"]),
            (r#"a="x\",y", b"#, &[r#"a="x\",y""#, "b"]),
            (r#"a="x, no-store"#, &[r#"a="x"#, "no-store"]),
            (r#"a="x\"#, &[r#"a="x\"#]),
            (r#"a="x\",y\",z"#, &[r#"a="x\""#, r#"y\""#, "z"]),
        ];
        for (line, expected) in cases {
            assert_eq!(parts(line), expected, "{line:?}");
        }
    }

    #[test]
    fn quoted_strings_lose_quotes_and_escapes() {
        assert_eq!(unquote(br#""a\"b""#), Some(b"a\"b".to_vec()));
        assert_eq!(unquote(br#""""#), Some(vec![]));
        for bad in [&br#"""#[..], br#"a"#, br#""a"b"#, br#""a\"#, br#""a\""#] {
            assert_eq!(unquote(bad), None, "{bad:?}");
        }
    }
}
