//! The key that all nodes of a fleet share: one secret, read from a file, from which each use
//! derives its own key.
//!
//! Guarantees: every node derives the same keys from the same secret, in every version of the
//! program, whether the file holds it in hex, in base64 or raw. No key reveals anything about
//! another key or the secret (HKDF with SHA-256, RFC 5869). Neither messages nor debug output
//! contain any part of it. A file that is obviously not a random secret, such as a sentence, is
//! refused, because anyone who guesses the secret can act as a node.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};

/// Minimum size of a secret in bytes.
const SECRET_MIN: usize = 32;
/// Maximum size of its file in bytes.
const FILE_MAX: u64 = 4096;
/// Minimum number of distinct bytes in a secret. 32 random bytes have 30 distinct ones on average;
/// the probability of fewer than this minimum is 10^-14.
const DIFFERENT_MIN: usize = 16;

/// Advice on how to make a secret, for messages.
const ADVICE: &str = "make one with `openssl rand -hex 32`";

/// Separates these keys from others derived from the same secret.
const SALT: &[u8] = b"larder fleet key 1";

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);

/// The shared key of a fleet.
pub struct FleetKey {
    root: Prk,
    warning: Option<String>,
}

impl fmt::Debug for FleetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FleetKey(secret)")
    }
}

impl FleetKey {
    /// Reads the secret from a file: at least 32 random bytes, in hex, in base64 or raw.
    ///
    /// # Errors
    ///
    /// Fails with a sentence that names the file if it cannot be read or holds no such secret.
    pub fn read(path: &Path) -> Result<FleetKey, String> {
        let at = path.display();
        let told = |error: std::io::Error| format!("{at}: {error}");
        let file = File::open(path).map_err(told)?;
        let mode = file.metadata().map_err(told)?.permissions().mode();
        let mut content = Vec::new();
        // A device file may be endless.
        file.take(FILE_MAX + 1).read_to_end(&mut content).map_err(told)?;
        let key = FleetKey::parse(&content).map_err(|why| format!("{at}: {why}"))?;
        let warning = (mode & 0o006 != 0).then(|| {
            let mode = mode & 0o777;
            format!(
                "{at}: every user of this machine may read or change the fleet's key (mode \
                     {mode:o}): chmod 600 it"
            )
        });
        Ok(FleetKey { warning, ..key })
    }

    /// Derives the key from the content of a file.
    ///
    /// # Errors
    ///
    /// Fails with a sentence if the content is not a valid secret.
    pub fn parse(content: &[u8]) -> Result<FleetKey, String> {
        if content.len() as u64 > FILE_MAX {
            return Err(format!("expected a key of at most {FILE_MAX} bytes, there are more"));
        }
        let secret = decode(content)?;
        if secret.len() < SECRET_MIN {
            let length = secret.len();
            return Err(format!(
                "the key is too short: expected {SECRET_MIN} bytes or more, got {length}: {ADVICE}"
            ));
        }
        let different = secret.iter().collect::<BTreeSet<_>>().len();
        if different < DIFFERENT_MIN {
            return Err(format!(
                "the key is not random, it has {different} different bytes: {ADVICE}"
            ));
        }
        let root = Salt::new(HKDF_SHA256, SALT).extract(&secret);
        Ok(FleetKey { root, warning: None })
    }

    /// Returns a warning sentence if users other than the file's owner and group may read or change
    /// it.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Returns the key that encrypts gossip.
    pub fn gossip_key(&self) -> [u8; 32] {
        self.derive(b"gossip")
    }

    /// Returns the seed with which documents are spread over the nodes.
    pub fn placement_seed(&self) -> u64 {
        u64::from_le_bytes(self.derive(b"placement"))
    }

    /// Returns the private key by which nodes recognise each other, for Ed25519 (RFC 8032, 5.1.5).
    pub(crate) fn identity(&self) -> [u8; 32] {
        self.derive(b"identity ed25519")
    }

    fn derive<const N: usize>(&self, label: &[u8]) -> [u8; N] {
        let mut key = [0; N];
        let filled = self.root.expand(&[label], Bytes(N)).and_then(|okm| okm.fill(&mut key));
        assert!(filled.is_ok(), "HKDF gives up to 8,160 bytes (RFC 5869, 2.3)");
        key
    }
}

/// Number of bytes to derive.
struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

