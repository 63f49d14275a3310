//! The head of the answer to a plain hit, written from the stored bytes as it goes over the wire,
//! without a map of its fields.
//!
//! It promises the very bytes that hyper writes for what [`builder`](crate::response::builder)
//! makes of the same answer, or none: where the two might differ nothing is written.

use http::header::HeaderName;
use semantics::{EncodedHead, Seconds, TagFields};

use crate::observe::cache_status::HitStatus;
use crate::response::written_head::{write_field, write_status};

/// What the head of a plain hit is made of.
pub(crate) struct HitHead<'s, 'a> {
    pub stored: EncodedHead<'s>,
    /// Bytes of the body.
    pub length: u64,
    pub age: Seconds,
    /// Seconds of freshness left.
    pub ttl: i64,
    pub from_memory: bool,
    pub status: &'a HitStatus,
    /// Fields that clients must not see: what has one is not written.
    pub hidden: Option<&'a TagFields>,
}

/// What is logged of a head that was written.
#[derive(Clone, Copy)]
pub(crate) struct Written<'a> {
    /// Its bytes as they are counted, which leaves out the length that the stored head has not.
    pub bytes: u64,
    pub content_type: Option<&'a [u8]>,
}

impl<'s> HitHead<'s, '_> {
    /// Writes the head to `out`, in place of what is there; `None` where it is not of the usual
    /// form.
    pub fn write(&self, out: &mut Vec<u8>) -> Option<Written<'s>> {
        out.clear();
        // hyper writes the length of no body elsewhere.
        if self.length == 0 {
            return None;
        }
        write_status(self.stored.facts.status(), out)?;
        let (mut content_type, mut has_date, mut has_length) = (None, false, false);
        for (name, value) in self.stored.fields() {
            match name {
                b"date" => has_date = true,
                b"content-type" => _ = content_type.get_or_insert(value),
                b"content-length" if has_length => return None,
                b"content-length" => has_length = true,
                b"age" | b"cache-status" | b"connection" | b"transfer-encoding" | b"trailer" => {
                    return None;
                }
                _ if self.hides(name) => return None,
                _ => {}
            }
            write_field(name, value, out);
        }
        // The server side would add one.
        if !has_date {
            return None;
        }
        let mut digits = itoa::Buffer::new();
        write_field(b"age", digits.format(self.age.get()).as_bytes(), out);
        out.extend_from_slice(b"cache-status: ");
        self.status.write(self.from_memory, self.ttl, out);
        out.extend_from_slice(b"\r\n");
        let counted = out.len() as u64 + 2;
        if !has_length {
            write_field(b"content-length", digits.format(self.length).as_bytes(), out);
        }
        out.extend_from_slice(b"\r\n");
        Some(Written { bytes: counted, content_type })
    }

    fn hides(&self, name: &[u8]) -> bool {
        let is = |hidden: &HeaderName| hidden.as_str().as_bytes() == name;
        self.hidden.is_some_and(|fields| fields.names().any(is))
    }
}
