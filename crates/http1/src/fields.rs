//! The fields of a head, in the order and in the case in which they came.
//!
//! All names lie in one text and all values in another, so that a head needs no memory of its own
//! for each field, and the memory of a head can be used again for the next ([`Fields::clear`]).

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use httparse::Header;
use semantics::{EditFields, UsualName, UsualNames};

/// A list of fields. A name may occur in several lines.
#[derive(Clone, Default)]
pub struct Fields {
    names: String,
    values: Vec<u8>,
    lines: Vec<Line>,
    /// The usual names of the lines: most lookups are for fields that are absent.
    usual: UsualNames,
    /// The bits ([`bit`]) of the other names, and of some that were removed.
    unusual: u64,
}

/// The begin and the end of a part of a text.
pub(crate) type Place = (u32, u32);

/// The place of one field.
#[derive(Clone, Copy)]
struct Line {
    name: Place,
    value: Place,
    /// The usual name that the name is, if it is one.
    usual: Option<UsualName>,
}

impl Line {
    fn name_range(self) -> Range<usize> {
        self.name.0 as usize..self.name.1 as usize
    }

    fn value_range(self) -> Range<usize> {
        self.value.0 as usize..self.value.1 as usize
    }
}

/// Returns the bit of a name in any case.
fn bit(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let (first, last) = match bytes {
        [first, .., last] => (*first | 0x20, *last | 0x20),
        [only] => (*only | 0x20, 0),
        [] => (0, 0),
    };
    let mixed = bytes.len() * 5 + usize::from(first) * 7 + usize::from(last) * 3;
    1 << (mixed % 64)
}

impl Fields {
    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Removes all fields; their memory is kept for others.
    pub fn clear(&mut self) {
        self.names.clear();
        self.values.clear();
        self.lines.clear();
        self.usual = UsualNames::NONE;
        self.unusual = 0;
    }

    /// Returns the bytes of memory that it keeps.
    pub fn capacity(&self) -> usize {
        self.names.capacity() + self.values.capacity() + self.lines.capacity() * size_of::<Line>()
    }

    /// Returns the text of all names, and of names that were removed.
    pub(crate) fn names_text(&self) -> &str {
        &self.names
    }

    /// Returns where the name of each line lies in [`Fields::names_text`].
    pub(crate) fn name_places(&self) -> impl ExactSizeIterator<Item = Place> {
        self.lines.iter().map(|line| line.name)
    }

    /// Returns the text of all values, and of values that were removed.
    pub(crate) fn values_text(&self) -> &[u8] {
        &self.values
    }

    /// Returns where the value of each line lies in [`Fields::values_text`].
    pub(crate) fn value_places(&self) -> impl Iterator<Item = Place> {
        self.lines.iter().map(|line| line.value)
    }

    /// Returns where a part of a value lies among the values of all lines: it stays there until the
    /// fields are cleared, whatever is edited. `None`: it is no part of one.
    pub fn place_of(&self, part: &[u8]) -> Option<Range<usize>> {
        let begin = part.as_ptr().addr().checked_sub(self.values.as_ptr().addr())?;
        let end = begin + part.len();
        (end <= self.values.len()).then_some(begin..end)
    }

    /// Returns what lies at such a place.
    pub fn at_place(&self, place: Range<usize>) -> &[u8] {
        self.values.get(place).unwrap_or_default()
    }

    /// Appends a line.
    ///
    /// # Panics
    ///
    /// When names or values have more than 4 GiB in all.
    pub fn push(&mut self, name: &str, value: &[u8]) {
        let begin = self.values.len();
        self.values.extend_from_slice(value);
        self.push_line(name, begin..begin + value.len());
    }

