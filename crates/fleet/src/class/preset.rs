//! Policies that the paper compares, by figure.
//!
//! The classes are those of WebStone (section 3): documents below 1 KB, 10 KB and 100 KB, and
//! larger ones. The paper does not define KB; here it is 1,024 bytes. The disk node is the only
//! member with a weight, so it owns everything.
//!
//! The paper does not say whether a node keeps in memory what the disk node's cache served. Here it
//! does not: a class "cached at the discard cache" is cached there alone, except in the first arm
//! of figure 5, which is about copies at both. The base of figure 4 is cooperation on all classes
//! with exclusive reads (4.1: "turned on by default").
//!
//! [`PRODUCT`] is a further table, without classes: the default of a fleet.

use std::fmt;
use std::str::FromStr;

use crate::class::criteria::{Bounds, Criteria};
use crate::class::policy::{self, Copies, Eviction, Lookup, Policy, Replication, UnknownWord};
use crate::class::table::{Class, ClassTable, InvalidTable};

/// One arm of a figure of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Figure 2, both disks local, and the baseline of figures 3 to 6: everything on every node's
    /// own disk.
    Replicated,
    /// Figure 2, with a remote disk: only the disk node is asked, and it keeps no copies. The
    /// members decide whether one disk or both are remote.
    RemoteDisk,
    /// Figure 3, first arm: cooperation on classes 2 and 3; 0 and 1 in the discard cache.
    CooperateOnLarge,
    /// Figure 3, second arm: cooperation on classes 0 and 1; 2 and 3 in the discard cache.
    CooperateOnSmall,
    /// Figure 3, third arm: cooperation on all classes.
    CooperateOnAll,
    /// Figure 4, first arm: evictions of class 2 are handled.
    OfferMedium,
    /// Figure 4, second arm: evictions of classes 0 and 1 are handled.
    OfferSmall,
    /// Figure 4, third arm: evictions of class 0 are handled.
    OfferSmallest,
    /// Figure 5, first arm: cooperation on all classes, and copies of class 3 in the discard cache
    /// as well; evictions of class 2 are handled.
    TailAlsoDiscarded,
    /// Figure 5, second arm: cooperation on classes 0 to 2, class 3 in no memory; evictions of
    /// class 2 are handled.
    TailUncached,
    /// Figure 5, third arm: class 3 in the discard cache, the others in no memory, so that there is
    /// no eviction to handle.
    TailOnly,
    /// Figure 6, first arm: classes 0 and 1 replicated, cooperation on 2 and 3; evictions of class
    /// 2 are handled.
    ReplicateSmall,
    /// Figure 6, second arm: classes 0 and 1 replicated, cooperation on 2, class 3 in the discard
    /// cache; evictions of class 2 are handled.
    ReplicateSmallDiscardTail,
}

const PRODUCT: &str = "larder";

/// Names of all predefined tables: the product's, then those of the paper.
pub const PRESETS: [&str; 1 + Preset::WORDS.len()] = {
    let (mut all, mut at) = ([PRODUCT; 1 + Preset::WORDS.len()], 0);
    while at < Preset::WORDS.len() {
        all[at + 1] = Preset::WORDS[at].0;
        at += 1;
    }
    all
};

/// Policies from which the presets are composed.
const REPLICATE: Policy = Policy {
    lookup: Lookup::LOCAL,
    copies: Copies::Exclusive,
    eviction: Eviction::DROP,
    replication: Replication::All,
};
const COOPERATE: Policy =
    Policy { lookup: Lookup::COOPERATE, replication: Replication::ONE, ..REPLICATE };
const COOPERATE_AND_OFFER: Policy = Policy { eviction: Eviction::OFFER, ..COOPERATE };
const COOPERATE_AND_DISCARD: Policy = Policy { copies: Copies::Inclusive, ..COOPERATE };
const REMOTE: Policy = Policy { lookup: Lookup::OWNER, ..COOPERATE };
const DISCARD: Policy = Policy { copies: Copies::DiscardCache, ..REMOTE };
const UNCACHED: Policy = Policy { copies: Copies::None, ..REMOTE };

