//! Policy of a class: how its documents are looked up, copied, evicted and replicated.
//!
//! Each of the four settings is a word in the operator's text. Some combinations contradict each
//! other; [`Policy::check`] rejects them.

use std::error::Error;
use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

/// Error: a word that the setting does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    setting: &'static str,
    given: Box<str>,
    known: String,
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a valid {}: use {}", self.given, self.setting, self.known)
    }
}

impl Error for UnknownWord {}

/// Returns the value that the word `given` stands for.
pub(super) fn parse<T: Copy>(
    setting: &'static str,
    words: &[(&'static str, T)],
    given: &str,
) -> Result<T, UnknownWord> {
    let found = words.iter().find(|(word, _)| *word == given);
    found.map(|(_, value)| *value).ok_or_else(|| UnknownWord {
        setting,
        given: given.into(),
        known: words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", "),
    })
}

/// Returns the word that stands for `value`.
pub(super) fn word<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    words.iter().find(|(_, known)| known == value).map_or("", |(word, _)| word)
}

/// Where to look for a document that is not in this node's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// `local`: own disk, then the origin. No other node is asked.
    Local,
    /// `owner`: own disk, then the owner, which fetches if it must. Other memories are not asked.
    /// This is the paper's direct path to the disk node.
    Owner,
    /// `cooperate`: other nodes' memories, then any disk, then as `owner`.
    Cooperate,
}

impl Lookup {
    const WORDS: [(&'static str, Lookup); 3] =
        [("local", Lookup::Local), ("owner", Lookup::Owner), ("cooperate", Lookup::Cooperate)];
}

/// Which nodes keep in memory a document that one node read through its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// `exclusive`: only the node that asked.
    Exclusive,
    /// `discard-cache`: only the owner.
    DiscardCache,
    /// `inclusive`: both.
    Inclusive,
    /// `none`: neither.
    None,
}

impl Copies {
    const WORDS: [(&'static str, Copies); 4] = [
        ("exclusive", Copies::Exclusive),
        ("discard-cache", Copies::DiscardCache),
        ("inclusive", Copies::Inclusive),
        ("none", Copies::None),
    ];

    /// Returns whether the asking node keeps a copy.
    pub fn at_reader(self) -> bool {
        matches!(self, Copies::Exclusive | Copies::Inclusive)
    }

    /// Returns whether the owner keeps a copy of what another node asked for.
    pub fn at_owner(self) -> bool {
        matches!(self, Copies::DiscardCache | Copies::Inclusive)
    }
}

/// Rule for the last copy in any memory when it is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// `drop`: it is discarded.
    Drop,
    /// `offer`: it is offered to a less busy node.
    Offer,
}

impl Eviction {
    const WORDS: [(&'static str, Eviction); 2] =
        [("drop", Eviction::Drop), ("offer", Eviction::Offer)];
}

/// On how many nodes' disks a document is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
    /// A number: the disks of that many owners.
    Owners(NonZeroU16),
    /// `all`: the disk of every node that has served it.
    All,
}

impl Replication {
    /// Kept on one owner's disk.
    pub const ONE: Replication = Replication::Owners(NonZeroU16::MIN);
}

const fn names<T: Copy, const N: usize>(words: &[(&'static str, T); N]) -> [&'static str; N] {
    let (mut all, mut at) = ([""; N], 0);
    while at < N {
        all[at] = words[at].0;
        at += 1;
    }
    all
}

macro_rules! words {
    ($type:ident, $setting:literal) => {
        impl $type {
            /// Words of the setting, in the order of the variants.
            pub const NAMES: [&'static str; $type::WORDS.len()] = names(&$type::WORDS);
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(word(&$type::WORDS, self))
            }
        }

        impl FromStr for $type {
            type Err = UnknownWord;

            fn from_str(given: &str) -> Result<$type, UnknownWord> {
                parse($setting, &$type::WORDS, given)
            }
        }
    };
}

words!(Lookup, "lookup");
words!(Copies, "rule for copies");
words!(Eviction, "rule for evictions");

impl fmt::Display for Replication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Replication::Owners(count) => count.fmt(f),
            Replication::All => f.write_str("all"),
        }
    }
}

impl FromStr for Replication {
    type Err = UnknownWord;

    fn from_str(given: &str) -> Result<Replication, UnknownWord> {
        let digits = !given.is_empty() && given.bytes().all(|byte| byte.is_ascii_digit());
        match given.parse().ok().filter(|_| digits) {
            Some(count) => Ok(Replication::Owners(count)),
            None if given == "all" => Ok(Replication::All),
            None => Err(UnknownWord {
                setting: "replication",
                given: given.into(),
                known: "all, or a number of owners from 1 to 65535".into(),
            }),
        }
    }
}

/// How the documents of a class are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Where to look for them.
    pub lookup: Lookup,
    /// Which memories keep them.
    pub copies: Copies,
    /// Rule for the last copy in memory when it is evicted.
    pub eviction: Eviction,
    /// On how many disks they are kept.
    pub replication: Replication,
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Policy { lookup, copies, eviction, replication } = self;
        write!(
            f,
            "lookup {lookup}, copies {copies}, eviction {eviction}, replication {replication}"
        )
    }
}

