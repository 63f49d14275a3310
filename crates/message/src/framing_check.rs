//! A check of the framing of a client's requests beside hyper, byte for byte, for three things that
//! hyper does not report or accepts.
//!
//! A request that says twice how long its body is, by `Transfer-Encoding` and `Content-Length`:
//! hyper uses the first, as it must. But a client that sends both may want two parsers to disagree,
//! or a parser in front of the proxy already did: the connection must not be used again (RFC 9112,
//! 6.1).
//!
//! Chunks that other parsers read otherwise: hyper takes a line feed alone for a part of a trailer,
//! so that what another parser takes for the next request becomes part of this one's trailers, and
//! its answer never comes. From there on nothing on the connection is a request.
//!
//! A head that is longer than it may be: hyper refuses one when so much came without its end, and
//! accepts one that came in one piece.
//!
//! It promises to be no more lenient than hyper where it matters: bytes whose end it did not see
//! are not a request. What it refuses wrongly costs a connection.

const NAMES: [&[u8]; 2] = [b"transfer-encoding", b"content-length"];

/// The state of the check of one connection.
#[derive(Default)]
pub struct RequestFraming {
    state: State,
    head: Head,
    /// Heads that have ended so far: requests are known by their number, from 1 on.
    heads: u64,
    /// The first request with both lengths.
    doubled: Option<u64>,
    /// The request whose chunks are malformed. Nothing is checked from there on.
    odd: Option<u64>,
    /// Bytes of a head at most; 0: any number.
    longest: u64,
    /// The first request whose head has more.
    long: Option<u64>,
    /// Bytes so far, and how many there were before the head that is read.
    seen: u64,
    began: u64,
}

/// The trust in a request, by its framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// It is as it seems.
    Good,
    /// It is the last one of its connection.
    Last,
    /// Its head is longer than it may be.
    TooLong,
    /// It is not a request.
    None,
}

/// The framing fields of the head that is being read.
#[derive(Default)]
struct Head {
    /// A line that is not empty has come.
    begun: bool,
    chunked: bool,
    length: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// At the beginning of a line of a head.
    #[default]
    LineStart,
    /// Behind a CR there.
    EmptyLine,
    /// Within the first bytes of a line, which may be one of the names.
    Name(Name),
    /// Within the value of `Content-Length`.
    Length,
    /// Within any other line.
    Line,
    /// Within a body of which so many bytes are missing.
    Body(u64),
    /// At the beginning of a chunk's size.
    SizeStart,
    /// Within it.
    Size(u64),
    /// Within what follows it on its line.
    Extension(u64),
    /// Behind the CR of that line.
    SizeEnd(u64),
    /// Within a chunk of which so many bytes are missing.
    Data(u64),
    /// Behind a chunk, and behind the CR there.
    DataEnd,
    DataEndLf,
    /// At the beginning of a line of the trailers, within one, behind its CR, and behind the CR of
    /// the empty one.
    TrailerStart,
    Trailer,
    TrailerLf,
    LastLf,
    /// The bytes have no meaning any more.
    Odd,
}

#[derive(Clone, Copy, Debug)]
struct Name {
    length: usize,
    /// Which of the names it is the beginning of.
    fits: [bool; 2],
}

impl RequestFraming {
    /// Sets a limit on the bytes of a head.
    pub fn limit(&mut self, longest: usize) {
        self.longest = longest as u64;
    }

    /// Reads bytes that the client sent.
    pub fn see(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some((&first, tail)) = rest.split_first() {
            let skipped = match &mut self.state {
                State::Odd => return,
                State::Line => memchr::memchr(b'\n', rest).unwrap_or(rest.len()),
                State::Trailer => memchr::memchr2(b'\r', b'\n', rest).unwrap_or(rest.len()),
                State::Body(left) | State::Data(left) => {
                    let skipped = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= skipped as u64;
                    skipped
                }
                _ => 0,
            };
            if skipped > 0 {
                self.seen += skipped as u64;
                rest = &rest[skipped..];
                self.settle();
                continue;
            }
            self.seen += 1;
            self.state = self.step(first);
            self.settle();
            rest = tail;
        }
    }

