//! Sees a request that says twice how long its body is: `Transfer-Encoding` and `Content-Length`.
//!
//! hyper goes by `Transfer-Encoding`, as it must, and does not tell us of the other. But whoever
//! sends both wants two parsers to disagree, or has one in front that already did: the connection
//! must not be used again (RFC 9112, 6.1). So the bytes are looked at on their way to hyper. Lines
//! of a body that look like these fields are taken for them too, which costs no more than a
//! connection.

const NAMES: [&[u8]; 2] = [b"transfer-encoding", b"content-length"];

/// What has been seen since it was last asked.
#[derive(Default)]
pub(crate) struct FramingWatch {
    seen: [bool; 2],
    /// Bytes of the current line that fit the beginning of a name; `None` when it is neither.
    line: Option<Line>,
}

#[derive(Clone, Copy, Default)]
struct Line {
    length: usize,
    /// Which of the names it is the beginning of.
    fits: [bool; 2],
}

impl FramingWatch {
    /// Looks at bytes that the client sent.
    pub fn see(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        loop {
            let Some(mut line) = self.line else {
                let Some(end) = memchr::memchr(b'\n', rest) else { return };
                rest = &rest[end + 1..];
                self.line = Some(Line { length: 0, fits: [true; 2] });
                continue;
            };
            let Some((&byte, tail)) = rest.split_first() else { return };
            if byte != b'\n' {
                rest = tail;
            }
            self.line = self.step(&mut line, byte.to_ascii_lowercase()).then_some(line);
        }
    }

    /// Goes on with a line by one byte; false when it is known to be none of the two, or which.
    fn step(&mut self, line: &mut Line, byte: u8) -> bool {
        for (at, name) in NAMES.iter().enumerate().filter(|(at, _)| line.fits[*at]) {
            // hyper refuses a blank before the colon.
            self.seen[at] |= line.length == name.len() && byte == b':';
        }
        for (fits, name) in line.fits.iter_mut().zip(NAMES) {
            *fits &= name.get(line.length) == Some(&byte);
        }
        line.length += 1;
        line.fits.contains(&true)
    }

    /// Whether both have been seen since the last time.
    pub fn take(&mut self) -> bool {
        std::mem::take(&mut self.seen) == [true; 2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sees_both(text: &str) -> bool {
        let mut whole = FramingWatch::default();
        whole.see(text.as_bytes());
        let both = whole.take();
        assert!(!whole.take(), "it is told once");
        for size in 1..text.len().min(40) {
            let mut pieces = FramingWatch::default();
            text.as_bytes().chunks(size).for_each(|piece| pieces.see(piece));
            assert_eq!(pieces.take(), both, "in pieces of {size}: {text:?}");
        }
        both
    }

    #[test]
    fn two_lengths_are_seen() {
        for text in [
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTRANSFER-ENCODING:chunked\r\nX: y\r\ncontent-length:5\r\n\r\n",
            "POST / HTTP/1.1\nContent-Length: 5\nTransfer-Encoding: chunked\n\n",
            "\r\nPOST / HTTP/1.1\r\n\nContent-Length: 5\n\nTransfer-Encoding: x\r\n\r\n",
        ] {
            assert!(sees_both(text), "{text:?}");
        }
    }

    #[test]
    fn one_length_is_no_reason() {
        for text in [
            "",
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n12345",
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nX-Transfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Lengths: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nX: Transfer-Encoding: chunked\r\n\r\n",
            "Content-Length: 5 Transfer-Encoding: chunked",
        ] {
            assert!(!sees_both(text), "{text:?}");
        }
    }
}
