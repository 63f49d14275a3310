//! `Vary` (RFC 9110, 12.5.5; RFC 9111, 4.1): the request fields that select among variants.
//!
//! Two requests select the same variant when the named fields are equal after [`normalised`], which
//! does what RFC 9111 (4.1) permits: lines are joined; white space around the commas of a list is
//! removed; in the fields of content negotiation (RFC 9110, 12.5), where weights rank the members
//! and case and order mean nothing, members are put in lower case and sorted. Fields whose commas
//! do not make a list are compared byte by byte. Too little normalisation costs a second copy, too
//! much would serve the wrong one.

use http::header::{
    self, ACCEPT, ACCEPT_CHARSET, ACCEPT_ENCODING, ACCEPT_LANGUAGE, HeaderMap, HeaderName,
    HeaderValue, VARY,
};

use crate::fields::list;
use crate::fields::view::Fields;

/// The request fields that a response depends on.
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
        for member in list::members(headers, &VARY) {
            match HeaderName::from_bytes(member) {
                Ok(name) if member != b"*" => names.push(name),
                _ => return Vary::Star,
            }
        }
        sort_names(&mut names);
        if names.is_empty() { Vary::None } else { Vary::Names(names) }
    }

    /// Returns the names; none for [`Vary::None`] and [`Vary::Star`].
    pub fn names(&self) -> &[HeaderName] {
        match self {
            Vary::Names(names) => names,
            Vary::None | Vary::Star => &[],
        }
    }
}

/// Adds to the `Vary` of an update the members of the `Vary` that is stored and that it lacks. An
/// update without the field leaves the stored one as it is.
pub(crate) fn widen(update: &mut HeaderMap, stored: &HeaderMap) {
    if !update.contains_key(VARY) {
        return;
    }
    let has = |update: &HeaderMap, name: &[u8]| {
        list::members(update, &VARY).any(|member| member.eq_ignore_ascii_case(name))
    };
    for name in list::members(stored, &VARY) {
        if !has(update, name)
            && let Ok(name) = HeaderValue::from_bytes(name)
        {
            update.append(VARY, name);
        }
    }
}

/// Sorts names and drops doubles: the order in which variant keys list them.
pub(crate) fn sort_names(names: &mut Vec<HeaderName>) {
    names.sort_unstable_by(|left, right| left.as_str().cmp(right.as_str()));
    names.dedup();
}

/// Fields in which a comma does not separate members (RFC 9110, 5.5): compared as they are.
const SINGLETONS: [HeaderName; 12] = [
    header::AUTHORIZATION,
    header::CONTENT_TYPE,
    header::COOKIE,
    header::DATE,
    header::FROM,
    header::HOST,
    header::IF_MODIFIED_SINCE,
    header::IF_RANGE,
    header::IF_UNMODIFIED_SINCE,
    header::ORIGIN,
    header::REFERER,
    header::USER_AGENT,
];

/// Fields of content negotiation, in which case and order mean nothing; a media type's parameters
/// may have a case.
const NEGOTIATED: [HeaderName; 4] = [ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, ACCEPT_CHARSET];

/// Members of a list that are sorted without an allocation.
const FEW: usize = 16;

/// Returns the normalised value of one field of a request; `None` when the request does not carry
/// it, which is not the same as an empty value.
pub fn normalised(request: &impl Fields, name: &HeaderName) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    write_normalised(request, name.as_str(), &mut value).then_some(value)
}

/// Writes the value that [`normalised`] returns of the field `name`, in lower case, behind `out`;
/// returns whether the request carries the field. One line, and a list of usual length, take no
/// allocation but what `out` needs.
pub(crate) fn write_normalised(request: &impl Fields, name: &str, out: &mut Vec<u8>) -> bool {
    let mut lines = request.lines_named(name).map(list::trim);
    let Some(first) = lines.next() else { return false };
    let Some(second) = lines.next() else {
        write_joined(name, first, out);
        return true;
    };
    // Lines of a field that is no list are not one line with a comma in it.
    let between = if is_one_of(&SINGLETONS, name) { &b"\n"[..] } else { &b", "[..] };
    let lines: Vec<&[u8]> = [first, second].into_iter().chain(lines).collect();
    write_joined(name, &lines.join(between), out);
    true
}

fn is_one_of(names: &[HeaderName], name: &str) -> bool {
    names.iter().any(|known| known.as_str() == name)
}

/// Writes the normalised value of the field `name`, in lower case, behind `out`. `joined`: its
/// lines without white space around them, joined.
fn write_joined(name: &str, joined: &[u8], out: &mut Vec<u8>) {
    if is_one_of(&SINGLETONS, name) {
        out.extend_from_slice(joined);
    } else if is_one_of(&NEGOTIATED, name) {
        write_sorted(joined, name != ACCEPT.as_str(), out);
    } else {
        for (number, member) in list::split(joined).enumerate() {
            if number > 0 {
                out.push(b',');
            }
            out.extend_from_slice(member);
        }
    }
}