    /// Changes the state where the last byte of a body has been seen.
    fn settle(&mut self) {
        match self.state {
            State::Body(0) => self.state = State::LineStart,
            State::Data(0) => self.state = State::DataEnd,
            State::Odd if self.odd.is_none() => self.odd = Some(self.heads),
            _ => {}
        }
    }

    fn step(&mut self, byte: u8) -> State {
        match (self.state, byte) {
            (State::LineStart | State::EmptyLine, b'\n') => self.end_of_head(),
            (State::LineStart, b'\r') => State::EmptyLine,
            (State::LineStart, _) => {
                if !self.head.begun {
                    self.began = self.seen - 1;
                }
                self.head.begun = true;
                self.name(Name { length: 0, fits: [true; 2] }, byte)
            }
            (State::Name(_) | State::Length | State::Line, b'\n') => State::LineStart,
            (State::Name(name), _) => self.name(name, byte),
            (State::Length, b'0'..=b'9') => {
                let length = self.head.length.unwrap_or(0).saturating_mul(10);
                self.head.length = Some(length.saturating_add(u64::from(byte - b'0')));
                State::Length
            }
            (State::Length, _) => State::Length,
            (State::EmptyLine | State::Line, _) => State::Line,
            (state, byte) => chunk(state, byte),
        }
    }

    /// Advances within a line by one byte.
    fn name(&mut self, mut name: Name, byte: u8) -> State {
        let whole = |at: usize| name.fits[at] && name.length == NAMES[at].len() && byte == b':';
        // hyper refuses a blank before the colon.
        if whole(0) {
            self.head.chunked = true;
            return State::Line;
        }
        if whole(1) {
            // A second line says the same, or hyper refuses it.
            self.head.length = Some(0);
            return State::Length;
        }
        for (fits, known) in name.fits.iter_mut().zip(NAMES) {
            *fits &= known.get(name.length) == Some(&byte.to_ascii_lowercase());
        }
        name.length += 1;
        if name.fits.contains(&true) { State::Name(name) } else { State::Line }
    }

    fn end_of_head(&mut self) -> State {
        let Head { begun, chunked, length } = std::mem::take(&mut self.head);
        if !begun {
            // Empty lines before a request are not part of it (RFC 9112, 2.2).
            return State::LineStart;
        }
        self.heads += 1;
        if self.longest > 0 && self.seen - self.began > self.longest {
            self.long.get_or_insert(self.heads);
        }
        if chunked && length.is_some() {
            self.doubled.get_or_insert(self.heads);
        }
        match (chunked, length) {
            (true, _) => State::SizeStart,
            (false, length) => State::Body(length.unwrap_or(0)),
        }
    }

    /// Returns whether so many requests have come, each to its end, and nothing behind them.
    pub fn is_between(&self, requests: u64) -> bool {
        let begins = matches!(self.state, State::LineStart) && !self.head.begun;
        begins && self.heads == requests && self.odd.is_none()
    }

    /// Returns whether the body of the request with this number has not come to its end.
    pub fn is_within(&self, number: u64) -> bool {
        let of_head = matches!(
            self.state,
            State::LineStart | State::EmptyLine | State::Name(_) | State::Length | State::Line
        );
        self.heads == number && !of_head && self.odd.is_none()
    }

    /// Returns whether a request so far was not as it seemed, so that those behind it are not
    /// trusted.
    pub fn is_suspect(&self) -> bool {
        self.odd.is_some() || self.long.is_some() || self.doubled.is_some()
    }

    /// Takes a head as read, of so many bytes, that says of no body, and of which nothing is wrong.
    /// To be called between requests, for bytes that are seen by nobody else.
    pub fn pass_head(&mut self, length: usize) {
        debug_assert!(matches!(self.state, State::LineStart) && !self.head.begun);
        self.seen += length as u64;
        self.heads += 1;
    }

