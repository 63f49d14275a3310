//! People who browse: visits of pages with embedded objects, of new pages and of known ones.
//!
//! A visit is either of a page that nobody visited before, or of one that was visited some visits
//! ago, drawn by a power of that distance (Simon's process with a fading memory). Popularity then
//! comes about by itself, with most objects asked for once and a few all the time, and the exponent
//! of the distance says how soon objects are asked for again. A web server's pages are drawn from a
//! fixed catalogue by Zipf's law instead. Several clients are on a page at a time, so that the
//! objects of a page are near each other and not next to each other.
//!
//! It promises: equal parameters give equal requests, on every machine; memory grows with pages and
//! objects (20 and 4 bytes), never with requests.

use super::dice::Dice;
use super::sizes::Sizes;
use crate::request::{Kind, Request};

/// Attempts to find a page that the caches below do not keep.
const ATTEMPTS: u32 = 8;

/// What people do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Browsing {
    /// Everything random follows from it.
    pub seed: u64,
    /// Mean requests per second.
    pub rate: f64,
    /// Clients (people, or caches below this one).
    pub clients: u32,
    /// Visits under way at a time.
    pub active: u32,
    /// Visits before the first request, which nobody sees: logs begin in the middle of things.
    pub before: u32,
    /// How the page of a visit is chosen.
    pub choice: Choice,
    /// Share of visits that are of a page with embedded objects; the others are of one object.
    pub page_share: f64,
    /// A page embeds zipf(this) objects (Polygraph's zipf).
    pub embedded_max: u32,
    /// How likely an embedded object is asked for when its page is visited again: clients have
    /// caches of their own.
    pub asked_again: f64,
    /// How likely an object has changed when it is asked for again.
    pub changed: f64,
    /// How likely a new page is on a site that has none yet. Else on that of another page, each as
    /// likely.
    pub new_site: f64,
    /// How likely a new page on a known site is in a directory that has none yet.
    pub new_directory: f64,
    /// Sizes of objects.
    pub sizes: Sizes,
}

/// How the page of a visit is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice {
    /// A proxy's: the web is without end.
    Growing {
        /// How likely it is a page that nobody visited before.
        new: f64,
        /// How likely such a page is never visited again, whatever else.
        once: f64,
        /// The exponent of the distance back to the visit that is repeated.
        recency: f64,
        /// The farthest distance, in visits of pages that may be visited again.
        memory: u32,
        /// How likely a repeated visit can be repeated in its turn. 1 makes pages popular because
        /// they are popular; a cache above others, which keep the popular ones, sees less of it.
        reinforced: f64,
        /// Visits after which a page may be visited again: so long the caches below this one keep
        /// it. Held as far as a few attempts find another page.
        kept_below: u32,
    },
    /// A server's: so many pages, popular by Zipf's law.
    Catalogue {
        /// Pages and lone objects.
        pages: u32,
        /// The exponent of the popularity by rank.
        exponent: f64,
    },
}

/// The requests of people who browse: an endless iterator.
pub struct BrowsingRequests {
    what: Browsing,
    dice: Dice,
    now_ms: f64,
    pages: Vec<Page>,
    /// By object: its current version.
    versions: Vec<u32>,
    sites: Numbers,
    groups: Numbers,
    visits: Vec<Visit>,
    /// Visits begun.
    visited: u32,
    /// Pages of the last visits that may be repeated, a ring.
    history: Vec<u32>,
    /// Where in the ring the next goes.
    next: usize,
    catalogue: Option<Catalogue>,
}

#[derive(Clone, Copy)]
struct Page {
    /// The number of its first object; [`UNSEEN`] until it is asked for.
    first: u32,
    site: u32,
    group: u32,
    /// The number of the last visit.
    visited: u32,
    /// Objects, the page itself included.
    objects: u16,
    is_html: bool,
}

/// The number of what was not asked for so far.
const UNSEEN: u32 = u32::MAX;

