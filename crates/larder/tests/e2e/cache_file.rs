//! The file or device of the cache: which users and processes may open it, and the effects of
//! damage.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;

use testkit::larder::{Larder, Setup, larder};
use testkit::loop_device::{Blocks, LoopDevice};
use testkit::origin::Origin;
use testkit::skip::skipped;

/// Offsets of the two copies of the superblock. Tests keep the magic at their heads when they
/// damage them: without it the file would count as foreign.
const SUPERBLOCKS: [u64; 2] = [0, (64 << 20) - (64 << 10)];
const MAGIC_LEN: u64 = 8;

fn spoil(path: &Path, offset: u64) {
    let mut file = OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(offset + MAGIC_LEN + 4)).unwrap();
    file.write_all(&[0xa5; 1024]).unwrap();
}

fn bytes_at(path: &Path, offset: u64, len: usize) -> Vec<u8> {
    let mut file = File::open(path).unwrap();
    file.seek(SeekFrom::Start(offset)).unwrap();
    let mut bytes = vec![0; len];
    file.read_exact(&mut bytes).unwrap();
    bytes
}

/// Returns targets of small and large objects in several directories.
fn target(i: u64) -> String {
    format!("/dir{}/page{i}?size={}", i % 10, 1000 + i * 5_000)
}

/// Stores the objects, also on disk.
fn store(larder: &Larder, origin: &Origin) {
    store_some(larder, origin, 20);
}

fn store_some(larder: &Larder, origin: &Origin, count: u64) {
    for i in 0..count {
        let target = target(i);
        larder.get(&origin.url(&target)).verify(&target);
    }
}

/// Returns how many of the stored objects are served without a fetch, checking every byte.
fn hits(larder: &Larder, origin: &Origin) -> usize {
    hits_of(larder, origin, 20)
}

fn hits_of(larder: &Larder, origin: &Origin, count: u64) -> usize {
    let hit = |i: &u64| {
        let target = target(*i);
        let reply = larder.get(&origin.url(&target));
        reply.verify(&target);
        reply.outcome().starts_with("HIT")
    };
    (0..count).filter(hit).count()
}

#[test]
fn the_cache_is_created_at_its_size_and_for_its_owner_only() {
    use std::os::unix::fs::MetadataExt;
    let setup = Setup::forward();
    let larder = setup.start();
    let about = fs::metadata(setup.cache()).unwrap();
    assert_eq!(about.len(), 64 << 20);
    assert_eq!(about.mode() & 0o777, 0o600);
    assert!(about.blocks() * 512 >= 64 << 20, "not preallocated: {} blocks", about.blocks());
    larder.stop();
}

#[test]
fn a_second_process_on_the_same_cache_is_refused() {
    let first = Setup::forward();
    let larder = first.start();
    let second = Setup::forward().cache_at(&first.cache());
    let (status, said) = second.refused();
    assert!(!status.success());
    assert!(said.contains(&first.cache().display().to_string()), "{said}");
    larder.stop();
}

#[test]
fn a_second_process_on_the_same_address_is_refused() {
    let first = Setup::forward();
    let larder = first.start();
    let (status, said) = Setup::forward().listen(larder.address()).refused();
    assert!(!status.success());
    assert!(said.contains(&larder.address().to_string()), "{said}");
    larder.stop();
}

#[test]
fn somebody_s_file_is_not_overwritten() {
    let setup = Setup::forward();
    let text = "the only copy of a novel\n".repeat(1000);
    fs::write(setup.cache(), &text).unwrap();
    let (status, said) = setup.refused();
    assert!(!status.success());
    assert!(said.contains("larder format"), "{said}");
    assert!(said.contains("--force"), "{said}");
    assert_eq!(fs::read_to_string(setup.cache()).unwrap(), text);
}

#[test]
fn format_asks_for_force_before_it_overwrites() {
    let setup = Setup::forward();
    fs::write(setup.cache(), "something").unwrap();
    let path = setup.cache().display().to_string();
    let (status, said) = larder(&["format", &path, "--cache-size", "64M"]);
    assert!(!status.success(), "{said}");
    assert_eq!(fs::read_to_string(setup.cache()).unwrap(), "something");
    let (status, said) = larder(&["format", &path, "--cache-size", "64M", "--force"]);
    assert!(status.success(), "{said}");
    let origin = Origin::start();
    let running = setup.start();
    store(&running, &origin);
    assert_eq!(hits(&running, &origin), 20);
    let (status, said) = larder(&["format", &path, "--cache-size", "64M", "--force"]);
    assert!(!status.success(), "formatted a cache in use: {said}");
    running.stop();
}

