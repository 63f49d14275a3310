//! A directory served by a much smaller cache, for any duration, while its files are changed in
//! every way. Every response that ends cleanly consists of one version of its file, whole, and of
//! one that existed when the request began or later (with `look-interval`, up to that much
//! earlier). Meanwhile the program is stopped, killed and restarted.
//!
//! `LARDER_SOAK_SECONDS` sets the duration (6), `LARDER_SEED` the run. `cargo xtask soak --files`
//! sets both. A run has rounds, each with a different way of noticing changes: watches, too few of
//! them, none, and a root that is a link to be replaced.

mod history;
mod tree;

use std::collections::HashMap;
use std::fs;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use self::history::{Content, History};
use self::tree::{CHANGES, DIRECTORIES, KINDS, NAMES, Place, Tree};
use rustix::process::Signal;
use tempfile::TempDir;
use testkit::body::mix;
use testkit::client::{Client, Reply, Request, get};
use testkit::larder::{Larder, Setup};
use testkit::random::Random;

use crate::large::assert_memory;
use crate::soak::{seed, setting};

const CLIENTS: u64 = 6;
const WRITERS: usize = 3;
const MEMORY: u64 = 16 << 20;

/// Time for which a check is valid if the kernel reports nothing.
const INTERVAL: Duration = Duration::from_millis(300);

/// Time until a new directory under the root's name is served: a thread must check it first, and
/// may be delayed on a busy machine.
const DEPLOYED: Duration = Duration::from_secs(10);

/// The ways of noticing changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Watched,
    FewWatches,
    Unwatched,
    Deployed,
}

const WAYS: [Way; 4] = [Way::Watched, Way::FewWatches, Way::Unwatched, Way::Deployed];

/// A client's knowledge of a response's content, by its tag.
#[derive(Clone, Debug)]
struct Known {
    tag: String,
    /// The file whose bytes it had: the requested one, or one beside it.
    place: Place,
    /// Possible contents: a few bytes may match several.
    contents: Vec<Content>,
}

#[derive(Default)]
struct Counts {
    whole: AtomicU64,
    parts: AtomicU64,
    not_modified: AtomicU64,
    coded: AtomicU64,
    without: AtomicU64,
    cut: AtomicU64,
    unavailable: AtomicU64,
    unanswered: AtomicU64,
    overflows: AtomicU64,
    memory_hits: AtomicU64,
    disk_hits: AtomicU64,
    bytes: AtomicU64,
}

struct World {
    seed: u64,
    way: Way,
    directory: TempDir,
    setup: Setup,
    trees: Vec<Tree>,
    /// The tree to which the root's path leads.
    served: History<usize>,
    compresses: bool,
    over: AtomicBool,
    counts: Counts,
    /// The hash of the body sent with each strong tag.
    tags: Mutex<HashMap<String, u64>>,
}

fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

