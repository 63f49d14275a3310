//! The parts that each server runs through: the first seconds, every page once, a warm-up, the
//! measured time, and the first seconds after a restart.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use testkit::address;
use testkit::file_system::FileSystem;
use testkit::loop_device::LoopDevice;
use testkit::memory_group::MemoryGroup;
use testkit::throttle::{Group, Limit, Limited};

use super::Plan;
use super::tree::NAME;
use crate::client::Protocol;
use crate::compare::{Comparison, Round};
use crate::load::{LoadOptions, PhaseKind, RequestsPerConnection, Sizes, Workload};
use crate::origin;
use crate::run::{End, Live, Pace, PhasePlan, Session, SessionOptions, Subject};
use crate::systems::{Role, Running, Setup, System, WebRoot};

/// The devices that all servers use in turn.
pub struct Devices<'a> {
    /// The file system with the tree.
    pub files: &'a FileSystem,
    /// The device of that file system.
    pub tree: &'a LoopDevice,
    /// The device of Larder's cache.
    pub cache: &'a LoopDevice,
}

/// The control groups of a server. Device limits are removed before the groups.
struct Groups {
    operations: Option<Group>,
    memory: MemoryGroup,
}

/// A server that is measured.
struct Measured<'a> {
    plan: &'a Plan,
    system: &'a System,
    devices: &'a Devices<'a>,
    groups: Groups,
    listen: SocketAddr,
    interrupted: &'a Arc<AtomicBool>,
    session: Session,
    rounds: Vec<(String, Round)>,
    say: &'a mut dyn FnMut(&str),
    watch: &'a mut dyn FnMut(&Live),
}

/// Measures a server, and returns the figures of each part with its name. Wrong responses are added
/// to `comparison`.
///
/// # Errors
/// Fails if the server does not start, or nothing is answered.
pub fn measure(
    plan: &Plan,
    system: &System,
    devices: &Devices,
    interrupted: &Arc<AtomicBool>,
    comparison: &mut Comparison,
    say: &mut dyn FnMut(&str),
    watch: &mut dyn FnMut(&Live),
) -> Result<Vec<(String, Round)>, String> {
    system.format(devices.cache.path(), plan.scenario.cache)?;
    let memory = MemoryGroup::new(plan.scenario.limit)?;
    let operations = plan.operations.map(|_| Group::beside(&memory)).transpose()?;
    let listen = address::free();
    let mut measured = Measured {
        session: session(plan, listen, interrupted)?,
        groups: Groups { operations, memory },
        rounds: Vec::new(),
        plan,
        system,
        devices,
        listen,
        interrupted,
        say,
        watch,
    };
    let parts = measured.all_parts();
    let (failures, count) = measured.session.failures();
    let failures = failures.iter().map(|failure| format!("{}: {failure}", system.name));
    comparison.failures.extend(failures);
    comparison.failure_count += count;
    parts.map(|()| measured.rounds)
}

fn session(
    plan: &Plan,
    target: SocketAddr,
    interrupted: &Arc<AtomicBool>,
) -> Result<Session, String> {
    let load = LoadOptions {
        workload: Workload::Site { pages: plan.scenario.pages },
        seed: plan.seed,
        sizes: Sizes::WEB,
        lifetime: 0,
        uncacheable: 0.0,
        ranges: 0.0,
        browser: false,
    };
    let options = SessionOptions {
        targets: vec![target],
        host: target.to_string(),
        is_forward: false,
        // Nothing asks it.
        origin: address::free_at_localhost(),
        name: NAME.to_owned(),
        answers: origin::Options::default(),
        load,
        protocol: Protocol::Http1,
        connections: plan.connections,
        requests_per_connection: RequestsPerConnection::Unlimited,
        timeout: Duration::from_secs(60),
        subject: Subject::default(),
    };
    Session::new(options, Arc::clone(interrupted))
}

