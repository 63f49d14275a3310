//! Client, scheme and host of a request before it reached a proxy: `Forwarded` (RFC 7239) and the
//! older `X-Forwarded-For`, `-Proto` and `-Host`.
//!
//! An origin behind a reverse proxy trusts these fields, so they must not come from an untrusted
//! client ([`claims`](crate::fields::claims)): a client could claim any address, and
//! `X-Forwarded-Host` has poisoned many caches. Values from a trusted proxy are kept if the fields
//! are trusted ([`trusted`](crate::fields::trusted)), and this hop appends its own. By default a
//! forward proxy reveals nothing about its clients.

use std::borrow::Cow;
use std::net::IpAddr;
use std::str::FromStr;

use http::header::{FORWARDED, HeaderName, HeaderValue};

use crate::fields::list::{is_token, is_token_byte};
use crate::fields::value;
use crate::fields::vary::Vary;
use crate::fields::view::{EditFields, Fields};
use crate::settings::usual_names::{UsualName, UsualNames};

/// `X-Forwarded-For`.
pub static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// `X-Forwarded-Proto`.
pub const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
pub(crate) static X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

const OF_HOPS: UsualName = UsualName::known("forwarded");
const PROTO: UsualName = UsualName::known("x-forwarded-proto");

const HAS_FORWARDED: UsualNames = UsualNames::of(&["forwarded"]);
const HAS_PROTO: UsualNames = UsualNames::of(&["forwarded", "x-forwarded-proto"]);

/// A field that the proxy can add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `Forwarded: for=192.0.2.1;host=a.example;proto=http`
    Forwarded,
    /// `X-Forwarded-For: 192.0.2.1`
    For,
    /// `X-Forwarded-Proto: http`
    Proto,
    /// `X-Forwarded-Host: a.example`
    Host,
}

impl Field {
    /// All fields with their names in lower case.
    pub const NAMES: [(&'static str, Field); 4] = [
        ("forwarded", Field::Forwarded),
        ("x-forwarded-for", Field::For),
        ("x-forwarded-proto", Field::Proto),
        ("x-forwarded-host", Field::Host),
    ];
}

impl FromStr for Field {
    type Err = String;

    fn from_str(name: &str) -> Result<Field, String> {
        let found = Self::NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, field)| *field).ok_or_else(|| {
            format!(
                "{name:?} carries no client \
                                                              information"
            )
        })
    }
}

/// Facts about the request that this hop knows.
#[derive(Clone, Copy, Debug)]
pub struct Hop<'a> {
    /// Address of the peer.
    pub client: IpAddr,
    /// `host[:port]` as sent by the client; empty if the client sent none.
    pub host: &'a str,
    /// The scheme that the client used.
    pub proto: &'static str,
}

/// Returns whether a response varies on what these fields say about the client itself. Such a
/// response is for that client alone: no other request can show that it would get the same one.
pub fn tells_clients_apart(fields: &[Field], vary: &Vary) -> bool {
    fields.iter().any(|field| match field {
        Field::For => vary.names().contains(&X_FORWARDED_FOR),
        Field::Forwarded => vary.names().contains(&FORWARDED),
        // In reverse proxy requests these are part of the key.
        Field::Proto | Field::Host => false,
    })
}

/// Adds `fields` to a request. Addresses are appended to existing ones. An existing scheme or host
/// is kept, since the first proxy knows what the client used.
pub fn add(request: &mut impl EditFields, hop: &Hop<'_>, fields: &[Field]) {
    for field in fields {
        match field {
            Field::For => append(request, &X_FORWARDED_FOR, value::of_address(hop.client)),
            Field::Forwarded => append(request, &FORWARDED, value::of(element(hop))),
            Field::Proto if request.has(&X_FORWARDED_PROTO) => {}
            Field::Proto => {
                request.set_line(&X_FORWARDED_PROTO, &HeaderValue::from_static(hop.proto));
            }
            Field::Host if hop.host.is_empty() || request.has(&X_FORWARDED_HOST) => {}
            Field::Host => {
                if let Ok(host) = HeaderValue::from_str(hop.host) {
                    request.set_line(&X_FORWARDED_HOST, &host);
                }
            }
        }
    }
}

