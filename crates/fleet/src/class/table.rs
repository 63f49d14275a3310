//! Ordered table of document classes with the policy of each.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::class::criteria::{Bounds, Criteria, DocumentFacts};
use crate::class::policy::{Contradiction, Policy};

/// Maximum classes of a table: each request tries them in order, and each is counted in the
/// metrics.
pub const CLASSES_MAX: usize = 64;

/// Maximum patterns (types and hosts) of a table: a request may be compared with all of them.
pub const PATTERNS_MAX: usize = 1024;

/// Name of the last class, which takes the documents that no other class takes.
pub const REST: &str = "rest";

/// A class of documents. The default takes all documents, by [`Policy::DEFAULT`], and has no name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// Name that operators use.
    pub name: Box<str>,
    /// Documents that belong to it.
    pub criteria: Criteria,
    /// How they are treated.
    pub policy: Policy,
}

/// Why a table was rejected: the class, and the problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidTable {
    /// Position of the class in the table, from 1; [`ClassTable::rest`] is the last.
    pub number: usize,
    /// Name of the class.
    pub name: Box<str>,
    /// Problem with the class.
    pub problem: Problem,
}

/// Problem with a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It exceeds [`CLASSES_MAX`].
    TooMany,
    /// Its patterns exceed [`PATTERNS_MAX`].
    TooManyPatterns,
    /// It is the last class, [`REST`], and has criteria.
    RestWithCriteria,
    /// Its name is empty, too long, or has a disallowed character.
    Name,
    /// Its name is that of another class, or [`REST`].
    NameTaken,
    /// Its size range is empty.
    NoSize(Bounds),
    /// Its request range is empty.
    NoRequests(Bounds),
    /// An earlier class, named here, takes all of its documents.
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

/// Classes of a fleet's documents. Cloning is cheap: clones share the list.
#[derive(Clone, Debug)]
pub struct ClassTable {
    version: u64,
    /// Never empty; the last class accepts every document.
    classes: Arc<[Class]>,
    /// True if a class depends on facts that only an answer tells.
    depends_on_answers: bool,
    /// True if a class depends on how often a document was requested.
    depends_on_requests: bool,
}

impl ClassTable {
    /// Makes a table; `rest` is the policy of documents that belong to none of `classes`. A higher
    /// `version` is newer.
    ///
    /// # Errors
    ///
    /// The first class that was rejected, with the reason.
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
        let any = |is_so: fn(&Criteria) -> bool| classes.iter().any(|class| is_so(&class.criteria));
        Ok(ClassTable {
            version,
            depends_on_answers: any(Criteria::depend_on_answers),
            depends_on_requests: any(Criteria::depend_on_requests),
            classes: classes.into(),
        })
    }

    /// Makes a table from classes in written order. The last may be called [`REST`] and takes the
    /// remaining documents; without it they follow [`Policy::DEFAULT`].
    ///
    /// # Errors
    ///
    /// Those of [`ClassTable::new`], and criteria on a last class called [`REST`].
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
        ClassTable { version, ..self.clone() }
    }

    /// Returns the version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns whether the class of a document may depend on its size or type, which only an answer
    /// tells.
    pub fn depends_on_answers(&self) -> bool {
        self.depends_on_answers
    }

    /// Returns whether the class of a document may depend on how often it was requested lately.
    pub fn depends_on_requests(&self) -> bool {
        self.depends_on_requests
    }

    /// Returns the class of a document: the first whose criteria it meets.
    pub fn classify(&self, document: &DocumentFacts<'_>) -> &Class {
        let found = self.classes.iter().find(|class| class.criteria.match_document(document));
        found.unwrap_or_else(|| self.rest())
    }

    /// Returns the class of documents that belong to no other.
    pub fn rest(&self) -> &Class {
        &self.classes[self.classes.len() - 1]
    }

    /// Returns all classes in order, [`ClassTable::rest`] last.
    pub fn iter(&self) -> std::slice::Iter<'_, Class> {
        self.classes.iter()
    }
}

/// Checks one class against the earlier ones.
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

/// Checks that a name is short, uses allowed characters, and is not taken.
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
        lookup: Lookup::OWNER,
        copies: Copies::Exclusive,
        eviction: Eviction::DROP,
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
    fn problems_name_their_class() {
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
        let local = Policy { lookup: Lookup::LOCAL, ..PLAIN };
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
