//! A purge log against a list of purges, over a device that loses unflushed writes.

use super::*;
use crate::test_seed::seeds;

const UUID: [u8; 16] = [3; 16];

fn secret() -> Secret {
    Secret::new([7; 32])
}

fn any_purge(random: &mut fastrand::Rng, number: u64) -> LoggedPurge {
    let len = if random.u8(..30) == 0 { random.usize(3_000..5_000) } else { random.usize(..200) };
    let name = Bytes::from(vec![b'a' + (number % 26) as u8; len]);
    let target = match random.u8(..4) {
        0 => PurgedTarget::Everything,
        1 => PurgedTarget::Label { kind: random.u8(..), name },
        2 => PurgedTarget::Prefix(name),
        _ => {
            let locality = Locality { site: random.u64(..), group: random.u64(..) };
            PurgedTarget::Key(Key::new(name, locality).unwrap())
        }
    };
    let mode = if random.bool() { Mode::Hard } else { Mode::Soft };
    LoggedPurge { target, mode, at: number }
}

/// The area of the log: the durable bytes, and the writes since.
struct Device {
    bytes: Vec<u8>,
    unflushed: Vec<(u64, Vec<u8>)>,
}

impl Device {
    fn flush(&mut self) {
        for (offset, bytes) in self.unflushed.drain(..) {
            let at = (offset - PURGE_LOG.offset) as usize;
            self.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
        }
    }

    /// Simulates a power loss: all, nothing or a part of each unflushed write remains.
    fn lose_power(&mut self, random: &mut fastrand::Rng) {
        for (_, bytes) in &mut self.unflushed {
            match random.u8(..3) {
                0 => bytes.clear(),
                1 => bytes.truncate(512 * random.usize(..8)),
                _ => {}
            }
        }
        self.flush();
    }
}

/// Writes pending blocks and flushes, as the background does.
fn sync(log: &mut PurgeLog, device: &mut Device) {
    if let Some(write) = log.begin_write(&secret()) {
        device.unflushed.extend(write.writes);
        log.end_write(write.until);
    }
    log.begin_flush();
    device.flush();
    log.end_flush();
}

fn follow(
    log: &PurgeLog,
    mut position: PurgePosition,
) -> Option<(Vec<LoggedPurge>, PurgePosition)> {
    let mut all = Vec::new();
    loop {
        match log.since(Some(position)) {
            PurgesSince::Purges(purges, next) if purges.is_empty() => {
                assert_eq!(next, position);
                return Some((all, position));
            }
            PurgesSince::Purges(purges, next) => {
                assert!(purges.len() <= TOLD_AT_ONCE);
                all.extend(purges);
                position = next;
            }
            PurgesSince::TooOld(_) => return None,
        }
    }
}

fn here(log: &PurgeLog) -> PurgePosition {
    let PurgesSince::TooOld(position) = log.since(None) else { panic!("no position was given") };
    position
}

/// A log on a device, the purges logged, and the positions of followers.
struct Course {
    random: fastrand::Rng,
    device: Device,
    generation: u64,
    log: PurgeLog,
    /// The purges logged, by their number in this log, and how many were acknowledged.
    model: Vec<LoggedPurge>,
    acknowledged: u64,
    followers: Vec<PurgePosition>,
    /// Number of purges that followers received, and of positions that were too old.
    followed: usize,
    too_old: usize,
}

impl Course {
    fn new(seed: u64) -> Course {
        let mut random = fastrand::Rng::with_seed(seed);
        // Foreign bytes are not a log.
        let mut device = Device { bytes: vec![0; PURGE_LOG.len as usize], unflushed: Vec::new() };
        random.fill(&mut device.bytes);
        let generation = 5;
        let mut log = PurgeLog::resume(&secret(), &UUID, Some(&device.bytes), generation, 0);
        sync(&mut log, &mut device);
        let (model, acknowledged, followers) = (Vec::new(), 0, vec![here(&log)]);
        let (followed, too_old) = (0, 0);
        Course {
            random,
            device,
            generation,
            log,
            model,
            acknowledged,
            followers,
            followed,
            too_old,
        }
    }

