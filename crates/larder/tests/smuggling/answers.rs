//! Responses of an origin server that two parsers may read differently, byte for byte, and the
//! expected result of each.
//!
//! Many are followed by a second response (`{E}`) with the body `evil`. Each is requested, then
//! other pages over the available connections, then the same again: `evil` must never be the
//! response to any request, now or later. Characters stand for bytes of the same number.

/// The client's result, and whether the response is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// This body; it is stored.
    Kept(&'static str),
    /// This body; it is not stored.
    Passed(&'static str),
    /// A 502.
    Bad,
    /// A response whose end is missing, which the client can detect; it is not stored.
    Cut,
}

impl Fate {
    /// Returns a short description, as on the page.
    pub fn words(self) -> &'static str {
        match self {
            Fate::Kept(_) => "passed on, kept",
            Fate::Passed(_) => "passed on",
            Fate::Bad => "502",
            Fate::Cut => "cut",
        }
    }
}

use Fate::{Bad, Cut, Kept, Passed};

/// Responses of one kind.
pub struct Group {
    pub title: &'static str,
    pub cites: &'static str,
    /// Reason for this behaviour, where others differ.
    pub why: &'static str,
    pub cases: &'static [Case],
}

/// One response: its peculiarity, the method, its bytes in pieces that are sent one after another,
/// whether the connection ends after it, and the expected result.
pub struct Case(
    pub &'static str,
    pub &'static str,
    pub &'static [&'static str],
    pub bool,
    pub Fate,
);

/// The second response.
pub const EVIL: &str =
    "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 4\r\n\r\nevil";

macro_rules! ok {
    ($fields:literal, $body:literal) => {
        concat!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n", $fields, "\r\n", $body)
    };
}

macro_rules! chunked {
    ($body:literal) => {
        ok!("Transfer-Encoding: chunked\r\n", $body)
    };
}

macro_rules! status {
    ($line:literal) => {
        concat!($line, "\r\nCache-Control: max-age=600\r\nContent-Length: 4\r\n\r\ngood{E}")
    };
}

pub const GROUPS: &[Group] = &[LENGTHS, CODINGS, CHUNKS, HEADS, STATUSES, BODILESS, INTERIM];

const LENGTHS: Group = Group {
    title: "Content-Length",
    cites: "RFC 9112, 6.3",
    why: "lengths that differ or are no number are an error; bytes after the end belong to \
          no response, and the connection to the server ends",
    cases: &[
        Case("a length", "GET", &[ok!("Content-Length: 4\r\n", "good")], false, Kept("good")),
        Case(
            "more than that",
            "GET",
            &[ok!("Content-Length: 4\r\n", "good{E}")],
            false,
            Kept("good"),
        ),
        Case(
            "more, a moment later",
            "GET",
            &[ok!("Content-Length: 4\r\n", "good"), "{E}"],
            false,
            Kept("good"),
        ),
        Case(
            "more, to a HEAD",
            "HEAD",
            &[ok!("Content-Length: 4\r\n", "good{E}")],
            false,
            Passed(""),
        ),
        Case("less than that", "GET", &[ok!("Content-Length: 400\r\n", "good")], true, Cut),
        Case(
            "the same twice",
            "GET",
            &[ok!("Content-Length: 4\r\nContent-Length: 4\r\n", "good")],
            false,
            Kept("good"),
        ),
        Case(
            "the same twice in a list",
            "GET",
            &[ok!("Content-Length: 4, 4\r\n", "good")],
            false,
            Kept("good"),
        ),
        Case(
            "two that differ",
            "GET",
            &[ok!("Content-Length: 4\r\nContent-Length: 81\r\n", "good{E}")],
            false,
            Bad,
        ),
        Case(
            "two that differ in a list",
            "GET",
            &[ok!("Content-Length: 4, 81\r\n", "good{E}")],
            false,
            Bad,
        ),
        Case("plus", "GET", &[ok!("Content-Length: +4\r\n", "good{E}")], false, Bad),
        Case("minus", "GET", &[ok!("Content-Length: -4\r\n", "good{E}")], false, Bad),
        Case("letters behind it", "GET", &[ok!("Content-Length: 4a\r\n", "good{E}")], false, Bad),
        Case("empty", "GET", &[ok!("Content-Length:\r\n", "good{E}")], false, Bad),
        Case(
            "2 to the 64th",
            "GET",
            &[ok!("Content-Length: 18446744073709551616\r\n", "good{E}")],
            false,
            Bad,
        ),
        Case("none, and the end of the connection", "GET", &[ok!("", "good")], true, Kept("good")),
    ],
};

