//! `Vary` (RFC 9110, 12.5.5; RFC 9111, 4.1): the request fields that select among variants.
//!
//! Two requests select the same variant if the named fields are equal after [`normalised`], which
//! does what RFC 9111 (4.1) permits:
//!
//! * Lines are joined, and white space around the commas of a list is removed.
//! * In the fields of content negotiation (RFC 9110, 12.5) weights rank the members, and case and
//!   order mean nothing. Their members are converted to lower case and sorted.
//! * Fields whose commas do not separate list members are compared byte by byte.
//!
//! Too little normalisation costs a second copy; too much would serve the wrong variant.

use http::header::{
    self, ACCEPT, ACCEPT_CHARSET, ACCEPT_ENCODING, ACCEPT_LANGUAGE, HeaderMap, HeaderName,
    HeaderValue, VARY,
};

use crate::fields::assumed_vary;
use crate::fields::assumed_vary::ASSUMED;
use crate::fields::device_class::DeviceClass;
use crate::fields::ignored_fields::IgnoredFields;
use crate::fields::list;
use crate::fields::view::Fields;

/// The request fields that a response depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vary {
    /// No fields.
    None,
    /// These fields: sorted, without duplicates, in lower case.
    Names(Vec<HeaderName>),
    /// `*` or an invalid field name: the response depends on more than request fields.
    Star,
}

impl Vary {
    /// Parses the `Vary` of a response, unless it is ignored ([`ignored_fields`]). Includes what
    /// the response is assumed to depend on ([`assumed_vary`]).
    ///
    /// [`ignored_fields`]: crate::fields::ignored_fields
    /// [`assumed_vary`]: crate::fields::assumed_vary
    pub fn of(headers: &HeaderMap) -> Vary {
        match IgnoredFields::of(headers).in_place_of_vary() {
            Some(names) => Vary::of_members(names.chain(list::members(headers, &ASSUMED))),
            None => Vary::of_members(
                list::members(headers, &VARY).chain(list::members(headers, &ASSUMED)),
            ),
        }
    }

    fn of_members<'a>(members: impl Iterator<Item = &'a [u8]>) -> Vary {
        let mut names = Vec::new();
        for member in members {
            match HeaderName::from_bytes(member) {
                Ok(name) if member != b"*" => names.push(name),
                _ => return Vary::Star,
            }
        }
        sort_names(&mut names);
        if names.is_empty() { Vary::None } else { Vary::Names(names) }
    }

    /// Returns the field names; empty for [`Vary::None`] and [`Vary::Star`].
    pub fn names(&self) -> &[HeaderName] {
        match self {
            Vary::Names(names) => names,
            Vary::None | Vary::Star => &[],
        }
    }
}

/// Adds the members of the stored `Vary` that an update lacks to the `Vary` of the update. Does
/// nothing if the update has no `Vary`: the stored one then remains.
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

/// Sorts and deduplicates names, which is the order in variant keys.
pub(crate) fn sort_names(names: &mut Vec<HeaderName>) {
    names.sort_unstable_by(|left, right| left.as_str().cmp(right.as_str()));
    names.dedup();
}

/// Fields in which a comma does not separate members (RFC 9110, 5.5). They are compared unchanged.
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

/// Fields of content negotiation, in which case and order mean nothing. The parameters of media
/// types are an exception: they may be case-sensitive.
const NEGOTIATED: [HeaderName; 4] = [ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, ACCEPT_CHARSET];

/// Number of list members that are sorted without an allocation.
const FEW: usize = 16;

/// Returns the normalised value of one field of a request. `None` if the request lacks the field,
/// which differs from an empty value.
pub fn normalised(request: &impl Fields, name: &HeaderName) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    write_normalised(request, name.as_str(), &mut value).then_some(value)
}

/// Appends the value that [`normalised`] returns for the field `name`, which is in lower case, to
/// `out`. Returns whether the request has the field. If the field has one line with a list of usual
/// length, only growing `out` allocates.
pub(crate) fn write_normalised(request: &impl Fields, name: &str, out: &mut Vec<u8>) -> bool {
    if name == assumed_vary::DEVICE {
        out.extend_from_slice(DeviceClass::of(request).name().as_bytes());
        return true;
    }
    let mut lines = request.lines_named(name).map(list::trim);
    let Some(first) = lines.next() else { return false };
    let Some(second) = lines.next() else {
        write_joined(name, first, out);
        return true;
    };
    // Several lines of a field that is not a list differ from one line with commas.
    let between = if is_one_of(&SINGLETONS, name) { &b"\n"[..] } else { &b", "[..] };
    let lines: Vec<&[u8]> = [first, second].into_iter().chain(lines).collect();
    write_joined(name, &lines.join(between), out);
    true
}

fn is_one_of(names: &[HeaderName], name: &str) -> bool {
    names.iter().any(|known| known.as_str() == name)
}

/// Appends the normalised value of the field `name`, which is in lower case, to `out`. `joined` is
/// its trimmed and joined lines.
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

/// Writes the members of a negotiation field in normal form, sorted and deduplicated.
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

/// Writes a member of a negotiation field in normal form: `GZip ; q=1` becomes `gzip`. The type of
/// a media range becomes lower case, its parameters do not. A member with quotes is left unchanged,
/// since a quoted parameter value may contain a semicolon.
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

/// Returns whether a parameter is the weight 1, which is the default (RFC 9110, 12.4.2).
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
    fn an_update_adds_names_and_removes_none() {
        for (update, stored, expected) in [
            (
                &["Vary: b"][..],
                &["Vary: a, B", "Vary: c"][..],
                &["Vary: b", "Vary: a", "Vary: c"][..],
            ),
            (&["Vary: a"], &[], &["Vary: a"]),
            (&["A: b"], &["Vary: a"], &["A: b"]),
        ] {
            let mut widened = headers(update);
            widen(&mut widened, &headers(stored));
            assert_eq!(widened, headers(expected), "{update:?} {stored:?}");
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
