//! The marker under the primary key of responses that vary: the request fields that select them
//! (RFC 9111, 4.1).
//!
//! Responses of one resource need not agree on these fields: one names `Accept-Encoding`, a later
//! one also `Cookie`, an error none at all. A marker therefore lists *sets* of fields, the latest
//! first. A response is stored under the key of exactly the set that it names. Every request that
//! it may answer finds it, whatever other responses vary by. Each set has its own epoch, which is
//! part of the keys of its variants. A value of one set is therefore never taken for one of
//! another, and removing the marker makes all variants unreachable at once.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::header::HeaderName;

use crate::fields::vary;
use crate::fields::vary::Vary;
use crate::stored::encoding::{Damaged, MARKER, VERSION, read_name, take};

/// The sets of request fields that select the responses under a primary key. One of them is chosen:
/// the set by which a request was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VaryMarker {
    /// Never empty. The set of the last stored response comes first.
    sets: Vec<Set>,
    chosen: usize,
}

/// A set of fields that select among some of the responses.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Set {
    epoch: u128,
    /// Sorted, without duplicates.
    names: Vec<HeaderName>,
}

impl VaryMarker {
    /// Maximum number of sets, since a request is looked up under each.
    pub const SETS_MAX: usize = 4;

    /// Returns a marker with one set of names. `epoch` must be new and unguessable for every set.
    pub fn new(epoch: u128, names: &[HeaderName]) -> VaryMarker {
        let mut names = names.to_vec();
        vary::sort_names(&mut names);
        VaryMarker { sets: vec![Set { epoch, names }], chosen: 0 }
    }

    /// Returns the number of sets.
    pub fn count(&self) -> usize {
        self.sets.len()
    }

    /// Chooses the set with this index. An index that is too large chooses the last set.
    pub fn choose(&mut self, number: usize) {
        self.chosen = number.min(self.sets.len() - 1);
    }

    /// Returns copies of the marker, each with another set chosen, in order.
    pub fn choices(&self) -> impl Iterator<Item = VaryMarker> {
        (0..self.sets.len()).map(|chosen| VaryMarker { sets: self.sets.clone(), chosen })
    }

    /// Returns the epoch of the chosen set.
    pub fn epoch(&self) -> u128 {
        self.sets[self.chosen].epoch
    }

    /// Returns the names in the chosen set, sorted.
    pub fn names(&self) -> &[HeaderName] {
        &self.sets[self.chosen].names
    }

    /// Returns whether the chosen set distinguishes the variants of a response with this `Vary`: it
    /// must contain at least the same fields. Superfluous fields only cost copies.
    pub fn covers(&self, vary: &Vary) -> bool {
        match vary {
            Vary::None => true,
            Vary::Names(names) => names.iter().all(|name| self.names().contains(name)),
            Vary::Star => false,
        }
    }

    /// Returns whether the chosen set is the latest and exactly that of a response with this
    /// `Vary`. True for `Vary: *`: such a response is validated at each request, wherever it is
    /// stored.
    pub fn is_for(&self, vary: &Vary) -> bool {
        *vary == Vary::Star || (self.chosen == 0 && self.names() == vary.names())
    }

    /// Returns the marker with exactly the fields of `vary` as its first and chosen set. If the set
    /// is new, its epoch is `epoch`. If there are more than [`VaryMarker::SETS_MAX`] sets, the
    /// oldest is dropped.
    pub fn with(&self, vary: &Vary, epoch: u128) -> VaryMarker {
        let mut sets = self.sets.clone();
        let old = sets.iter().position(|set| set.names == vary.names());
        let set = match old {
            Some(number) => sets.remove(number),
            None => Set { epoch, names: vary.names().to_vec() },
        };
        sets.insert(0, set);
        sets.truncate(VaryMarker::SETS_MAX);
        VaryMarker { sets, chosen: 0 }
    }