const CODINGS: Group = Group {
    title: "Transfer-Encoding",
    cites: "RFC 9112, 6.1 and 6.3",
    why: "only chunked is decoded; another coding would pass for content. Beside a length \
          the chunks count, and the length is dropped",
    cases: &[
        Case("chunked", "GET", &[chunked!("4\r\ngood\r\n0\r\n\r\n")], false, Kept("good")),
        Case(
            "more behind it",
            "GET",
            &[chunked!("4\r\ngood\r\n0\r\n\r\n{E}")],
            false,
            Kept("good"),
        ),
        Case(
            "and a length before it",
            "GET",
            &[ok!(
                "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
                "4\r\ngood\r\n0\r\n\r\n{E}"
            )],
            false,
            Kept("good"),
        ),
        Case(
            "and a length behind it",
            "GET",
            &[ok!(
                "Transfer-Encoding: chunked\r\nContent-Length: 90\r\n",
                "4\r\ngood\r\n0\r\n\r\n{E}"
            )],
            false,
            Kept("good"),
        ),
        Case(
            "xchunked",
            "GET",
            &[ok!("Transfer-Encoding: xchunked\r\n", "4\r\ngood\r\n0\r\n\r\n")],
            true,
            Bad,
        ),
        Case(
            "xchunked and a length",
            "GET",
            &[ok!("Transfer-Encoding: xchunked\r\nContent-Length: 4\r\n", "good{E}")],
            true,
            Bad,
        ),
        Case("gzip", "GET", &[ok!("Transfer-Encoding: gzip\r\n", "good")], true, Bad),
        Case(
            "gzip, chunked",
            "GET",
            &[ok!("Transfer-Encoding: gzip, chunked\r\n", "4\r\ngood\r\n0\r\n\r\n")],
            true,
            Bad,
        ),
        Case(
            "chunked, gzip",
            "GET",
            &[ok!("Transfer-Encoding: chunked, gzip\r\n", "4\r\ngood\r\n0\r\n\r\n")],
            true,
            Bad,
        ),
        Case(
            "identity",
            "GET",
            &[ok!("Transfer-Encoding: identity\r\nContent-Length: 4\r\n", "good{E}")],
            true,
            Bad,
        ),
        Case(
            "chunked on two lines",
            "GET",
            &[ok!(
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                "4\r\ngood\r\n0\r\n\r\n"
            )],
            true,
            Bad,
        ),
        Case(
            "vertical tab before it",
            "GET",
            &[ok!("Transfer-Encoding:\x0bchunked\r\n", "4\r\ngood\r\n0\r\n\r\n")],
            true,
            Bad,
        ),
        Case(
            "in HTTP/1.0",
            "GET",
            &["HTTP/1.0 200 OK\r\nCache-Control: max-age=600\r\n\
                 Transfer-Encoding: chunked\r\n\r\n4\r\ngood\r\n0\r\n\r\n{E}"],
            true,
            Bad,
        ),
    ],
};

