//! Checks of a configuration against this machine: missing files, unknown users, paths where
//! nothing can be created, and sizes that exceed the machine's.
//!
//! Guarantees: nothing is opened for writing, created or changed.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use cli::units::about;
use net::address::Locals;
use net::certificate::Certificate;
use nix::sys::statfs::{
    CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC, DEVPTS_SUPER_MAGIC, PROC_SUPER_MAGIC,
    SECURITYFS_MAGIC, SYSFS_MAGIC, TRACEFS_MAGIC, statfs,
};
use nix::unistd::{AccessFlags, Uid, User, access};
use proxy::observe::access_log::Destination;

use crate::caches::open_caches;
use crate::config::configuration::Config;
use crate::config::fleet::{FleetSettings, Surroundings};
use crate::config::listen_addr::ListenAddr;
use crate::config::sizing;
use crate::config::to_options::{guard, purging};
use crate::process::limits;
use crate::process::listen_sockets;

/// Workers per core above which additional workers only take turns.
const WORKERS_PER_CORE: usize = 4;

/// Returns the reasons why `config` cannot be served on this machine, each a sentence that begins
/// with the key.
pub fn obstacles(config: &Config) -> Vec<String> {
    let mut all = Vec::new();
    let mut keep = |key: &str, wrong: Option<String>| {
        all.extend(wrong.map(|why| format!("{key}: {why}")));
    };
    for certificate in &config.certificates {
        let key = certificate.key.as_ref().unwrap_or(&certificate.chain);
        keep("certificate", Certificate::load(&certificate.chain, key, &certificate.hosts).err());
    }
    let settings = &config.upstream_settings;
    if settings.tls.authorities.is_some() || settings.certificate.is_some() {
        keep("upstream", settings.tls().check().err());
    }
    all.extend(guard(config).err());
    all.extend(purging(config).err());
    let mut keep = |key: &str, wrong: Option<String>| {
        all.extend(wrong.map(|why| format!("{key}: {why}")));
    };
    let user = config.user.as_deref().map(limits::user).transpose();
    keep("user", user.as_ref().err().cloned());
    // The user that opens files late. Only root switches to another user.
    let late = user.ok().flatten().filter(|_| Uid::effective().is_root());
    for path in &config.cache {
        let missing = open_caches::is_device_name(path)
            .then(|| format!("{}: there is no such device", path.display()));
        let is_done_without = open_caches::is_read_only(path);
        keep("cache", missing.or_else(|| no_file(path, None)).filter(|_| !is_done_without));
    }
    let general = config.access_log.iter().map(|path| ("access-log", path.clone()));
    let of_sites = config.site_logs().into_values().flatten().map(|path| ("site.access-log", path));
    for (key, path) in general.chain(of_sites) {
        if let Ok(Destination::File(path)) = Destination::parse(&path) {
            keep(key, no_file(&path, late.as_ref()));
        }
    }
    for listener in config.all_listeners() {
        keep("listener", listen_sockets::owners(&listener).err());
        if let Some(ListenAddr::Unix(path)) = &listener.address {
            keep("listen", no_socket(path));
        }
    }
    all
}

/// Returns why a file at `path` cannot be opened or created by `user`, or by this process.
fn no_file(path: &Path, user: Option<&User>) -> Option<String> {
    let at = path.display();
    match fs::metadata(path) {
        Ok(data) if data.is_dir() => Some(format!("{at}: is a directory, expected a file")),
        Ok(data) => closed(path, &data, user, AccessFlags::R_OK | AccessFlags::W_OK)
            .map(|why| format!("{at}: {why}")),
        Err(_) => no_room(path, user),
    }
}

/// Returns why nothing can be created at `path`.
fn no_room(path: &Path, user: Option<&User>) -> Option<String> {
    let at = path.display();
    let directory = directory(path);
    let (data, within) = match fs::metadata(&directory) {
        Ok(data) => (data, directory.display()),
        Err(error) => return Some(format!("{at}: its directory cannot be used: {error}")),
    };
    if !data.is_dir() {
        return Some(format!("{at}: {within} is not a directory"));
    }
    if is_made_up(&directory) {
        return Some(format!(
            "{at}: {within} is a kernel file system, where no files can be created"
        ));
    }
    let wanted = AccessFlags::W_OK | AccessFlags::X_OK;
    closed(&directory, &data, user, wanted)
        .map(|why| format!("{at}: cannot be created in {within}: {why}"))
}

/// Returns whether the kernel generates the contents of a directory, so that permissions do not
/// matter.
fn is_made_up(directory: &Path) -> bool {
    let made_up = [
        CGROUP_SUPER_MAGIC,
        CGROUP2_SUPER_MAGIC,
        DEBUGFS_MAGIC,
        DEVPTS_SUPER_MAGIC,
        PROC_SUPER_MAGIC,
        SECURITYFS_MAGIC,
        SYSFS_MAGIC,
        TRACEFS_MAGIC,
    ];
    statfs(directory).is_ok_and(|about| made_up.contains(&about.filesystem_type()))
}

