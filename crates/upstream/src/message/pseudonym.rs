//! The name of this proxy in `Via` and `Cache-Status`.

/// A token that names this proxy (RFC 9110 section 7.6.3, RFC 9211 section 2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pseudonym(String);

impl Pseudonym {
    /// Creates a pseudonym; `None` unless `name` is a token of 1 to 64 bytes that begins with a
    /// letter (allowed both in `Via` and as a structured-field token).
    pub fn new(name: &str) -> Option<Pseudonym> {
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        let fine = (1..=64).contains(&name.len())
            && name.as_bytes()[0].is_ascii_alphabetic()
            && name.bytes().all(token);
        fine.then(|| Pseudonym(name.to_owned()))
    }

    /// Returns the token.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Pseudonym {
    fn default() -> Self {
        Pseudonym("larder".to_owned())
    }
}
