//! Requests that two parsers may read differently, byte for byte, and the expected result of each.
//!
//! Each is followed, on the same connection, by an ordinary request for `/…/next`. The bodies of
//! many contain a request for `/…/smuggled` (`{S}`, of `{L}` bytes, `{X}` in hexadecimal) that
//! shows up if a parser ends the body too early. Characters stand for bytes of the same number.

/// The expected result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is rejected with this status and not forwarded; the connection ends.
    Refused(u16),
    /// It is rejected in the same way, but its end is clear: the next request gets a response.
    Answered(u16),
    /// It is forwarded with this body, and the next request after it.
    Kept(&'static str),
    /// It is forwarded with this body, and the connection ends after its response.
    Last(&'static str),
    /// Its body turns out to be malformed or truncated when its head may already have been
    /// forwarded. The client gets this status, the origin server sees no end of the request, if it
    /// sees any of it, and the connection ends.
    Broken(u16),
}

impl Fate {
    /// Returns a short description, as on the page.
    pub fn words(self) -> String {
        let passed = |body: &str| if body.is_empty() { "passed on" } else { "passed on, body" };
        match self {
            Fate::Refused(status) | Fate::Broken(status) => format!("{status}, ends"),
            Fate::Answered(status) => status.to_string(),
            Fate::Kept(body) => passed(body).to_owned(),
            Fate::Last(body) => format!("{}, ends", passed(body)),
        }
    }
}

use Fate::{Answered, Broken, Kept, Last, Refused};

/// Requests of one kind.
pub struct Group {
    pub title: &'static str,
    pub cites: &'static str,
    /// Reason for this behaviour, where others differ.
    pub why: &'static str,
    pub cases: &'static [Case],
}

/// One request: its peculiarity, its bytes, and the expected result.
pub struct Case(pub &'static str, pub &'static str, pub Fate);

macro_rules! post {
    ($fields:literal, $body:literal) => {
        concat!("POST /{ID}/first HTTP/1.1\r\nHost: site.test\r\n", $fields, "\r\n", $body)
    };
}

macro_rules! chunked {
    ($body:literal) => {
        post!("Transfer-Encoding: chunked\r\n", $body)
    };
}

macro_rules! get {
    ($fields:literal) => {
        concat!("GET /{ID}/first HTTP/1.1\r\nHost: site.test\r\n", $fields, "\r\n")
    };
}

macro_rules! line {
    ($line:literal) => {
        concat!($line, "\r\nHost: site.test\r\n\r\n")
    };
}

macro_rules! host {
    ($host:literal) => {
        concat!("GET /{ID}/first HTTP/1.1\r\n", $host, "\r\n")
    };
}

pub const GROUPS: &[Group] =
    &[LENGTHS, CODINGS, BOTH, OLD, CHUNKS, ENDS, LINES, FIELDS, HOSTS, TARGETS, WAYS];

const LENGTHS: Group = Group {
    title: "Content-Length",
    cites: "RFC 9110, 8.6; RFC 9112, 6.3",
    why: "a length is digits, stated once; any other is refused before the body is read",
    cases: &[
        Case("a length", post!("Content-Length: 3\r\n", "abc"), Kept("abc")),
        Case("blanks around it", post!("Content-Length: \t3 \t\r\n", "abc"), Kept("abc")),
        Case("leading zeros", post!("Content-Length: 003\r\n", "abc"), Kept("abc")),
        Case("on a GET", get!("Content-Length: 0\r\n"), Kept("")),
        Case(
            "the same twice",
            post!("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"),
            Kept("abc"),
        ),
        Case("the same twice in a list", post!("Content-Length: 3, 3\r\n", "abc"), Refused(400)),
        Case(
            "two that differ",
            post!("Content-Length: 0\r\nContent-Length: {L}\r\n", "{S}"),
            Refused(400),
        ),
        Case(
            "the other way round",
            post!("Content-Length: {L}\r\nContent-Length: 0\r\n", "{S}"),
            Refused(400),
        ),
        Case("two that differ in a list", post!("Content-Length: 0, {L}\r\n", "{S}"), Refused(400)),
        Case("plus", post!("Content-Length: +{L}\r\n", "{S}"), Refused(400)),
        Case("minus", post!("Content-Length: -{L}\r\n", "{S}"), Refused(400)),
        Case("hexadecimal", post!("Content-Length: 0x2\r\n", "{S}"), Refused(400)),
        Case("letters behind it", post!("Content-Length: {L}a\r\n", "{S}"), Refused(400)),
        Case("blank within", post!("Content-Length: 0 {L}\r\n", "{S}"), Refused(400)),
        Case("empty", post!("Content-Length:\r\n", "{S}"), Refused(400)),
        Case("a fraction", post!("Content-Length: 0.0\r\n", "{S}"), Refused(400)),
        Case("a parameter", post!("Content-Length: 0;x\r\n", "{S}"), Refused(400)),
        Case("vertical tab before it", post!("Content-Length:\x0b{L}\r\n", "{S}"), Refused(400)),
        Case("NUL behind it", post!("Content-Length: {L}\0\r\n", "{S}"), Refused(400)),
        Case(
            "no-break space before it",
            post!("Content-Length: \u{a0}{L}\r\n", "{S}"),
            Refused(400),
        ),
        Case(
            "2 to the 64th",
            post!("Content-Length: 18446744073709551616\r\n", "{S}"),
            Refused(400),
        ),
        Case(
            "2 to the 64th, less 1",
            post!("Content-Length: 18446744073709551615\r\n", "{S}"),
            Refused(400),
        ),
        Case("2 to the 32nd", post!("Content-Length: 4294967296\r\n", "{S}"), Broken(400)),
        Case("blank before the colon", post!("Content-Length : {L}\r\n", "{S}"), Refused(400)),
        Case("tab before the colon", post!("Content-Length\t: {L}\r\n", "{S}"), Refused(400)),
        Case("folded", post!("Content-Length:\r\n {L}\r\n", "{S}"), Refused(400)),
        Case(
            "folded into another field",
            post!("X: y\r\n Content-Length: {L}\r\n", "{S}"),
            Refused(400),
        ),
        Case(
            "named in Connection",
            post!("Content-Length: 3\r\nConnection: Content-Length\r\n", "abc"),
            Kept("abc"),
        ),
    ],
};

const CODINGS: Group = Group {
    title: "Transfer-Encoding",
    cites: "RFC 9112, 6.1 and 7",
    why: "only chunked is known, alone and once; anything else is refused",
    cases: &[
        Case("chunked", chunked!("3\r\nabc\r\n0\r\n\r\n"), Kept("abc")),
        Case(
            "another case",
            post!("transfer-encoding: ChunKed\r\n", "3\r\nabc\r\n0\r\n\r\n"),
            Kept("abc"),
        ),
        Case(
            "blanks around it",
            post!("Transfer-Encoding: \t chunked \t\r\n", "3\r\nabc\r\n0\r\n\r\n"),
            Kept("abc"),
        ),
        Case("on a GET", get!("Transfer-Encoding: chunked\r\n"), Broken(400)),
        Case("xchunked", post!("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n{S}"), Refused(400)),
        Case("chunkedx", post!("Transfer-Encoding: chunkedx\r\n", "0\r\n\r\n{S}"), Refused(400)),
        Case("quoted", post!("Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n{S}"), Refused(400)),
        Case(
            "a parameter",
            post!("Transfer-Encoding: chunked;q=1\r\n", "0\r\n\r\n{S}"),
            Refused(400),
        ),
        Case(
            "vertical tab before it",
            post!("Transfer-Encoding:\x0bchunked\r\n", "0\r\n\r\n{S}"),
            Refused(400),
        ),
        Case(
            "vertical tab behind it",
            post!("Transfer-Encoding: chunked\x0b\r\n", "0\r\n\r\n{S}"),
            Refused(400),
        ),
        Case(
            "NUL behind it",
            post!("Transfer-Encoding: chunked\0\r\n", "0\r\n\r\n{S}"),
            Refused(400),
        ),
        Case(
            "no-break space before it",
            post!("Transfer-Encoding: \u{a0}chunked\r\n", "0\r\n\r\n{S}"),
            Refused(400),
        ),
        Case(
            "a comma behind it",
            post!("Transfer-Encoding: chunked,\r\n", "3\r\nabc\r\n0\r\n\r\n"),
            Refused(400),
        ),
        Case(
            "a comma before it",
            post!("Transfer-Encoding: ,chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
            Kept("abc"),
        ),
        Case("empty", post!("Transfer-Encoding:\r\n", "0\r\n\r\n{S}"), Refused(400)),
        Case("identity", post!("Transfer-Encoding: identity\r\n", "0\r\n\r\n{S}"), Refused(400)),
        Case("gzip", post!("Transfer-Encoding: gzip\r\n", "0\r\n\r\n{S}"), Refused(400)),
        Case(
            "gzip, chunked",
            post!("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n{S}"),
            Refused(501),
        ),
        Case(
            "identity, chunked",
            post!("Transfer-Encoding: identity, chunked\r\n", "0\r\n\r\n{S}"),
            Refused(501),
        ),
        Case(
            "chunked, gzip",
            post!("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n{S}"),
            Refused(400),
        ),
        Case(
            "chunked, identity",
            post!("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n{S}"),
            Refused(400),
        ),
        Case(
            "chunked, chunked",
            post!("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n{S}"),
            Refused(501),
        ),
        Case(
            "chunked on two lines",
            post!("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n{S}"),
            Refused(501),
        ),
        Case(
            "chunked, then identity",
            post!("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n{S}"),
            Refused(400),
        ),
        Case(
            "identity, then chunked",
            post!("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n{S}"),
            Refused(501),
        ),
        Case(
            "nonsense, then chunked",
            post!("Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n{S}"),
            Refused(501),
        ),
        Case("folded", post!("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n{S}"), Refused(400)),
        Case(
            "folded into another field",
            post!("X: y\r\n Transfer-Encoding: chunked\r\n", "0\r\n\r\n{S}"),
            Refused(400),
        ),
        Case(
            "blank before the colon",
            post!("Transfer-Encoding : chunked\r\n", "0\r\n\r\n{S}"),
            Refused(400),
        ),
        Case(
            "NUL in the name",
            post!("Transfer\0-Encoding: chunked\r\n", "0\r\n\r\n{S}"),
            Refused(400),
        ),
        Case(
            "behind a bare CR",
            post!("X: y\rTransfer-Encoding: chunked\r\n", "0\r\n\r\n{S}"),
            Refused(400),
        ),
        Case(
            "behind a bare LF",
            post!("X: y\nTransfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
            Kept("abc"),
        ),
        Case(
            "named in Connection",
            post!(
                "Transfer-Encoding: chunked\r\nConnection: Transfer-Encoding\r\n",
                "3\r\nabc\r\n0\r\n\r\n"
            ),
            Kept("abc"),
        ),
    ],
};

const BOTH: Group = Group {
    title: "Content-Length and Transfer-Encoding",
    cites: "RFC 9112, 6.1 and 6.3",
    why: "the chunks count, one framing is passed on, and the connection ends: a parser in \
          front may have counted otherwise",
    cases: &[
        Case(
            "the length is that of the chunks",
            post!("Content-Length: 13\r\nTransfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
            Last("abc"),
        ),
        Case(
            "the length ends within the chunks",
            post!("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "{X}\r\n{S}\r\n0\r\n\r\n"),
            Last("{S}"),
        ),
        Case(
            "the chunks end within the length",
            post!("Content-Length: 1000\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n{S}"),
            Last(""),
        ),
        Case(
            "the other way round",
            post!("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "{X}\r\n{S}\r\n0\r\n\r\n"),
            Last("{S}"),
        ),
        Case(
            "a length of none",
            post!("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", "3\r\nabc\r\n0\r\n\r\n"),
            Last("abc"),
        ),
        Case(
            "a length that is wrong",
            post!("Transfer-Encoding: chunked\r\nContent-Length: x\r\n", "0\r\n\r\n{S}"),
            Refused(400),
        ),
        Case(
            "xchunked and a length",
            post!("Transfer-Encoding: xchunked\r\nContent-Length: 3\r\n", "abc"),
            Refused(400),
        ),
        Case(
            "identity and a length",
            post!("Transfer-Encoding: identity\r\nContent-Length: 3\r\n", "abc"),
            Refused(400),
        ),
        Case(
            "empty, and a length",
            post!("Transfer-Encoding:\r\nContent-Length: 3\r\n", "abc"),
            Refused(400),
        ),
    ],
};

const OLD: Group = Group {
    title: "HTTP/1.0 and before",
    cites: "RFC 9112, 6.1 and 9.3",
    why: "HTTP/1.0 has no chunks",
    cases: &[
        Case("without Host", "GET /{ID}/first HTTP/1.0\r\n\r\n", Last("")),
        Case(
            "kept alive",
            "GET /{ID}/first HTTP/1.0\r\nHost: site.test\r\nConnection: keep-alive\r\n\r\n",
            Kept(""),
        ),
        Case(
            "a length",
            "POST /{ID}/first HTTP/1.0\r\nHost: site.test\r\nContent-Length: 3\r\n\r\nabc",
            Last("abc"),
        ),
        Case(
            "chunked",
            "POST /{ID}/first HTTP/1.0\r\nHost: site.test\r\nConnection: keep-alive\r\n\
             Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{S}",
            Refused(400),
        ),
        Case(
            "chunked and a length",
            "POST /{ID}/first HTTP/1.0\r\nHost: site.test\r\nConnection: keep-alive\r\n\
             Transfer-Encoding: chunked\r\nContent-Length: {L}\r\n\r\n{S}",
            Refused(400),
        ),
        Case("no version (HTTP/0.9)", "GET /{ID}/first\r\n", Refused(400)),
        Case("no version, and fields", "GET /{ID}/first\r\nHost: site.test\r\n\r\n", Refused(400)),
    ],
};

const CHUNKS: Group = Group {
    title: "Chunk sizes and extensions",
    cites: "RFC 9112, 7.1",
    why: "a size is hexadecimal digits; extensions are skipped, never passed on; a line end \
          within one is refused",
    cases: &[
        Case("leading zeros", chunked!("0003\r\nabc\r\n000\r\n\r\n"), Kept("abc")),
        Case(
            "twenty leading zeros",
            chunked!("000000000000000000003\r\nabc\r\n0\r\n\r\n"),
            Kept("abc"),
        ),
        Case("an extension", chunked!("3;a\r\nabc\r\n0\r\n\r\n"), Kept("abc")),
        Case(
            "an extension with a value",
            chunked!("3;a=b;c=\"d;e\"\r\nabc\r\n0;f\r\n\r\n"),
            Kept("abc"),
        ),
        Case("blanks before an extension", chunked!("3 \t;a\r\nabc\r\n0\r\n\r\n"), Kept("abc")),
        Case("LF within an extension", chunked!("3;a\nabc\r\n0\r\n\r\n"), Refused(400)),
        Case("LF within quotes", chunked!("3;a=\"\n\"\r\nabc\r\n0\r\n\r\n"), Refused(400)),
        Case("CR within an extension", chunked!("3;a\rb\r\nabc\r\n0\r\n\r\n"), Refused(400)),
        Case("LF in the last extension", chunked!("0;a\n\r\n{S}"), Refused(400)),
        Case("blank behind the size", chunked!("3 \r\nabc\r\n0 \r\n\r\n"), Kept("abc")),
        Case("blank before the size", chunked!(" 3\r\nabc\r\n0\r\n\r\n"), Refused(400)),
        Case("letters behind a blank", chunked!("3 a\r\nabc\r\n0\r\n\r\n"), Refused(400)),
        Case("a second size", chunked!("3 0\r\nabc\r\n0\r\n\r\n"), Refused(400)),
        Case("0x", chunked!("0x3\r\nabc\r\n0\r\n\r\n"), Refused(400)),
        Case("plus", chunked!("+3\r\nabc\r\n0\r\n\r\n"), Refused(400)),
        Case("minus", chunked!("-3\r\nabc\r\n0\r\n\r\n"), Refused(400)),
        Case("no digits", chunked!("\r\nabc\r\n0\r\n\r\n"), Refused(400)),
        Case("no hexadecimal digit", chunked!("g\r\nabc\r\n0\r\n\r\n"), Refused(400)),
        Case("underscore", chunked!("0_3\r\nabc\r\n0\r\n\r\n"), Refused(400)),
        Case(
            "2 to the 64th, and 3",
            chunked!("10000000000000003\r\nabc\r\n0\r\n\r\n"),
            Refused(400),
        ),
        Case(
            "2 to the 64th, less 1",
            chunked!("ffffffffffffffff\r\nabc\r\n0\r\n\r\n"),
            Broken(400),
        ),
        Case("2 to the 32nd, and 3", chunked!("100000003\r\nabc\r\n0\r\n\r\n"), Broken(400)),
    ],
};

const ENDS: Group = Group {
    title: "Ends of chunks and of bodies",
    cites: "RFC 9112, 7.1 and 7.1.2",
    why: "in chunks every line ends with CR LF; trailers are read as fields and change \
          nothing",
    cases: &[
        Case("a chunk too long", chunked!("3\r\nabcd\r\n0\r\n\r\n"), Refused(400)),
        Case("a chunk too short", chunked!("4\r\nabc\r\n0\r\n\r\n"), Refused(400)),
        Case("LF behind the size", chunked!("3\nabc\r\n0\r\n\r\n"), Refused(400)),
        Case("LF behind the data", chunked!("3\r\nabc\n0\r\n\r\n"), Refused(400)),
        Case("CR behind the size", chunked!("3\rabc\r\n0\r\n\r\n"), Refused(400)),
        Case("other bytes behind the data", chunked!("3\r\nabcXX0\r\n\r\n"), Refused(400)),
        Case("LF at the very end", chunked!("3\r\nabc\r\n0\r\n\n"), Refused(400)),
        Case("nothing behind the last size", chunked!("0\r\n{S}"), Refused(400)),
        Case("a trailer", chunked!("3\r\nabc\r\n0\r\nX: y\r\n\r\n"), Kept("abc")),
        Case(
            "Content-Length as trailer",
            chunked!("3\r\nabc\r\n0\r\nContent-Length: {L}\r\n\r\n"),
            Kept("abc"),
        ),
        Case(
            "Transfer-Encoding as trailer",
            chunked!("3\r\nabc\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n"),
            Kept("abc"),
        ),
        Case("Host as trailer", chunked!("3\r\nabc\r\n0\r\nHost: evil.test\r\n\r\n"), Kept("abc")),
        Case("a trailer without a colon", chunked!("3\r\nabc\r\n0\r\nX\r\n\r\n"), Broken(400)),
        Case("LF behind a trailer", chunked!("3\r\nabc\r\n0\r\nX: y\n\r\n"), Refused(400)),
        Case(
            "CR LF too many behind a body",
            post!("Content-Length: 3\r\n", "abc\r\n"),
            Kept("abc"),
        ),
    ],
};

const LINES: Group = Group {
    title: "Lines",
    cites: "RFC 9112, 2.2 and 3",
    why: "a line of a head may end with LF alone and is passed on with CR LF; bare CR, NUL \
          and other control characters are refused",
    cases: &[
        Case("LF alone everywhere", "GET /{ID}/first HTTP/1.1\nHost: site.test\n\n", Kept("")),
        Case(
            "LF behind the request line",
            "GET /{ID}/first HTTP/1.1\nHost: site.test\r\n\r\n",
            Kept(""),
        ),
        Case(
            "CR behind the request line",
            "GET /{ID}/first HTTP/1.1\rHost: site.test\r\n\r\n",
            Refused(400),
        ),
        Case(
            "LF CR at the end of the head",
            "GET /{ID}/first HTTP/1.1\r\nHost: site.test\n\r\n",
            Kept(""),
        ),
        Case("CR CR LF", "GET /{ID}/first HTTP/1.1\r\nHost: site.test\r\r\n\r\n", Refused(400)),
        Case(
            "empty lines before it",
            "\r\n\r\nGET /{ID}/first HTTP/1.1\r\nHost: site.test\r\n\r\n",
            Kept(""),
        ),
        Case("a blank before it", line!(" GET /{ID}/first HTTP/1.1"), Refused(400)),
        Case("two blanks", line!("GET  /{ID}/first HTTP/1.1"), Refused(400)),
        Case("two blanks before the version", line!("GET /{ID}/first  HTTP/1.1"), Refused(400)),
        Case("tabs between the words", line!("GET\t/{ID}/first\tHTTP/1.1"), Refused(400)),
        Case("a blank behind it", line!("GET /{ID}/first HTTP/1.1 "), Refused(400)),
        Case("a fourth word", line!("GET /{ID}/first HTTP/1.1 x"), Refused(400)),
        Case("a blank in the target", line!("GET /{ID}/first x HTTP/1.1"), Refused(400)),
        Case("LF in the target", line!("GET /{ID}/first\nX HTTP/1.1"), Refused(400)),
        Case("CR in the target", line!("GET /{ID}/first\rX HTTP/1.1"), Refused(400)),
        Case("NUL in the target", line!("GET /{ID}/first\0 HTTP/1.1"), Refused(400)),
        Case("DEL in the target", line!("GET /{ID}/first\x7f HTTP/1.1"), Refused(400)),
        Case("HTTP/1.2", line!("GET /{ID}/first HTTP/1.2"), Refused(400)),
        Case("HTTP/1.10", line!("GET /{ID}/first HTTP/1.10"), Refused(400)),
        Case("HTTP/01.1", line!("GET /{ID}/first HTTP/01.1"), Refused(400)),
        Case("HTTP/2.0", line!("GET /{ID}/first HTTP/2.0"), Refused(400)),
        Case("http/1.1", line!("GET /{ID}/first http/1.1"), Refused(400)),
        Case("HTTP/1", line!("GET /{ID}/first HTTP/1"), Refused(400)),
        Case("a method in small letters", line!("get /{ID}/first HTTP/1.1"), Kept("")),
        Case("a method of our own", line!("X-Y!z /{ID}/first HTTP/1.1"), Kept("")),
        Case("a method that is no token", line!("G(T /{ID}/first HTTP/1.1"), Refused(400)),
        Case("no method", line!(" /{ID}/first HTTP/1.1"), Refused(400)),
        Case("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Refused(400)),
    ],
};

const FIELDS: Group = Group {
    title: "Fields",
    cites: "RFC 9110, 5.5 and 7.6.1; RFC 9112, 5",
    why: "a name is a token directly before its colon; folds and forbidden bytes are \
          refused, never replaced; fields of one connection stop here",
    cases: &[
        Case("a fold", get!("X: y\r\n z\r\n"), Refused(400)),
        Case("a fold with a tab", get!("X: y\r\n\tz\r\n"), Refused(400)),
        Case(
            "a fold right behind the request line",
            "GET /{ID}/first HTTP/1.1\r\n Host: site.test\r\n\r\n",
            Refused(400),
        ),
        Case("blank before the colon", get!("X : y\r\n"), Refused(400)),
        Case("blank in the name", get!("X y: z\r\n"), Refused(400)),
        Case("no name", get!(": y\r\n"), Refused(400)),
        Case("no colon", get!("X\r\n"), Refused(400)),
        Case("parentheses in the name", get!("X(y): z\r\n"), Refused(400)),
        Case("NUL in the name", get!("X\0y: z\r\n"), Refused(400)),
        Case("NUL in the value", get!("X: y\0z\r\n"), Refused(400)),
        Case("CR in the value", get!("X: y\rz\r\n"), Refused(400)),
        Case("a control character in the value", get!("X: y\x01z\r\n"), Refused(400)),
        Case("DEL in the value", get!("X: y\x7fz\r\n"), Refused(400)),
        Case("bytes beyond ASCII in the value", get!("X: y\u{e9}z\r\n"), Kept("")),
        Case("bytes beyond ASCII in the name", get!("X\u{e9}: z\r\n"), Refused(400)),
        Case("Host named in Connection", get!("Connection: Host\r\n"), Kept("")),
        Case(
            "an unknown expectation",
            post!("Expect: x\r\nContent-Length: 3\r\n", "abc"),
            Answered(417),
        ),
        Case(
            "100-continue, and the body at once",
            post!("Expect: 100-continue\r\nContent-Length: 3\r\n", "abc"),
            Kept("abc"),
        ),
        Case(
            "an upgrade to h2c",
            get!(
                "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
                 HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"
            ),
            Kept(""),
        ),
        Case(
            "an upgrade to WebSocket",
            get!(
                "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            ),
            Last(""),
        ),
    ],
};

const HOSTS: Group = Group {
    title: "Host",
    cites: "RFC 9110, 7.2; RFC 9112, 3.2",
    why: "one host, which is a host; in an absolute URL its host counts, and Host must still \
          be one",
    cases: &[
        Case("none", "GET /{ID}/first HTTP/1.1\r\n\r\n", Answered(400)),
        Case("the same twice", host!("Host: site.test\r\nHost: site.test\r\n"), Answered(400)),
        Case("two that differ", host!("Host: site.test\r\nHost: evil.test\r\n"), Answered(400)),
        Case("a list", host!("Host: site.test, evil.test\r\n"), Answered(400)),
        Case("empty", host!("Host:\r\n"), Answered(400)),
        Case("another case", host!("Host: SITE.test\r\n"), Kept("")),
        Case("the usual port", host!("Host: site.test:80\r\n"), Kept("")),
        Case("an empty port", host!("Host: site.test:\r\n"), Kept("")),
        Case("a port that is none", host!("Host: site.test:x\r\n"), Answered(400)),
        Case("a port beyond 65535", host!("Host: site.test:65616\r\n"), Answered(400)),
        Case("user information", host!("Host: evil.test@site.test\r\n"), Answered(400)),
        Case("a path", host!("Host: site.test/x\r\n"), Answered(400)),
        Case("a blank within", host!("Host: site.test x\r\n"), Answered(400)),
        Case("bytes beyond ASCII", host!("Host: site\u{e9}.test\r\n"), Answered(400)),
        Case("an IPv6 address", host!("Host: [::1]:80\r\n"), Kept("")),
        Case("half an IPv6 address", host!("Host: [::1\r\n"), Answered(400)),
        Case(
            "a URL with the same host",
            concat!("GET http://site.test/{ID}/first HTTP/1.1\r\n", "Host: site.test\r\n\r\n"),
            Kept(""),
        ),
        Case(
            "a URL with another host",
            "GET http://evil.test/{ID}/first HTTP/1.1\r\nHost: site.test\r\n\r\n",
            Kept(""),
        ),
        Case(
            "a URL with another port",
            "GET http://site.test:81/{ID}/first HTTP/1.1\r\nHost: site.test\r\n\r\n",
            Kept(""),
        ),
        Case(
            "a URL without Host",
            "GET http://site.test/{ID}/first HTTP/1.1\r\n\r\n",
            Answered(400),
        ),
    ],
};

const TARGETS: Group = Group {
    title: "Targets",
    cites: "RFC 9110, 4.2.4 and 7.4; RFC 9112, 3.2",
    why: "what precedes the path is removed or refused; what cannot be in a target is \
          refused",
    cases: &[
        Case(
            "an https URL on a plain connection",
            line!("GET https://site.test/{ID}/first HTTP/1.1"),
            Answered(421),
        ),
        Case(
            "a URL of another scheme",
            line!("GET ftp://site.test/{ID}/first HTTP/1.1"),
            Answered(501),
        ),
        Case(
            "user information in a URL",
            line!("GET http://u:p@site.test/{ID}/first HTTP/1.1"),
            Kept(""),
        ),
        Case("a fragment", line!("GET /{ID}/first#x HTTP/1.1"), Kept("")),
        Case("two slashes", line!("GET //{ID}/first HTTP/1.1"), Kept("")),
        Case("no slash", line!("GET {ID}/first HTTP/1.1"), Answered(400)),
        Case("an asterisk on a GET", line!("GET * HTTP/1.1"), Answered(400)),
        Case("an asterisk on OPTIONS", line!("OPTIONS * HTTP/1.1"), Kept("")),
        Case("a backslash", line!("GET /{ID}\\first HTTP/1.1"), Kept("")),
        Case("bytes beyond ASCII", line!("GET /{ID}/first\u{e9} HTTP/1.1"), Kept("")),
        Case("a NUL in percents", line!("GET /{ID}/first%00 HTTP/1.1"), Kept("")),
    ],
};

const WAYS: Group = Group {
    title: "CONNECT, TRACE and bodies where none are",
    cites: "RFC 9110, 9.3.1, 9.3.6 and 9.3.8",
    why: "a reverse proxy opens no tunnels; a body is passed on with its request, framed",
    cases: &[
        Case(
            "CONNECT",
            "CONNECT site.test:80 HTTP/1.1\r\nHost: site.test:80\r\n\r\n",
            Refused(405),
        ),
        Case("CONNECT with a path", line!("CONNECT /{ID}/first HTTP/1.1"), Refused(405)),
        Case(
            "CONNECT with a length",
            "CONNECT site.test:80 HTTP/1.1\r\nHost: site.test:80\r\nContent-Length: {L}\r\n\r\n{S}",
            Refused(405),
        ),
        Case(
            "CONNECT with chunks",
            "CONNECT site.test:80 HTTP/1.1\r\nHost: site.test:80\r\n\
             Transfer-Encoding: chunked\r\n\r\n{X}\r\n{S}\r\n0\r\n\r\n",
            Refused(405),
        ),
        Case(
            "TRACE with a body",
            "TRACE /{ID}/first HTTP/1.1\r\nHost: site.test\r\nContent-Length: {L}\r\n\r\n{S}",
            Refused(400),
        ),
        Case(
            "GET with a body",
            "GET /{ID}/first HTTP/1.1\r\nHost: site.test\r\nContent-Length: {L}\r\n\r\n{S}",
            Kept("{S}"),
        ),
        Case(
            "GET with chunks",
            "GET /{ID}/first HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\n\r\n\
             {X}\r\n{S}\r\n0\r\n\r\n",
            Kept("{S}"),
        ),
        Case(
            "HEAD with a body",
            "HEAD /{ID}/first HTTP/1.1\r\nHost: site.test\r\nContent-Length: {L}\r\n\r\n{S}",
            Kept("{S}"),
        ),
        Case(
            "OPTIONS with a body",
            "OPTIONS /{ID}/first HTTP/1.1\r\nHost: site.test\r\nContent-Length: {L}\r\n\r\n{S}",
            Kept("{S}"),
        ),
        Case(
            "DELETE with chunks",
            "DELETE /{ID}/first HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\n\
             \r\n{X}\r\n{S}\r\n0\r\n\r\n",
            Kept("{S}"),
        ),
    ],
};
