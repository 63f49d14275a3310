//! Which purges a node has: a version vector.
//!
//! Makers number their purges from 1. A node has the purges of a maker without gaps, so one number
//! per maker tells them all, and two vectors tell what one node lacks of another.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::str::FromStr;

use xxhash_rust::xxh3::xxh3_64;

use crate::member::MemberId;
use crate::purges::maker::Maker;

/// Maximum makers of a vector that is read from text.
pub const MAKERS_MAX: usize = 8192;

/// Error: a text is not a vector of purges, or not a maker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidVector(Box<str>);

impl InvalidVector {
    /// Makes the error about `text`; keeps only the start of the text.
    pub(super) fn of(text: &str) -> InvalidVector {
        InvalidVector(text.chars().take(100).collect::<String>().into())
    }
}

impl fmt::Display for InvalidVector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a vector of purges: write NAME/INCARNATION=NUMBER;...", self.0)
    }
}

impl Error for InvalidVector {}

/// Number of the last purge of each maker up to which a node has all. No entry has the number 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Vector(BTreeMap<Maker, u64>);

/// Purges of one maker that one node has and another lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing<'a> {
    /// Maker of the purges.
    pub maker: &'a Maker,
    /// Number of the last purge that is not missing.
    pub after: u64,
    /// Number of the last purge that is missing.
    pub through: u64,
}

impl Vector {
    /// Returns the number of the last purge of `maker`; 0 for none.
    pub fn get(&self, maker: &Maker) -> u64 {
        self.0.get(maker).copied().unwrap_or(0)
    }

    /// Records all purges of `maker` through `number`. Vectors never go back.
    pub fn reach(&mut self, maker: &Maker, number: u64) {
        if number > self.get(maker) {
            self.0.insert(maker.clone(), number);
        }
    }

    /// Replaces the number of `maker`.
    pub fn set(&mut self, maker: &Maker, number: u64) {
        match number {
            0 => _ = self.0.remove(maker),
            _ => _ = self.0.insert(maker.clone(), number),
        }
    }

    /// Records all purges of `other`.
    pub fn merge(&mut self, other: &Vector) {
        other.iter().for_each(|(maker, number)| self.reach(maker, number));
    }

    /// Returns what this vector lacks of `other`.
    pub fn lacks<'a>(&'a self, other: &'a Vector) -> impl Iterator<Item = Missing<'a>> {
        let missing = |(maker, through)| Missing { maker, after: self.get(maker), through };
        other.iter().map(missing).filter(|missing| missing.after < missing.through)
    }

    /// Returns whether this vector has all purges of `other`.
    pub fn covers(&self, other: &Vector) -> bool {
        self.lacks(other).next().is_none()
    }

    /// Returns the newest incarnation of a node that has made a purge, and the number of the last.
    pub fn newest(&self, member: &MemberId) -> Option<(&Maker, u64)> {
        let of_member = self.iter().filter(|(maker, _)| maker.member == *member);
        of_member.last()
    }

    /// Returns the number of makers.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether no purge is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all makers with the numbers of their last purges, sorted by maker.
    pub fn iter(&self) -> impl Iterator<Item = (&Maker, u64)> {
        self.0.iter().map(|(maker, number)| (maker, *number))
    }

    /// Returns the XXH3 hash of the text (64 bits, seed 0): equal for equal vectors, on every
    /// platform. Questions between nodes carry it in place of the vector.
    pub fn digest(&self) -> u64 {
        xxh3_64(self.to_string().as_bytes())
    }
}

impl fmt::Display for Vector {
    /// Writes `name/incarnation=number;…` in hexadecimal digits, sorted by maker: equal vectors
    /// have equal texts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (maker, number)) in self.iter().enumerate() {
            let between = if at == 0 { "" } else { ";" };
            write!(f, "{between}{maker}={number:x}")?;
        }
        Ok(())
    }
}

impl FromStr for Vector {
    type Err = InvalidVector;

    fn from_str(text: &str) -> Result<Vector, InvalidVector> {
        let wrong = || InvalidVector::of(text);
        let mut vector = Vector::default();
        for part in text.split(';').filter(|_| !text.is_empty()) {
            let (maker, number) = part.split_once('=').ok_or_else(wrong)?;
            let is_plain = number.bytes().all(|byte| byte.is_ascii_hexdigit());
            let number = u64::from_str_radix(number, 16).ok().filter(|_| is_plain);
            let number = number.filter(|number| *number > 0).ok_or_else(wrong)?;
            let is_twice = vector.0.insert(maker.parse()?, number).is_some();
            if is_twice || vector.0.len() > MAKERS_MAX {
                return Err(wrong());
            }
        }
        Ok(vector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(text: &str) -> Vector {
        text.parse().unwrap()
    }

    #[test]
    fn a_vector_lacks_what_another_has_more() {
        let own = vector("a/1=5;b/2=1");
        let lacks = |other: &str| -> Vec<String> {
            let (other, mut all) = (vector(other), Vec::new());
            let lacking = own.lacks(&other);
            lacking
                .for_each(|one| all.push(format!("{} {}..{}", one.maker, one.after, one.through)));
            assert_eq!(own.covers(&other), all.is_empty());
            all
        };
        assert_eq!(lacks(""), [""; 0]);
        assert_eq!(lacks("a/1=5;b/2=1"), [""; 0]);
        assert_eq!(lacks("a/1=7"), ["a/1 5..7"]);
        // Another incarnation, be it older or newer, is another sequence.
        assert_eq!(lacks("a/0=1;a/2=1;c/9=3"), ["a/0 0..1", "a/2 0..1", "c/9 0..3"]);
    }

    #[test]
    fn a_vector_does_not_go_back() {
        let mut own = vector("a/1=5");
        own.merge(&vector("a/1=3;b/1=2"));
        own.reach(&"c/1".parse().unwrap(), 0);
        assert_eq!(own, vector("a/1=5;b/1=2"));
        own.reach(&"a/2".parse().unwrap(), 1);
        let newest = |name: &str| own.newest(&name.parse().unwrap()).map(|(_, number)| number);
        assert_eq!([newest("a"), newest("b"), newest("c")], [Some(1), Some(2), None]);
    }

    #[test]
    fn vectors_are_written_as_they_are_read() {
        for text in ["", "a/0=1", "a/ffffffffffffffff=1f;node-b.x/1=a"] {
            assert_eq!(vector(text).to_string(), text);
        }
        for wrong in ["a=1", "a/1", "a/1=", "a/1=0", "a/+1=1", "a/=1", "a/1=1;a/1=1", "a/1=1;", ";"]
        {
            assert!(wrong.parse::<Vector>().is_err(), "{wrong}");
        }
        let many = (0..=MAKERS_MAX).map(|i| format!("n{i}/1=1")).collect::<Vec<_>>().join(";");
        assert!(many.parse::<Vector>().is_err());
        assert_ne!(vector("a/1=1").digest(), vector("a/1=2").digest());
    }
}
