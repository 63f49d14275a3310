//! Versions of the protocol that nodes speak with each other.
//!
//! Nodes with different program versions share caches and purge together as long as they have a
//! protocol in common; only protocol numbers matter. A node understands all protocols from its
//! oldest to its newest; two nodes speak the newest that both understand. Nodes without a common
//! protocol do not ask each other, and purges list them as not reached.
//!
//! The facts that a node reports about itself have the same form in every protocol, so that nodes
//! can find a common one: facts are added, never removed or redefined.
//!
//! A change that an older node would misunderstand takes the next number, and is used only with
//! nodes that understand it. [`Protocols::OWN`] begins with the oldest protocol that is still
//! supported.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// Protocols that a node understands: a closed range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocols {
    oldest: u16,
    newest: u16,
}

impl Protocols {
    /// Protocols of this program.
    pub const OWN: Protocols = Protocols { oldest: 1, newest: 1 };

    /// Makes the range from `oldest` to `newest`; `None` if it is empty.
    pub fn new(oldest: u16, newest: u16) -> Option<Protocols> {
        (oldest <= newest).then_some(Protocols { oldest, newest })
    }

    /// Returns the newest protocol.
    pub fn newest(self) -> u16 {
        self.newest
    }

    /// Returns whether the range contains `protocol`.
    pub fn contain(self, protocol: u16) -> bool {
        (self.oldest..=self.newest).contains(&protocol)
    }

    /// Returns the newest protocol that both ranges contain, if any.
    pub fn common(self, other: Protocols) -> Option<u16> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }
}

impl fmt::Display for Protocols {
    /// Writes `OLDEST-NEWEST`, or the single number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.oldest == self.newest {
            true => write!(f, "{}", self.newest),
            false => write!(f, "{}-{}", self.oldest, self.newest),
        }
    }
}

/// Error: a text is not a protocol range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidProtocols(Box<str>);

impl fmt::Display for InvalidProtocols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} are not valid protocols: write NUMBER or OLDEST-NEWEST", self.0)
    }
}

impl Error for InvalidProtocols {}

impl FromStr for Protocols {
    type Err = InvalidProtocols;

    fn from_str(text: &str) -> Result<Protocols, InvalidProtocols> {
        let number = |text: &str| {
            let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| text.parse().ok()).flatten()
        };
        let parsed = || {
            let (oldest, newest) = text.split_once('-').unwrap_or((text, text));
            Protocols::new(number(oldest)?, number(newest)?)
        };
        parsed().ok_or_else(|| InvalidProtocols(text.chars().take(20).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protocols(text: &str) -> Protocols {
        text.parse().unwrap()
    }

    #[test]
    fn two_nodes_speak_the_newest_that_both_understand() {
        for (one, other, common) in [
            ("1", "1", Some(1)),
            ("1", "1-2", Some(1)),
            ("1-3", "2-9", Some(3)),
            ("1", "2", None),
            ("1-2", "3-4", None),
        ] {
            assert_eq!(protocols(one).common(protocols(other)), common, "{one} {other}");
            assert_eq!(protocols(other).common(protocols(one)), common, "{other} {one}");
        }
        assert!(protocols("2-3").contain(3) && !protocols("2-3").contain(1));
    }

    #[test]
    fn protocols_are_written_as_they_are_read() {
        for text in ["0", "1", "1-2", "0-65535"] {
            assert_eq!(protocols(text).to_string(), text);
        }
        for wrong in ["", "-", "1-", "-1", "2-1", "+1", "65536", "1-2-3", "a"] {
            assert!(wrong.parse::<Protocols>().is_err(), "{wrong:?}");
        }
    }
}
