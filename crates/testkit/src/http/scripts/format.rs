//! The language of the scripts.
//!
//! ```text
//! test s-maxage outranks max-age (RFC 9111, 4.2.1)      a test, and the section it checks
//!   via forward                                         through the forward proxy (else reverse)
//!   via rules                                           or the reverse one with `rules.toml`
//!   via rfc                                             or the reverse one with `rfc.toml`
//!   GET ?x=1                                            a request below the test's own path
//!     Accept: a                                         with a field
//!     from 10.0.0.5                                     from this address (virtual time only)
//!     clients 3                                         from so many clients at the same time
//!   origin 200                                          the origin's response to a request
//!     Cache-Control: s-maxage=60, max-age=0             (`origin down`: it closes the connection;
//!                                                       `origin silent`: it never responds)
//!   seen                                                the request the origin must get
//!     no If-None-Match
//!   answer 200 fetched                                  the response the client must get
//!   wait 2                                              seconds (more than 10 in a test: it is
//!                                                       played in virtual time only)
//!   GET ?x=1
//!   answer 200 cached
//!     Age: 2..4
//! ```
//!
//! How a response comes about: `cached` (no request reaches the origin), `fetched` (one without a
//! condition does), `validated` (one with a condition does), `asked` (either of these); with
//! `behind` the origin gets the request after the client has its response. `cached` and `validated`
//! demand the body that the origin sent before, `fetched` the one that it sends now, unless a line
//! `body TEXT` states the body.
//!
//! An expected field: `Name: value`, `Name: 2..4` (a number in this range), `Name: ~ text`
//! (contains), `Name: !~ text` (does not contain), `Name: *` (is present), `no Name`. `interim 103
//! Name: value` is a 1xx response that the origin sends, or the client must get; `trailer Name:
//! value` likewise.
//!
//! In the scripts of the cookbook the origin has one test at a time: requests name whole paths, or
//! URLs with a host.
//!
//! In values `{path}` is the test's path, `{url}` its URL, `{host}` its host, `{origin}` the
//! origin's address, and `{date-100}` an HTTP date 100 seconds ago; `{rfc850+100}` and
//! `{asctime+100}` are the old forms. In configurations `{origin}` is that address as well.

use std::fmt;
use std::net::IpAddr;

/// A place in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the file.
    pub file: String,
    /// Number of the line, from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A proxy that tests go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// A reverse proxy without any setting.
    Reverse,
    /// A forward proxy without any setting.
    Forward,
    /// A reverse proxy with the rules of `rules.toml`.
    Rules,
    /// A reverse proxy that stores and shares everything that RFC 9111 permits (`rfc.toml`).
    Rfc,
}

/// One test.
#[derive(Clone, Debug)]
pub struct Test {
    pub place: Place,
    /// The statement that it tests, without the reference.
    pub name: String,
    /// The section that it cites.
    pub cites: String,
    /// The proxy that it goes through.
    pub front: Front,
    pub steps: Vec<Step>,
}

impl Test {
    /// Returns whether it waits so long that it is played in virtual time only.
    pub fn is_long(&self) -> bool {
        self.waits() > 10
    }

    /// Returns the seconds that it waits.
    pub fn waits(&self) -> u64 {
        let waits = self.steps.iter().map(|step| match step {
            Step::Wait(seconds) => *seconds,
            Step::Exchange(_) => 0,
        });
        waits.sum()
    }
}

/// One step of a test.
#[derive(Clone, Debug)]
pub enum Step {
    Exchange(Exchange),
    Wait(u64),
}

/// A request with its plans and expectations.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub place: Place,
    pub method: String,
    /// Suffix of the test's path, or a whole URL.
    pub suffix: String,
    /// The client's address, if it matters.
    pub from: Option<IpAddr>,
    /// Number of clients that send the request at the same time.
    pub clients: usize,
    pub fields: Vec<(String, String)>,
    pub body: Option<String>,
    pub plans: Vec<Plan>,
    /// Expectations on the request that the origin receives.
    pub seen: Vec<Expected>,
    pub status: u16,
    pub way: Way,
    /// True if the origin gets a request after the response.
    pub behind: bool,
    pub answer: Vec<Expected>,
}

/// How a response must come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Cached,
    Fetched,
    Validated,
    Asked,
    /// Unspecified.
    Any,
}

/// A response of the origin.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// `None`: it closes the connection without a byte, at every request.
    pub status: Option<u16>,
    /// True if it never responds.
    pub silent: bool,
    pub fields: Vec<(String, String)>,
    pub no_date: bool,
    pub body: Option<String>,
    pub interim: Vec<(u16, String)>,
    pub trailers: Vec<String>,
}

/// An expectation on a message.
#[derive(Clone, Debug)]
pub struct Expected {
    pub place: Place,
    pub what: What,
}

/// Kind of an [`Expected`].
#[derive(Clone, Debug)]
pub enum What {
    Field(String, String),
    None(String),
    Body(String),
    Interim(u16, String),
    Trailer(String, String),
}

/// An error in a script.
pub struct Problem(Place, String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0, self.1)
    }
}

/// The block to which the next lines belong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Request,
    Origin,
    Seen,
    Answer,
}

struct Parser {
    tests: Vec<Test>,
    block: Option<Block>,
    place: Place,
}

/// Parses a script.
pub fn parse(file: &str, text: &str) -> Result<Vec<Test>, Problem> {
    let place = Place { file: file.to_owned(), line: 0 };
    let mut parser = Parser { tests: Vec::new(), block: None, place };
    for line in text.lines() {
        parser.place.line += 1;
        let line = line.trim();
        if !(line.is_empty() || line.starts_with('#')) {
            parser.line(line).map_err(|why| Problem(parser.place.clone(), why))?;
        }
    }
    Ok(parser.tests)
}

