//! A small seeded workload in the likeness of a proxy's: many clients who visit pages, pages with
//! embedded objects of the same server, servers and pages of very different popularity, most
//! objects asked for once, sizes lognormal.
//!
//! It is good enough to exercise a space manager, and not calibrated against any trace. Requests of
//! several clients are interleaved, so that the objects of a page are near each other in time and
//! not next to each other.
//!
//! It promises: equal parameters give equal requests, on every machine.

use crate::workload::contents::mix;
use crate::workload::request::Request;

/// What a workload is made with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Everything random follows from it.
    pub seed: u64,
    /// Origin servers.
    pub servers: u32,
    /// Pages that are visited again and again.
    pub pages: u32,
    /// Clients that are on a page at a time.
    pub clients: u32,
    /// Exponent of the popularity of pages and of servers by rank (Zipf), in hundredths.
    pub zipf_percent: u32,
    /// Percent of visits that go to a page that nobody visits twice.
    pub one_time_visits_percent: u32,
    /// The largest number of objects embedded in a page; each number from 0 is as likely.
    pub embedded_max: u32,
    /// Of ten thousand requests for an object, how many find a new version.
    pub changes_per_10_000: u32,
    /// The median size of an object in bytes.
    pub median_size: u64,
    /// The mean size of an object in bytes, more than the median.
    pub mean_size: u64,
    /// No object is larger, in bytes.
    pub largest: u64,
}

impl Parameters {
    /// For a run of so many requests: about the mix of operations that the paper states (32% memory
    /// hits, 4% disk hits, 64% misses, objects of 5 KB) with its caches in proportion (512 MiB and
    /// 2 GiB for a million requests). More objects than there are asked for once, 85%.
    pub fn new(seed: u64, requests: u64) -> Parameters {
        let pages = (requests / 12).clamp(10, 10_000_000) as u32;
        Parameters {
            seed,
            servers: (pages / 8).max(4),
            pages,
            clients: 32,
            zipf_percent: 90,
            one_time_visits_percent: 42,
            embedded_max: 8,
            changes_per_10_000: 50,
            median_size: 2_500,
            mean_size: 5_400,
            largest: 16 << 20,
        }
    }
}

/// The requests of a workload: an endless iterator.
pub struct Workload {
    parameters: Parameters,
    random: fastrand::Rng,
    pages: Zipf,
    servers: Zipf,
    /// Lognormal: mean and deviation of the logarithm of the size.
    log_size: (f64, f64),
    /// What each client still asks for.
    clients: Vec<Visit>,
    /// First object and server of each page that was visited before and may be again.
    known: Vec<Option<Page>>,
    next_object: u32,
    /// By object: the current version.
    versions: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Page {
    server: u32,
    first: u32,
    objects: u32,
}

/// Objects of a page that a client has not asked for yet.
#[derive(Clone, Copy)]
struct Visit {
    server: u32,
    next: u32,
    end: u32,
}

impl Workload {
    /// Begins.
    pub fn new(parameters: Parameters) -> Workload {
        let exponent = f64::from(parameters.zipf_percent) / 100.0;
        let (median, mean) = (parameters.median_size as f64, parameters.mean_size as f64);
        let deviation = (2.0 * (mean / median).max(1.0).ln()).sqrt();
        let idle = Visit { server: 0, next: 0, end: 0 };
        Workload {
            random: fastrand::Rng::with_seed(parameters.seed),
            pages: Zipf::new(parameters.pages.max(1), exponent),
            servers: Zipf::new(parameters.servers.max(1), exponent),
            log_size: (median.max(1.0).ln(), deviation),
            clients: vec![idle; parameters.clients.max(1) as usize],
            known: vec![None; parameters.pages.max(1) as usize],
            next_object: 0,
            versions: Vec::new(),
            parameters,
        }
    }

    /// Opens a page for a client.
    fn visit(&mut self) -> Visit {
        let once = self.random.u32(0..100) < self.parameters.one_time_visits_percent;
        let page = if once {
            self.new_page()
        } else {
            let rank = self.pages.draw(self.random.f64());
            let page = self.known[rank as usize].unwrap_or_else(|| self.new_page());
            self.known[rank as usize] = Some(page);
            page
        };
        Visit { server: page.server, next: page.first, end: page.first + page.objects }
    }

