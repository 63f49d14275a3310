//! The table of classes: which class a document belongs to, and the policy of each.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::class::criteria::{Bounds, Criteria, DocumentFacts};
use crate::class::policy::{Contradiction, Policy};

/// Most classes of a table: each is looked at for each request, and counted in the metrics.
pub const CLASSES_MAX: usize = 64;

/// Most patterns of types and hosts in a table: each may be looked at for each request.
pub const PATTERNS_MAX: usize = 1024;

/// The name of the class of documents that no other is for.
pub const REST: &str = "rest";

/// Documents that are treated alike; by default all documents, by [`Policy::DEFAULT`], under no
/// name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// What operators call it.
    pub name: Box<str>,
    /// Which documents it is for.
    pub criteria: Criteria,
    /// How they are treated.
    pub policy: Policy,
}

/// Why a table cannot be used: what is wrong, and in which class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidTable {
    /// The number of the class in the table, from 1; that of [`ClassTable::rest`] is the last.
    pub number: usize,
    /// Its name.
    pub name: Box<str>,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It is not among the first [`CLASSES_MAX`].
    TooMany,
    /// With its patterns the table has more than [`PATTERNS_MAX`].
    TooManyPatterns,
    /// It is the last one, for all documents, and has criteria.
    RestWithCriteria,
    /// Its name is empty, long, or has other letters than are allowed.
    Name,
    /// Another class has its name, or it is called as the last one always is.
    NameTaken,
    /// No size is within its bounds.
    NoSize(Bounds),
    /// No number of requests is within its bounds.
    NoRequests(Bounds),
    /// All of its documents belong to an earlier class, which has this name.
    Unreachable(Box<str>),
    /// Its policy contradicts itself.
    Policy(Contradiction),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::TooMany => write!(f, "a table has at most {CLASSES_MAX} classes"),
            Problem::TooManyPatterns => {
                write!(f, "a table has at most {PATTERNS_MAX} types and sites")
            }
            Problem::RestWithCriteria => {
                write!(
                    f,
                    "class {REST:?} is for all documents that are in no other: give it no \
                           sizes, requests, types and sites, or another name"
                )
            }
            Problem::Name => f.write_str("name it with 1 to 32 of a-z, 0-9 and '-'"),
            Problem::NameTaken => {
                write!(f, "another class has this name ({REST:?} is that of the last): rename it")
            }
            Problem::NoSize(bounds) => {
                write!(f, "no size is {bounds}: the second number must be larger")
            }
            Problem::NoRequests(bounds) => {
                write!(f, "no number of requests is {bounds}: the second must be larger")
            }
            Problem::Unreachable(earlier) => write!(
                f,
                "class {earlier:?} before it has all of its documents: put it before that one, or \
                 remove it"
            ),
            Problem::Policy(contradiction) => contradiction.fmt(f),
        }
    }
}

impl fmt::Display for InvalidTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "class {} ({:?}): {}", self.number, self.name, self.problem)
    }
}

impl Error for InvalidTable {}

/// The classes of a fleet's documents; a clone shares them.
#[derive(Clone, Debug)]
pub struct ClassTable {
    version: u64,
    /// Never empty: the last one is for all.
    classes: Arc<[Class]>,
}

impl ClassTable {
    /// Makes a table, in which `rest` is the policy of documents that are in none of `classes`.
    /// `version` tells one table from another; the higher one is the newer.
    ///
    /// # Errors
    ///
    /// The first class that cannot be used, with the reason.
    pub fn new(
        version: u64,
        mut classes: Vec<Class>,
        rest: Policy,
    ) -> Result<ClassTable, InvalidTable> {
        classes.push(Class { name: REST.into(), criteria: Criteria::ANY, policy: rest });
        for (at, class) in classes.iter().enumerate() {
            check(class, &classes[..at], at + 1 == classes.len()).map_err(|problem| {
                InvalidTable { number: at + 1, name: class.name.clone(), problem }
            })?;
        }
        Ok(ClassTable { version, classes: classes.into() })
    }

    /// Makes a table of classes as they are written: the last may be called [`REST`], and is then
    /// that of documents in no other; without it they are treated by [`Policy::DEFAULT`].
    ///
    /// # Errors
    ///
    /// As [`ClassTable::new`], and when that last class has criteria.
    pub fn of_classes(version: u64, mut classes: Vec<Class>) -> Result<ClassTable, InvalidTable> {
        let Some(rest) = classes.pop_if(|last| *last.name == *REST) else {
            return ClassTable::new(version, classes, Policy::DEFAULT);
        };
        if rest.criteria != Criteria::ANY {
            let (number, problem) = (classes.len() + 1, Problem::RestWithCriteria);
            return Err(InvalidTable { number, name: rest.name, problem });
        }
        ClassTable::new(version, classes, rest.policy)
    }

    /// Returns the same classes under another version.
    pub fn with_version(&self, version: u64) -> ClassTable {
        ClassTable { version, classes: self.classes.clone() }
    }

    /// Returns the version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the first class that a document belongs to.
    pub fn classify(&self, document: &DocumentFacts<'_>) -> &Class {
        let found = self.classes.iter().find(|class| class.criteria.match_document(document));
        found.unwrap_or_else(|| self.rest())
    }

    /// Returns the class of documents that belong to no other.
    pub fn rest(&self) -> &Class {
        &self.classes[self.classes.len() - 1]
    }

