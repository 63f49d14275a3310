//! Admission: decides which objects are stored. Most objects are never requested again (70% in the
//! papers), and storing them costs writes and takes space from the others.
//!
//! Guarantees: bounded memory, no clock, no randomness; a key requested twice within a certain
//! number of other keys is admitted the second time.

use std::fmt;
use std::str::FromStr;

/// The name of an admission policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdmissionName {
    /// Admits all objects.
    #[default]
    All,
    /// Admits objects that were fetched before, not too long ago.
    SecondHit,
    /// Admits all objects while there is unused room, then like [`AdmissionName::SecondHit`]; but
    /// if more than two in five keys are requested again, it keeps admitting all.
    WhenFull,
}

impl AdmissionName {
    /// All admission policies, in the order in which they are documented.
    pub const ALL: [AdmissionName; 3] =
        [AdmissionName::All, AdmissionName::SecondHit, AdmissionName::WhenFull];

    /// The names in the same order.
    pub const NAMES: &[&str] = &["all", "second-hit", "when-full"];

    /// Returns the name as it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            AdmissionName::All => "all",
            AdmissionName::SecondHit => "second-hit",
            AdmissionName::WhenFull => "when-full",
        }
    }
}

impl fmt::Display for AdmissionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The error for a name that no admission policy has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAdmission(pub String);

impl fmt::Display for UnknownAdmission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = AdmissionName::ALL.map(AdmissionName::as_str).join(", ");
        write!(f, "no admission policy is called {:?}: choose one of {names}", self.0)
    }
}

impl std::error::Error for UnknownAdmission {}

impl FromStr for AdmissionName {
    type Err = UnknownAdmission;

    fn from_str(text: &str) -> Result<AdmissionName, UnknownAdmission> {
        AdmissionName::ALL
            .into_iter()
            .find(|name| name.as_str() == text)
            .ok_or_else(|| UnknownAdmission(text.to_owned()))
    }
}

/// An admission policy with its state.
pub struct Admission {
    /// Recently seen keys; `None` if all objects are admitted.
    seen: Option<SeenKeys>,
    /// Statistics of returning keys, if unused space or a high share of returns is a reason to
    /// admit.
    fills: Option<Returns>,
}

impl Admission {
    /// Returns the policy of this name. All but `all` remember the last `keys` keys, and up to as
    /// many more, at 2.5 bytes each.
    pub fn new(name: AdmissionName, keys: u64) -> Admission {
        let seen = match name {
            AdmissionName::All => None,
            AdmissionName::SecondHit | AdmissionName::WhenFull => Some(SeenKeys::new(keys)),
        };
        let fills = (name == AdmissionName::WhenFull).then(Returns::default);
        Admission { seen, fills }
    }

    /// Returns whether every object is admitted, so that [`Admission::admits`] need not be called.
    pub fn admits_all(&self) -> bool {
        self.seen.is_none()
    }

    /// Returns whether to store an object that was just fetched and is not stored yet. `hash` is
    /// uniform, and equal for equal keys; `unused` is true if there is room for the object without
    /// evicting others.
    pub fn admits(&mut self, hash: u64, unused: bool) -> bool {
        let Some(keys) = &mut self.seen else { return true };
        // Objects admitted to unused space are remembered too: they may be requested again after
        // they were evicted.
        let seen = keys.see(hash);
        let Some(returns) = &mut self.fills else { return seen };
        match seen {
            false => returns.first(hash),
            true => returns.again(hash, keys),
        }
        seen || unused || returns.are_usual()
    }

    /// Records a hit on a stored object; `hash` as for [`Admission::admits`].
    pub fn found(&mut self, hash: u64) {
        if let (Some(keys), Some(returns)) = (&mut self.seen, &mut self.fills)
            && Returns::counts(hash)
            && keys.contains(hash)
        {
            returns.again(hash, keys);
        }
    }

    /// Returns the memory that [`Admission::new`] would take, in bytes.
    pub fn bytes(name: AdmissionName, keys: u64) -> u64 {
        match name {
            AdmissionName::All => 0,
            AdmissionName::SecondHit | AdmissionName::WhenFull => {
                2 * size_of::<Block>() as u64 * keys.div_ceil(KEYS_PER_BLOCK).max(1)
            }
        }
    }