    /// Returns whether all sets of this marker except the chosen one are in `stored`, the current
    /// marker. A marker that was read before the responses under it were removed must not make them
    /// reachable again.
    pub fn carries_on(&self, stored: Option<&VaryMarker>) -> bool {
        let is_there = |set: &Set| stored.is_some_and(|stored| stored.sets.contains(set));
        let mut others = self.sets.iter().enumerate().filter(|(number, _)| *number != self.chosen);
        others.all(|(_, set)| is_there(set))
    }

    /// Encodes the marker, without the choice of a set.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(64);
        out.put_slice(&[MARKER, VERSION]);
        for set in &self.sets {
            out.put_u128_le(set.epoch);
            out.put_u16_le(set.names.len() as u16);
            for name in &set.names {
                out.put_u16_le(name.as_str().len() as u16);
                out.put_slice(name.as_str().as_bytes());
            }
        }
        out.freeze()
    }

    pub(crate) fn decode_body(mut rest: Bytes) -> Result<VaryMarker, Damaged> {
        let mut sets = vec![Set::decode(&mut rest)?];
        while !rest.is_empty() {
            if sets.len() == VaryMarker::SETS_MAX {
                return Err(Damaged);
            }
            sets.push(Set::decode(&mut rest)?);
        }
        Ok(VaryMarker { sets, chosen: 0 })
    }
}

/// The encoded form of a marker with a single set of fields.
#[derive(Clone, Copy, Debug)]
pub struct EncodedSet<'a> {
    epoch: &'a [u8; 16],
    names: &'a [u8],
}

impl<'a> EncodedSet<'a> {
    /// Reads the set; `None` for a marker with several sets and for any other form. Names are not
    /// validated again, since they were valid when the marker was encoded.
    pub fn read(meta: &'a [u8]) -> Option<EncodedSet<'a>> {
        let rest = meta.strip_prefix(&[MARKER, VERSION])?;
        let (epoch, rest) = rest.split_first_chunk::<16>()?;
        let (count, names) = rest.split_first_chunk::<2>()?;
        let set = EncodedSet { epoch, names };
        let lengths = set.names().map(|name| 2 + name.len());
        let (found, length) = lengths.fold((0, 0), |(found, sum), one| (found + 1, sum + one));
        let is_all = found == usize::from(u16::from_le_bytes(*count)) && length == names.len();
        is_all.then_some(set)
    }

    /// Returns the epoch, little-endian.
    pub(crate) fn epoch(&self) -> &'a [u8; 16] {
        self.epoch
    }

    /// Returns the names, sorted and in lower case.
    pub fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut rest = self.names;
        std::iter::from_fn(move || {
            let (length, names) = rest.split_first_chunk::<2>()?;
            let (name, further) =
                names.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
            rest = further;
            std::str::from_utf8(name).ok()
        })
    }
}

impl Set {
    fn decode(rest: &mut Bytes) -> Result<Set, Damaged> {
        let epoch = take(rest, 16)?.get_u128_le();
        let count = take(rest, 2)?.get_u16_le();
        let mut names = Vec::with_capacity(usize::from(count).min(64));
        for _ in 0..count {
            let length = usize::from(take(rest, 2)?.get_u16_le());
            names.push(read_name(&take(rest, length)?)?);
        }
        let sorted = names.is_sorted_by(|left, right| left.as_str() < right.as_str());
        if sorted { Ok(Set { epoch, names }) } else { Err(Damaged) }
    }
}