const CHUNKS: Group = Group {
    title: "Chunks",
    cites: "RFC 9112, 7.1",
    why: "the head has been sent: a malformed body is cut visibly, and none of it is stored",
    cases: &[
        Case(
            "an extension",
            "GET",
            &[chunked!("4;a=b\r\ngood\r\n0;c\r\n\r\n")],
            false,
            Kept("good"),
        ),
        Case("LF within an extension", "GET", &[chunked!("4;a\ngood\r\n0\r\n\r\n")], true, Cut),
        Case("LF behind the size", "GET", &[chunked!("4\ngood\r\n0\r\n\r\n")], true, Cut),
        Case("0x", "GET", &[chunked!("0x4\r\ngood\r\n0\r\n\r\n")], true, Cut),
        Case(
            "2 to the 64th, and 4",
            "GET",
            &[chunked!("10000000000000004\r\ngood\r\n0\r\n\r\n")],
            true,
            Cut,
        ),
        Case("a chunk too long", "GET", &[chunked!("2\r\ngood\r\n0\r\n\r\n")], true, Cut),
        Case("no last chunk", "GET", &[chunked!("4\r\ngood\r\n")], true, Cut),
        Case("half a last chunk", "GET", &[chunked!("4\r\ngood\r\n0\r\n")], true, Cut),
        Case(
            "another answer in place of a chunk",
            "GET",
            &[chunked!("4\r\ngood\r\n{E}")],
            true,
            Cut,
        ),
        Case(
            "Content-Length as trailer",
            "GET",
            &[chunked!("4\r\ngood\r\n0\r\nContent-Length: 2\r\n\r\n{E}")],
            false,
            Kept("good"),
        ),
        Case(
            "Set-Cookie as trailer",
            "GET",
            &[chunked!("4\r\ngood\r\n0\r\nSet-Cookie: evil=1\r\n\r\n")],
            false,
            Kept("good"),
        ),
    ],
};

const HEADS: Group = Group {
    title: "Heads",
    cites: "RFC 9110, 5.5; RFC 9112, 2.2 and 5",
    why: "an ambiguous head is no response; nothing in a field or reason becomes a field or \
          response of its own",
    cases: &[
        Case(
            "LF alone everywhere",
            "GET",
            &["HTTP/1.1 200 OK\nCache-Control: max-age=600\nContent-Length: 4\n\ngood{E}"],
            false,
            Kept("good"),
        ),
        Case(
            "CR in a value",
            "GET",
            &[ok!("X: a\rSet-Cookie: evil=1\r\nContent-Length: 4\r\n", "good{E}")],
            false,
            Bad,
        ),
        Case(
            "NUL in a value",
            "GET",
            &[ok!("X: a\0b\r\nContent-Length: 4\r\n", "good{E}")],
            false,
            Bad,
        ),
        Case(
            "NUL in a name",
            "GET",
            &[ok!("X\0: a\r\nContent-Length: 4\r\n", "good{E}")],
            false,
            Bad,
        ),
        Case(
            "a fold",
            "GET",
            &[ok!("X: a\r\n Set-Cookie: evil=1\r\nContent-Length: 4\r\n", "good{E}")],
            false,
            Bad,
        ),
        Case("a folded length", "GET", &[ok!("Content-Length:\r\n 4\r\n", "good{E}")], false, Bad),
        Case(
            "blank before the colon",
            "GET",
            &[ok!("Content-Length : 4\r\n", "good{E}")],
            false,
            Bad,
        ),
        Case("no colon", "GET", &[ok!("X\r\nContent-Length: 4\r\n", "good{E}")], false, Bad),
        Case("no name", "GET", &[ok!(": a\r\nContent-Length: 4\r\n", "good{E}")], false, Bad),
        Case(
            "bytes beyond ASCII",
            "GET",
            &[ok!("X: \u{e9}\r\nContent-Length: 4\r\n", "good{E}")],
            false,
            Kept("good"),
        ),
        Case(
            "an empty line before it",
            "GET",
            &[concat!(
                "\r\n",
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 4\r\n\r\ngood{E}"
            )],
            false,
            Kept("good"),
        ),
        Case(
            "a blank before it",
            "GET",
            &[" HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 4\r\n\r\ngood{E}"],
            false,
            Bad,
        ),
        Case(
            "no end of the head",
            "GET",
            &["HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 4\r\n"],
            true,
            Bad,
        ),
    ],
};

