//! A model of a mechanical drive.
//!
//! It follows the mechanism: the controller's overhead, the seek along the measured curve, the wait
//! for the sector, the transfer over tracks with their skews, and the concurrent bus transfer.
//! While idle, the drive reads ahead into the segments of its on-board cache. Writes are
//! acknowledged from the buffer and reach the medium afterwards. There is no randomness: the angle
//! under the heads follows from the time.
//!
//! Guarantees: the same requests at the same times complete at the same times.

mod buffer;
pub(crate) mod controller;
mod geometry;
mod media;
mod reads;
mod writes;

pub use controller::{Controller, FastWrite, Overheads, ReadAhead};
pub use geometry::{Geometry, Run};
pub use media::{Arm, Media};

use device::Nanos;

use crate::drives::drive_file::{DriveFile, Refused};
use crate::drives::{Drive, Operation, Request};
use buffer::Buffer;
use writes::Unwritten;

/// Which parts of a drive are modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Config {
    /// All, with the settings of the data file.
    #[default]
    Shipped,
    /// All, but on a fast bus of 0.0032 ms per sector (160 MB/s).
    FastBus,
    /// Arm and spindle only: the fast bus, without caching, reading ahead and early acknowledgement
    /// of writes.
    Mech,
}

impl Config {
    /// The names on the command line.
    pub const NAMES: [&'static str; 3] = ["shipped", "fastbus", "mech"];

    /// Returns the configuration with this name.
    pub fn named(name: &str) -> Option<Config> {
        match name {
            "shipped" => Some(Config::Shipped),
            "fastbus" => Some(Config::FastBus),
            "mech" => Some(Config::Mech),
            _ => None,
        }
    }

    fn apply(self, controller: &mut Controller) {
        if self != Config::Shipped {
            controller.bus = FAST_BUS;
        }
        if self == Config::Mech {
            controller.caching = false;
            controller.read_ahead = ReadAhead::None;
            controller.fast_write = FastWrite::Never;
        }
    }
}

/// Bus time of [`Config::FastBus`] in milliseconds per sector.
const FAST_BUS: f64 = 0.0032;

/// A mechanical drive in virtual time.
#[derive(Clone, Debug)]
pub struct MechanicalDrive {
    /// Number of nominal sectors.
    sectors: u64,
    media: Media,
    controller: Controller,
    arm: Arm,
    /// Kind of the previous request, and the sector after its last one.
    before: Operation,
    before_end: u64,
    buffer: Buffer,
    /// Time at which everything acknowledged will be on the medium.
    written: f64,
    unwritten: Unwritten,
}

impl MechanicalDrive {
    /// Returns the drive that `file` describes, with its arm on the first cylinder and an empty
    /// buffer.
    pub fn new(file: &DriveFile, config: Config) -> Result<MechanicalDrive, Refused> {
        let mut controller = file.controller.clone();
        config.apply(&mut controller);
        Ok(MechanicalDrive {
            sectors: file.blocks,
            media: Media::new(file, Geometry::new(file)?),
            buffer: Buffer::new(&controller),
            controller,
            arm: Arm { cylinder: 0, head: 0 },
            before: Operation::Read,
            before_end: u64::MAX,
            written: 0.0,
            unwritten: Unwritten::default(),
        })
    }

    /// Returns the number of sectors of the medium: the nominal ones and a few more, which requests
    /// may also address.
    pub fn capacity(&self) -> u64 {
        self.media.geometry.sectors()
    }

    /// Returns the overhead, from a pair, for the kind of the previous request.
    fn overhead(&self, pair: [f64; 2]) -> f64 {
        self.controller.overheads.request + pair[usize::from(self.before == Operation::Write)]
    }
}

impl Drive for MechanicalDrive {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn depth(&self) -> usize {
        1
    }

