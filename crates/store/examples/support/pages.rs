//! Visits to pages: which page is next, what is embedded in it, and under which keys that is
//! stored.

use store::{Key, Locality};

/// Objects embedded in a page: as likely each, from 0 to this many.
const EMBEDDED_MAX: u32 = 17;
/// Share of visits to a page that was visited before.
const AGAIN: f64 = 0.967;
/// So many other pages were visited since then at most; the share of visits with less than `since`
/// is `(since / MOST_SINCE)^RECENCY`.
const MOST_SINCE: f64 = 25_000.0;
const RECENCY: f64 = 0.435;
/// Objects that a page may have: their numbers.
const PER_PAGE: usize = 32;

/// What the engine is told of what belongs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// A page and what is embedded in it share a directory.
    Pages,
    /// Nothing: every object has a directory of its own. They are asked for as before.
    Random,
}

impl Keys {
    /// The one of this name.
    pub fn from_name(name: &str) -> Option<Keys> {
        match name {
            "pages" => Some(Keys::Pages),
            "random" => Some(Keys::Random),
            _ => None,
        }
    }

    /// The key of an object.
    pub fn key(self, number: usize) -> Key {
        let page = number / PER_PAGE;
        let group = match self {
            Keys::Pages => page,
            Keys::Random => number,
        };
        let url = format!("f http://site{}.example/{page}/object-{number}", page % 1000);
        let locality = Locality { site: group as u64 % 1000, group: group as u64 };
        Key::new(url.into(), locality).unwrap()
    }
}

/// Which page is visited next.
pub struct Visits {
    random: fastrand::Rng,
    /// Pages by their last visit, the newest last.
    stack: Vec<u32>,
    pages: u32,
}

impl Visits {
    /// The same visits every time for a seed.
    pub fn with_seed(seed: u64) -> Visits {
        Visits { random: fastrand::Rng::with_seed(seed), stack: Vec::new(), pages: 0 }
    }

    /// Visits a page.
    pub fn next(&mut self) -> u32 {
        let since = (MOST_SINCE * self.random.f64().powf(1.0 / RECENCY)) as usize;
        let again = self.random.f64() < AGAIN && since < self.stack.len();
        let page = if again {
            self.stack.remove(self.stack.len() - 1 - since)
        } else {
            self.pages += 1;
            self.pages
        };
        self.stack.push(page);
        if self.stack.len() as f64 > MOST_SINCE {
            self.stack.remove(0);
        }
        page
    }
}

/// Numbers of the objects of a page, itself first: the same for a page every time.
pub fn objects(page: u32) -> std::ops::Range<usize> {
    let random = fastrand::Rng::with_seed(u64::from(page) ^ 0x5bd1_e995).u32(..=EMBEDDED_MAX);
    let first = page as usize * PER_PAGE;
    first..first + 1 + random as usize
}

/// Whether an object is a page rather than embedded in one.
pub fn is_page(number: usize) -> bool {
    number.is_multiple_of(PER_PAGE)
}