/// Extracts the secret from a file's content. Content that is not text is the secret itself.
fn decode(content: &[u8]) -> Result<Vec<u8>, String> {
    if content.trim_ascii().is_empty() {
        return Err(format!("expected a key, there is nothing: {ADVICE}"));
    }
    let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    if !content.iter().all(is_text) {
        return Ok(content.to_owned());
    }
    // Some tools wrap long lines.
    let line_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let text: Vec<u8> = content.trim_ascii().iter().copied().filter(|b| !line_break(b)).collect();
    if text.iter().all(u8::is_ascii_hexdigit) {
        return hex(&text).ok_or_else(|| {
            let digits = text.len();
            format!("expected two hex digits for each byte, got {digits} digits: is one missing?")
        });
    }
    let alphabets = [alphabet::STANDARD, alphabet::URL_SAFE];
    let engines = alphabets.iter().map(|alphabet| GeneralPurpose::new(alphabet, LENIENT));
    let decoded = engines.filter_map(|engine| engine.decode(&text).ok()).next();
    decoded.ok_or_else(|| {
        format!(
            "expected {SECRET_MIN} random bytes or more in hex, in base64 or as they are, got \
                 another text: {ADVICE}"
        )
    })
}

fn hex(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16);
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(value(*high)? << 4 | value(*low)?).ok(),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    fn refused(content: &[u8]) -> String {
        FleetKey::parse(content).unwrap_err()
    }

    #[test]
    fn every_spelling_of_a_secret_gives_the_same_keys_in_every_version() {
        let raw: Vec<u8> = (0..32).collect();
        let spellings: [&[u8]; 7] = [
            &raw,
            HEX.as_bytes(),
            b" 000102030405060708090A0B0C0D0E0F10\r\n1112131415161718191a1b1c1d1e1f\r\n",
            b"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
            b"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n",
            b"AAECAwQFBgcICQoLDA0ODxAR\nEhMUFRYXGBkaGxwdHh8=\n",
            b"\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n\n",
        ];
        for content in spellings {
            let key = FleetKey::parse(content).unwrap();
            assert_eq!(hex(GOSSIP.as_bytes()).unwrap(), key.gossip_key());
            assert_eq!(hex(IDENTITY.as_bytes()).unwrap(), key.identity());
            assert_eq!(key.placement_seed(), SEED);
            assert!(!format!("{key:?}").contains("01"));
        }
        let url_safe = b"-_-_AwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
        let standard = b"+/+/AwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
        let [a, b] = [&url_safe[..], standard].map(|text| FleetKey::parse(text).unwrap());
        assert_eq!(a.gossip_key(), b.gossip_key());
    }

    // Computed with another implementation of RFC 5869. Other values would split a fleet while it
    // is being upgraded.
    const GOSSIP: &str = "6474c799f8c794c0cceb8613e5b2fe2cdc52476136cb198f4c74f230bbe816e8";
    const IDENTITY: &str = "808441cb03b0aa4779cee2d5fdeea58e9f4cb62279f5578c4163bdecf11b5384";
    const SEED: u64 = 0x9970_6050_aac6_8275;

    #[test]
    fn what_is_no_secret_is_refused_in_words() {
        for content in [&b""[..], b" \n", b"\n\n"] {
            assert!(refused(content).starts_with("expected a key, there is nothing: make one"));
        }
        let short = refused(&HEX.as_bytes()[..62]);
        assert!(short.starts_with("the key is too short: expected 32 bytes or more, got 31"));
        assert!(refused(&HEX.as_bytes()[..63]).contains("got 63 digits: is one missing?"));
        assert!(refused(b"AAECAwQFBgcICQoLDA0ODw==").contains("got 16"));
        assert!(refused(&[0xff; 64]).contains("not random, it has 1 different bytes"));
        assert!(refused(&b"00".repeat(32)).contains("not random"));
        let sentence = refused(b"correct horse battery staple, and then some more of the same");
        assert!(sentence.contains("got another text"), "{sentence}");
        assert!(refused(&vec![7; 5000]).contains("at most 4096 bytes"));
    }

    #[test]
    fn a_file_is_named_when_it_is_wrong_and_when_all_may_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fleet.key");
        let missing = FleetKey::read(&path).unwrap_err();
        assert!(missing.contains("fleet.key: No such file"), "{missing}");
        fs::write(&path, HEX).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(FleetKey::read(&path).unwrap().warning(), None);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let key = FleetKey::read(&path).unwrap();
        let warning = key.warning().unwrap();
        assert!(warning.contains("fleet.key: every user") && warning.contains("644"), "{warning}");
        let endless = FleetKey::read(Path::new("/dev/zero")).unwrap_err();
        assert!(endless.contains("/dev/zero: expected a key of at most"), "{endless}");
        let directory = FleetKey::read(dir.path()).unwrap_err();
        assert!(directory.contains("directory"), "{directory}");
    }
}
