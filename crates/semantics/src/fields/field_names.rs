//! Removal of request fields whose names a program at the origin may confuse with others.
//!
//! CGI and its descendants (FastCGI, WSGI, PHP, Rack) pass a field as a variable and replace every
//! character of its name other than letters and digits by an underscore. `X_Forwarded_Host` and
//! `X-Forwarded-Host`, or `Accept_Encoding` and `Accept-Encoding`, become the same (RFC 3875,
//! 4.1.18). A cache that keys, removes or compares one of them and forwards the other would serve
//! all clients a response selected by a field it never examined. Fields whose names contain
//! anything but letters, digits and hyphens are therefore removed, unless the operator decides
//! otherwise. Names that a program may take for the length or coding of a body are always removed:
//! a server that trusts `Content_Length` finds requests in bodies.

use crate::fields::view::EditFields;
use crate::settings::usual_names::UsualNames;

/// The request field names that are forwarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldNames {
    /// Names of letters, digits and hyphens.
    #[default]
    Plain,
    /// Names of letters, digits, hyphens and underscores.
    Underscores,
    /// All that HTTP permits (RFC 9110, 5.1).
    Any,
}

impl FieldNames {
    /// Removes the request fields whose names are not permitted.
    pub fn enforce(self, request: &mut impl EditFields) {
        request.remove_in(UsualNames::NONE, |name| !self.permit(name));
    }

    fn permit(self, name: &str) -> bool {
        let is_fine = |byte: u8| {
            PLAIN[usize::from(byte)] || (byte == b'_' && self == FieldNames::Underscores)
        };
        !passes_for_framing(name) && (self == FieldNames::Any || name.bytes().all(is_fine))
    }
}

/// Bytes of plain names: letters, digits and hyphens.
static PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        plain[byte] = (byte as u8).is_ascii_alphanumeric() || byte as u8 == b'-';
        byte += 1;
    }
    plain
};

/// Fields that determine where a body ends (RFC 9112, 6).
const FRAMING: [&str; 2] = ["content-length", "transfer-encoding"];

/// Returns whether a CGI program takes this field for one that frames the body but has another
/// name.
fn passes_for_framing(name: &str) -> bool {
    let passes = |framing: &&str| {
        name.len() == framing.len()
            && !name.eq_ignore_ascii_case(framing)
            && as_variable(name).eq(framing.bytes())
    };
    FRAMING.iter().any(passes)
}

/// Maps a field name to the lower-case, hyphenated form that a CGI program cannot distinguish it
/// from.
pub(crate) fn as_variable(name: &str) -> impl Iterator<Item = u8> + '_ {
    let plain = |byte: u8| if byte.is_ascii_alphanumeric() { byte } else { b'-' };
    name.bytes().map(move |byte| plain(byte.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::headers;
    use crate::settings::usual_names::NAMES;

    #[test]
    fn names_are_let_through_by_their_bytes() {
        let left = |names: FieldNames| {
            let mut fields = headers(&["A-b9: 1", "A_b: 1", "A_b: 2", "A.b: 1", "A!b_c: 1"]);
            names.enforce(&mut fields);
            let mut left: Vec<String> = fields.keys().map(ToString::to_string).collect();
            left.sort_unstable();
            left.join(" ")
        };
        assert_eq!(left(FieldNames::Plain), "a-b9");
        assert_eq!(left(FieldNames::Underscores), "a-b9 a_b");
        assert_eq!(left(FieldNames::Any), "a!b_c a-b9 a.b a_b");
    }

    #[test]
    fn lookalikes_of_framing_fields_are_always_removed() {
        for names in [FieldNames::Plain, FieldNames::Underscores, FieldNames::Any] {
            let mut fields = headers(&[
                "Content_Length: 5",
                "CONTENT_length: 5",
                "Content.Length: 5",
                "Transfer_Encoding: chunked",
                "transfer~ENCODING: chunked",
                "Content-Length: 6",
                "Transfer-Encoding: chunked",
            ]);
            names.enforce(&mut fields);
            let expected = headers(&["Content-Length: 6", "Transfer-Encoding: chunked"]);
            assert_eq!(fields, expected, "{names:?}");
        }
    }

    #[test]
    fn usual_names_are_let_through() {
        assert!(NAMES.iter().all(|name| FieldNames::Plain.permit(name)));
    }

    #[test]
    fn a_variable_has_one_name() {
        for name in ["X-Real-IP", "x_real_ip", "X.Real~IP"] {
            assert!(as_variable(name).eq(*b"x-real-ip"), "{name}");
        }
    }
}
