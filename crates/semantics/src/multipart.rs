//! The frame of a `multipart/byteranges` body (RFC 9110, 14.6): what stands between the parts.

use bytes::Bytes;
use http::header::HeaderValue;

use crate::range::ByteRange;

/// A 206 with several parts of a body of known length.
#[derive(Clone, Debug)]
pub struct Multipart {
    boundary: String,
    parts: Vec<(Bytes, ByteRange)>,
}

impl Multipart {
    /// Plans the answer. `content_type` is that of the whole body, when known; `boundary` makes the
    /// boundary and must be random enough not to occur in the body by design.
    pub fn new(
        parts: &[ByteRange],
        length: u64,
        content_type: Option<&HeaderValue>,
        boundary: u128,
    ) -> Multipart {
        let boundary = format!("{boundary:032x}");
        let head = |at: usize, part: &ByteRange| {
            let mut head = Vec::with_capacity(160);
            if at > 0 {
                head.extend_from_slice(b"\r\n");
            }
            head.extend_from_slice(b"--");
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
        let parts = parts.iter().enumerate().map(|(at, part)| (head(at, part), *part)).collect();
        Multipart { boundary, parts }
    }

    /// The parts in order: the bytes to send before each, and which bytes of the body follow.
    pub fn parts(&self) -> &[(Bytes, ByteRange)] {
        &self.parts
    }

    /// The bytes behind the last part.
    pub fn closing(&self) -> Bytes {
        Bytes::from(format!("\r\n--{}--\r\n", self.boundary))
    }

    /// The `Content-Type` of the answer.
    pub fn content_type(&self) -> HeaderValue {
        HeaderValue::try_from(format!("multipart/byteranges; boundary={}", self.boundary))
            .unwrap_or(HeaderValue::from_static("multipart/byteranges"))
    }

    /// The `Content-Length` of the answer in bytes.
    pub fn total_length(&self) -> u64 {
        let parts = self.parts.iter().map(|(head, part)| head.len() as u64 + part.count());
        parts.sum::<u64>() + self.closing().len() as u64
    }
}
