//! The fields of a head, with their received order and case.
//!
//! All names share one buffer and all values another. A field therefore needs no allocation of its
//! own, and the memory of one head is reused for the next ([`Fields::clear`]).

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use httparse::Header;
use semantics::{EditFields, UsualName, UsualNames};

/// A list of field lines. A name may occur in several lines.
#[derive(Clone, Default)]
pub struct Fields {
    names: String,
    values: Vec<u8>,
    lines: Vec<Line>,
    /// The usual names among the lines. Most lookups are for absent fields, and this answers them.
    usual: UsualNames,
    /// Filter of the other names: their bits ([`bit`]), including bits of some removed names.
    unusual: u64,
}

/// Start and end offsets in a buffer.
pub(crate) type Place = (u32, u32);

#[derive(Clone, Copy)]
struct Line {
    name: Place,
    value: Place,
    /// The name as a usual name, if it is one.
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

/// Returns the filter bit of a name, ignoring case.
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

    /// Returns whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Removes all fields and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.names.clear();
        self.values.clear();
        self.lines.clear();
        self.usual = UsualNames::NONE;
        self.unusual = 0;
    }

    /// Returns the number of bytes allocated.
    pub fn capacity(&self) -> usize {
        self.names.capacity() + self.values.capacity() + self.lines.capacity() * size_of::<Line>()
    }

    /// Returns the buffer of all names, including removed ones.
    pub(crate) fn names_text(&self) -> &str {
        &self.names
    }

    /// Returns the position of each line's name in [`Fields::names_text`].
    pub(crate) fn name_places(&self) -> impl ExactSizeIterator<Item = Place> {
        self.lines.iter().map(|line| line.name)
    }

    /// Returns the buffer of all values, including removed ones.
    pub(crate) fn values_text(&self) -> &[u8] {
        &self.values
    }

    /// Returns the position of each line's value in [`Fields::values_text`].
    pub(crate) fn value_places(&self) -> impl Iterator<Item = Place> {
        self.lines.iter().map(|line| line.value)
    }

    /// Appends a line.
    ///
    /// # Panics
    ///
    /// If the names or the values exceed 4 GiB in total.
    pub fn push(&mut self, name: &str, value: &[u8]) {
        let begin = self.values.len();
        self.values.extend_from_slice(value);
        self.push_line(name, begin..begin + value.len());
    }

    /// Appends the lines of a parsed head. Copies the text that contains them in one piece.
    ///
    /// # Panics
    ///
    /// Panics like [`Fields::push`].
    pub(crate) fn push_parsed(&mut self, head: &[u8], lines: &[Header<'_>]) {
        let Some(first) = lines.first() else { return };
        let text = &head[first.name.as_ptr().addr() - head.as_ptr().addr()..];
        let base = self.values.len();
        self.values.extend_from_slice(text);
        self.lines.reserve(lines.len());
        for Header { name, value } in lines {
            // An empty value may point anywhere.
            let offset = value.as_ptr().addr().wrapping_sub(text.as_ptr().addr());
            let begin = if value.is_empty() { base } else { base + offset };
            self.push_line(name, begin..begin + value.len());
        }
    }

    /// Appends a line whose value is already in the value buffer.
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

    /// Returns the values of the lines named `name`, which must be in lower case.
    pub fn get_all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let usual = UsualName::of(name);
        let lines = if self.may_have(usual, name) { &*self.lines } else { &[] };
        let named = lines.iter().filter(move |line| self.is(line, usual, name));
        named.map(|line| self.value(*line))
    }

    /// Returns the value of the first line named `name`, which must be in lower case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.get_all(name).next()
    }

    /// Returns the name and value of each line.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.lines.iter().map(|line| (self.name(line), self.value(*line)))
    }

    /// Returns whether a line may have this name; `usual` is the result of [`UsualName::of`] for
    /// it.
    fn may_have(&self, usual: Option<UsualName>, name: &str) -> bool {
        usual.map_or_else(|| self.unusual & bit(name) != 0, |usual| self.usual.has(usual))
    }

    fn is(&self, line: &Line, usual: Option<UsualName>, name: &str) -> bool {
        line.usual == usual && (usual.is_some() || self.name(line).eq_ignore_ascii_case(name))
    }

    fn name(&self, line: &Line) -> &str {
        &self.names[line.name_range()]
    }

    /// Returns whether the name of `line` is in the list, which has the form that
    /// [`lines_in`](semantics::Fields::lines_in) takes.
    fn is_in(&self, line: &Line, usual: UsualNames, unusual: &impl Fn(&str) -> bool) -> bool {
        line.usual.map_or_else(|| unusual(self.name(line)), |name| usual.has(name))
    }

    /// Returns whether any line may be in a list with these usual names.
    fn may_have_any(&self, usual: UsualNames) -> bool {
        self.unusual != 0 || self.usual.meets(usual)
    }

    fn value(&self, line: Line) -> &[u8] {
        &self.values[line.value_range()]
    }

    /// Removes the lines named `name`, which must be in lower case.
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

    /// Removes all but the first line named `name`, which must be in lower case.
    pub fn keep_first(&mut self, name: &str) {
        let (usual, mut seen) = (UsualName::of(name), false);
        self.retain(|fields, line| {
            !fields.is(line, usual, name) || !std::mem::replace(&mut seen, true)
        });
    }

    /// Replaces all fields with those of `map`.
    pub fn read_map(&mut self, map: &HeaderMap) {
        self.clear();
        map.iter().for_each(|(name, value)| self.push(name.as_str(), value.as_bytes()));
    }

    /// Returns the fields as a map whose values share one copied buffer. Reserves space for `spare`
    /// more fields. Names become lower case. Fields that a map cannot hold are left out; a parsed
    /// head has none.
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

    /// Returns the values of the lines in a list, found by comparing every name.
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
