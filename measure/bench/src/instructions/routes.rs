//! The kinds of requests whose instructions are counted: the rows of the table.

use crate::object::ServedFrom;

/// Counted windows of requests, after one warm-up window.
pub const WINDOWS: u64 = 3;

/// One row of the table.
pub struct Route {
    /// Name in the table.
    pub name: &'static str,
    /// First part of the path, by which the origin chooses its fields: `store`, `vary` or `pass`.
    pub word: &'static str,
    /// Bytes of every body.
    pub size: usize,
    /// Number of objects fetched before counting.
    pub fill: u64,
    /// The objects requested while instructions are counted.
    pub objects: Objects,
    /// Requests per window.
    pub requests: u64,
    /// `--memory`, MiB.
    pub memory_mib: u64,
    /// Where counted responses come from; `None` for files, whose responses do not say.
    pub from: Option<ServedFrom>,
    /// Configuration of larder.
    pub setup: Setup,
    /// Protocol of the client.
    pub protocol: Protocol,
    /// Kind of request.
    pub question: Question,
    /// Growth over the table's count, in percent, that `--check` permits: 3, or more where three
    /// runs of one program differ by more than 1 percent.
    pub tolerance: u64,
}

/// The objects to be requested.
#[derive(Clone, Copy)]
pub enum Objects {
    /// The first ones, up to this number, repeatedly.
    Repeated(u64),
    /// Those that were stored neither first nor last, each once in a scattered order: they have
    /// left memory.
    Scattered,
    /// Objects that were never requested.
    New,
    /// Those of the fill that only the other node has, repeatedly.
    AtOtherNode,
}

/// Configuration of larder.
#[derive(Clone, Copy, PartialEq)]
pub enum Setup {
    /// A reverse proxy without further settings.
    Bare,
    /// This number of rules, none of which matches.
    Rules(u64),
    /// 1,000 rules, of which ten match and are taken together; each edits the query, a field of the
    /// request or a field of the response.
    RulesTogether,
    /// `forwarded.trust` of a network from which no client comes.
    Trust,
    /// An additional site of files for another host.
    Site,
    /// A fleet of one node.
    Fleet,
    /// A fleet of two nodes that keep documents at their owners; the given node is counted.
    TwoNodes(Counted),
    /// A web server over files.
    Static,
    /// Ten rules, of which three match; the first of these decides and edits one request field and
    /// one response field. The client is a trusted proxy. There are an additional site of files and
    /// an access log in JSON.
    Realistic,
}

/// Which of two nodes is counted.
#[derive(Clone, Copy, PartialEq)]
pub enum Counted {
    /// The one that receives the client's requests.
    Asking,
    /// The one that has the documents.
    Answering,
}

/// Protocol of the client.
#[derive(Clone, Copy, PartialEq)]
pub enum Protocol {
    /// HTTP/1.1 without TLS.
    Plain,
    /// HTTP/1.1 over TLS 1.3.
    Tls,
    /// HTTP/2 over TLS 1.3.
    Http2,
}

/// Kind of request.
#[derive(Clone, Copy, PartialEq)]
pub enum Question {
    /// The object, with no field but `Host`.
    Whole,
    /// The object, with an `Accept-Encoding`.
    Encoded,
    /// A conditional request for an object that has not changed.
    Changed,
    /// The first hundred bytes.
    Range,
    /// The object, with the fields that Chrome sends and those of a proxy before larder.
    Browser,
}

const HIT: Route = Route {
    name: "hit from memory, 3 KB",
    word: "store",
    size: 3_000,
    fill: 100,
    objects: Objects::Repeated(100),
    requests: 1_000,
    memory_mib: 64,
    from: Some(ServedFrom::Memory),
    setup: Setup::Bare,
    protocol: Protocol::Plain,
    question: Question::Whole,
    tolerance: 3,
};

const MISS: Route = Route {
    name: "miss + store, 3 KB",
    fill: 1_000,
    objects: Objects::New,
    from: Some(ServedFrom::Origin),
    tolerance: 6,
    ..HIT
};

const FROM_DISK: Route = Route {
    name: "hit from disk, 11 KB",
    size: 11_000,
    fill: 8_000,
    objects: Objects::Scattered,
    requests: 800,
    memory_mib: 16,
    from: Some(ServedFrom::Disk),
    tolerance: 40,
    ..HIT
};

