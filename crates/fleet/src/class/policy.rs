//! Policy of a class: how its documents are looked up, copied, evicted and replicated.
//!
//! Lookup and eviction are procedures: ordered steps, each a word in the operator's text. So are
//! the other two settings, of a word each. Some combinations contradict each other;
//! [`Policy::check`] rejects them.

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

/// Ordered steps of at most `MAX - 1` kinds. A longer list repeats a step, which
/// [`Policy::check`] rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Procedure<S, const MAX: usize>([Option<S>; MAX]);

impl<S: Copy + PartialEq, const MAX: usize> Procedure<S, MAX> {
    const fn of<const COUNT: usize>(steps: [S; COUNT]) -> Procedure<S, MAX> {
        let (mut all, mut at) = ([None; MAX], 0);
        while at < COUNT {
            all[at] = Some(steps[at]);
            at += 1;
        }
        Procedure(all)
    }

    /// Returns the steps in order.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = S> + '_ {
        self.0.iter().filter_map(|step| *step)
    }

    /// Returns whether it has a step.
    pub fn has(&self, step: S) -> bool {
        self.0.contains(&Some(step))
    }

    /// Returns the first step that occurs twice.
    fn repeated(&self) -> Option<S> {
        let mut steps = self.steps().enumerate();
        steps.find_map(|(at, step)| self.steps().take(at).any(|one| one == step).then_some(step))
    }
}

impl<S: Copy, const MAX: usize> FromIterator<S> for Procedure<S, MAX> {
    fn from_iter<I: IntoIterator<Item = S>>(steps: I) -> Procedure<S, MAX> {
        let mut steps = steps.into_iter();
        Procedure(std::array::from_fn(|_| steps.next()))
    }
}

impl<S: Copy + PartialEq + fmt::Display, const MAX: usize> fmt::Display for Procedure<S, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut steps = self.steps();
        steps.next().map_or(Ok(()), |first| first.fmt(f))?;
        steps.try_for_each(|step| write!(f, " > {step}"))
    }
}

/// One place to look for a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupStep {
    /// `memory`: the memory of this node.
    Memory,
    /// `peers`: the memories of nodes that hints name. If this node's disk, asked later, has the
    /// document, the owner's memory as well.
    Peers,
    /// `disk`: the disk of this node.
    Disk,
    /// `owner`: the owner, which looks in its memory and on its disk and fetches if it must.
    Owner,
    /// `origin`: the origin.
    Origin,
}

impl LookupStep {
    const WORDS: [(&'static str, LookupStep); 5] = [
        ("memory", LookupStep::Memory),
        ("peers", LookupStep::Peers),
        ("disk", LookupStep::Disk),
        ("owner", LookupStep::Owner),
        ("origin", LookupStep::Origin),
    ];
}

/// Places where a document is looked for, in order; the first that has it ends the lookup.
pub type Lookup = Procedure<LookupStep, 6>;

impl Lookup {
    /// No other node is asked.
    pub const LOCAL: Lookup =
        Procedure::of([LookupStep::Memory, LookupStep::Disk, LookupStep::Origin]);
    /// The owner is asked, and no other memory: the paper's direct path to the disk node.
    pub const OWNER: Lookup = Procedure::of([
        LookupStep::Memory,
        LookupStep::Disk,
        LookupStep::Owner,
        LookupStep::Origin,
    ]);
    /// Other memories are asked before any disk.
    pub const COOPERATE: Lookup = Procedure::of([
        LookupStep::Memory,
        LookupStep::Peers,
        LookupStep::Disk,
        LookupStep::Owner,
        LookupStep::Origin,
    ]);
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

/// One thing to do with the last copy in any memory when it is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionStep {
    /// `peer`: it is offered to the memory of a less busy node that does not own the document.
    Peer,
    /// `owner`: it is offered to the owner, which stores it if it has none.
    Owner,
    /// `drop`: it is discarded.
    Drop,
}

impl EvictionStep {
    const WORDS: [(&'static str, EvictionStep); 3] = [
        ("peer", EvictionStep::Peer),
        ("owner", EvictionStep::Owner),
        ("drop", EvictionStep::Drop),
    ];
}

/// Steps for an evicted copy, in order; the first node that takes it ends them.
pub type Eviction = Procedure<EvictionStep, 4>;

impl Eviction {
    /// The copy is discarded.
    pub const DROP: Eviction = Procedure::of([EvictionStep::Drop]);
    /// The copy is offered to another memory.
    pub const OFFER: Eviction = Procedure::of([EvictionStep::Peer, EvictionStep::Drop]);

