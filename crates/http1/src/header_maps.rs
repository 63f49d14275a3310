//! Header maps built from parsed heads, in reused memory.

use bytes::{Bytes, BytesMut};
use http::header::{HeaderMap, HeaderValue};

use semantics::Spellings;

use crate::error::Malformed;
use crate::fields::Fields;
use crate::known_names::KnownNames;

/// Size in bytes of a value buffer that several heads share.
const VALUES_AT_ONCE: usize = 4 << 10;

/// Maximum number of fields for which a map reserves capacity. Maps with more than twice this
/// capacity are not kept.
const USUAL_MAX: usize = 128;

/// Builds the header maps of the heads that one peer sends. In the long run this allocates nothing.
/// All values of a head share one buffer, which is reused once the last of them is dropped. Names
/// and the map itself ([`HeaderMaps::keep`]) are reused, too.
#[derive(Default)]
pub struct HeaderMaps {
    names: KnownNames,
    values: BytesMut,
    spare: HeaderMap,
}

impl HeaderMaps {
    /// Returns the fields of a head as a map, with capacity for `added` more, and the spellings of
    /// their names.
    ///
    /// # Errors
    ///
    /// A field is invalid, or the fields exceed what a map can hold.
    pub fn make(
        &mut self,
        fields: &Fields,
        added: usize,
    ) -> Result<(HeaderMap, Spellings), Malformed> {
        let too_many = |_| Malformed("its head has too many different fields");
        let names = &self.names.of(fields)?;
        let mut map = std::mem::take(&mut self.spare);
        // Capped because a head with thousands of lines has few distinct names.
        map.reserve((fields.len() + added).min(USUAL_MAX));
        let text = self.shared(fields.text());
        for (name, value) in names.names.iter().zip(fields.value_ranges()) {
            let value = HeaderValue::from_maybe_shared(text.slice(value));
            let value = value.map_err(|_| Malformed("a field has an invalid value"))?;
            map.try_append(name, value).map_err(too_many)?;
        }
        Ok((map, names.spellings.clone()))
    }

    /// Returns a shared copy of the names and values of a head.
    fn shared(&mut self, text: &[u8]) -> Bytes {
        if text.len() > VALUES_AT_ONCE {
            return Bytes::copy_from_slice(text);
        }
        if self.values.capacity() < text.len() {
            self.values.reserve(VALUES_AT_ONCE);
        }
        self.values.extend_from_slice(text);
        self.values.split().freeze()
    }

    /// Keeps the memory of a map for the next head, unless the map is unusually large.
    pub fn keep(&mut self, mut map: HeaderMap) {
        if map.capacity() <= 2 * USUAL_MAX {
            map.clear();
            self.spare = map;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_map_has_all_lines() {
        let (mut maps, mut fields) = (HeaderMaps::default(), Fields::default());
        for (name, value) in [("Set-Cookie", "a"), ("x", ""), ("set-cookie", "b"), ("Y", "c d")] {
            fields.push(name, value.as_bytes());
        }
        for _ in 0..100 {
            let (map, spellings) = maps.make(&fields, 2).unwrap();
            let mut speller = spellings.speller();
            let lines = map.iter().map(|(n, v)| (speller.spell(n), v.to_str().unwrap()));
            let expected = [("Set-Cookie", "a"), ("set-cookie", "b"), ("x", ""), ("Y", "c d")];
            assert_eq!(lines.collect::<Vec<_>>(), expected);
            maps.keep(map);
        }
    }

    #[test]
    fn memory_is_used_again_unless_a_head_has_it() {
        let (mut maps, mut fields) = (HeaderMaps::default(), Fields::default());
        fields.push("a", &[b'x'; 1000]);
        let held = maps.make(&fields, 0).unwrap().0;
        let mut places = Vec::new();
        for _ in 0..20 {
            places.push(maps.make(&fields, 0).unwrap().0["a"].as_bytes().as_ptr());
        }
        places.sort_unstable();
        places.dedup();
        // Three fit after the first head in its buffer, and four in the next buffer.
        assert_eq!(places.len(), 3 + 4);
        assert_eq!(held["a"].as_bytes(), [b'x'; 1000]);
    }

    #[test]
    fn more_names_than_a_map_holds_are_refused() {
        let mut fields = Fields::default();
        (0..40_000).for_each(|number| fields.push(&format!("x{number}"), b""));
        assert!(HeaderMaps::default().make(&fields, 0).is_err());
        fields.clear();
        (0..40_000).for_each(|_| fields.push("x", b""));
        assert_eq!(HeaderMaps::default().make(&fields, 0).unwrap().0.len(), 40_000);
    }
}
