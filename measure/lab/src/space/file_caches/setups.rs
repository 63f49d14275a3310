//! The set-ups of the papers' systems: drive, file system, memory, sizes of calls.
//!
//! A value that a paper leaves open is a field here or is mentioned where it is chosen;
//! docs/research/models.md lists them.

use sim::drives::Drive;
use sim::drives::mechanical::{Config, Controller, FastWrite, MechanicalDrive};
use sim::drives::shipped;
use sim::ffs::{Ffs, Parameters};
use sim::{Handle, Options, Order, SimDisk};

use super::diskd::{Diskd, Limits};
use super::documents::Documents;
use super::least_recent::LeastRecent;
use super::squid_ml::SquidMl;
use crate::space::baselines::{CallSizes, FilePerObject, Squid, SyncPolicy};
use crate::space::manager::SpaceError;
use crate::space::modelled_directory::ModelledFiles;
use workload::request::Object;

/// C18: bytes of memory for data.
pub const UCFS_MEMORY: u64 = 256 << 20;

/// C18: size of the largest cached object in bytes.
pub const LARGEST: u64 = 256 << 10;

/// A cache and the file systems below it, whose counts show the work of their disks.
pub struct OnModel<C> {
    /// The cache.
    pub cache: C,
    /// The file systems, one for each drive.
    pub file_systems: Vec<Ffs>,
}

/// Returns the shipped drive of this name.
///
/// # Errors
/// There is no such drive.
pub fn drive(name: &str, config: Config) -> Result<MechanicalDrive, SpaceError> {
    changed_drive(name, config, |_| {})
}

/// Returns the shipped drive of this name as a write-through drive: it acknowledges a write only
/// when it is on the medium.
///
/// # Errors
/// There is no such drive.
pub fn write_through_drive(name: &str, config: Config) -> Result<MechanicalDrive, SpaceError> {
    changed_drive(name, config, |controller| controller.fast_write = FastWrite::Never)
}

/// Returns the shipped drive of this name with a changed controller.
///
/// # Errors
/// There is no such drive.
pub fn changed_drive(
    name: &str,
    config: Config,
    change: impl FnOnce(&mut Controller),
) -> Result<MechanicalDrive, SpaceError> {
    let unknown = || SpaceError::Engine(format!("there is no drive {name:?}"));
    let file = shipped::named(name).ok_or_else(unknown)?;
    let drive = file.and_then(|mut file| {
        change(&mut file.controller);
        MechanicalDrive::new(&file, config)
    });
    drive.map_err(|error| SpaceError::Engine(error.to_string()))
}

/// Creates a disk of `len` bytes from the beginning of `drive` (all of it with `None`). Waiting
/// requests are sorted by position, as kernels do.
pub fn disk(clock: &Handle, drive: impl Drive + 'static, len: Option<u64>) -> SimDisk {
    let options = Options { len, order: Order::Sweep, power_loss: false, ..Options::default() };
    SimDisk::new(clock.clone(), Box::new(drive), options)
}

fn make(clock: &Handle, disk: SimDisk, parameters: Parameters) -> Result<Ffs, SpaceError> {
    let ffs = Ffs::new(clock.clone(), disk, parameters);
    ffs.map_err(|error| SpaceError::Engine(error.to_string()))
}

/// Creates SQUID/FFS of C15; with [`Parameters::asynchronous`] parameters, SQUID/FFS-async. It has
/// a file per object in Squid's tree, the directory by a hash of the URL, and LRU over `capacity`
/// bytes.
///
/// # Errors
/// The parameters do not fit the disk.
pub async fn squid_on_ffs(
    clock: &Handle,
    disk: SimDisk,
    parameters: Parameters,
    capacity: u64,
) -> Result<OnModel<LeastRecent<FilePerObject<ModelledFiles, Squid>>>, SpaceError> {
    let ffs = make(clock, disk, parameters)?;
    let files = ModelledFiles::new(ffs.clone());
    let manager = FilePerObject::new(files, Squid::by_url(), SyncPolicy::AtEnd).await?;
    let cache = LeastRecent::new(manager, 0, capacity, LARGEST);
    Ok(OnModel { cache, file_systems: vec![ffs] })
}