/// Returns why `user`, or this process, lacks the `wanted` access to `path`.
fn closed(
    path: &Path,
    data: &Metadata,
    user: Option<&User>,
    wanted: AccessFlags,
) -> Option<String> {
    match user {
        None => access(path, wanted).err().map(|error| error.desc().to_lowercase()),
        Some(user) if may(user, data, wanted) => None,
        Some(user) => Some(format!("permission denied for the user {}", user.name)),
    }
}

/// Returns whether the permissions of a file grant `user` the `wanted` access. Considers only the
/// primary group of the user.
fn may(user: &User, data: &Metadata, wanted: AccessFlags) -> bool {
    let shift = match () {
        () if data.uid() == user.uid.as_raw() => 6,
        () if data.gid() == user.gid.as_raw() => 3,
        () => 0,
    };
    let granted = (data.mode() >> shift) & 0o7;
    let wanted = wanted.bits() as u32 & 0o7;
    user.uid.is_root() || granted & wanted == wanted
}

/// Returns why no Unix socket can be bound at `path`.
fn no_socket(path: &Path) -> Option<String> {
    match fs::symlink_metadata(path) {
        Ok(data) if !data.file_type().is_socket() => {
            Some(format!("{}: something other than a socket is there", path.display()))
        }
        _ => no_room(path, None),
    }
}

/// Returns the settings of this process as a node of a fleet, if it is in one. The error contains
/// all problems, each a sentence.
pub fn fleet(config: &Config) -> Result<Option<FleetSettings>, Vec<String>> {
    let around = match config.fleet.listen {
        Some(_) => surroundings(config).map_err(|why| vec![why])?,
        None => Surroundings::default(),
    };
    config.fleet.settle(&around)
}

/// Returns the facts about this machine that a node of a fleet needs. The error is a sentence.
fn surroundings(config: &Config) -> Result<Surroundings, String> {
    let locals = Locals::of_this_machine()
        .map_err(|error| format!("cannot list the addresses of this machine: {error}"))?;
    let machine = nix::unistd::gethostname()
        .map_err(|error| format!("cannot read the name of this machine: {}", error.desc()))?;
    Ok(Surroundings {
        machine: machine.to_string_lossy().into_owned(),
        addresses: locals.iter().collect(),
        cache_bytes: config.cache.iter().map(|path| cache_bytes(config, path)).sum(),
    })
}

/// Returns the size of an existing cache, or of a new one.
fn cache_bytes(config: &Config, path: &Path) -> u64 {
    // The metadata of a device do not contain its length.
    let there = File::open(path).and_then(|mut file| file.seek(SeekFrom::End(0))).unwrap_or(0);
    let new = config.cache_size.unwrap_or_else(|| {
        let caches = config.cache.len() as u64;
        sizing::default_cache_size(sizing::free_space(path).unwrap_or(0), caches)
    });
    if there > 0 { there.max(config.cache_size.unwrap_or(0)) } else { new }
}

fn directory(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_owned()
}

/// Returns warnings about caches that cannot be used here; Larder serves without them.
pub fn unusable_caches(config: &Config) -> Vec<String> {
    let unusable = config.cache.iter().filter(|path| open_caches::is_read_only(path));
    let told = unusable.map(|path| {
        let at = path.display();
        format!("cache: {at}: its file system is read-only: Larder would serve without this cache")
    });
    told.collect()
}

/// Returns warnings about sizes that are allowed but exceed this machine's.
pub fn disproportions(config: &Config) -> Vec<String> {
    let mut all = beyond(config, sizing::machine_memory(), sizing::workers(None));
    all.extend(crowded(&wishes(config)));
    all
}

/// Returns warnings about sizes that exceed a machine with this memory in bytes, if known, and this
/// many cores.
fn beyond(config: &Config, memory: Option<u64>, cores: usize) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(there) = memory.filter(|there| config.memory > *there) {
        let wanted = about(config.memory);
        let there = about(there);
        all.push(format!("memory: {wanted} exceeds the {there} that this process may use"));
    }
    if config.memory_is_auto && config.memory < sizing::DEFAULT_MEMORY {
        let (chosen, usual) = (about(config.memory), about(sizing::DEFAULT_MEMORY));
        all.push(format!(
            "memory: \"auto\" is {chosen} here instead of {usual}: half of the memory that this \
             process may use"
        ));
    }
    if let Some(workers) = config.workers.filter(|asked| *asked > cores * WORKERS_PER_CORE) {
        all.push(format!(
            "workers: {workers} on {cores} cores take turns; \"auto\" starts one per core"
        ));
    }
    all
}

/// The space that the caches on one file system need.
#[derive(Debug, Default)]
struct Wish {
    paths: Vec<String>,
    wanted: u64,
    free: u64,
}

