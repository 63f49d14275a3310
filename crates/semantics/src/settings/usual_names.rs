//! Usual names: those of the fields that make up nearly all requests. One table lookup turns a name
//! into a number. A list of names becomes a precomputed bit set, and one bit tells whether a name
//! is in it.

use std::num::NonZeroU8;

/// Names of request fields, in lower case, sorted by bytes. None of them requests another method.
pub(crate) const NAMES: [&str; 79] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "access-control-request-headers",
    "access-control-request-method",
    "authorization",
    "cache-control",
    "cdn-loop",
    "cf-connecting-ip",
    "cf-ipcountry",
    "cf-ray",
    "cf-visitor",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "date",
    "device-memory",
    "dnt",
    "downlink",
    "dpr",
    "early-data",
    "ect",
    "expect",
    "forwarded",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "origin",
    "pragma",
    "priority",
    "proxy-connection",
    "purpose",
    "range",
    "referer",
    "rtt",
    "save-data",
    "sec-ch-prefers-color-scheme",
    "sec-ch-ua",
    "sec-ch-ua-arch",
    "sec-ch-ua-full-version-list",
    "sec-ch-ua-mobile",
    "sec-ch-ua-model",
    "sec-ch-ua-platform",
    "sec-ch-ua-platform-version",
    "sec-fetch-dest",
    "sec-fetch-mode",
    "sec-fetch-site",
    "sec-fetch-storage-access",
    "sec-fetch-user",
    "sec-gpc",
    "sec-purpose",
    "sec-websocket-key",
    "sec-websocket-version",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "upgrade-insecure-requests",
    "user-agent",
    "via",
    "x-amzn-trace-id",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-forwarded-server",
    "x-real-ip",
    "x-request-id",
    "x-requested-with",
];

/// A usual name of a field, as its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsualName(NonZeroU8);

impl UsualName {
    /// Returns the usual name equal to `name`, if there is one. Case does not matter.
    #[inline]
    pub fn of(name: impl AsRef<[u8]>) -> Option<UsualName> {
        let name = name.as_ref();
        if name.len() < 2 {
            return None;
        }
        let known = TABLE.slots[slot_of(name, TABLE.factor)]?;
        WORDS[usize::from(known.0.get())].are_of(name).then_some(known)
    }

    /// Returns the usual name equal to `name`, which must be in lower case.
    ///
    /// # Panics
    ///
    /// If it is not a usual name.
    pub const fn known(name: &str) -> UsualName {
        let mut place = 0;
        while !is_same_text(name.as_bytes(), NAMES[place].as_bytes()) {
            place += 1;
        }
        UsualName(NonZeroU8::MIN.saturating_add(place as u8))
    }

    /// Returns the name in lower case.
    pub fn as_str(self) -> &'static str {
        NAMES[usize::from(self.0.get()) - 1]
    }

    /// Returns the name at this index of [`NAMES`].
    const fn at(place: usize) -> Option<UsualName> {
        match NonZeroU8::new(place as u8 + 1) {
            Some(number) => Some(UsualName(number)),
            None => None,
        }
    }

    /// Returns the index of the word of a set that has the bit of this name, and the bit.
    #[inline]
    const fn bit(self) -> (usize, u64) {
        let number = self.0.get();
        ((number >> 6 & 1) as usize, 1 << (number & 63))
    }
}

/// A set of usual names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsualNames([u64; 2]);

impl UsualNames {
    /// The empty set.
    pub const NONE: UsualNames = UsualNames([0; 2]);

    /// Returns the set of these names, which must be in lower case.
    ///
    /// # Panics
    ///
    /// If one of them is not a usual name.
    pub const fn of(names: &[&str]) -> UsualNames {
        let (mut set, mut number) = (UsualNames::NONE, 0);
        while number < names.len() {
            set.insert(UsualName::known(names[number]));
            number += 1;
        }
        set
    }

    /// Returns the set of all usual names for which `list` returns true.
    pub fn all_in(list: impl Fn(&str) -> bool) -> UsualNames {
        let all = (0..NAMES.len()).filter_map(UsualName::at);
        all.filter(|name| list(name.as_str())).collect()
    }

