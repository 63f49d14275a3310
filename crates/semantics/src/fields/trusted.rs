//! Claims that are accepted from a trusted proxy: the operator's list of them, and their normal
//! form, which the cache and the origin interpret in the same way.
//!
//! Every accepted claim other than an address or a user (a host, a port, a path) is part of the key
//! ([`TrustedFields::key_names`]). The scheme is not listed there because the URL contains it.

use std::borrow::Cow;
use std::str::FromStr;

use http::header::{FORWARDED, HeaderName, HeaderValue};

use crate::fields::claims;
use crate::fields::forwarded;
use crate::fields::forwarded::{X_FORWARDED_HOST, X_FORWARDED_PROTO};
use crate::fields::view::{EditFields, Fields, only_line};
use crate::settings::name_filter::begins_with;
use crate::settings::usual_names::UsualNames;

/// A field that is accepted from a trusted proxy, or a family of fields that name users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustedField {
    /// The field of this name.
    Name(HeaderName),
    /// All fields whose names begin with this text, which is in lower case.
    Family(String),
}

impl FromStr for TrustedField {
    type Err = ();

    /// Parses the name of a claim, or a prefix of user claims followed by `*`. Families of other
    /// claims are not accepted, since the key needs the names of all fields in it.
    fn from_str(text: &str) -> Result<TrustedField, ()> {
        let text = text.to_ascii_lowercase();
        match text.strip_suffix('*') {
            Some(begin) if claims::names_user(begin) => Ok(TrustedField::Family(begin.to_owned())),
            Some(_) => Err(()),
            None if claims::is_claim(&text) => {
                text.parse().map(TrustedField::Name).map_err(|_invalid| ())
            }
            None => Err(()),
        }
    }
}

impl TrustedField {
    /// Returns whether this includes a field of this name. Case does not matter.
    fn is(&self, name: &str) -> bool {
        match self {
            TrustedField::Name(known) => known == name,
            TrustedField::Family(begin) => begins_with(name.as_bytes(), begin),
        }
    }

    /// Returns the field that becomes part of every key if this one is accepted.
    fn key_name(&self) -> Option<&HeaderName> {
        match self {
            TrustedField::Name(name) if *name == X_FORWARDED_PROTO => None,
            TrustedField::Name(name) if *name == FORWARDED => Some(&X_FORWARDED_HOST),
            TrustedField::Name(name) => {
                let name_text = name.as_str();
                let is_of_client =
                    claims::names_address(name_text) || claims::names_user(name_text);
                (!is_of_client).then_some(name)
            }
            TrustedField::Family(_) => None,
        }
    }
}

/// The fields that are accepted from trusted proxies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedFields {
    list: Vec<TrustedField>,
    /// The usual names among them.
    usual: UsualNames,
    /// The fields that are part of every key because of them, without duplicates.
    key_names: Vec<HeaderName>,
}

impl From<Vec<TrustedField>> for TrustedFields {
    fn from(list: Vec<TrustedField>) -> TrustedFields {
        let mut key_names: Vec<HeaderName> = Vec::new();
        for name in list.iter().filter_map(TrustedField::key_name) {
            if !key_names.contains(name) {
                key_names.push(name.clone());
            }
        }
        let usual = UsualNames::all_in(|name| list.iter().any(|field| field.is(name)));
        TrustedFields { list, usual, key_names }
    }
}

impl Default for TrustedFields {
    /// Returns the fields that are accepted by default.
    fn default() -> TrustedFields {
        let names = [HeaderName::from_static("x-forwarded-for"), X_FORWARDED_PROTO];
        Vec::from(names.map(TrustedField::Name)).into()
    }
}

impl TrustedFields {
    /// Removes all claims that are not accepted from the request of a trusted proxy and normalises
    /// those in the key to one line each, with hosts in lower case. Invalid hosts and ports are
    /// removed. The host in `Forwarded` is copied to `X-Forwarded-Host`, which is in the key.
    pub fn settle(&self, request: &mut impl EditFields) {
        let unusual = |name: &str| self.list.iter().any(|field| field.is(name));
        claims::remove_claims(request, self.usual, unusual);
        if let Some(host) = forwarded::tidy_forwarded(request).map(HeaderValue::try_from) {
            host.into_iter().for_each(|host| request.set_line(&X_FORWARDED_HOST, &host));
        }
        for name in &self.key_names {
            match settled(request, name) {
                Settled::AsItIs => {}
                Settled::Believed(value) => request.set_line(name, &value),
                Settled::NotBelieved => drop(request.remove_lines(name)),
            }
        }
    }

    /// Returns the fields that are part of every key because of these.
    pub fn key_names(&self) -> &[HeaderName] {
        &self.key_names
    }
}

/// The result of normalising a field.
enum Settled {
    /// The field is absent or already in normal form.
    AsItIs,
    /// Replace the lines of the field with this value.
    Believed(HeaderValue),
    NotBelieved,
}

