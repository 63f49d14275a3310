//! Filters before lists of names: they tell most names from all of a list by a few letters, so that
//! the usual fields of a request are compared with few of its members. Case does not matter.
//!
//! A filter says no only to what is not in the list. Letters are told apart by their lowest five
//! bits, which are the same in both cases.

/// The letter's number, the same in both cases.
const fn letter(byte: u8) -> usize {
    (byte & 31) as usize
}

/// A filter before a list of whole names: their lengths by their first and last letters.
pub(crate) struct WholeNames {
    first: [u64; 32],
    last: [u64; 32],
}

impl WholeNames {
    /// Makes the filter of names of less than 64 bytes.
    pub const fn of(names: &[&str]) -> WholeNames {
        let (mut first, mut last) = ([0; 32], [0; 32]);
        let mut number = 0;
        while number < names.len() {
            let name = names[number].as_bytes();
            first[letter(name[0])] |= 1 << name.len();
            last[letter(name[name.len() - 1])] |= 1 << name.len();
            number += 1;
        }
        WholeNames { first, last }
    }

    /// Returns whether a name may be in the list.
    pub fn may_have(&self, name: &[u8]) -> bool {
        let ([first, ..], [.., last]) = (name, name) else { return false };
        let lengths = self.first[letter(*first)] & self.last[letter(*last)];
        name.len() < 64 && lengths & (1 << name.len()) != 0
    }
}

/// A filter before a list of beginnings, or of ends, of at least three bytes: the third letter
/// (from the end) by the first one.
pub(crate) struct NameParts([u32; 32]);

impl NameParts {
    /// Makes the filter of beginnings.
    pub const fn of_beginnings(parts: &[&str]) -> NameParts {
        let mut letters = [0; 32];
        let mut number = 0;
        while number < parts.len() {
            let part = parts[number].as_bytes();
            letters[letter(part[0])] |= 1 << letter(part[2]);
            number += 1;
        }
        NameParts(letters)
    }

    /// Makes the filter of ends.
    pub const fn of_ends(parts: &[&str]) -> NameParts {
        let mut letters = [0; 32];
        let mut number = 0;
        while number < parts.len() {
            let part = parts[number].as_bytes();
            letters[letter(part[part.len() - 1])] |= 1 << letter(part[part.len() - 3]);
            number += 1;
        }
        NameParts(letters)
    }

    /// Returns whether a name may begin as one of the list.
    pub fn may_begin(&self, name: &[u8]) -> bool {
        let [first, _, third, ..] = name else { return false };
        self.0[letter(*first)] & (1 << letter(*third)) != 0
    }

    /// Returns whether a name may end as one of the list.
    pub fn may_end(&self, name: &[u8]) -> bool {
        let [.., third, _, last] = name else { return false };
        self.0[letter(*last)] & (1 << letter(*third)) != 0
    }
}

/// Returns whether a name begins so, in any case.
pub(crate) fn begins_with(name: &[u8], begin: &str) -> bool {
    let head = name.get(..begin.len());
    head.is_some_and(|head| head.eq_ignore_ascii_case(begin.as_bytes()))
}
