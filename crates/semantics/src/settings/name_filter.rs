//! Prefilters for lists of names. A few letters of a name rule out most names, so the usual fields
//! of a request are compared with few list members. Case does not matter.
//!
//! A filter has no false negatives. It distinguishes letters by their lowest five bits, which are
//! the same in both cases.

/// Returns the number of a letter, which is the same in both cases.
const fn letter(byte: u8) -> usize {
    (byte & 31) as usize
}

/// A filter for a list of whole names: the set of their lengths for each first and each last
/// letter.
pub(crate) struct WholeNames {
    first: [u64; 32],
    last: [u64; 32],
}

impl WholeNames {
    /// Builds the filter from names of 1 to 63 bytes.
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

/// A filter for a list of prefixes, or of suffixes, of at least three bytes: the set of third
/// letters for each first letter, counted from the end for suffixes.
pub(crate) struct NameParts([u32; 32]);

impl NameParts {
    /// Builds the filter from prefixes.
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

    /// Builds the filter from suffixes.
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

    /// Returns whether a name may begin with a listed prefix.
    pub fn may_begin(&self, name: &[u8]) -> bool {
        let [first, _, third, ..] = name else { return false };
        self.0[letter(*first)] & (1 << letter(*third)) != 0
    }

    /// Returns whether a name may end with a listed suffix.
    pub fn may_end(&self, name: &[u8]) -> bool {
        let [.., third, _, last] = name else { return false };
        self.0[letter(*last)] & (1 << letter(*third)) != 0
    }
}

/// Returns whether a name begins with `begin`, ignoring case.
pub(crate) fn begins_with(name: &[u8], begin: &str) -> bool {
    let head = name.get(..begin.len());
    head.is_some_and(|head| head.eq_ignore_ascii_case(begin.as_bytes()))
}