const FROM_PEER: Route = Route {
    name: "hit at another node, asking node",
    fill: 200,
    objects: Objects::AtOtherNode,
    from: Some(ServedFrom::Peer),
    setup: Setup::TwoNodes(Counted::Asking),
    tolerance: 6,
    ..HIT
};

const REALISTIC: Route = Route {
    name: "hit, realistic configuration",
    setup: Setup::Realistic,
    question: Question::Browser,
    ..HIT
};

/// The rows of the table, in its order.
pub const ROUTES: &[Route] = &[
    HIT,
    Route { name: "hit, 1 rule without a match", setup: Setup::Rules(1), ..HIT },
    Route { name: "hit, 1,000 rules without a match", setup: Setup::Rules(1_000), ..HIT },
    Route { name: "hit, 1,000 rules, ten match", setup: Setup::RulesTogether, ..HIT },
    Route { name: "hit, forwarded.trust", setup: Setup::Trust, ..HIT },
    Route { name: "hit, static site beside", setup: Setup::Site, ..HIT },
    Route { name: "hit, fleet of one node", setup: Setup::Fleet, ..HIT },
    REALISTIC,
    Route { name: "hit, realistic, HTTP/2 over TLS", protocol: Protocol::Http2, ..REALISTIC },
    Route { name: "hit, HTTP/1.1 over TLS 1.3", protocol: Protocol::Tls, ..HIT },
    Route {
        name: "hit, HTTP/2 over TLS",
        protocol: Protocol::Http2,
        question: Question::Browser,
        ..HIT
    },
    Route {
        name: "hit from memory under Vary, 3 KB",
        word: "vary",
        question: Question::Encoded,
        ..HIT
    },
    Route { name: "hit, 304", question: Question::Changed, ..HIT },
    Route { name: "hit, range of 100 bytes", question: Question::Range, ..HIT },
    FROM_DISK,
    Route {
        name: "hit from memory, 1 MB",
        size: 1_000_000,
        fill: 4,
        objects: Objects::Repeated(4),
        requests: 40,
        tolerance: 6,
        ..HIT
    },
    Route {
        name: "hit from disk, 1 MB",
        size: 1_000_000,
        fill: 200,
        requests: 25,
        tolerance: 6,
        ..FROM_DISK
    },
    FROM_PEER,
    Route {
        name: "hit at another node, answering node",
        setup: Setup::TwoNodes(Counted::Answering),
        ..FROM_PEER
    },
    Route { name: "file, 3 KB", from: None, setup: Setup::Static, ..HIT },
    Route {
        name: "proxied, not stored, 3 KB",
        word: "pass",
        from: Some(ServedFrom::Origin),
        ..HIT
    },
    MISS,
    Route { name: "miss + store, 1 rule without a match", setup: Setup::Rules(1), ..MISS },
];

impl Route {
    /// Returns the object of request `number`; `at_other_node` lists those that only the other node
    /// has.
    pub fn object(&self, number: u64, at_other_node: &[u64]) -> u64 {
        match self.objects {
            Objects::Repeated(objects) => number % objects,
            // A prime that divides no `fill`, so that no object is repeated.
            Objects::Scattered => self.fill / 4 + (number * 1_009) % (self.fill / 2),
            Objects::New => self.fill + number,
            Objects::AtOtherNode => at_other_node[number as usize % at_other_node.len()],
        }
    }

    /// Returns the maximum number of attempts at a window. A node under callgrind that is slow once
    /// is skipped by the other for a while, and that window counts a different path.
    pub fn tries(&self) -> usize {
        if matches!(self.objects, Objects::AtOtherNode) { 5 } else { 1 }
    }

    /// Returns the path of an object, which tells the origin how to respond.
    pub fn path(&self, object: u64) -> String {
        format!("/{}/{}/{object}", self.word, self.size)
    }
}

#[test]
fn scattered_objects_come_once_and_are_enough() {
    for route in ROUTES.iter().filter(|route| matches!(route.objects, Objects::Scattered)) {
        let asked = (1 + WINDOWS) * route.requests;
        let objects: std::collections::BTreeSet<u64> =
            (0..asked).map(|n| route.object(n, &[])).collect();
        assert_eq!(objects.len() as u64, asked, "{}", route.name);
        assert!(objects.iter().all(|object| *object < route.fill * 3 / 4), "{}", route.name);
    }
}

#[test]
fn names_are_different() {
    let names: std::collections::BTreeSet<&str> = ROUTES.iter().map(|route| route.name).collect();
    assert_eq!(names.len(), ROUTES.len());
}
