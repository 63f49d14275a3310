//! Tables of names that are looked up case-insensitively.

use hashbrown::HashTable;

/// Values by name. Names that differ only in case are different entries.
#[derive(Clone, Debug)]
pub(crate) struct Words<V> {
    entries: HashTable<(Box<str>, V)>,
    /// A bit for each name length, modulo 64, which rules out most names of a request.
    lengths: u64,
}

impl<V> Default for Words<V> {
    fn default() -> Words<V> {
        Words { entries: HashTable::new(), lengths: 0 }
    }
}

impl<V> Words<V> {
    /// Returns whether an entry may equal a text, ignoring case.
    pub fn may_have(&self, text: impl AsRef<[u8]>) -> bool {
        self.lengths & length_bit(text.as_ref()) != 0
    }

    /// Returns the entries that equal a text, ignoring case, with their names.
    pub fn find<'a>(
        &'a self,
        text: &'a (impl AsRef<[u8]> + ?Sized),
    ) -> impl Iterator<Item = (&'a str, &'a V)> {
        let text = text.as_ref();
        let found = self.may_have(text).then(|| self.entries.iter_hash(hash(text)));
        let named = found.into_iter().flatten().map(|(name, value)| (&**name, value));
        named.filter(|(name, _)| name.as_bytes().eq_ignore_ascii_case(text))
    }
}

impl<'a, V> FromIterator<(&'a str, V)> for Words<V> {
    fn from_iter<I: IntoIterator<Item = (&'a str, V)>>(named: I) -> Words<V> {
        let mut all = Words::default();
        for (name, value) in named {
            all.lengths |= length_bit(name.as_bytes());
            let entry = (name.into(), value);
            let of_entry = |(name, _): &(Box<str>, V)| hash(name.as_bytes());
            all.entries.insert_unique(hash(name.as_bytes()), entry, of_entry);
        }
        all
    }
}

fn length_bit(text: &[u8]) -> u64 {
    1 << (text.len() % 64)
}

/// Returns a case-insensitive hash of a text. The names in a table come from the operator, so
/// clients cannot make them collide.
fn hash(text: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    // Lower and upper case differ in this bit. Other bytes may collide, but are compared later.
    const CASE: u64 = 0x2020_2020_2020_2020;
    let (chunks, rest) = text.as_chunks::<8>();
    let mut last = 0;
    for byte in rest {
        last = last << 8 | u64::from(*byte);
    }
    let words = chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)).chain([last]);
    let mixed = words.fold(text.len() as u64, |hash, word| {
        (hash.rotate_left(5) ^ (word | CASE)).wrapping_mul(MULTIPLIER)
    });
    // The table takes its buckets from the low bits, which the multiplication mixes least.
    mixed ^ (mixed >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case() {
        let named = ["a", "A", "accept-language", "x-a-longer-name-of-a-field", ""];
        let words: Words<usize> =
            named.iter().enumerate().map(|(number, name)| (*name, number)).collect();
        let found = |text: &str| {
            let mut all: Vec<usize> = words.find(text).map(|(_, number)| *number).collect();
            all.sort_unstable();
            all
        };
        assert_eq!(found("a"), [0, 1]);
        assert_eq!(found("Accept-LANGUAGE"), [2]);
        assert_eq!(found("X-a-Longer-name-of-a-fielD"), [3]);
        assert_eq!(found(""), [4]);
        assert!(found("accept-languagf").is_empty());
        assert!(found("\u{1}ccept-language").is_empty());
        assert!(Words::<()>::default().find("a").next().is_none());
    }
}
