//! Sessions: people go from page to page of a site before they go elsewhere.
//!
//! Who leaves a page may go on to another of the same site: to the one where the last visitor of
//! that page went, so that trails come about which others follow, or to any other, known or new.
//! Between two pages people read. Pages that are visited by one trail are near each other in time
//! and share sites and directories, which is what systems that group objects count on.
//!
//! It promises no chance of its own: all of it follows from the dice of the caller.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::distributions::SplitMix;

/// How people go on from a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sessions {
    /// How likely somebody goes on to another page of the site. 0: every visit is by itself.
    pub more: f64,
    /// How likely it is the page where the last who went on from there went.
    pub follow: f64,
    /// Mean time between the last object of a page and the next page, in milliseconds;
    /// exponential.
    pub think_ms: f64,
}

/// Visits of a site that are remembered, as a choice of where to go on.
const REMEMBERED: usize = 8;

/// The last pages of each site that may be visited again, one for each visit: what is popular is
/// there more often.
#[derive(Default)]
pub(super) struct Sites(Vec<Recent>);

#[derive(Clone, Copy, Default)]
struct Recent {
    pages: [u32; REMEMBERED],
    visits: u32,
}

impl Sites {
    /// A page of the site was visited.
    pub(super) fn remember(&mut self, site: u32, page: u32) {
        let site = site as usize;
        if site >= self.0.len() {
            self.0.resize(site + 1, Recent::default());
        }
        let recent = &mut self.0[site];
        recent.pages[recent.visits as usize % REMEMBERED] = page;
        recent.visits = recent.visits.saturating_add(1);
    }

    /// One of them, each as likely; `None` if there is none.
    pub(super) fn known(&self, site: u32, dice: &mut SplitMix) -> Option<u32> {
        let recent = self.0.get(site as usize)?;
        let held = (recent.visits as usize).min(REMEMBERED);
        (held > 0).then(|| recent.pages[dice.below(held as u64) as usize])
    }
}

/// Clients who read a page before they go on, by the time when they do.
#[derive(Default)]
pub(super) struct ThinkingClients {
    /// Until which millisecond; the number of the entry, so that the order is certain; who; where.
    waiting: BinaryHeap<Reverse<(u64, u64, u32, u32)>>,
    entries: u64,
}

impl ThinkingClients {
    /// A client reads a page until that millisecond.
    pub(super) fn add(&mut self, until_ms: f64, client: u32, page: u32) {
        self.waiting.push(Reverse((until_ms as u64, self.entries, client, page)));
        self.entries += 1;
    }

    /// The client who is ready first and the page, if one is by now.
    pub(super) fn ready(&mut self, now_ms: f64) -> Option<(u32, u32)> {
        let Reverse((until_ms, ..)) = self.waiting.peek()?;
        if *until_ms as f64 > now_ms {
            return None;
        }
        self.waiting.pop().map(|Reverse((_, _, client, page))| (client, page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_offers_its_last_visits() {
        let (mut sites, mut dice) = (Sites::default(), SplitMix::new(1));
        assert_eq!(sites.known(3, &mut dice), None);
        sites.remember(3, 100);
        assert_eq!(sites.known(3, &mut dice), Some(100));
        assert_eq!(sites.known(2, &mut dice), None);
        // Seven visits of 7, one of 8: 100 is forgotten.
        for page in [7, 7, 7, 8, 7, 7, 7, 7] {
            sites.remember(3, page);
        }
        let drawn: Vec<u32> = (0..8_000).filter_map(|_| sites.known(3, &mut dice)).collect();
        let eights = drawn.iter().filter(|page| **page == 8).count();
        assert!((800..1_200).contains(&eights), "{eights}");
        assert!(drawn.iter().all(|page| [7, 8].contains(page)));
    }

    #[test]
    fn who_has_read_first_goes_on_first() {
        let mut thinking = ThinkingClients::default();
        thinking.add(20.0, 1, 10);
        thinking.add(10.0, 2, 20);
        thinking.add(10.0, 3, 30);
        assert_eq!(thinking.ready(9.0), None);
        let gone: Vec<_> = (0..3).filter_map(|_| thinking.ready(15.0)).collect();
        assert_eq!(gone, [(2, 20), (3, 30)]);
        assert_eq!(thinking.ready(20.0), Some((1, 10)));
    }
}