#[test]
fn one_damaged_superblock_copy_is_survived() {
    for damaged in SUPERBLOCKS {
        let (origin, setup) = (Origin::start(), Setup::forward());
        let running = setup.start();
        store(&running, &origin);
        running.stop();
        spoil(&setup.cache(), damaged);
        let running = setup.start();
        assert_eq!(hits(&running, &origin), 20, "copy at {damaged}");
        running.stop();
    }
}

#[test]
fn with_both_superblock_copies_damaged_it_serves_and_overwrites_nothing() {
    let (origin, setup) = (Origin::start(), Setup::forward());
    let running = setup.start();
    store(&running, &origin);
    running.stop();
    for damaged in SUPERBLOCKS {
        spoil(&setup.cache(), damaged);
    }
    let before = fs::read(setup.cache()).unwrap();
    let running = setup.start();
    assert_eq!(hits(&running, &origin), 0);
    assert_eq!(hits(&running, &origin), 0);
    assert!(running.says("superblock"), "{}", running.said());
    running.stop();
    assert!(before == fs::read(setup.cache()).unwrap(), "it wrote to a cache that it cannot read");
}

#[test]
fn what_is_written_over_the_begin_of_it_costs_no_superblock() {
    let (origin, setup) = (Origin::start(), Setup::forward());
    let running = setup.start();
    store(&running, &origin);
    running.stop();
    // Like a partition table, or another file system that was begun.
    let mut file = OpenOptions::new().write(true).open(setup.cache()).unwrap();
    file.write_all(&[0; 1 << 20]).unwrap();
    let running = setup.start();
    assert!(running.says("superblock"), "{}", running.said());
    assert_eq!(hits(&running, &origin), 20);
    running.stop();
}

#[test]
fn with_both_superblocks_written_over_it_serves_and_formats_nothing() {
    let (origin, setup) = (Origin::start(), Setup::forward());
    let running = setup.start();
    store(&running, &origin);
    running.stop();
    for place in SUPERBLOCKS {
        let mut file = OpenOptions::new().write(true).open(setup.cache()).unwrap();
        file.seek(SeekFrom::Start(place)).unwrap();
        file.write_all(&[0; 4096]).unwrap();
    }
    let before = fs::read(setup.cache()).unwrap();
    let running = setup.start();
    assert_eq!(hits(&running, &origin), 0);
    let path = setup.cache().display().to_string();
    for word in ["NOT IN USE", "both superblock copies", "larder format --force", &path] {
        assert!(running.says(word), "{word}: {}", running.said());
    }
    running.stop();
    assert!(before == fs::read(setup.cache()).unwrap(), "it wrote to what it cannot read");
}

#[test]
fn a_damaged_body_is_a_miss_and_never_served() {
    let (origin, setup) = (Origin::start(), Setup::forward());
    let running = setup.start();
    store(&running, &origin);
    running.stop();
    // Damage everything after the structures at the head, which is all records: one bit in each 4
    // KiB.
    let path = setup.cache();
    let mut all = fs::read(&path).unwrap();
    let begin = first_body(&all);
    for byte in all[begin..].iter_mut().step_by(4096) {
        *byte ^= 0x10;
    }
    fs::write(&path, &all).unwrap();
    let running = setup.start();
    let mut cut = 0;
    for i in 0..20 {
        let target = target(i);
        let reply = running.get(&origin.url(&target));
        // Damage after the first piece is detected when the head has already been sent.
        reply.verify_from(&target, 0);
        cut += usize::from(!reply.whole);
    }
    assert!(cut < 10, "{cut} of 20 answers were cut");
    hits(&running, &origin);
    assert_eq!(hits(&running, &origin), 20, "what was damaged is fetched and stored again");
    running.stop();
}

/// Returns the position of the first stored object's body in the image of a cache.
fn first_body(image: &[u8]) -> usize {
    let name = testkit::body::Name { target: target(0), version: 0, variant: String::new() };
    let mut body = vec![0; 64];
    testkit::body::fill(name.seed(), 0, &mut body);
    image.windows(body.len()).position(|w| w == body).expect("the body lies in the cache")
}

#[test]
fn a_cache_file_that_shrinks_under_it_costs_hits_only() {
    let (origin, setup) = (Origin::start(), Setup::forward().flag("memory", "16M"));
    let running = setup.start();
    store(&running, &origin);
    running.await_written();
    OpenOptions::new().write(true).open(setup.cache()).unwrap().set_len(2 << 20).unwrap();
    for round in 0..3 {
        hits(&running, &origin);
        for i in 0..10 {
            let target = format!("/round{round}/{i}?size=500000");
            running.get(&origin.url(&target)).verify(&target);
        }
    }
    assert_eq!(running.get(&origin.url("/last")).status, 200);
    running.stop();
}

