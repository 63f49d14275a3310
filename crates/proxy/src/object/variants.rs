//! Stored variants of resources and their entity tags, so that the origin can be asked about all of
//! them at once (RFC 9111, 4.3.1).
//!
//! They are known in memory only: the latest few variants of the most recently added resources. An
//! unknown variant costs a fetch and nothing else. An entry is only a hint, which a lookup in the
//! store confirms.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::HeaderValue;
use http::header::{CONTENT_ENCODING, ETAG};
use semantics::assumed_vary::ASSUMED;
use semantics::{EntityTag, StoredHead};
use store::Key;

/// Upper bound on resources with known variants.
const RESOURCES_MAX: usize = 1024;
/// Maximum number of known variants per resource; every tag makes the conditional request longer.
const VARIANTS_MAX: usize = 8;
/// Maximum length of a key or tag in bytes; longer ones are not worth the memory.
const LENGTH_MAX: usize = 512;

#[derive(Default)]
pub(crate) struct Variants {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Resources by the epoch of the variants' marker.
    resources: HashMap<u128, Resource>,
    /// The same epochs, oldest first.
    order: VecDeque<u128>,
}

#[derive(Default)]
struct Resource {
    /// Latest first.
    variants: VecDeque<Variant>,
    /// True if the origin's 304 does not name the variant that it confirms.
    is_mute: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    pub key: Key,
    /// A well-formed entity tag.
    pub tag: HeaderValue,
    pub coding: Option<HeaderValue>,
}

impl Variant {
    /// Returns the variant stored under `key` with this head; `None` if it cannot be validated by
    /// tag.
    pub fn of(key: &Key, head: &StoredHead) -> Option<Variant> {
        if head.headers().contains_key(ASSUMED) {
            // Its tag may be that of all variants.
            return None;
        }
        // Copied, because the value may share the memory of a whole record.
        let own = |value: &HeaderValue| HeaderValue::from_bytes(value.as_bytes()).ok();
        let tag = own(head.headers().get(ETAG)?)?;
        EntityTag::parse(tag.as_bytes())?;
        let coding = head.headers().get(CONTENT_ENCODING).and_then(own);
        let length = key.as_bytes().len().max(tag.len());
        let is_good = head.status().is_success() && length <= LENGTH_MAX;
        is_good.then(|| Variant { key: key.clone(), tag, coding })
    }

    /// Returns whether a 304 with this tag names this variant. A strong tag matches by strong
    /// comparison, a weak one by weak comparison (RFC 9111, 4.3.4).
    pub fn is_named(&self, named: &EntityTag<'_>) -> bool {
        EntityTag::parse(self.tag.as_bytes())
            .is_some_and(|own| if named.weak { own.weak_eq(named) } else { own.strong_eq(named) })
    }
}

impl Variants {
    /// Remembers a variant under the marker with this epoch.
    pub fn note(&self, epoch: u128, variant: Variant) {
        let mut known = self.lock();
        let Known { resources, order } = &mut *known;
        let resource = resources.entry(epoch).or_insert_with(|| {
            order.push_back(epoch);
            Resource::default()
        });
        resource.variants.retain(|other| other.key != variant.key && other.tag != variant.tag);
        resource.variants.push_front(variant);
        resource.variants.truncate(VARIANTS_MAX);
        while order.len() > RESOURCES_MAX {
            if let Some(oldest) = order.pop_front() {
                resources.remove(&oldest);
            }
        }
    }

    /// Returns the variants under a marker that the origin can be asked about, latest first.
    pub fn of(&self, epoch: u128) -> Vec<Variant> {
        let known = self.lock();
        let resource = known.resources.get(&epoch).filter(|resource| !resource.is_mute);
        resource.map_or_else(Vec::new, |resource| resource.variants.iter().cloned().collect())
    }

    /// Removes a variant that is no longer stored.
    pub fn forget(&self, epoch: u128, key: &Key) {
        if let Some(resource) = self.lock().resources.get_mut(&epoch) {
            resource.variants.retain(|variant| variant.key != *key);
        }
    }

    /// Records that the origin's 304 did not name a variant. The origin is not asked about several
    /// variants again.
    pub fn mute(&self, epoch: u128) {
        if let Some(resource) = self.lock().resources.get_mut(&epoch) {
            resource.is_mute = true;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // After a panic under the lock the hints are as good as before.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use store::Locality;

    fn variant(name: &str, tag: &str) -> Variant {
        let key = Bytes::copy_from_slice(name.as_bytes());
        let key = Key::new(key, Locality { site: 1, group: 1 }).unwrap();
        Variant { key, tag: HeaderValue::from_str(tag).unwrap(), coding: None }
    }

    #[test]
    fn the_latest_variants_are_known_once_per_key_and_tag() {
        let variants = Variants::default();
        for number in 0..=VARIANTS_MAX {
            variants.note(7, variant(&format!("key {number}"), &format!("\"{number}\"")));
        }
        let of = variants.of(7);
        assert_eq!((of.len(), &of[0]), (VARIANTS_MAX, &variant("key 8", "\"8\"")));
        assert!(!of.contains(&variant("key 0", "\"0\"")));
        variants.note(7, variant("key 8", "\"new\""));
        variants.note(7, variant("key 9", "\"7\""));
        let of = variants.of(7);
        assert_eq!(of[0], variant("key 9", "\"7\""));
        assert_eq!(of[1], variant("key 8", "\"new\""));
        assert_eq!(of[2], variant("key 6", "\"6\""));
        variants.forget(7, &of[0].key);
        assert_eq!(variants.of(7)[0], of[1]);
        assert_eq!(variants.of(8), []);
    }

    #[test]
    fn an_origin_that_names_no_variant_is_not_asked_again() {
        let variants = Variants::default();
        variants.note(7, variant("a", "\"a\""));
        variants.mute(7);
        variants.note(7, variant("b", "\"b\""));
        assert_eq!(variants.of(7), []);
    }

    #[test]
    fn the_oldest_resources_are_dropped() {
        let variants = Variants::default();
        for epoch in 0..=RESOURCES_MAX as u128 {
            variants.note(epoch, variant("a", "\"a\""));
        }
        assert_eq!((variants.of(0).len(), variants.of(1).len()), (0, 1));
        assert_eq!(variants.lock().resources.len(), RESOURCES_MAX);
    }

    #[test]
    fn strong_and_weak_tags_are_compared_by_their_rules() {
        let (strong, weak) = (variant("a", "\"a\""), variant("a", "W/\"a\""));
        let tag = |text: &'static str| EntityTag::parse(text.as_bytes()).unwrap();
        assert!(strong.is_named(&tag("\"a\"")) && !weak.is_named(&tag("\"a\"")));
        assert!(strong.is_named(&tag("W/\"a\"")) && weak.is_named(&tag("W/\"a\"")));
        assert!(!strong.is_named(&tag("\"b\"")) && !strong.is_named(&tag("W/\"b\"")));
    }
}
