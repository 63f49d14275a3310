//! A web server's site: pages in directories of their own, with embedded objects.

use workload::generator::distributions::SplitMix;
use workload::generator::page_visits::{Browsing, BrowsingRequests};
use workload::generator::streams;
use workload::request::Request;

use super::options::PhaseKind;
use crate::object::{Ask, Object};

/// A source of requests for the pages of a site.
pub struct Site {
    requests: BrowsingRequests,
    /// A request for each file; the pages are in random order.
    files: Vec<Request>,
    /// The next file of the requests for all files, while caches are being filled.
    filling: Option<usize>,
}

impl Site {
    /// Creates a source with this number of pages.
    pub fn new(pages: u32, seed: u64) -> Site {
        let mut requests = requests(pages, seed);
        let files = requests.catalogue();
        let mut pages: Vec<&[Request]> = files.chunk_by(|a, b| a.group == b.group).collect();
        let mut dice = SplitMix::new(seed ^ 0x7369_7465);
        for place in (1..pages.len()).rev() {
            pages.swap(place, dice.below(place as u64 + 1) as usize);
        }
        Site { requests, files: pages.concat(), filling: None }
    }

    /// Starts a phase. In a fill, each page is visited once.
    pub fn enter(&mut self, phase: PhaseKind) {
        self.filling = (phase == PhaseKind::Fill).then_some(0);
    }

    /// Returns the next request.
    pub fn next(&mut self) -> Ask {
        let in_order = self.filling.and_then(|next| self.files.get(next).copied());
        self.filling = self.filling.map(|next| next + 1);
        // The sequence is endless.
        let request = in_order.or_else(|| self.requests.next());
        request.map_or_else(Ask::default, |request| Ask::from(&request))
    }
}

/// Returns all files of a site, page by page.
pub fn site_files(pages: u32, seed: u64) -> Vec<Object> {
    requests(pages, seed).catalogue().iter().map(|request| Ask::from(request).object).collect()
}

fn requests(pages: u32, seed: u64) -> BrowsingRequests {
    BrowsingRequests::new(Browsing { seed, ..streams::site(pages) })
}

#[test]
fn only_files_of_the_site_are_requested_and_a_fill_requests_each_once() {
    use std::collections::HashSet;

    let name = |object: &Object| (object.group, object.id, object.size);
    let files: HashSet<_> = site_files(200, 7).iter().map(name).collect();
    let mut site = Site::new(200, 7);
    site.enter(PhaseKind::Fill);
    let filled: Vec<_> = (0..files.len()).map(|_| name(&site.next().object)).collect();
    assert_eq!(filled.iter().copied().collect::<HashSet<_>>(), files);
    site.enter(PhaseKind::Steady);
    let asked: Vec<_> = (0..50_000).map(|_| name(&site.next().object)).collect();
    assert!(asked.iter().all(|object| files.contains(object)));
    let first = asked.iter().filter(|(group, ..)| *group == 0).count() as f64 / 50_000.0;
    // The share of the first rank of 200 by Zipf's law with 0.8, times its share of objects.
    assert!((0.01..0.3).contains(&first), "seed 7: {first}");
}
