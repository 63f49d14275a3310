//! Head of a stored response. A cache hit needs its facts and its encoded bytes; a map of its
//! fields is built only when other code needs it.

use std::cell::OnceCell;

use bytes::Bytes;
use semantics::packed::Packed;
use semantics::{EncodedHead, Meta, StoredHead};

#[derive(Debug)]
pub(crate) struct Head {
    facts: Packed,
    /// Encoded form; `None` if the head was changed after it was read.
    meta: Option<Bytes>,
    parsed: OnceCell<StoredHead>,
}

impl From<StoredHead> for Head {
    fn from(head: StoredHead) -> Head {
        let facts = *head.packed();
        Head { facts, meta: None, parsed: OnceCell::from(head) }
    }
}

impl Head {
    /// Reads the head of a whole response without trailers; `None` for any other metadata.
    pub fn read(meta: &Bytes) -> Option<Head> {
        let facts = EncodedHead::read(meta)?.facts;
        Some(Head { facts, meta: Some(meta.clone()), parsed: OnceCell::new() })
    }

    pub fn packed(&self) -> &Packed {
        &self.facts
    }

    /// Returns the encoded form, from which the head can be sent.
    pub fn meta(&self) -> Option<&Bytes> {
        self.meta.as_ref()
    }

    /// Returns the head with a map of its fields, which the first call decodes.
    pub fn stored(&self) -> &StoredHead {
        self.parsed.get_or_init(|| match self.meta.as_ref().map(Meta::decode) {
            Some(Ok(Meta::Head(head))) => head,
            _ => {
                log::warn!("the fields of a stored response cannot be read: validating it");
                StoredHead::unreadable(self.facts)
            }
        })
    }
}
