//! Parts of an access log line: numbers, addresses, times and escaped values.
//!
//! Every logged request formats a line, so the standard library's formatting is used only once per
//! second, for the text of the time. Values are compared in blocks and copied in runs, because
//! nearly all of them need no escaping.

use std::cell::Cell;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Returns the hexadecimal digit of the lowest four bits.
fn hex(bits: u16) -> u8 {
    HEX[usize::from(bits & 15)]
}

/// Appends a decimal number.
pub fn number(n: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
}

/// Appends a decimal number, padded on the left with `fill` to `width` bytes.
pub fn padded(n: u64, width: usize, fill: u8, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(n).as_bytes();
    for _ in digits.len()..width {
        out.push(fill);
    }
    out.extend_from_slice(digits);
}

/// Appends `.` and three decimal digits; `n` must be below 1000.
pub fn thousandths(n: u32, out: &mut Vec<u8>) {
    let digit = |n: u32| b'0' + (n % 10) as u8;
    out.extend_from_slice(&[b'.', digit(n / 100), digit(n / 10), digit(n)]);
}

/// Appends the address in its canonical form, identical to its `Display`.
pub fn address(ip: IpAddr, out: &mut Vec<u8>) {
    match net::address::canonical(ip) {
        IpAddr::V4(ip) => v4(ip, out),
        IpAddr::V6(ip) => v6(ip, out),
    }
}

fn v4(ip: Ipv4Addr, out: &mut Vec<u8>) {
    for (i, octet) in ip.octets().into_iter().enumerate() {
        if i > 0 {
            out.push(b'.');
        }
        if octet >= 100 {
            out.push(b'0' + octet / 100);
        }
        if octet >= 10 {
            out.push(b'0' + octet / 10 % 10);
        }
        out.push(b'0' + octet % 10);
    }
}

/// Appends the text of RFC 5952: the first of the longest runs of zero segments becomes `::`,
/// unless the run is a single segment. IPv4-mapped addresses, which have a form of their own, do
/// not reach this function.
fn v6(ip: Ipv6Addr, out: &mut Vec<u8>) {
    let segments = ip.segments();
    let (mut start, mut len, mut run) = (0, 0, 0);
    for (i, &segment) in segments.iter().enumerate() {
        run = if segment == 0 { run + 1 } else { 0 };
        if run > len {
            (start, len) = (i + 1 - run, run);
        }
    }
    if len < 2 {
        return v6_segments(&segments, out);
    }
    v6_segments(&segments[..start], out);
    out.extend_from_slice(b"::");
    v6_segments(&segments[start + len..], out);
}

fn v6_segments(segments: &[u16], out: &mut Vec<u8>) {
    for (i, &segment) in segments.iter().enumerate() {
        if i > 0 {
            out.push(b':');
        }
        for shift in [12, 8, 4] {
            if segment >> shift > 0 {
                out.push(hex(segment >> shift));
            }
        }
        out.push(hex(segment));
    }
}

/// Text of one second in UTC.
#[derive(Clone, Copy)]
pub struct Calendar {
    seconds: u64,
    /// `2026-01-02T03:04:05`.
    pub iso: [u8; 19],
    /// `02/Jan/2026:03:04:05 +0000`.
    pub clf: [u8; 26],
}

impl Calendar {
    /// Returns the text of the second `seconds` after 1970, capped at the end of the year 9999.
    /// Formats once per second and thread.
    pub fn of(seconds: u64) -> Calendar {
        thread_local! {
            static LAST: Cell<Calendar> =
                const { Cell::new(Calendar { seconds: u64::MAX, iso: [0; 19], clf: [0; 26] }) };
        }
        let last = LAST.get();
        if last.seconds == seconds {
            return last;
        }
        let new = Calendar::made(seconds);
        LAST.set(new);
        new
    }

    #[cold]
    fn made(seconds: u64) -> Calendar {
        let mut new = Calendar { seconds, iso: [0; 19], clf: [0; 26] };
        let time = i64::try_from(seconds).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
        let time = time.unwrap_or(jiff::Timestamp::MAX);
        let _whole = write!(&mut new.iso[..], "{}", time.strftime("%Y-%m-%dT%H:%M:%S"));
        let _whole = write!(&mut new.clf[..], "{}", time.strftime("%d/%b/%Y:%H:%M:%S +0000"));
        new
    }
}

