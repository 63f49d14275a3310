//! Request framing: where the body ends, and whether another request may follow (RFC 9112, 6 and
//! 9.3). The rules are listed in the [crate] documentation.

use http::Version;
use semantics::{Fields as _, UsualName, UsualNames};

use crate::error::Malformed;
use crate::fields::Fields;
use crate::framing_fields::{self, CONTENT_LENGTH, keeps_open, number};

/// The fields that say how a request is framed.
const FRAMING: UsualNames =
    UsualNames::of(&["connection", "content-length", "expect", "transfer-encoding"]);
const EXPECT: UsualName = UsualName::known("expect");

/// The length of a request body as its head declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// This number of bytes; 0 if there is no length field.
    Bytes(u64),
    /// The body is chunked.
    Chunked,
}

/// The framing of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestFraming {
    /// The body length.
    pub body: BodyLength,
    /// True if the client wants the connection to stay open.
    pub keeps_open: bool,
    /// True if the request has both `Transfer-Encoding` and `Content-Length`. Another parser may
    /// find another end, so no later byte of the connection may be read as a request (RFC 9112,
    /// 6.1).
    pub is_ambiguous: bool,
    /// True if the client waits for a 100 response before it sends the body (RFC 9110, 10.1.1).
    pub expects_continue: bool,
}

impl RequestFraming {
    /// Returns the framing of a head and removes redundant length fields from it: all
    /// `Content-Length` lines if the body is chunked, otherwise all but the first.
    ///
    /// # Errors
    ///
    /// Two parsers could find different ends of the request.
    pub fn take(version: Version, fields: &mut Fields) -> Result<RequestFraming, Malformed> {
        if !fields.has_any(FRAMING) {
            return Ok(RequestFraming {
                body: BodyLength::Bytes(0),
                keeps_open: version == Version::HTTP_11,
                is_ambiguous: false,
                expects_continue: false,
            });
        }
        let chunked = is_chunked(version, fields)?;
        let (length, has_several) = length(fields)?;
        if has_several {
            fields.keep_first("content-length");
        }
        if chunked && length.is_some() {
            fields.remove_all("content-length");
        }
        let body =
            if chunked { BodyLength::Chunked } else { BodyLength::Bytes(length.unwrap_or(0)) };
        Ok(RequestFraming {
            body,
            keeps_open: keeps_open(version, fields),
            is_ambiguous: chunked && length.is_some(),
            expects_continue: version != Version::HTTP_10
                && fields
                    .all_of(EXPECT)
                    .last()
                    .is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue")),
        })
    }

    /// Returns whether the request has no body.
    pub fn is_without_body(&self) -> bool {
        self.body == BodyLength::Bytes(0)
    }
}

fn is_chunked(version: Version, fields: &Fields) -> Result<bool, Malformed> {
    let Some(coding) = framing_fields::last_coding(fields)? else { return Ok(false) };
    if version == Version::HTTP_10 {
        return Err(Malformed("HTTP/1.0 has no transfer codings"));
    }
    match framing_fields::is_chunked(coding) {
        true => Ok(true),
        false => Err(Malformed("the last transfer coding of its body is not chunked")),
    }
}

/// Returns the length, on which all lines must agree, and whether there are several lines.
fn length(fields: &Fields) -> Result<(Option<u64>, bool), Malformed> {
    let (mut found, mut count) = (None, 0);
    for line in fields.all_of(CONTENT_LENGTH) {
        let length = number(line).filter(|length| found.is_none_or(|found| found == *length));
        found = Some(length.ok_or(Malformed("its Content-Length is not a single number"))?);
        count += 1;
    }
    Ok((found, count > 1))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn of(
        version: Version,
        lines: &[(&str, &str)],
    ) -> Result<(RequestFraming, Vec<String>), Malformed> {
        let mut fields = Fields::default();
        lines.iter().for_each(|(name, value)| fields.push(name, value.as_bytes()));
        let framing = RequestFraming::take(version, &mut fields)?;
        let lengths = fields.get_all("content-length");
        let lengths = lengths.map(|line| String::from_utf8(line.to_vec()).unwrap()).collect();
        Ok((framing, lengths))
    }

    #[test]
    fn one_end_is_found_or_none() {
        const TE: &str = "Transfer-Encoding";
        const CL: &str = "content-Length";
        let body = |lines: &[(&str, &str)]| {
            let (framing, left) = of(Version::HTTP_11, lines).unwrap();
            (framing.body, framing.is_ambiguous, left.join("|"))
        };
        let none = String::new;
        assert_eq!(body(&[]), (BodyLength::Bytes(0), false, none()));
        assert_eq!(body(&[(CL, "5")]), (BodyLength::Bytes(5), false, "5".into()));
        assert_eq!(body(&[(CL, "5"), (CL, "5")]), (BodyLength::Bytes(5), false, "5".into()));
        assert_eq!(body(&[(TE, "chunked")]), (BodyLength::Chunked, false, none()));
        assert_eq!(body(&[(TE, "gzip, Chunked ")]), (BodyLength::Chunked, false, none()));
        assert_eq!(body(&[(TE, "gzip"), (TE, "chunked")]), (BodyLength::Chunked, false, none()));
        assert_eq!(body(&[(CL, "5"), (TE, "chunked")]), (BodyLength::Chunked, true, none()));
        assert_eq!(body(&[(TE, "chunked"), (CL, "5")]), (BodyLength::Chunked, true, none()));
        for lines in [
            &[(TE, "gzip")][..],
            &[(TE, "")],
            &[(TE, "chunked, gzip")],
            &[(TE, "chunked"), (TE, "identity")],
            &[(TE, "xchunked")],
            &[(TE, "g\u{fc}zip, chunked")],
            &[(CL, "")],
            &[(CL, "+5")],
            &[(CL, "-5")],
            &[(CL, "5, 5")],
            &[(CL, "5 5")],
            &[(CL, "0x5")],
            &[(CL, "5"), (CL, "6")],
            &[(CL, "5"), (CL, "")],
            &[(CL, "18446744073709551616")],
        ] {
            assert!(of(Version::HTTP_11, lines).is_err(), "{lines:?}");
        }
        assert!(of(Version::HTTP_10, &[(TE, "chunked")]).is_err());
    }

    #[test]
    fn the_connection_is_kept_as_the_client_says() {
        for (lines, of_10, of_11) in [
            (&[][..], false, true),
            (&["keep-alive"], true, true),
            (&["close"], false, false),
            (&["keep-alive, Close "], false, false),
            (&["close", "keep-alive"], false, false),
            (&["te, Keep-Alive"], true, true),
            (&["closed"], false, true),
        ] {
            let lines: Vec<_> = lines.iter().map(|line| ("Connection", *line)).collect();
            let keeps = |version| of(version, &lines).unwrap().0.keeps_open;
            assert_eq!((keeps(Version::HTTP_10), keeps(Version::HTTP_11)), (of_10, of_11));
        }
    }
}
