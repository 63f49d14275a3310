//! Framing and connection fields that requests and responses read in the same way.

use http::Version;
use semantics::UsualName;

use crate::error::Malformed;
use crate::fields::Fields;

const CONNECTION: UsualName = UsualName::known("connection");
pub(crate) const CONTENT_LENGTH: UsualName = UsualName::known("content-length");
const TRANSFER_ENCODING: UsualName = UsualName::known("transfer-encoding");

/// Returns the last transfer coding (RFC 9112, 6.1); `None` without the field.
///
/// # Errors
///
/// The field contains non-ASCII bytes: some parsers ignore such a line.
pub(crate) fn last_coding(fields: &Fields) -> Result<Option<&[u8]>, Malformed> {
    let mut last = None;
    for line in fields.all_of(TRANSFER_ENCODING) {
        if !line.is_ascii() {
            return Err(Malformed("its transfer codings are not ASCII"));
        }
        last = line.rsplit(|byte| *byte == b',').next().map(<[u8]>::trim_ascii);
    }
    Ok(last)
}

pub(crate) fn is_chunked(coding: &[u8]) -> bool {
    coding.eq_ignore_ascii_case(b"chunked")
}

/// Parses the digits of a `Content-Length` (RFC 9110, 8.6).
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        number.checked_mul(10)?.checked_add(digit.into())
    })
}

/// Returns whether the connection stays open (RFC 9112, 9.3). A `close` in any line closes it.
pub(crate) fn keeps_open(version: Version, fields: &Fields) -> bool {
    let has = |option: &[u8]| fields.all_of(CONNECTION).any(|line| lists(line, option));
    !has(b"close") && (version == Version::HTTP_11 || has(b"keep-alive"))
}

/// Returns whether a member of a list equals `option`, ignoring case.
fn lists(list: &[u8], option: &[u8]) -> bool {
    let mut rest = list;
    loop {
        let length = rest.iter().position(|byte| *byte == b',').unwrap_or(rest.len());
        let (member, after) = rest.split_at(length);
        if member.len() >= option.len() && member.trim_ascii().eq_ignore_ascii_case(option) {
            return true;
        }
        let [_, after @ ..] = after else { return false };
        rest = after;
    }
}