    /// Returns the memory it occupies, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.seen.as_ref().map_or(0, SeenKeys::memory_bytes)
    }
}

/// Counts keys that are requested again, hit or miss. Samples one key in [`Returns::SAMPLE`], for
/// as long as it is remembered.
#[derive(Default)]
struct Returns {
    /// Keys requested for the first time.
    first: u32,
    /// The keys among them that were requested again.
    again: u32,
}

impl Returns {
    const SAMPLE: u64 = 32;
    /// Minimum number of first requests for a meaningful ratio.
    const LEAST: u32 = 32;
    /// Number of first requests at which both counts are halved, so that older requests weigh less.
    const MOST: u32 = 4_096;
    /// Mixed into the hash of a key to remember that the key has returned.
    const MARK: u64 = 0x5bd1_e995_97f4_a7c1;

    /// Returns whether the key is in the sample. The filter uses the upper bits of the hash
    /// instead.
    fn counts(hash: u64) -> bool {
        hash.is_multiple_of(Returns::SAMPLE)
    }

    fn first(&mut self, hash: u64) {
        if !Returns::counts(hash) {
            return;
        }
        if self.first >= Returns::MOST {
            (self.first, self.again) = (self.first / 2, self.again / 2);
        }
        self.first += 1;
    }

    fn again(&mut self, hash: u64, keys: &mut SeenKeys) {
        if Returns::counts(hash) && !keys.see(hash ^ Returns::MARK) {
            self.again += 1;
        }
    }

    /// Returns whether more than two in five sampled keys are requested again. The bound is less
    /// than half, because the latest keys have had no time to return, and more than the 30% of the
    /// papers, where most stored objects go unused.
    fn are_usual(&self) -> bool {
        self.first >= Returns::LEAST && self.again > self.first / 5 * 2
    }
}

/// Bits in a block of the Bloom filter: a cache line, so that a key costs one memory access.
const BLOCK_BITS: usize = 512;
/// Keys per block in a full filter: ten bits each.
const KEYS_PER_BLOCK: u64 = 51;
/// Bits set per key.
const PROBES: u32 = 6;

type Block = [u64; BLOCK_BITS / 64];

/// The recently seen keys, in two Bloom filters. Keys enter the younger one; when it is full, the
/// older one is emptied and becomes the younger. About one unseen key in a hundred is reported as
/// seen.
struct SeenKeys {
    younger: Vec<Block>,
    older: Vec<Block>,
    /// Number of keys in the younger filter.
    entered: u64,
    /// Capacity of a filter, in keys.
    keys: u64,
}

impl SeenKeys {
    fn new(keys: u64) -> SeenKeys {
        let blocks = usize::try_from(keys.div_ceil(KEYS_PER_BLOCK)).unwrap_or(usize::MAX).max(1);
        let empty = vec![[0; BLOCK_BITS / 64]; blocks];
        SeenKeys { younger: empty.clone(), older: empty, entered: 0, keys: keys.max(1) }
    }

    /// Remembers the key and returns whether it was seen recently.
    fn see(&mut self, hash: u64) -> bool {
        let at = self.block(hash);
        let mask = mask(hash);
        if contains(&self.younger[at], &mask) {
            return true;
        }
        let seen = contains(&self.older[at], &mask);
        if self.entered == self.keys {
            std::mem::swap(&mut self.younger, &mut self.older);
            self.younger.fill([0; BLOCK_BITS / 64]);
            self.entered = 0;
        }
        self.younger[at].iter_mut().zip(mask).for_each(|(word, bits)| *word |= bits);
        self.entered += 1;
        seen
    }

    /// Returns whether the key was seen recently.
    fn contains(&self, hash: u64) -> bool {
        let at = self.block(hash);
        let mask = mask(hash);
        contains(&self.younger[at], &mask) || contains(&self.older[at], &mask)
    }

    fn block(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.younger.len() as u128) >> 64) as usize
    }

    fn memory_bytes(&self) -> usize {
        (self.younger.capacity() + self.older.capacity()) * size_of::<Block>()
    }
}

