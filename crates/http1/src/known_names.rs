//! The field names of the last heads from one peer. Most heads of a peer have the same names in the
//! same order and reuse an existing table instead of building one.

use std::mem;
use std::sync::Arc;

use http::header::HeaderName;
use semantics::Spellings;

use crate::error::Malformed;
use crate::fields::Fields;

/// Number of tables kept.
const KNOWN_MAX: usize = 4;
/// Maximum bytes of names in a table that is kept.
const TEXT_MAX: usize = 2 << 10;

/// The names of one head's lines, in order.
pub(crate) struct Names {
    /// The names as received, one after the other, and where each ends.
    text: Vec<u8>,
    ends: Vec<usize>,
    /// The names in lower case.
    pub names: Vec<HeaderName>,
    pub spellings: Spellings,
}

impl Names {
    fn of(fields: &Fields) -> Result<Names, Malformed> {
        let names: Result<Vec<_>, _> = fields.names().map(HeaderName::from_bytes).collect();
        let mut text = Vec::new();
        let ends = fields.names().map(|name| {
            text.extend_from_slice(name);
            text.len()
        });
        Ok(Names {
            names: names.map_err(|_| Malformed("a field has an invalid name"))?,
            ends: ends.collect(),
            text,
            spellings: Spellings::of(fields.iter().map(|(name, _)| name)),
        })
    }

    fn are_of(&self, fields: &Fields) -> bool {
        let mut begin = 0;
        let known = self.ends.iter().map(|end| &self.text[mem::replace(&mut begin, *end)..*end]);
        self.ends.len() == fields.len() && known.eq(fields.names())
    }
}

/// The name tables of the last heads from one peer.
#[derive(Default)]
pub(crate) struct KnownNames {
    tables: Vec<Arc<Names>>,
    /// Index of the table that is replaced next.
    oldest: usize,
}

impl KnownNames {
    /// Returns the name table of a head. Tables of unusually large heads are not kept.
    pub fn of(&mut self, fields: &Fields) -> Result<Arc<Names>, Malformed> {
        if let Some(known) = self.tables.iter().find(|table| table.are_of(fields)) {
            return Ok(known.clone());
        }
        let made = Arc::new(Names::of(fields)?);
        if made.text.len() <= TEXT_MAX {
            match self.tables.get_mut(self.oldest) {
                Some(oldest) => *oldest = made.clone(),
                None => self.tables.push(made.clone()),
            }
            self.oldest = (self.oldest + 1) % KNOWN_MAX;
        }
        Ok(made)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn fields(names: &[&str]) -> Fields {
        let mut fields = Fields::default();
        names.iter().for_each(|name| fields.push(name, b""));
        fields
    }

    #[test]
    fn heads_with_the_same_names_share_a_table() {
        let mut known = KnownNames::default();
        let first = known.of(&fields(&["Ab", "c"])).unwrap();
        // The same text, split into different names.
        let other = known.of(&fields(&["A", "bc"])).unwrap();
        assert!(!Arc::ptr_eq(&first, &other));
        assert!(Arc::ptr_eq(&known.of(&fields(&["Ab", "c"])).unwrap(), &first));
        for number in 0..KNOWN_MAX {
            let _ = known.of(&fields(&[&format!("x-{number}")])).unwrap();
        }
        assert_eq!(known.tables.len(), KNOWN_MAX);
        assert!(!Arc::ptr_eq(&known.of(&fields(&["Ab", "c"])).unwrap(), &first));
    }
}