impl Parser {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        if word == "test" {
            return self.begin(rest);
        }
        let place = self.place.clone();
        let test = self.tests.last_mut().ok_or("before the first `test`")?;
        match word {
            "via" if rest == "forward" => test.front = Front::Forward,
            "via" if rest == "rules" => test.front = Front::Rules,
            "via" if rest == "rfc" => test.front = Front::Rfc,
            "wait" => {
                let seconds = rest.parse().map_err(|_| "`wait` takes seconds")?;
                test.steps.push(Step::Wait(seconds));
            }
            _ if word.len() > 2 && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'-') => {
                test.steps.push(Step::Exchange(Exchange {
                    place,
                    method: word.to_owned(),
                    suffix: rest.to_owned(),
                    from: None,
                    clients: 1,
                    fields: Vec::new(),
                    body: None,
                    plans: Vec::new(),
                    seen: Vec::new(),
                    status: 0,
                    way: Way::Any,
                    behind: false,
                    answer: Vec::new(),
                }));
                self.block = Some(Block::Request);
            }
            _ => return self.detail(word, rest, line),
        }
        Ok(())
    }

    fn begin(&mut self, rest: &str) -> Result<(), String> {
        let cited = rest.strip_suffix(')').and_then(|rest| rest.rsplit_once(" ("));
        let cited =
            cited.filter(|(_, cites)| cites.starts_with("RFC ") || cites.starts_with("docs/"));
        let (name, cites) = cited.ok_or("a test ends with its section: (RFC 9111, 4.2.1)")?;
        self.block = None;
        self.tests.push(Test {
            place: self.place.clone(),
            name: name.to_owned(),
            cites: cites.to_owned(),
            front: Front::Reverse,
            steps: Vec::new(),
        });
        Ok(())
    }

    fn detail(&mut self, word: &str, rest: &str, line: &str) -> Result<(), String> {
        let place = self.place.clone();
        let last = self.tests.last_mut().and_then(|test| test.steps.last_mut());
        let Some(Step::Exchange(exchange)) = last else { return Err("no request yet".into()) };
        match (word, self.block) {
            ("origin", _) => {
                exchange.plans.push(plan(rest)?);
                self.block = Some(Block::Origin);
            }
            ("seen", _) => self.block = Some(Block::Seen),
            ("answer", _) => {
                answer(exchange, rest)?;
                self.block = Some(Block::Answer);
            }
            ("body", Some(Block::Request)) => exchange.body = Some(rest.to_owned()),
            ("from", Some(Block::Request)) => {
                exchange.from = Some(rest.parse().map_err(|_| "`from` takes an address")?);
            }
            ("clients", Some(Block::Request)) => {
                exchange.clients = rest.parse().map_err(|_| "`clients` takes a number")?;
            }
            (_, Some(Block::Request)) => exchange.fields.push(field(line)?),
            (_, Some(Block::Origin)) => {
                let plan = exchange.plans.last_mut().ok_or("no `origin`")?;
                plan_detail(plan, word, rest, line)?;
            }
            (_, Some(Block::Seen)) => exchange.seen.push(expected(place, word, rest, line)?),
            (_, Some(Block::Answer)) => exchange.answer.push(expected(place, word, rest, line)?),
            (_, None) => return Err(format!("what is {line:?}?")),
        }
        Ok(())
    }
}

fn field(line: &str) -> Result<(String, String), String> {
    let (name, value) = line.split_once(':').ok_or_else(|| format!("what is {line:?}?"))?;
    Ok((name.to_owned(), value.trim().to_owned()))
}

fn plan(rest: &str) -> Result<Plan, String> {
    let silent = rest == "silent";
    let status = match rest {
        "down" => None,
        "silent" => Some(500),
        code => Some(code.parse().map_err(|_| "`origin` takes a status, `down` or `silent`")?),
    };
    Ok(Plan { status, silent, ..Plan::default() })
}

fn plan_detail(plan: &mut Plan, word: &str, rest: &str, line: &str) -> Result<(), String> {
    match word {
        "body" => plan.body = Some(rest.to_owned()),
        "no" if rest == "Date" => plan.no_date = true,
        "interim" => plan.interim.push(interim(rest)?),
        "trailer" => plan.trailers.push(rest.to_owned()),
        _ => plan.fields.push(field(line)?),
    }
    Ok(())
}

fn interim(rest: &str) -> Result<(u16, String), String> {
    let (status, field) = rest.split_once(' ').unwrap_or((rest, ""));
    Ok((status.parse().map_err(|_| "`interim` takes a status")?, field.to_owned()))
}

fn answer(exchange: &mut Exchange, rest: &str) -> Result<(), String> {
    for word in rest.split(' ') {
        match word {
            "cached" => exchange.way = Way::Cached,
            "fetched" => exchange.way = Way::Fetched,
            "validated" => exchange.way = Way::Validated,
            "asked" => exchange.way = Way::Asked,
            "behind" => exchange.behind = true,
            code => exchange.status = code.parse().map_err(|_| format!("what is {code:?}?"))?,
        }
    }
    Ok(())
}

fn expected(place: Place, word: &str, rest: &str, line: &str) -> Result<Expected, String> {
    let what = match word {
        "no" => What::None(rest.to_owned()),
        "body" => What::Body(rest.to_owned()),
        "interim" => {
            let (status, field) = interim(rest)?;
            What::Interim(status, field)
        }
        "trailer" => {
            let (name, value) = field(rest)?;
            What::Trailer(name, value)
        }
        _ => {
            let (name, value) = field(line)?;
            What::Field(name, value)
        }
    };
    Ok(Expected { place, what })
}