#[test]
fn a_larger_size_grows_the_cache_and_keeps_what_it_holds() {
    let (origin, setup) = (Origin::start(), Setup::forward());
    let running = setup.start();
    store(&running, &origin);
    running.stop();
    let setup = setup.flag("cache-size", "128M");
    let running = setup.start();
    assert_eq!(fs::metadata(setup.cache()).unwrap().len(), 128 << 20);
    assert_eq!(hits(&running, &origin), 20);
    running.stop();
    let setup = setup.without("cache-size");
    let running = setup.start();
    assert_eq!(fs::metadata(setup.cache()).unwrap().len(), 128 << 20);
    assert_eq!(hits(&running, &origin), 20);
    running.stop();
}

#[test]
fn a_cache_that_does_not_fit_names_needed_and_free_space() {
    let setup = Setup::forward().flag("cache-size", "500T").flag("memory", "10T");
    let (status, said) = setup.refused();
    assert!(!status.success());
    assert!(said.contains("free"), "{said}");
    let left = fs::metadata(setup.cache()).map_or(0, |m| m.len());
    assert_eq!(left, 0, "a file of {left} bytes was left behind");
}

#[test]
fn an_index_that_does_not_fit_in_memory_is_refused_with_figures() {
    let setup = Setup::forward().flag("cache-size", "64G").flag("memory", "16M");
    let (status, said) = setup.refused();
    assert!(!status.success());
    assert!(said.contains("--memory"), "{said}");
}

#[test]
fn a_cache_can_be_inspected_while_it_is_in_use() {
    let (origin, setup) = (Origin::start(), Setup::forward());
    let running = setup.start();
    store(&running, &origin);
    running.await_written();
    let path = setup.cache().display().to_string();
    for what in ["superblock", "clusters", "verify"] {
        let (status, said) = larder(&["inspect", &path, what]);
        assert!(status.success(), "{what}: {said}");
        assert!(!said.trim().is_empty(), "{what}");
    }
    let url = origin.url(&target(3));
    let (status, said) = larder(&["inspect", &path, "object", &url]);
    assert!(status.success(), "{said}");
    let (_, said) = larder(&["inspect", &path, "object", &origin.url("/never")]);
    assert!(said.to_lowercase().contains("not"), "{said}");
    assert_eq!(hits(&running, &origin), 20);
    running.stop();
}

#[test]
fn two_caches_share_the_objects_and_one_lost_costs_its_share() {
    // Enough objects that a split of all to one device cannot be chance.
    const COUNT: u64 = 100;
    let (origin, setup) = (Origin::start(), Setup::forward());
    let second = setup.path("second");
    let setup = setup.more("cache", &second.display().to_string());
    let running = setup.start();
    store_some(&running, &origin, COUNT);
    assert_eq!(hits_of(&running, &origin, COUNT), COUNT as usize);
    running.stop();
    for damaged in SUPERBLOCKS {
        spoil(&second, damaged);
    }
    let running = setup.start();
    let kept = hits_of(&running, &origin, COUNT);
    assert!(kept > 0 && kept < COUNT as usize, "{kept} of {COUNT} objects were found");
    running.stop();
}

/// Returns a block device, or the reason for which there is none.
fn block_device(setup: &Setup) -> Result<LoopDevice, String> {
    LoopDevice::over(&setup.path("disk"), 64 << 20, Blocks::Sparse)
}

#[test]
fn a_block_device_is_a_cache_like_a_file() {
    let setup = Setup::forward();
    let disk = match block_device(&setup) {
        Ok(disk) => disk,
        Err(why) => return skipped(&format!("no block device: {why}")),
    };
    let setup = setup.without("cache-size").cache_at(disk.path());
    let origin = Origin::start();
    let running = setup.start();
    store(&running, &origin);
    running.await_written();
    running.kill();
    let running = setup.start();
    assert_eq!(hits(&running, &origin), 20);
    running.stop();
}

#[test]
fn a_block_device_with_a_file_system_is_not_overwritten() {
    let setup = Setup::forward();
    let disk = match block_device(&setup) {
        Ok(disk) => disk,
        Err(why) => return skipped(&format!("no block device: {why}")),
    };
    let made = Command::new("mkfs.ext4").arg("-q").arg(disk.path()).status();
    if !made.is_ok_and(|s| s.success()) {
        return skipped("no mkfs.ext4");
    }
    let before = bytes_at(disk.path(), 0, 1 << 20);
    let setup = setup.without("cache-size").cache_at(disk.path());
    let (status, said) = setup.refused();
    assert!(!status.success());
    assert!(said.contains("larder format"), "{said}");
    assert!(before == bytes_at(disk.path(), 0, 1 << 20), "{said}");
}