impl World {
    fn new(seed: u64, way: Way) -> World {
        let mut random = Random::of(seed);
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(at("outside")).unwrap();
        let names: &[&str] = if way == Way::Deployed { &["one", "two"] } else { &["www"] };
        let tree = |name: &&str| Tree::new(&at(name), &at("outside"), &mut random);
        let trees = names.iter().map(tree).collect();
        if way == Way::Deployed {
            symlink(at("one"), at("www")).unwrap();
        }
        let watches = match way {
            Way::Watched | Way::Deployed => 65_536,
            Way::FewWatches => 5,
            Way::Unwatched => 0,
        };
        let compresses = random.below(2) == 0;
        let compress = if compresses { "compress = [\"gzip\", \"zstd\"]\n" } else { "" };
        // Root can read files that are unreadable for others.
        let user = if rustix::process::getuid().is_root() { "user = \"nobody\"\n" } else { "" };
        let setup = Setup::forward().flag("cache-size", "48M").flag("memory", "16M");
        let setup = setup.flag("static", &at("www").display().to_string()).config(&format!(
            "{user}[files]\nlook-interval = \"{}ms\"\nwatches = {watches}\n\
             known = 10000\ncompress-max = \"200K\"\n{compress}",
            INTERVAL.as_millis()
        ));
        World {
            seed,
            way,
            directory,
            setup,
            trees,
            served: History::new(0),
            compresses,
            over: AtomicBool::new(false),
            counts: Counts::default(),
            tags: Mutex::default(),
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Returns all contents that a path may have had for a response to a request of this time.
    fn possible(&self, place: Place, began: Instant, ended: Instant) -> Vec<Content> {
        let bound = match self.way {
            Way::Watched | Way::Deployed => Duration::ZERO,
            Way::FewWatches | Way::Unwatched => INTERVAL,
        };
        let trees = self.served.possible(began - DEPLOYED, ended);
        let of = |tree: usize| self.trees[tree].history(place).possible(began - bound, ended);
        trees.into_iter().flat_map(of).collect()
    }

    /// Changes the files that a writer owns, at changing speeds and with pauses.
    fn write(&self, writer: usize, mut random: Random) {
        while !self.is_over() {
            let tree = &self.trees[random.below(self.trees.len())];
            let changes = 1 + random.below(30);
            let pause = random.below(30);
            for _ in 0..changes {
                tree.change_any(&mut random, writer, WRITERS);
                thread::sleep(Duration::from_millis(pause));
            }
            thread::sleep(Duration::from_millis(random.below(400)));
        }
    }

    /// Replaces the root's link from time to time.
    fn deploy(&self, mut random: Random) {
        let link = self.directory.path().join("www");
        while self.trees.len() > 1 && !self.is_over() {
            thread::sleep(Duration::from_millis(500 + random.below(1_500)));
            let tree = 1 - self.served.last();
            let next = self.directory.path().join("next");
            symlink(self.directory.path().join(["one", "two"][tree]), &next).unwrap();
            self.served.begin([tree]);
            fs::rename(next, &link).unwrap();
            self.served.end();
        }
    }

    fn read(&self, to: SocketAddr, mut random: Random) {
        let (mut connection, mut known) = (None, HashMap::new());
        while !self.is_over() {
            if connection.is_none() {
                connection = Client::open(to).ok();
            }
            let Some(open) = &mut connection else {
                thread::sleep(Duration::from_millis(5));
                continue;
            };
            let place = Place::any(&mut random);
            let asked = match random.below(10) {
                0 | 1 => self.ask_part(open, place, &mut random),
                _ => self.ask(open, place, &mut random, &mut known),
            };
            if asked.is_err() {
                add(&self.counts.unanswered, 1);
            }
            if !asked.unwrap_or(false) || random.below(100) == 0 {
                connection = None;
            }
        }
    }

    /// Requests a whole file; returns whether the connection can be reused.
    fn ask(
        &self,
        connection: &mut Client,
        place: Place,
        random: &mut Random,
        known: &mut HashMap<(Place, &'static str), Known>,
    ) -> io::Result<bool> {
        let accepted = ["", "gzip", "zstd, gzip"][random.below(3_usize)];
        let mut request = get(&place.path()).header("Host", "www.test");
        if !accepted.is_empty() {
            request = request.header("Accept-Encoding", accepted);
        }
        let condition = known.get(&(place, accepted)).filter(|_| random.below(3) == 0);
        if let Some(known) = condition {
            request = request.header("If-None-Match", &known.tag);
        }
        let slow = (random.below(30) == 0).then(|| Duration::from_millis(random.below(20)));
        let began = Instant::now();
        let reply = answer(connection, &request, slow)?;
        let ended = Instant::now();
        let whole = reply.whole;
        let judged = self.judge(place, accepted, &reply, condition, began, ended);
        if let Some((of, contents)) = judged {
            let tag = reply.header("etag").to_owned();
            self.note(place, &tag, &reply.body);
            known.insert((place, accepted), Known { tag, place: of, contents });
        }
        Ok(whole)
    }

    /// Checks that one tag stands for one content of a file; other files of the same size and time
    /// may share it.
    fn note(&self, place: Place, tag: &str, body: &[u8]) {
        if tag.starts_with('"') {
            let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(body);
            let mut tags = self.tags.lock().unwrap_or_else(PoisonError::into_inner);
            let noted = *tags.entry(format!("{} {tag}", place.path())).or_insert(hash);
            assert_eq!(noted, hash, "{tag} is of two versions");
        }
    }

    /// Checks a response. Returns its content: which file, and which bytes.
    fn judge(
        &self,
        place: Place,
        accepted: &str,
        reply: &Reply,
        condition: Option<&Known>,
        began: Instant,
        ended: Instant,
    ) -> Option<(Place, Vec<Content>)> {
        let possible = self.possible(place, began, ended);
        let wrong = |why: &str| -> ! {
            panic!(
                "{}: {why}: {:?}, {} bytes; possible: {possible:?}; took {:?}; {:?}, seed {}",
                place.path(),
                reply.head,
                reply.len,
                ended - began,
                self.way,
                self.seed
            )
        };
        let is_readable = possible.iter().any(|c| matches!(c, Content::Bytes { .. }));
        match reply.status {
            _ if !reply.whole => add(&self.counts.cut, 1),
            200 => {
                let came = self
                    .content(place, accepted, reply, (began, ended))
                    .filter(|_| is_readable)
                    .unwrap_or_else(|| wrong("bytes of no version that was there"));
                add(&self.counts.whole, 1);
                add(&self.counts.bytes, reply.len);
                match reply.outcome().as_str() {
                    "HIT_RAM" => add(&self.counts.memory_hits, 1),
                    "HIT_DISK" => add(&self.counts.disk_hits, 1),
                    _ => {}
                }
                return Some(came);
            }
            304 => {
                let Some(known) = condition else { wrong("304 without a condition") };
                let possible = self.possible(known.place, began, ended);
                let may_be = |known: &Content| possible.iter().any(|now| now.may_be(known));
                if !known.contents.iter().any(may_be) {
                    wrong(&format!("304 for {known:?}"));
                }
                add(&self.counts.not_modified, 1);
            }
            404 if possible.contains(&Content::Absent) => add(&self.counts.without, 1),
            403 if possible.contains(&Content::Unreadable) => add(&self.counts.without, 1),
            503 => add(&self.counts.unavailable, 1),
            _ => wrong("a wrong status"),
        }
        None
    }

    /// Returns the contents that match the bytes of a response.
    fn content(
        &self,
        place: Place,
        accepted: &str,
        reply: &Reply,
        (began, ended): (Instant, Instant),
    ) -> Option<(Place, Vec<Content>)> {
        let exact = |content: &Content, bytes: &[u8]| match content {
            Content::Bytes { seed, .. } if content.holds(bytes.len() as u64, 0, bytes) => {
                Some(Content::bytes(*seed, bytes.len() as u64))
            }
            _ => None,
        };
        let among = |place: Place, bytes: &[u8]| {
            let possible = self.possible(place, began, ended);
            let matching = possible.iter().filter_map(|content| exact(content, bytes));
            Some((place, matching.collect::<Vec<_>>())).filter(|(_, all)| !all.is_empty())
        };
        let sibling = |coding: &str| place.sibling(if coding == "gzip" { "gz" } else { "zst" });
        let may_lack = |coding: &str| {
            sibling(coding).is_none_or(|sibling| {
                let possible = self.possible(sibling, began, ended);
                possible.iter().any(|c| !matches!(c, Content::Bytes { .. }))
            })
        };
        let coding = reply.header("content-encoding");
        if coding.is_empty() {
            let found = among(place, &reply.body)?;
            let codings = accepted.split(", ").filter(|coding| !coding.is_empty());
            return codings.into_iter().all(may_lack).then_some(found);
        }
        add(&self.counts.coded, 1);
        if let Some(found) = sibling(coding).and_then(|sibling| among(sibling, &reply.body)) {
            return Some(found);
        }
        let plain = decoded(coding, &reply.body).filter(|_| self.compresses && may_lack(coding))?;
        among(place, &plain)
    }

    /// Requests a range.
    fn ask_part(
        &self,
        connection: &mut Client,
        place: Place,
        random: &mut Random,
    ) -> io::Result<bool> {
        let bits = random.below(23);
        let (first, count) = (random.below(1 << bits), 1 + random.below(1 << bits));
        let range = format!("bytes={first}-{}", first + count - 1);
        let request = get(&place.path()).header("Host", "www.test").header("Range", &range);
        let began = Instant::now();
        let reply = answer(connection, &request, None)?;
        let ended = Instant::now();
        if reply.status != 206 && reply.status != 416 {
            self.judge(place, "", &reply, None, began, ended);
            return Ok(reply.whole);
        }
        if !reply.whole {
            add(&self.counts.cut, 1);
            return Ok(false);
        }
        add(&self.counts.parts, 1);
        let possible = self.possible(place, began, ended);
        let (_, total) = reply.header("content-range").rsplit_once('/').expect("a total");
        let total: u64 = total.parse().expect("a number");
        let count = count.min(total.saturating_sub(first));
        let is_right = match reply.status {
            206 => {
                reply.len == count && possible.iter().any(|c| c.holds(total, first, &reply.body))
            }
            _ => first >= total && possible.iter().any(|c| c.holds(total, 0, &[])),
        };
        assert!(
            is_right,
            "{} {range}: {:?}, {} bytes; possible: {possible:?}; took {:?}; {:?}, seed {}",
            place.path(),
            reply.head,
            reply.len,
            ended - began,
            self.way,
            self.seed
        );
        Ok(true)
    }

    /// Runs the program for a time, while clients read and write: suspends it sometimes during more
    /// changes than the kernel queues, ends it in either way, and restarts it.
    fn run(&self, time: Duration, mut random: Random) -> Larder {
        let end = Instant::now() + time;
        let mut larder = self.setup.start();
        while Instant::now() < end {
            let left = end.saturating_duration_since(Instant::now());
            let life = Duration::from_millis(500 + random.below(6_000)).min(left);
            thread::sleep(life / 2);
            if random.below(2) == 0 {
                larder.signal(Signal::STOP);
                self.trees[self.served.last()].burst();
                larder.signal(Signal::CONT);
            }
            thread::sleep(life / 2);
            assert_memory(&larder, MEMORY, CLIENTS);
            add(&self.counts.overflows, overflows(&larder));
            match random.below(2) {
                0 => drop(larder.stop()),
                _ => larder.kill(),
            }
            larder = self.setup.start();
        }
        larder
    }

    /// Checks at rest that every response matches the current files: at once, and later.
    fn is_right_at_rest(&self, larder: &Larder) {
        thread::sleep(INTERVAL);
        let mut connection = larder.connect();
        let tree = &self.trees[self.served.last()];
        for directory in 0..DIRECTORIES {
            for (name, turn) in (0..NAMES.len()).flat_map(|name| [(name, 0), (name, 1)]) {
                let place = Place { directory, name };
                let request = get(&place.path()).header("Host", "www.test");
                let reply = answer(&mut connection, &request, None).unwrap();
                let (path, content) = (place.path(), tree.history(place).last());
                let is_right = match content {
                    Content::Absent => reply.status == 404,
                    Content::Unreadable => reply.status == 403,
                    Content::Bytes { .. } => content.holds(reply.len, 0, &reply.body),
                };
                assert!(reply.whole, "{path} is cut: {:?}, seed {}", reply.head, self.seed);
                let (way, seed) = (self.way, self.seed);
                let head = &reply.head;
                assert!(is_right, "{path}, {turn}: {content:?} {head:?}, {way:?}, seed {seed}");
            }
        }
    }

    fn report(&self) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counts { whole, parts, not_modified, coded, without, cut, .. } = &self.counts;
        let Counts { unavailable, unanswered, memory_hits, disk_hits, bytes, overflows, .. } =
            &self.counts;
        eprintln!(
            "{:?}, seed {}: {} whole answers ({} coded, {} MiB, {} hits from memory, {} from \
             disk), {} parts, {} not modified, {} without a file, {} cut, {} unavailable, {} \
             connections lost, {} times events were lost",
            self.way,
            self.seed,
            count(whole),
            count(coded),
            count(bytes) >> 20,
            count(memory_hits),
            count(disk_hits),
            count(parts),
            count(not_modified),
            count(without),
            count(cut),
            count(unavailable),
            count(unanswered),
            count(overflows)
        );
        assert!(count(memory_hits) > 0, "nothing came from the cache");
        let judged = count(whole) + count(parts);
        assert!(count(cut) * 10 <= judged, "{} of {judged} answers were cut", count(cut));
    }
}

/// Sends a request and reads the response; with `slow`, with pauses between pieces.
fn answer(connection: &mut Client, request: &Request, slow: Option<Duration>) -> io::Result<Reply> {
    connection.try_send(request.bytes())?;
    let Some(pause) = slow else { return connection.read("GET") };
    let head = connection.read_head()?;
    let mut body = Vec::new();
    let mut reply = connection.rest_with(head, "GET", |_, bytes| {
        body.extend_from_slice(bytes);
        thread::sleep(pause);
    })?;
    reply.body = body;
    Ok(reply)
}

/// Returns how often the kernel lost events.
fn overflows(larder: &Larder) -> u64 {
    let metrics = larder.metrics();
    let name = "larder_files_watch_overflows_total";
    let line = metrics.lines().find(|line| line.starts_with(name));
    let number = line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok());
    number.expect("a number of overflows")
}

fn decoded(coding: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    match coding {
        "gzip" => flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain).map(drop).ok()?,
        "zstd" => plain = zstd::stream::decode_all(bytes).ok()?,
        _ => return None,
    }
    Some(plain)
}

