//! Spelling of field names, for heads held as maps with lower-case names.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use http::header::HeaderName;

/// Maximum names of a head with their spelling; further ones are in lower case. Bounds the work of
/// a [`Speller`].
const NAMES_MAX: usize = 128;

/// Heads that a thread remembers. Most messages of one peer have the same names in the same order,
/// and share the memory for their spelling.
const REMEMBERED: usize = 8;

/// Maximum bytes of names in a head that is remembered.
const REMEMBERED_BYTES: usize = 2 << 10;

thread_local! {
    static RECENT: RefCell<Recent> = RefCell::default();
}

#[derive(Default)]
struct Recent {
    text: String,
    ends: Vec<u32>,
    known: [Option<Arc<Names>>; REMEMBERED],
    oldest: usize,
}

impl Recent {
    fn read<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        self.text.clear();
        self.ends.clear();
        for name in names.take(NAMES_MAX) {
            self.text.push_str(name);
            self.ends.push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
        }
    }

    /// Returns the names read last, shared with an earlier head that had the same names.
    fn shared(&mut self) -> Arc<Names> {
        let is_same = |known: &&Arc<Names>| known.text == self.text && *known.ends == *self.ends;
        if let Some(known) = self.known.iter().flatten().find(is_same) {
            return known.clone();
        }
        let made = Arc::new(Names::new(&self.text, &self.ends));
        if made.text.len() <= REMEMBERED_BYTES {
            self.known[self.oldest] = Some(made.clone());
            self.oldest = (self.oldest + 1) % REMEMBERED;
        }
        made
    }
}

#[derive(PartialEq)]
struct Names {
    text: String,
    /// End of each name in `text`.
    ends: Vec<u32>,
    /// Filter bits of all names ([`bit`]).
    bits: u64,
    has_upper_case: bool,
}

impl Names {
    fn new(text: &str, ends: &[u32]) -> Names {
        let mut names =
            Names { text: text.to_owned(), ends: ends.to_vec(), bits: 0, has_upper_case: false };
        names.has_upper_case = text.bytes().any(|byte| byte.is_ascii_uppercase());
        names.bits = (0..ends.len()).fold(0, |bits, line| bits | bit(names.name(line)));
        names
    }

    fn name(&self, line: usize) -> &str {
        let begin = line.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[begin as usize..self.ends[line] as usize]
    }
}

/// Spelling of the field names of a message. The default, all names in lower case, takes no memory.
/// Clones share the names.
#[derive(Clone, Default, PartialEq)]
pub struct Spellings(Option<Arc<Names>>);

impl Spellings {
    /// Spelling with all names in lower case.
    pub const LOWER_CASE: Spellings = Spellings(None);

    /// Returns the spelling of a head with these names.
    pub fn of<'a>(names: impl Iterator<Item = &'a str>) -> Spellings {
        RECENT.with_borrow_mut(|recent| {
            recent.read(names);
            Spellings(Some(recent.shared()).filter(|names| names.has_upper_case))
        })
    }

    /// Returns the spelling of a head to which fields of another head, spelled by `other`, were
    /// added. For a name in both, this spelling takes precedence.
    pub fn joined(&self, other: &Spellings) -> Spellings {
        match other.0 {
            None => self.clone(),
            Some(_) => Spellings::of(self.names().chain(other.names())),
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|names| (0..names.ends.len()).map(|line| names.name(line)))
    }

    /// Returns a speller for the names of a message, one after another.
    pub fn speller(&self) -> Speller<'_> {
        Speller { names: self.0.as_deref(), next: 0 }
    }
}

impl fmt::Debug for Spellings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// Returns the filter bit of a name, ignoring case. It rules out most names without a spelling.
fn bit(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let at = |byte: Option<&u8>| usize::from(byte.copied().unwrap_or_default() | 0x20);
    1 << ((bytes.len() * 5 + at(bytes.first()) * 7 + at(bytes.last()) * 3) % 64)
}

/// Spells the names of a map's lines. Fast if they come in the order of the spelled names.
pub struct Speller<'a> {
    names: Option<&'a Names>,
    /// Line after the last one found.
    next: usize,
}

impl<'a> Speller<'a> {
    /// Returns the spelling of a name; repeated calls return the spellings of its lines in turn.
    /// Returns the name itself if no line has it.
    pub fn spell<'n>(&mut self, name: &'n HeaderName) -> &'n str
    where
        'a: 'n,
    {
        let lower = name.as_str();
        let Some(names) = self.names.filter(|names| names.bits & bit(lower) != 0) else {
            return lower;
        };
        let mut lines = (self.next..names.ends.len()).chain(0..self.next);
        match lines.find(|line| names.name(*line).eq_ignore_ascii_case(lower)) {
            Some(line) => {
                self.next = line + 1;
                names.name(line)
            }
            None => lower,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn spelled(spellings: &Spellings, names: &[&str]) -> Vec<String> {
        let mut speller = spellings.speller();
        let name = |name: &&str| HeaderName::from_bytes(name.as_bytes()).unwrap();
        names.iter().map(name).map(|name| speller.spell(&name).to_owned()).collect()
    }

    #[test]
    fn names_are_spelled_as_their_lines_were() {
        let spellings = Spellings::of(["Date", "ETag", "x-A", "a", "ETAG"].into_iter());
        let asked = ["date", "etag", "etag", "etag", "x-a", "via", "a", "date"];
        let expected = ["Date", "ETag", "ETAG", "ETag", "x-A", "via", "a", "Date"];
        assert_eq!(spelled(&spellings, &asked), expected);
        let joined = spellings.joined(&Spellings::of(["DATE", "X-New"].into_iter()));
        assert_eq!(spelled(&joined, &["date", "x-new", "a"]), ["Date", "X-New", "a"]);
        assert_eq!(Spellings::LOWER_CASE.joined(&spellings), spellings);
        let lower = Spellings::of(["date", "etag"].into_iter());
        assert_eq!(lower, Spellings::LOWER_CASE);
        assert_eq!(spelled(&lower, &["etag", "via"]), ["etag", "via"]);
    }

    #[test]
    fn heads_with_the_same_names_share_their_memory() {
        let of = |names: &[&str]| Spellings::of(names.iter().copied()).0.unwrap();
        let first = of(&["Ab", "c"]);
        assert!(!Arc::ptr_eq(&of(&["A", "bc"]), &first));
        assert!(Arc::ptr_eq(&of(&["Ab", "c"]), &first));
        (0..REMEMBERED).for_each(|number| _ = of(&[&format!("X-{number}")]));
        assert!(!Arc::ptr_eq(&of(&["Ab", "c"]), &first));
    }

    #[test]
    fn the_work_for_a_head_is_bounded() {
        let many: Vec<String> = (0..NAMES_MAX + 1).map(|number| format!("X-{number}")).collect();
        let spellings = Spellings::of(many.iter().map(String::as_str));
        let last = [&*many[NAMES_MAX - 1], &many[NAMES_MAX]];
        assert_eq!(spelled(&spellings, &last), [last[0], &last[1].to_lowercase()]);
    }
}
