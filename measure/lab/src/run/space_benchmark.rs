//! One workload on one or several space managers in a directory of this machine, for `larder lab
//! space`.
//!
//! Each manager works in a new directory below the given one. The directory is removed afterwards,
//! also when a signal ends the run ([`workload::cleanup`]); existing files are not touched. All
//! managers get the same requests, and so the same operations.

use std::io;
use std::path::{Path, PathBuf};

use store::{FormatOptions, Options, PRESETS};
use tokio::task::LocalSet;

use crate::run::replay::{ReplayOptions, Report, Stage, replay};
use crate::space::baselines::{
    BuddyFiles, FilePerObject, MultipleDirs, Simple, Squid, SyncPolicy, THRESHOLD_BLOCKS,
};
use crate::space::manager::{SpaceError, SpaceManager};
use crate::space::real_directory::RealDirectory;
use crate::space::real_engine;
use crate::space::real_engine::RealClock;
use workload::cleanup::TemporaryPath;
use workload::generator::Workload;
use workload::request::Request;
use workload::two_level::TwoLevel;

/// The paper's trace, scaled to the number of requests.
const WORKLOAD: &str = "dec-1996";
/// Its mean object in bytes.
const MEAN_OBJECT: u32 = 5_400;

/// A space manager.
#[derive(Clone, Copy)]
pub enum Manager {
    /// M1: a file per object in one directory.
    Simple,
    /// M2: a file per object in Squid's tree of directories.
    Squid,
    /// M3: a file per object in a directory per server.
    MultipleDirs,
    /// M4 on many files.
    BuddyFiles,
    /// The product's engine with the preset of this name.
    Engine(&'static str),
}

impl Manager {
    /// Returns all managers: the baselines in the order of the paper, then the engine's presets.
    pub fn all() -> Vec<Manager> {
        let baselines =
            [Manager::Simple, Manager::Squid, Manager::MultipleDirs, Manager::BuddyFiles];
        let presets = PRESETS.iter().map(|name| Manager::Engine(name));
        baselines.into_iter().chain(presets).collect()
    }

    /// Returns the name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Manager::Simple => "simple",
            Manager::Squid => "squid",
            Manager::MultipleDirs => "multiple-dirs",
            Manager::BuddyFiles => "buddy-files",
            Manager::Engine(preset) => preset,
        }
    }

    /// Returns a description in one line, for the help.
    pub fn about(&self) -> &'static str {
        match self {
            Manager::Simple => "a file per object, all in one directory",
            Manager::Squid => "a file per object, round robin over 16 x 256 directories",
            Manager::MultipleDirs => "a file per object, a directory per origin server",
            Manager::BuddyFiles => "a file per size class of 512-byte blocks",
            Manager::Engine(name) => store::preset(name).map_or("", |preset| preset.text),
        }
    }

    /// Returns the manager of this name.
    pub fn named(name: &str) -> Option<Manager> {
        Manager::all().into_iter().find(|manager| manager.name() == name)
    }
}

/// The plan of a run.
#[derive(Clone, Debug)]
pub struct SpacePlan {
    /// Directory below which each manager has a directory of its own.
    pub directory: PathBuf,
    /// Number of requests.
    pub requests: u64,
    /// Bytes of the memory cache.
    pub memory: u64,
    /// Bytes of objects that the disk cache holds.
    pub disk: u64,
    /// Percentage of the engine's file that the disk cache's objects may take, 10 to 100.
    pub utilization_percent: u32,
    /// Largest object of BUDDY that shares a file, in blocks of 512 bytes.
    pub threshold_blocks: u32,
    /// The engine's memory in bytes: index, tables, buffers, objects in flight.
    pub engine_memory: u64,
    /// Seed of the workload.
    pub seed: u64,
    /// When the baselines ask for durability.
    pub sync: SyncPolicy,
    /// How operations are issued.
    pub replay: ReplayOptions,
}

impl SpacePlan {
    /// Returns the paper's run scaled down to 1/32, in `directory`.
    pub fn new(directory: PathBuf) -> SpacePlan {
        SpacePlan {
            directory,
            requests: 33_000,
            memory: 16 << 20,
            disk: 64 << 20,
            utilization_percent: 70,
            threshold_blocks: THRESHOLD_BLOCKS,
            engine_memory: 64 << 20,
            seed: 1,
            sync: SyncPolicy::AtEnd,
            replay: ReplayOptions::default(),
        }
    }

