//! Pages and their embedded objects, modelled on the web: which page is visited next, which objects
//! it embeds, and how large they are.
//!
//! Most visits are to pages visited before, more likely the more recent their last visit, so that
//! popularity drifts. Objects are numbers; a page and its embedded objects have consecutive
//! numbers. The same seed always gives the same sequence.

/// Largest number of embedded objects in a page; uniformly distributed from 0.
const EMBEDDED_MAX: u32 = 17;
/// Share of visits to a page that was visited before.
const AGAIN: f64 = 0.967;
/// Largest number of other pages visited since the last visit of a page. The share of visits with
/// less than `since` is `(since / MOST_SINCE)^RECENCY`.
const MOST_SINCE: f64 = 25_000.0;
const RECENCY: f64 = 0.435;
/// Number of object numbers reserved for each page.
const PER_PAGE: u64 = 32;
/// Largest body in bytes.
pub const BODY_MAX: usize = 1 << 20;

/// The sequence of visited pages.
pub struct Visits {
    random: fastrand::Rng,
    /// Pages by their last visit, most recent last.
    stack: Vec<u32>,
    pages: u32,
}

impl Visits {
    /// Creates the sequence for a seed, always the same for one seed.
    pub fn with_seed(seed: u64) -> Visits {
        Visits { random: fastrand::Rng::with_seed(seed), stack: Vec::new(), pages: 0 }
    }

    /// Returns the next visited page.
    #[expect(clippy::should_implement_trait, reason = "it never ends, and is nobody's iterator")]
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

/// Returns the object numbers of a page, the page itself first; always the same for one page.
pub fn objects(page: u32) -> std::ops::RangeInclusive<u64> {
    let embedded = fastrand::Rng::with_seed(u64::from(page) ^ 0x5bd1_e995).u32(..=EMBEDDED_MAX);
    let first = u64::from(page) * PER_PAGE;
    first..=first + u64::from(embedded)
}

/// Returns the page that an object is, or is embedded in.
pub fn page_of(object: u64) -> u64 {
    object / PER_PAGE
}

/// Returns whether an object is a page rather than embedded in one.
pub fn is_page(object: u64) -> bool {
    object.is_multiple_of(PER_PAGE)
}

/// Returns the length of an object's body in bytes: lognormal, with a median of 3.3 KB and a mean
/// of 12 KB.
pub fn body_len(object: u64) -> usize {
    let mut random = fastrand::Rng::with_seed(object);
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    let normal = radius * (std::f64::consts::TAU * random.f64()).cos();
    ((3300.0 * (1.61 * normal).exp()) as usize).clamp(100, BODY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_visited_again_the_sooner_the_likelier() {
        let mut visits = Visits::with_seed(7);
        let pages: Vec<u32> = (0..20_000).map(|_| visits.next()).collect();
        // The share of windows whose last page also occurs earlier in the window.
        let again = |most: usize| {
            let windows = pages[10_000..].windows(most + 1);
            let count = windows.len() as f64;
            windows.filter(|pages| pages[..most].contains(&pages[most])).count() as f64 / count
        };
        assert!((0.02..0.05).contains(&again(10)), "{}", again(10));
        assert!((0.07..0.12).contains(&again(100)), "{}", again(100));
    }

    #[test]
    fn sizes_are_those_of_the_web() {
        let mut sizes: Vec<usize> = (0..20_000).map(body_len).collect();
        sizes.sort_unstable();
        let mean = sizes.iter().sum::<usize>() as f64 / 20_000.0;
        assert!((3_000..3_600).contains(&sizes[10_000]), "a median of {}", sizes[10_000]);
        assert!((10_500.0..13_500.0).contains(&mean), "a mean of {mean}");
        assert!(sizes[19_999] <= BODY_MAX);
    }

    #[test]
    fn the_objects_of_a_page_are_its_own() {
        for page in 0..1_000 {
            let objects = objects(page);
            assert!(is_page(*objects.start()) && objects.clone().count() <= 18);
            assert!(objects.clone().all(|object| page_of(object) == u64::from(page)));
            assert!(objects.skip(1).all(|object| !is_page(object)));
        }
    }
}
