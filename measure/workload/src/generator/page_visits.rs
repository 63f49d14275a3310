//! People who browse: visits to pages with embedded objects, both new and known pages.
//!
//! A visit is either to a new page, or repeats an earlier visit, drawn by a power of the distance
//! back to it (Simon's process with a fading memory). Popularity emerges from this, with most
//! objects requested once and a few all the time; the exponent of the distance determines how soon
//! objects are requested again. A web server's pages are drawn from a fixed catalogue by Zipf's law
//! instead. From such a page people may go on to others of the same site, often to the one where
//! the previous visitor went ([`super::sessions`]). Several clients visit pages at a time, so the
//! objects of a page are near each other but not adjacent.
//!
//! Guarantees: equal parameters give equal requests on every machine. Memory grows with pages,
//! sites and objects (24, 40 and 4 bytes), never with requests.

use super::distributions::SplitMix;
use super::sessions::{Sessions, Sites, ThinkingClients};
use super::sizes::Sizes;
use crate::request::{Kind, Request};

/// Attempts to find a page that the caches below do not keep.
const ATTEMPTS: u32 = 8;

/// Parameters of the browsing model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Browsing {
    /// Seed of all random choices.
    pub seed: u64,
    /// Mean requests per second.
    pub rate: f64,
    /// Number of clients (people, or caches below this one).
    pub clients: u32,
    /// Number of concurrent visits.
    pub active: u32,
    /// Visits before the first request, which are not part of the trace: logs begin in the middle.
    pub before: u32,
    /// How the first page of a session is chosen.
    pub choice: Choice,
    /// How a session continues.
    pub sessions: Sessions,
    /// Share of visits to a page with embedded objects; the others are to a single object.
    pub page_share: f64,
    /// A page embeds zipf(this) objects (Polygraph's zipf).
    pub embedded_max: u32,
    /// Probability that an embedded object is requested when its page is visited again: clients
    /// have caches of their own.
    pub asked_again: f64,
    /// Probability that an object has changed when it is requested again.
    pub changed: f64,
    /// Probability that a new page that begins a session is on a new site. Otherwise it is on that
    /// of another page, each equally likely.
    pub new_site: f64,
    /// Probability that a new page on a known site is in a new directory. Otherwise it is in that
    /// of the page from which the client comes, or of the page that determined its site.
    pub new_directory: f64,
    /// Size distribution of objects.
    pub sizes: Sizes,
}

/// How the page of a visit is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice {
    /// A proxy's: the set of pages grows without end.
    Growing {
        /// Probability of a new page.
        new: f64,
        /// Probability that a new page is never visited again.
        once: f64,
        /// Exponent of the distance back to the repeated visit.
        recency: f64,
        /// Maximum distance, in visits to pages that may be visited again.
        memory: u32,
        /// Probability that a repeated visit can be repeated in turn. 1 makes pages popular because
        /// they are popular. A cache above others, which keep the popular pages, sees less of this.
        reinforced: f64,
        /// Minimum number of visits between two visits to the same page; models the caches below
        /// this one. Enforced as far as a few attempts find another page.
        kept_below: u32,
    },
    /// A server's: a fixed number of pages, popular by Zipf's law.
    Catalogue {
        /// Number of pages and single objects.
        pages: u32,
        /// Exponent of the popularity by rank.
        exponent: f64,
    },
}

/// The requests of people who browse: an endless iterator.
pub struct BrowsingRequests {
    what: Browsing,
    dice: SplitMix,
    now_ms: f64,
    pages: Vec<Page>,
    /// By object: its current version.
    versions: Vec<u32>,
    sites: Numbers,
    groups: Numbers,
    /// By site: the pages where sessions may continue.
    trails: Sites,
    /// Clients that read a page before they continue.
    thinking: ThinkingClients,
    visits: Vec<Visit>,
    visited: u32,
    /// Ring of the pages of the last visits that may be repeated.
    history: Vec<u32>,
    /// Position in the ring of the next entry.
    next: usize,
    catalogue: Option<Catalogue>,
}

#[derive(Clone, Copy)]
struct Page {
    /// Number of its first object; [`UNSEEN`] until it is requested.
    first: u32,
    site: u32,
    group: u32,
    /// Number of the last visit.
    visited: u32,
    /// The page where the last visitor went from here; [`UNSEEN`] if none did.
    successor: u32,
    /// Number of objects, including the page itself.
    objects: u16,
    is_html: bool,
}

/// Number of a thing that was not requested yet.
const UNSEEN: u32 = u32::MAX;

