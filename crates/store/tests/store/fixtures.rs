//! Images of caches written by earlier builds, in `tests/fixtures/`: their objects are found today,
//! byte for byte, even if the image is damaged.
//!
//! There is a pair for each format version: `v1-stopped.image` after an orderly stop, and
//! `v1-killed.image` of the same cache a moment before, as a kill would leave it. Version 2 has
//! another pair for each layout of slots: `v2-stream-stopped.image` and so on. From version 3 on
//! they contain purges of a label and of a prefix. They never change while their version can be
//! read. When the version rises, add new pairs: `LARDER_WRITE_FIXTURES=1 cargo
//! test -p larder-store --test store old_images_are` writes them.
//!
//! An image file holds, after the device's length, the 512-byte sectors that are not all zero, each
//! behind its number (both little-endian, 8 and 4 bytes).

use std::path::PathBuf;

use bytes::{Bytes, BytesMut};
use device::{Device, Extent, MemoryDevice};
use larder_store::{
    FORMAT_VERSION, Hint, Key, LayoutName, Locality, Lookup, Mode, Target, superblock_extents,
};

use crate::purging;
use crate::rig::{Rig, formatted, product, use_layout};
use crate::seeds::seeds;

const SECTOR: usize = 512;

/// The last state stored under a number: version, count of the metadata, length of the body.
fn expected(number: u32) -> Option<(u32, u32, usize)> {
    match number {
        0..3 => Some((2, 0, 900)),
        4 | 5 => None,
        6 => Some((1, 1, 4_000)),
        12 => Some((1, 1, 70_000)),
        3..15 => Some((1, 0, number as usize * 700)),
        _ => None,
    }
}

fn key(number: u32) -> Key {
    let name = format!("http://example.org/fixture/{number}");
    Key::new(Bytes::from(name), Locality { site: 1, group: u64::from(number / 4) }).unwrap()
}

fn meta(number: u32, version: u32, count: u32) -> Bytes {
    Bytes::from(format!("object {number}, version {version}, metadata {count}"))
}

/// Computes a body from number and version, without a generator that could change.
fn body(number: u32, version: u32, len: usize) -> Bytes {
    let mut state = number * 1_000 + version + 1;
    let mut bytes = BytesMut::zeroed(len);
    for byte in bytes.iter_mut() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = (state >> 24) as u8;
    }
    bytes.freeze()
}

fn put(rig: &mut Rig, number: u32, version: u32, len: usize) {
    let store = rig.store.clone();
    rig.run(async {
        let token = store.begin_fetch(&key(number));
        let hint = Hint { size: Some(len as u64), ..Hint::default() };
        let meta = meta(number, version, 0);
        let mut writer = store.insert(&token, &key(number), meta, hint).await.unwrap();
        writer.write(body(number, version, len)).await.unwrap();
        writer.commit().await.unwrap();
    });
}

fn refresh(rig: &mut Rig, number: u32) {
    let store = rig.store.clone();
    rig.run(async {
        let token = store.begin_fetch(&key(number));
        let Lookup::Hit(entry) = store.lookup(&key(number)).await else { panic!("just stored") };
        let meta = meta(number, 1, 1);
        store.replace_meta(&token, &key(number), &entry, meta).await.unwrap();
    });
}

/// Makes the cache of the fixtures with this build: after a kill, and after an orderly stop.
fn made_today(layout: LayoutName) -> [MemoryDevice; 2] {
    use_layout(layout, 0);
    let mut rig = Rig::open(formatted(8 << 20, 32 << 10), purging::labelled(product()));
    for number in 0..13 {
        let len = expected(number).map_or(2_000, |(.., len)| len);
        put(&mut rig, number, 1, len);
    }
    put(&mut rig, 15, 1, 3_000);
    put(&mut rig, 16, 1, 3_000);
    rig.settle_durably();
    (0..3).for_each(|number| put(&mut rig, number, 2, 900));
    let store = rig.store.clone();
    rig.run(async {
        assert!(store.remove(&key(4)).await);
        assert_eq!(store.purge(&key(5)).await, Ok(true));
        // The objects with the label or the prefix were stored before.
        store.purge_all(&[purging::word("object 15")], Mode::Hard).await.unwrap();
        let prefix = Target::Prefix(b"http://example.org/fixture/16");
        store.purge_all(&[prefix], Mode::Hard).await.unwrap();
    });
    refresh(&mut rig, 6);
    rig = rig.reopen();
    refresh(&mut rig, 12);
    put(&mut rig, 13, 1, 13 * 700);
    put(&mut rig, 14, 1, 14 * 700);
    rig.settle();
    let killed = rig.probe.memory.crash_process();
    [killed, rig.stop().memory]
}

fn path(version: u32, layout: LayoutName, kind: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    folder.join(match layout {
        LayoutName::Cluster => format!("v{version}-{kind}.image"),
        layout => format!("v{version}-{layout}-{kind}.image"),
    })
}

fn write_image(path: &PathBuf, memory: &MemoryDevice) {
    let len = memory.geometry().len;
    let mut file = len.to_le_bytes().to_vec();
    for number in 0..(len / SECTOR as u64) as u32 {
        let offset = u64::from(number) * SECTOR as u64;
        let sector = memory.peek(Extent { offset, len: SECTOR as u64 });
        if sector.iter().any(|byte| *byte != 0) {
            file.extend_from_slice(&number.to_le_bytes());
            file.extend_from_slice(&sector);
        }
    }
    std::fs::write(path, file).unwrap();
}

