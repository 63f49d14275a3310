//! `Vary` (RFC 9110, 12.5.5; RFC 9111, 4.1): which request fields choose among variants.
//!
//! Two requests select the same variant when the named fields are equal after [`normalised`]. Only
//! what a field's own definition calls equivalent is made equal: lines are joined; in fields known
//! to be lists the white space around commas and semicolons goes; where members are
//! case-insensitive they become lower case. Order is kept: it may mean preference. Too little
//! normalisation costs a second copy, too much would serve the wrong one.

use http::header::{
    ACCEPT, ACCEPT_CHARSET, ACCEPT_ENCODING, ACCEPT_LANGUAGE, HeaderMap, HeaderName, VARY,
};

use crate::list;

/// What a response says about the request fields it depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vary {
    /// On none.
    None,
    /// On these; sorted, each once, lower case.
    Names(Vec<HeaderName>),
    /// `*`, or something that is no field name: on more than the request's fields.
    Star,
}

impl Vary {
    /// Reads the `Vary` of a response.
    pub fn of(headers: &HeaderMap) -> Vary {
        let mut names = Vec::new();
        for member in list::members(headers, VARY) {
            match HeaderName::from_bytes(member) {
                Ok(name) if member != b"*" => names.push(name),
                _ => return Vary::Star,
            }
        }
        sort_names(&mut names);
        if names.is_empty() { Vary::None } else { Vary::Names(names) }
    }

    /// The names; none for [`Vary::None`] and [`Vary::Star`].
    pub fn names(&self) -> &[HeaderName] {
        match self {
            Vary::Names(names) => names,
            Vary::None | Vary::Star => &[],
        }
    }
}

/// Sorts names and drops doubles: the order in which variant keys list them.
pub(crate) fn sort_names(names: &mut Vec<HeaderName>) {
    names.sort_unstable_by(|left, right| left.as_str().cmp(right.as_str()));
    names.dedup();
}

/// The normalised value of one field of a request; `None` when the request does not carry it, which
/// is not the same as an empty value.
pub fn normalised(request: &HeaderMap, name: &HeaderName) -> Option<Vec<u8>> {
    let mut lines = request.get_all(name).iter().peekable();
    lines.peek()?;
    let lines = lines.map(|line| list::trim(line.as_bytes()));
    let joined = lines.collect::<Vec<_>>().join(&b", "[..]);
    let is_caseless = [ACCEPT_ENCODING, ACCEPT_LANGUAGE, ACCEPT_CHARSET].contains(name);
    if !is_caseless && *name != ACCEPT {
        return Some(joined);
    }
    let members: Vec<Vec<u8>> = list::split(&joined).map(without_blanks_at_semicolons).collect();
    let mut value = members.join(&b","[..]);
    if is_caseless {
        value.make_ascii_lowercase();
    }
    Some(value)
}

/// `gzip ; q=1` as `gzip;q=1`; a quoted parameter value with a semicolon keeps its blanks by
/// leaving the whole member as it is.
fn without_blanks_at_semicolons(member: &[u8]) -> Vec<u8> {
    if member.contains(&b'"') {
        return member.to_vec();
    }
    member.split(|&byte| byte == b';').map(list::trim).collect::<Vec<_>>().join(&b";"[..])
}

/// Whether two requests select the same variant among responses that vary on `names`.
pub fn same_variant(names: &[HeaderName], one: &HeaderMap, other: &HeaderMap) -> bool {
    names.iter().all(|name| normalised(one, name) == normalised(other, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::headers;

    #[test]
    fn the_field_is_a_sorted_set_or_a_star() {
        let names = |list: &[&'static str]| {
            Vary::Names(list.iter().map(|name| HeaderName::from_static(name)).collect())
        };
        for (lines, expected) in [
            (&[][..], Vary::None),
            (&["Vary:"], Vary::None),
            (&["Vary: Accept"], names(&["accept"])),
            (&["Vary: b, A", "Vary: c,b"], names(&["a", "b", "c"])),
            (&["Vary: *"], Vary::Star),
            (&["Vary: a", "Vary: b, *"], Vary::Star),
            (&["Vary: a b"], Vary::Star),
        ] {
            assert_eq!(Vary::of(&headers(lines)), expected, "{lines:?}");
        }
    }

    #[test]
    fn only_what_means_the_same_is_the_same_variant() {
        let cases: [(&str, &[&str], &[&str], bool); 18] = [
            (
                "accept-encoding",
                &["Accept-Encoding: gzip, br"],
                &["Accept-Encoding: gzip,br"],
                true,
            ),
            (
                "accept-encoding",
                &["Accept-Encoding: GZip;q=1"],
                &["Accept-Encoding: gzip ; q=1"],
                true,
            ),
            (
                "accept-encoding",
                &["Accept-Encoding: a", "Accept-Encoding: b"],
                &["Accept-Encoding: a, b"],
                true,
            ),
            (
                "accept-encoding",
                &["Accept-Encoding: gzip, br"],
                &["Accept-Encoding: br, gzip"],
                false,
            ),
            ("accept-encoding", &["Accept-Encoding: gz ip"], &["Accept-Encoding: gzip"], false),
            ("accept-encoding", &["Accept-Encoding: gzip"], &[], false),
            ("accept-encoding", &["Accept-Encoding:"], &[], false),
            ("accept-encoding", &[], &[], true),
            ("accept-language", &["Accept-Language: de-DE"], &["Accept-Language: de-de"], true),
            ("accept", &["Accept: a/b , c/d"], &["Accept: a/b,c/d"], true),
            ("accept", &["Accept: a/b;v=X"], &["Accept: a/b;v=x"], false),
            ("accept", &["Accept: a/b;v=\"x; y\""], &["Accept: a/b;v=\"x;y\""], false),
            ("x-any", &["X-Any: a, b"], &["X-Any: a,b"], false),
            ("x-any", &["X-Any: a", "X-Any: b"], &["X-Any: a, b"], true),
            ("x-any", &["X-Any: a"], &["X-Any: A"], false),
            ("x-any", &["X-Any: a", "X-Other: 1"], &["X-Any: a", "X-Other: 2"], true),
            ("cookie", &["Cookie: a=b; c=d"], &["Cookie: a=b;c=d"], false),
            ("user-agent", &["User-Agent: a (b, c)"], &["User-Agent: a (b,c)"], false),
        ];
        for (name, one, other, expected) in cases {
            let names = [name.parse().unwrap()];
            let verdict = same_variant(&names, &headers(one), &headers(other));
            assert_eq!(verdict, expected, "{one:?} {other:?}");
        }
    }
}