/// Dense numbering of things in the order of their first request. Things are created earlier, and
/// those created before the first request may never be requested.
#[derive(Default)]
struct Numbers {
    numbers: Vec<u32>,
    seen: u32,
}

impl Numbers {
    fn add(&mut self) -> u32 {
        self.numbers.push(UNSEEN);
        self.numbers.len() as u32 - 1
    }

    /// Returns the number of a thing, assigning one at the first call.
    fn see(&mut self, thing: u32) -> u32 {
        let number = &mut self.numbers[thing as usize];
        if *number == UNSEEN {
            *number = self.seen;
            self.seen += 1;
        }
        *number
    }
}

/// The remaining objects of a page that a client has yet to request.
#[derive(Clone, Copy, Default)]
struct Visit {
    page: u32,
    client: u32,
    next: u16,
    is_repeated: bool,
}

impl BrowsingRequests {
    /// Returns the requests from the beginning.
    pub fn new(what: Browsing) -> BrowsingRequests {
        let catalogue = match what.choice {
            Choice::Catalogue { pages, exponent } => Some(Catalogue::new(pages.max(1), exponent)),
            Choice::Growing { .. } => None,
        };
        let mut requests = BrowsingRequests {
            dice: SplitMix::new(what.seed),
            now_ms: 0.0,
            pages: Vec::new(),
            versions: Vec::new(),
            sites: Numbers::default(),
            groups: Numbers::default(),
            trails: Sites::default(),
            thinking: ThinkingClients::default(),
            visits: Vec::new(),
            visited: 0,
            history: Vec::new(),
            next: 0,
            catalogue,
            what,
        };
        let mut from = None;
        for _ in 0..what.before {
            let page = requests.go(from);
            from = requests.dice.chance(what.sessions.more).then_some(page);
        }
        requests
    }

    /// Returns the number of objects that were requested so far, or are on visited pages.
    pub fn objects(&self) -> usize {
        self.versions.len()
    }

    /// Begins the next visit: of a client that has finished reading, else of a new one.
    fn visit(&mut self) -> Visit {
        let (client, from) = match self.thinking.ready(self.now_ms) {
            Some((client, page)) => (client, Some(page)),
            None => (self.dice.below(u64::from(self.what.clients.max(1))) as u32, None),
        };
        let page = self.go(from);
        let is_repeated = self.number(page);
        Visit { page, client, next: 0, is_repeated }
    }

    /// Numbers the objects of a page. Returns whether they were numbered before.
    fn number(&mut self, page: u32) -> bool {
        let Page { first, objects, .. } = &mut self.pages[page as usize];
        let is_numbered = *first != UNSEEN;
        if !is_numbered {
            *first = self.versions.len() as u32;
            self.versions.resize(self.versions.len() + usize::from(*objects), 0);
        }
        is_numbered
    }

    /// Adds all pages of a catalogue in the order of their popularity, so that their objects are
    /// known before they are requested. Returns a request for each object, page by page.
    pub fn catalogue(&mut self) -> Vec<Request> {
        let ranks = self.catalogue.as_ref().map_or(0, |catalogue| catalogue.known.len());
        let mut all = Vec::new();
        for rank in 0..ranks {
            let page = self.page_of_rank(rank);
            self.number(page);
            let page = self.pages[page as usize];
            all.extend((0..page.objects).map(|part| self.request(page, part, 0)));
        }
        all
    }

    /// Ends a visit: its client may continue from there.
    fn leave(&mut self, visit: Visit) {
        let Sessions { more, think_ms, .. } = self.what.sessions;
        if self.dice.chance(more) {
            let until = self.now_ms + think_ms * self.dice.exponential();
            self.thinking.add(until, visit.client, visit.page);
        }
    }

    /// Returns the page of the next visit of a client, which comes from a page or begins a session.
    fn go(&mut self, from: Option<u32>) -> u32 {
        let next = from.and_then(|page| self.onward(page));
        let page = next.unwrap_or_else(|| self.choose());
        self.visited = self.visited.wrapping_add(1);
        self.pages[page as usize].visited = self.visited;
        page
    }

    /// Returns the page with which a session begins.
    fn choose(&mut self) -> u32 {
        match self.what.choice {
            Choice::Growing { new, recency, .. } => {
                match self.history.is_empty() || self.dice.chance(new) {
                    true => self.add_page(None).0,
                    false => {
                        let page = self.known_page(recency);
                        self.repeat(page);
                        page
                    }
                }
            }
            Choice::Catalogue { .. } => self.catalogued(),
        }
    }

