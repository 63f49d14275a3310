//! Intended differences between an older program and this one.

use std::cell::Cell;

use crate::difference::{Difference, Place};

/// Differences of one kind. `*` matches any text.
pub struct Intended {
    /// The configuration and the case, such as `bare/damage *`.
    pub cases: &'static str,
    /// Where they are observed.
    pub place: Place,
    /// The lines that only the older program has.
    pub old: &'static str,
    /// The lines that only this program has.
    pub new: &'static str,
    /// The reason why this is better.
    pub why: &'static str,
}

/// All intended differences.
pub const INTENDED: &[Intended] = &[
    Intended {
        cases: "*/HTTP/1.0 *",
        place: Place::Client,
        old: "",
        new: "connection: close",
        why: "a connection that is closed says so to old clients, too (RFC 9112, 9.6)",
    },
    Intended {
        cases: "*/target plain at *",
        place: Place::Client,
        old: "*This is a forward proxy: *",
        new: "*The target of a request is a path that begins with a slash.*",
        why: "a reverse proxy does not say that it is a forward proxy",
    },
    Intended {
        cases: "*/target ?plain at *",
        place: Place::Client,
        old: "connection: close*",
        new: "cache-control: no-store*INVALID(target)*",
        why: "a target that is no path is told so, and its connection stays",
    },
    Intended {
        cases: "*/target /plainé at *",
        place: Place::Client,
        old: "HTTP/1.1 400*",
        new: "HTTP/1.1 200*",
        why: "bytes beyond ASCII are percent-encoded on their way (RFC 3986, 2.1)",
    },
    Intended {
        cases: "*/target /plainé at *",
        place: Place::Client,
        old: "connection: close*",
        new: "cache-control: no-store*INVALID(host)*",
        why: "its path is good, its host is not",
    },
    Intended {
        cases: "*/target /plainé at *",
        place: Place::Origin,
        old: "",
        new: "GET /plain%E9 HTTP/1.1*",
        why: "bytes beyond ASCII are percent-encoded on their way (RFC 3986, 2.1)",
    },
    Intended {
        cases: "*/target http://*",
        place: Place::Client,
        old: "HTTP/1.1 400*INVALID(host)*",
        new: "HTTP/1.1 200*",
        why: "the URL counts, whichever host Host names (RFC 9112, 3.2.2)",
    },
    Intended {
        cases: "*/target http://*",
        place: Place::Client,
        old: "content-length: 64*",
        new: "content-length: 35*The Host field is not a host name.*",
        why: "the URL counts, but Host must be one",
    },
    Intended {
        cases: "*/target http://*",
        place: Place::Origin,
        old: "",
        new: "GET /plain HTTP/1.1*",
        why: "the URL counts, whichever host Host names (RFC 9112, 3.2.2)",
    },
    Intended {
        cases: "*/target * to target *",
        place: Place::Metrics,
        old: "*",
        new: "*",
        why: "what these targets become is counted",
    },
    Intended {
        cases: "*/smuggling Content-Length: 2 to the 64th, less 1*",
        place: Place::Client,
        old: "HTTP/1.1 431*",
        new: "HTTP/1.1 400*INVALID(body)*",
        why: "a length beyond all bodies is no matter of the head's size",
    },
    Intended {
        cases: "*",
        place: Place::Client,
        old: "content-length: *are not framed as RFC 9112 has it.",
        new: "content-length: *The request's body broke off or is not framed as HTTP has it.",
        why: "one text for all bodies that cannot be read",
    },
    Intended {
        cases: "*/smuggling Content-Length and Transfer-Encoding: a length that is wrong*",
        place: Place::Client,
        old: "HTTP/1.1 200 OK*",
        new: "HTTP/1.1 400 Bad Request*",
        why: "a length that is no number is refused beside chunks, too",
    },
    Intended {
        cases: "*/smuggling Content-Length and Transfer-Encoding: a length that is wrong*",
        place: Place::Origin,
        old: "POST *",
        new: "",
        why: "a length that is no number is refused beside chunks, too",
    },
    Intended {
        cases: "*/smuggling HTTP/1.0 and before: *",
        place: Place::Client,
        old: "",
        new: "connection: close",
        why: "a connection that is closed says so to old clients, too (RFC 9112, 9.6)",
    },
    Intended {
        cases: "*/smuggling * to smuggling *",
        place: Place::Metrics,
        old: "*",
        new: "*",
        why: "what these requests become is counted",
    },
    Intended {
        cases: "*/smuggling Ends of chunks and of bodies: LF *",
        place: Place::Client,
        old: "HTTP/1.1 200 OK*",
        new: "HTTP/1.1 400 Bad Request*INVALID(body)*",
        why: "a body ends with CRLF (RFC 9112, 7.1)",
    },
    Intended {
        cases: "*/smuggling Ends of chunks and of bodies: LF *",
        place: Place::Origin,
        old: "POST *",
        new: "",
        why: "a body ends with CRLF (RFC 9112, 7.1)",
    },
    Intended {
        cases: "*/smuggling Lines: the preface of HTTP/2",
        place: Place::Client,
        old: "",
        new: "HTTP/1.1 400 Bad Request*",
        why: "a preface that is not expected is a request that cannot be read",
    },
    Intended {
        cases: "*/smuggling Fields: 100-continue, and the body at once",
        place: Place::Client,
        old: "HTTP/1.1 100 Continue*",
        new: "",
        why: "a body that is there is not asked for (RFC 9110, 10.1.1)",
    },
    Intended {
        cases: "*/smuggling Host: a URL with another *",
        place: Place::Client,
        old: "HTTP/1.1 400*INVALID(host)*",
        new: "*",
        why: "the URL counts, whichever host Host names (RFC 9112, 3.2.2)",
    },
    Intended {
        cases: "*/smuggling Host: a URL with another *",
        place: Place::Origin,
        old: "",
        new: "GET /c*",
        why: "the URL counts, whichever host Host names (RFC 9112, 3.2.2)",
    },
    Intended {
        cases: "*/smuggling Targets: no slash*",
        place: Place::Client,
        old: "connection: close*",
        new: "cache-control: no-store*INVALID(target)*",
        why: "a target that is no path is told so, and its connection stays",
    },
    Intended {
        cases: "*/smuggling Targets: no slash*",
        place: Place::Origin,
        old: "",
        new: "GET /c*",
        why: "a target that is no path is told so, and its connection stays",
    },
    Intended {
        cases: "*/smuggling Targets: bytes beyond ASCII*",
        place: Place::Client,
        old: "HTTP/1.1 400*",
        new: "HTTP/1.1 200*",
        why: "bytes beyond ASCII are percent-encoded on their way (RFC 3986, 2.1)",
    },
    Intended {
        cases: "*/smuggling Targets: bytes beyond ASCII*",
        place: Place::Origin,
        old: "",
        new: "GET /c*%E9 HTTP/1.1*",
        why: "bytes beyond ASCII are percent-encoded on their way (RFC 3986, 2.1)",
    },
    Intended {
        cases: "*/answer Answers before the answer: 103 with a length*",
        place: Place::Client,
        old: "content-length: 4",
        new: "",
        why: "1xx responses have no length (RFC 9110, 8.6)",
    },
    Intended {
        cases: "*/damage *",
        place: Place::Client,
        old: "connection: close*",
        new: "cache-control: no-store*INVALID(target)*",
        why: "a target that is no path is told so, and its connection stays",
    },
    Intended {
        cases: "*/damage *",
        place: Place::Client,
        old: "HTTP/1.1 400*",
        new: "HTTP/1.1 200*",
        why: "bytes beyond ASCII are percent-encoded on their way (RFC 3986, 2.1)",
    },
    Intended {
        cases: "*/damage *",
        place: Place::Origin,
        old: "",
        new: "GET /*",
        why: "bytes beyond ASCII are percent-encoded on their way (RFC 3986, 2.1)",
    },
    Intended {
        cases: "*/damage * to damage *",
        place: Place::Metrics,
        old: "*",
        new: "*",
        why: "what these requests become is counted",
    },
    Intended {
        cases: "*/smuggling Chunk sizes and extensions: *",
        place: Place::Client,
        old: "",
        new: "connection: close",
        why: "what was ambiguous ends its connection, and says so",
    },
    Intended {
        cases: "*/smuggling Ends of chunks and of bodies: nothing behind the last size*",
        place: Place::Client,
        old: "",
        new: "connection: close",
        why: "what was ambiguous ends its connection, and says so",
    },
    Intended {
        cases: "*/damage *",
        place: Place::Client,
        old: "connection: close*content-length: 0*",
        new: "",
        why: "a malformed line in a later read is found when its head has ended, or is late",
    },
    Intended {
        cases: "*/damage *",
        place: Place::Client,
        old: "*content-length: 0*",
        new: "*INVALID(body)*",
        why: "bytes beyond ASCII are percent-encoded on their way (RFC 3986, 2.1)",
    },
    Intended {
        cases: "*/target * at a%41",
        place: Place::Client,
        old: "*",
        new: "*INVALID(host)*",
        why: "a percent-encoded host names no server",
    },
    Intended {
        cases: "*/target * at a%41",
        place: Place::Origin,
        old: "GET *",
        new: "",
        why: "a percent-encoded host names no server",
    },
    Intended {
        cases: "*/variant * to target *",
        place: Place::Metrics,
        old: "*",
        new: "*",
        why: "what these targets become is counted",
    },
];