    /// Returns all classes, in their order, [`ClassTable::rest`] last.
    pub fn iter(&self) -> std::slice::Iter<'_, Class> {
        self.classes.iter()
    }
}

/// Checks one class against those before it.
fn check(class: &Class, earlier: &[Class], last: bool) -> Result<(), Problem> {
    if !last {
        check_name(&class.name, earlier)?;
        if earlier.len() >= CLASSES_MAX {
            return Err(Problem::TooMany);
        }
        let patterns = |class: &Class| class.criteria.patterns();
        if earlier.iter().map(patterns).sum::<usize>() + patterns(class) > PATTERNS_MAX {
            return Err(Problem::TooManyPatterns);
        }
        if class.criteria.size.are_empty() {
            return Err(Problem::NoSize(class.criteria.size));
        }
        if class.criteria.requests.are_empty() {
            return Err(Problem::NoRequests(class.criteria.requests));
        }
        if let Some(all) = earlier.iter().find(|other| other.criteria.cover(&class.criteria)) {
            return Err(Problem::Unreachable(all.name.clone()));
        }
    }
    class.policy.check().map_err(Problem::Policy)
}

/// Checks that a name is short, plain, and nobody else's.
fn check_name(name: &str, earlier: &[Class]) -> Result<(), Problem> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || name.len() > 32 || !name.bytes().all(plain) {
        return Err(Problem::Name);
    }
    if name == REST || earlier.iter().any(|other| *other.name == *name) {
        return Err(Problem::NameTaken);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::policy::{Copies, Eviction, Lookup, Replication};

    const PLAIN: Policy = Policy {
        lookup: Lookup::Owner,
        copies: Copies::Exclusive,
        eviction: Eviction::Drop,
        replication: Replication::ONE,
    };

    fn sized(name: &str, from: u64, below: Option<u64>) -> Class {
        let criteria = Criteria { size: Bounds { from, below }, ..Criteria::ANY };
        Class { name: name.into(), criteria, policy: PLAIN }
    }

    fn problem(classes: Vec<Class>) -> Problem {
        ClassTable::new(1, classes, PLAIN).unwrap_err().problem
    }

    #[test]
    fn the_first_class_that_fits_is_the_documents() {
        let hot = Criteria { requests: Bounds { from: 100, below: None }, ..Criteria::ANY };
        let hot = Class { name: "hot".into(), criteria: hot, policy: PLAIN };
        let classes = vec![sized("small", 0, Some(1024)), hot, sized("large", 1 << 20, None)];
        let table = ClassTable::new(3, classes, PLAIN).unwrap();
        let name = |size, requests| {
            let document = DocumentFacts { size, requests, ..DocumentFacts::default() };
            table.classify(&document).name.to_string()
        };
        assert_eq!(name(Some(1023), 500), "small");
        assert_eq!(name(Some(1024), 500), "hot");
        assert_eq!(name(None, 100), "hot");
        assert_eq!(name(Some(1 << 20), 99), "large");
        assert_eq!(name(Some(1024), 0), "rest");
        assert_eq!(name(None, 0), "rest");
        assert_eq!((table.version(), table.iter().count()), (3, 4));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let table = vec![sized("a", 0, Some(10)), sized("b", 20, Some(10))];
        assert_eq!(
            ClassTable::new(1, table, PLAIN).unwrap_err().to_string(),
            "class 2 (\"b\"): no size is from 20 below 10: the second number must be larger"
        );
        assert_eq!(problem(vec![sized("", 0, Some(1))]), Problem::Name);
        assert_eq!(problem(vec![sized("rest", 0, Some(1))]), Problem::NameTaken);
        let twice = vec![sized("a", 0, Some(1)), sized("a", 1, Some(2))];
        assert_eq!(problem(twice), Problem::NameTaken);
        let hidden = vec![sized("a", 0, Some(100)), sized("b", 5, Some(50))];
        assert_eq!(problem(hidden), Problem::Unreachable("a".into()));
        let many = (0..=CLASSES_MAX as u64).map(|i| sized(&format!("c{i}"), i, Some(i + 1)));
        assert_eq!(problem(many.collect()), Problem::TooMany);
        let typed = |count| {
            let mut class = sized("typed", 0, None);
            class.criteria.types = vec!["a/b".parse().unwrap(); count];
            vec![class]
        };
        assert!(ClassTable::new(1, typed(PATTERNS_MAX), PLAIN).is_ok());
        assert_eq!(problem(typed(PATTERNS_MAX + 1)), Problem::TooManyPatterns);
        let rest = vec![sized("a", 0, Some(1)), sized("rest", 0, Some(10))];
        let wrong = ClassTable::of_classes(1, rest).unwrap_err();
        assert_eq!((wrong.number, wrong.problem), (2, Problem::RestWithCriteria));
        let local = Policy { lookup: Lookup::Local, ..PLAIN };
        assert_eq!(
            ClassTable::new(1, Vec::new(), local).unwrap_err().problem,
            Problem::Policy(Contradiction::LocalWithoutReplication)
        );
    }

    #[test]
    fn a_class_of_unknown_sizes_is_reached_behind_one_of_all_known_sizes_from_1() {
        let table = vec![sized("known", 1, None), sized("all", 0, None)];
        let table = ClassTable::new(1, table, PLAIN).unwrap();
        assert_eq!(&*table.classify(&DocumentFacts::default()).name, "all");
    }
}
