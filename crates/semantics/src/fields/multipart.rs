//! Framing of a `multipart/byteranges` body (RFC 9110, 14.6): the bytes between the parts.

use bytes::Bytes;
use http::header::HeaderValue;

use crate::fields::range::ByteRange;

/// The layout of a 206 response with several parts of a body of known length.
#[derive(Clone, Debug)]
pub struct Multipart {
    boundary: String,
    parts: Vec<(Bytes, ByteRange)>,
}

impl Multipart {
    /// Plans a response. `content_type` is that of the whole body, if known. `boundary` must be
    /// random, so that no body can be made to contain it.
    pub fn new(
        parts: &[ByteRange],
        length: u64,
        content_type: Option<&HeaderValue>,
        boundary: u128,
    ) -> Multipart {
        let boundary = format!("{boundary:032x}");
        let head = |part: &ByteRange| {
            let mut head = Vec::with_capacity(160);
            // nginx and Apache also write this before the first part, and zsync expects it.
            head.extend_from_slice(b"\r\n--");
            head.extend_from_slice(boundary.as_bytes());
            if let Some(content_type) = content_type {
                head.extend_from_slice(b"\r\nContent-Type: ");
                head.extend_from_slice(content_type.as_bytes());
            }
            head.extend_from_slice(b"\r\nContent-Range: ");
            head.extend_from_slice(part.content_range(length).as_bytes());
            head.extend_from_slice(b"\r\n\r\n");
            Bytes::from(head)
        };
        let parts = parts.iter().map(|part| (head(part), *part)).collect();
        Multipart { boundary, parts }
    }

    /// Returns the parts in order: the bytes to send before each part, and the range of the body to
    /// send after them.
    pub fn parts(&self) -> &[(Bytes, ByteRange)] {
        &self.parts
    }

    /// Returns the bytes after the last part.
    pub fn closing(&self) -> Bytes {
        Bytes::from(format!("\r\n--{}--\r\n", self.boundary))
    }

    /// Returns the `Content-Type` of the response.
    pub fn content_type(&self) -> HeaderValue {
        HeaderValue::try_from(format!("multipart/byteranges; boundary={}", self.boundary))
            .unwrap_or(HeaderValue::from_static("multipart/byteranges"))
    }

    /// Returns the `Content-Length` of the response in bytes.
    pub fn total_length(&self) -> u64 {
        let parts = self.parts.iter().map(|(head, part)| head.len() as u64 + part.count());
        parts.sum::<u64>() + self.closing().len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frame_is_exact_and_its_length_known() {
        let parts = [ByteRange { start: 8, end: 10 }, ByteRange { start: 0, end: 3 }];
        let content_type = HeaderValue::from_static("text/plain");
        let multipart = Multipart::new(&parts, 10, Some(&content_type), 0xabc);
        let body = b"0123456789";
        let mut sent = Vec::new();
        for (head, part) in multipart.parts() {
            sent.extend_from_slice(head);
            sent.extend_from_slice(&body[part.start as usize..part.end as usize]);
        }
        sent.extend_from_slice(&multipart.closing());
        let boundary = "00000000000000000000000000000abc";
        let expected = format!(
            "\r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 8-9/10\r\n\r\n\
             89\r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-2/10\r\n\r\n\
             012\r\n\
             --{boundary}--\r\n"
        );
        assert_eq!(String::from_utf8(sent).unwrap(), expected);
        assert_eq!(multipart.total_length(), expected.len() as u64);
        assert_eq!(multipart.content_type(), format!("multipart/byteranges; boundary={boundary}"));
    }
}
