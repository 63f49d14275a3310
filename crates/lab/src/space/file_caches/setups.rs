//! The systems as the papers set them up: drive, file system, memory, sizes of calls.
//!
//! What a paper leaves open is a field here or is said where it is chosen;
//! docs/research/models.md lists it.

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

/// C18: bytes of memory that cache data.
pub const UCFS_MEMORY: u64 = 256 << 20;

/// C18: nothing larger is cached.
pub const LARGEST: u64 = 256 << 10;

/// A cache and the file systems below it, whose counts tell what their disks did.
pub struct OnModel<C> {
    /// The cache.
    pub cache: C,
    /// One for each drive.
    pub file_systems: Vec<Ffs>,
}

/// The shipped drive of this name.
///
/// # Errors
/// There is none.
pub fn drive(name: &str, config: Config) -> Result<MechanicalDrive, SpaceError> {
    changed_drive(name, config, |_| {})
}

/// The shipped drive of this name, which acknowledges a write only when it is on the medium.
///
/// # Errors
/// There is none.
pub fn write_through_drive(name: &str, config: Config) -> Result<MechanicalDrive, SpaceError> {
    changed_drive(name, config, |controller| controller.fast_write = FastWrite::Never)
}

/// The shipped drive of this name, changed.
///
/// # Errors
/// There is none.
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

/// A disk of `len` bytes from the beginning of `drive` (all of it with `None`), requests sorted by
/// position as kernels do.
pub fn disk(clock: &Handle, drive: impl Drive + 'static, len: Option<u64>) -> SimDisk {
    let options = Options { len, order: Order::Sweep, power_loss: false, ..Options::default() };
    SimDisk::new(clock.clone(), Box::new(drive), options)
}

fn make(clock: &Handle, disk: SimDisk, parameters: Parameters) -> Result<Ffs, SpaceError> {
    let ffs = Ffs::new(clock.clone(), disk, parameters);
    ffs.map_err(|error| SpaceError::Engine(error.to_string()))
}

/// C15, SQUID/FFS, and with parameters that are [`Parameters::asynchronous`] SQUID/FFS-async: a
/// file per object in Squid's tree, the directory by a hash of the URL; LRU over `capacity` bytes.
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

/// C15, SQUIDML: `mapped` bytes of the `capacity` are the mapped file.
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

/// T5: a web server's `documents` on FFS-async.
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
    /// The shipped drive that stands for the machine's.
    pub drive: &'static str,
    /// How many.
    pub drives: usize,
    /// Bytes of objects in Squid's own memory.
    pub memory: u64,
    /// Bytes of memory that the system has for files, over all drives. The paper does not say;
    /// this is what is left of the machine beside Squid, its index of some 800,000 objects and the
    /// system.
    pub buffers: u64,
    /// Bytes of objects on the disks.
    pub capacity: u64,
}

impl Machine {
    /// 256 MB, a Seagate ST320414A, 10 GB of cache.
    pub const LOW_END: Machine = Machine {
        drive: "st320414a",
        drives: 1,
        memory: 100 << 20,
        buffers: 48 << 20,
        capacity: 10 << 30,
    };

    /// 1 GB, five SCSI disks of 9 GB and 10,000 rpm, 10 GB of cache.
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

/// U8, Squid 2.4 with DISKD: a directory on each drive of `machine`.
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
