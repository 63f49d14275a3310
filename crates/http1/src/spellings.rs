//! The spelling of field names, for heads that are held as maps, whose names are in lower case.
//!
//! The names of a head are one shared table. A connection remembers the tables of its last heads
//! ([`KnownNames`]): most messages of one peer have the same names in the same order, and take a
//! table that exists instead of memory of their own.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use http::header::HeaderName;

use crate::error::Malformed;
use crate::fields::{Fields, Place};

/// Tables that are remembered.
const KNOWN_MAX: usize = 4;
/// Bytes of the names in a table that is remembered at most.
const TEXT_MAX: usize = 2 << 10;

/// The names of one head's lines, in their order.
pub(crate) struct Names {
    text: String,
    places: Vec<Place>,
    names: Vec<HeaderName>,
    /// For each line, whether it is the first of its name.
    firsts: Vec<bool>,
    /// The bits of all names ([`Fields::bit`]).
    bits: u64,
    has_upper_case: bool,
}

impl Names {
    fn of(fields: &Fields) -> Result<Names, Malformed> {
        let name = |(name, _): (&str, _)| HeaderName::from_bytes(name.as_bytes());
        let names: Result<Vec<_>, _> = fields.iter().map(name).collect();
        let names = names.map_err(|_| Malformed("a field has no valid name"))?;
        let mut seen = HashSet::new();
        let firsts = names.iter().map(|name| seen.insert(name)).collect();
        let text = fields.names_text().to_owned();
        Ok(Names {
            has_upper_case: text.bytes().any(|byte| byte.is_ascii_uppercase()),
            text,
            places: fields.name_places().collect(),
            bits: names.iter().fold(0, |bits, name| bits | Fields::bit(name.as_str())),
            names,
            firsts,
        })
    }

    fn are_of(&self, fields: &Fields) -> bool {
        self.text == fields.names_text() && fields.name_places().eq(self.places.iter().copied())
    }

    /// Returns the names in lower case, one a line.
    pub fn names(&self) -> &[HeaderName] {
        &self.names
    }

    fn spelling(&self, line: usize) -> &str {
        let (begin, end) = self.places[line];
        &self.text[Range { start: begin as usize, end: end as usize }]
    }
}

/// The tables of the last heads that one peer sent.
#[derive(Default)]
pub(crate) struct KnownNames {
    tables: Vec<Arc<Names>>,
    /// The table that gives way to the next.
    oldest: usize,
}

impl KnownNames {
    /// Returns the table of a head's names. One of a head of unusual size is not remembered.
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

/// The spelling of the field names of a message. The default, with which all names are in lower
/// case, takes no memory. A clone shares the table.
#[derive(Clone, Default)]
pub struct Spellings(Option<Arc<Names>>);

impl Spellings {
    /// All names are in lower case.
    pub const LOWER_CASE: Spellings = Spellings(None);

    /// Returns the spelling of a head's names.
    ///
    /// # Errors
    ///
    /// A name has more than 64 KiB.
    pub fn of(fields: &Fields) -> Result<Spellings, Malformed> {
        Ok(Spellings::shared(&Arc::new(Names::of(fields)?)))
    }

    pub(crate) fn shared(names: &Arc<Names>) -> Spellings {
        Spellings(names.has_upper_case.then(|| names.clone()))
    }

    /// Returns whether all names are in lower case.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the means to spell the names of a message one after another.
    pub fn speller(&self) -> Speller<'_> {
        Speller { names: self.0.as_deref(), next: 0, last: None }
    }
}

impl fmt::Debug for Spellings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.as_deref();
        let lines = names.iter().flat_map(|n| (0..n.names.len()).map(|line| n.spelling(line)));
        f.debug_list().entries(lines).finish()
    }
}

/// Spells the names of a map's lines in their order, in which those of one name lie together. It is
/// fast as long as the order of the names is that of the table.
pub struct Speller<'a> {
    names: Option<&'a Names>,
    /// The line behind the first one of the name that was asked for last.
    next: usize,
    /// The line that was found last.
    last: Option<usize>,
}

impl<'a> Speller<'a> {
    /// Returns the spelling of a name: of its next line when it is asked for again, and of its last
    /// one when there is no further. Returns the name itself where no line has it.
    pub fn spell<'n>(&mut self, name: &'n HeaderName) -> &'n str
    where
        'a: 'n,
    {
        let lower = name.as_str();
        let Some(names) = self.names.filter(|names| names.bits & Fields::bit(lower) != 0) else {
            return lower;
        };
        let has_name = |line: &usize| names.names[*line] == *name;
        if let Some(last) = self.last.filter(has_name) {
            let further = (last + 1..names.names.len()).find(has_name).unwrap_or(last);
            self.last = Some(further);
            return names.spelling(further);
        }
        let mut lines = (self.next..names.names.len()).chain(0..self.next);
        match lines.find(|line| names.firsts[*line] && has_name(line)) {
            Some(line) => {
                (self.next, self.last) = (line + 1, Some(line));
                names.spelling(line)
            }
            None => lower,
        }
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

    fn spelled(spellings: &Spellings, names: &[&str]) -> Vec<String> {
        let mut speller = spellings.speller();
        let name = |name: &&str| HeaderName::from_bytes(name.as_bytes()).unwrap();
        names.iter().map(name).map(|name| speller.spell(&name).to_owned()).collect()
    }

    #[test]
    fn names_are_spelled_as_their_lines_were() {
        let head = fields(&["Date", "ETag", "x-A", "Date", "a", "ETAG", "X-a"]);
        let spellings = Spellings::of(&head).unwrap();
        let asked = ["date", "etag", "etag", "etag", "x-a", "x-a", "via", "a", "date", "date"];
        let expected = ["Date", "ETag", "ETAG", "ETAG", "x-A", "X-a", "via", "a", "Date", "Date"];
        assert_eq!(spelled(&spellings, &asked), expected);
        assert!(!spellings.is_empty());
        let lower = Spellings::of(&fields(&["date", "etag"])).unwrap();
        assert!(lower.is_empty());
        assert_eq!(spelled(&lower, &["etag", "via"]), ["etag", "via"]);
    }

    #[test]
    fn heads_with_the_same_names_share_a_table() {
        let mut known = KnownNames::default();
        let first = known.of(&fields(&["Ab", "c"])).unwrap();
        // The same text, of other names.
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
