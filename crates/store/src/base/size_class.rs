//! Size classes: seven bits that encode the length of the read that fetches a whole record.
//!
//! There are eight classes per octave from 64 bytes, so that a read is at most 12.5% longer than
//! its record (records shorter than 64 bytes are read as 64).

/// The length of the read for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SizeClass(u8);

impl SizeClass {
    /// Number of classes; a class fits seven bits.
    pub(crate) const COUNT: u8 = 128;

    /// The class of the longest records.
    pub(crate) const LARGEST: SizeClass = SizeClass(Self::COUNT - 1);

    /// Length in bytes of the longest record that a class can name: 3.75 MiB.
    pub(crate) const MAX_LEN: u32 = Self::LARGEST.len();

    /// Returns the smallest class whose length is at least `len` bytes.
    ///
    /// # Panics
    /// When `len` exceeds [`SizeClass::MAX_LEN`]: the caller cuts larger objects into pieces.
    pub(crate) const fn for_len(len: u32) -> SizeClass {
        assert!(len <= Self::MAX_LEN, "a record is never longer than the largest size class");
        if len <= 64 {
            return SizeClass(0);
        }
        // 64 << octave < len <= 128 << octave; eight steps of 8 << octave between them.
        let octave = (len - 1).ilog2() - 6;
        let steps = len.div_ceil(8 << octave);
        SizeClass((octave * 8 + steps - 8) as u8)
    }

    /// Returns the length of this class in bytes.
    pub(crate) const fn len(self) -> u32 {
        (8 * (8 + self.0 as u32 % 8)) << (self.0 / 8)
    }

    /// Returns the class as a number below [`SizeClass::COUNT`].
    pub(crate) const fn number(self) -> u8 {
        self.0
    }

    /// Returns the class with this number; `None` when there is none.
    pub(crate) const fn from_number(number: u8) -> Option<SizeClass> {
        if number < Self::COUNT { Some(SizeClass(number)) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_the_smallest_that_holds_the_record_and_at_most_an_eighth_longer() {
        for len in (0..200_000).chain(SizeClass::MAX_LEN - 1000..=SizeClass::MAX_LEN) {
            let class = SizeClass::for_len(len);
            assert!(class.len() >= len, "{len}: {class:?}");
            assert!(len < 64 || class.len() <= len + len / 8, "{len}: {}", class.len());
            let smaller = class.0.checked_sub(1).map(SizeClass);
            assert!(smaller.is_none_or(|smaller| smaller.len() < len), "{len}: {class:?}");
        }
    }

    #[test]
    fn every_class_names_itself() {
        for number in 0..SizeClass::COUNT {
            let class = SizeClass::from_number(number).unwrap();
            assert_eq!(SizeClass::for_len(class.len()), class);
            assert_eq!(class.number(), number);
        }
        assert_eq!(SizeClass::from_number(SizeClass::COUNT), None);
    }
}
