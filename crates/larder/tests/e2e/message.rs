//! The part of HTTP/1.1's wire format that both ends of the tests need: strict where the proxy must
//! be right, never lenient.

use std::io::{self, BufRead, Read};

/// A start line and headers.
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// The request line or status line.
    pub first: String,
    /// Names and values in the order of arrival.
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// Returns the first value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        let same = |n: &str| n.eq_ignore_ascii_case(name);
        self.headers.iter().find(|(n, _)| same(n)).map(|(_, v)| v.as_str())
    }

    /// Returns whether the body is chunked.
    pub fn chunked(&self) -> bool {
        self.get("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked"))
    }

    /// Returns the number in `Content-Length`.
    pub fn length(&self) -> Option<u64> {
        self.get("content-length")?.parse().ok()
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    if from.read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    if !bytes.ends_with(b"\r\n") {
        return Err(invalid("a line without its end"));
    }
    bytes.truncate(bytes.len() - 2);
    String::from_utf8(bytes).map(Some).map_err(|_| invalid("a line that is no text"))
}

/// Reads headers up to the empty line.
fn read_headers(from: &mut impl BufRead) -> io::Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    loop {
        let text = line(from)?.ok_or_else(|| invalid("the end among headers"))?;
        if text.is_empty() {
            return Ok(headers);
        }
        let (name, value) = text.split_once(':').ok_or_else(|| invalid("a header without :"))?;
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
}

/// Reads a head; returns `None` if the connection ends before its first byte.
pub fn read_head(from: &mut impl BufRead) -> io::Result<Option<Head>> {
    let Some(first) = line(from)? else { return Ok(None) };
    Ok(Some(Head { first, headers: read_headers(from)? }))
}

/// Reads a chunked body and its trailers, passing the bytes to `take`.
pub fn read_chunks(
    from: &mut impl BufRead,
    mut take: impl FnMut(&[u8]),
) -> io::Result<Vec<(String, String)>> {
    loop {
        let text = line(from)?.ok_or_else(|| invalid("the end among chunks"))?;
        let digits = text.split(';').next().unwrap_or_default();
        let size = u64::from_str_radix(digits, 16).map_err(|_| invalid("a bad chunk size"))?;
        if size == 0 {
            return read_headers(from);
        }
        read_exactly(from, size, &mut take)?;
        if line(from)?.as_deref() != Some("") {
            return Err(invalid("a chunk longer than its size"));
        }
    }
}

/// Reads `len` bytes, passing them to `take` as they arrive.
pub fn read_exactly(
    from: &mut impl Read,
    mut len: u64,
    mut take: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    while len > 0 {
        let want = usize::try_from(len).map_or(buffer.len(), |l| l.min(buffer.len()));
        let got = from.read(&mut buffer[..want])?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        take(&buffer[..got]);
        len -= got as u64;
    }
    Ok(())
}

/// Reads the body of a request with this `head`.
pub fn read_request_body(from: &mut impl BufRead, head: &Head) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if head.chunked() {
        read_chunks(from, |bytes| body.extend_from_slice(bytes))?;
    } else if let Some(len) = head.length() {
        read_exactly(from, len, |bytes| body.extend_from_slice(bytes))?;
    }
    Ok(body)
}