/// Returns the bits of a key within its block.
fn mask(hash: u64) -> Block {
    // The upper bits chose the block, so the choice within it must not depend on them.
    let mut choices = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32) ^ hash;
    let mut mask = [0; BLOCK_BITS / 64];
    for _ in 0..PROBES {
        let bit = choices as usize % BLOCK_BITS;
        mask[bit / 64] |= 1 << (bit % 64);
        choices >>= BLOCK_BITS.ilog2();
    }
    mask
}

fn contains(block: &Block, mask: &Block) -> bool {
    block.iter().zip(mask).all(|(word, bits)| word & bits == *bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_seed::seeds;

    #[test]
    fn names_read_back() {
        for name in AdmissionName::ALL {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        assert_eq!(AdmissionName::ALL.map(AdmissionName::as_str), AdmissionName::NAMES);
        let error = "never".parse::<AdmissionName>().unwrap_err().to_string();
        assert_eq!(
            error,
            "no admission policy is called \"never\": choose one of all, second-hit, when-full"
        );
    }

    #[test]
    fn all_are_admitted_without_memory() {
        let mut all = Admission::new(AdmissionName::All, 1_000_000);
        assert!(all.admits(1, false) && all.admits_all());
        assert_eq!(all.memory_bytes(), 0);
    }

    #[test]
    fn keys_are_admitted_the_second_time() {
        for seed in seeds("admission", 10) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut admission = Admission::new(AdmissionName::SecondHit, 10_000);
            let keys: Vec<u64> = (0..10_000).map(|_| random.u64(..)).collect();
            let wrongly = keys.iter().filter(|key| admission.admits(**key, true)).count();
            assert!(wrongly < 300, "{wrongly} of 10,000 first-timers admitted");
            // After as many keys again, every key is still known.
            assert!(keys.iter().all(|key| admission.admits(*key, true)));
            assert!(!admission.admits_all() && admission.memory_bytes() < 26_000);
            let announced = Admission::bytes(AdmissionName::SecondHit, 10_000);
            assert_eq!(admission.memory_bytes() as u64, announced);
        }
    }

    #[test]
    fn unused_room_is_filled_first() {
        let mut admission = Admission::new(AdmissionName::WhenFull, 10_000);
        assert!(admission.admits(1 << 60, true), "there is room");
        assert!(!admission.admits(2 << 60, false), "seen for the first time");
        assert!(admission.admits(1 << 60, false) && admission.admits(2 << 60, false));
        assert!(!admission.admits_all());
    }

    #[test]
    fn a_full_cache_takes_all_where_most_come_again() {
        for seed in seeds("admission-returns", 10) {
            let mut random = fastrand::Rng::with_seed(seed);
            for (share, usual) in [(0.2, false), (0.7, true)] {
                let mut admission = Admission::new(AdmissionName::WhenFull, 100_000);
                // First there is unused space. Returning keys are hit several times.
                for _ in 0..10_000 {
                    let key = random.u64(..);
                    assert!(admission.admits(key, true));
                    let times = if random.f64() < share { 3 } else { 0 };
                    (0..times).for_each(|_| admission.found(key));
                }
                let others = (0..1_000).filter(|_| admission.admits(random.u64(..), false)).count();
                assert_eq!(others > 900, usual, "{others} of 1,000, {share}");
                assert_eq!(others < 100, !usual, "{others} of 1,000, {share}");
            }
        }
    }

    #[test]
    fn without_evidence_first_timers_wait() {
        let mut admission = Admission::new(AdmissionName::WhenFull, 1_000);
        for key in (1_u64..20).map(|key| key << 59) {
            assert!(!admission.admits(key, false));
            admission.found(key);
        }
        admission.found(7);
        assert!(!admission.admits(1 << 58, false), "nothing is known yet");
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut admission = Admission::new(AdmissionName::SecondHit, 1_000);
        let early: Vec<u64> = (0..1_000).map(|_| random.u64(..)).collect();
        let others: Vec<u64> = (0..2_100).map(|_| random.u64(..)).collect();
        for key in early.iter().chain(&others) {
            admission.admits(*key, true);
        }
        let known = early.iter().filter(|key| admission.admits(**key, true)).count();
        assert!(known < 100, "{known} of 1,000 still known");
    }
}