impl Measured<'_> {
    fn all_parts(&mut self) -> Result<(), String> {
        let scenario = &self.plan.scenario;
        let server = self.start()?;
        self.first_parts("cold")?;
        self.part("first pass", PhaseKind::Fill, End::Requests(scenario.files))?;
        self.part("warm-up", PhaseKind::Steady, End::Requests(scenario.warm_up))?;
        let held = self.hold()?;
        self.part("measured", PhaseKind::Steady, End::After(self.plan.time))?;
        drop(held);
        drop(server);
        let _server = self.start()?;
        self.first_parts("restarted")
    }

    /// Starts the server with an empty kernel cache.
    fn start(&mut self) -> Result<Running, String> {
        self.devices.files.forget(self.devices.tree)?;
        self.devices.cache.forget()?;
        let Plan { scenario, base, core, connections, .. } = self.plan;
        let begin = Instant::now();
        let operations = self.groups.operations.as_ref().map(Group::processes);
        let groups = [self.groups.memory.processes()].into_iter().chain(operations).collect();
        let root = WebRoot {
            path: self.devices.files.path(),
            open_files: scenario.open_files,
            larder_memory: scenario.memory,
        };
        let setup = Setup {
            base,
            role: Role::WebServer(root),
            cache: self.devices.cache.path(),
            cache_bytes: scenario.cache,
            object_bytes: 11_000,
            connections: *connections,
            http2: false,
            is_site: false,
            objects: "/".to_owned(),
            memory: scenario.limit,
            listen: self.listen,
            origin: self.session.origin_address(),
            groups,
            core: *core,
        };
        let running = self.system.start(&setup, self.interrupted)?;
        (self.say)(&format!("   ready after {:.2} s", begin.elapsed().as_secs_f64()));
        let devices: Vec<PathBuf> =
            [self.devices.tree, self.devices.cache].map(|of| of.path().to_path_buf()).into();
        let processes = vec![running.process()];
        self.session.set_subject(Subject { processes, devices, system_calls: false });
        Ok(running)
    }

    /// Limits the devices to the configured operations until the returned value is dropped.
    fn hold(&self) -> Result<Vec<Limited>, String> {
        let Some((group, most)) = self.groups.operations.as_ref().zip(self.plan.operations) else {
            return Ok(Vec::new());
        };
        let devices = [self.devices.tree, self.devices.cache];
        devices.into_iter().map(|device| group.limit(device, Limit::both(most))).collect()
    }

    /// Measures the first seconds of a server.
    fn first_parts(&mut self, name: &str) -> Result<(), String> {
        let _held = self.hold()?;
        let mut before = Duration::ZERO;
        for end in &self.plan.first {
            let part = format!("{name}, to {} s", end.as_secs_f64());
            self.part(&part, PhaseKind::Steady, End::After(end.saturating_sub(before)))?;
            before = *end;
        }
        Ok(())
    }

    fn part(&mut self, name: &str, kind: PhaseKind, end: End) -> Result<(), String> {
        let plan = PhasePlan { name: name.to_owned(), kind, pace: Pace::Closed, end };
        let number = self.session.run(&plan, self.watch)?;
        // A restarted server is asked on new connections.
        self.session.settle()?;
        let mut figures = self.session.figures(number);
        if figures.answered == 0 && !self.session.is_interrupted() {
            return Err(format!("nothing was answered in {name:?}: {:?}", figures.errors));
        }
        figures.warn_of_generator(self.plan.generator_cores, &self.plan.timer, false);
        let memory = self.groups.memory.memory()?;
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let more = vec![
            ("own MB", mb(memory.own)),
            ("page cache MB", mb(memory.files)),
            ("kernel MB", mb(memory.kernel)),
        ];
        let round = Round { figures, more };
        (self.say)(&format!("   {name}: {round}"));
        self.rounds.push((name.to_owned(), round));
        Ok(())
    }
}
