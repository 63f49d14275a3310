//! `Vary` (RFC 9110, 12.5.5; RFC 9111, 4.1): which request fields choose among variants.
//!
//! Two requests select the same variant when the named fields are equal after [`normalised`]: lines
//! joined, white space around list commas removed, and for fields whose members are defined as
//! case-insensitive, lower case. Order is kept: it may mean preference. Too little normalisation
//! costs a second copy, too much would serve the wrong one.

use http::header::{
    ACCEPT_CHARSET, ACCEPT_ENCODING, ACCEPT_LANGUAGE, HeaderMap, HeaderName, HeaderValue, VARY,
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
    let joined = lines.map(HeaderValue::as_bytes).collect::<Vec<_>>().join(&b","[..]);
    let mut value = list::split(&joined).collect::<Vec<_>>().join(&b","[..]);
    if [ACCEPT_ENCODING, ACCEPT_LANGUAGE, ACCEPT_CHARSET].contains(name) {
        value.retain(|byte| !matches!(byte, b' ' | b'\t'));
        value.make_ascii_lowercase();
    }
    Some(value)
}

/// Whether two requests select the same variant among responses that vary on `names`.
pub fn same_variant(names: &[HeaderName], one: &HeaderMap, other: &HeaderMap) -> bool {
    names.iter().all(|name| normalised(one, name) == normalised(other, name))
}