fn read_image(path: &PathBuf) -> MemoryDevice {
    let file = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (len, sectors) = file.split_first_chunk().unwrap();
    let memory = MemoryDevice::new(u64::from_le_bytes(*len), 512);
    for sector in sectors.chunks_exact(4 + SECTOR) {
        let (number, bytes) = sector.split_first_chunk().unwrap();
        memory.poke(u64::from(u32::from_le_bytes(*number)) * SECTOR as u64, bytes);
    }
    memory
}

/// Verifies every object that is found; returns how many are. With `exact` the metadata must be the
/// last ones; otherwise earlier ones are accepted, because the last may have been damaged.
fn check(rig: &mut Rig, exact: bool) -> usize {
    let store = rig.store.clone();
    (0..20)
        .filter(|number| {
            let number = *number;
            let found = rig.run(async {
                let Lookup::Hit(entry) = store.lookup(&key(number)).await else { return None };
                let mut bytes = BytesMut::new();
                let mut body = entry.body(0..entry.len());
                while let Some(chunk) = body.next().await {
                    bytes.extend_from_slice(&chunk.ok()?);
                }
                Some((entry.meta().clone(), bytes.freeze()))
            });
            let Some((metadata, bytes)) = found else { return false };
            let (version, count, len) = expected(number).expect("removed, and it has come back");
            let last = metadata == meta(number, version, count);
            assert!(last || !exact && metadata == meta(number, version, 0), "{metadata:?}");
            assert!(bytes == body(number, version, len), "the body of {number} is another");
            last
        })
        .count()
}

/// Number of objects.
const ALL: usize = 13;

/// An image of an earlier build, or of this one.
struct Image {
    /// Name in messages.
    name: String,
    /// True after an orderly stop.
    stopped: bool,
    memory: MemoryDevice,
}

/// Returns the layouts of a format version.
fn layouts(version: u32) -> &'static [LayoutName] {
    match version {
        1 => &[LayoutName::Cluster],
        // A layout that is added later has images from its own version on.
        _ => &[LayoutName::Cluster, LayoutName::Stream, LayoutName::Unified, LayoutName::Buddy],
    }
}

fn images() -> Vec<Image> {
    if std::env::var_os("LARDER_WRITE_FIXTURES").is_some() {
        for layout in layouts(FORMAT_VERSION) {
            let [killed, stopped] = made_today(*layout);
            write_image(&path(FORMAT_VERSION, *layout, "killed"), &killed);
            write_image(&path(FORMAT_VERSION, *layout, "stopped"), &stopped);
        }
    }
    let mut images = Vec::new();
    for version in 1..=FORMAT_VERSION {
        for layout in layouts(version) {
            for kind in ["stopped", "killed"] {
                let memory = read_image(&path(version, *layout, kind));
                let name = format!("version {version}, {layout}, {kind}");
                images.push(Image { name, stopped: kind == "stopped", memory });
            }
        }
    }
    images
}

#[test]
fn images_of_this_build_hold_what_the_fixtures_hold() {
    for layout in LayoutName::ALL {
        for memory in made_today(layout) {
            assert_eq!(
                check(&mut Rig::open(memory, purging::labelled(product())), true),
                ALL,
                "{layout}"
            );
        }
    }
}

#[test]
fn old_images_are_read_and_go_on_being_used() {
    for Image { name, stopped, memory } in images() {
        let mut rig = Rig::open(memory, purging::labelled(product()));
        let steps_read = rig.store.stats()[0].recovered.0;
        assert_eq!(steps_read == 0, stopped, "{name}: an orderly stop needs no recovery");
        assert_eq!(check(&mut rig, true), ALL, "{name}");
        put(&mut rig, 19, 1, 5_000);
        rig = rig.reopen();
        let store = rig.store.clone();
        rig.run(async { assert!(store.remove(&key(19)).await) });
        assert_eq!(check(&mut rig, true), ALL, "{name}");
    }
}

#[test]
fn damaged_old_images_give_what_is_whole() {
    let seed = seeds("fixtures::damaged_old_images", 1).next().unwrap();
    let mut random = fastrand::Rng::with_seed(seed);
    for Image { name, memory, .. } in images() {
        let opened = |damage: &[(u64, usize)]| {
            let memory = memory.crash_process();
            for (offset, len) in damage {
                let bytes = memory.peek(Extent { offset: *offset, len: *len as u64 });
                memory.poke(*offset, &bytes.iter().map(|byte| byte ^ 0x5A).collect::<Vec<_>>());
            }
            check(&mut Rig::open(memory, purging::labelled(product())), false)
        };
        for place in superblock_extents(memory.geometry().len) {
            assert_eq!(opened(&[(place.offset + 20, 100)]), ALL, "{name}");
        }
        // The rest of the device, 50,000 bytes at a time, from a random offset.
        let start = (1 << 20) + random.u64(..75_000);
        let len = memory.geometry().len;
        let found = (start..len)
            .step_by(125_000)
            .map(|offset| opened(&[(offset, 50_000.min((len - offset) as usize))]));
        let whole = found.filter(|found| *found == ALL).count();
        assert!(whole > 40, "{name}: only {whole} places of damage did no harm");
    }
}