impl Vary {
    /// Returns whether `marker` distinguishes all fields of this `Vary`. True without fields, and
    /// for `Vary: *`: such a response is validated at each request, wherever it is stored.
    pub fn is_covered(&self, marker: Option<&VaryMarker>) -> bool {
        match self {
            Vary::None | Vary::Star => true,
            Vary::Names(_) => marker.is_some_and(|marker| marker.covers(self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::meta::Meta;

    #[test]
    fn one_set_is_read_without_a_marker_and_several_are_not() {
        for list in [&["accept"][..], &["accept-encoding", "cookie", "x-a"], &[]] {
            let marker = VaryMarker::new(7 << 90, &names(list));
            let encoded = marker.encode();
            let set = EncodedSet::read(&encoded).unwrap();
            assert_eq!(set.names().collect::<Vec<_>>(), list);
            assert_eq!(set.epoch(), &marker.epoch().to_le_bytes());
            for cut in 0..encoded.len() {
                assert!(EncodedSet::read(&encoded[..cut]).is_none(), "{list:?} to {cut}");
            }
            let two = marker.with(&vary(&["x-b"]), 9).encode();
            assert!(EncodedSet::read(&two).is_none(), "{list:?}");
        }
    }

    fn names(list: &[&str]) -> Vec<HeaderName> {
        list.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn vary(list: &[&str]) -> Vary {
        if list.is_empty() { Vary::None } else { Vary::Names(names(list)) }
    }

    #[test]
    fn markers_cover_what_they_name() {
        let marker = VaryMarker::new(1, &names(&["b", "a", "b"]));
        assert_eq!(marker.names(), names(&["a", "b"]));
        assert!(marker.covers(&Vary::None));
        assert!(marker.covers(&vary(&["b"])));
        assert!(!marker.covers(&vary(&["b", "c"])));
        assert!(!marker.covers(&Vary::Star));
    }

    #[test]
    fn a_marker_carries_on_only_what_is_there() {
        let old = VaryMarker::new(1, &names(&["a"]));
        assert!(old.carries_on(None), "alone, it brings nothing back");
        let wider = old.with(&vary(&["b"]), 2);
        assert!(wider.carries_on(Some(&old)));
        assert!(wider.carries_on(Some(&old.with(&vary(&["c"]), 3))), "another came meanwhile");
        assert!(!wider.carries_on(None), "it was removed");
        let anew = VaryMarker::new(4, &names(&["a"]));
        assert!(!wider.carries_on(Some(&anew)), "it was removed, and the same fields came again");
        let again = wider.with(&vary(&["a"]), 5);
        assert_eq!((again.epoch(), again.count()), (1, 2));
        assert!(again.carries_on(Some(&wider)) && !again.carries_on(Some(&anew)));
    }

    #[test]
    fn a_response_belongs_under_just_the_fields_that_it_names() {
        let mut marker = VaryMarker::new(1, &names(&["a", "b"]));
        assert!(marker.is_for(&vary(&["a", "b"])) && marker.is_for(&Vary::Star));
        assert!(!marker.is_for(&vary(&["a"])) && !marker.is_for(&Vary::None));
        marker = marker.with(&Vary::None, 2);
        assert_eq!((marker.epoch(), marker.names(), marker.count()), (2, &[][..], 2));
        assert!(marker.is_for(&Vary::None) && !marker.is_for(&vary(&["a", "b"])));
        marker.choose(1);
        assert_eq!((marker.epoch(), marker.names()), (1, &names(&["a", "b"])[..]));
        assert!(!marker.is_for(&vary(&["a", "b"])), "it is not the latest");
        let again = marker.with(&vary(&["a", "b"]), 3);
        assert_eq!((again.epoch(), again.count()), (1, 2), "a set keeps its epoch");
        assert!(again.is_for(&vary(&["a", "b"])));
    }

    #[test]
    fn the_oldest_set_makes_way() {
        let mut marker = VaryMarker::new(0, &names(&["x-0"]));
        for number in 1..=VaryMarker::SETS_MAX {
            let set = vary(&[&format!("x-{number}")]);
            marker = marker.with(&set, number as u128);
        }
        let epochs: Vec<u128> = marker.choices().map(|marker| marker.epoch()).collect();
        assert_eq!(epochs, [4, 3, 2, 1]);
    }

    #[test]
    fn markers_come_back_as_they_were() {
        let one = VaryMarker::new(u128::MAX - 5, &names(&["x-b", "accept"]));
        let three = one.with(&Vary::None, 7).with(&vary(&["cookie"]), 8);
        for marker in [&one, &three] {
            let encoded = marker.encode();
            assert_eq!(Meta::decode(&encoded), Ok(Meta::Marker(marker.clone())));
        }
        let five = [&three.encode()[..], &three.encode()[2..]].concat();
        assert_eq!(Meta::decode(&Bytes::from(five)), Err(Damaged));
    }
}