/// Why the settings of a policy contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// No owner is asked, yet only owners would keep the document.
    LocalWithoutReplication,
    /// Other memories are not asked, so an offered copy would never be found.
    OfferWithoutCooperation,
    /// No copy enters memory, so there is none to offer.
    OfferWithoutCopies,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Contradiction::LocalWithoutReplication => {
                "lookup \"local\" asks no owner, so each node must keep its own: set replication \
                 to \"all\", or lookup to \"owner\""
            }
            Contradiction::OfferWithoutCooperation => {
                "eviction \"offer\" puts copies in other nodes' memories, which only lookup \
                 \"cooperate\" asks: set lookup to \"cooperate\", or eviction to \"drop\""
            }
            Contradiction::OfferWithoutCopies => {
                "copies \"none\" leaves nothing in memory that eviction \"offer\" could offer: set \
                 eviction to \"drop\""
            }
        })
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::DEFAULT
    }
}

impl Policy {
    /// Default policy of the product.
    ///
    /// All nodes ask one owner. The fleet fetches a document once and keeps it on one disk and in
    /// one memory, the owner's, so disks and memories add up. Keeping copies at the asking node too
    /// would fill memories with the same documents (compare both in the lab's `olaru-tichy-nodes`).
    /// Only hot documents get more owners ([`crate::popularity`]). An evicted copy is dropped:
    /// reading it from the owner's disk takes less time than moving copies over most networks.
    pub const DEFAULT: Policy = Policy {
        lookup: Lookup::Owner,
        copies: Copies::DiscardCache,
        eviction: Eviction::Drop,
        replication: Replication::ONE,
    };

    /// Checks that the settings agree with each other.
    ///
    /// # Errors
    ///
    /// The first contradiction found.
    pub fn check(&self) -> Result<(), Contradiction> {
        if self.lookup == Lookup::Local && self.replication != Replication::All {
            return Err(Contradiction::LocalWithoutReplication);
        }
        match (self.eviction, self.lookup, self.copies) {
            (Eviction::Offer, Lookup::Local | Lookup::Owner, _) => {
                Err(Contradiction::OfferWithoutCooperation)
            }
            (Eviction::Offer, Lookup::Cooperate, Copies::None) => {
                Err(Contradiction::OfferWithoutCopies)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_written_as_it_is_read() {
        assert_eq!(Lookup::NAMES, ["local", "owner", "cooperate"]);
        assert_eq!(Policy::DEFAULT.check(), Ok(()));
        for (text, value) in Lookup::WORDS {
            assert_eq!((text.parse(), value.to_string()), (Ok(value), text.to_string()));
        }
        for (text, value) in Copies::WORDS {
            assert_eq!((text.parse(), value.to_string()), (Ok(value), text.to_string()));
        }
        for (text, value) in Eviction::WORDS {
            assert_eq!((text.parse(), value.to_string()), (Ok(value), text.to_string()));
        }
        for text in ["1", "3", "65535", "all"] {
            assert_eq!(text.parse::<Replication>().unwrap().to_string(), text);
        }
        for wrong in ["", "0", "-1", "+1", "65536", "every"] {
            assert!(wrong.parse::<Replication>().is_err(), "{wrong:?}");
        }
        let error = "peer".parse::<Lookup>().unwrap_err().to_string();
        assert_eq!(error, "\"peer\" is not a valid lookup: use local, owner, cooperate");
    }

    #[test]
    fn contradictions_are_named() {
        let right = Policy {
            lookup: Lookup::Cooperate,
            copies: Copies::Exclusive,
            eviction: Eviction::Offer,
            replication: Replication::ONE,
        };
        assert_eq!(right.check(), Ok(()));
        let local = Policy { lookup: Lookup::Local, eviction: Eviction::Drop, ..right };
        assert_eq!(local.check(), Err(Contradiction::LocalWithoutReplication));
        assert_eq!(Policy { replication: Replication::All, ..local }.check(), Ok(()));
        let owner = Policy { lookup: Lookup::Owner, ..right };
        assert_eq!(owner.check(), Err(Contradiction::OfferWithoutCooperation));
        let none = Policy { copies: Copies::None, ..right };
        assert_eq!(none.check(), Err(Contradiction::OfferWithoutCopies));
    }
}
