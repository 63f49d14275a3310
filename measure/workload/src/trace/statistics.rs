//! The statistics that papers give of their traces.
//!
//! Memory: about 20 bytes for each object, a few for each client, and a bounded amount for stack
//! distances and sizes.

use super::co_location::Revisits;
use super::stack_distance::StackDistances;
use crate::request::{Kind, Request};

/// Histogram steps per power of two.
const STEPS: u32 = 32;

/// Computes statistics from the requests of a trace.
#[derive(Default)]
pub struct Statistics {
    requests: u64,
    bytes: u64,
    html: u64,
    uncacheable: u64,
    /// Time of the earliest and the latest request.
    times_ms: Option<(u64, u64)>,
    objects: Vec<ObjectHistory>,
    known: u64,
    sites: u32,
    groups: u32,
    /// By client: site and group of its last request.
    clients: Vec<Option<(u32, u32)>>,
    last: Option<(u32, u32)>,
    same: Same,
    hits: u64,
    hit_bytes: u64,
    changes: u64,
    request_sizes: Histogram,
    distances: StackDistances,
    revisits: Revisits,
}

#[derive(Clone, Copy, Default)]
struct ObjectHistory {
    times: u32,
    version: u32,
    size: u64,
}

/// Numbers of requests that are close to the previous one.
#[derive(Clone, Copy, Default)]
struct Same {
    site: u64,
    group: u64,
    client_site: u64,
    client_group: u64,
}

/// The resulting statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Number of requests.
    pub requests: u64,
    /// Bytes of all requests.
    pub bytes: u64,
    /// Number of different objects.
    pub objects: u64,
    /// Bytes of all objects, each with its last requested size.
    pub object_bytes: u64,
    /// Number of objects requested once.
    pub one_timers: u64,
    /// Number of clients.
    pub clients: u64,
    /// Number of origin servers.
    pub sites: u64,
    /// Number of directories of origin servers.
    pub groups: u64,
    /// Seconds from the earliest to the latest request.
    pub seconds: f64,
    /// Number of requests for pages.
    pub html: u64,
    /// Number of requests whose responses must not be stored.
    pub uncacheable: u64,
    /// Number of requests that found a different version than the previous one.
    pub changes: u64,
    /// Hits of an unbounded cache.
    pub hits: u64,
    /// Bytes of these hits.
    pub hit_bytes: u64,
    /// Sizes of objects, in bytes, at the percentiles 5, 25, 50, 75, 90 and 99.
    pub object_sizes: [u64; PERCENTS.len()],
    /// Sizes of requests at the same percentiles, to 3%.
    pub request_sizes: [u64; PERCENTS.len()],
    /// The exponent of popularity by rank (Zipf): the least-squares slope through the logarithms of
    /// rank and requests, at ranks that are powers of 1.2, of objects requested at least twice.
    /// `None` with fewer than three such ranks.
    pub popularity_slope: Option<f64>,
    /// Requests for the site of the previous request.
    pub same_site: u64,
    /// Requests for the directory of the previous request.
    pub same_group: u64,
    /// Requests for the site of the same client's previous request.
    pub client_same_site: u64,
    /// Requests for the directory of the same client's previous request.
    pub client_same_group: u64,
    /// Mean share of the files that a client took from a site within ten minutes of a page which
    /// the next client with that page also takes; and the number of such pairs.
    pub revisited: Option<(f64, u64)>,
    /// Hit ratios of LRU caches by number of objects, a power of two.
    pub lru_hits: Vec<(u64, f64)>,
    /// The share of objects with which the hit ratios were measured.
    pub lru_sample: f64,
}

/// Percentiles at which sizes are reported.
pub const PERCENTS: [u32; 6] = [5, 25, 50, 75, 90, 99];

