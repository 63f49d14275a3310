//! A purge log against a list of purges, over a device that loses unflushed writes.

use bytes::Bytes;

use super::block::VERSION_PLACES;
use super::since::TOLD_AT_ONCE;
use super::*;
use crate::base::key::Locality;
use crate::base::labels::Mode;
use crate::base::logged_purge::{PurgeRange, PurgedTarget, PurgesLacking, PurgesSince};
use crate::test_seed::seeds;

const KIB: u64 = 1024;

fn secret() -> Secret {
    Secret::new([7; 32])
}

fn any_purge(random: &mut fastrand::Rng, number: u64) -> LoggedPurge {
    let len = if random.u8(..30) == 0 { random.usize(3_000..5_000) } else { random.usize(..200) };
    let name = Bytes::from(vec![b'a' + (number % 26) as u8; len]);
    let target = match random.u8(..5) {
        0 => PurgedTarget::Everything,
        1 => PurgedTarget::Label { kind: random.u8(..), name },
        2 => PurgedTarget::Prefix(name),
        3 => PurgedTarget::Pattern(name),
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
    area: Extent,
    bytes: Vec<u8>,
    unflushed: Vec<(u64, Vec<u8>)>,
    /// Number of reads.
    reads: u64,
}

impl Device {
    fn new(len: u64) -> Device {
        let area = Extent { offset: 64 * KIB, len };
        Device { area, bytes: vec![0; len as usize], unflushed: Vec::new(), reads: 0 }
    }

    fn owner(&self, generation: u64) -> LogOwner {
        LogOwner { uuid: [3; 16], generation, area: self.area }
    }

    fn read(&mut self, extent: Extent) -> Option<Bytes> {
        self.reads += 1;
        let at = (extent.offset - self.area.offset) as usize;
        self.bytes.get(at..at + extent.len as usize).map(Bytes::copy_from_slice)
    }

    /// Opens the log at `now`, in unix seconds.
    fn open(&mut self, generation: u64, now: u64) -> PurgeLog {
        let owner = self.owner(generation);
        let head = self.read(FoundEnd::head(&owner));
        let found = FoundEnd::in_head(&secret(), &owner, head.as_deref());
        let read: Vec<_> = found.reads().into_iter().map(|extent| self.read(extent)).collect();
        PurgeLog::resume(&secret(), &owner, (found, &read), now)
    }

    fn flush(&mut self) {
        for (offset, bytes) in self.unflushed.drain(..) {
            let at = (offset - self.area.offset) as usize;
            self.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
        }
    }

    /// Simulates a power loss: all, nothing or a part of each unflushed write remains.
    fn lose_power(&mut self, random: &mut fastrand::Rng) {
        for (_, bytes) in &mut self.unflushed {
            match random.u8(..3) {
                0 => bytes.clear(),
                1 => bytes.truncate(512 * random.usize(..bytes.len() / 512)),
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

fn since(log: &mut PurgeLog, device: &mut Device, position: Option<PurgePosition>) -> PurgesSince {
    let mut question = PurgeQuestion::new(position);
    loop {
        match log.since(&mut question) {
            PurgeStep::Told(told) => return told,
            PurgeStep::Read(extent) => {
                let bytes = device.read(extent);
                question.reading.take(&secret(), device.area, bytes.as_ref());
            }
        }
    }
}

/// Returns the purges in `ranges`; `None` when the log does not have all of them.
fn lacking(
    log: &PurgeLog,
    device: &mut Device,
    mut ranges: Vec<PurgeRange>,
) -> Option<Vec<MadePurge>> {
    let mut all = Vec::new();
    loop {
        let mut question = LackingQuestion::new(&ranges);
        let told = loop {
            match log.lacking(&mut question) {
                LackingStep::Told(PurgesLacking::Purges(purges)) => break purges,
                LackingStep::Told(PurgesLacking::TooOld) => return None,
                LackingStep::Read(extent) => {
                    let bytes = device.read(extent);
                    question.reading.take(&secret(), device.area, bytes.as_ref());
                }
            }
        };
        if told.is_empty() {
            assert!(ranges.iter().all(|range| range.after >= range.through));
            return Some(all);
        }
        for MadePurge { maker, number, .. } in &told {
            let range = ranges.iter_mut().find(|range| range.maker == *maker).unwrap();
            assert_eq!(*number, range.after + 1);
            range.after = *number;
        }
        all.extend(told);
    }
}

fn follow(
    log: &mut PurgeLog,
    device: &mut Device,
    mut position: PurgePosition,
) -> Option<(Vec<LoggedPurge>, PurgePosition)> {
    let mut all = Vec::new();
    loop {
        match since(log, device, Some(position)) {
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

/// A log on a device, the purges logged, and the positions of followers.
struct Course {
    random: fastrand::Rng,
    device: Device,
    generation: u64,
    log: PurgeLog,
    /// The purges logged, in their order, and how many were acknowledged.
    model: Vec<MadePurge>,
    acknowledged: usize,
    followers: Vec<PurgePosition>,
    /// Number of purges that followers received, and of positions that were too old.
    followed: usize,
    too_old: usize,
    /// Number of purges told to nodes that lacked them, and of questions that were too old.
    told: usize,
    untold: usize,
}

impl Course {
    fn new(seed: u64) -> Course {
        let mut random = fastrand::Rng::with_seed(seed);
        // So short that it goes round.
        let mut device = Device::new(random.u64(4..40) * BLOCK);
        // Foreign bytes are not a log.
        random.fill(&mut device.bytes);
        let generation = 5;
        let mut log = device.open(generation, 0);
        sync(&mut log, &mut device);
        let (model, acknowledged, followers) = (Vec::new(), 0, vec![log.end()]);
        let (followed, too_old, told, untold) = (0, 0, 0, 0);
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
            told,
            untold,
        }
    }

    /// Returns the makers of purges: the store itself and others.
    fn makers(&self) -> [PurgeMaker; 4] {
        let incarnation = self.log.end().log;
        let name = |name: &'static str| Bytes::from_static(name.as_bytes());
        ["", "a", "another one with a long name", "b"]
            .map(|text| PurgeMaker { name: name(text), incarnation })
    }

    /// Returns the number of the last purge of a maker among the first `len` of the model.
    fn last(&self, maker: &PurgeMaker, len: usize) -> u64 {
        let mut of_maker = self.model[..len].iter().rev().filter(|made| made.maker == *maker);
        of_maker.next().map_or(0, |made| made.number)
    }

    fn purge(&mut self, step: u64) {
        let many = self.random.u8(..10) == 0;
        for _ in 0..if many { self.random.u8(1..150) } else { self.random.u8(1..4) } {
            let purge = any_purge(&mut self.random, step);
            let makers = self.makers();
            let maker = makers[self.random.usize(..4).saturating_sub(1)].clone();
            // Sometimes earlier ones are known otherwise.
            let is_other = !maker.name.is_empty();
            let skipped = if is_other && self.random.u8(..20) == 0 { 3 } else { 0 };
            let number = self.last(&maker, self.model.len()) + 1 + skipped;
            let made = MadePurge { maker, number, purge };
            match made.maker.name.is_empty() {
                true => _ = self.log.log(made.purge.clone()),
                false => {
                    self.log.log_made(made.clone());
                    // It comes again.
                    self.log.log_made(made.clone());
                }
            }
            self.model.push(made);
        }
    }

    fn sync(&mut self) {
        sync(&mut self.log, &mut self.device);
        self.acknowledged = self.model.len();
        self.check_vector();
    }

    /// Checks that the vector has what was acknowledged, and nothing else.
    fn check_vector(&self) {
        let vector = self.log.vector();
        for maker in self.makers() {
            let stated = vector.iter().find(|(other, _)| *other == maker);
            let stated = stated.map_or(0, |(_, number)| *number);
            assert_eq!(stated, self.last(&maker, self.acknowledged), "{maker:?}");
        }
    }

    fn own_purges(&self, from: u64, to: u64) -> Vec<LoggedPurge> {
        let own = self.model.iter().filter(|made| made.maker.name.is_empty());
        let own = own.filter(|made| (from + 1..=to).contains(&made.number));
        own.map(|made| made.purge.clone()).collect()
    }

    fn follow(&mut self) {
        let at = self.random.usize(..self.followers.len());
        let behind = self.followers[at];
        match follow(&mut self.log, &mut self.device, behind) {
            Some((purges, position)) => {
                assert_eq!(position, self.log.end());
                assert_eq!(purges, self.own_purges(behind.number, position.number));
                self.followers[at] = position;
                self.followed += purges.len();
            }
            None => {
                self.followers[at] = self.log.end();
                self.too_old += 1;
            }
        }
        self.ask();
    }

    /// Asks for purges that a node lacks.
    fn ask(&mut self) {
        let random = &mut self.random;
        let vector = self.log.vector().into_iter().filter(|_| random.bool());
        let vector: Vec<(PurgeMaker, u64)> = vector.collect();
        let mut range = |(maker, number): (PurgeMaker, u64)| {
            let after = number.saturating_sub(self.random.u64(..20 + number / 2));
            PurgeRange { maker, after, through: self.random.u64(after..=number) }
        };
        let ranges: Vec<PurgeRange> = vector.into_iter().map(&mut range).collect();
        let wanted = self.model.iter().filter(|made| {
            let mut of_maker = ranges.iter().filter(|range| range.maker == made.maker);
            of_maker.any(|range| (range.after + 1..=range.through).contains(&made.number))
        });
        let wanted: Vec<MadePurge> = wanted.cloned().collect();
        let all: u64 = ranges.iter().map(|range| range.through - range.after).sum();
        match lacking(&self.log, &mut self.device, ranges) {
            Some(told) => {
                assert_eq!((told.len() as u64, &told), (all, &wanted));
                self.told += told.len();
            }
            None => self.untold += 1,
        }
    }

    /// Has a follower ask while a block of the ring is damaged: it gets all, or learns that it is
    /// too far behind.
    fn follow_damaged(&mut self) {
        let place = self.random.usize(2..self.device.bytes.len() / BLOCK as usize);
        let byte = place * BLOCK as usize + self.random.usize(..BLOCK as usize);
        self.device.bytes[byte] ^= 1;
        self.follow();
        self.device.bytes[byte] ^= 1;
    }

    fn reopen(&mut self) {
        self.generation += 1;
        self.log = self.device.open(self.generation, 0);
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
        let before = self.log.end().log;
        self.reopen();
        let PurgePosition { log, number } = self.log.end();
        if log == before {
            let vector = self.log.vector();
            let is_known = |made: &MadePurge| {
                let stated = vector.iter().find(|(maker, _)| *maker == made.maker);
                stated.is_some_and(|(_, number)| made.number <= *number)
            };
            let known = self.model.iter().take_while(|made| is_known(made)).count();
            assert!(known >= self.acknowledged, "an acknowledged purge is missing");
            self.model.truncate(known);
        } else {
            // Another log begins with one that is lost: no follower has all of it.
            let purge = any_purge(&mut self.random, 0);
            let maker = self.makers()[0].clone();
            let lost = |number| MadePurge { maker: maker.clone(), number, purge: purge.clone() };
            self.model = (1..=number).map(lost).collect();
        }
        self.acknowledged = self.model.len();
        self.check_vector();
    }

    /// Stops and starts the cache, which loses nothing.
    fn restart(&mut self) {
        self.sync();
        self.sync();
        let before = self.log.end();
        self.reopen();
        assert_eq!(self.log.end(), before);
        self.check_vector();
    }
}

#[test]
fn a_follower_misses_no_purge_whatever_crashes() {
    let (mut followed, mut too_old, mut courses) = (0, 0, 0);
    let (mut told, mut untold) = (0, 0);
    for seed in seeds("purge_log::a_follower_misses_no_purge", 60) {
        courses += 1;
        let mut course = Course::new(seed);
        for step in 0..course.random.u64(10..400) {
            match course.random.u8(..20) {
                0..10 => course.purge(step),
                10..15 => course.sync(),
                15 => course.follow(),
                16 => course.follow_damaged(),
                17 => course.followers.push(course.log.end()),
                18 => course.crash(),
                _ => course.restart(),
            }
        }
        (followed, too_old) = (followed + course.followed, too_old + course.too_old);
        (told, untold) = (told + course.told, untold + course.untold);
    }
    // A single replayed seed need not meet all.
    let all_met = followed > 1_000 && too_old > 50 && told > 1_000 && untold > 50;
    let met = format!("{followed} followed, {too_old} too old, {told} told, {untold} not told");
    assert!(courses < 60 || all_met, "{met}");
}

/// A purge that takes a block of its own.
fn long(number: u64) -> LoggedPurge {
    let target = PurgedTarget::Prefix(Bytes::from(vec![b'x'; 3_000]));
    LoggedPurge { target, mode: Mode::Hard, at: number }
}

#[test]
fn full_blocks_without_the_last_one_and_the_last_one_without_them_undo_nothing() {
    for keeps_full in [true, false] {
        let mut device = Device::new(10 * BLOCK);
        let mut log = PurgeLog::new(&device.owner(1), 0);
        sync(&mut log, &mut device);
        (0..10).for_each(|number| _ = log.log(long(number)));
        sync(&mut log, &mut device);
        // They go over full blocks of the write before.
        (10..12).for_each(|number| _ = log.log(long(number)));
        let mut writes = log.begin_write(&secret()).unwrap().writes;
        let last = writes.split_off(writes.len() - 1);
        device.unflushed = if keeps_full { writes } else { last };
        device.flush();
        let mut resumed = device.open(2, 0);
        assert_eq!(resumed.end(), PurgePosition { number: 10, ..log.end() });
        let end = resumed.end();
        assert!(follow(&mut resumed, &mut device, end).is_some());
    }
}

#[test]
fn a_torn_block_that_the_log_has_not_come_to_does_not_end_it_later() {
    let mut device = Device::new(384 * KIB);
    let mut log = PurgeLog::new(&device.owner(1), 0);
    sync(&mut log, &mut device);
    // Of the three written blocks only a part of the second remains.
    for number in 0..3 {
        log.log(long(number));
    }
    let writes = log.begin_write(&secret()).unwrap().writes;
    let [(at, run), _] = &writes[..] else { panic!("the full blocks, and the last one") };
    assert_eq!(*at, device.area.offset + VERSION_PLACES * BLOCK);
    device.unflushed.push((at + BLOCK, run[BLOCK as usize..][..512].to_vec()));
    device.flush();
    let mut log = device.open(2, 0);
    assert_eq!(log.durable(), 0);
    let start = log.end();
    // The log later reaches the place of that torn block.
    for number in 0..3 {
        sync(&mut log, &mut device);
        log.log(long(number));
    }
    sync(&mut log, &mut device);
    log = device.open(3, 0);
    assert_eq!(follow(&mut log, &mut device, start).map(|(purges, _)| purges.len()), Some(3));
}

/// Logs `count` purges of a URL of 60 bytes, `at_once` before each flush.
fn fill(log: &mut PurgeLog, device: &mut Device, count: u64, at_once: u64) {
    for number in 0..count {
        let name =
            Bytes::from(format!("https://www.example.org/some/folder/page-{number:014}.html"));
        let target = PurgedTarget::Name(name);
        log.log(LoggedPurge { target, mode: Mode::Hard, at: number });
        if number % at_once == at_once - 1 {
            sync(log, device);
        }
    }
    sync(log, device);
}

#[test]
fn the_whole_area_is_used_and_a_restart_shortens_the_log_by_nothing() {
    let mut device = Device::new(1024 * KIB);
    let mut log = PurgeLog::new(&device.owner(1), 0);
    let (start, count) = (log.end(), 20_000);
    fill(&mut log, &mut device, count, 64);
    assert_eq!(since(&mut log, &mut device, Some(start)), PurgesSince::TooOld(log.end()));
    let reach = |log: &mut PurgeLog, device: &mut Device| {
        let all = (0..count).map(|number| PurgePosition { number, ..start });
        let mut known = all.skip_while(|position| {
            matches!(since(log, device, Some(*position)), PurgesSince::TooOld(_))
        });
        known.next().unwrap().number
    };
    let oldest = reach(&mut log, &mut device);
    // 53 to a block, in 252 of 256 places: four groups of 63.
    assert_eq!((count - oldest) / 53, 252);
    let mut resumed = device.open(2, 0);
    assert_eq!(reach(&mut resumed, &mut device), oldest);
    let oldest = PurgePosition { number: oldest, ..start };
    let (purges, _) = follow(&mut resumed, &mut device, oldest).unwrap();
    assert!(purges.iter().map(|purge| purge.at).eq(oldest.number..count));
}

#[test]
fn purges_of_one_flush_take_one_write_and_few_reads() {
    let mut device = Device::new(1024 * KIB);
    let mut log = PurgeLog::new(&device.owner(1), 0);
    sync(&mut log, &mut device);
    fill(&mut log, &mut device, 10_000, 10_000);
    assert!(log.pending.is_empty(), "what is durable is not kept");
    fill(&mut log, &mut device, 53, 1_000);
    let end = log.end();
    let mut log = device.open(2, 0);
    device.reads = 0;
    let (purges, _) = follow(&mut log, &mut device, PurgePosition { number: 0, ..end }).unwrap();
    assert_eq!(purges.len(), 10_053);
    // 256 purges at a time, and the search for the first one in 254 blocks.
    assert!((40..60).contains(&device.reads), "{} reads", device.reads);
}

#[test]
fn a_block_that_cannot_be_read_ends_what_the_log_reaches_back() {
    let mut device = Device::new(256 * KIB);
    let mut log = PurgeLog::new(&device.owner(1), 0);
    fill(&mut log, &mut device, 53 * 40, 64);
    let end = log.end();
    // In the middle, where a search looks first.
    device.bytes[(VERSION_PLACES as usize + 20) * BLOCK as usize + 100] ^= 1;
    let mut log = device.open(2, 0);
    let mut count = |number| {
        let position = PurgePosition { number, ..end };
        follow(&mut log, &mut device, position).map(|(purges, _)| purges.len() as u64)
    };
    assert_eq!([0, 53 * 20, 53 * 21 - 1].map(&mut count), [None; 3]);
    let later = [53 * 21, 53 * 30, 53 * 40];
    assert_eq!(later.map(&mut count), later.map(|number| Some(end.number - number)));
}

#[test]
fn a_new_log_knows_that_an_earlier_one_was_kept() {
    let mut device = Device::new(384 * KIB);
    device.bytes.fill(9);
    let mut log = device.open(1, 0);
    assert!(!log.was_kept());
    sync(&mut log, &mut device);
    assert!(device.open(2, 0).was_kept());
    let another = device.open(5, 0);
    assert!(another.was_kept());
    assert_ne!(another.end().log, log.end().log);
    fill(&mut log, &mut device, 100, 100);
    device.bytes[..2 * BLOCK as usize].fill(9);
    let another = device.open(2, 0);
    assert!(another.was_kept() && another.end().log != log.end().log);
}

#[test]
fn a_log_that_begins_later_has_a_greater_number() {
    let owner = Device::new(384 * KIB).owner(2);
    let first = PurgeLog::new(&LogOwner { generation: 9, ..owner }, 5).end().log;
    let mut log = PurgeLog::new(&LogOwner { uuid: [0xff; 16], ..owner }, 6);
    let second = log.end().log;
    assert!(first < second, "{first:x} {second:x}");
    log.begin_later(0);
    assert!(log.end().log > second);
    log.begin_later(u64::MAX / 2);
    assert_eq!(log.end().log, u64::MAX / 2 + 1);
}

#[test]
fn a_later_log_is_that_after_a_restart_and_has_the_purges_of_the_one_before() {
    let mut device = Device::new(384 * KIB);
    let mut log = PurgeLog::new(&device.owner(1), 0);
    fill(&mut log, &mut device, 1_000, 64);
    let before = log.end();
    log.begin_later(0);
    let after = log.end();
    sync(&mut log, &mut device);
    for log in [&mut log, &mut device.open(2, 0)] {
        assert_eq!(follow(log, &mut device, before), None);
        let start = PurgePosition { number: 0, ..after };
        assert_eq!(follow(log, &mut device, start).map(|(purges, _)| purges.len()), Some(1_000));
    }
}

fn made(name: &str, number: u64) -> MadePurge {
    let maker = PurgeMaker { name: Bytes::copy_from_slice(name.as_bytes()), incarnation: 7 };
    let purge = LoggedPurge { target: PurgedTarget::Everything, mode: Mode::Soft, at: number };
    MadePurge { maker, number, purge }
}

#[test]
fn the_number_of_a_maker_outlives_its_purges_in_the_log() {
    let mut device = Device::new(64 * KIB);
    let mut log = PurgeLog::new(&device.owner(1), 0);
    (1..4).for_each(|number| _ = log.log_made(made("a", number)));
    let unnamed = [String::new(), "x".repeat(256)];
    unnamed.iter().for_each(|name| _ = log.log_made(made(name, 1)));
    fill(&mut log, &mut device, 5_000, 64);
    let maker = made("a", 1).maker;
    let range = |after, through| vec![PurgeRange { maker: maker.clone(), after, through }];
    for mut log in [log, device.open(2, 0)] {
        assert_eq!(log.vector()[1..], [(maker.clone(), 3)]);
        assert_eq!(lacking(&log, &mut device, range(2, 3)), None);
        assert_eq!(lacking(&log, &mut device, range(3, 3)), Some(Vec::new()));
        log.log_made(made("a", 4));
        sync(&mut log, &mut device);
        assert_eq!(lacking(&log, &mut device, range(3, 4)), Some(vec![made("a", 4)]));
    }
}

#[test]
fn of_too_many_makers_the_one_whose_last_purge_is_the_oldest_is_forgotten() {
    let mut device = Device::new(1024 * KIB);
    let mut log = PurgeLog::new(&device.owner(1), 0);
    for number in 0..4_000 {
        log.log_made(made(&format!("node-{number}.example.org"), 1));
        log.log_made(made("often", number + 1));
    }
    sync(&mut log, &mut device);
    let vector = log.vector();
    assert!((1_000..2_000).contains(&vector.len()), "{}", vector.len());
    assert!(vector.contains(&(made("often", 1).maker, 4_000)));
    let kept = 4_001 - (vector.len() - 1);
    let is_kept = |(number, maker): (usize, &PurgeMaker)| {
        assert_eq!(vector.iter().any(|(kept, _)| kept == maker), number >= kept);
    };
    let makers = (0..4_000).map(|number| made(&format!("node-{number}.example.org"), 1).maker);
    makers.enumerate().for_each(|(number, maker)| is_kept((number, &maker)));
    assert_eq!(device.open(2, 0).vector().len(), vector.len());
}

#[test]
fn a_name_that_fits_no_block_makes_earlier_positions_too_old() {
    let mut device = Device::new(384 * KIB);
    let mut log = PurgeLog::new(&device.owner(1), 0);
    let start = log.end();
    let target = PurgedTarget::Prefix(Bytes::from(vec![b'x'; BLOCK as usize]));
    log.log(LoggedPurge { target, mode: Mode::Hard, at: 1 });
    sync(&mut log, &mut device);
    let end = log.end();
    assert_eq!(follow(&mut log, &mut device, start), None);
    assert!(follow(&mut log, &mut device, end).is_some());
}

#[test]
fn decoding_arbitrary_bytes_does_not_panic() {
    let mut device = Device::new(64 * KIB);
    let mut log = PurgeLog::new(&device.owner(1), 0);
    let mut random = fastrand::Rng::with_seed(1);
    for number in 0..600 {
        log.log(any_purge(&mut random, number));
        sync(&mut log, &mut device);
    }
    let (whole, end) = (device.bytes.clone(), log.end());
    for seed in seeds("purge_log::whatever_bytes", 100) {
        let mut random = fastrand::Rng::with_seed(seed);
        device.bytes = whole.clone();
        for _ in 0..random.usize(..30) {
            let at = random.usize(..whole.len());
            device.bytes[at] = random.u8(..);
        }
        device.bytes.truncate(random.usize(..=2 * whole.len()));
        let mut resumed = device.open(2, 0);
        assert!(resumed.end().log != end.log || resumed.durable() <= end.number);
        let start = PurgePosition { number: random.u64(..=end.number), ..end };
        let told = follow(&mut resumed, &mut device, start);
        assert!(told.is_none_or(|(purges, _)| start.number + purges.len() as u64 == end.number));
    }
}