    /// Appends the lines of a head that was parsed; what they lie in is copied at once.
    ///
    /// # Panics
    ///
    /// As [`Fields::push`].
    pub(crate) fn push_parsed(&mut self, head: &[u8], lines: &[Header<'_>]) {
        let Some(first) = lines.first() else { return };
        let text = &head[first.name.as_ptr().addr() - head.as_ptr().addr()..];
        let base = self.values.len();
        self.values.extend_from_slice(text);
        self.lines.reserve(lines.len());
        for Header { name, value } in lines {
            // An empty value may lie anywhere.
            let offset = value.as_ptr().addr().wrapping_sub(text.as_ptr().addr());
            let begin = if value.is_empty() { base } else { base + offset };
            self.push_line(name, begin..begin + value.len());
        }
    }

    /// Appends a line whose value lies among the others.
    fn push_line(&mut self, name: &str, value: Range<usize>) {
        let place = |begin: usize, end: usize| {
            let at = |at: usize| u32::try_from(at).expect("a head has less than 4 GiB");
            (at(begin), at(end))
        };
        let usual = UsualName::of(name);
        match usual {
            Some(usual) => self.usual.insert(usual),
            None => self.unusual |= bit(name),
        }
        let begin = self.names.len();
        self.names.push_str(name);
        let (name, value) = (place(begin, self.names.len()), place(value.start, value.end));
        self.lines.push(Line { name, value, usual });
    }

    /// Returns the values of the lines with this name, which is in lower case.
    pub fn get_all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let usual = UsualName::of(name);
        let lines = if self.may_have(usual, name) { &*self.lines } else { &[] };
        let named = lines.iter().filter(move |line| self.is(line, usual, name));
        named.map(|line| self.value(*line))
    }

    /// Returns the value of the first line with this name, which is in lower case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.get_all(name).next()
    }

    /// Returns name and value of each line.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.lines.iter().map(|line| (self.name(line), self.value(*line)))
    }

    /// Returns whether a line may have this name; `usual` is what [`UsualName::of`] returns for it.
    fn may_have(&self, usual: Option<UsualName>, name: &str) -> bool {
        usual.map_or_else(|| self.unusual & bit(name) != 0, |usual| self.usual.has(usual))
    }

    fn is(&self, line: &Line, usual: Option<UsualName>, name: &str) -> bool {
        line.usual == usual && (usual.is_some() || self.name(line).eq_ignore_ascii_case(name))
    }

    fn name(&self, line: &Line) -> &str {
        &self.names[line.name_range()]
    }

    /// Returns whether a line is one of those whose names are in a list, as
    /// [`lines_in`](semantics::Fields::lines_in) takes it.
    fn is_in(&self, line: &Line, usual: UsualNames, unusual: &impl Fn(&str) -> bool) -> bool {
        line.usual.map_or_else(|| unusual(self.name(line)), |name| usual.has(name))
    }

    /// Returns whether a line may be one of them.
    fn may_have_any(&self, usual: UsualNames) -> bool {
        self.unusual != 0 || self.usual.meets(usual)
    }

    fn value(&self, line: Line) -> &[u8] {
        &self.values[line.value_range()]
    }

    /// Removes the lines with this name, which is in lower case.
    pub fn remove_all(&mut self, name: &str) {
        let usual = UsualName::of(name);
        if self.may_have(usual, name) {
            self.retain(|fields, line| !fields.is(line, usual, name));
            usual.into_iter().for_each(|usual| self.usual.remove(usual));
        }
    }

    fn retain(&mut self, mut wanted: impl FnMut(&Fields, &Line) -> bool) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.retain(|line| wanted(self, line));
        self.lines = lines;
    }

    /// Removes all lines but the first with this name, which is in lower case.
    pub fn keep_first(&mut self, name: &str) {
        let (usual, mut seen) = (UsualName::of(name), false);
        self.retain(|fields, line| {
            !fields.is(line, usual, name) || !std::mem::replace(&mut seen, true)
        });
    }

    /// Puts the fields of a map into it, in place of its own.
    pub fn read_map(&mut self, map: &HeaderMap) {
        self.clear();
        map.iter().for_each(|(name, value)| self.push(name.as_str(), value.as_bytes()));
    }

    /// Makes a map of them, which shares one copy of the values. Names are in lower case there. A
    /// field that a map cannot hold is left out: a parsed head has none.
    pub fn to_map(&self, spare: usize) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(self.lines.len() + spare);
        let values = Bytes::copy_from_slice(&self.values);
        for line in &self.lines {
            let name = HeaderName::from_bytes(self.names[line.name_range()].as_bytes());
            let value = HeaderValue::from_maybe_shared(values.slice(line.value_range()));
            if let (Ok(name), Ok(value)) = (name, value) {
                map.append(name, value);
            }
        }
        map
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.iter().map(|(name, value)| (name, value.escape_ascii().to_string()));
        f.debug_map().entries(lines).finish()
    }
}