fn round(seed: u64, way: Way, time: Duration) {
    let world = World::new(seed, way);
    let of = |part: u64| Random::of(mix(seed ^ (part << 32)));
    // The program that serves at the end has the same address as all before it.
    let address = world.setup.address();
    let larder = thread::scope(|scope| {
        let world = &world;
        for writer in 0..WRITERS {
            scope.spawn(move || world.write(writer, of(1 + writer as u64)));
        }
        for client in 0..CLIENTS {
            scope.spawn(move || world.read(address, of(100 + client)));
        }
        scope.spawn(move || world.deploy(of(200)));
        let larder = world.run(time, of(300));
        world.over.store(true, Ordering::Relaxed);
        larder
    });
    if way == Way::Deployed {
        thread::sleep(Duration::from_secs(2));
    }
    world.is_right_at_rest(&larder);
    world.report();
    larder.stop();
}

#[test]
fn soak_files_every_answer_is_a_version_that_was_there() {
    let seconds = setting("LARDER_SOAK_SECONDS").unwrap_or(6);
    let seed = seed();
    let end = Instant::now() + Duration::from_secs(seconds);
    let time = Duration::from_millis((seconds * 1000 / 4).clamp(500, 15_000));
    for turn in 0.. {
        if turn >= WAYS.len() as u64 && Instant::now() >= end {
            break;
        }
        let way = WAYS[((seed % 4 + turn) % 4) as usize];
        round(seed.wrapping_add(turn), way, time);
    }
    let count = |at: usize| format!("{} {}", CHANGES[at].load(Ordering::Relaxed), KINDS[at]);
    eprintln!("changes: {}", (0..KINDS.len()).map(count).collect::<Vec<_>>().join(", "));
}
