//! Source of a sequence of purges.

use std::fmt;
use std::str::FromStr;

use crate::member::MemberId;
use crate::purges::vector::InvalidVector;

/// A node between two losses of its disk. A node whose disk is empty, or older than what it has
/// told other nodes, begins another incarnation with a greater number: no number of a purge is used
/// twice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Maker {
    /// Name of the node.
    pub member: MemberId,
    /// Number of the incarnation.
    pub incarnation: u64,
}

impl fmt::Display for Maker {
    /// Writes `name/incarnation`, with the incarnation in hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:x}", self.member, self.incarnation)
    }
}

impl FromStr for Maker {
    type Err = InvalidVector;

    fn from_str(text: &str) -> Result<Maker, InvalidVector> {
        let parsed = || {
            let (name, incarnation) = text.split_once('/')?;
            let is_plain = incarnation.bytes().all(|byte| byte.is_ascii_hexdigit());
            let incarnation = u64::from_str_radix(incarnation, 16).ok().filter(|_| is_plain)?;
            Some(Maker { member: name.parse().ok()?, incarnation })
        };
        parsed().ok_or_else(|| InvalidVector::of(text))
    }
}