    /// Returns the size of the engine's file in bytes.
    pub fn engine_file(&self) -> u64 {
        let percent = u128::from(self.utilization_percent.clamp(1, 100));
        let len = u128::from(self.disk) * 100 / percent;
        u64::try_from(len).unwrap_or(u64::MAX).max(store::CACHE_SIZE_MIN)
    }

    fn workload(&self) -> impl Iterator<Item = Request> + use<> {
        let requests = usize::try_from(self.requests).unwrap_or(usize::MAX);
        let workload = Workload::named(WORKLOAD).expect("it has a listed name");
        workload.with_requests(self.requests).iter(self.seed).take(requests)
    }
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum SpaceRunError {
    /// The directory cannot be used.
    #[error("{path}: cannot be used as a directory for the run: {error}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The file system has too little free space for the run.
    #[error(
        "{path}: the run may need {needed} bytes, but {free} are free; choose a smaller disk \
         cache or another directory"
    )]
    Room {
        /// The directory.
        path: PathBuf,
        /// Bytes that may be needed.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The manager failed.
    #[error(
        "{manager}: {error}{}",
        if .error.is_full() { "; choose a smaller disk cache or another directory" } else { "" }
    )]
    Space {
        /// Name of the manager.
        manager: &'static str,
        /// The reason.
        error: SpaceError,
    },
}

/// Runs the plan with one manager. Calls `progress` from time to time.
///
/// # Errors
/// The directory cannot be used, or the manager failed.
pub fn run(
    plan: &SpacePlan,
    manager: Manager,
    mut progress: impl FnMut(Stage),
) -> Result<Report, SpaceRunError> {
    check_room(plan)?;
    progress(Stage::Preparing);
    let unusable = |error| SpaceRunError::Directory { path: plan.directory.clone(), error };
    // Removed with its content at the end of the run, even after an error.
    let directory =
        tempfile::Builder::new().prefix("larder-lab-space-").tempdir_in(&plan.directory);
    let directory = directory.map_err(unusable)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(unusable)?;
    let _leftover = TemporaryPath::new(directory.path());
    let files = RealDirectory::new(directory.path()).map_err(unusable)?;
    let local = LocalSet::new();
    let report =
        local.block_on(&runtime, drive(plan, manager, files, directory.path(), &mut progress));
    progress(Stage::Removing);
    drop(directory);
    report.map_err(|error| SpaceRunError::Space { manager: manager.name(), error })
}

async fn drive(
    plan: &SpacePlan,
    manager: Manager,
    files: RealDirectory,
    directory: &Path,
    progress: impl FnMut(Stage),
) -> Result<Report, SpaceError> {
    let sync = plan.sync;
    match manager {
        Manager::Simple => {
            replay_on(plan, &FilePerObject::new(files, Simple, sync).await?, progress).await
        }
        Manager::Squid => {
            let squid = FilePerObject::new(files, Squid::default(), sync).await?;
            replay_on(plan, &squid, progress).await
        }
        Manager::MultipleDirs => {
            replay_on(plan, &FilePerObject::new(files, MultipleDirs, sync).await?, progress).await
        }
        Manager::BuddyFiles => {
            let buddy = BuddyFiles::new(files, plan.threshold_blocks, sync).await?;
            replay_on(plan, &buddy, progress).await
        }
        Manager::Engine(name) => {
            let preset = store::preset(name).expect("a preset has a listed name");
            let options = Options { memory: plan.engine_memory, ..preset.options };
            let format =
                FormatOptions { mean_object: Some(MEAN_OBJECT), labels: false, ..preset.format };
            let path = directory.join("cache.larder");
            let engine = real_engine::create(&path, plan.engine_file(), &format, options).await?;
            replay_on(plan, &engine, progress).await
        }
    }
}

async fn replay_on(
    plan: &SpacePlan,
    manager: &impl SpaceManager,
    progress: impl FnMut(Stage),
) -> Result<Report, SpaceError> {
    let mut cache = TwoLevel::new(plan.memory, plan.disk);
    let (clock, requests) = (RealClock::start(), plan.workload());
    replay(manager, &clock, requests, &mut cache, &plan.replay, progress).await
}

/// Rejects a run that may fill the file system.
fn check_room(plan: &SpacePlan) -> Result<(), SpaceRunError> {
    let path = &plan.directory;
    let found = rustix::fs::statvfs(path);
    let found = found
        .map_err(|error| SpaceRunError::Directory { path: path.clone(), error: error.into() })?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let needed = plan.engine_file();
    match needed > free {
        true => Err(SpaceRunError::Room { path: path.clone(), needed, free }),
        false => Ok(()),
    }
}
