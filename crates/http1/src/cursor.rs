//! A cursor over the bytes of a head. It checks what it passes over (RFC 9112, 2.2, 3, 4 and 5),
//! and finds the ends of names and values several bytes at a time.

use http::Version;
use semantics::UsualName;

use crate::error::Malformed;

/// Why a head cannot be read.
pub(crate) enum Stop {
    /// More bytes may complete it.
    Incomplete,
    /// No further bytes can make it valid.
    Malformed(Malformed),
}

impl Stop {
    /// Returns `None` for a head that is incomplete.
    pub fn or_incomplete<T>(parsed: Result<T, Stop>) -> Result<Option<T>, Malformed> {
        match parsed {
            Ok(parsed) => Ok(Some(parsed)),
            Err(Stop::Incomplete) => Ok(None),
            Err(Stop::Malformed(why)) => Err(why),
        }
    }
}

const BAD_LINE_END: Malformed = Malformed("a line has an invalid ending");
const BAD_NAME: Malformed = Malformed("a field has an invalid name");
const BAD_VALUE: Malformed = Malformed("a field has an invalid value");
const BAD_VERSION: Malformed = Malformed("its version is not HTTP/1");
pub(crate) const BAD_FIRST_LINE: Malformed =
    Malformed("its first line has a byte that is not allowed");
pub(crate) const BAD_STATUS: Malformed = Malformed("its status is not a number of at least 100");