    /// Returns whether the set contains a name.
    #[inline]
    pub fn has(self, name: UsualName) -> bool {
        let (word, bit) = name.bit();
        self.0[word] & bit != 0
    }

    /// Returns whether a list contains a name. `self` holds the usual names in the list; `unusual`
    /// returns whether another name is in it. Usual names match in any case.
    #[inline]
    pub fn has_or(self, name: &str, unusual: impl Fn(&str) -> bool) -> bool {
        UsualName::of(name).map_or_else(|| unusual(name), |name| self.has(name))
    }

    /// Returns the names in the set.
    pub fn iter(self) -> impl Iterator<Item = UsualName> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let word = usize::from(left[0] == 0);
            let number = NonZeroU8::new((word * 64) as u8 + left[word].trailing_zeros() as u8);
            left[word] = left[word].checked_sub(1)? & left[word];
            number.map(UsualName)
        })
    }

    /// Returns whether the sets have a common name.
    #[inline]
    pub fn meets(self, other: UsualNames) -> bool {
        (self.0[0] & other.0[0]) | (self.0[1] & other.0[1]) != 0
    }

    /// Returns the set without the names in `other`.
    #[must_use]
    pub fn without(self, other: UsualNames) -> UsualNames {
        UsualNames([self.0[0] & !other.0[0], self.0[1] & !other.0[1]])
    }

    /// Adds a name.
    #[inline]
    pub const fn insert(&mut self, name: UsualName) {
        let (word, bit) = name.bit();
        self.0[word] |= bit;
    }

    /// Removes a name.
    pub fn remove(&mut self, name: UsualName) {
        let (word, bit) = name.bit();
        self.0[word] &= !bit;
    }
}

impl FromIterator<UsualName> for UsualNames {
    fn from_iter<I: IntoIterator<Item = UsualName>>(names: I) -> UsualNames {
        let mut set = UsualNames::NONE;
        names.into_iter().for_each(|name| set.insert(name));
        set
    }
}

const fn is_same_text(one: &[u8], other: &[u8]) -> bool {
    let (mut at, is_as_long) = (0, one.len() == other.len());
    while is_as_long && at < one.len() && one[at] == other[at] {
        at += 1;
    }
    is_as_long && at == one.len()
}

const SLOTS: usize = 512;

/// A perfect hash table of the names, indexed by [`slot_of`].
struct Table {
    factor: u32,
    slots: [Option<UsualName>; SLOTS],
}

static TABLE: Table = Table::new();

impl Table {
    /// Searches for a factor with which no two names share a slot.
    const fn new() -> Table {
        let mut factor: u32 = 0x9e37_79b1;
        loop {
            if let Some(slots) = slots_by(factor) {
                return Table { factor, slots };
            }
            factor = factor.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) | 1;
        }
    }
}

/// Returns the table for a factor; `None` if two names share a slot.
const fn slots_by(factor: u32) -> Option<[Option<UsualName>; SLOTS]> {
    let mut slots = [None; SLOTS];
    let mut number = 0;
    while number < NAMES.len() {
        let slot = slot_of(NAMES[number].as_bytes(), factor);
        if slots[slot].is_some() {
            return None;
        }
        slots[slot] = UsualName::at(number);
        number += 1;
    }
    Some(slots)
}

/// Returns the slot of a name of at least two bytes, by its length and three of its letters. Case
/// does not matter.
const fn slot_of(name: &[u8], factor: u32) -> usize {
    let length = name.len();
    let ends = [name[length - 2], name[length - 1], name[0], 0];
    let letters = (u32::from_le_bytes(ends) | 0x20_2020) ^ (length as u32) << 24;
    (letters.wrapping_mul(factor) >> (32 - SLOTS.trailing_zeros())) as usize
}

/// A usual name as words of eight letters, which are compared at once.
#[derive(Clone, Copy)]
struct Words {
    length: usize,
    /// The last eight letters. Of a shorter name, the first four and the last four.
    last: u64,
    /// All letters but the last ones.
    words: [u64; 3],
}

