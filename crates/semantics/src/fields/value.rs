//! Field values: reading them as text, and formatting new ones with a single allocation, by way of
//! a buffer on the stack.

use std::fmt::{self, Write};
use std::net::IpAddr;

use http::HeaderValue;

/// Returns a line as text; `None` if it contains bytes other than visible ASCII, space and tab.
pub fn text(line: &[u8]) -> Option<&str> {
    let is_text = line.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
    std::str::from_utf8(line).ok().filter(|_| is_text)
}

/// Size of the stack buffer in bytes. Longer values take a second allocation.
const BUFFER: usize = 256;

struct Buffer {
    bytes: [u8; BUFFER],
    length: usize,
}

impl Write for Buffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        let place = self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Formats a field value; `None` if it contains characters that are invalid in a value.
pub fn of(text: impl fmt::Display) -> Option<HeaderValue> {
    let mut buffer = Buffer { bytes: [0; BUFFER], length: 0 };
    match write!(buffer, "{text}") {
        Ok(()) => HeaderValue::from_bytes(&buffer.bytes[..buffer.length]).ok(),
        Err(fmt::Error) => HeaderValue::try_from(text.to_string()).ok(),
    }
}

/// Formats an address as a field value. IPv4-mapped IPv6 addresses become IPv4. The proxy sends an
/// address with every request, so IPv4 is formatted by hand.
pub fn of_address(address: IpAddr) -> Option<HeaderValue> {
    let IpAddr::V4(address) = address.to_canonical() else { return of(address) };
    let mut text = [0; "255.255.255.255".len()];
    let mut length = 0;
    let mut put = |byte: u8| {
        text[length] = byte;
        length += 1;
    };
    for (number, octet) in address.octets().into_iter().enumerate() {
        if number > 0 {
            put(b'.');
        }
        if octet >= 100 {
            put(b'0' + octet / 100);
        }
        if octet >= 10 {
            put(b'0' + octet / 10 % 10);
        }
        put(b'0' + octet % 10);
    }
    HeaderValue::from_bytes(&text[..length]).ok()
}

/// Formats a number as a field value.
pub fn of_number(number: u64) -> HeaderValue {
    of(number).unwrap_or(HeaderValue::from_static("0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_their_texts() {
        assert_eq!(of_number(u64::MAX), "18446744073709551615");
        for octet in 0..=255 {
            for other in [0, 9, 10, 99, 100, 255] {
                let address = IpAddr::from([octet, other, octet, other]);
                assert_eq!(of_address(address).unwrap(), address.to_string());
            }
        }
        let mapped = "::ffff:192.0.2.1".parse().unwrap();
        assert_eq!(of_address(mapped).unwrap(), "192.0.2.1");
        assert_eq!(of_address("2001:db8::1".parse().unwrap()).unwrap(), "2001:db8::1");
        assert_eq!(of("two words"), Some(HeaderValue::from_static("two words")));
        assert_eq!(of("two\nlines"), None);
        let long = "x".repeat(BUFFER + 1);
        assert_eq!(of(&long).map(|value| value.len()), Some(BUFFER + 1));
    }
}