impl semantics::Fields for Fields {
    fn all(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.iter()
    }

    fn lines_named<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.get_all(name)
    }

    fn has(&self, name: &HeaderName) -> bool {
        let name = name.as_str();
        match UsualName::of(name) {
            Some(usual) => self.usual.has(usual),
            None => self.get_all(name).next().is_some(),
        }
    }

    fn has_any(&self, names: UsualNames) -> bool {
        self.usual.meets(names)
    }

    fn usual_names(&self) -> UsualNames {
        self.usual
    }

    fn lines_in(
        &self,
        usual: UsualNames,
        unusual: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = (&str, &[u8])> {
        let lines = if self.may_have_any(usual) { &*self.lines } else { &[] };
        let named = lines.iter().filter(move |line| self.is_in(line, usual, &unusual));
        named.map(|line| (self.name(line), self.value(*line)))
    }
}

impl EditFields for Fields {
    fn remove_lines(&mut self, name: &HeaderName) -> bool {
        let before = self.lines.len();
        self.remove_all(name.as_str());
        self.lines.len() < before
    }

    fn remove_in(&mut self, usual: UsualNames, unusual: impl Fn(&str) -> bool) {
        if self.may_have_any(usual) {
            self.retain(|fields, line| !fields.is_in(line, usual, &unusual));
            self.usual = self.usual.without(usual);
        }
    }

    fn set_line(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.remove_all(name.as_str());
        self.push(name.as_str(), value.as_bytes());
    }

    fn add_line(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.push(name.as_str(), value.as_bytes());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use semantics::Fields as _;

    use super::*;

    const NAMES: [&str; 8] =
        ["Host", "ACCEPT", "accept", "Cookie", "X-A", "x-a", "X-b", "X-Forwarded-For"];

    /// Returns the values of the lines in a list, found without looking at names beforehand.
    fn plainly(fields: &Fields, is_in: impl Fn(&str) -> bool) -> Vec<&[u8]> {
        let lines = fields.iter().filter(|(name, _)| is_in(&name.to_ascii_lowercase()));
        lines.map(|(_, value)| value).collect()
    }

    #[test]
    fn lines_are_found_by_what_is_known_of_their_names() {
        let usual = UsualNames::all_in(|name| matches!(name, "accept" | "x-forwarded-for"));
        let unusual = |name: &str| name.eq_ignore_ascii_case("x-b");
        let is_in = |name: &str| matches!(name, "accept" | "x-forwarded-for" | "x-b");
        let mut random = fastrand::Rng::with_seed(7);
        let mut fields = Fields::default();
        for number in 0..4000_u32 {
            let name = NAMES[random.usize(..NAMES.len())];
            let lower = name.to_ascii_lowercase();
            match random.u8(..16) {
                0 => fields.clear(),
                1 => fields.remove_all(&lower),
                2 => fields.keep_first(&lower),
                3 => {
                    let left = plainly(&fields, |name| !is_in(name)).concat();
                    fields.remove_in(usual, unusual);
                    assert_eq!(plainly(&fields, |_| true).concat(), left);
                }
                _ => fields.push(name, &number.to_le_bytes()),
            }
            for name in NAMES.map(str::to_ascii_lowercase) {
                let expected = plainly(&fields, |known| known == name);
                assert_eq!(fields.get_all(&name).collect::<Vec<_>>(), expected);
                let name: HeaderName = name.parse().unwrap();
                assert_eq!(fields.has(&name), !expected.is_empty());
            }
            let found: Vec<_> = fields.lines_in(usual, unusual).map(|(_, value)| value).collect();
            assert_eq!(found, plainly(&fields, is_in));
            let names = fields.iter().filter_map(|(name, _)| UsualName::of(name));
            assert_eq!(fields.usual_names(), names.collect());
        }
    }
}
