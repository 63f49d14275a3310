//! The proxy's own credentials for an origin server, in a file: `user:password`, or a bearer token.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::HeaderValue;

/// Maximum size of the file in bytes.
const FILE_MAX: u64 = 16 << 10;

/// Returns the value of `Authorization` that the file after an @ has. Messages never contain it.
pub fn authorization(text: &str) -> Result<HeaderValue, String> {
    let Some(file) = text.strip_prefix('@').filter(|file| !file.is_empty()) else {
        return Err("expected a file after an @, with user:password or a bearer token".to_owned());
    };
    let why = |error: &dyn std::fmt::Display| format!("{file}: {error}");
    let facts = fs::metadata(file).map_err(|error| why(&error))?;
    if !facts.is_file() || facts.len() > FILE_MAX {
        return Err(why(&"expected a file of at most 16K"));
    }
    let bytes = fs::read(file).map_err(|error| why(&error))?;
    let wrong = || why(&"expected one line with user:password or a bearer token");
    let secret = std::str::from_utf8(&bytes).map_err(|_| wrong())?.trim();
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    let value = match secret.contains(':') {
        _ if secret.is_empty() || secret.contains(char::is_control) => return Err(wrong()),
        true => format!("Basic {}", STANDARD.encode(secret)),
        false if secret.bytes().all(is_token) => format!("Bearer {secret}"),
        false => return Err(wrong()),
    };
    let mut value = HeaderValue::try_from(value).map_err(|_| wrong())?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_password_or_a_token() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        let read = |text: &[u8]| {
            fs::write(&path, text).unwrap();
            authorization(&format!("@{}", path.display()))
        };
        for (text, expected) in [
            ("Aladdin:open sesame\n", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
            ("mF_9.B5f-4.1JqM\r\n", "Bearer mF_9.B5f-4.1JqM"),
        ] {
            let value = read(text.as_bytes()).unwrap();
            assert_eq!(value, expected);
            assert!(!format!("{value:?}").contains(expected));
        }
        for text in ["", " \n", "x y", "a:b\nc:d", "Bearer x"] {
            let why = read(text.as_bytes()).unwrap_err();
            assert!(text.trim().is_empty() || !why.contains(text), "{why}");
        }
        assert!(read(b"\xff:x").is_err() && read(&[b'a'; 20_000]).is_err());
        for text in ["secret", "@", "@/dev/zero", "@/nonexistent"] {
            assert!(authorization(text).is_err(), "{text}");
        }
    }
}
