//! Lines of text of bounded length, numbered from 1.

use std::io::{self, BufRead};

/// Maximum length of a log line in bytes. A longer one counts as damaged and is never held in
/// memory.
pub(super) const LINE_MAX: usize = 1 << 16;

pub(super) struct Lines {
    input: Box<dyn BufRead>,
    number: u64,
    line: Vec<u8>,
}

/// Error of a line that was longer than [`LINE_MAX`] and was skipped.
pub(super) struct TooLong;

impl Lines {
    pub(super) fn new(input: Box<dyn BufRead>) -> Lines {
        Lines { input, number: 0, line: Vec::new() }
    }

    /// Returns the number of the last line returned, from 1; 0 before the first.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the next line without its terminator (`\n` or `\r\n`); `None` at the end of the
    /// text.
    pub(super) fn next(&mut self) -> io::Result<Option<Result<&[u8], TooLong>>> {
        self.line.clear();
        let mut whole_len = 0;
        loop {
            let bytes = self.input.fill_buf()?;
            if bytes.is_empty() {
                break;
            }
            let end = memchr::memchr(b'\n', bytes);
            let part = &bytes[..end.unwrap_or(bytes.len())];
            let room = LINE_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            whole_len += part.len() + usize::from(end.is_some());
            let used = part.len() + usize::from(end.is_some());
            let too_long = whole_len > LINE_MAX + 1;
            self.input.consume(used);
            if end.is_some() {
                self.number += 1;
                return Ok(Some(if too_long { Err(TooLong) } else { Ok(self.trimmed()) }));
            }
        }
        if whole_len == 0 {
            return Ok(None);
        }
        self.number += 1;
        Ok(Some(if whole_len > LINE_MAX { Err(TooLong) } else { Ok(self.trimmed()) }))
    }

    fn trimmed(&self) -> &[u8] {
        self.line.strip_suffix(b"\r").unwrap_or(&self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_somehow_and_have_numbers() {
        let long = "y".repeat(LINE_MAX);
        let text = format!("a\r\n\n{long}\n{long}y\nend");
        // However the text is split into reads.
        for capacity in [1, 7, 1 << 20] {
            let input = io::BufReader::with_capacity(capacity, io::Cursor::new(text.clone()));
            let mut lines = Lines::new(Box::new(input));
            let mut found = Vec::new();
            while let Some(line) = lines.next().unwrap() {
                let len = line.map(<[u8]>::len).unwrap_or(usize::MAX);
                found.push((lines.number(), len));
            }
            assert_eq!(found, [(1, 1), (2, 0), (3, LINE_MAX), (4, usize::MAX), (5, 3)]);
        }
    }
}