/// Returns the space that cache files to be created or grown need, by file system.
fn wishes(config: &Config) -> Vec<Wish> {
    let mut all: BTreeMap<u64, Wish> = BTreeMap::new();
    for path in &config.cache {
        let there = fs::metadata(path);
        let is_file = there.as_ref().map_or(true, |data| data.is_file());
        let has = there.map_or(0, |data| data.len());
        let wanted = config.cache_size.unwrap_or(0).saturating_sub(has);
        let Ok(place) = fs::metadata(directory(path)) else { continue };
        let Ok(free) = sizing::free_space(path) else { continue };
        if wanted > 0 && is_file {
            let wish = all.entry(place.dev()).or_default();
            wish.paths.push(path.display().to_string());
            (wish.wanted, wish.free) = (wish.wanted.saturating_add(wanted), free);
        }
    }
    all.into_values().collect()
}

fn crowded(wishes: &[Wish]) -> Vec<String> {
    let crowded = wishes.iter().filter(|wish| wish.wanted > wish.free);
    let told = crowded.map(|Wish { paths, wanted, free }| {
        let (paths, wanted, free) = (paths.join(", "), about(*wanted), about(*free));
        format!("cache-size: {wanted} needed for {paths}, but the file system has {free} free")
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file;
    use crate::config::layers::Layer;
    use crate::config::loaded::Loaded;

    fn config(text: &str) -> Config {
        let file =
            file::File::parse("larder.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
        let loaded = Loaded::build(&file, &Layer::new());
        loaded.unwrap_or_else(|problems| panic!("{problems}")).config
    }

    #[test]
    fn sizes_beyond_the_machine_are_reported() {
        let large = config("memory = '64G'\nworkers = 33");
        let said = beyond(&large, Some(16 << 30), 8);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("memory: 64G exceeds the") && said[1].contains("8 cores"));
        assert!(beyond(&large, None, 9).is_empty() && beyond(&config(""), None, 1).is_empty());
        let wish =
            |wanted, free| Wish { paths: vec!["a".to_owned(), "b".to_owned()], wanted, free };
        let said = crowded(&[wish(3 << 30, 2 << 30), wish(1, 1)]);
        assert_eq!(said, ["cache-size: 3G needed for a, b, but the file system has 2G free"]);
    }

    #[test]
    fn a_fleet_is_told_the_size_of_caches_that_are_there_and_of_new_ones() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        fs::write(&b, vec![0; 9 << 20]).unwrap();
        let text = format!("cache-size = '8M'\ncache = [{a:?}, {b:?}]");
        let found = surroundings(&config(&text)).unwrap();
        assert_eq!(found.cache_bytes, (8 << 20) + (9 << 20));
        assert!(!found.machine.is_empty() && !found.addresses.is_empty());
        let auto = surroundings(&config(&format!("cache = {a:?}"))).unwrap().cache_bytes;
        assert!(auto > 0 && auto <= sizing::DEFAULT_CACHE_SIZE);
    }

    #[test]
    fn two_caches_of_one_file_system_share_its_room() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        fs::write(&b, [0; 1000]).unwrap();
        let text = format!("cache-size = '8M'\ncache = [{a:?}, {b:?}]");
        let wishes = wishes(&config(&text));
        assert_eq!((wishes.len(), wishes[0].wanted), (1, (16 << 20) - 1000));
    }

    #[test]
    fn unusable_paths_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        fs::write(at("plain"), "").unwrap();
        let text = format!(
            "cache = [{:?}, {:?}, {:?}, {:?}]\naccess-log = {:?}\nuser = 'no-such-user-here'\n\
             listen = ['unix:{}', 'unix:{}']\nadmin-token-file = {:?}\n\
             [purge]\nsecret-file = {:?}\n\
             [[certificate]]\nchain = {:?}\n[[listener]]\naddress = 'unix:{}'\n\
             group = 'no-such-group'\n",
            at("missing/cache"),
            at("plain/cache"),
            at(""),
            at("fine"),
            at("none/log"),
            at("plain"),
            at("sock"),
            at("token"),
            at("secret"),
            at("cert.pem"),
            at("other"),
        );
        let said = obstacles(&config(&text));
        let expected = [
            "certificate: ",
            "admin-token-file: ",
            "purge.secret-file: ",
            "user: no user",
            "cache: ",
            "cache: ",
            "cache: ",
            "access-log: ",
            "listen: ",
            "listener: no group",
        ];
        assert_eq!(said.len(), expected.len(), "{said:#?}");
        for (said, expected) in said.iter().zip(expected) {
            assert!(said.starts_with(expected), "{said}: {expected}");
        }
    }

    #[test]
    fn permissions_are_read_as_the_system_does() {
        let dir = tempfile::tempdir().unwrap();
        let Ok(Some(mut user)) = User::from_uid(Uid::effective()) else { return };
        let data = fs::metadata(dir.path()).unwrap();
        assert!(may(&user, &data, AccessFlags::W_OK | AccessFlags::X_OK));
        (user.uid, user.gid) = (Uid::from_raw(77_777), nix::unistd::Gid::from_raw(77_777));
        assert!(!may(&user, &data, AccessFlags::W_OK), "a temporary directory is its owner's");
    }
}