    fn new_page(&mut self) -> Page {
        let objects = 1 + self.random.u32(0..=self.parameters.embedded_max);
        let server = self.servers.draw(self.random.f64());
        let first = self.next_object;
        self.next_object += objects;
        self.versions.resize(self.next_object as usize, 0);
        Page { server, first, objects }
    }

    /// The size of an object follows from its number: no two requests disagree.
    fn size(&self, object: u32) -> u64 {
        let mut dice = mix(self.parameters.seed ^ mix(u64::from(object)));
        let mut uniform = || {
            dice = mix(dice);
            // Never 0, whose logarithm is none.
            ((dice >> 11) + 1) as f64 / (1_u64 << 53) as f64
        };
        // Box and Muller's way to a normal variable.
        let normal = (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
        let (mean, deviation) = self.log_size;
        ((mean + deviation * normal).exp() as u64).clamp(1, self.parameters.largest)
    }
}

impl Iterator for Workload {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let client = self.random.usize(0..self.clients.len());
        if self.clients[client].next == self.clients[client].end {
            self.clients[client] = self.visit();
        }
        let visit = &mut self.clients[client];
        let (server, object) = (visit.server, visit.next);
        visit.next += 1;
        let changed = self.random.u32(0..10_000) < self.parameters.changes_per_10_000;
        let version = &mut self.versions[object as usize];
        *version += u32::from(changed);
        let version = *version;
        let (client, size) = (client as u32, self.size(object));
        let (site, group) = (server, server);
        Some(Request { client, site, group, object, version, size, ..Request::default() })
    }
}

/// Ranks drawn by Zipf's law.
struct Zipf {
    /// The share of all ranks up to each.
    cumulative: Vec<f64>,
}

impl Zipf {
    fn new(ranks: u32, exponent: f64) -> Zipf {
        let mut sum = 0.0;
        let weights = (1..=ranks).map(|rank| f64::from(rank).powf(-exponent));
        let mut cumulative: Vec<f64> = weights
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect();
        cumulative.iter_mut().for_each(|share| *share /= sum);
        Zipf { cumulative }
    }

    /// The rank, from 0, of a uniform variable within 0 and 1.
    fn draw(&self, uniform: f64) -> u32 {
        let rank = self.cumulative.partition_point(|share| *share <= uniform);
        rank.min(self.cumulative.len() - 1) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const REQUESTS: usize = 100_000;

    fn requests(seed: u64) -> Vec<Request> {
        Workload::new(Parameters::new(seed, REQUESTS as u64)).take(REQUESTS).collect()
    }

    #[test]
    fn a_seed_says_everything() {
        assert_eq!(requests(3), requests(3));
        assert_ne!(requests(3), requests(4));
    }

    #[test]
    fn an_object_stays_with_its_server_and_its_versions_rise() {
        let mut seen = HashMap::new();
        for request in requests(1) {
            let before = seen.insert(request.object, request).unwrap_or(request);
            assert_eq!((before.site, before.size), (request.site, request.size));
            assert!(before.version <= request.version);
        }
        let largest = seen.keys().max().copied().unwrap_or(0) as usize;
        assert!(largest < seen.len() * 2, "objects are numbered densely");
    }

    #[test]
    fn most_objects_are_asked_for_once_and_sizes_are_as_stated() {
        let mut times = HashMap::new();
        let mut sizes = Vec::new();
        for request in requests(2) {
            let count = times.entry(request.object).or_insert(0);
            *count += 1;
            if *count == 1 {
                sizes.push(request.size);
            }
        }
        let once = times.values().filter(|count| **count == 1).count();
        let share = once as f64 / times.len() as f64;
        assert!((0.7..0.92).contains(&share), "{share} of the objects are asked for once");
        sizes.sort_unstable();
        let median = sizes[sizes.len() / 2] as f64;
        assert!((2_300.0..2_700.0).contains(&median), "median {median}");
        let mean = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
        assert!((5_000.0..5_800.0).contains(&mean), "mean {mean}");
    }

    #[test]
    fn objects_of_a_server_come_together() {
        // The most popular servers are asked all the time; what is meant are the others.
        let mut requests = requests(5);
        requests.retain(|request| request.site > 20);
        // Of requests within 100 of each other, how many are for one server, against far ones?
        let pairs = |distance: usize| {
            let near = requests.windows(distance + 1);
            near.filter(|window| window[0].site == window[distance].site).count()
        };
        let near: usize = (1..100).map(pairs).sum();
        let far: usize = (10_000..10_099).map(pairs).sum();
        assert!(near > 2 * far, "{near} near, {far} far");
    }
}