/// Writes the members of a negotiation field in normal form, sorted, each once.
fn write_sorted(joined: &[u8], is_caseless: bool, out: &mut Vec<u8>) {
    let count = list::split(joined).count();
    let (mut few, mut many) = ([(0, 0); FEW], Vec::new());
    let places: &mut [(usize, usize)] = if count <= FEW {
        &mut few[..count]
    } else {
        many.resize(count, (0, 0));
        &mut many
    };
    let begin = out.len();
    for (place, member) in places.iter_mut().zip(list::split(joined)) {
        let at = out.len();
        write_negotiated(member, is_caseless, out);
        *place = (at, out.len());
    }
    let end = out.len();
    places.sort_unstable_by(|one, other| out[one.0..one.1].cmp(&out[other.0..other.1]));
    let mut before: Option<(usize, usize)> = None;
    for &(from, to) in &*places {
        if before.is_some_and(|before| out[before.0..before.1] == out[from..to]) {
            continue;
        }
        if before.is_some() {
            out.push(b',');
        }
        out.extend_from_within(from..to);
        before = Some((from, to));
    }
    out.drain(begin..end);
}

/// Writes a member of a negotiation field in normal form: `GZip ; q=1` as `gzip`. A media type has
/// no case either, its parameters may. A quoted parameter value may hold a semicolon: such a member
/// is left as it is.
fn write_negotiated(member: &[u8], is_caseless: bool, out: &mut Vec<u8>) {
    if member.contains(&b'"') {
        out.extend_from_slice(member);
        return;
    }
    let begin = out.len();
    let parts = member.split(|&byte| byte == b';').map(list::trim);
    for (number, part) in parts.filter(|part| !is_default_weight(part)).enumerate() {
        if number > 0 {
            out.push(b';');
        }
        out.extend_from_slice(part);
    }
    let member = &mut out[begin..];
    let name = member.iter().position(|&byte| byte == b';').unwrap_or(member.len());
    let caseless = if is_caseless { member.len() } else { name };
    member[..caseless].make_ascii_lowercase();
}

/// Returns whether a parameter is the weight 1, which is meant without one (RFC 9110, 12.4.2).
fn is_default_weight(part: &[u8]) -> bool {
    let Some((weight, rest)) = part.split_first_chunk::<3>() else { return false };
    let is_one = match rest {
        [] => true,
        [b'.', digits @ ..] => digits.iter().all(|digit| *digit == b'0'),
        _ => false,
    };
    is_one && weight.eq_ignore_ascii_case(b"q=1")
}

/// Returns whether two requests select the same variant among responses that vary on `names`.
pub fn same_variant(names: &[HeaderName], one: &impl Fields, other: &impl Fields) -> bool {
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
        let cases: [(&str, &[&str], &[&str], bool); 25] = [
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
                true,
            ),
            ("accept-encoding", &["Accept-Encoding: gz ip"], &["Accept-Encoding: gzip"], false),
            ("accept-encoding", &["Accept-Encoding: gzip"], &[], false),
            ("accept-encoding", &["Accept-Encoding:"], &[], false),
            ("accept-encoding", &[], &[], true),
            ("accept-language", &["Accept-Language: de-DE"], &["Accept-Language: de-de"], true),
            ("accept", &["Accept: a/b , c/d"], &["Accept: a/b,c/d"], true),
            ("accept", &["Accept: a/b;v=X"], &["Accept: a/b;v=x"], false),
            ("accept", &["Accept: a/b;v=\"x; y\""], &["Accept: a/b;v=\"x;y\""], false),
            ("accept-language", &["Accept-Language: de"], &["Accept-Language: de;q=1.0"], true),
            ("accept-language", &["Accept-Language: de"], &["Accept-Language: de;q=0.9"], false),
            ("accept-language", &["Accept-Language: de"], &["Accept-Language: de, de"], true),
            ("x-any", &["X-Any: a, b"], &["X-Any: a ,,b"], true),
            ("x-any", &["X-Any: \"a, b\""], &["X-Any: \"a,b\""], false),
            ("x-any", &["X-Any: a, b"], &["X-Any: b, a"], false),
            ("x-any", &["X-Any: a  b"], &["X-Any: a b"], false),
            ("x-any", &["X-Any: a", "X-Any: b"], &["X-Any: a, b"], true),
            ("x-any", &["X-Any: a"], &["X-Any: A"], false),
            ("x-any", &["X-Any: a", "X-Other: 1"], &["X-Any: a", "X-Other: 2"], true),
            ("cookie", &["Cookie: a=b; c=d"], &["Cookie: a=b;c=d"], false),
            ("cookie", &["Cookie: a=b", "Cookie: c=d"], &["Cookie: a=b, c=d"], false),
            ("user-agent", &["User-Agent: a (b, c)"], &["User-Agent: a (b,c)"], false),
        ];
        for (name, one, other, expected) in cases {
            let names = [name.parse().unwrap()];
            let verdict = same_variant(&names, &headers(one), &headers(other));
            assert_eq!(verdict, expected, "{one:?} {other:?}");
        }
    }
}
