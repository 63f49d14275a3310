//! Hashes of passwords, as in the files of `htpasswd`.

use argon2::{Argon2, PasswordHash as Phc, PasswordVerifier};

/// Hash of a password that takes long to guess.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasswordHash {
    text: String,
    is_bcrypt: bool,
}

impl PasswordHash {
    /// Reads a hash.
    ///
    /// # Errors
    ///
    /// The kind of the hash, if it is neither bcrypt nor argon2.
    pub fn read(text: &str) -> Result<PasswordHash, &'static str> {
        let begins = |begins: &[&str]| begins.iter().any(|begin| text.starts_with(begin));
        let is_bcrypt = begins(&["$2y$", "$2b$", "$2a$"]);
        match () {
            () if is_bcrypt => {
                text.parse::<bcrypt::HashParts>().map_err(|_| "a damaged bcrypt hash")?;
            }
            () if begins(&["$argon2"]) => {
                Phc::new(text).map_err(|_| "a damaged argon2 hash")?;
            }
            () if begins(&["$apr1$", "$1$"]) => return Err("MD5"),
            () if begins(&["{SHA}", "{SSHA}"]) => return Err("SHA-1"),
            () if begins(&["$5$", "$6$"]) => return Err("SHA-2 of crypt"),
            () => return Err("crypt or plain text"),
        }
        Ok(PasswordHash { text: text.to_owned(), is_bcrypt })
    }

    /// Returns the hash as it is written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether it is the hash of a password. Takes tens of milliseconds.
    pub(crate) fn fits(&self, password: &[u8]) -> bool {
        match self.is_bcrypt {
            true => bcrypt::verify(password, &self.text).unwrap_or(false),
            false => Phc::new(&self.text)
                .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const BCRYPT: &str = "$2y$04$abcdefghijklmnopqrstuuFU1DD4pNoqdVAKNUNK8xPBPtaSrDkqC";

    #[test]
    fn strong_hashes_are_read_and_others_named() {
        assert!(PasswordHash::read(BCRYPT).is_ok());
        for (text, kind) in [
            ("$2y$04$short", "a damaged bcrypt hash"),
            ("$argon2id$v=19$nothing", "a damaged argon2 hash"),
            ("$apr1$abcdefgh$xyz", "MD5"),
            ("{SHA}0DPiKuNIrrVmD8IUCuw1hQxNqZc=", "SHA-1"),
            ("$6$salt$hash", "SHA-2 of crypt"),
            ("secret", "crypt or plain text"),
        ] {
            assert_eq!(PasswordHash::read(text), Err(kind));
        }
    }
}
