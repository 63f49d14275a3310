//! The cases that are played on HTTP/1 connections: pages in many forms, and requests and responses
//! that parsers may read differently. The selection of cases and their damage follow from a seed.

use testkit::random::Random;

use crate::case::Case;
use crate::origin::Plan;
use crate::pages::{ANSWERS, FIELDS, HOSTS, METHODS, QUERIES, SELECTING, TARGETS, VARYING, get};
use crate::wire::{bytes, fill_in};
use crate::{answers, requests};

/// Returns cases that request every page twice, so that it is stored.
pub fn fill() -> Vec<Case> {
    let pages = ANSWERS.iter().flat_map(|(path, _)| QUERIES.map(|query| format!("{path}{query}")));
    let twice = pages.flat_map(|page| [page.clone(), page]);
    twice.map(|page| Case { either_framing: true, ..page_case("fill", &page, "") }).collect()
}

fn page_case(kind: &str, target: &str, fields: &str) -> Case {
    Case::new(format!("{kind} {target} {}", fields.escape_debug()), get(target, fields))
}

/// Returns every page with every set of fields, every method, every variant, and every target on
/// every host.
pub fn pages() -> Vec<Case> {
    let mut cases = Vec::new();
    for (path, _) in ANSWERS {
        cases.extend(FIELDS.iter().map(|fields| page_case("page", path, fields)));
        for method in METHODS {
            let text = format!("{method} {path} HTTP/1.1\r\nHost: a.example\r\n\r\n");
            cases.push(Case::new(format!("method {method} {path}"), text));
        }
        let old = format!("GET {path} HTTP/1.0\r\nHost: a.example\r\n\r\n");
        cases.push(Case::new(format!("HTTP/1.0 {path}"), old));
        cases.push(Case { waits: true, ..page_case("kept open", path, "") });
    }
    for path in VARYING {
        for fields in SELECTING.iter().chain(SELECTING.iter().rev()) {
            cases.push(page_case("variant", path, fields));
            let twice = get(path, fields).repeat(2);
            cases.push(Case::new(format!("variant twice {path} {}", fields.escape_debug()), twice));
        }
    }
    for target in TARGETS {
        for host in HOSTS {
            let text = bytes(&format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            // The first stores what the second finds.
            cases.extend(
                [1, 2].map(|_| Case::new(format!("target {target} at {host}"), text.clone())),
            );
        }
    }
    cases
}

/// Returns requests in a row, whole and split in two at every byte.
pub fn pipelines() -> Vec<Case> {
    let requests = [
        get("/plain", "User-Agent: u\r\n"),
        get("/plain", "If-None-Match: \"a\"\r\n"),
        get("/many", ""),
        b"POST /plain HTTP/1.1\r\nHost: a.example\r\nContent-Length: 38\r\n\r\n\
          GET /many HTTP/1.1\r\nHost: a.example\r\n\r\n"
            .to_vec(),
        b"\r\n".to_vec(),
        get("/type", ""),
        get("/gone", "Connection: keep-alive\r\n"),
        get("/varies", ""),
        get("/private", ""),
        get("/plain", ""),
        b"HEAD /plain HTTP/1.1\r\nHost: a.example\r\n\r\n".to_vec(),
        get("/many", "Connection: close\r\n"),
        get("/many", ""),
    ]
    .concat();
    let mut cases = vec![Case::new("requests in a row", requests.clone())];
    for at in 1..requests.len() {
        let (first, second) = requests.split_at(at);
        let pieces = vec![first.to_vec(), second.to_vec()];
        cases.push(Case { name: format!("requests split at {at}"), pieces, ..Case::default() });
    }
    let pieces = requests.chunks(1).take(120).map(<[u8]>::to_vec).collect();
    cases.push(Case { name: "requests byte by byte".into(), pieces, ..Case::default() });
    let many = [get("/private", "").repeat(20), get("/plain", "").repeat(20)].concat();
    cases.push(Case::new("hits behind misses", many));
    cases
}

/// Returns `count` damaged requests, by a seed.
pub fn damaged(seed: u64, count: usize) -> Vec<Case> {
    let mut chance = Random::of(seed);
    let mut cases = Vec::new();
    for number in 0..count {
        let one = |chance: &mut Random| {
            let (path, _) = chance.one_of(&ANSWERS);
            let target = format!("{path}{}", chance.one_of(&QUERIES));
            let fields = *chance.one_of::<&str>(FIELDS);
            get(&target, &format!("User-Agent: u\r\n{fields}"))
        };
        let message = (0..=chance.below(3)).flat_map(|_| one(&mut chance)).collect::<Vec<u8>>();
        let damaged = chance.damage(&message);
        let pieces = chance.split(&damaged);
        let name = format!("damage {seed}.{number}");
        cases.push(Case { name, pieces, either_framing: true, ..Case::default() });
    }
    cases
}

/// Returns the requests that two parsers may read differently, at once and in two parts. Each is
/// followed by an ordinary one.
pub fn smuggled_requests() -> Vec<Case> {
    let mut cases = Vec::new();
    let all = requests::GROUPS.iter().flat_map(|group| group.cases.iter().map(move |c| (group, c)));
    for (number, (group, requests::Case(name, wire, _))) in all.enumerate() {
        for late in [false, true] {
            let id = format!("c{number}{}", if late { "late" } else { "" });
            let next =
                format!("GET /{id}/next HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n");
            let message = bytes(&(fill_in(wire, &id) + &next));
            let end = message.windows(4).position(|four| four == b"\r\n\r\n");
            let pieces = match end {
                Some(end) if late => {
                    let (head, rest) = message.split_at(end + 4);
                    vec![head.to_vec(), rest.to_vec()]
                }
                _ => vec![message],
            };
            let name =
                format!("smuggling {}: {name}{}", group.title, if late { ", late" } else { "" });
            cases.push(Case { name, pieces, waits: true, ..Case::default() });
        }
    }
    cases
}

/// Returns the responses that two parsers may read differently. Each is requested, then another
/// page, then the first again, for which the origin has a different response by then.
pub fn smuggled_answers() -> Vec<Case> {
    let mut cases = Vec::new();
    let all = answers::GROUPS.iter().flat_map(|group| group.cases.iter().map(move |c| (group, c)));
    for (number, (group, answers::Case(name, method, pieces, close, _))) in all.enumerate() {
        let id = format!("a{number}");
        let (first, second) = (format!("/{id}/first"), format!("/{id}/second"));
        let pieces = pieces.iter().map(|piece| bytes(&fill_in(piece, &id))).collect();
        let ask = |method: &str, target: &str| {
            bytes(&format!("{method} {target} HTTP/1.1\r\nHost: site.test\r\n\r\n"))
        };
        let again = b"HTTP/1.1 404 Not Found\r\nCache-Control: no-store\r\n\
                      Content-Length: 5\r\n\r\nagain";
        let plan = |pieces, close| vec![(first.clone(), Plan { pieces, close })];
        let steps = [
            (ask(method, &first), plan(pieces, *close)),
            (ask("GET", &second), Vec::new()),
            (ask("GET", &first), plan(vec![again.to_vec()], false)),
        ];
        for (step, (message, plans)) in steps.into_iter().enumerate() {
            let name = format!("answer {}: {name}, step {step}", group.title);
            cases.push(Case { plans, either_framing: true, ..Case::new(name, message) });
        }
    }
    cases
}

/// Returns other kinds of responses: long ones, some in pieces, some that end with the connection.
pub fn answers_of_other_kinds() -> Vec<Case> {
    let long = "0123456789abcdef".repeat(12_000);
    let ok = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n";
    let length = format!("{ok}ETag: \"l\"\r\nContent-Length: {}\r\n\r\n", long.len());
    let (first, second) = long.split_at(70_001);
    let chunks = format!(
        "{ok}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{first}\r\n{:x}\r\n",
        first.len(),
        second.len()
    );
    let until_close = format!("{ok}\r\n");
    let early = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
    let early = [early, ok, "Content-Length: 2\r\n\r\n"].concat();
    let upgrade = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\
                   Upgrade: websocket\r\n\r\nhello";
    let closing = format!("{ok}Connection: close\r\nContent-Length: 2\r\n\r\nab");
    let kinds: [(&str, &[&str], bool); 11] = [
        ("long", &[&length, &long], false),
        ("long in pieces", &[&length, first, second], false),
        ("long and cut", &[&length, first], true),
        ("long chunks", &[&chunks, second, "\r\n0\r\n\r\n"], false),
        ("chunks and cut", &[&chunks, "abc"], true),
        ("until the end", &[&until_close, first], true),
        ("HTTP/1.0", &["HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab"], true),
        ("early hints", &[&early, "ab"], false),
        ("upgrade", &[upgrade], true),
        ("closing", &[&closing], true),
        ("no content", &["HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n"], false),
    ];
    let mut cases = Vec::new();
    for (number, (name, pieces, close)) in kinds.into_iter().enumerate() {
        let target = format!("/k{number}");
        let pieces = pieces.iter().map(|piece| bytes(piece)).collect();
        let plans = vec![(target.clone(), Plan { pieces, close })];
        let upgrade = "Connection: upgrade\r\nUpgrade: websocket\r\n";
        for fields in ["", "", "Range: bytes=70000-70009\r\n", "Connection: close\r\n", upgrade] {
            let name = format!("kind {name} {}", fields.escape_debug());
            let case = Case::new(name, get(&target, fields));
            cases.push(Case { plans: plans.clone(), either_framing: true, ..case });
        }
    }
    cases
}

/// Returns requests with bodies: long ones, in pieces, and some with `Expect`.
pub fn uploads() -> Vec<Case> {
    let long = "0123456789abcdef".repeat(6_000);
    let length = format!("Content-Length: {}\r\n", long.len());
    let chunk = format!("{:x}\r\n{long}\r\n", long.len());
    let last = "0\r\n\r\n";
    let trailer = "0\r\nX-T: 1\r\n\r\n";
    let chunked = "Transfer-Encoding: chunked\r\n";
    let expecting = format!("{length}Expect: 100-continue\r\n");
    let kinds: [(&str, &str, &[&str]); 8] = [
        ("long", &length, &[&long]),
        ("long in pieces", &length, &[&long[..5], &long[5..50_000], &long[50_000..]]),
        ("long and cut", &length, &[&long[..50_000]]),
        ("chunks", chunked, &[&chunk, last]),
        ("chunks with a trailer", chunked, &[&chunk, "1\r\na\r\n", trailer]),
        ("chunks and cut", chunked, &[&chunk]),
        ("announced", &expecting, &[&long]),
        ("expected something else", "Expect: x\r\nContent-Length: 1\r\n", &["a"]),
    ];
    let mut cases = Vec::new();
    for method in ["POST", "PUT", "GET", "DELETE"] {
        for target in ["/private", "/plain", "/upload"] {
            for (name, fields, body) in kinds {
                let head = format!("{method} {target} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n");
                let mut pieces = vec![bytes(&head)];
                pieces.extend(body.iter().map(|piece| bytes(piece)));
                pieces.push(get("/plain", ""));
                let name = format!("upload {name}, {method} {target}");
                cases.push(Case { name, pieces, ..Case::default() });
            }
        }
    }
    cases
}

/// Returns requests for the files of a site.
pub fn files() -> Vec<Case> {
    let mut cases = Vec::new();
    for target in ["/a.txt", "/b.html", "/", "/none", "/folder", "/a.txt?x", "/../a.txt"] {
        for fields in FIELDS {
            let text = format!("GET {target} HTTP/1.1\r\nHost: files.test\r\n{fields}\r\n");
            let name = format!("file {target} {}", fields.escape_debug());
            cases.extend([1, 2].map(|_| Case::new(name.clone(), text.clone())));
        }
    }
    cases
}

/// Returns about `count` of the cases, by a seed, in their order.
pub fn sample(cases: Vec<Case>, count: usize, chance: &mut Random) -> Vec<Case> {
    let all = cases.len();
    cases.into_iter().filter(|_| chance.below(all) < count).collect()
}