impl Preset {
    const WORDS: [(&'static str, Preset); 13] = [
        ("replicated", Preset::Replicated),
        ("remote-disk", Preset::RemoteDisk),
        ("cooperate-on-large", Preset::CooperateOnLarge),
        ("cooperate-on-small", Preset::CooperateOnSmall),
        ("cooperate-on-all", Preset::CooperateOnAll),
        ("offer-medium", Preset::OfferMedium),
        ("offer-small", Preset::OfferSmall),
        ("offer-smallest", Preset::OfferSmallest),
        ("tail-also-discarded", Preset::TailAlsoDiscarded),
        ("tail-uncached", Preset::TailUncached),
        ("tail-only", Preset::TailOnly),
        ("replicate-small", Preset::ReplicateSmall),
        ("replicate-small-discard-tail", Preset::ReplicateSmallDiscardTail),
    ];

    /// Returns all presets, in the order of the figures.
    pub fn all() -> impl Iterator<Item = Preset> {
        Preset::WORDS.into_iter().map(|(_, preset)| preset)
    }

    /// Returns the policies of the paper's classes 0 to 3.
    pub fn policies(self) -> [Policy; 4] {
        match self {
            Preset::Replicated => [REPLICATE; 4],
            Preset::RemoteDisk => [REMOTE; 4],
            Preset::CooperateOnLarge => [DISCARD, DISCARD, COOPERATE, COOPERATE],
            Preset::CooperateOnSmall => [COOPERATE, COOPERATE, DISCARD, DISCARD],
            Preset::CooperateOnAll => [COOPERATE; 4],
            Preset::OfferMedium => [COOPERATE, COOPERATE, COOPERATE_AND_OFFER, COOPERATE],
            Preset::OfferSmall => [COOPERATE_AND_OFFER, COOPERATE_AND_OFFER, COOPERATE, COOPERATE],
            Preset::OfferSmallest => [COOPERATE_AND_OFFER, COOPERATE, COOPERATE, COOPERATE],
            Preset::TailAlsoDiscarded => {
                [COOPERATE, COOPERATE, COOPERATE_AND_OFFER, COOPERATE_AND_DISCARD]
            }
            Preset::TailUncached => [COOPERATE, COOPERATE, COOPERATE_AND_OFFER, UNCACHED],
            Preset::TailOnly => [UNCACHED, UNCACHED, UNCACHED, DISCARD],
            Preset::ReplicateSmall => [REPLICATE, REPLICATE, COOPERATE_AND_OFFER, COOPERATE],
            Preset::ReplicateSmallDiscardTail => {
                [REPLICATE, REPLICATE, COOPERATE_AND_OFFER, DISCARD]
            }
        }
    }

    /// Makes the table of classes. A document of unknown size is treated like class 3; the paper's
    /// server knows all sizes before a lookup.
    ///
    /// # Errors
    ///
    /// None in practice: every preset is a valid table.
    pub fn table(self, version: u64) -> Result<ClassTable, InvalidTable> {
        const NAMES: [&str; 4] = ["class-0", "class-1", "class-2", "class-3"];
        const BELOW: [Option<u64>; 4] = [Some(1 << 10), Some(10 << 10), Some(100 << 10), None];
        let policies = self.policies();
        let class = |at: usize| Class {
            name: NAMES[at].into(),
            criteria: Criteria {
                size: Bounds {
                    from: at.checked_sub(1).and_then(|before| BELOW[before]).unwrap_or(0),
                    below: BELOW[at],
                },
                ..Criteria::ANY
            },
            policy: policies[at],
        };
        ClassTable::new(version, (0..NAMES.len()).map(class).collect(), policies[3])
    }
}

impl ClassTable {
    /// Makes the table of one of [`PRESETS`].
    ///
    /// # Errors
    ///
    /// A message, if `name` is not a preset.
    pub fn named(version: u64, name: &str) -> Result<ClassTable, String> {
        if !PRESETS.contains(&name) {
            return Err(format!("{name:?} is not a preset: use {}", PRESETS.join(", ")));
        }
        let table = match name.parse::<Preset>() {
            Ok(preset) => preset.table(version),
            Err(_) => ClassTable::new(version, Vec::new(), Policy::DEFAULT),
        };
        table.map_err(|problem| problem.to_string())
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(policy::word(&Preset::WORDS, self))
    }
}

impl FromStr for Preset {
    type Err = UnknownWord;

    fn from_str(given: &str) -> Result<Preset, UnknownWord> {
        policy::parse("policy of the paper", &Preset::WORDS, given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::criteria::DocumentFacts;

    fn class_of(table: &ClassTable, size: u64) -> &Class {
        table.classify(&DocumentFacts { size: Some(size), ..DocumentFacts::default() })
    }

    #[test]
    fn every_preset_is_a_table_and_has_a_word() {
        for preset in Preset::all() {
            let table = preset.table(1).unwrap();
            assert_eq!(preset.to_string().parse(), Ok(preset));
            let sizes = [0, 1024, 10 * 1024, 100 * 1024];
            for ((size, policy), at) in sizes.into_iter().zip(preset.policies()).zip(0..) {
                let class = class_of(&table, size);
                assert_eq!((&*class.name, class.policy), (&*format!("class-{at}"), policy));
            }
            assert_eq!(&*class_of(&table, 1023).name, "class-0");
            assert_eq!(&*class_of(&table, 100 * 1024 - 1).name, "class-2");
            assert_eq!(&*class_of(&table, u64::MAX).name, "class-3");
        }
        assert_eq!(Preset::all().count(), 13);
        for name in PRESETS {
            assert_eq!(ClassTable::named(3, name).unwrap().version(), 3, "{name}");
        }
        let error = ClassTable::named(1, "Larder").unwrap_err();
        assert!(
            error.starts_with("\"Larder\" is not a preset: use larder, replicated, "),
            "{error}"
        );
    }

    #[test]
    fn evictions_of_class_2_are_handled_wherever_the_later_figures_cooperate_on_it() {
        use Preset::{ReplicateSmall, ReplicateSmallDiscardTail, TailAlsoDiscarded, TailUncached};
        for preset in [TailAlsoDiscarded, TailUncached, ReplicateSmall, ReplicateSmallDiscardTail] {
            let offers = preset.policies().map(|policy| policy.eviction.offers());
            assert_eq!(offers, [false, false, true, false], "{preset}");
        }
    }
}
