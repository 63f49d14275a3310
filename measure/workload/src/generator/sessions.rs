//! Sessions: people visit several pages of a site before they go elsewhere.
//!
//! A client that leaves a page may go on to another of the same site: to the one where the page's
//! last visitor went, so that trails form that others follow, or to any other, known or new.
//! Between two pages it reads. Pages on one trail are near each other in time and share sites and
//! directories, which systems that group objects rely on.
//!
//! Guarantees: there is no randomness here apart from the caller's dice.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::distributions::SplitMix;

/// How people continue from a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sessions {
    /// Probability of going on to another page of the site. 0: every visit is a session.
    pub more: f64,
    /// Probability that this is the page where the last visitor went from there.
    pub follow: f64,
    /// Mean time between the last object of a page and the next page, in milliseconds;
    /// exponentially distributed.
    pub think_ms: f64,
}

/// Visits of a site that are remembered as choices of where to continue.
const REMEMBERED: usize = 8;

/// By site, the pages of the last visits that may be repeated. Popular pages occur more often.
#[derive(Default)]
pub(super) struct Sites(Vec<Recent>);

#[derive(Clone, Copy, Default)]
struct Recent {
    pages: [u32; REMEMBERED],
    visits: u32,
}

impl Sites {
    /// Records a visit to a page of the site.
    pub(super) fn remember(&mut self, site: u32, page: u32) {
        let site = site as usize;
        if site >= self.0.len() {
            self.0.resize(site + 1, Recent::default());
        }
        let recent = &mut self.0[site];
        recent.pages[recent.visits as usize % REMEMBERED] = page;
        recent.visits = recent.visits.saturating_add(1);
    }

    /// Draws one of the site's remembered pages, each visit equally likely; `None` if there is
    /// none.
    pub(super) fn known(&self, site: u32, dice: &mut SplitMix) -> Option<u32> {
        let recent = self.0.get(site as usize)?;
        let held = (recent.visits as usize).min(REMEMBERED);
        (held > 0).then(|| recent.pages[dice.below(held as u64) as usize])
    }
}

/// Clients that read a page before they continue, by the time of their continuation.
#[derive(Default)]
pub(super) struct ThinkingClients {
    /// Time in milliseconds, number of the entry (which makes the order definite), client, page.
    waiting: BinaryHeap<Reverse<(u64, u64, u32, u32)>>,
    entries: u64,
}

impl ThinkingClients {
    /// Records that a client reads a page until this time.
    pub(super) fn add(&mut self, until_ms: f64, client: u32, page: u32) {
        self.waiting.push(Reverse((until_ms as u64, self.entries, client, page)));
        self.entries += 1;
    }

    /// Returns the client that continues first and its page, if it is ready by now.
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
        // Seven visits to 7, one to 8: 100 is forgotten.
        for page in [7, 7, 7, 8, 7, 7, 7, 7] {
            sites.remember(3, page);
        }
        let drawn: Vec<u32> = (0..8_000).filter_map(|_| sites.known(3, &mut dice)).collect();
        let eights = drawn.iter().filter(|page| **page == 8).count();
        assert!((800..1_200).contains(&eights), "{eights}");
        assert!(drawn.iter().all(|page| [7, 8].contains(page)));
    }

    #[test]
    fn the_client_that_finished_reading_first_continues_first() {
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
