//! Request fields that can identify the client: cookies, credentials, and fields whose names
//! suggest a key, a token, a session or a user.
//!
//! An origin may use such a field to respond differently to each client without naming it in
//! `Vary`. A request with such a field is *identified*. Its response is shared only if the origin
//! or the operator permits it ([`crate::storability`], [`crate::reuse`]).

use crate::settings::name_filter::{NameParts, WholeNames, begins_with};
use crate::settings::pattern::Pattern;
use crate::settings::usual_names::UsualNames;

/// Words that make a field name identifying, in lower case.
const WORDS: [&str; 47] = [
    "assertion",
    "auth",
    "authenticated",
    "authentication",
    "authorization",
    "bearer",
    "behalf",
    "cart",
    "clientid",
    "credential",
    "credentials",
    "customer",
    "deviceid",
    "dn",
    "dpop",
    "email",
    "hmac",
    "identity",
    "impersonate",
    "jwt",
    "keyid",
    "keys",
    "login",
    "member",
    "oidc",
    "orgid",
    "otp",
    "pass",
    "passcode",
    "passwd",
    "password",
    "patient",
    "pin",
    "principal",
    "profile",
    "role",
    "roles",
    "saml",
    "sid",
    "sign",
    "signature",
    "sudo",
    "tenant",
    "ticket",
    "uid",
    "webauth",
    "wsse",
];

/// Prefixes of such words: `X-UserInfo`, `X-AccountNumber`.
const BEGINS: [&str; 7] = ["account", "cert", "cookie", "secret", "session", "token", "user"];

/// Suffixes of such words: `X-CSRFToken`, `ApiKey`.
const ENDS: [&str; 9] =
    ["account", "auth", "cert", "cookie", "key", "secret", "session", "token", "user"];

/// Words that identify before `id`: `X-Client-Id`.
const BEFORE_ID: [&str; 4] = ["client", "device", "org", "visitor"];

/// Names that match a word, but that browsers send with every request of some kind.
const EXEMPT: [&str; 3] = ["idempotency-key", "sec-fetch-user", "sec-websocket-key"];

/// The usual names that the built-in list includes.
const USUAL: UsualNames = UsualNames::of(&["authorization", "cookie"]);

/// The fields that identify the client of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentifyingFields {
    /// True if the built-in list applies.
    built_in: bool,
    /// Further names.
    named: Vec<Pattern>,
    /// The usual names that are included.
    usual: UsualNames,
}

impl Default for IdentifyingFields {
    fn default() -> IdentifyingFields {
        IdentifyingFields { built_in: true, named: Vec::new(), usual: USUAL }
    }
}

impl IdentifyingFields {
    /// The word that stands for the built-in list.
    pub const AUTO: &str = "auto";

    /// Parses a list of names in which `*` matches anything and [`IdentifyingFields::AUTO`] stands
    /// for the built-in list.
    pub fn new(names: &[String]) -> IdentifyingFields {
        let (auto, named): (Vec<&String>, _) = names.iter().partition(|name| *name == Self::AUTO);
        let built_in = !auto.is_empty();
        let named: Vec<_> = named.into_iter().map(|name| Pattern::ignoring_case(name)).collect();
        let usual = UsualNames::all_in(|name| {
            (built_in && USUAL.has_or(name, |_| false)) || is_named(&named, name)
        });
        IdentifyingFields { built_in, named, usual }
    }

    /// Returns whether a field of this name identifies a client. Case does not matter.
    pub fn includes(&self, name: &str) -> bool {
        self.usual.has_or(name, |name| self.includes_unusual(name))
    }

    /// Returns the usual names of fields that identify a client.
    pub(crate) fn usual(&self) -> UsualNames {
        self.usual
    }

    /// Returns whether a field of this name, which must not be a usual one, identifies a client.
    pub(crate) fn includes_unusual(&self, name: &str) -> bool {
        (self.built_in && is_identifying(name)) || is_named(&self.named, name)
    }
}

fn is_named(named: &[Pattern], name: &str) -> bool {
    named.iter().any(|pattern| pattern.matches(name.as_bytes()))
}

static WORD_FILTER: WholeNames = WholeNames::of(&WORDS);
static BEGIN_FILTER: NameParts = NameParts::of_beginnings(&BEGINS);
static END_FILTER: NameParts = NameParts::of_ends(&ENDS);

