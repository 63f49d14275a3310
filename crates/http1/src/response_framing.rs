//! Response framing: where the body ends, and whether the connection may be reused (RFC 9112, 6.3
//! and 9.3). The rules are listed in the [crate] documentation.

use http::{Method, StatusCode, Version};

use crate::error::Malformed;
use crate::fields::Fields;
use crate::framing_fields::{CONTENT_LENGTH, is_chunked, keeps_open, last_coding, number};

/// The length of a response body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseLength {
    /// This number of bytes; 0 if the response cannot have a body.
    Bytes(u64),
    /// The body is chunked.
    Chunked,
    /// The body ends when the connection closes.
    UntilClose,
}

/// The framing of one response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseFraming {
    /// The body length.
    pub body: ResponseLength,
    /// True if the server keeps the connection open.
    pub keeps_open: bool,
}

impl ResponseFraming {
    /// Returns the framing of a response with this head to a request with this method.
    ///
    /// # Errors
    ///
    /// Two parsers could find different ends of the response.
    pub fn of(
        method: &Method,
        status: StatusCode,
        version: Version,
        fields: &Fields,
    ) -> Result<ResponseFraming, Malformed> {
        let body = match has_no_body(method, status) {
            true => ResponseLength::Bytes(0),
            false => body_length(version, fields)?,
        };
        Ok(ResponseFraming { body, keeps_open: keeps_open(version, fields) })
    }
}

/// Returns whether the method or the status rules out a body. A tunnel follows a 2xx response to
/// CONNECT.
pub fn has_no_body(method: &Method, status: StatusCode) -> bool {
    let without_body = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let is_tunnel = *method == Method::CONNECT && status.is_success();
    *method == Method::HEAD || status.is_informational() || without_body || is_tunnel
}

fn body_length(version: Version, fields: &Fields) -> Result<ResponseLength, Malformed> {
    match last_coding(fields)? {
        Some(_) if version == Version::HTTP_10 => {
            Err(Malformed("HTTP/1.0 has no transfer codings"))
        }
        Some(coding) if is_chunked(coding) => Ok(ResponseLength::Chunked),
        Some(_) => Ok(ResponseLength::UntilClose),
        None => Ok(length(fields)?.map_or(ResponseLength::UntilClose, ResponseLength::Bytes)),
    }
}

/// Returns the length, on which all lines and members of `Content-Length` must agree.
fn length(fields: &Fields) -> Result<Option<u64>, Malformed> {
    let lines = fields.all_of(CONTENT_LENGTH);
    let members = lines.flat_map(|line| line.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    members.map(number).try_fold(None, |found, length| {
        let agrees = length.filter(|length| found.is_none_or(|found| found == *length));
        agrees.map(Some).ok_or(Malformed("its Content-Length is not a single number"))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::ResponseLength::{Bytes, Chunked, UntilClose};
    use super::*;

    fn of(
        (method, status, version): (&str, u16, Version),
        lines: &[(&str, &str)],
    ) -> Result<ResponseFraming, Malformed> {
        let mut fields = Fields::default();
        lines.iter().for_each(|(name, value)| fields.push(name, value.as_bytes()));
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        ResponseFraming::of(&method, StatusCode::from_u16(status).unwrap(), version, &fields)
    }

    #[test]
    fn one_end_is_found_or_none() {
        const TE: &str = "Transfer-Encoding";
        const CL: &str = "content-Length";
        let get = ("GET", 200, Version::HTTP_11);
        for (lines, expected) in [
            (&[][..], UntilClose),
            (&[(CL, "5")], Bytes(5)),
            (&[(CL, "5"), (CL, "5")], Bytes(5)),
            (&[(CL, "5, 5 ,05"), (CL, "5")], Bytes(5)),
            (&[(TE, "chunked")], Chunked),
            (&[(TE, "gzip, Chunked ")], Chunked),
            (&[(TE, "gzip"), (TE, "chunked")], Chunked),
            (&[(CL, "5"), (TE, "chunked")], Chunked),
            (&[(TE, "gzip")], UntilClose),
            (&[(TE, "chunked"), (TE, "identity")], UntilClose),
            (&[(TE, "xchunked"), (CL, "5")], UntilClose),
        ] {
            assert_eq!(of(get, lines).unwrap().body, expected, "{lines:?}");
        }
        for lines in [
            &[(CL, "")][..],
            &[(CL, "+5")],
            &[(CL, "5 5")],
            &[(CL, "5,")],
            &[(TE, "g\u{fc}zip, chunked")],
            &[(CL, "5, 6")],
            &[(CL, "5"), (CL, "6")],
            &[(CL, "18446744073709551616")],
        ] {
            assert!(of(get, lines).is_err(), "{lines:?}");
        }
        assert!(of(("GET", 200, Version::HTTP_10), &[(TE, "chunked")]).is_err());
    }

    #[test]
    fn method_and_status_rule_out_a_body() {
        let lines = [("content-length", "5"), ("content-length", "six")];
        for (method, status) in [
            ("HEAD", 200),
            ("GET", 100),
            ("GET", 101),
            ("GET", 204),
            ("GET", 304),
            ("CONNECT", 200),
        ] {
            let framing = of((method, status, Version::HTTP_11), &lines).unwrap();
            assert_eq!(framing.body, Bytes(0), "{method} {status}");
        }
        for (method, status) in [("GET", 205), ("CONNECT", 407), ("POST", 200)] {
            assert!(of((method, status, Version::HTTP_11), &lines).is_err(), "{method} {status}");
        }
    }
}