const STATUSES: Group = Group {
    title: "Status lines",
    cites: "RFC 9110, 15; RFC 9112, 4",
    why: "a status has three digits, the version is known, and the reason is replaced by the \
          usual one",
    cases: &[
        Case("no reason", "GET", &[status!("HTTP/1.1 200")], false, Kept("good")),
        Case("an odd reason", "GET", &[status!("HTTP/1.1 200 <b>\u{e9}</b>")], false, Kept("good")),
        Case(
            "CR in the reason",
            "GET",
            &[status!("HTTP/1.1 200 OK\rSet-Cookie: evil=1")],
            false,
            Bad,
        ),
        Case("NUL in the reason", "GET", &[status!("HTTP/1.1 200 O\0K")], false, Bad),
        Case("two digits", "GET", &[status!("HTTP/1.1 20 OK")], false, Bad),
        Case("four digits", "GET", &[status!("HTTP/1.1 2000 OK")], false, Bad),
        Case("letters", "GET", &[status!("HTTP/1.1 abc OK")], false, Bad),
        Case("099", "GET", &[status!("HTTP/1.1 099 OK")], false, Bad),
        Case("HTTP/1.2", "GET", &[status!("HTTP/1.2 200 OK")], false, Bad),
        Case("HTTP/2.0", "GET", &[status!("HTTP/2.0 200 OK")], false, Bad),
        Case("ICY", "GET", &[status!("ICY 200 OK")], false, Bad),
        Case("no status line (HTTP/0.9)", "GET", &["good"], true, Bad),
    ],
};

const BODILESS: Group = Group {
    title: "Answers without bodies",
    cites: "RFC 9110, 15.3.5 and 15.4.5; RFC 9112, 6.3",
    why: "a body where none can be is not read, and the connection to the server ends",
    cases: &[
        Case(
            "204 with a body",
            "GET",
            &["HTTP/1.1 204 No Content\r\nCache-Control: max-age=600\r\n\
                 Content-Length: 4\r\n\r\ngood{E}"],
            false,
            Kept(""),
        ),
        Case(
            "204 with chunks",
            "GET",
            &["HTTP/1.1 204 No Content\r\nCache-Control: max-age=600\r\n\
                 Transfer-Encoding: chunked\r\n\r\n4\r\ngood\r\n0\r\n\r\n{E}"],
            false,
            Kept(""),
        ),
        Case(
            "304 without a condition",
            "GET",
            &["HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=600\r\n\
                 Content-Length: 4\r\n\r\ngood{E}"],
            false,
            Bad,
        ),
        Case(
            "205 with a body",
            "GET",
            &["HTTP/1.1 205 Reset Content\r\nCache-Control: no-store\r\n\
                 Content-Length: 4\r\n\r\ngood{E}"],
            false,
            Passed("good"),
        ),
        Case(
            "a HEAD's answer with a body",
            "HEAD",
            &[ok!("Content-Length: 4\r\n", "good{E}")],
            false,
            Passed(""),
        ),
        Case(
            "a HEAD's answer with chunks",
            "HEAD",
            &[chunked!("4\r\ngood\r\n0\r\n\r\n{E}")],
            false,
            Passed(""),
        ),
    ],
};

const INTERIM: Group = Group {
    title: "Answers before the answer",
    cites: "RFC 9110, 15.2; RFC 8297",
    why: "1xx responses have no body; an unrequested 101 is an error",
    cases: &[
        Case(
            "100",
            "GET",
            &["HTTP/1.1 100 Continue\r\n\r\n", ok!("Content-Length: 4\r\n", "good")],
            false,
            Kept("good"),
        ),
        Case(
            "103 with fields",
            "GET",
            &[
                "HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n",
                ok!("Content-Length: 4\r\n", "good"),
            ],
            false,
            Kept("good"),
        ),
        Case(
            "103 with a length",
            "GET",
            &[concat!(
                "HTTP/1.1 103 Early Hints\r\nContent-Length: 4\r\n\r\n",
                ok!("Content-Length: 4\r\n", "good{E}")
            )],
            false,
            Kept("good"),
        ),
        Case(
            "103 with a length and a body",
            "GET",
            &["HTTP/1.1 103 Early Hints\r\nContent-Length: 4\r\n\r\nnone{E}"],
            false,
            Bad,
        ),
        Case(
            "103 with chunks",
            "GET",
            &[concat!(
                "HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n",
                ok!("Content-Length: 4\r\n", "good{E}")
            )],
            false,
            Kept("good"),
        ),
        Case(
            "101",
            "GET",
            &["HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n{E}"],
            false,
            Bad,
        ),
        Case("1xx and no answer", "GET", &["HTTP/1.1 103 Early Hints\r\n\r\n"], true, Bad),
        Case(
            "1xx without end",
            "GET",
            &["{FLOOD}", ok!("Content-Length: 4\r\n", "good")],
            false,
            Kept("good"),
        ),
    ],
};