/// Creates SQUIDML of C15: `mapped` bytes of the `capacity` are the mapped file.
///
/// # Errors
/// The parameters do not fit the disk.
pub async fn squid_ml(
    clock: &Handle,
    disk: SimDisk,
    parameters: Parameters,
    capacity: u64,
    mapped: u64,
) -> Result<OnModel<SquidMl>, SpaceError> {
    let ffs = make(clock, disk, parameters)?;
    let files = ModelledFiles::new(ffs.clone());
    let tree = Squid::by_server();
    let manager = FilePerObject::new(files.clone(), tree, SyncPolicy::AtEnd).await?;
    let large = LeastRecent::new(manager, 0, capacity.saturating_sub(mapped), LARGEST);
    let cache = SquidMl::new(files, mapped, large)?;
    Ok(OnModel { cache, file_systems: vec![ffs] })
}

/// Creates the web server of T5: `documents` on FFS-async.
///
/// # Errors
/// They do not fit on the disk.
pub fn web_server(
    clock: &Handle,
    disk: SimDisk,
    parameters: Parameters,
    documents: impl IntoIterator<Item = Object>,
) -> Result<OnModel<Documents>, SpaceError> {
    let ffs = make(clock, disk, parameters)?;
    let cache = Documents::new(ModelledFiles::new(ffs.clone()), documents)?;
    Ok(OnModel { cache, file_systems: vec![ffs] })
}

/// A machine of U8.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Name of the shipped drive that stands for the machine's drive.
    pub drive: &'static str,
    /// Number of drives.
    pub drives: usize,
    /// Bytes of objects in Squid's own memory.
    pub memory: u64,
    /// Bytes of the system's memory for files, over all drives. The paper does not state it. This
    /// is the machine's memory less Squid, its index of some 800,000 objects, and the system.
    pub buffers: u64,
    /// Bytes of objects on the disks.
    pub capacity: u64,
}

impl Machine {
    /// 256 MB of memory, a Seagate ST320414A, 10 GB of cache.
    pub const LOW_END: Machine = Machine {
        drive: "st320414a",
        drives: 1,
        memory: 100 << 20,
        buffers: 48 << 20,
        capacity: 10 << 30,
    };

    /// 1 GB of memory, five SCSI disks of 9 GB and 10,000 rpm, 10 GB of cache.
    pub const HIGH_END: Machine = Machine {
        drive: "st39102lw",
        drives: 5,
        memory: 300 << 20,
        buffers: 400 << 20,
        capacity: 10 << 30,
    };

    /// The calls of Squid 2.4: writes of 8,192 bytes, reads of 4,096.
    pub const CALLS: CallSizes = CallSizes { read: 4_096, write: 8_192 };
}

/// Creates Squid 2.4 with DISKD of U8: a cache directory on each drive of `machine`.
///
/// # Errors
/// There is no such drive.
pub async fn squid_diskd(
    clock: &Handle,
    machine: &Machine,
    limits: Limits,
) -> Result<OnModel<LeastRecent<Diskd<ModelledFiles>>>, SpaceError> {
    let buffers = machine.buffers / machine.drives.max(1) as u64;
    let mut file_systems = Vec::new();
    for _ in 0..machine.drives {
        let drive = drive(machine.drive, Config::Shipped)?;
        let parameters = Parameters::freebsd_ufs(buffers);
        file_systems.push(make(clock, disk(clock, drive, None), parameters)?);
    }
    let files = file_systems.iter().cloned().map(ModelledFiles::new);
    let manager = Diskd::new(files, Machine::CALLS, limits).await?;
    let cache = LeastRecent::new(manager, machine.memory, machine.capacity, u64::MAX);
    Ok(OnModel { cache, file_systems })
}
