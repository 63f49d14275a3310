//! Locality of references as UCFS measures it: of the files that one client took with a page, the
//! share that another client takes with it (C14; the paper's section 2.6.1).
//!
//! All files of a site that a client requests within the window after a page, including the page,
//! form a *companionship*. When another client requests the page, the share of them that it
//! requests within the same window is counted, once for each such pair. Only files of the page's
//! site count, because the clients of some logs are caches of many people, who do many things at a
//! time.
//!
//! Memory: a few bytes for each file of the last companionship of each page. Requests must come
//! nearly in order of time.

use std::collections::{HashMap, VecDeque};

use crate::request::{Kind, Request};

/// The paper's window: "less than 10 minutes".
pub const WINDOW_MS: u64 = 600_000;

/// Number of pages per client and site that are watched at a time; only crawlers request more.
const AT_A_TIME: usize = 16;

/// Measures the requests of a trace.
pub struct Revisits {
    window_ms: u64,
    /// Open companionships by client and site.
    open: HashMap<(u32, u32), Vec<Open>>,
    /// Start time and place of each open companionship.
    begun: VecDeque<(u64, (u32, u32))>,
    /// By page: the last complete companionship and its client.
    last: HashMap<u32, Collected>,
    pairs: u64,
    shares: f64,
}

struct Open {
    page: u32,
    files: Vec<u32>,
    /// Files of the previous client, if it was a different one.
    before: Option<Box<[u32]>>,
}

struct Collected {
    client: u32,
    files: Box<[u32]>,
}

impl Default for Revisits {
    fn default() -> Revisits {
        Revisits::within(WINDOW_MS)
    }
}

impl Revisits {
    /// Returns a measure that counts files within `window_ms` milliseconds of the page.
    pub fn within(window_ms: u64) -> Revisits {
        Revisits {
            window_ms,
            open: HashMap::new(),
            begun: VecDeque::new(),
            last: HashMap::new(),
            pairs: 0,
            shares: 0.0,
        }
    }

    /// Counts the next request.
    pub fn take(&mut self, request: &Request) {
        let Request { time_ms, client, site, object, kind, .. } = *request;
        while let Some((since_ms, place)) = self.begun.front().copied() {
            if since_ms.saturating_add(self.window_ms) > time_ms {
                break;
            }
            self.begun.pop_front();
            self.close(place);
        }
        let place = (client, site);
        let watched = self.open.get_mut(&place);
        let mut is_watched = false;
        let mut len = 0;
        for open in watched.into_iter().flatten() {
            is_watched |= open.page == object;
            len += 1;
            if !open.files.contains(&object) {
                open.files.push(object);
            }
        }
        if kind == Kind::Html && !is_watched && len < AT_A_TIME {
            let before = self.last.get(&object).filter(|last| last.client != client);
            let before = before.map(|last| last.files.clone());
            let open = Open { page: object, files: vec![object], before };
            self.open.entry(place).or_default().push(open);
            self.begun.push_back((time_ms, place));
        }
    }

    /// Completes the oldest companionship of a client and a site.
    fn close(&mut self, place: (u32, u32)) {
        let Some(all) = self.open.get_mut(&place) else { return };
        let Open { page, files, before, .. } = all.remove(0);
        if all.is_empty() {
            self.open.remove(&place);
        }
        if let Some(before) = before {
            let again = before.iter().filter(|file| files.contains(file)).count();
            self.pairs += 1;
            self.shares += again as f64 / before.len() as f64;
        }
        self.last.insert(page, Collected { client: place.0, files: files.into() });
    }

    /// Returns the mean share, from 0 to 1, and the number of pairs; open companionships do not
    /// count. `None` without a pair.
    pub fn share(&self) -> Option<(f64, u64)> {
        (self.pairs > 0).then(|| (self.shares / self.pairs as f64, self.pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(minute: u64, client: u32, object: u32) -> Request {
        let kind = if object < 10 { Kind::Html } else { Kind::Other };
        let (time_ms, site) = (minute * 60_000, object % 2);
        Request { time_ms, client, site, object, kind, ..Request::default() }
    }

    fn share(requests: &[(u64, u32, u32)]) -> Option<(f64, u64)> {
        let mut revisits = Revisits::default();
        for (minute, client, object) in requests {
            revisits.take(&request(*minute, *client, *object));
        }
        revisits.take(&request(10_000, 99, 11));
        revisits.share()
    }

    #[test]
    fn files_of_the_site_within_ten_minutes_are_compared() {
        // Page 2 with 12, 14, 16; 13 is of another site, 18 is too late.
        let first = [(0, 1, 2), (1, 1, 12), (2, 1, 14), (3, 1, 13), (9, 1, 16), (11, 1, 18)];
        assert_eq!(share(&first), None);
        let again = |second: &[(u64, u32, u32)]| share(&[&first[..], second].concat());
        assert_eq!(again(&[(20, 2, 2), (21, 2, 12)]), Some((0.5, 1)));
        assert_eq!(again(&[(20, 2, 2), (21, 3, 12)]), Some((0.25, 1)), "by another client");
        assert_eq!(again(&[(20, 2, 2), (31, 2, 12)]), Some((0.25, 1)), "too late");
        assert_eq!(again(&[(20, 1, 2), (21, 1, 12)]), None, "the same client");
        let third = [(20, 2, 2), (21, 2, 12), (40, 3, 2), (41, 3, 12)];
        assert_eq!(again(&third), Some((0.75, 2)), "each with the one before");
    }

    #[test]
    fn a_visit_that_is_not_over_is_compared_with_nothing() {
        assert_eq!(share(&[(0, 1, 2), (0, 1, 12), (5, 2, 2), (6, 2, 12)]), None);
    }
}