    fn purge(&mut self, step: u64) {
        for _ in 0..self.random.u8(1..4) {
            let purge = any_purge(&mut self.random, step);
            self.model.push(purge.clone());
            assert_eq!(self.log.log(purge), self.model.len() as u64);
        }
    }

    fn sync(&mut self) {
        sync(&mut self.log, &mut self.device);
        self.acknowledged = self.log.durable();
    }

    fn follow(&mut self) {
        let at = self.random.usize(..self.followers.len());
        let behind = self.followers[at];
        match follow(&self.log, behind) {
            Some((purges, position)) => {
                assert_eq!(position.number, self.log.durable());
                assert_eq!(purges, self.model[behind.number as usize..position.number as usize]);
                self.followers[at] = position;
                self.followed += purges.len();
            }
            None => {
                self.followers[at] = here(&self.log);
                self.too_old += 1;
            }
        }
    }

    fn reopen(&mut self) {
        self.generation += 1;
        let bytes = Some(&self.device.bytes[..]);
        self.log = PurgeLog::resume(&secret(), &UUID, bytes, self.generation, 0);
        sync(&mut self.log, &mut self.device);
    }

    /// Simulates a kill or a power loss, perhaps during a write, and sometimes a run without the
    /// log after it.
    fn crash(&mut self) {
        if self.random.bool()
            && let Some(write) = self.log.begin_write(&secret())
        {
            self.device.unflushed.extend(write.writes);
        }
        self.device.lose_power(&mut self.random);
        self.generation += u64::from(self.random.u8(..8) == 0);
        let before = here(&self.log).log;
        self.reopen();
        let position = here(&self.log);
        if position.log == before {
            assert!(position.number >= self.acknowledged, "an acknowledged purge is missing");
            self.model.truncate(position.number as usize);
        } else {
            // Another log begins with one that is lost: no follower has all of it.
            self.model = vec![any_purge(&mut self.random, 0); position.number as usize];
        }
        assert_eq!(self.model.len() as u64, position.number);
        self.acknowledged = position.number;
    }

    /// Stops and starts the cache, which loses nothing.
    fn restart(&mut self) {
        self.sync();
        self.sync();
        let before = here(&self.log);
        self.reopen();
        assert_eq!(here(&self.log), before);
        self.acknowledged = before.number;
    }
}

#[test]
fn a_follower_misses_no_purge_whatever_crashes() {
    let (mut followed, mut too_old, mut courses) = (0, 0, 0);
    for seed in seeds("purge_log::a_follower_misses_no_purge", 60) {
        courses += 1;
        let mut course = Course::new(seed);
        for step in 0..course.random.u64(10..400) {
            match course.random.u8(..20) {
                0..10 => course.purge(step),
                10..15 => course.sync(),
                15 | 16 => course.follow(),
                17 => course.followers.push(here(&course.log)),
                18 => course.crash(),
                _ => course.restart(),
            }
        }
        (followed, too_old) = (followed + course.followed, too_old + course.too_old);
    }
    // A single replayed seed need not meet both.
    let all_met = followed > 1_000 && too_old > 50;
    assert!(courses < 60 || all_met, "{followed} followed, {too_old} too old");
}

#[test]
fn a_torn_block_that_the_log_has_not_come_to_does_not_end_it_later() {
    let mut device = Device { bytes: vec![0; PURGE_LOG.len as usize], unflushed: Vec::new() };
    let mut log = PurgeLog::new(&UUID, 1, 0);
    sync(&mut log, &mut device);
    // Each purge takes a block of its own. Of the three written blocks only a part of the last
    // remains.
    let long = |number: u64| {
        let target = PurgedTarget::Prefix(Bytes::from(vec![b'x'; 3_000]));
        LoggedPurge { target, mode: Mode::Hard, at: number }
    };
    for number in 0..3 {
        log.log(long(number));
    }
    let (at, block) = log.begin_write(&secret()).unwrap().writes.pop().unwrap();
    assert_eq!(at, PURGE_LOG.offset + place(2, 0) * BLOCK);
    device.unflushed.push((at, block[..512].to_vec()));
    device.flush();
    let mut log = PurgeLog::resume(&secret(), &UUID, Some(&device.bytes), 2, 0);
    assert_eq!(log.durable(), 0);
    let start = here(&log);
    // The log later reaches the place of that torn block.
    for number in 0..2 {
        sync(&mut log, &mut device);
        log.log(long(number));
    }
    sync(&mut log, &mut device);
    log = PurgeLog::resume(&secret(), &UUID, Some(&device.bytes), 3, 0);
    assert_eq!(follow(&log, start).map(|(purges, _)| purges.len()), Some(2));
}

