//! PolyMix-3 and -4, the workloads of Web Polygraph, as traces.
//!
//! Taken from their published files: content types with their sizes, cachability, life cycles and
//! embedded images, the working set with its hot part, recurrence, and in PolyMix-4 the choice of
//! small objects among neighbours and the rare methods. Phases are omitted: this is the plateau at
//! the peak rate, with the working set frozen at its cap; the first requests fill it. The robots'
//! use of connections, their validations and their reloads are not part of a trace.

use super::calibration::Figure;
use super::distributions::SplitMix;
use super::presets::Published;
use crate::request::{Kind, Method, Request};

const KIB: f64 = 1_024.0;
const DAY_MS: f64 = 86_400_000.0;

/// Parameters of a PolyMix workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolyMix {
    /// Name on the command line.
    pub name: &'static str,
    /// One line for the help.
    pub about: &'static str,
    /// Requests per second of all robots.
    pub peak: u32,
    /// Objects of the working set per request per second.
    pub working_set_per_peak: u32,
    /// Probability that an object was requested before.
    pub recurrence: f64,
    /// Probability that the smallest of nine neighbours replaces an object.
    pub prefer_small: f64,
    /// Shares of POST and of HEAD.
    pub rare: [f64; 2],
    /// Objects of the working set, independent of the peak; `None`: in proportion to the peak.
    pub frozen_at: Option<u32>,
}

impl PolyMix {
    /// Both workloads.
    pub const ALL: [PolyMix; 2] = [
        PolyMix {
            name: "polymix-3",
            about: "Web Polygraph's PolyMix-3, the plateau at 100 requests a second",
            peak: 100,
            working_set_per_peak: 4_860,
            recurrence: 0.55 / 0.76,
            prefer_small: 0.0,
            rare: [0.0, 0.0],
            frozen_at: None,
        },
        PolyMix {
            name: "polymix-4",
            about: "Web Polygraph's PolyMix-4, the plateau at 100 requests a second",
            peak: 100,
            working_set_per_peak: 5_184,
            recurrence: 0.55 / 0.80,
            prefer_small: 0.9,
            rare: [0.015, 0.001],
            frozen_at: None,
        },
    ];

    /// Returns whether some requests and responses are aborted, as in PolyMix-4.
    pub fn has_aborts(&self) -> bool {
        self.prefer_small > 0.0
    }

    /// Returns the number of objects in the working set.
    pub fn working_set(&self) -> u32 {
        self.frozen_at.unwrap_or(self.working_set_per_peak * self.peak).max(100)
    }

    /// Returns the number of requests of one plateau of four hours.
    pub fn requests(&self) -> u64 {
        u64::from(self.peak) * 4 * 3_600
    }

    /// Returns the workload at a lower rate, with the working set in proportion.
    #[must_use]
    pub fn scaled(self, divisor: u32) -> PolyMix {
        PolyMix { peak: (self.peak / divisor.max(1)).max(1), ..self }
    }

    /// Returns the published figures.
    pub fn published(&self) -> &'static [Published] {
        const PUBLISHED: [Published; 1] = [Published {
            figure: Figure::HitPercent,
            value: 55.0,
            source: "PolyMix-3, -4: the hit ratio they offer once the working set is full",
        }];
        &PUBLISHED
    }
}

/// Content type of an object; follows from its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// An image, embedded in a page.
    Image,
    /// A page.
    Html,
    /// A large file.
    Download,
    /// Any other content.
    #[default]
    Other,
}

/// Properties of an object that a request does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Details {
    /// Content type of the object.
    pub content: Content,
    /// Milliseconds from one modification to the next.
    pub cycle_ms: f64,
}

/// Properties of content types: cachable share, variable share of the life cycle, and the
/// distributions of sizes and life cycles.
impl Content {
    fn cachable(self) -> f64 {
        match self {
            Content::Image => 0.80,
            Content::Html => 0.90,
            Content::Download => 0.95,
            Content::Other => 0.72,
        }
    }

    fn size(self, dice: &mut SplitMix) -> u64 {
        let kilobytes = match self {
            Content::Image => 4.5 * dice.exponential(),
            Content::Html => 8.5 * dice.exponential(),
            Content::Download => (5.357 + 0.833 * dice.normal()).exp(),
            Content::Other => (3.145 + 0.385 * dice.normal()).exp(),
        };
        (kilobytes * KIB).clamp(1.0, 100.0 * KIB * KIB) as u64
    }