/// Returns the scheme that the client used at the first proxy, as the request claims: `proto` in
/// the first element of `Forwarded`, otherwise the first `X-Forwarded-Proto`. Call it only for
/// requests from a trusted proxy.
pub fn claimed_proto(request: &impl Fields) -> Option<Cow<'_, str>> {
    if !request.has_any(HAS_PROTO) {
        return None;
    }
    if let Some(elements) = joined(request.lines_of(OF_HOPS)).and_then(|text| elements(&text)) {
        let mut first = elements.into_iter().next().into_iter().flatten();
        if let Some((_, value)) = first.find(|(name, _)| name == "proto") {
            return Some(Cow::Owned(value));
        }
    }
    match joined(request.lines_of(PROTO))? {
        Cow::Borrowed(text) => Some(Cow::Borrowed(first_member(text))),
        Cow::Owned(text) => Some(Cow::Owned(first_member(&text).to_owned())),
    }
}

fn first_member(text: &str) -> &str {
    let end = text.bytes().position(|byte| byte == b',');
    end.map_or(text, |end| text[..end].trim_ascii_end())
}

/// Rewrites the `Forwarded` of a trusted proxy so that it has only one host and one scheme, those
/// of the first element. The first proxy knows what the client used, and an application that reads
/// another element would see a value that is not in the key. Further elements keep their addresses
/// (`for`, `by`). Removes the field if it violates RFC 7239. Returns the host in lower case.
pub fn tidy_forwarded(request: &mut impl EditFields) -> Option<String> {
    if !request.has_any(HAS_FORWARDED) {
        return None;
    }
    let elements = joined(request.lines_of(OF_HOPS)).and_then(|text| elements(&text));
    request.remove_lines(&FORWARDED);
    let (mut host, mut text) = (None, String::new());
    for (number, pairs) in elements?.into_iter().enumerate() {
        let mut separator = if text.is_empty() { "" } else { ", " };
        for (name, mut value) in pairs {
            value = match (name.as_str(), number) {
                ("for" | "by", _) => value,
                ("host", 0) if is_host(&value) => value.to_ascii_lowercase(),
                ("proto", 0) if is_token(value.as_bytes()) => value,
                _ => continue,
            };
            text.push_str(separator);
            push_pair(&mut text, &name, &value);
            separator = ";";
            if name == "host" {
                host = Some(value);
            }
        }
    }
    if let Ok(value) = HeaderValue::try_from(text)
        && !value.is_empty()
    {
        request.set_line(&FORWARDED, &value);
    }
    host
}

/// Parses a `Forwarded` value into elements, each a list of pairs of lower-case name and value
/// (RFC 7239, 4). Returns `None` if it is malformed or a name occurs twice in an element.
fn elements(text: &str) -> Option<Vec<Vec<(String, String)>>> {
    let mut elements = vec![Vec::new()];
    let mut rest = text;
    while !rest.is_empty() {
        let (name, behind) = rest.split_once('=').filter(|(name, _)| is_token(name.as_bytes()))?;
        let name = name.to_ascii_lowercase();
        let (value, behind) = split_value(behind)?;
        let element: &mut Vec<(String, String)> = elements.last_mut()?;
        if element.iter().any(|(known, _)| *known == name) {
            return None;
        }
        element.push((name, value));
        let behind = behind.trim_start_matches(BLANKS);
        rest = match behind.strip_prefix([',', ';']) {
            Some(next) => next.trim_start_matches(BLANKS),
            None if behind.is_empty() => "",
            None => return None,
        };
        if behind.starts_with(',') {
            elements.push(Vec::new());
        }
    }
    Some(elements)
}

const BLANKS: [char; 2] = [' ', '\t'];