impl Statistics {
    /// Counts the next request.
    pub fn take(&mut self, request: &Request) {
        let Request { object, version, size, client, site, group, .. } = *request;
        self.requests += 1;
        self.bytes += size;
        self.html += u64::from(request.kind == Kind::Html);
        self.uncacheable += u64::from(request.uncacheable);
        let time = request.time_ms;
        let (first, last) = self.times_ms.unwrap_or((time, time));
        self.times_ms = Some((first.min(time), last.max(time)));
        self.request_sizes.take(size);
        self.distances.take(object);
        self.revisits.take(request);
        self.sites = self.sites.max(site + 1);
        self.groups = self.groups.max(group + 1);
        self.near(client, site, group);
        let object = object as usize;
        if object >= self.objects.len() {
            self.objects.resize(object + 1, ObjectHistory::default());
        }
        let asked = &mut self.objects[object];
        let is_known = asked.times > 0;
        let is_changed = is_known && asked.version != version;
        let is_hit = is_known && !is_changed && !request.uncacheable;
        self.known += u64::from(!is_known);
        self.changes += u64::from(is_changed);
        self.hits += u64::from(is_hit);
        self.hit_bytes += if is_hit { size } else { 0 };
        *asked = ObjectHistory { times: asked.times.saturating_add(1), version, size };
    }

    fn near(&mut self, client: u32, site: u32, group: u32) {
        let client = client as usize;
        if client >= self.clients.len() {
            self.clients.resize(client + 1, None);
        }
        let by_client = self.clients[client].replace((site, group));
        let before = self.last.replace((site, group));
        let same = &mut self.same;
        same.site += u64::from(before.is_some_and(|before| before.0 == site));
        same.group += u64::from(before.is_some_and(|before| before.1 == group));
        same.client_site += u64::from(by_client.is_some_and(|before| before.0 == site));
        same.client_group += u64::from(by_client.is_some_and(|before| before.1 == group));
    }

    /// Returns the statistics of all requests so far.
    pub fn summary(&self) -> Summary {
        let asked = || self.objects.iter().filter(|asked| asked.times > 0);
        let mut sizes: Vec<u64> = asked().map(|asked| asked.size).collect();
        sizes.sort_unstable();
        let size_at = |percent: u32| {
            let place = (sizes.len() as u64 * u64::from(percent)).div_ceil(100).max(1) - 1;
            sizes.get(place as usize).copied().unwrap_or(0)
        };
        let (first, last) = self.times_ms.unwrap_or_default();
        Summary {
            requests: self.requests,
            bytes: self.bytes,
            objects: self.known,
            object_bytes: sizes.iter().sum(),
            one_timers: asked().filter(|asked| asked.times == 1).count() as u64,
            clients: self.clients.iter().flatten().count() as u64,
            sites: u64::from(self.sites),
            groups: u64::from(self.groups),
            seconds: (last - first) as f64 / 1_000.0,
            html: self.html,
            uncacheable: self.uncacheable,
            changes: self.changes,
            hits: self.hits,
            hit_bytes: self.hit_bytes,
            object_sizes: PERCENTS.map(size_at),
            request_sizes: PERCENTS.map(|percent| self.request_sizes.at(percent)),
            popularity_slope: slope(asked().map(|asked| asked.times).collect()),
            same_site: self.same.site,
            same_group: self.same.group,
            client_same_site: self.same.client_site,
            client_same_group: self.same.client_group,
            revisited: self.revisits.share(),
            lru_hits: self.distances.hit_ratios(),
            lru_sample: self.distances.rate(),
        }
    }
}

/// Computes the exponent of Zipf's law: see [`Summary::popularity_slope`].
fn slope(mut counts: Vec<u32>) -> Option<f64> {
    counts.retain(|count| *count > 1);
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let (mut points, mut rank) = (Vec::new(), 1.0_f64);
    while let Some(count) = counts.get(rank as usize - 1) {
        points.push((rank.floor().ln(), f64::from(*count).ln()));
        rank = (rank * 1.2).max(rank.floor() + 1.0);
    }
    if points.len() < 3 {
        return None;
    }
    let len = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / len;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / len;
    let covariance: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    Some(-covariance / variance)
}