/// The table, with the number of occurrences of each entry.
pub struct Uses {
    table: &'static [Intended],
    counts: Vec<Cell<usize>>,
}

impl Uses {
    /// Returns the table with all counts at zero.
    pub fn of(table: &'static [Intended]) -> Uses {
        Uses { table, counts: table.iter().map(|_| Cell::new(0)).collect() }
    }

    /// Returns whether a difference is intended, and counts it.
    pub fn covers(&self, difference: &Difference) -> bool {
        let at = self.table.iter().position(|intended| {
            intended.place == difference.place
                && fits(intended.cases, &difference.case)
                && fits(intended.old, &difference.old)
                && fits(intended.new, &difference.new)
        });
        at.inspect(|at| self.counts[*at].set(self.counts[*at].get() + 1)).is_some()
    }

    /// Prints the number of occurrences of each entry.
    pub fn print(&self) {
        for (intended, count) in self.table.iter().zip(&self.counts) {
            let Intended { cases, place, why, .. } = intended;
            match count.get() {
                0 => eprintln!("UNUSED: {cases} ({place:?}): {why}"),
                count => eprintln!("intended, {count} times: {cases} ({place:?}): {why}"),
            }
        }
    }
}

/// Returns whether `text` matches `pattern`, in which `*` matches any text.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(begin) else { return false };
    let starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    rest.is_empty() || starts.into_iter().any(|at| fits(rest, &text[at..]))
}

