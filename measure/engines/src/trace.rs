//! The requests: a generated stream with sizes, and bodies that follow from the objects.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use workload::contents::mix;
use workload::generator::Workload;
use workload::request::{Kind, Object};

/// The stream: unrelated objects with Zipf popularity, a mean of 11 KB and at most 4 MiB.
const STREAM: &str = "zipf-600k";

/// Size in bytes of the cache for which the whole stream was made; smaller files get fewer objects.
const STREAM_CACHE: u64 = 650 << 20;

/// Added to the version of an object to get an object that the trace does not contain.
const FRESH: u32 = 1 << 31;

/// An object of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    id: u32,
    version: u32,
    site: u32,
    group: u32,
    /// Bytes of the body.
    pub size: u64,
}

impl Item {
    /// Returns the object from which the body follows.
    pub fn object(&self) -> Object {
        let Item { id, version, site, group, size } = *self;
        Object { id, version, site, group, size, kind: Kind::Other }
    }

    /// Returns the key: about as long as a URL, and another one for each version.
    pub fn url(&self) -> String {
        let Item { id, version, site, .. } = self;
        format!("http://server-{site:07}.example/objects/{id:09}/{version:010}")
    }

    /// Returns the numbers of site and group, spread over 64 bits.
    pub fn locality(&self) -> (u64, u64) {
        let site = mix(u64::from(self.site));
        (site, mix(site ^ u64::from(self.group)))
    }
}

/// All requests of a run and the objects in them.
pub struct Trace {
    /// The requests.
    pub requests: Vec<Item>,
    /// The objects, in the order of their first requests.
    pub objects: Vec<Item>,
    /// Objects of the same number and sizes that are not in the trace.
    pub fresh: Vec<Item>,
}

impl Trace {
    /// Generates `count` requests for a cache file of `file_size` bytes. Equal arguments give equal
    /// traces.
    pub fn new(file_size: u64, count: u64, seed: u64) -> Trace {
        let stream = Workload::named(STREAM).expect("the stream exists");
        let divisor = (STREAM_CACHE / file_size).max(1) as u32;
        let objects = stream.scaled(divisor).iter(seed).take(count as usize);
        let item = |object: Object| {
            let Object { id, version, site, group, size, .. } = object;
            Item { id, version, site, group, size }
        };
        let requests: Vec<Item> = objects.map(|request| item(request.object())).collect();
        let mut seen = HashSet::new();
        let is_first = |item: &&Item| seen.insert((item.id, item.version));
        let objects: Vec<Item> = requests.iter().filter(is_first).copied().collect();
        let fresh = objects.iter().map(|item| Item { version: item.version | FRESH, ..*item });
        let fresh = fresh.collect();
        Trace { requests, objects, fresh }
    }

    /// Returns the last requested objects of at most `bytes` bytes together.
    pub fn latest(&self, bytes: u64) -> Vec<Item> {
        let mut seen = HashSet::new();
        let is_new = |item: &&Item| seen.insert(item.id);
        up_to(bytes, self.requests.iter().rev().filter(is_new))
    }
}

/// Returns the first of `items`, of at most `bytes` bytes together.
pub fn up_to<'a>(bytes: u64, items: impl Iterator<Item = &'a Item>) -> Vec<Item> {
    let fits = |sum: &mut u64, item: &'a Item| {
        *sum += item.size;
        (*sum <= bytes).then_some(*item)
    };
    items.scan(0, fits).collect()
}