/// Counts sizes in steps of a 32nd of a power of two.
#[derive(Default)]
struct Histogram {
    counts: Vec<u64>,
    all: u64,
}

impl Histogram {
    fn take(&mut self, size: u64) {
        let place = Histogram::place(size);
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
        self.all += 1;
    }

    /// Returns the place of a size. Sizes below [`STEPS`] have places of their own; each further
    /// power of two has as many places.
    fn place(size: u64) -> usize {
        let power = size.max(1).ilog2();
        let shift = power.saturating_sub(STEPS.ilog2());
        (u64::from(shift * STEPS) + (size >> shift)) as usize
    }

    /// Returns the largest size of a place.
    fn largest(place: usize) -> u64 {
        let (place, steps) = (place as u64, u64::from(STEPS));
        if place < 2 * steps {
            return place;
        }
        let shift = place / steps - 1;
        // The last place ends with the largest number.
        ((place - shift * steps + 1) << shift).wrapping_sub(1)
    }

    fn at(&self, percent: u32) -> u64 {
        let wanted = (self.all * u64::from(percent)).div_ceil(100).max(1);
        let mut sum = 0;
        let place = self.counts.iter().position(|count| {
            sum += count;
            sum >= wanted
        });
        place.map_or(0, Histogram::largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(object: u32, version: u32, size: u64) -> Request {
        Request { object, version, size, site: object / 2, group: object, ..Request::default() }
    }

    fn summary(requests: &[Request]) -> Summary {
        let mut statistics = Statistics::default();
        requests.iter().for_each(|request| statistics.take(request));
        statistics.summary()
    }

    #[test]
    fn requests_objects_and_hits_are_counted() {
        let html = Request { kind: Kind::Html, time_ms: 1_500, ..request(2, 0, 7) };
        let secret = Request { uncacheable: true, client: 1, ..request(1, 0, 20) };
        let requests = [
            request(0, 0, 10),
            request(1, 0, 20),
            request(0, 0, 10),
            request(0, 1, 12),
            secret,
            html,
        ];
        let found = summary(&requests);
        let expected = Summary {
            requests: 6,
            bytes: 79,
            objects: 3,
            object_bytes: 39,
            one_timers: 1,
            clients: 2,
            sites: 2,
            groups: 3,
            seconds: 1.5,
            html: 1,
            uncacheable: 1,
            changes: 1,
            hits: 1,
            hit_bytes: 10,
            object_sizes: [7, 7, 12, 20, 20, 20],
            request_sizes: [7, 10, 10, 20, 20, 20],
            popularity_slope: None,
            same_site: 4,
            same_group: 1,
            client_same_site: 3,
            client_same_group: 1,
            revisited: None,
            lru_hits: vec![(1, 1.0 / 6.0), (2, 0.5)],
            lru_sample: 1.0,
        };
        assert_eq!(found, expected);
        assert_eq!(summary(&[]).object_sizes, [0; 6]);
    }

    #[test]
    fn places_of_sizes_are_in_order_and_narrow() {
        for size in (0..5_000).chain([1 << 20, (1 << 20) + 1, u64::MAX / 2, u64::MAX - 1]) {
            let largest = Histogram::largest(Histogram::place(size));
            assert!(largest >= size && largest - size <= size / 32, "{size}: {largest}");
            assert!(Histogram::place(size + 1) >= Histogram::place(size));
        }
    }

    #[test]
    fn the_slope_is_that_of_the_law() {
        for exponent in [0.6, 1.0] {
            let times = |rank: f64| (1e7 * rank.powf(-exponent)) as u32;
            let counts = (1..=20_000).map(|rank| times(f64::from(rank))).collect();
            let found = slope(counts).unwrap();
            assert!((found - exponent).abs() < 0.01, "{found}, not {exponent}");
        }
    }
}
