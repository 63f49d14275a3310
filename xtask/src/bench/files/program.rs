//! The program that each system runs through: the first seconds, every page once, a warm-up, the
//! counted requests, and the first seconds after a restart.

use std::path::Path;
use std::time::{Duration, Instant};

use testkit::loop_device::{Blocks, LoopDevice};
use testkit::memory_group::MemoryGroup;
use testkit::throttle::{Group, Limit, Limited};

use super::figures::{Figures, Moment};
use super::load::Load;
use super::scenario::Scenario;
use crate::bench::interruption;
use crate::bench::options::Options;
use crate::bench::system::{Running, Setup, System, WebRoot};
use testkit::file_system::FileSystem;

/// Number of parts of the counted requests that are reported separately.
const PARTS: u64 = 4;

/// Timing of a program.
pub struct Pace {
    /// Seconds after a start at which figures are reported.
    pub seconds: &'static [f64],
    /// Allocation of the cache device's blocks before the measurement.
    pub cache_blocks: Blocks,
}

impl Pace {
    /// The timing of a real measurement.
    pub const FULL: Pace = Pace { seconds: &[1.0, 2.0, 5.0], cache_blocks: Blocks::Written };
}

/// The devices that all systems use in turn.
#[derive(Clone, Copy)]
pub struct Devices<'a> {
    /// The file system with the tree.
    pub files: &'a FileSystem,
    /// The device of that file system.
    pub tree: &'a LoopDevice,
    /// The device of larder's cache.
    pub cache: &'a LoopDevice,
}

/// The program for one system.
pub struct Program<'a> {
    /// Number of connections, and device limits.
    pub options: &'a Options,
    /// Tree and memory.
    pub scenario: &'a Scenario,
    /// Timing.
    pub pace: &'a Pace,
    /// The system.
    pub system: &'a System,
    /// The directory that contains the system's own.
    pub base: &'a Path,
    /// The devices.
    pub devices: Devices<'a>,
    /// The core of the server.
    pub core: usize,
}

/// The control groups of the server. Device limits are removed before the groups.
struct Groups {
    operations: Option<Group>,
    memory: MemoryGroup,
}

impl Program<'_> {
    /// Runs the program and returns the figures of each part.
    ///
    /// # Errors
    ///
    /// When the server does not start or responds wrongly, or the program is interrupted.
    pub fn run(&self) -> Result<Vec<Figures>, String> {
        let scenario = self.scenario;
        self.system.empty(self.devices.cache.path(), scenario.cache_gib)?;
        let memory = MemoryGroup::new(scenario.limit_mib << 20)?;
        let operations = self.options.operations.map(|_| Group::beside(&memory)).transpose()?;
        let groups = Groups { operations, memory };
        let server = self.start(&groups)?;
        let mut load = Load::new(server.address(), self.options.connections, scenario.pages);
        let mut all = self.first_seconds("cold", &server, &groups, &load)?;
        let begin = self.now(&server, &groups, &load)?;
        load.run_all()?;
        let passed = self.now(&server, &groups, &load)?;
        all.push(self.tell("first pass", &begin, &passed));
        load.run(scenario.warm_up, None)?;
        let warm = self.now(&server, &groups, &load)?;
        all.push(self.tell("warm-up", &passed, &warm));
        all.extend(self.counted(&server, &groups, &load)?);
        drop(server);
        let server = self.start(&groups)?;
        load.reconnect(server.address());
        all.extend(self.first_seconds("restarted", &server, &groups, &load)?);
        Ok(all)
    }

    /// Starts the server with an empty kernel cache.
    fn start(&self, groups: &Groups) -> Result<Running, String> {
        interruption::check()?;
        self.devices.files.forget(self.devices.tree)?;
        self.devices.cache.forget()?;
        let begin = Instant::now();
        let memory = groups.memory.processes();
        let operations = groups.operations.as_ref().map(Group::processes);
        let server = self.system.start(&Setup {
            base: self.base,
            cache: self.devices.cache.path(),
            cache_gib: self.scenario.cache_gib,
            memory_mib: self.scenario.memory_mib,
            root: WebRoot {
                path: self.devices.files.path(),
                open_files: self.scenario.open_files,
                limit_mib: self.scenario.limit_mib,
            },
            groups: [memory].into_iter().chain(operations).collect(),
            core: Some(self.core),
        })?;
        println!("   ready after {:.2} s", begin.elapsed().as_secs_f64());
        Ok(server)
    }

    /// Limits the devices to the configured operations until the returned value is dropped.
    fn hold(&self, groups: &Groups) -> Result<Vec<Limited>, String> {
        let Some((group, most)) = groups.operations.as_ref().zip(self.options.operations) else {
            return Ok(Vec::new());
        };
        let devices = [self.devices.tree, self.devices.cache];
        devices.into_iter().map(|device| group.limit(device, Limit::both(most))).collect()
    }

    /// Reports the first seconds of a server, each from its start.
    fn first_seconds(
        &self,
        name: &str,
        server: &Running,
        groups: &Groups,
        load: &Load,
    ) -> Result<Vec<Figures>, String> {
        let _held = self.hold(groups)?;
        let before = self.now(server, groups, load)?;
        let end = |seconds: &f64| before.at + Duration::from_secs_f64(*seconds);
        let ends: Vec<Instant> = self.pace.seconds.iter().map(end).collect();
        let mut moments = Vec::new();
        load.run_past(&ends, || {
            moments.push(self.now(server, groups, load)?);
            Ok(())
        })?;
        let parts = self.pace.seconds.iter().zip(&moments);
        let tell = |(seconds, now)| self.tell(&format!("{name}, {seconds} s"), &before, now);
        Ok(parts.map(tell).collect())
    }

    /// Reports the counted requests, by parts and in total.
    fn counted(
        &self,
        server: &Running,
        groups: &Groups,
        load: &Load,
    ) -> Result<Vec<Figures>, String> {
        let _held = self.hold(groups)?;
        let seconds = Duration::from_secs(self.options.files.tree_part_seconds);
        let first = self.now(server, groups, load)?;
        let mut all = Vec::new();
        let mut before = first;
        for part in 1..=PARTS {
            load.run(self.scenario.requests.div_ceil(PARTS), Some(before.at + seconds))?;
            let now = self.now(server, groups, load)?;
            all.push(self.tell(&format!("{part}/{PARTS}"), &before, &now));
            before = now;
        }
        all.push(self.tell("all", &first, &before));
        Ok(all)
    }

    fn tell(&self, part: &str, from: &Moment, to: &Moment) -> Figures {
        let figures = Figures::between(&self.system.name, part, from, to);
        println!("   {figures}");
        figures
    }

    fn now(&self, server: &Running, groups: &Groups, load: &Load) -> Result<Moment, String> {
        Ok(Moment {
            at: Instant::now(),
            requests: load.requests(),
            cpu_seconds: server.cpu()?,
            tree: self.devices.tree.operations()?,
            cache: self.devices.cache.operations()?,
            memory: groups.memory.memory()?,
        })
    }
}