/// Things in the order in which they come about, and their numbers in the order in which they are
/// asked for: dense, although what came about before the first request may never be seen.
#[derive(Default)]
struct Numbers {
    numbers: Vec<u32>,
    seen: u32,
}

impl Numbers {
    /// A new thing.
    fn add(&mut self) -> u32 {
        self.numbers.push(UNSEEN);
        self.numbers.len() as u32 - 1
    }

    /// The number of a thing.
    fn see(&mut self, thing: u32) -> u32 {
        let number = &mut self.numbers[thing as usize];
        if *number == UNSEEN {
            *number = self.seen;
            self.seen += 1;
        }
        *number
    }
}

/// Objects of a page that a client has still to ask for.
#[derive(Clone, Copy, Default)]
struct Visit {
    page: u32,
    client: u32,
    next: u16,
    is_repeated: bool,
}

impl BrowsingRequests {
    /// Begins.
    pub fn new(what: Browsing) -> BrowsingRequests {
        let catalogue = match what.choice {
            Choice::Catalogue { pages, exponent } => Some(Catalogue::new(pages.max(1), exponent)),
            Choice::Growing { .. } => None,
        };
        let mut requests = BrowsingRequests {
            dice: Dice::new(what.seed),
            now_ms: 0.0,
            pages: Vec::new(),
            versions: Vec::new(),
            sites: Numbers::default(),
            groups: Numbers::default(),
            visits: Vec::new(),
            visited: 0,
            history: Vec::new(),
            next: 0,
            catalogue,
            what,
        };
        for _ in 0..what.before {
            requests.choose();
        }
        requests
    }

    /// Objects that were asked for so far, and those on pages that were visited.
    pub fn objects(&self) -> usize {
        self.versions.len()
    }

    fn visit(&mut self) -> Visit {
        let client = self.dice.below(u64::from(self.what.clients.max(1))) as u32;
        let page = self.choose();
        let Page { first, objects, .. } = &mut self.pages[page as usize];
        let is_repeated = *first != UNSEEN;
        if !is_repeated {
            *first = self.versions.len() as u32;
            self.versions.resize(self.versions.len() + usize::from(*objects), 0);
        }
        Visit { page, client, next: 0, is_repeated }
    }

    /// The page of the next visit.
    fn choose(&mut self) -> u32 {
        let page = match self.what.choice {
            Choice::Growing { new, once, recency, memory, reinforced, kept_below } => {
                match self.history.is_empty() || self.dice.chance(new) {
                    true => {
                        let page = self.new_page();
                        if !self.dice.chance(once) {
                            self.remember(page, memory);
                        }
                        page
                    }
                    false => {
                        let page = self.known_page(recency, kept_below);
                        if self.dice.chance(reinforced) {
                            self.remember(page, memory);
                        }
                        page
                    }
                }
            }
            Choice::Catalogue { .. } => self.catalogued(),
        };
        self.visited = self.visited.wrapping_add(1);
        self.pages[page as usize].visited = self.visited;
        page
    }

    /// A page that was visited before; there is one.
    fn known_page(&mut self, recency: f64, kept_below: u32) -> u32 {
        let len = self.history.len();
        let mut page = 0;
        for _ in 0..ATTEMPTS {
            let back = self.dice.power(len as u64, recency) as usize;
            page = self.history[(self.next + len - back) % len];
            if self.visited.wrapping_sub(self.pages[page as usize].visited) >= kept_below {
                break;
            }
        }
        page
    }

    fn remember(&mut self, page: u32, memory: u32) {
        if self.history.len() < memory.max(1) as usize {
            // The ring grows only before it goes round for the first time: next is its end.
            self.history.push(page);
            self.next = self.history.len() % memory.max(1) as usize;
            return;
        }
        self.history[self.next] = page;
        self.next = (self.next + 1) % self.history.len();
    }