    /// Draws the days from one modification to the next.
    fn cycle_days(self, dice: &mut SplitMix) -> f64 {
        let lognormal = |mean: f64, deviation: f64, normal: f64| {
            let variance = (1.0 + (deviation / mean).powi(2)).ln();
            (mean.ln() - variance / 2.0 + variance.sqrt() * normal).exp()
        };
        match self {
            Content::Image => lognormal(30.0, 7.0, dice.normal()),
            Content::Html => lognormal(7.0, 1.0, dice.normal()),
            Content::Download => lognormal(182.5, 30.0, dice.normal()),
            Content::Other => 1.0 + 364.0 * dice.uniform(),
        }
    }
}

/// An object that is requested directly, with the images embedded in it.
#[derive(Clone, Copy)]
struct TopLevelObject {
    first: u32,
    images: u8,
    content: Content,
}

/// The requests of the robots: an endless iterator.
pub struct PolyMixRequests {
    what: PolyMix,
    seed: u64,
    dice: SplitMix,
    now_ms: f64,
    requests: u64,
    /// All objects ever requested directly; the working set is the end of this list.
    directs: Vec<TopLevelObject>,
    /// Start of the working set.
    oldest: usize,
    next_object: u32,
    /// Images that robots have yet to request.
    pages: Vec<Robot>,
    details: Details,
}

#[derive(Clone, Copy)]
struct Robot {
    direct: u32,
    next: u8,
}

/// Each robot makes 0.4 requests a second.
const ROBOTS_PER_PEAK: f64 = 1.0 / 0.4;

/// Number of pages that the robots load at a time.
const LOADING: usize = 16;

impl PolyMixRequests {
    /// Returns the requests from the beginning, with an empty working set.
    pub fn new(what: PolyMix, seed: u64) -> PolyMixRequests {
        PolyMixRequests {
            what,
            seed,
            dice: SplitMix::new(seed),
            now_ms: 0.0,
            requests: 0,
            directs: Vec::new(),
            oldest: 0,
            next_object: 0,
            pages: Vec::new(),
            details: Details::default(),
        }
    }

    /// Sets the recurrence from now on. A cache is filled with a lower one than that of the
    /// plateau.
    pub fn set_recurrence(&mut self, recurrence: f64) {
        self.what.recurrence = recurrence;
    }

    /// Returns the details of the last request's object.
    pub fn details(&self) -> Details {
        self.details
    }

    fn new_direct(&mut self) -> usize {
        // HTML, download, other: 15, 0.5 and 19.5 of 35; images come embedded.
        let content = match self.dice.uniform() * 35.0 {
            share if share <= 15.0 => Content::Html,
            share if share <= 15.5 => Content::Download,
            _ => Content::Other,
        };
        let images = if content == Content::Html { self.dice.zipf(13) as u8 } else { 0 };
        self.directs.push(TopLevelObject { first: self.next_object, images, content });
        self.next_object += 1 + u32::from(images);
        let newest = self.next_object;
        let set = self.what.working_set();
        while newest - self.directs[self.oldest].first > set {
            self.oldest += 1;
        }
        self.directs.len() - 1
    }

    /// Returns whether a direct object, by its number, may be cached.
    fn is_cachable(&self, object: u32, content: Content) -> bool {
        SplitMix::of(self.seed ^ 1, u64::from(object)).chance(content.cachable())
    }

    fn size(&self, object: u32, content: Content) -> u64 {
        content.size(&mut SplitMix::of(self.seed ^ 2, u64::from(object)))
    }

    /// Draws a direct object of the working set. 10% of the draws are from the hot hundredth, whose
    /// place moves once through the set in as many requests as it has objects.
    fn known(&mut self) -> usize {
        let len = (self.directs.len() - self.oldest) as u64;
        let hot = (len / 100).max(1);
        let place = match self.dice.chance(0.1) {
            true => (self.requests % len + self.dice.below(hot)) % len,
            false => self.dice.below(len),
        };
        let found = self.oldest + place as usize;
        if !self.dice.chance(self.what.prefer_small) {
            return found;
        }
        // Among objects of the same kind, so that the shares of content types and of cachable
        // objects stay.
        let like = |at: usize| {
            let TopLevelObject { first, content, .. } = self.directs[at];
            (content, self.is_cachable(first, content))
        };
        let near = found.saturating_sub(4).max(self.oldest)..(found + 5).min(self.directs.len());
        let alike = near.filter(|at| like(*at) == like(found));
        let size = |at: &usize| self.size(self.directs[*at].first, self.directs[*at].content);
        alike.min_by_key(size).unwrap_or(found)
    }

    /// Draws the next object to be requested directly.
    fn direct(&mut self) -> usize {
        let is_empty = self.oldest == self.directs.len();
        match is_empty || !self.dice.chance(self.what.recurrence) {
            true => self.new_direct(),
            false => self.known(),
        }
    }
}