fn settled(request: &impl Fields, name: &HeaderName) -> Settled {
    if !request.has(name) {
        return Settled::AsItIs;
    }
    let Some(value) =
        forwarded::joined(request.lines(name)).and_then(|value| one_form(name, value))
    else {
        return Settled::NotBelieved;
    };
    if only_line(request, name) == Some(value.as_bytes()) {
        return Settled::AsItIs;
    }
    HeaderValue::from_str(&value).map_or(Settled::NotBelieved, Settled::Believed)
}

/// Returns the normal form of a value; `None` if the value is invalid.
fn one_form<'a>(name: &HeaderName, value: Cow<'a, str>) -> Option<Cow<'a, str>> {
    let all = |fine: fn(&str) -> bool| value.split(',').all(|member| fine(member.trim()));
    let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match name.as_str() {
        "x-forwarded-host" if !all(forwarded::is_host) => None,
        "x-forwarded-host" if value.bytes().any(|byte| byte.is_ascii_uppercase()) => {
            Some(Cow::Owned(value.to_ascii_lowercase()))
        }
        "x-forwarded-port" if !all(is_port) => None,
        _ => (!value.is_empty()).then_some(value),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::fixture::headers;

    fn list(names: &[&str]) -> TrustedFields {
        names.iter().map(|name| name.parse().unwrap()).collect::<Vec<TrustedField>>().into()
    }

    fn settled(trusted: &[&str], lines: &[&str]) -> HeaderMap {
        let mut request = headers(lines);
        list(trusted).settle(&mut request);
        request
    }

    #[test]
    fn claims_and_families_of_users_can_be_trusted() {
        let names =
            ["X-Forwarded-Host", "forwarded", "X-Real-IP", "X-Auth-Request-*", "ssl-client*"];
        for name in names {
            assert!(name.parse::<TrustedField>().is_ok(), "{name}");
        }
        for name in ["X-Request-ID", "Host", "X-Forwarded-*", "*", "", "a b", "X-SSL-*"] {
            assert!(name.parse::<TrustedField>().is_err(), "{name}");
        }
    }

    #[test]
    fn only_what_is_trusted_is_kept() {
        let lines = ["X-Forwarded-For: 1", "X-Forwarded-Host: a", "X-Auth-Request-User: u", "A: b"];
        assert_eq!(settled(&["X-Forwarded-For"], &lines), headers(&[lines[0], lines[3]]));
        let users = settled(&["X-Auth-Request-*"], &lines);
        assert_eq!(users, headers(&[lines[2], lines[3]]));
        let other = ["X_Forwarded_Host: e", "X-Forwarded-Host: a"];
        assert_eq!(settled(&["X-Forwarded-Host"], &other), headers(&[other[1]]));
    }

    #[test]
    fn accepted_claims_are_normalised() {
        for (name, lines, expected) in [
            ("X-Forwarded-Host", &["A.example:81", "b"][..], Some("a.example:81, b")),
            ("X-Forwarded-Host", &["a\"><script>"], None),
            ("X-Forwarded-Host", &["a,"], None),
            ("X-Forwarded-Host", &["a/b"], None),
            ("X-Forwarded-Port", &["443"], Some("443")),
            ("X-Forwarded-Port", &["443x"], None),
            ("X-Forwarded-Port", &["\u{fc}"], None),
            ("X-Forwarded-Prefix", &["/A", "/b"], Some("/A, /b")),
        ] {
            let lines: Vec<_> = lines.iter().map(|value| format!("{name}: {value}")).collect();
            let lines: Vec<_> = lines.iter().map(String::as_str).collect();
            let request = settled(&[name], &lines);
            let found: Vec<_> = request.get_all(name).iter().collect();
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{lines:?}");
        }
    }

    #[test]
    fn a_host_in_forwarded_is_told_in_the_field_of_the_key() {
        let lines = ["Forwarded: for=1;host=A.example", "X-Forwarded-Host: other"];
        for trusted in [&["Forwarded"][..], &["Forwarded", "X-Forwarded-Host"]] {
            assert_eq!(settled(trusted, &lines)["x-forwarded-host"], "a.example");
        }
        assert!(!settled(&["X-Forwarded-For"], &lines).contains_key("x-forwarded-host"));
    }

    #[test]
    fn the_key_has_all_that_is_no_address_and_no_user() {
        let names = |trusted: &[&str]| -> Vec<String> {
            list(trusted).key_names().iter().map(HeaderName::to_string).collect()
        };
        assert!(TrustedFields::default().key_names().is_empty());
        let of_clients = ["X-Real-IP", "X-Remote-User", "X-Auth-Request-*", "Client-Cert"];
        assert!(names(&of_clients).is_empty());
        assert_eq!(names(&["Forwarded", "X-Forwarded-Host"]), ["x-forwarded-host"]);
        let others = ["X-Forwarded-Port", "X-Forwarded-Ssl", "X-Original-URL", "CF-IPCountry"];
        assert_eq!(names(&others), others.map(str::to_ascii_lowercase));
    }
}
