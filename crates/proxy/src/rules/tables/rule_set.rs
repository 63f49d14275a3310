//! Sets of rules, identified by their numbers.

const WORD: usize = u64::BITS as usize;

/// Returns the number of words needed for `count` rules.
pub(crate) fn words_for(count: usize) -> usize {
    count.div_ceil(WORD)
}

/// Returns the numbers below `count` for which `contains` returns true, as bits.
pub(crate) fn bits_of(count: usize, contains: impl Fn(usize) -> bool) -> Box<[u64]> {
    let mut bits = vec![0; words_for(count)];
    for number in (0..count).filter(|number| contains(*number)) {
        bits[number / WORD] |= 1 << (number % WORD);
    }
    bits.into()
}

/// Returns whether a set contains a number.
pub(crate) fn contains(bits: &[u64], number: usize) -> bool {
    bits.get(number / WORD).is_some_and(|word| word >> (number % WORD) & 1 == 1)
}

/// Returns the numbers in a set, in ascending order.
pub(crate) fn numbers(bits: &[u64]) -> impl Iterator<Item = usize> {
    numbers_from(bits, 0)
}

/// Returns the numbers in a set that are at least `from`, in ascending order.
pub(crate) fn numbers_from(bits: &[u64], from: usize) -> impl Iterator<Item = usize> {
    let mut at = from / WORD;
    let mut left = bits.get(at).map_or(0, |word| word & (u64::MAX << (from % WORD)));
    std::iter::from_fn(move || {
        while left == 0 {
            at += 1;
            left = *bits.get(at)?;
        }
        let bit = left.trailing_zeros() as usize;
        left &= left - 1;
        Some(at * WORD + bit)
    })
}

/// Immutable set, in the shorter of two forms, so that all sets of a column together take memory in
/// proportion to the conditions.
#[derive(Clone, Debug)]
pub(crate) enum RuleSet {
    /// The numbers, in ascending order.
    Few(Box<[u32]>),
    /// A bit for each number up to the highest.
    Many(Box<[u64]>),
}

impl RuleSet {
    pub fn new(mut numbers: Vec<u32>) -> RuleSet {
        numbers.sort_unstable();
        numbers.dedup();
        let count = numbers.last().map_or(0, |last| *last as usize + 1);
        if numbers.len() <= words_for(count) {
            return RuleSet::Few(numbers.into());
        }
        let has = |number| u32::try_from(number).is_ok_and(|it| numbers.binary_search(&it).is_ok());
        RuleSet::Many(bits_of(count, has))
    }

    /// Adds the set to `bits`, which must have a bit for each of its numbers.
    pub fn add_to(&self, bits: &mut [u64]) {
        match self {
            RuleSet::Few(numbers) => {
                for number in numbers {
                    bits[*number as usize / WORD] |= 1 << (*number as usize % WORD);
                }
            }
            RuleSet::Many(all) => bits.iter_mut().zip(all).for_each(|(to, from)| *to |= from),
        }
    }

    pub fn contains(&self, number: usize) -> bool {
        match self {
            RuleSet::Few(numbers) => {
                u32::try_from(number).is_ok_and(|number| numbers.binary_search(&number).is_ok())
            }
            RuleSet::Many(all) => contains(all, number),
        }
    }
}