    /// Returns where a client goes from a page; `None`: to another site.
    fn onward(&mut self, mut from: u32) -> Option<u32> {
        let Sessions { more, follow, .. } = self.what.sessions;
        // Pages kept by the caches below are visited without a request here: the client continues.
        for _ in 0..ATTEMPTS {
            let next = self.pages[from as usize].successor;
            if next == UNSEEN || !self.dice.chance(follow) {
                return self.elsewhere(from);
            }
            if !self.is_kept_below(next) {
                self.repeat(next);
                return Some(next);
            }
            if !self.dice.chance(more) {
                return None;
            }
            from = next;
        }
        None
    }

    /// Returns a page of the same site, independent of where the last visitor went.
    fn elsewhere(&mut self, from: u32) -> Option<u32> {
        let Choice::Growing { new, .. } = self.what.choice else {
            let page = self.catalogued();
            self.pages[from as usize].successor = page;
            return Some(page);
        };
        if self.dice.chance(new) {
            let (page, is_lasting) = self.add_page(Some(from));
            if is_lasting {
                self.pages[from as usize].successor = page;
            }
            return Some(page);
        }
        let site = self.pages[from as usize].site;
        for _ in 0..ATTEMPTS {
            let page = self.trails.known(site, &mut self.dice)?;
            if page != from && !self.is_kept_below(page) {
                self.pages[from as usize].successor = page;
                self.repeat(page);
                return Some(page);
            }
        }
        None
    }

    /// Adds a new page to a growing web; also returns whether it may be visited again.
    fn add_page(&mut self, from: Option<u32>) -> (u32, bool) {
        let page = self.new_page(from);
        let Choice::Growing { once, memory, .. } = self.what.choice else { return (page, true) };
        let is_lasting = !self.dice.chance(once);
        if is_lasting {
            self.remember(page, memory);
        }
        (page, is_lasting)
    }

    /// Records that a known page is visited again.
    fn repeat(&mut self, page: u32) {
        let Choice::Growing { memory, reinforced, .. } = self.what.choice else { return };
        if self.dice.chance(reinforced) {
            self.remember(page, memory);
        }
    }

    fn is_kept_below(&self, page: u32) -> bool {
        let Choice::Growing { kept_below, .. } = self.what.choice else { return false };
        self.visited.wrapping_sub(self.pages[page as usize].visited) < kept_below
    }

    /// Returns a page that was visited before; there must be one.
    fn known_page(&mut self, recency: f64) -> u32 {
        let len = self.history.len();
        let mut page = 0;
        for _ in 0..ATTEMPTS {
            let back = self.dice.power(len as u64, recency) as usize;
            page = self.history[(self.next + len - back) % len];
            if !self.is_kept_below(page) {
                break;
            }
        }
        page
    }

    fn remember(&mut self, page: u32, memory: u32) {
        self.trails.remember(self.pages[page as usize].site, page);
        if self.history.len() < memory.max(1) as usize {
            // The ring grows only in its first round, when `next` is its end.
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
        self.page_of_rank(rank)
    }

    /// Returns a page of the catalogue, which is added if it is new.
    fn page_of_rank(&mut self, rank: usize) -> u32 {
        let known = self.catalogue.as_ref().and_then(|catalogue| catalogue.known[rank]);
        let page = known.unwrap_or_else(|| self.new_page(None));
        if let Some(catalogue) = &mut self.catalogue {
            catalogue.known[rank] = Some(page);
        }
        page
    }

    /// Adds a page that was not visited yet, linked from `from` if given.
    fn new_page(&mut self, from: Option<u32>) -> u32 {
        let Browsing { page_share, embedded_max, new_site, new_directory, .. } = self.what;
        let is_html = self.dice.chance(page_share);
        let embedded = if is_html { self.dice.zipf(embedded_max.max(1)) as u16 } else { 0 };
        let is_alone = self.pages.is_empty() || (from.is_none() && self.dice.chance(new_site));
        let (site, group) = match is_alone {
            true => (self.sites.add(), self.groups.add()),
            false => {
                let any = |dice: &mut SplitMix| dice.below(self.pages.len() as u64) as u32;
                let near = self.pages[from.unwrap_or_else(|| any(&mut self.dice)) as usize];
                match self.dice.chance(new_directory) {
                    true => (near.site, self.groups.add()),
                    false => (near.site, near.group),
                }
            }
        };
        let objects = 1 + embedded;
        let (first, visited, successor) = (UNSEEN, 0, UNSEEN);
        self.pages.push(Page { first, site, group, visited, successor, objects, is_html });
        self.pages.len() as u32 - 1
    }

    /// Returns the next object of a visit, if any is left.
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

    /// Returns a request for a version of an object of a page.
    fn request(&mut self, page: Page, part: u16, version: u32) -> Request {
        let object = page.first + u32::from(part);
        Request {
            time_ms: self.now_ms as u64,
            size: self.size(object, version),
            site: self.sites.see(page.site),
            group: self.groups.see(page.group),
            object,
            version,
            status: 200,
            kind: if page.is_html && part == 0 { Kind::Html } else { Kind::Other },
            ..Request::default()
        }
    }

    /// Returns the size of a version. It follows from the numbers, so all requests agree on it.
    /// Versions of an object differ by up to a tenth.
    fn size(&self, object: u32, version: u32) -> u64 {
        let seed = self.what.seed;
        let size = self.what.sizes.draw(&mut SplitMix::of(seed, u64::from(object)));
        if version == 0 {
            return size;
        }
        let mut dice = SplitMix::of(seed, u64::from(version) << 32 | u64::from(object));
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
                None => {
                    self.leave(self.visits[place]);
                    self.visits[place] = self.visit();
                }
            }
        };
        let page = self.pages[visit.page as usize];
        let object = page.first + u32::from(part);
        let is_changed = visit.is_repeated && self.dice.chance(self.what.changed);
        let version = &mut self.versions[object as usize];
        *version += u32::from(is_changed);
        let version = *version;
        self.now_ms += self.dice.exponential() * 1_000.0 / self.what.rate;
        Some(Request { client: visit.client, ..self.request(page, part, version) })
    }
}

