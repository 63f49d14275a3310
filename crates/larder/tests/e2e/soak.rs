//! A cache much smaller than its traffic, for any duration: every byte of every response is checked
//! while objects are stored, found, changed, purged and evicted.
//!
//! `LARDER_SOAK_SECONDS` sets the duration (5), `LARDER_SEED` the traffic. `cargo xtask soak` sets
//! both.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use testkit::body::mix;
use testkit::client::{Client, get, request};
use testkit::io::PATIENCE;
use testkit::larder::{Larder, Setup};
use testkit::origin::Origin;
use testkit::random::Random;

use crate::large::assert_memory;

const CLIENTS: u64 = 8;
const OBJECTS: u64 = 4_000;
const MEMORY: u64 = 16 << 20;

/// Returns a number from the environment.
pub fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")))
}

/// Returns the seed from the environment, or a new one each time, and prints it.
pub fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    let seed = setting("LARDER_SEED").unwrap_or(now.subsec_nanos().into());
    eprintln!("seed: LARDER_SEED={seed}");
    seed
}

/// Draws an object: few are requested often, many rarely.
fn draw_object(random: &mut Random) -> u64 {
    let bits = u64::from(OBJECTS.ilog2()) + 1;
    let range = 1 + random.below(bits);
    random.below(OBJECTS.min(1 << range))
}

/// Returns a target; sizes range from bytes to a megabyte, most of them small.
fn target(object: u64) -> String {
    let scale = 6 + mix(object) % 15;
    let size = mix(object ^ 0xff) % (1 << scale);
    let how = ["length", "length", "chunked", "close"][(object % 4) as usize];
    format!("/object{object}?size={size}&how={how}&etag=1")
}

struct World {
    origin: Origin,
    larder: Larder,
    over: AtomicBool,
    /// The lowest version of each object that may be served to a request sent now.
    versions: Vec<AtomicU64>,
    answers: AtomicU64,
    /// Responses that the proxy cut off.
    cut: AtomicU64,
    bytes: AtomicU64,
    memory_hits: AtomicU64,
    disk_hits: AtomicU64,
}

impl World {
    /// Sends one request and checks its response.
    fn fetch(&self, connection: &mut Client, object: u64) -> std::io::Result<()> {
        let target = target(object);
        let least = self.versions[object as usize].load(Ordering::SeqCst);
        let reply = get(&self.origin.url(&target)).send_on(connection)?;
        assert_eq!(reply.status, 200, "{target}: {:?}", reply.head);
        self.answers.fetch_add(1, Ordering::Relaxed);
        if !reply.whole {
            // The rest was evicted while it was being sent: cut, but right as far as it goes.
            reply.verify_from(&target, 0);
            self.cut.fetch_add(1, Ordering::Relaxed);
            *connection = self.larder.connect();
            return Ok(());
        }
        reply.verify(&target);
        let version: u64 = reply.header("x-version").parse().unwrap();
        assert!(version >= least, "{target}: version {version} came back after {least}");
        match reply.outcome().as_str() {
            "HIT_RAM" => self.memory_hits.fetch_add(1, Ordering::Relaxed),
            "HIT_DISK" => self.disk_hits.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
        self.bytes.fetch_add(reply.len, Ordering::Relaxed);
        Ok(())
    }

    /// Fetches a part of the object, from the cache or from the origin.
    fn fetch_range(&self, connection: &mut Client, object: u64, first: u64) -> std::io::Result<()> {
        let target = target(object);
        let size = testkit::body::size_of(&target);
        let first = first % size.max(1);
        let range = format!("bytes={first}-");
        let ask = get(&self.origin.url(&target)).header("Range", &range);
        let reply = ask.send_on(connection)?;
        if reply.status == 206 {
            reply.verify_from(&target, first);
            if reply.whole {
                assert_eq!(reply.len, size - first, "{:?}", reply.head);
            } else {
                self.cut.fetch_add(1, Ordering::Relaxed);
                *connection = self.larder.connect();
            }
        } else if reply.outcome() == "HIT_FILL" {
            // A body still in transfer without a length cannot serve a range, so all of it is sent.
            reply.verify_from(&target, 0);
        } else {
            assert!(size == 0, "{target} {range}: {:?}", reply.head);
        }
        Ok(())
    }

    /// Creates a new version: once the purge has its response, no later request may see the old
    /// one.
    fn change(&self, object: u64) {
        let target = target(object);
        self.origin.change(&target);
        self.larder.purge(&self.origin.url(&target));
        self.versions[object as usize].fetch_add(1, Ordering::SeqCst);
    }

    fn client(&self, mut random: Random) {
        let mut connection = self.larder.connect();
        while !self.over.load(Ordering::Relaxed) {
            let object = draw_object(&mut random);
            let done = match random.below(100) {
                0..=1 => {
                    self.change(object);
                    Ok(())
                }
                2..=8 => self.fetch_range(&mut connection, object, random.word()),
                9..=10 => {
                    let head = request("HEAD", &self.origin.url(&target(object)));
                    head.send_on(&mut connection).map(|r| assert_eq!(r.status, 200))
                }
                _ => self.fetch(&mut connection, object),
            };
            // A connection may be closed between two responses, never within one.
            if done.is_err() || random.below(100) == 0 {
                connection = self.larder.connect();
            }
        }
    }
}

#[test]
fn soak_every_byte_is_right_while_the_cache_overflows() {
    let seconds = setting("LARDER_SOAK_SECONDS").unwrap_or(5);
    let seed = seed();
    let setup = Setup::forward().flag("cache-size", "48M").flag("memory", "16M");
    let world = World {
        origin: Origin::start(),
        larder: setup.start(),
        over: AtomicBool::new(false),
        versions: (0..OBJECTS).map(|_| AtomicU64::new(0)).collect(),
        answers: AtomicU64::new(0),
        cut: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        memory_hits: AtomicU64::new(0),
        disk_hits: AtomicU64::new(0),
    };
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let world = &world;
            scope.spawn(move || world.client(Random::of(mix(seed ^ client))));
        }
        let end = Instant::now() + Duration::from_secs(seconds);
        // A busy machine may take longer to find anything on the disk.
        let is_missing = |hits: &AtomicU64| hits.load(Ordering::Relaxed) == 0;
        let lacks_hits = || is_missing(&world.memory_hits) || is_missing(&world.disk_hits);
        while Instant::now() < end || lacks_hits() && Instant::now() < end + PATIENCE {
            thread::sleep(Duration::from_millis(500));
            assert_memory(&world.larder, MEMORY, CLIENTS);
        }
        world.over.store(true, Ordering::Relaxed);
    });
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (ram, disk) = (count(&world.memory_hits), count(&world.disk_hits));
    eprintln!(
        "{} answers, {} of them cut, {} MiB, {ram} hits from memory, {disk} from disk",
        count(&world.answers),
        count(&world.cut),
        count(&world.bytes) >> 20
    );
    let (answers, cut) = (count(&world.answers), count(&world.cut));
    assert!(cut * 100 <= answers, "{cut} of {answers} answers were cut");
    assert!(ram > 0 && disk > 0, "{ram} hits from memory, {disk} from disk");
    world.larder.stop();
}
