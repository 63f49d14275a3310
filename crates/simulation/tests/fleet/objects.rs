//! Objects of the origin. They have many sizes, and each changes at times of its own. Every byte
//! names its object and version.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use testkit::client::Reply;
use tokio::time::Instant;

/// How many there are.
const COUNT: u32 = 40;

/// See the module.
#[derive(Clone)]
pub struct Objects {
    seed: u64,
    began: Instant,
    /// They never change.
    last: bool,
    /// How often the origin was asked for each.
    asked: Rc<RefCell<BTreeMap<u32, usize>>>,
}

/// An object as it is in the beginning.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// It changes so often.
    pub period: Duration,
    /// For so long an answer may be used.
    pub lifetime: Duration,
    /// It must not be used for longer, whatever happens.
    pub strict: bool,
}

impl Objects {
    pub fn new(seed: u64, began: Instant) -> Objects {
        Objects { seed, began, last: false, asked: Rc::default() }
    }

    /// Objects that never change.
    pub fn lasting(seed: u64, began: Instant) -> Objects {
        Objects { last: true, ..Objects::new(seed, began) }
    }

    /// Notes that the origin is asked for one.
    pub fn note_asked(&self, object: u32) {
        *self.asked.borrow_mut().entry(object).or_default() += 1;
    }

    /// How often the origin was asked for each.
    pub fn asked(&self) -> BTreeMap<u32, usize> {
        self.asked.borrow().clone()
    }

    /// One that is asked for: some are more often.
    pub fn any(&self, random: &mut Rng) -> u32 {
        self.any_of(COUNT, random)
    }

    /// One of so many that is asked for: some are more often.
    pub fn any_of(&self, count: u32, random: &mut Rng) -> u32 {
        random.u32(..count).min(random.u32(..count))
    }

    pub fn facts(&self, object: u32) -> Facts {
        if self.last {
            let long = Duration::from_secs(100_000);
            return Facts { period: long, lifetime: long, strict: true };
        }
        let mut random = Rng::with_seed(self.seed << 8 ^ u64::from(object));
        Facts {
            period: Duration::from_millis(random.u64(3_000..40_000)),
            lifetime: Duration::from_secs(random.u64(1..20)),
            strict: random.bool(),
        }
    }

    /// The version that there is so long after the beginning.
    pub fn version(&self, object: u32, at: Duration) -> u32 {
        (at.as_millis() / self.facts(object).period.as_millis()) as u32
    }

    /// The version that there is now.
    pub fn current(&self, object: u32) -> u32 {
        self.version(object, self.began.elapsed())
    }

    /// The bytes of a version.
    pub fn bytes(&self, object: u32, version: u32) -> Bytes {
        let mut random = Rng::with_seed(u64::from(object) << 32 | u64::from(version));
        let length = match object % 8 {
            0 => random.usize(100_000..400_000),
            1..=3 => random.usize(5_000..50_000),
            _ => random.usize(50..5_000),
        };
        labelled(format!("{object} {version} "), length, &mut random)
    }

    /// Judges an answer to a request that began so long after the beginning, and says which version
    /// it is.
    pub fn judge(&self, object: u32, begun: Duration, answer: &Reply) -> u32 {
        if answer.status != 200 {
            return 0;
        }
        let mut words = answer.body.splitn(3, |&byte| byte == b' ');
        let mut number = || {
            let word = words.next().and_then(|word| std::str::from_utf8(word).ok());
            word.and_then(|word| word.parse::<u32>().ok()).expect("a body of ours")
        };
        let (of, version) = (number(), number());
        assert_eq!(of, object, "another object's answer");
        assert!(answer.body == self.bytes(object, version), "{object} {version}: wrong bytes");
        let Facts { period, lifetime, strict } = self.facts(object);
        assert!(version <= self.current(object), "{object} {version}: of the future");
        // It was the newest one until then; ages are whole seconds at each of the hops.
        let until = period * (version + 1);
        let is_old = until + lifetime + Duration::from_secs(3) < begun;
        let may_be = answer.cache_status().contains("STALE") && !strict;
        assert!(!is_old || may_be, "{object} {version} at {begun:?} is too old: {answer:?}");
        version
    }
}

/// Returns a body: a label, and `length` random bytes.
pub fn labelled(label: String, length: usize, random: &mut Rng) -> Bytes {
    let mut bytes = label.into_bytes();
    let start = bytes.len();
    bytes.resize(start + length, 0);
    random.fill(&mut bytes[start..]);
    bytes.into()
}