#[test]
fn the_log_is_bounded_and_reaches_back_a_good_while() {
    let mut device = Device { bytes: vec![0; PURGE_LOG.len as usize], unflushed: Vec::new() };
    let mut log = PurgeLog::new(&UUID, 1, 0);
    let start = here(&log);
    let mut positions = Vec::new();
    for number in 0..10_000 {
        let name = Bytes::from(format!("https://www.example.org/a/page/{number}.html"));
        let key = Key::new(name, Locality::default()).unwrap();
        log.log(LoggedPurge { target: PurgedTarget::Key(key), mode: Mode::Hard, at: 1 });
        sync(&mut log, &mut device);
        positions.push(here(&log));
    }
    assert_eq!(log.since(Some(start)), PurgesSince::TooOld(here(&log)));
    let known = positions.iter().filter(|position| follow(&log, **position).is_some()).count();
    assert!((2_000..3_000).contains(&known), "{known}");
    let resumed = PurgeLog::resume(&secret(), &UUID, Some(&device.bytes), 2, 0);
    let still = positions.iter().filter(|position| follow(&resumed, **position).is_some()).count();
    assert_eq!(still, known, "a restart shortens it by nothing");
}

#[test]
fn a_new_log_knows_that_an_earlier_one_was_kept() {
    let mut device = Device { bytes: vec![9; PURGE_LOG.len as usize], unflushed: Vec::new() };
    let open =
        |bytes: &[u8], generation| PurgeLog::resume(&secret(), &UUID, Some(bytes), generation, 0);
    let mut log = open(&device.bytes, 1);
    assert!(!log.was_kept());
    sync(&mut log, &mut device);
    assert!(open(&device.bytes, 2).was_kept());
    let another = open(&device.bytes, 5);
    assert!(another.was_kept() && another.later(0).was_kept());
    assert_ne!(here(&another).log, here(&log).log);
}

#[test]
fn a_log_that_begins_later_has_a_greater_number() {
    let numbers = [PurgeLog::new(&UUID, 9, 5), PurgeLog::new(&[0xff; 16], 2, 6)];
    let [first, second] = numbers.map(|log| here(&log).log);
    assert!(first < second, "{first:x} {second:x}");
    let log = PurgeLog::new(&UUID, 1, 6);
    assert!(here(&log.later(0)).log > here(&log).log);
    assert_eq!(here(&log.later(u64::MAX / 2)).log, u64::MAX / 2 + 1);
}

#[test]
fn a_name_that_fits_no_block_makes_earlier_positions_too_old() {
    let mut device = Device { bytes: vec![0; PURGE_LOG.len as usize], unflushed: Vec::new() };
    let mut log = PurgeLog::new(&UUID, 1, 0);
    let start = here(&log);
    let target = PurgedTarget::Prefix(Bytes::from(vec![b'x'; BLOCK as usize]));
    log.log(LoggedPurge { target, mode: Mode::Hard, at: 1 });
    sync(&mut log, &mut device);
    assert_eq!(follow(&log, start), None);
    assert!(follow(&log, here(&log)).is_some());
}

#[test]
fn decoding_arbitrary_bytes_does_not_panic() {
    let mut device = Device { bytes: vec![0; PURGE_LOG.len as usize], unflushed: Vec::new() };
    let mut log = PurgeLog::new(&UUID, 1, 0);
    let mut random = fastrand::Rng::with_seed(1);
    for number in 0..600 {
        log.log(any_purge(&mut random, number));
        sync(&mut log, &mut device);
    }
    for seed in seeds("purge_log::whatever_bytes", 100) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bytes = device.bytes.clone();
        for _ in 0..random.usize(..30) {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
        }
        let len = random.usize(..=bytes.len());
        let resumed = PurgeLog::resume(&secret(), &UUID, Some(&bytes[..len]), 2, 0);
        assert!(here(&resumed).log != here(&log).log || resumed.durable() <= log.durable());
    }
}
