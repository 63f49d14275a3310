//! Schemes of authentication that log in a connection, not a request: NTLM and Negotiate (RFC 4559,
//! 6), and their relatives. An origin takes every later request on such a connection for one of the
//! same user.
//!
//! Nothing here decodes a credential. What is doubtful counts as such a scheme: the price of a
//! false positive is one connection.

use http::{HeaderName, header};

use crate::fields::view::Fields;
use crate::settings::usual_names::UsualNames;

/// Beginnings of the names of these schemes: `Negotiate`, `Nego2`, `NegoExts` share one.
const SCHEMES: [&str; 3] = ["ntlm", "nego", "kerberos"];

const HAS_AUTHORIZATION: UsualNames = UsualNames::of(&["authorization"]);

/// Returns whether a request carries credentials that log in its connection.
pub fn has_credentials(request: &impl Fields) -> bool {
    (request.has_any(HAS_AUTHORIZATION) && names(request, &header::AUTHORIZATION))
        || names(request, &header::PROXY_AUTHORIZATION)
}

/// Returns whether an answer offers, or goes on with, a login of its connection.
pub fn has_challenge(answer: &impl Fields) -> bool {
    [header::WWW_AUTHENTICATE, header::PROXY_AUTHENTICATE].iter().any(|name| names(answer, name))
}

/// Returns whether a member of a field's lines begins with the name of a scheme. A comma within a
/// quoted string ends a member, too, so no quote can hide one.
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