/// The words of the names, by their numbers.
static WORDS: [Words; NAMES.len() + 1] = {
    let mut all = [Words { length: 0, last: 0, words: [0; 3] }; NAMES.len() + 1];
    let mut number = 0;
    while number < NAMES.len() {
        all[number + 1] = Words::new(NAMES[number].as_bytes());
        number += 1;
    }
    all
};

impl Words {
    const fn new(name: &[u8]) -> Words {
        let (eights, _) = name.as_chunks();
        let (mut words, mut at) = ([0; 3], 0);
        while at < eights.len() {
            words[at] = u64::from_le_bytes(eights[at]);
            at += 1;
        }
        Words { length: name.len(), last: last_of(name), words }
    }

    /// Returns whether a name has these letters, in any case.
    #[inline]
    fn are_of(&self, name: &[u8]) -> bool {
        if name.len() != self.length || !is_same(last_of(name), self.last) {
            return false;
        }
        let mut eights = name.as_chunks().0.iter().zip(&self.words);
        eights.all(|(eight, word)| is_same(u64::from_le_bytes(*eight), *word))
    }
}

/// Returns the last eight bytes of a name. Of a shorter one, the first four and the last four.
#[inline]
const fn last_of(name: &[u8]) -> u64 {
    if let Some(last) = name.last_chunk() {
        return u64::from_le_bytes(*last);
    }
    if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        return (u32::from_le_bytes(*first) as u64) << 32 | u32::from_le_bytes(*last) as u64;
    }
    let (mut bytes, mut at) = (0, 0);
    while at < name.len() {
        bytes = bytes << 8 | name[at] as u64;
        at += 1;
    }
    bytes
}

/// Returns whether eight bytes equal `known` in any case.
#[inline]
fn is_same(bytes: u64, known: u64) -> bool {
    // Among the bytes of known names, only letters have this bit.
    const OF_LETTERS: u64 = 0x4040_4040_4040_4040;
    bytes | ((known & OF_LETTERS) >> 1) == known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_usual(name: &str) -> bool {
        UsualName::of(name).is_some()
    }

    #[test]
    fn usual_names_are_recognised_in_any_case() {
        assert!(NAMES.is_sorted());
        for name in NAMES {
            let upper = name.to_ascii_uppercase();
            assert_eq!(UsualName::of(name).map(UsualName::as_str), Some(name));
            assert_eq!(UsualName::of(&upper).map(UsualName::as_str), Some(name));
            for at in 0..name.len() {
                for other in [b'_', b'\r', b'~', b'1', b'M', b'q'] {
                    let mut near = name.as_bytes().to_vec();
                    near[at] = other;
                    let near = String::from_utf8(near).unwrap();
                    let is_other = NAMES.iter().any(|name| near.eq_ignore_ascii_case(name));
                    assert_eq!(is_usual(&near), is_other, "{near:?}");
                }
            }
            assert!(!is_usual(&name[1..]), "{name}");
        }
        assert!(!is_usual(""));
    }

    #[test]
    fn a_set_has_the_names_that_it_was_made_of() {
        let made = UsualNames::of(&["accept", "x-real-ip"]);
        assert_eq!(made, UsualNames::all_in(|name| matches!(name, "accept" | "x-real-ip")));
        for name in NAMES {
            let usual = UsualName::of(name).unwrap();
            assert_eq!(made.has(usual), ["accept", "x-real-ip"].contains(&name));
            let mut set = UsualNames::NONE;
            set.insert(usual);
            assert_eq!((set.has(usual), set.meets(made)), (true, made.has(usual)));
            assert!(!made.without(set).has(usual));
            set.remove(usual);
            assert_eq!(set, UsualNames::NONE);
        }
        assert!(made.has_or("ACCEPT", |_| false) && !made.has_or("via", |_| true));
        assert!(made.has_or("X-A", |name| name == "X-A") && !made.has_or("X-A", |_| false));
    }
}
