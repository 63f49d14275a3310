//! Fixed-size table of small entries by key. A bucket has eight entries, newest first, and evicts
//! the oldest. An entry keeps only a 16-bit tag of its key, so a key without entries finds those of
//! another one with a probability of at most 8 / 65,536.

use crate::key::KeyHash;

/// Entries per bucket.
const WAYS: usize = 8;

/// A table of entries; the default of an entry means unused.
#[derive(Clone, Debug)]
pub(crate) struct Buckets<T>(Box<[[T; WAYS]]>);

impl<T: Copy + Default + PartialEq> Buckets<T> {
    /// Makes an empty table of at most `bytes` bytes, but at least one bucket.
    pub fn new(bytes: usize) -> Buckets<T> {
        let buckets = (bytes / size_of::<[T; WAYS]>()).max(1);
        Buckets(vec![[T::default(); WAYS]; buckets].into())
    }

    /// Returns the number of entries that fit.
    pub fn capacity(&self) -> usize {
        self.0.len() * WAYS
    }

    /// Returns the entries in the key's bucket, newest first.
    pub fn of(&self, key: KeyHash) -> &[T; WAYS] {
        &self.0[self.place(key)]
    }

    /// Makes `entry` the newest of the key's bucket, in place of the first one that it `replaces`,
    /// or of the oldest one.
    pub fn put(&mut self, key: KeyHash, entry: T, replaces: impl Fn(&T) -> bool) {
        let place = self.place(key);
        let bucket = &mut self.0[place];
        let end = bucket.iter().position(replaces).unwrap_or(WAYS - 1);
        bucket[..=end].rotate_right(1);
        bucket[0] = entry;
    }

    /// Removes the entries of the key's bucket that are `gone`.
    pub fn remove(&mut self, key: KeyHash, gone: impl Fn(&T) -> bool) {
        let place = self.place(key);
        remove(&mut self.0[place], gone);
    }

    /// Removes the entries of all buckets that are `gone`.
    pub fn remove_everywhere(&mut self, gone: impl Fn(&T) -> bool) {
        self.0.iter_mut().for_each(|bucket| remove(bucket, &gone));
    }

    /// Returns the key's bucket: the upper bits of its hash, of which the tag is the lowest.
    fn place(&self, key: KeyHash) -> usize {
        let upper = u128::from(key.bits() >> u16::BITS);
        ((upper * self.0.len() as u128) >> 48) as usize
    }
}

/// Returns the tag by which a key is told from others of its bucket.
pub(crate) fn tag(key: KeyHash) -> u16 {
    key.bits() as u16
}

/// Removes the entries that are `gone`, keeping the order of the others.
fn remove<T: Copy + Default, const N: usize>(bucket: &mut [T; N], gone: impl Fn(&T) -> bool) {
    let mut kept = [T::default(); N];
    let left = bucket.iter().filter(|entry| !gone(entry));
    kept.iter_mut().zip(left).for_each(|(to, from)| *to = *from);
    *bucket = kept;
}
