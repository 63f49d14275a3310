//! Basic authentication (RFC 7617) of a rule: its users, from the text of an `htpasswd` file.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::{HeaderName, HeaderValue};

use crate::message::password_hash::PasswordHash;

/// The field of a request that holds the client's credentials while its rule asks for them. The
/// rule moves them here from `Authorization`, so that the request counts as that of any client. It
/// never leaves the proxy.
pub const CREDENTIALS: HeaderName = HeaderName::from_static("larder-basic");

/// Users who may send requests, and what others are asked.
#[derive(Debug)]
pub struct BasicAuth {
    by_name: HashMap<String, PasswordHash>,
    /// The hashes, for users that do not exist.
    hashes: Vec<PasswordHash>,
    hasher: RandomState,
    challenge: HeaderValue,
}

/// Name and password of a request.
pub(crate) struct Credentials {
    user: String,
    pub password: Vec<u8>,
}

impl BasicAuth {
    /// Reads the users, one in each line, as `name:hash`.
    ///
    /// # Errors
    ///
    /// A sentence, without any hash.
    pub fn read(realm: &str, text: &str) -> Result<BasicAuth, String> {
        let mut by_name = HashMap::new();
        for (number, line) in text.lines().enumerate() {
            let (number, line) = (number + 1, line.trim());
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((name, hash)) = line.split_once(':').filter(|(name, _)| !name.is_empty())
            else {
                return Err(format!("line {number}: expected NAME:HASH"));
            };
            let hash = PasswordHash::read(hash).map_err(|kind| {
                format!(
                    "line {number}: expected a bcrypt or argon2 hash for {name:?}, got {kind} \
                     (htpasswd -B makes one)"
                )
            })?;
            if by_name.insert(name.to_owned(), hash).is_some() {
                return Err(format!("line {number}: the user {name:?} is there twice"));
            }
        }
        let hashes: Vec<_> = by_name.values().cloned().collect();
        if hashes.is_empty() {
            return Err("expected at least one user".to_owned());
        }
        let challenge = challenge(realm)?;
        Ok(BasicAuth { by_name, hashes, hasher: RandomState::new(), challenge })
    }

    /// Checks that a realm can be sent to clients.
    ///
    /// # Errors
    ///
    /// A sentence.
    pub fn check_realm(realm: &str) -> Result<(), String> {
        challenge(realm).map(drop)
    }

    /// Returns the value of `WWW-Authenticate`.
    pub(crate) fn challenge(&self) -> &HeaderValue {
        &self.challenge
    }

    /// Returns the hash that a password is compared with, and whether it is the user's. The
    /// password of an unknown user is compared with the hash of another one, so that the time does
    /// not tell which users exist.
    pub(crate) fn hash_for(&self, credentials: &Credentials) -> (&PasswordHash, bool) {
        match self.by_name.get(&credentials.user) {
            Some(hash) => (hash, true),
            None => {
                let at = self.hasher.hash_one(&credentials.user) % self.hashes.len() as u64;
                (&self.hashes[at as usize], false)
            }
        }
    }
}

impl Credentials {
    /// Reads the value of `Authorization`; `None` if it is not for this scheme.
    pub fn read(value: &[u8]) -> Option<Credentials> {
        let (scheme, rest) = value.split_at_checked(6)?;
        if !scheme.eq_ignore_ascii_case(b"basic ") {
            return None;
        }
        let pair = BASE64_STANDARD.decode(rest.trim_ascii()).ok()?;
        let colon = pair.iter().position(|byte| *byte == b':')?;
        let user = String::from_utf8(pair[..colon].to_vec()).ok()?;
        Some(Credentials { user, password: pair[colon + 1..].to_vec() })
    }
}

fn challenge(realm: &str) -> Result<HeaderValue, String> {
    let is_plain = |byte: u8| (byte.is_ascii_graphic() || byte == b' ') && byte != b'"';
    let value = format!("Basic realm=\"{realm}\", charset=\"UTF-8\"");
    match realm.bytes().all(|byte| is_plain(byte) && byte != b'\\') {
        true => HeaderValue::try_from(value).map_err(|error| error.to_string()),
        false => Err(format!("expected a realm of plain ASCII without quotes, got {realm:?}")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const HASH: &str = "$2y$04$abcdefghijklmnopqrstuuFU1DD4pNoqdVAKNUNK8xPBPtaSrDkqC";

    #[test]
    fn mistakes_in_a_file_are_told_without_its_hashes() {
        let read = |text: &str| BasicAuth::read("r", text);
        assert!(read(&format!("# staff\n\nann:{HASH}\r\n")).is_ok());
        for (text, expected) in [
            ("", "at least one user"),
            ("ann", "line 1"),
            (":x", "line 1"),
            ("ann:$apr1$topsecret", "MD5"),
            (&format!("a:{HASH}\na:{HASH}"), "line 2: the user \"a\""),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected) && !error.contains("topsecret"), "{error}");
        }
        assert!(BasicAuth::read("a\"b", &format!("ann:{HASH}")).is_err());
    }

    #[test]
    fn credentials_are_read() {
        let read = |value: &str| {
            Credentials::read(value.as_bytes()).map(|read| (read.user, read.password))
        };
        let ann = ("ann".to_owned(), b"se:cret".to_vec());
        assert_eq!(read("basic  YW5uOnNlOmNyZXQ="), Some(ann));
        for wrong in ["", "Basic", "Basic !", "Basic YW5u", "Bearer YW5uOnNlOmNyZXQ="] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn unknown_users_cost_as_much_as_known_ones() {
        let users = BasicAuth::read("r", &format!("ann:{HASH}")).unwrap();
        let of = |user: &str| Credentials { user: user.to_owned(), password: Vec::new() };
        assert!(users.hash_for(&of("ann")).1);
        let (hash, is_users) = users.hash_for(&of("bob"));
        assert!(!is_users && hash.text() == HASH);
    }
}