/// Splits a token or a quoted string, whose quotes are removed, from the text after it.
fn split_value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end =
            text.find(|c: char| !u8::try_from(c).is_ok_and(is_token_byte)).unwrap_or(text.len());
        return (end > 0).then(|| (text[..end].to_owned(), &text[end..]));
    };
    let (mut value, mut characters) = (String::new(), quoted.char_indices());
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            other => value.push(other),
        }
    }
    None
}

/// Formats this hop as a forwarded-element (RFC 7239, 4).
fn element(hop: &Hop<'_>) -> String {
    let mut text = String::new();
    match hop.client.to_canonical() {
        IpAddr::V4(address) => push_pair(&mut text, "for", &address.to_string()),
        IpAddr::V6(address) => push_pair(&mut text, "for", &format!("[{address}]")),
    }
    if !hop.host.is_empty() {
        text.push(';');
        push_pair(&mut text, "host", hop.host);
    }
    text.push_str(";proto=");
    text.push_str(hop.proto);
    text
}

/// Appends `name=value`. A value that is not a token, such as an IPv6 address or a host with a
/// port, is quoted (RFC 7239, 6).
fn push_pair(text: &mut String, name: &str, value: &str) {
    text.push_str(name);
    text.push('=');
    if is_token(value.as_bytes()) {
        text.push_str(value);
        return;
    }
    text.push('"');
    for character in value.chars() {
        if matches!(character, '"' | '\\') {
            text.push('\\');
        }
        text.push(character);
    }
    text.push('"');
}

/// Returns whether `text` contains only characters of `host[:port]`.
pub(crate) fn is_host(text: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    !text.is_empty() && text.bytes().all(fine)
}

/// Returns the lines of a field joined into one; `None` if there is none, or one is not plain text.
pub(crate) fn joined<'a>(mut lines: impl Iterator<Item = &'a [u8]>) -> Option<Cow<'a, str>> {
    let first = value::text(lines.next()?)?;
    let Some(second) = lines.next() else {
        return Some(Cow::Borrowed(first.trim_ascii()));
    };
    let mut whole = first.to_owned();
    for line in std::iter::once(second).chain(lines) {
        whole.push_str(", ");
        whole.push_str(value::text(line)?);
    }
    Some(Cow::Owned(whole.trim_ascii().to_owned()))
}