    fn serve(&mut self, now: Nanos, request: Request) -> Nanos {
        let start = now as f64 * 1e-6;
        let Request { operation, sector, sectors } = request;
        assert!(
            sector.checked_add(sectors).is_some_and(|end| end <= self.capacity()),
            "{request:?} is beyond the drive's {} sectors",
            self.capacity()
        );
        let done = match operation {
            Operation::Flush => self.written.max(start),
            _ if sectors == 0 => start,
            Operation::Read => self.read(start, sector, sectors),
            Operation::Write => self.write(start, sector, sectors),
        };
        if operation != Operation::Flush {
            self.before = operation;
            self.before_end = sector + sectors;
        }
        // Rounded, but never before its start.
        ((done * 1e6).round() as Nanos).max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drives::shipped;

    fn drive(name: &str, config: Config) -> MechanicalDrive {
        MechanicalDrive::new(&shipped::named(name).unwrap().unwrap(), config).unwrap()
    }

    fn request(operation: Operation, sector: u64, sectors: u64) -> Request {
        Request { operation, sector, sectors }
    }

    const MS: Nanos = 1_000_000;

    #[test]
    fn read_ahead_sectors_come_from_the_buffer() {
        let mut drive = drive("atlas10k", Config::Shipped);
        let done = drive.serve(0, request(Operation::Read, 4_000_000, 8));
        assert!(done > 2 * MS);
        // The overhead of a hit, and eight sectors over the bus.
        let again = done + 5 * MS;
        let hit = drive.serve(again, request(Operation::Read, 4_000_008, 8)) - again;
        assert_eq!(hit, 184_000 + 8 * 99_000);
        // Without a buffer it takes nearly a rotation.
        let mut bare = self::drive("atlas10k", Config::Mech);
        let done = bare.serve(0, request(Operation::Read, 4_000_000, 8));
        let missed = bare.serve(done, request(Operation::Read, 4_000_008, 8)) - done;
        assert!((5 * MS..7 * MS).contains(&missed), "{missed}");
    }

    #[test]
    fn some_drives_read_ahead_behind_a_second_read_only() {
        let mut drive = drive("atlas_III", Config::Shipped);
        let mut at = 4_000_000;
        let mut now = 0;
        let mut read = |now: &mut Nanos, gap| {
            at += gap;
            let begin = *now;
            *now = drive.serve(begin, request(Operation::Read, at, 8)) + 20 * MS;
            at += 8;
            *now - 20 * MS - begin
        };
        let times = [0, 0, 0, 16].map(|gap| read(&mut now, gap));
        let hit = 374_000 + 8 * 106_000;
        assert!(times[0] > 2 * hit && times[1] > 2 * hit, "{times:?}");
        assert_eq!(times[2..], [hit; 2]);
    }

    #[test]
    fn a_fast_write_is_acknowledged_early_and_a_flush_waits_for_it() {
        let mut drive = drive("atlas10k", Config::Shipped);
        let done = drive.serve(0, request(Operation::Write, 9_000_000, 8));
        assert_eq!(done, 186_000 + 8 * 99_000);
        let flushed = drive.serve(done, request(Operation::Flush, 0, 0));
        assert!((3 * MS..20 * MS).contains(&flushed), "{flushed}");
        assert_eq!(drive.serve(flushed + 1, request(Operation::Flush, 0, 0)), flushed + 1);
        // A second write that arrives while the first is in progress waits for the medium.
        let mut drive = self::drive("atlas10k", Config::Shipped);
        drive.serve(0, request(Operation::Write, 9_000_000, 8));
        let second = drive.serve(done, request(Operation::Write, 1_000_000, 8));
        assert_eq!(second, flushed + 8 * 99_000);
        // Written sectors can be read from the buffer.
        let read = drive.serve(second, request(Operation::Read, 1_000_000, 8)) - second;
        assert_eq!(read, 184_000 + 8 * 99_000);
    }

    #[test]
    fn a_write_through_is_done_when_it_is_on_the_medium() {
        let mut drive = drive("hp_c3323a", Config::Shipped);
        let done = drive.serve(0, request(Operation::Write, 700_000, 8));
        assert!(done > 5 * MS);
        assert_eq!(drive.serve(done, request(Operation::Flush, 0, 0)), done);
    }

    #[test]
    fn sequential_writes_share_the_buffer_until_it_is_full() {
        let mut drive = drive("atlas10k", Config::FastBus);
        let mut now = 0;
        let mut times = Vec::new();
        for index in 0..4 {
            let done = drive.serve(now, request(Operation::Write, index * 128, 128));
            times.push(done - now);
            now = done;
        }
        // 128 sectors at 0.0032 ms. A segment holds 374 sectors, so the third request waits.
        assert_eq!(times[0], 186_000 + 128 * 3_200);
        assert_eq!(times[1], 189_000 + 128 * 3_200);
        assert!(times[2] > 9 * MS, "{times:?}");
        assert_eq!(times[3], 189_000 + 128 * 3_200);
    }

    /// Random requests at random times: none completes before its bus time has passed, and none
    /// before an earlier one.
    #[test]
    fn answers_come_in_order_on_every_drive() {
        for (number, name) in shipped::names().enumerate() {
            for config in [Config::Shipped, Config::FastBus, Config::Mech] {
                let seed = number as u64;
                let mut random = fastrand::Rng::with_seed(seed);
                let mut drive = drive(name, config);
                let all = drive.capacity();
                let (mut now, mut at) = (0, 0);
                for step in 0..3_000 {
                    let sectors = random.u64(1..=700);
                    // Near, far, next, or the same again.
                    at = match random.u32(..4) {
                        0 => random.u64(..all),
                        1 => at + sectors,
                        2 => at.saturating_sub(random.u64(..2_000)),
                        _ => at,
                    };
                    at = at.min(all - sectors);
                    let operation = match random.u32(..20) {
                        0 => Operation::Flush,
                        even if even % 2 == 0 => Operation::Write,
                        _ => Operation::Read,
                    };
                    let done = drive.serve(now, request(operation, at, sectors));
                    let title = format!("{name} {config:?} seed {seed} step {step}");
                    assert!(done >= now, "{title}");
                    assert!(done < now + 2_000 * MS, "{title}: {}", done - now);
                    if operation != Operation::Flush {
                        let least = sectors as f64 * drive.controller.bus.min(0.003) * 1e6;
                        assert!((done - now) as f64 >= least.floor(), "{title}");
                    }
                    now = done + random.u64(..15 * MS);
                }
            }
        }
    }

    /// The drive serves requests with any controller settings that a data file may contain.
    #[test]
    fn any_controller_answers() {
        for seed in 0..150 {
            let mut random = fastrand::Rng::with_seed(seed);
            let names: Vec<&str> = shipped::names().collect();
            let mut file = shipped::named(random.choice(names).unwrap()).unwrap().unwrap();
            let controller = &mut file.controller;
            controller.bus = random.f64() * 0.3;
            controller.segments = random.u32(1..4);
            controller.segment = random.u64(1..600);
            controller.read_watermark = random.f64();
            controller.watermark_of_request = random.bool();
            let ends = [ReadAhead::None, ReadAhead::Track, ReadAhead::Segment];
            controller.read_ahead = *random.choice(&ends).unwrap();
            controller.read_ahead_behind_reads = random.bool();
            controller.read_ahead_most = random.u64(..600);
            controller.read_ahead_over_requested = random.bool();
            controller.read_ahead_on_hit = random.bool();
            controller.stop_in_sector = random.bool();
            controller.caching = random.bool();
            controller.combine_writes = random.bool();
            controller.read_written = random.bool();
            let whens = [FastWrite::Never, FastWrite::Always];
            controller.fast_write = *random.choice(&whens).unwrap();
            let mut drive = MechanicalDrive::new(&file, Config::Shipped).unwrap();
            let (mut now, mut at) = (0, 0);
            for step in 0..200 {
                let sectors = random.u64(1..300);
                if random.bool() {
                    at = random.u64(..drive.capacity());
                }
                at = at.min(drive.capacity() - sectors);
                let operation = if random.bool() { Operation::Read } else { Operation::Write };
                let done = drive.serve(now, request(operation, at, sectors));
                assert!(done >= now && done < now + 2_000 * MS, "seed {seed} step {step}");
                at += sectors;
                now = done + random.u64(..10 * MS) * random.u64(..2);
            }
        }
    }

    #[test]
    fn configurations_have_names() {
        for name in Config::NAMES {
            assert!(Config::named(name).is_some(), "{name}");
        }
        assert_eq!(Config::named("slow"), None);
    }
}