/// A position in a head.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Cursor<'b> {
    /// Returns a cursor at the start of `bytes`, of which it reads no more than 4 GiB.
    pub fn new(bytes: &'b [u8]) -> Cursor<'b> {
        Cursor { bytes: &bytes[..bytes.len().min(u32::MAX as usize)], at: 0 }
    }

    /// Returns a cursor behind the empty lines at the start of `bytes`.
    pub fn after_empty_lines(bytes: &'b [u8]) -> Result<Cursor<'b>, Stop> {
        let mut cursor = Cursor::new(bytes);
        while matches!(cursor.peek()?, b'\r' | b'\n') {
            cursor.line_end(BAD_LINE_END)?;
        }
        Ok(cursor)
    }

    /// Returns the number of bytes before the cursor.
    #[inline(always)]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns the bytes before the cursor.
    pub fn passed(&self) -> &'b [u8] {
        &self.bytes[..self.at]
    }

    #[inline(always)]
    fn peek(&self) -> Result<u8, Stop> {
        self.bytes.get(self.at).copied().ok_or(Stop::Incomplete)
    }

    #[inline(always)]
    fn rest(&self) -> &'b [u8] {
        &self.bytes[self.at..]
    }

    /// Returns the method and skips the space after it.
    pub fn method(&mut self) -> Result<&'b [u8], Stop> {
        if self.rest().starts_with(b"GET ") {
            self.at += 4;
            return Ok(b"GET");
        }
        let is_token = |byte: &&u8| IS_TOKEN[usize::from(**byte)];
        self.word(self.rest().iter().take_while(is_token).count())
    }

    /// Returns the target and skips the space after it.
    pub fn target(&mut self) -> Result<&'b [u8], Stop> {
        self.word(first_control_or_space(self.rest()))
    }

    /// Returns this number of bytes, and skips them and the space that must follow.
    fn word(&mut self, length: usize) -> Result<&'b [u8], Stop> {
        let (word, rest) = self.rest().split_at(length);
        match rest {
            [] => return Err(Stop::Incomplete),
            [b' ', ..] if length > 0 => self.at += length + 1,
            _ => return Err(Stop::Malformed(BAD_FIRST_LINE)),
        }
        Ok(word)
    }

    /// Returns the version.
    pub fn version(&mut self) -> Result<Version, Stop> {
        const HTTP_10: u64 = u64::from_ne_bytes(*b"HTTP/1.0");
        const HTTP_11: u64 = u64::from_ne_bytes(*b"HTTP/1.1");
        let version = match self.rest().first_chunk().map(|eight| u64::from_ne_bytes(*eight)) {
            Some(HTTP_11) => Version::HTTP_11,
            Some(HTTP_10) => Version::HTTP_10,
            None if b"HTTP/1.".starts_with(self.rest()) => return Err(Stop::Incomplete),
            _ => return Err(Stop::Malformed(BAD_VERSION)),
        };
        self.at += 8;
        Ok(version)
    }

    /// Skips the end of a request line.
    pub fn request_line_end(&mut self) -> Result<(), Stop> {
        self.line_end(BAD_LINE_END)
    }

    /// Returns the status code after the version, and skips the rest of the status line.
    pub fn status(&mut self) -> Result<u16, Stop> {
        if self.next()? != b' ' {
            return Err(Stop::Malformed(BAD_VERSION));
        }
        let mut code = 0;
        for _ in 0..3 {
            let digit = self.next()?.wrapping_sub(b'0');
            if digit > 9 {
                return Err(Stop::Malformed(BAD_STATUS));
            }
            code = code * 10 + u16::from(digit);
        }
        let reason = match self.peek()? {
            b' ' => self.pass_value(self.at).map(|_| ()),
            _ => self.line_end(BAD_STATUS),
        };
        match reason {
            Err(Stop::Malformed(_)) => Err(Stop::Malformed(BAD_STATUS)),
            end => end.map(|()| code),
        }
    }

    fn next(&mut self) -> Result<u8, Stop> {
        let byte = self.peek()?;
        self.at += 1;
        Ok(byte)
    }

    /// Skips CR LF or LF.
    fn line_end(&mut self, otherwise: Malformed) -> Result<(), Stop> {
        match self.rest() {
            [b'\r', b'\n', ..] => self.at += 2,
            [b'\n', ..] => self.at += 1,
            [] | [b'\r'] => return Err(Stop::Incomplete),
            _ => return Err(Stop::Malformed(otherwise)),
        }
        Ok(())
    }

    /// Skips the empty line at the end of a head, and returns true. Returns false if the cursor is
    /// at a field line.
    #[inline(always)]
    pub fn head_end(&mut self) -> Result<bool, Stop> {
        match self.peek()? {
            b'\r' | b'\n' => self.line_end(BAD_LINE_END).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Skips the name of a field. Returns its end, and the usual name if it is one.
    #[inline(always)]
    pub fn name(&mut self) -> Result<(usize, Option<UsualName>), Stop> {
        let name = self.rest();
        let name = &name[..name_length(name)];
        let usual = UsualName::of(name);
        if usual.is_none() && !is_token(name) {
            return Err(Stop::Malformed(BAD_NAME));
        }
        self.at += name.len();
        Ok((self.at, usual))
    }

    /// Skips a colon and the rest of its line. Returns the start and end of the value.
    #[inline(always)]
    pub fn value(&mut self) -> Result<(usize, usize), Stop> {
        let bytes = self.bytes;
        let begin = match bytes.get(self.at + 1..) {
            Some([b' ', first, ..]) if *first > b' ' => self.at + 2,
            _ => self.after_blanks()?,
        };
        let end = self.pass_value(begin)?;
        match bytes[end - 1] {
            ..=b' ' => Ok((begin, self.before_blanks(begin, end))),
            _ => Ok((begin, end)),
        }
    }

    /// Returns the position after a colon and blanks.
    #[cold]
    fn after_blanks(&self) -> Result<usize, Stop> {
        let value = self.bytes.get(self.at + 1..).ok_or(Stop::Incomplete)?;
        let blanks = value.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        Ok(self.at + 1 + blanks)
    }

    /// Returns the end of a value without the blanks at its end.
    #[cold]
    fn before_blanks(&self, begin: usize, end: usize) -> usize {
        let value = &self.bytes[begin..end];
        begin + value.iter().rposition(|byte| *byte > b' ').map_or(0, |last| last + 1)
    }

    /// Moves behind the line whose text begins at `begin`. Returns the end of the text, which has
    /// no control characters but tabs.
    #[inline(always)]
    fn pass_value(&mut self, begin: usize) -> Result<usize, Stop> {
        let mut end = begin;
        loop {
            let rest = self.bytes.get(end..).ok_or(Stop::Incomplete)?;
            end += first_control(rest);
            self.at = end;
            if matches!(self.bytes.get(end..), Some([b'\r', b'\n', ..])) {
                self.at += 2;
                return Ok(end);
            }
            if self.bytes.get(end) != Some(&b'\t') {
                return self.line_end(BAD_VALUE).map(|()| end);
            }
            end += 1;
        }
    }
}

/// The characters of tokens (RFC 9110, 5.6.2).
const IS_TOKEN: [bool; 256] = {
    let (mut is_token, mut byte) = ([false; 256], 0);
    while byte < 128 {
        is_token[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let (others, mut at) = (b"!#$%&'*+-.^_`|~", 0);
    while at < others.len() {
        is_token[others[at] as usize] = true;
        at += 1;
    }
    is_token
};

fn is_token(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| IS_TOKEN[usize::from(*byte)])
}

/// Returns the index of the first colon, or the number of bytes.
#[inline(always)]
fn name_length(bytes: &[u8]) -> usize {
    let (eights, last) = bytes.as_chunks();
    let mut before = 0;
    for eight in eights {
        let marked = marks_equal(u64::from_le_bytes(*eight), b':');
        if marked != 0 {
            return before + marked.trailing_zeros() as usize / 8;
        }
        before += 8;
    }
    before + last.iter().take_while(|byte| **byte != b':').count()
}

/// Returns the index of the first control character, or the number of bytes.
#[inline]
fn first_control(bytes: &[u8]) -> usize {
    first(bytes, |byte| (byte < b' ') | (byte == 0x7f), |bytes| marks_below(bytes, b' '))
}

/// Returns the index of the first control character or space, or the number of bytes.
#[inline]
fn first_control_or_space(bytes: &[u8]) -> usize {
    first(bytes, |byte| (byte <= b' ') | (byte == 0x7f), |bytes| marks_below(bytes, b' ' + 1))
}

/// Bytes that are searched at once: compilers compare them with vector instructions.
type Block = [u8; BLOCK];

/// Number of bytes that are searched at once.
const BLOCK: usize = 16;

const LOWEST: u64 = u64::from_ne_bytes([1; 8]);
const HIGHEST: u64 = u64::from_ne_bytes([0x80; 8]);

/// Returns the index of the first byte that is sought, or the number of bytes. Of eight bytes,
/// `marks` returns the highest bit of the first one sought, and no bit of those before it.
#[inline(always)]
fn first(bytes: &[u8], is_sought: impl Fn(u8) -> bool, marks: impl Fn(u64) -> u64 + Copy) -> usize {
    let (blocks, last) = bytes.as_chunks();
    let mut before = 0;
    for block in blocks {
        if block.iter().fold(false, |has, byte| has | is_sought(*byte)) {
            return before + first_in_block(block, marks);
        }
        before += BLOCK;
    }
    before + first_in_last(last, marks)
}

#[inline(always)]
fn first_in_block(block: &Block, marks: impl Fn(u64) -> u64) -> usize {
    let (eights, _) = block.as_chunks();
    let marked = marks(u64::from_le_bytes(eights[0]));
    if marked != 0 {
        return marked.trailing_zeros() as usize / 8;
    }
    8 + marks(u64::from_le_bytes(eights[1])).trailing_zeros() as usize / 8
}

/// Returns what [`first`] returns, for fewer bytes than a block.
#[cold]
#[inline(never)]
fn first_in_last(bytes: &[u8], marks: impl Fn(u64) -> u64) -> usize {
    let mut block = [0; _];
    block[..bytes.len()].copy_from_slice(bytes);
    bytes.len().min(first_in_block(&block, marks))
}

/// Marks bytes below `limit`, and DEL.
#[inline(always)]
fn marks_below(bytes: u64, limit: u8) -> u64 {
    let low = bytes.wrapping_sub(u64::from_ne_bytes([limit; 8])) & !bytes & HIGHEST;
    low | marks_equal(bytes, 0x7f)
}

/// Marks bytes equal to `byte`, which is ASCII.
#[inline(always)]
fn marks_equal(bytes: u64, byte: u8) -> u64 {
    (bytes ^ u64::from_ne_bytes([byte; 8])).wrapping_sub(LOWEST) & !bytes & HIGHEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_wherever_they_are() {
        let finds = |first: fn(&[u8]) -> usize, is_sought: fn(u8) -> bool| {
            for length in 0..40 {
                for at in 0..length {
                    for byte in 0..=u8::MAX {
                        let mut bytes = vec![b'a'; length];
                        bytes[at] = byte;
                        bytes[length - 1] = b'\x80' | byte;
                        let expected = bytes.iter().position(|byte| is_sought(*byte));
                        assert_eq!(first(&bytes), expected.unwrap_or(length), "{bytes:?}");
                    }
                }
            }
        };
        finds(name_length, |byte| byte == b':');
        finds(first_control, |byte| byte < 0x20 || byte == 0x7f);
        finds(first_control_or_space, |byte| byte <= 0x20 || byte == 0x7f);
    }
}
