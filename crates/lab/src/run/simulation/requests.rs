//! Who asks for what: a population of objects, and traces of requests for them.
//!
//! It promises: everything follows from the seed, on every machine.

use bytes::Bytes;
use fastrand::Rng;
use store::{Key, Locality};

use crate::workload::contents::mix;
use crate::workload::request::Object;

/// Bytes of a key: as long as a URL is.
const KEY_LEN: usize = 48;
/// Objects of a server.
const PER_SERVER: u32 = 64;

/// Objects with their names and sizes.
pub struct Population {
    objects: u32,
    /// All keys, one behind another.
    keys: Bytes,
    seed: u64,
    sizes: Vec<u32>,
}

impl Population {
    /// So many objects of lognormal sizes with this median and mean, in bytes.
    pub fn new(seed: u64, objects: u32, median: u64, mean: u64) -> Population {
        let mut keys = Vec::with_capacity(objects as usize * KEY_LEN);
        for number in 0..objects {
            let server = number / PER_SERVER;
            let url = format!("http://server-{server:08}.example/obj/{number:010}");
            keys.extend_from_slice(format!("{url:KEY_LEN$}").as_bytes());
        }
        let log_mean = (median.max(1) as f64).ln();
        let deviation = (2.0 * (mean as f64 / median.max(1) as f64).max(1.0).ln()).sqrt();
        let size = |number: u32| {
            let mut dice = Rng::with_seed(mix(seed ^ mix(u64::from(number))));
            let normal = (-2.0 * (1.0 - dice.f64()).ln()).sqrt()
                * (std::f64::consts::TAU * dice.f64()).cos();
            ((log_mean + deviation * normal).exp() as u32).clamp(1, 16 << 20)
        };
        let sizes = (0..objects).map(size).collect();
        Population { objects, keys: keys.into(), seed, sizes }
    }

    /// Number of objects.
    pub fn objects(&self) -> u32 {
        self.objects
    }

    /// Bytes of all bodies.
    pub fn bytes(&self) -> u64 {
        self.sizes.iter().map(|size| u64::from(*size)).sum()
    }

    /// An object, of the only version that there is.
    pub fn object(&self, number: u32) -> Object {
        let size = u64::from(self.sizes[number as usize]);
        Object { id: number, site: number / PER_SERVER, size, ..Object::default() }
    }

    /// The name of an object.
    pub(super) fn key(&self, number: u32) -> Key {
        let at = number as usize * KEY_LEN;
        let site = mix(self.seed ^ u64::from(number / PER_SERVER));
        let locality = Locality { site, group: site };
        Key::new(self.keys.slice(at..at + KEY_LEN), locality).expect("a short key")
    }
}

/// How popular objects are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    /// One like the other.
    Equal,
    /// By Zipf's law with this exponent; ranks have nothing to do with the objects' numbers.
    Zipf(f64),
}

/// Requests for the objects of a population, made beforehand.
pub struct Trace(Vec<u32>);

impl Trace {
    /// So many requests.
    pub fn new(seed: u64, objects: u32, popularity: Popularity, requests: usize) -> Trace {
        let mut random = Rng::with_seed(seed);
        let mut names: Vec<u32> = (0..objects).collect();
        random.shuffle(&mut names);
        let exponent = match popularity {
            Popularity::Equal => 0.0,
            Popularity::Zipf(exponent) => exponent,
        };
        let mut sum = 0.0;
        let weights = (1..=objects).map(|rank| f64::from(rank).powf(-exponent));
        let sums: Vec<f64> = weights
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect();
        let draw = |_| {
            let point = random.f64() * sum;
            names[sums.partition_point(|sum| *sum <= point).min(names.len() - 1)]
        };
        Trace((0..requests).map(draw).collect())
    }

    /// The requests, in order.
    pub fn requests(&self) -> impl Iterator<Item = u32> + use<> {
        self.0.clone().into_iter()
    }
}