/// Returns whether the built-in list includes a name: it contains an identifying word, does not
/// name a user agent, and is not exempt.
fn is_identifying(name: &str) -> bool {
    let separates = |byte: &u8| matches!(byte, b'-' | b'_' | b'.');
    let mut words = name.as_bytes().split(separates).peekable();
    let mut found = false;
    while let Some(word) = words.next() {
        if BEGIN_FILTER.may_begin(word) && BEGINS.iter().any(|begin| begins_with(word, begin)) {
            let is_agent = |next: &&[u8]| next.eq_ignore_ascii_case(b"agent");
            if word.eq_ignore_ascii_case(b"useragent")
                || (word.eq_ignore_ascii_case(b"user") && words.peek().is_some_and(is_agent))
            {
                return false;
            }
            found = true;
        }
        let is_id = |next: &&[u8]| next.eq_ignore_ascii_case(b"id");
        found = found
            || (words.peek().is_some_and(is_id)
                && BEFORE_ID.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes())))
            || (END_FILTER.may_end(word) && ENDS.iter().any(|end| ends_with(word, end)))
            || (WORD_FILTER.may_have(word)
                && WORDS.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes())));
    }
    found && !EXEMPT.iter().any(|exempt| name.eq_ignore_ascii_case(exempt))
}

fn ends_with(word: &[u8], end: &str) -> bool {
    let tail = word.len().checked_sub(end.len()).map(|from| &word[from..]);
    tail.is_some_and(|tail| tail.eq_ignore_ascii_case(end.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_keys_tokens_sessions_and_users_identify() {
        let fields = IdentifyingFields::default();
        for name in [
            "Cookie",
            "Authorization",
            "X-API-Key",
            "apikey",
            "X-Auth-Token",
            "PRIVATE-TOKEN",
            "Job-Token",
            "X-CSRFToken",
            "X-Session",
            "X-Session-ID",
            "X_User_Id",
            "X-User",
            "X-Remote-User",
            "X-Forwarded-Email",
            "X-Amz-Security-Token",
            "X-Goog-Iap-Jwt-Assertion",
            "X-Amzn-Oidc-Data",
            "X-MS-Client-Principal-Name",
            "Ocp-Apim-Subscription-Key",
            "Client-Cert",
            "SSL-Client-S-DN",
            "DPoP",
            "X-UserInfo",
            "X-AccountNumber",
            "X-Tokens",
            "X-KeyId",
            "X-SessionGuid",
            "X-ClientSecret",
            "X-Certificates",
            "X-Client-Id",
            "Client-ID",
            "X-Scope-OrgID",
            "X-On-Behalf-Of",
            "X-WSSE",
        ] {
            assert!(fields.includes(name), "{name}");
            assert!(fields.includes(&name.to_ascii_lowercase()), "{name}");
        }
        for name in [
            "Host",
            "User-Agent",
            "X-Original-User-Agent",
            "X-UserAgent",
            "Accept",
            "Accept-Language",
            "Sec-Fetch-User",
            "Sec-CH-UA",
            "Sec-WebSocket-Key",
            "Upgrade-Insecure-Requests",
            "X-Requested-With",
            "X-Request-ID",
            "If-None-Match",
            "Keyboard",
            "Traceparent",
            "Origin",
            "Referer",
            "Test-ID",
            "X-Client-Version",
        ] {
            assert!(!fields.includes(name), "{name}");
        }
    }

    #[test]
    fn usual_names_are_judged_as_their_words_say() {
        assert_eq!(UsualNames::all_in(is_identifying), USUAL);
    }

    #[test]
    fn a_list_replaces_the_built_in_one_unless_it_names_it() {
        let list = |names: &[&str]| {
            IdentifyingFields::new(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        let own = list(&["X-Club-*"]);
        assert!(own.includes("x-club-number") && !own.includes("cookie"));
        let usual = list(&["X-Request-*"]);
        assert!(usual.includes("X-Request-ID") && !usual.includes("authorization"));
        let both = list(&["auto", "X-Club-*"]);
        assert!(both.includes("X-Club-Number") && both.includes("cookie"));
        assert!(!list(&[]).includes("cookie"));
    }
}
