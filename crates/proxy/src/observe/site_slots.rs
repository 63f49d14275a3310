//! Slots of sites in the counters of each worker. Metrics have a label for the site, so the number
//! of sites that are counted by name is bounded.

use std::sync::Arc;

/// Maximum number of sites with a slot of their own.
const NAMED_MAX: usize = 100;

/// Label of the sites beyond that number.
const OTHER: &str = "other";

/// Number of a site in the counters. It stays the same when the configuration is read again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteSlot(u8);

impl SiteSlot {
    /// The site of a forward proxy, or no site: the request was refused before one was found.
    pub const NONE: SiteSlot = SiteSlot(0);
    const OTHER: SiteSlot = SiteSlot(NAMED_MAX as u8 + 1);
    /// Number of slots.
    pub(crate) const COUNT: usize = NAMED_MAX + 2;

    /// Returns the slot as the label of a fetch.
    pub(crate) fn label(self) -> u8 {
        self.0
    }

    pub(crate) fn of_label(label: u8) -> SiteSlot {
        SiteSlot(label.min(SiteSlot::OTHER.0))
    }

    pub(crate) fn index(self) -> usize {
        self.0.into()
    }
}

/// The names of the sites that have slots, in the order in which they were first configured.
#[derive(Clone, Debug, Default)]
pub struct SiteSlots {
    names: Vec<Arc<str>>,
    has_others: bool,
}

impl SiteSlots {
    /// Returns the slot of a site, which gets one if it has none.
    pub(crate) fn slot(&mut self, name: Option<&str>) -> SiteSlot {
        let Some(name) = name.filter(|name| !name.is_empty()) else { return SiteSlot::NONE };
        let known = self.names.iter().position(|known| **known == *name);
        let index = match known {
            Some(index) => index,
            None if self.names.len() == NAMED_MAX || name == OTHER => {
                self.has_others = true;
                return SiteSlot::OTHER;
            }
            None => {
                self.names.push(name.into());
                self.names.len() - 1
            }
        };
        SiteSlot(u8::try_from(index + 1).unwrap_or(SiteSlot::OTHER.0))
    }

    /// Returns all slots in use with the values of their label, which is empty without a site.
    pub(crate) fn all(&self) -> impl Iterator<Item = (SiteSlot, &str)> {
        let named = self.names.iter().zip(1..).map(|(name, slot)| (SiteSlot(slot), &**name));
        let other = self.has_others.then_some((SiteSlot::OTHER, OTHER));
        [(SiteSlot::NONE, "")].into_iter().chain(named).chain(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_beyond_the_bound_share_a_slot() {
        let mut slots = SiteSlots::default();
        let names: Vec<String> = (0..NAMED_MAX + 2).map(|number| format!("s{number}")).collect();
        for _ in 0..2 {
            for (number, name) in names.iter().enumerate() {
                let slot = slots.slot(Some(name));
                assert_eq!(slot.index(), (number + 1).min(NAMED_MAX + 1), "{name}");
            }
        }
        assert_eq!(slots.slot(None), SiteSlot::NONE);
        assert_eq!(SiteSlots::default().slot(Some(OTHER)), SiteSlot::OTHER);
        let all: Vec<_> = slots.all().collect();
        assert_eq!(all.len(), SiteSlot::COUNT);
        assert_eq!((all[0].1, all[1].1, all[NAMED_MAX].1), ("", "s0", "s99"));
        assert_eq!(all[NAMED_MAX + 1], (SiteSlot::OTHER, OTHER));
    }
}
