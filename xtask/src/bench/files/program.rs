//! What one system goes through: the first seconds, every page once, a warm-up, requests that
//! count, and the first seconds after a start anew.

use std::path::Path;
use std::time::{Duration, Instant};

use testbed::loop_device::{Blocks, LoopDevice};
use testbed::memory_group::MemoryGroup;
use testbed::throttle::{Group, Limit, Limited};

use super::figures::{Figures, Moment};
use super::load::Load;
use super::scenario::Scenario;
use crate::bench::interruption;
use crate::bench::options::Options;
use crate::bench::system::{Running, Setup, System, WebRoot};
use testbed::file_system::FileSystem;

/// Parts of the requests that are reported one by one.
const PARTS: u64 = 4;

/// The times of a program.
pub struct Pace {
    /// The seconds after a start that are reported.
    pub seconds: &'static [f64],
    /// Whether nothing of the cache's device is allocated while something is measured.
    pub cache_blocks: Blocks,
}

impl Pace {
    /// That of a measurement.
    pub const FULL: Pace = Pace { seconds: &[1.0, 2.0, 5.0], cache_blocks: Blocks::Written };
}

/// What all systems have in turn.
#[derive(Clone, Copy)]
pub struct Devices<'a> {
    /// The tree.
    pub files: &'a FileSystem,
    /// The device that it lies on.
    pub tree: &'a LoopDevice,
    /// The device of larder's cache.
    pub cache: &'a LoopDevice,
}

/// See the module.
pub struct Program<'a> {
    /// Connections, and operations of devices.
    pub options: &'a Options,
    /// Tree and memory.
    pub scenario: &'a Scenario,
    /// The times.
    pub pace: &'a Pace,
    /// The system.
    pub system: &'a System,
    /// The directory in which it has one of its own.
    pub base: &'a Path,
    /// The devices.
    pub devices: Devices<'a>,
    /// The core of the server.
    pub core: usize,
}

/// The groups that the server is in. The limits of the devices are dropped before it.
struct Groups {
    operations: Option<Group>,
    memory: MemoryGroup,
}

impl Program<'_> {
    /// Runs it and returns the figures of each part.
    ///
    /// # Errors
    ///
    /// When the server does not start or answers wrongly, or the program is interrupted.
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

    /// Starts the server with nothing in the kernel's cache.
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

    /// Holds the devices to the operations that the options say, until what is returned is dropped.
    fn hold(&self, groups: &Groups) -> Result<Vec<Limited>, String> {
        let Some((group, most)) = groups.operations.as_ref().zip(self.options.operations) else {
            return Ok(Vec::new());
        };
        let devices = [self.devices.tree, self.devices.cache];
        devices.into_iter().map(|device| group.limit(device, Limit::both(most))).collect()
    }

    /// Reports the first seconds of a server, each time from its start.
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

    /// Reports the requests that count, by parts and in all.
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