    /// Returns whether the copy is offered to any node.
    pub fn offers(&self) -> bool {
        *self != Eviction::DROP
    }
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
            /// Words that stand for the variants, in their order.
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

words!(LookupStep, "step of a lookup");
words!(Copies, "rule for copies");
words!(EvictionStep, "step of an eviction");

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
    /// Where to look for them, in order.
    pub lookup: Lookup,
    /// Which memories keep them.
    pub copies: Copies,
    /// Steps for the last copy in memory when it is evicted.
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
    /// A step of a procedure occurs twice.
    Repeated(&'static str),
    /// The lookup does not begin with `memory`.
    MemoryNotFirst,
    /// The lookup does not end with `origin`.
    OriginNotLast,
    /// The lookup has no `disk`.
    WithoutDisk,
    /// A step between `owner` and `origin` is never reached.
    BehindOwner(&'static str),
    /// The eviction does not end with `drop`.
    DropNotLast,
    /// No owner is asked, yet only owners would keep the document.
    LocalWithoutReplication,
    /// Other memories are not asked, so an offered copy would never be found.
    OfferWithoutCooperation,
    /// The owner is not asked, so a copy that it takes would never be found.
    OwnerNotAsked,
    /// No copy enters memory, so there is none to offer.
    OfferWithoutCopies,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Contradiction::Repeated(step) => {
                return write!(f, "step {step:?} occurs twice: remove one");
            }
            Contradiction::BehindOwner(step) => {
                return write!(
                    f,
                    "lookup step \"owner\" fetches what it does not have, so {step:?} behind it is \
                     never reached: put {step:?} before \"owner\""
                );
            }
            Contradiction::MemoryNotFirst => {
                "a document in memory is served before any other step: begin lookup with \"memory\""
            }
            Contradiction::OriginNotLast => {
                "nothing is looked for behind the origin, and without it a document that no node \
                 has is never found: end lookup with \"origin\""
            }
            Contradiction::WithoutDisk => {
                "no node would find what its disk has: add \"disk\" to lookup"
            }
            Contradiction::DropNotLast => {
                "a copy that no node takes is dropped, and nothing is done with it afterwards: end \
                 eviction with \"drop\""
            }
            Contradiction::LocalWithoutReplication => {
                "lookup asks no owner, so each node must keep its own: set replication to \"all\", \
                 or add \"owner\" to lookup"
            }
            Contradiction::OfferWithoutCooperation => {
                "eviction step \"peer\" puts copies in other nodes' memories, which only lookup \
                 step \"peers\" asks: add it to lookup, or remove \"peer\" from eviction"
            }
            Contradiction::OwnerNotAsked => {
                "eviction step \"owner\" gives copies to owners, which only lookup step \"owner\" \
                 asks: add it to lookup, or remove \"owner\" from eviction"
            }
            Contradiction::OfferWithoutCopies => {
                "copies \"none\" leaves nothing in memory that eviction could offer: set eviction \
                 to [\"drop\"]"
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
        lookup: Lookup::OWNER,
        copies: Copies::DiscardCache,
        eviction: Eviction::DROP,
        replication: Replication::ONE,
    };

    /// Checks that the settings agree with each other.
    ///
    /// # Errors
    ///
    /// The first contradiction found.
    pub fn check(&self) -> Result<(), Contradiction> {
        let Policy { lookup, copies, eviction, replication } = self;
        let repeated = lookup.repeated().map(|step| word(&LookupStep::WORDS, &step));
        let repeated =
            repeated.or(eviction.repeated().map(|step| word(&EvictionStep::WORDS, &step)));
        let mut from_end = lookup.steps().rev();
        let behind_owner = || {
            let mut behind = lookup.steps().skip_while(|step| *step != LookupStep::Owner).skip(1);
            behind.find(|step| *step != LookupStep::Origin)
        };
        let asks = |step| lookup.has(step);
        let contradiction = if let Some(step) = repeated {
            Contradiction::Repeated(step)
        } else if lookup.steps().next() != Some(LookupStep::Memory) {
            Contradiction::MemoryNotFirst
        } else if from_end.next() != Some(LookupStep::Origin) {
            Contradiction::OriginNotLast
        } else if !asks(LookupStep::Disk) {
            Contradiction::WithoutDisk
        } else if let Some(step) = behind_owner() {
            Contradiction::BehindOwner(word(&LookupStep::WORDS, &step))
        } else if !asks(LookupStep::Owner) && *replication != Replication::All {
            Contradiction::LocalWithoutReplication
        } else if eviction.steps().next_back() != Some(EvictionStep::Drop) {
            Contradiction::DropNotLast
        } else if eviction.has(EvictionStep::Peer) && !asks(LookupStep::Peers) {
            Contradiction::OfferWithoutCooperation
        } else if eviction.has(EvictionStep::Owner) && !asks(LookupStep::Owner) {
            Contradiction::OwnerNotAsked
        } else if eviction.offers() && *copies == Copies::None {
            Contradiction::OfferWithoutCopies
        } else {
            return Ok(());
        };
        Err(contradiction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_written_as_it_is_read() {
        assert_eq!(LookupStep::NAMES, ["memory", "peers", "disk", "owner", "origin"]);
        assert_eq!(Policy::DEFAULT.check(), Ok(()));
        for (text, value) in LookupStep::WORDS {
            assert_eq!((text.parse(), value.to_string()), (Ok(value), text.to_string()));
        }
        for (text, value) in Copies::WORDS {
            assert_eq!((text.parse(), value.to_string()), (Ok(value), text.to_string()));
        }
        for (text, value) in EvictionStep::WORDS {
            assert_eq!((text.parse(), value.to_string()), (Ok(value), text.to_string()));
        }
        for text in ["1", "3", "65535", "all"] {
            assert_eq!(text.parse::<Replication>().unwrap().to_string(), text);
        }
        for wrong in ["", "0", "-1", "+1", "65536", "every"] {
            assert!(wrong.parse::<Replication>().is_err(), "{wrong:?}");
        }
        let error = "peer".parse::<LookupStep>().unwrap_err().to_string();
        let known = "use memory, peers, disk, owner, origin";
        assert_eq!(error, format!("\"peer\" is not a valid step of a lookup: {known}"));
        assert_eq!(Lookup::OWNER.to_string(), "memory > disk > owner > origin");
    }

    #[test]
    fn contradictions_are_named() {
        use LookupStep::{Disk, Memory, Origin, Owner, Peers};
        let right = Policy {
            lookup: Lookup::COOPERATE,
            copies: Copies::Exclusive,
            eviction: Eviction::OFFER,
            replication: Replication::ONE,
        };
        let with = |steps: &[LookupStep]| {
            Policy { lookup: steps.iter().copied().collect(), ..right }.check()
        };
        assert_eq!((right.check(), with(&[Memory, Disk, Peers, Owner, Origin])), (Ok(()), Ok(())));
        let lookups: [(&[LookupStep], _); 6] = [
            (&[], Contradiction::MemoryNotFirst),
            (&[Disk, Memory, Owner, Origin], Contradiction::MemoryNotFirst),
            (&[Memory, Peers, Disk, Owner], Contradiction::OriginNotLast),
            (&[Memory, Peers, Owner, Origin], Contradiction::WithoutDisk),
            (&[Memory, Peers, Owner, Disk, Origin], Contradiction::BehindOwner("disk")),
            (&[Memory, Disk, Peers, Owner, Origin, Disk], Contradiction::Repeated("disk")),
        ];
        for (steps, contradiction) in lookups {
            assert_eq!(with(steps), Err(contradiction), "{steps:?}");
        }
        let local = Policy { lookup: Lookup::LOCAL, eviction: Eviction::DROP, ..right };
        assert_eq!(local.check(), Err(Contradiction::LocalWithoutReplication));
        let every = Policy { replication: Replication::All, ..local };
        assert_eq!(every.check(), Ok(()));
        let owner = Policy { lookup: Lookup::OWNER, ..right };
        assert_eq!(owner.check(), Err(Contradiction::OfferWithoutCooperation));
        let none = Policy { copies: Copies::None, ..right };
        assert_eq!(none.check(), Err(Contradiction::OfferWithoutCopies));
        let back: Eviction = [EvictionStep::Owner, EvictionStep::Drop].into_iter().collect();
        assert_eq!(Policy { eviction: back, ..owner }.check(), Ok(()));
        let back = Policy { eviction: back, ..every };
        assert_eq!(back.check(), Err(Contradiction::OwnerNotAsked));
        let unfinished = Policy { eviction: [EvictionStep::Peer].into_iter().collect(), ..right };
        assert_eq!(unfinished.check(), Err(Contradiction::DropNotLast));
    }
}