impl Iterator for PolyMixRequests {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        self.now_ms += self.dice.exponential() * 1_000.0 / f64::from(self.what.peak);
        self.requests += 1;
        let place = self.dice.below(LOADING as u64) as usize;
        while self.pages.len() <= place {
            self.pages.push(Robot { direct: u32::MAX, next: u8::MAX });
        }
        let Robot { direct, next } = self.pages[place];
        let goes_on = self.directs.get(direct as usize).is_some_and(|page| next <= page.images);
        let (direct, part) = if goes_on { (direct as usize, next) } else { (self.direct(), 0) };
        self.pages[place] = Robot { direct: direct as u32, next: part.saturating_add(1) };
        let TopLevelObject { first, content, .. } = self.directs[direct];
        let object = first + u32::from(part);
        let content = if part == 0 { content } else { Content::Image };
        let mut life = SplitMix::of(self.seed ^ 3, u64::from(object));
        let cycle_ms = content.cycle_days(&mut life) * DAY_MS;
        self.details = Details { content, cycle_ms };
        let version = (self.now_ms / cycle_ms + life.uniform()) as u32;
        let [post, head] = self.what.rare;
        let method = match self.dice.uniform() {
            share if share <= post => Method::Post,
            share if share <= post + head => Method::Head,
            _ => Method::Get,
        };
        let robots = (f64::from(self.what.peak) * ROBOTS_PER_PEAK).max(1.0) as u64;
        Some(Request {
            time_ms: self.now_ms as u64,
            size: self.size(object, content),
            client: self.dice.below(robots) as u32,
            // Polygraph has one server for every 500 requests a second, and object names carry no
            // information. Pages and their images are neighbours here, as on a real server.
            site: 0,
            group: direct as u32,
            object,
            version,
            status: 200,
            method,
            kind: if content == Content::Html { Kind::Html } else { Kind::Other },
            uncacheable: method != Method::Get || !self.is_cachable(object, content),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Returns figures of the later half: hit ratio of all requests, mean size in KiB, mean size of
    /// hits in KiB, and the shares of HTML and of cachable responses.
    fn run(polymix: PolyMix) -> [f64; 5] {
        let mut seen = HashSet::new();
        let (mut hits, mut requests, mut bytes, mut hit_bytes) = (0.0_f64, 0.0, 0.0, 0.0);
        let (mut html, mut cachable) = (0.0, 0.0);
        for (number, request) in PolyMixRequests::new(polymix, 1).take(120_000).enumerate() {
            let is_new = !request.uncacheable && seen.insert(request.object);
            if number < 60_000 {
                continue;
            }
            let is_hit = !request.uncacheable && !is_new;
            requests += 1.0;
            hits += f64::from(u8::from(is_hit));
            bytes += request.size as f64;
            hit_bytes += if is_hit { request.size as f64 } else { 0.0 };
            html += f64::from(u8::from(request.kind == Kind::Html));
            cachable += f64::from(u8::from(!request.uncacheable));
        }
        let [hit, html, cachable] = [hits, html, cachable].map(|count| count / requests);
        [hit, bytes / requests / KIB, hit_bytes / hits / KIB, html, cachable]
    }

    /// A tenth of the requests for known objects is drawn from a hundredth of the set, whose place
    /// drifts; the others from all of it.
    #[test]
    fn a_hundredth_is_hot() {
        let mix = PolyMix { frozen_at: Some(20_000), ..PolyMix::ALL[0] };
        let mut requests = PolyMixRequests::new(mix, 1);
        let taken = requests.by_ref().take(150_000).count();
        assert_eq!(taken, 150_000);
        const DRAWS: u32 = 50_000;
        let hits = (0..DRAWS).filter(|_| {
            let len = (requests.directs.len() - requests.oldest) as u64;
            let place = (requests.known() - requests.oldest) as u64;
            let behind = (place + len - requests.requests % len) % len;
            requests.requests += 7;
            behind < len / 100
        });
        let share = hits.count() as f64 / f64::from(DRAWS);
        assert!((share - (0.1 + 0.9 * 0.01)).abs() < 0.006, "seed 1: {share}");
    }

    #[test]
    fn rules_come_out() {
        for polymix in PolyMix::ALL {
            let [hit, size, hit_size, html, cachable] = run(polymix.scaled(20));
            let shown = format!("{} {hit} {size} {hit_size} {html} {cachable}", polymix.name);
            assert!((0.50..0.60).contains(&hit), "{shown}");
            assert!((0.12..0.18).contains(&html), "{shown}");
            assert!((0.78..0.86).contains(&cachable), "{shown}");
            assert!((7.0..12.5).contains(&size), "{shown}");
            // PolyMix-4 prefers small objects.
            assert!(polymix.prefer_small == 0.0 || hit_size < 0.9 * size, "{shown}");
        }
    }
}
