//! Detection of authentication schemes that log in a connection rather than a request: NTLM,
//! Negotiate (RFC 4559, 6) and related schemes. An origin attributes every later request on such a
//! connection to the same user.
//!
//! Credentials are not decoded. Doubtful cases count as such a scheme: a false positive costs one
//! connection.

use http::{HeaderName, header};

use crate::fields::view::Fields;
use crate::settings::usual_names::UsualNames;

/// Prefixes of the scheme names; `Negotiate`, `Nego2` and `NegoExts` share one.
const SCHEMES: [&str; 3] = ["ntlm", "nego", "kerberos"];

const HAS_AUTHORIZATION: UsualNames = UsualNames::of(&["authorization"]);

/// Returns whether a request carries credentials that log in its connection.
pub fn has_credentials(request: &impl Fields) -> bool {
    (request.has_any(HAS_AUTHORIZATION) && names(request, &header::AUTHORIZATION))
        || names(request, &header::PROXY_AUTHORIZATION)
}

/// Returns whether a response offers or continues a login of its connection.
pub fn has_challenge(answer: &impl Fields) -> bool {
    [header::WWW_AUTHENTICATE, header::PROXY_AUTHENTICATE].iter().any(|name| names(answer, name))
}

/// Returns whether any member of a field begins with a scheme name. Commas inside quoted strings
/// also separate members, so a quote cannot hide one.
fn names(fields: &impl Fields, name: &HeaderName) -> bool {
    let mut members = fields.lines(name).flat_map(|line| line.split(|byte| *byte == b','));
    members.any(|member| {
        let member = member.trim_ascii_start();
        SCHEMES.iter().any(|scheme| {
            let begin = member.get(..scheme.len());
            begin.is_some_and(|begin| begin.eq_ignore_ascii_case(scheme.as_bytes()))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::headers;

    #[test]
    fn schemes_are_found_wherever_they_stand() {
        for line in [
            "NTLM",
            "ntlm TlRMTVNTUAAB",
            "Negotiate YII=",
            "Nego2 x",
            "Kerberos x",
            "Basic realm=\"a\", Negotiate, NTLM",
            "Basic realm=\"a, \\\"b\",NTLM TlRM",
            "Bearer,\tNEGOTIATE",
        ] {
            for name in ["WWW-Authenticate", "Proxy-Authenticate"] {
                assert!(has_challenge(&headers(&[&format!("{name}: {line}")])), "{name}: {line}");
            }
            for name in ["Authorization", "Proxy-Authorization"] {
                assert!(has_credentials(&headers(&[&format!("{name}: {line}")])), "{name}: {line}");
            }
        }
        assert!(has_challenge(&headers(&["WWW-Authenticate: Basic", "WWW-Authenticate: NTLM"])));
    }

    #[test]
    fn other_schemes_are_of_requests() {
        for line in ["", "Basic bnRsbQ==", "Bearer ntlm", "Digest realm=\"ntlm\"", "NT LM"] {
            assert!(!has_credentials(&headers(&[&format!("Authorization: {line}")])), "{line}");
            assert!(!has_challenge(&headers(&[&format!("WWW-Authenticate: {line}")])), "{line}");
        }
        assert!(!has_credentials(&headers(&["WWW-Authenticate: NTLM"])));
        assert!(!has_challenge(&headers(&["Authorization: NTLM"])));
    }
}