#[test]
fn patterns_fit_texts() {
    for (pattern, text, is) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("a*", "ab", true),
        ("*b*d", "abcd", true),
        ("*b*d", "abcde", false),
        ("HTTP/1.1 400 *", "HTTP/1.1 431 x", false),
        ("", "", true),
    ] {
        assert_eq!(fits(pattern, text), is, "{pattern} {text}");
    }
}

#[test]
fn an_intended_difference_is_counted_and_another_is_not_covered() {
    const TABLE: &[Intended] = &[Intended {
        cases: "bare/*",
        place: Place::Client,
        old: "HTTP/1.1 400 *",
        new: "HTTP/1.1 431 *",
        why: "a test",
    }];
    let uses = Uses::of(TABLE);
    let difference = |case: &str, new: &str| Difference {
        case: case.to_owned(),
        place: Place::Client,
        old: "HTTP/1.1 400 Bad Request".to_owned(),
        new: new.to_owned(),
        detail: String::new(),
    };
    assert!(uses.covers(&difference("bare/x", "HTTP/1.1 431 y")));
    assert!(!uses.covers(&difference("bare/x", "HTTP/1.1 414 y")));
    assert!(!uses.covers(&difference("trust/x", "HTTP/1.1 431 y")));
    assert_eq!(uses.counts[0].get(), 1);
}