/// Returns whether `accepts` holds for every byte. Compares whole blocks; the last one overlaps.
#[inline]
pub fn all(bytes: &[u8], accepts: impl Fn(u8) -> bool) -> bool {
    const BLOCK: usize = 16;
    let Some(last) = bytes.last_chunk::<BLOCK>() else {
        return bytes.iter().all(|&b| accepts(b));
    };
    let mut refused = [0; BLOCK];
    for block in bytes.as_chunks::<BLOCK>().0.iter().chain([last]) {
        refused.iter_mut().zip(block).for_each(|(any, b)| *any |= u8::from(!accepts(*b)));
    }
    refused == [0; BLOCK]
}

/// Returns whether a byte needs no escaping within quotes.
fn is_plain(b: u8) -> bool {
    matches!(b, b' '..=b'~') & (b != b'"') & (b != b'\\')
}

/// Copies the runs of bytes that `plain` accepts and calls `escape` for each other byte.
#[inline]
fn escape(
    bytes: &[u8],
    out: &mut Vec<u8>,
    plain: impl Fn(u8) -> bool,
    escape: impl Fn(u8, &mut Vec<u8>),
) {
    let mut rest = bytes;
    if !all(bytes, &plain) {
        while let Some(at) = rest.iter().position(|&b| !plain(b)) {
            out.extend_from_slice(&rest[..at]);
            escape(rest[at], out);
            rest = &rest[at + 1..];
        }
    }
    out.extend_from_slice(rest);
}

/// Escapes as web servers do within quotes: `\"`, `\\`, `\xHH`.
pub fn quoted(bytes: &[u8], out: &mut Vec<u8>) {
    escape(bytes, out, is_plain, |b, out| match b {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', b]),
        _ => out.extend_from_slice(&[b'\\', b'x', hex(u16::from(b >> 4)), hex(u16::from(b))]),
    });
}

/// Escapes as nginx does: `\xHH` for quotes, backslashes and everything but visible ASCII and
/// spaces.
pub fn nginx(bytes: &[u8], out: &mut Vec<u8>) {
    let digit = |bits: u8| hex(u16::from(bits)).to_ascii_uppercase();
    escape(bytes, out, is_plain, |b, out| {
        out.extend_from_slice(&[b'\\', b'x', digit(b >> 4), digit(b)]);
    });
}

/// Percent-encodes everything but visible ASCII, for a field delimited by spaces.
pub fn percent(bytes: &[u8], out: &mut Vec<u8>) {
    let digit = |bits: u8| hex(u16::from(bits)).to_ascii_uppercase();
    let plain = |b: u8| b.is_ascii_graphic();
    escape(bytes, out, plain, |b, out| out.extend_from_slice(&[b'%', digit(b >> 4), digit(b)]));
}

/// Escapes as within a JSON string: `\"`, `\\`, and `\uHHHH` for everything but visible ASCII and
/// spaces. Bytes that are not UTF-8 become the replacement character.
pub fn json(bytes: &[u8], out: &mut Vec<u8>) {
    if all(bytes, is_plain) {
        return out.extend_from_slice(bytes);
    }
    for chunk in bytes.utf8_chunks() {
        json_text(chunk.valid(), out);
        if !chunk.invalid().is_empty() {
            json_char(char::REPLACEMENT_CHARACTER, out);
        }
    }
}

fn json_text(mut text: &str, out: &mut Vec<u8>) {
    while let Some((at, c)) =
        text.char_indices().find(|(_, c)| !c.is_ascii() || !is_plain(*c as u8))
    {
        out.extend_from_slice(&text.as_bytes()[..at]);
        json_char(c, out);
        text = &text[at + c.len_utf8()..];
    }
    out.extend_from_slice(text.as_bytes());
}

fn json_char(c: char, out: &mut Vec<u8>) {
    match c {
        '"' | '\\' => out.extend_from_slice(&[b'\\', c as u8]),
        _ => {
            for &unit in &*c.encode_utf16(&mut [0; 2]) {
                let digits = [12, 8, 4, 0].map(|shift| hex(unit >> shift));
                out.extend_from_slice(b"\\u");
                out.extend_from_slice(&digits);
            }
        }
    }
}
