//! A system that runs on its own bed on this machine, with its load.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use testkit::address;

use crate::client::Protocol;
use crate::load::{LoadOptions, RequestsPerConnection};
use crate::origin;
use crate::run::{Live, PhasePlan, Session, SessionOptions, Subject};
use crate::systems::{Bed, Grant, Role, Running, Setup, System};

/// The requests to a system, and how they are sent.
#[derive(Clone, Debug)]
pub struct SystemLoad {
    /// The requests.
    pub load: LoadOptions,
    /// How the origin responds; all random choices follow from its seed.
    pub answers: origin::Options,
    /// The protocol towards the system.
    pub protocol: Protocol,
    /// Maximum number of connections.
    pub connections: usize,
    /// Requests per connection.
    pub requests_per_connection: RequestsPerConnection,
    /// Approximate size of an object in bytes.
    pub object_bytes: u64,
    /// True if system calls are counted.
    pub system_calls: bool,
}

/// A running system with its load. The fields are dropped in this order.
pub struct UnderLoad {
    /// The system's name.
    pub name: String,
    /// The load.
    pub session: Session,
    /// The system's processes.
    pub running: Running,
    bed: Bed,
}

/// Time for the last stored objects to reach the device.
const SETTLE: Duration = Duration::from_secs(2);

impl UnderLoad {
    /// Starts a system on a fresh device.
    ///
    /// # Errors
    /// Fails if there is no device, or the system does not start.
    pub fn start(
        grant: &Grant,
        system: &System,
        asked: &SystemLoad,
        interrupted: &Arc<AtomicBool>,
        notes: &mut Vec<String>,
    ) -> Result<UnderLoad, String> {
        let bed = Bed::new(grant, system, &system.name, notes)?;
        let (origin, listen): (SocketAddr, SocketAddr) =
            (address::free_at_localhost(), address::free());
        let cache = bed.cache();
        let setup = Setup {
            base: &grant.base,
            role: Role::Cache,
            cache: &cache,
            cache_bytes: grant.cache,
            object_bytes: asked.object_bytes,
            connections: asked.connections,
            http2: asked.protocol.is_http2(),
            is_site: asked.load.browser,
            objects: "/bench-".to_owned(),
            memory: grant.memory,
            listen,
            origin,
            groups: bed.groups(),
            core: grant.core,
        };
        let options = SessionOptions {
            targets: vec![listen],
            host: listen.to_string(),
            is_forward: false,
            origin,
            name: format!("bench-{}", asked.answers.seed),
            answers: asked.answers.clone(),
            load: asked.load.clone(),
            protocol: asked.protocol,
            connections: asked.connections,
            requests_per_connection: asked.requests_per_connection,
            timeout: Duration::from_secs(60),
            subject: Subject::default(),
        };
        // The origin must exist before the system connects to it.
        let mut session = Session::new(options, Arc::clone(interrupted))?;
        let running = system.start(&setup, interrupted)?;
        session.set_subject(Subject {
            processes: vec![running.process()],
            devices: vec![bed.device().to_path_buf()],
            system_calls: asked.system_calls,
        });
        Ok(UnderLoad { name: system.name.clone(), session, running, bed })
    }

    /// Returns the path of its cache.
    pub fn cache(&self) -> PathBuf {
        self.bed.cache()
    }

    /// Fills its cache, if it is to be filled.
    ///
    /// # Errors
    /// Fails if nothing responded, or the kernel refuses.
    pub fn fill(
        &mut self,
        plan: Option<&PhasePlan>,
        watch: &mut dyn FnMut(&Live),
    ) -> Result<(), String> {
        let Some(plan) = plan else { return Ok(()) };
        let number = self.session.run(plan, watch)?;
        self.session.settle()?;
        let figures = self.session.figures(number);
        if self.running.has_ended() && !self.session.is_interrupted() {
            let said = self.running.said();
            return Err(format!(
                "it ended while it was filled: of too little memory, if it says nothing. {said}"
            ));
        }
        match figures.answered {
            0 if !self.session.is_interrupted() => {
                let said = self.running.said();
                Err(format!("nothing was answered: {:?}; {said}", figures.errors))
            }
            _ => Ok(()),
        }
    }

    /// Waits until stored objects are on the device, and limits the device's operations per second.
    ///
    /// # Errors
    /// Fails if data cannot be written, or such limits are not supported.
    pub fn hold(&mut self, operations: Option<u32>) -> Result<(), String> {
        std::thread::sleep(SETTLE);
        self.bed.settle(operations)
    }
}