    fn catalogued(&mut self) -> u32 {
        let uniform = self.dice.uniform();
        let rank = self.catalogue.as_ref().map_or(0, |catalogue| catalogue.rank(uniform));
        let known = self.catalogue.as_ref().and_then(|catalogue| catalogue.known[rank]);
        let page = known.unwrap_or_else(|| self.new_page());
        if let Some(catalogue) = &mut self.catalogue {
            catalogue.known[rank] = Some(page);
        }
        page
    }

    fn new_page(&mut self) -> u32 {
        let Browsing { page_share, embedded_max, new_site, new_directory, .. } = self.what;
        let is_html = self.dice.chance(page_share);
        let embedded = if is_html { self.dice.zipf(embedded_max.max(1)) as u16 } else { 0 };
        let (site, group) = match self.pages.is_empty() || self.dice.chance(new_site) {
            true => (self.sites.add(), self.groups.add()),
            false => {
                let near = self.pages[self.dice.below(self.pages.len() as u64) as usize];
                match self.dice.chance(new_directory) {
                    true => (near.site, self.groups.add()),
                    false => (near.site, near.group),
                }
            }
        };
        let objects = 1 + embedded;
        self.pages.push(Page { first: UNSEEN, site, group, visited: 0, objects, is_html });
        self.pages.len() as u32 - 1
    }

    /// The next object of a visit, if there is one left.
    fn step(&mut self, place: usize) -> Option<(Visit, u16)> {
        loop {
            let visit = self.visits[place];
            if visit.next >= self.pages[visit.page as usize].objects {
                return None;
            }
            self.visits[place].next += 1;
            let is_embedded = visit.next > 0;
            if !is_embedded || !visit.is_repeated || self.dice.chance(self.what.asked_again) {
                return Some((visit, visit.next));
            }
        }
    }

    /// The size of a version follows from the numbers: no two requests disagree. Versions of an
    /// object differ by up to a tenth.
    fn size(&self, object: u32, version: u32) -> u64 {
        let seed = self.what.seed;
        let size = self.what.sizes.draw(&mut Dice::of(seed, u64::from(object)));
        if version == 0 {
            return size;
        }
        let mut dice = Dice::of(seed, u64::from(version) << 32 | u64::from(object));
        (size as f64 * (0.9 + 0.2 * dice.uniform())).max(1.0) as u64
    }
}

impl Iterator for BrowsingRequests {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let active = self.what.active.max(1) as usize;
        let place = self.dice.below(active as u64) as usize;
        while self.visits.len() <= place {
            let visit = self.visit();
            self.visits.push(visit);
        }
        let (visit, part) = loop {
            match self.step(place) {
                Some(found) => break found,
                None => self.visits[place] = self.visit(),
            }
        };
        let page = self.pages[visit.page as usize];
        let object = page.first + u32::from(part);
        let is_changed = visit.is_repeated && self.dice.chance(self.what.changed);
        let version = &mut self.versions[object as usize];
        *version += u32::from(is_changed);
        let version = *version;
        self.now_ms += self.dice.exponential() * 1_000.0 / self.what.rate;
        Some(Request {
            time_ms: self.now_ms as u64,
            size: self.size(object, version),
            client: visit.client,
            site: self.sites.see(page.site),
            group: self.groups.see(page.group),
            object,
            version,
            status: 200,
            kind: if page.is_html && part == 0 { Kind::Html } else { Kind::Other },
            ..Request::default()
        })
    }
}

/// Pages by rank.
struct Catalogue {
    /// The share of all ranks up to each.
    cumulative: Vec<f64>,
    known: Vec<Option<u32>>,
}

impl Catalogue {
    fn new(pages: u32, exponent: f64) -> Catalogue {
        let mut sum = 0.0;
        let mut cumulative: Vec<f64> = (1..=pages)
            .map(|rank| {
                sum += f64::from(rank).powf(-exponent);
                sum
            })
            .collect();
        cumulative.iter_mut().for_each(|share| *share /= sum);
        Catalogue { cumulative, known: vec![None; pages as usize] }
    }

    fn rank(&self, uniform: f64) -> usize {
        self.cumulative.partition_point(|share| *share < uniform).min(self.known.len() - 1)
    }
}