    /// Returns what the framing permits for the request with this number.
    pub fn trust(&self, number: u64) -> Trust {
        match () {
            () if self.heads < number || self.odd.is_some_and(|odd| odd <= number) => Trust::None,
            () if self.long.is_some_and(|long| long <= number) => Trust::TooLong,
            () if self.doubled.is_some_and(|doubled| doubled <= number) => Trust::Last,
            () => Trust::Good,
        }
    }
}

/// Advances within chunks by one byte, as RFC 9112 (7.1) defines them.
fn chunk(state: State, byte: u8) -> State {
    let digit = char::from(byte).to_digit(16).map(u64::from);
    match (state, byte, digit) {
        (State::SizeStart, _, Some(digit)) => State::Size(digit),
        (State::Size(size), _, Some(digit)) => match size.checked_mul(16) {
            Some(size) => State::Size(size + digit),
            None => State::Odd,
        },
        (State::Size(size), b';' | b' ' | b'\t', _) => State::Extension(size),
        (State::Size(size) | State::Extension(size), b'\r', _) => State::SizeEnd(size),
        (State::Extension(_), b'\n', _) => State::Odd,
        (State::Extension(size), ..) => State::Extension(size),
        (State::SizeEnd(0), b'\n', _) => State::TrailerStart,
        (State::SizeEnd(size), b'\n', _) => State::Data(size),
        (State::DataEnd, b'\r', _) => State::DataEndLf,
        (State::DataEndLf, b'\n', _) => State::SizeStart,
        (State::TrailerStart, b'\r', _) => State::LastLf,
        (State::Trailer, b'\r', _) => State::TrailerLf,
        (State::TrailerStart | State::Trailer, b'\n', _) => State::Odd,
        (State::TrailerStart | State::Trailer, ..) => State::Trailer,
        (State::TrailerLf, b'\n', _) => State::TrailerStart,
        (State::LastLf, b'\n', _) => State::LineStart,
        _ => State::Odd,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads bytes, and returns how many heads there are, and the trust in each request and in one
    /// behind them.
    fn seen(text: &str) -> (u64, Vec<Trust>) {
        let look = |watch: &RequestFraming| {
            let all = (1..=watch.heads + 1).map(|number| watch.trust(number));
            (watch.heads, all.collect::<Vec<_>>())
        };
        let mut whole = RequestFraming::default();
        whole.see(text.as_bytes());
        for size in 1..text.len().min(40) {
            let mut pieces = RequestFraming::default();
            text.as_bytes().chunks(size).for_each(|piece| pieces.see(piece));
            assert_eq!(look(&pieces), look(&whole), "in pieces of {size}: {text:?}");
        }
        look(&whole)
    }

    const CHUNKED: &str = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    #[test]
    fn two_lengths_make_a_request_the_last() {
        for text in [
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTRANSFER-ENCODING:chunked\r\nX: y\r\ncontent-length:5\r\n\r\n",
            "POST / HTTP/1.1\nContent-Length: 5\nTransfer-Encoding: chunked\n\n",
            "\r\n\nPOST / HTTP/1.1\r\nContent-Length: 5\nTransfer-Encoding: x\r\n\r\n",
        ] {
            assert_eq!(seen(text), (1, vec![Trust::Last, Trust::None]), "{text:?}");
            // Those before it are good.
            let text = format!("{GET}{text}");
            assert_eq!(seen(&text), (2, vec![Trust::Good, Trust::Last, Trust::None]), "{text:?}");
        }
    }

    #[test]
    fn nothing_is_between_requests_but_empty_lines() {
        let post = "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab";
        let chunked = format!("{CHUNKED}1\r\na\r\n0\r\nX: y\r\n\r\n");
        let whole = [GET, post, &chunked, GET];
        let (mut watch, mut requests) = (RequestFraming::default(), 0);
        assert!(watch.is_between(0));
        for text in whole {
            for (at, byte) in text.bytes().enumerate() {
                watch.see(&[byte]);
                let ends = at + 1 == text.len();
                requests += u64::from(ends);
                assert_eq!(watch.is_between(requests), ends, "{at} of {text:?}");
                // Those behind it have not been told of yet, or there are none.
                assert!(!watch.is_between(requests + 1), "{at} of {text:?}");
            }
            watch.see(b"\r");
            assert!(!watch.is_between(requests));
            watch.see(b"\n\n");
            assert!(watch.is_between(requests));
        }
        watch.see(CHUNKED.as_bytes());
        watch.see(b"nonsense\r\n\r\n");
        assert!(!watch.is_between(requests + 1));
    }

    #[test]
    fn heads_that_are_passed_count_as_those_that_are_read() {
        let post = "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n";
        let (mut read, mut passed) = (RequestFraming::default(), RequestFraming::default());
        read.see(GET.as_bytes());
        passed.pass_head(GET.len());
        assert!(read.is_between(1) && passed.is_between(1) && !passed.is_suspect());
        for watch in [&mut read, &mut passed] {
            watch.see(post.as_bytes());
            assert_eq!((watch.trust(1), watch.trust(2)), (Trust::Good, Trust::Last));
            assert!(watch.is_suspect() && watch.seen == (GET.len() + post.len()) as u64);
        }
    }

    #[test]
    fn a_head_has_so_many_bytes() {
        let seen = |before: &str, head: &str, longest: usize| {
            let mut watch = RequestFraming::default();
            watch.limit(longest);
            watch.see(before.as_bytes());
            watch.see(head.as_bytes());
            watch.trust(watch.heads)
        };
        let post = "POST / HTTP/1.1\r\nContent-Length: 50\r\n\r\n";
        let body = format!("{post}{}", "x".repeat(50));
        for (before, head) in [("", GET), ("\r\n\r\n", GET), ("", post), (&body, post), (GET, GET)]
        {
            let length = head.len().max(before.trim_start().len().min(post.len()));
            assert_eq!(seen(before, head, length), Trust::Good, "{before:?} {head:?}");
            assert_eq!(seen(before, head, head.len() - 1), Trust::TooLong, "{before:?} {head:?}");
        }
    }

    #[test]
    fn what_is_framed_once_is_good_and_bodies_are_no_heads() {
        let both = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n";
        let size = both.len();
        for text in [
            GET.to_owned(),
            "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n12345".to_owned(),
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nX-Transfer-Encoding: x\r\n\r\n12345"
                .to_owned(),
            "POST / HTTP/1.1\r\nX: Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n"
                .to_owned(),
            format!("POST / HTTP/1.1\r\nContent-Length: {size}\r\n\r\n{both}"),
            format!("{CHUNKED}{size:x}\r\n{both}\r\n0\r\n\r\n"),
            format!("{CHUNKED}0003;a=\"b\"\r\nabc\r\nA \t;x\r\n0123\n56789\r\n00\r\nX: y\r\n\r\n"),
        ] {
            assert_eq!(seen(&text), (1, vec![Trust::Good, Trust::None]), "{text:?}");
            let three = format!("{text}{GET}{text}");
            let good = vec![Trust::Good, Trust::Good, Trust::Good, Trust::None];
            assert_eq!(seen(&three), (3, good), "{text:?}");
        }
        assert_eq!(seen("").0, 0);
        assert_eq!(seen("\r\n\r\n").0, 0);
    }

    #[test]
    fn behind_what_are_no_chunks_nothing_is_a_request() {
        for chunks in [
            "0\r\n\n",
            "0\r\nX: y\n\r\n",
            "0\r\nX\rY\r\n\r\n",
            "3\nabc\r\n0\r\n\r\n",
            "3;a\nabc\r\n0\r\n\r\n",
            "3;a\rb\r\nabc\r\n0\r\n\r\n",
            "3\r\nabcd\r\n0\r\n\r\n",
            "3\r\nabc\n0\r\n\r\n",
            "0x3\r\nabc\r\n0\r\n\r\n",
            "10000000000000000\r\n",
            "\r\n",
        ] {
            let text = format!("{GET}{CHUNKED}{chunks}{GET}");
            assert_eq!(seen(&text), (2, vec![Trust::Good, Trust::None, Trust::None]), "{text:?}");
        }
    }
}