/// Joins the existing lines and `value` into one line, because many origins read only one.
fn append(request: &mut impl EditFields, name: &HeaderName, value: Option<HeaderValue>) {
    let Some(value) = value else { return };
    if !request.has(name) {
        request.set_line(name, &value);
        return;
    }
    let mut all: Vec<u8> = Vec::with_capacity(value.len());
    for line in request.lines(name) {
        all.extend_from_slice(line);
        all.extend_from_slice(b", ");
    }
    all.extend_from_slice(value.as_bytes());
    if let Ok(value) = HeaderValue::from_bytes(&all) {
        request.set_line(name, &value);
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::fixture::headers;

    const ALL: [Field; 4] = [Field::Forwarded, Field::For, Field::Proto, Field::Host];

    fn told(before: &[&str], client: &str, host: &str) -> HeaderMap {
        let mut request = headers(before);
        let client = client.parse().unwrap();
        add(&mut request, &Hop { client, host, proto: "http" }, &ALL);
        request
    }

    #[test]
    fn an_answer_that_varies_with_the_address_is_for_one_client() {
        let varies = |line: &str| tells_clients_apart(&ALL[..2], &Vary::of(&headers(&[line])));
        assert!(varies("Vary: Accept, X-Forwarded-For") && varies("Vary: Forwarded"));
        assert!(!varies("Vary: X-Forwarded-Proto") && !varies("Vary: Accept"));
        let vary = Vary::of(&headers(&["Vary: X-Forwarded-For"]));
        assert!(!tells_clients_apart(&[Field::Proto], &vary));
    }

    #[test]
    fn a_hop_is_told_in_every_field() {
        let expected = headers(&[
            "Forwarded: for=192.0.2.1;host=a.example;proto=http",
            "X-Forwarded-For: 192.0.2.1",
            "X-Forwarded-Proto: http",
            "X-Forwarded-Host: a.example",
        ]);
        assert_eq!(told(&[], "192.0.2.1", "a.example"), expected);
        assert_eq!(told(&[], "::ffff:192.0.2.1", "a.example"), expected);
        let six = told(&[], "2001:db8::1", "a.example:81");
        assert_eq!(six["forwarded"], "for=\"[2001:db8::1]\";host=\"a.example:81\";proto=http");
        assert_eq!(six["x-forwarded-for"], "2001:db8::1");
        assert!(!told(&[], "192.0.2.1", "").contains_key("x-forwarded-host"));
    }

    #[test]
    fn ours_goes_behind_what_a_trusted_proxy_wrote() {
        let before = [
            "Forwarded: for=198.51.100.7",
            "X-Forwarded-For: 198.51.100.7",
            "X-Forwarded-For: 198.51.100.8",
            "X-Forwarded-Proto: https",
        ];
        let after = told(&before, "192.0.2.1", "a.example");
        let (chain, list) = (&after["forwarded"], &after["x-forwarded-for"]);
        assert_eq!(chain, "for=198.51.100.7, for=192.0.2.1;host=a.example;proto=http");
        assert_eq!(list, "198.51.100.7, 198.51.100.8, 192.0.2.1");
        assert_eq!(after["x-forwarded-proto"], "https");
        assert_eq!(after.get_all("x-forwarded-for").iter().count(), 1);
    }

    #[test]
    fn the_first_proxy_says_which_scheme_was_used() {
        let claimed =
            |lines: &[&str]| claimed_proto(&headers(lines)).map(std::borrow::Cow::into_owned);
        assert_eq!(claimed(&["x-forwarded-proto: https"]).as_deref(), Some("https"));
        assert_eq!(claimed(&["x-forwarded-proto: https, http"]).as_deref(), Some("https"));
        let lines = ["x-forwarded-proto: https", "x-forwarded-proto: http"];
        assert_eq!(claimed(&lines).as_deref(), Some("https"));
        assert_eq!(claimed(&["x-forwarded-proto: https", "x-forwarded-proto: \u{e9}"]), None);
        let both = ["x-forwarded-proto: http", "forwarded: for=a;Proto=\"https\", proto=http"];
        assert_eq!(claimed(&both).as_deref(), Some("https"));
        let other = ["forwarded: for=192.0.2.1", "x-forwarded-proto: https"];
        assert_eq!(claimed(&other).as_deref(), Some("https"));
        assert_eq!(claimed(&[]), None);
    }

    #[test]
    fn a_forwarded_of_a_trusted_proxy_has_one_meaning() {
        let tidied = |line: &str| {
            let mut request = headers(&[&format!("Forwarded: {line}")]);
            let host = tidy_forwarded(&mut request);
            let left = request.get(FORWARDED).map(|value| value.to_str().unwrap().to_owned());
            (left.unwrap_or_default(), host.unwrap_or_default())
        };
        for (line, left, host) in [
            ("for=1;HOST=A.example;proto=https", "for=1;host=a.example;proto=https", "a.example"),
            ("host=\"a:81\" , for=2;host=b;proto=http", "host=\"a:81\", for=2", "a:81"),
            ("for=\"x;host=e\\\"\";host=a;secret=1", "for=\"x;host=e\\\"\";host=a", "a"),
            ("secret=1, for=\"[::1]\"", "for=\"[::1]\"", ""),
            ("host=\"a<b\";for=1", "for=1", ""),
            ("host=a;host=b", "", ""),
            ("host=a b", "", ""),
            ("host=\"a", "", ""),
            ("host", "", ""),
            ("", "", ""),
        ] {
            assert_eq!(tidied(line), (left.to_owned(), host.to_owned()), "{line}");
        }
    }
}