/// Pages by rank.
struct Catalogue {
    /// Cumulative share by rank.
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Single objects, one session at a time without a pause: each request is a page.
    const ALONE: Browsing = Browsing {
        seed: 7,
        rate: 1.0,
        clients: 1_000_000,
        active: 1,
        before: 0,
        choice: Choice::Growing {
            new: 0.4,
            once: 0.0,
            recency: 0.0,
            memory: 10_000,
            reinforced: 1.0,
            kept_below: 0,
        },
        sessions: Sessions { more: 0.75, follow: 0.5, think_ms: 0.0 },
        page_share: 0.0,
        embedded_max: 1,
        asked_again: 1.0,
        changed: 0.0,
        new_site: 0.5,
        new_directory: 0.3,
        sizes: Sizes {
            median: 1e3,
            sigma: 1.0,
            tail: 0.0,
            tail_min: 1e5,
            tail_alpha: 1.2,
            largest: 1e8,
        },
    };

    /// Returns the pages of each session, split by client.
    fn sessions(what: Browsing) -> Vec<Vec<Request>> {
        let requests: Vec<Request> = BrowsingRequests::new(what).take(60_000).collect();
        requests.chunk_by(|a, b| a.client == b.client).map(<[Request]>::to_vec).collect()
    }

    #[test]
    fn sessions_have_their_length_and_stay_on_a_site() {
        let found = sessions(ALONE);
        let mean = 60_000.0 / found.len() as f64;
        assert!((3.8..4.2).contains(&mean), "seed 7: {mean} pages, not 4");
        // A session moves to another site if its site has no other page.
        let elsewhere = |session: &&Vec<Request>| session.iter().any(|r| r.site != session[0].site);
        let strayed = found.iter().filter(elsewhere).count();
        assert!(strayed * 5 < found.len(), "seed 7: {strayed} of {}", found.len());
        let none = Browsing { sessions: Sessions { more: 0.0, ..ALONE.sessions }, ..ALONE };
        assert!(sessions(none).len() > 59_900);
    }

    #[test]
    fn people_go_where_the_last_one_went() {
        let followed = |follow| {
            let sessions =
                sessions(Browsing { sessions: Sessions { follow, ..ALONE.sessions }, ..ALONE });
            let (mut last, mut same, mut all) = (HashMap::new(), 0, 0);
            for pair in sessions.iter().flat_map(|session| session.windows(2)) {
                if let Some(before) = last.insert(pair[0].object, pair[1].object) {
                    all += 1;
                    same += u32::from(before == pair[1].object);
                }
            }
            f64::from(same) / f64::from(all)
        };
        let (never, often, always) = (followed(0.0), followed(0.5), followed(1.0));
        assert!(never < 0.4 && always > 0.9, "seed 7: {never}, {always}");
        let expected = never + 0.5 * (always - never);
        assert!((often - expected).abs() < 0.15, "seed 7: {often}, not {expected}");
    }
}
