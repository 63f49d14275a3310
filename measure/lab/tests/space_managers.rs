//! Every space manager against a model: random operations, all contents compared, no files left
//! behind. Also their behaviour when the disk is full, missing or wrong.
//!
//! A random test prints its seed; `LAB_SEED=n` reruns it.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use device::MemoryDevice;
use lab::run::replay::check;
use lab::space::baselines::{
    BLOCK, BuddyFiles, FilePerObject, MultipleDirs, Simple, Squid, SyncPolicy,
};
use lab::space::engine::EngineSpace;
use lab::space::manager::{Calls, Read, SpaceError, SpaceManager, Stored};
use lab::space::real_directory::RealDirectory;
use lab::space::real_engine::{self, RealClock};
use store::{FormatOptions, Options, PRESETS};
use support::{block_on, files_below, seed, tree};
use tokio::task::spawn_local;
use workload::contents;
use workload::request::Object;

const OBJECTS: u32 = 60;
const STEPS: usize = 1_500;

/// Runs the same random operations on `manager` and a model. Objects in the model must be there
/// with the right bytes; the others must not.
async fn against_model(manager: &impl SpaceManager, seed: u64, largest: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut kept: BTreeMap<u32, Object> = BTreeMap::new();
    let mut version = 0;
    for _ in 0..STEPS {
        let id = random.u32(0..OBJECTS);
        let any = Object { id, site: id % 7, ..Object::default() };
        match random.u32(0..10) {
            0..4 => {
                version += 1;
                let edge = [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, largest][random.usize(0..6)];
                let size = if random.bool() { edge } else { random.u64(0..=largest) };
                let object = Object { version, size, ..any };
                let stored = manager.store(&object, contents::body(&object)).await.unwrap();
                assert_eq!(stored, Stored::Kept);
                kept.insert(id, object);
            }
            4..8 => look(manager, &any, kept.get(&id)).await,
            _ => {
                let deleted = manager.delete(&any).await.unwrap();
                assert_eq!(deleted, kept.remove(&id).is_some(), "object {id}");
            }
        }
    }
    for id in 0..OBJECTS {
        let any = Object { id, site: id % 7, ..Object::default() };
        look(manager, &any, kept.get(&id)).await;
        let deleted = manager.delete(&any).await.unwrap();
        assert_eq!(deleted, kept.contains_key(&id), "object {id}");
        look(manager, &any, None).await;
    }
    manager.finish().await.unwrap();
}

async fn look(manager: &impl SpaceManager, any: &Object, expected: Option<&Object>) {
    match (manager.read(any).await.unwrap(), expected) {
        (Read::Body(parts), Some(object)) => check(object, &parts).unwrap(),
        (Read::Gone, None) => {}
        (found, expected) => panic!("{expected:?} is {found:?}"),
    }
}

fn directory(path: &Path) -> RealDirectory {
    RealDirectory::new(path).unwrap()
}

/// Larger than the paper's threshold, so that some objects get files of their own.
const LARGEST: u64 = 200 << 10;

#[test]
fn simple_keeps_what_the_model_keeps() {
    let (seed, place) = (seed(), tempfile::tempdir().unwrap());
    block_on(async {
        let files = directory(place.path());
        let manager = FilePerObject::new(files, Simple, SyncPolicy::AtEnd).await.unwrap();
        against_model(&manager, seed, LARGEST).await;
        let calls = manager.calls();
        assert_eq!(calls.creates, calls.unlinks, "{calls:?}");
        assert_eq!(calls.creates + calls.opens, calls.closes, "{calls:?}");
    });
    assert_eq!(tree(place.path()), Vec::<String>::new());
}

#[test]
fn squid_keeps_what_the_model_keeps() {
    let (seed, place) = (seed(), tempfile::tempdir().unwrap());
    block_on(async {
        let files = directory(place.path());
        let manager = FilePerObject::new(files, Squid::default(), SyncPolicy::AtEnd).await.unwrap();
        assert_eq!(manager.calls().mkdirs, 16 + 16 * 256);
        against_model(&manager, seed, LARGEST).await;
    });
    assert_eq!(files_below(place.path()), Vec::<String>::new());
}

#[test]
fn multiple_dirs_keeps_what_the_model_keeps() {
    let (seed, place) = (seed(), tempfile::tempdir().unwrap());
    block_on(async {
        let files = directory(place.path());
        let manager = FilePerObject::new(files, MultipleDirs, SyncPolicy::EachStore).await.unwrap();
        against_model(&manager, seed, LARGEST).await;
        let calls = manager.calls();
        assert_eq!(calls.mkdirs, 7, "one directory per server");
        assert_eq!(calls.syncs, calls.creates + 1, "each object and the end");
    });
    assert_eq!(tree(place.path()).len(), 7);
}

#[test]
fn buddy_files_keeps_what_the_model_keeps() {
    let (seed, place) = (seed(), tempfile::tempdir().unwrap());
    for threshold in [0, 1, 10, 256] {
        let place = place.path().join(threshold.to_string());
        fs::create_dir(&place).unwrap();
        block_on(async {
            let files = directory(&place);
            let manager = BuddyFiles::new(files, threshold, SyncPolicy::AtEnd).await.unwrap();
            against_model(&manager, seed, LARGEST).await;
        });
        // The files of the size classes remain.
        assert_eq!(tree(&place).len(), threshold as usize);
    }
}

#[test]
fn the_engine_keeps_what_the_model_keeps() {
    let (seed, place) = (seed(), tempfile::tempdir().unwrap());
    for name in PRESETS {
        println!("preset {name}");
        let preset = store::preset(name).unwrap();
        block_on(async {
            let path = place.path().join(name);
            let options = Options { memory: 32 << 20, ..preset.options };
            let format = FormatOptions { mean_object: Some(5_000), labels: false, ..preset.format };
            let manager = real_engine::create(&path, 64 << 20, &format, options).await.unwrap();
            against_model(&manager, seed, LARGEST).await;
            let calls = manager.calls();
            assert!(calls.writes > 0 && calls.written_bytes > 0, "{calls:?}");
        });
    }
}

#[test]
fn the_engine_runs_on_any_device() {
    let seed = seed();
    block_on(async {
        let manager = engine_in_memory(32 << 20).await;
        against_model(&manager, seed, 10_000).await;
    });
}

async fn engine_in_memory(len: u64) -> EngineSpace<MemoryDevice, RealClock> {
    let device = MemoryDevice::new(len, 4096);
    let counters = device.clone();
    let format = FormatOptions { mean_object: Some(5_000), ..FormatOptions::default() };
    let options = Options { memory: 16 << 20, ..Options::default() };
    let engine = EngineSpace::create(
        Rc::new(device),
        RealClock::start(),
        &format,
        options,
        Rc::new(move || counters.counters().snapshot()),
        |background| _ = spawn_local(background),
    );
    engine.await.unwrap()
}

#[test]
fn an_engine_that_is_too_small_gives_up_what_is_older() {
    block_on(async {
        let manager = engine_in_memory(16 << 20).await;
        let object =
            |id| Object { id, version: 1, site: id % 5, size: 40_000, ..Object::default() };
        for id in 0..1_000 {
            let stored = manager.store(&object(id), contents::body(&object(id))).await.unwrap();
            assert_eq!(stored, Stored::Kept);
        }
        let mut found = 0;
        for id in 0..1_000 {
            match manager.read(&object(id)).await.unwrap() {
                Read::Body(parts) => {
                    check(&object(id), &parts).unwrap();
                    found += 1;
                }
                Read::Gone => {}
                Read::Unseen => panic!("an engine keeps contents"),
            }
        }
        // 16 MiB hold at most 419 of them.
        assert!((100..420).contains(&found), "{found} of 1,000");
        manager.finish().await.unwrap();
    });
}

#[test]
fn a_file_per_object_lies_where_the_placement_says() {
    let place = tempfile::tempdir().unwrap();
    let make = |name: &str| {
        let path = place.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    };
    let objects = [(3, 9), (7, 2), (4, 9)].map(|(id, site)| Object {
        id,
        version: 1,
        site,
        size: 700 + u64::from(id),
        ..Object::default()
    });
    let (simple, squid, dirs) = (make("simple"), make("squid"), make("dirs"));
    block_on(async {
        let one = FilePerObject::new(directory(&simple), Simple, SyncPolicy::AtEnd);
        store_all(&one.await.unwrap(), &objects).await;
        let two = FilePerObject::new(directory(&squid), Squid::default(), SyncPolicy::AtEnd);
        store_all(&two.await.unwrap(), &objects).await;
        let three = FilePerObject::new(directory(&dirs), MultipleDirs, SyncPolicy::AtEnd);
        store_all(&three.await.unwrap(), &objects).await;
    });
    assert_eq!(files_below(&simple), ["00000003", "00000004", "00000007"]);
    assert_eq!(files_below(&squid), ["0/00/00000000", "0/01/00000001", "0/02/00000002"]);
    let expected =
        ["server-00000002/00000007", "server-00000009/00000003", "server-00000009/00000004"];
    assert_eq!(files_below(&dirs), expected);
    let file = fs::read(squid.join("0/01/00000001")).unwrap();
    check(&objects[1], &[file.into()]).unwrap();
}

async fn store_all(manager: &impl SpaceManager, objects: &[Object]) {
    for object in objects {
        let stored = manager.store(object, contents::body(object)).await.unwrap();
        assert_eq!(stored, Stored::Kept);
    }
}

#[test]
fn buddy_uses_the_first_free_slot_of_the_class() {
    let place = tempfile::tempdir().unwrap();
    // A class of 3 blocks, one of 1 block, and a file of its own.
    let three = |id| Object { id, version: 1, size: 1_025 + u64::from(id), ..Object::default() };
    let one = Object { id: 50, version: 1, size: 512, ..Object::default() };
    let own = Object { id: 0xAB, version: 1, size: 4 * BLOCK + 1, ..Object::default() };
    block_on(async {
        let manager = BuddyFiles::new(directory(place.path()), 4, SyncPolicy::AtEnd).await.unwrap();
        store_all(&manager, &[three(0), three(1), three(2), three(3), one, own]).await;
        for id in [2, 1] {
            assert!(manager.delete(&three(id)).await.unwrap());
        }
        store_all(&manager, &[three(9), three(8), three(7)]).await;
    });
    let file = fs::read(place.path().join("blocks-00003")).unwrap();
    let slot_size = 3 * BLOCK as usize;
    for (slot, id) in [0, 9, 8, 3, 7].into_iter().enumerate() {
        let object = three(id);
        let body = &file[slot * slot_size..][..object.size as usize];
        assert_eq!(contents::first_wrong(&object, 0, body), None, "slot {slot}");
    }
    assert_eq!(file.len(), 4 * slot_size + three(7).size as usize);
    let file = fs::read(place.path().join("blocks-00001")).unwrap();
    check(&one, &[file.into()]).unwrap();
    let file = fs::read(place.path().join("own-000000AB")).unwrap();
    check(&own, &[file.into()]).unwrap();
}

#[test]
fn calls_are_counted_as_the_paper_counts_them() {
    let place = tempfile::tempdir().unwrap();
    let object = Object { id: 1, version: 1, size: 3_000, ..Object::default() };
    block_on(async {
        let files = directory(place.path());
        let manager = FilePerObject::new(files, Simple, SyncPolicy::AtEnd).await.unwrap();
        manager.store(&object, contents::body(&object)).await.unwrap();
        let stored = manager.calls();
        let expected =
            Calls { creates: 1, writes: 1, written_bytes: 3_000, closes: 1, ..Calls::default() };
        assert_eq!(stored, expected);
        manager.read(&object).await.unwrap();
        let expected =
            Calls { opens: 1, reads: 1, read_bytes: 3_000, closes: 1, ..Calls::default() };
        assert_eq!(manager.calls() - stored, expected);
        let before = manager.calls();
        manager.delete(&object).await.unwrap();
        assert_eq!(manager.calls() - before, Calls { unlinks: 1, ..Calls::default() });
    });
}

#[test]
fn a_file_that_somebody_removed_or_cut_is_an_error_with_its_name() {
    let place = tempfile::tempdir().unwrap();
    let object = |id| Object { id, version: 1, size: 3_000, ..Object::default() };
    block_on(async {
        let files = directory(place.path());
        let manager = FilePerObject::new(files, Simple, SyncPolicy::AtEnd).await.unwrap();
        store_all(&manager, &[object(1), object(2)]).await;
        fs::remove_file(place.path().join("00000001")).unwrap();
        let error = manager.read(&object(1)).await.unwrap_err().to_string();
        assert!(error.starts_with("cannot open 00000001: "), "{error}");
        let error = manager.delete(&object(1)).await.unwrap_err().to_string();
        assert!(error.starts_with("cannot unlink 00000001: "), "{error}");
        let cut = fs::File::options().write(true).open(place.path().join("00000002")).unwrap();
        cut.set_len(2_999).unwrap();
        let error = manager.read(&object(2)).await.unwrap_err().to_string();
        assert!(error.starts_with("cannot read 00000002: "), "{error}");
    });
}

#[test]
fn a_directory_that_vanished_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let gone = place.path().join("gone");
    fs::create_dir(&gone).unwrap();
    let files = directory(&gone);
    fs::remove_dir(&gone).unwrap();
    block_on(async {
        let failed = FilePerObject::new(files, Squid::default(), SyncPolicy::AtEnd).await;
        let error = failed.err().unwrap().to_string();
        assert!(error.starts_with("cannot make directory 0: "), "{error}");
    });
}

#[test]
fn a_full_file_system_is_an_error_and_leaves_the_rest_whole() {
    let Some(small) = support::SmallFileSystem::mount("a_full_file_system", 4 << 20) else {
        return;
    };
    for name in ["simple", "buddy"] {
        let path = small.path().join(name);
        fs::create_dir(&path).unwrap();
        block_on(async {
            match name {
                "simple" => {
                    let simple = FilePerObject::new(directory(&path), Simple, SyncPolicy::AtEnd);
                    fill_up(&simple.await.unwrap()).await;
                    assert_eq!(files_below(&path), Vec::<String>::new());
                }
                _ => {
                    let buddy = BuddyFiles::new(directory(&path), 100, SyncPolicy::AtEnd);
                    fill_up(&buddy.await.unwrap()).await;
                }
            }
        });
    }
}

/// Stores until there is no space. Everything stored must still be there, and deleting must free
/// space.
async fn fill_up(manager: &impl SpaceManager) {
    let object = |id| Object { id, version: 1, size: 50_000, ..Object::default() };
    let mut stored = 0;
    let error = loop {
        match manager.store(&object(stored), contents::body(&object(stored))).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 1_000, "the file system is never full");
    };
    assert!(error.is_full(), "{error}");
    assert!(stored > 10, "only {stored} objects");
    look(manager, &object(stored), None).await;
    look(manager, &object(3), Some(&object(3))).await;
    manager.delete(&object(3)).await.unwrap();
    store_all(manager, &[Object { version: 2, ..object(3) }]).await;
    for id in 0..stored {
        let version = if id == 3 { 2 } else { 1 };
        look(manager, &object(id), Some(&Object { version, ..object(id) })).await;
        manager.delete(&object(id)).await.unwrap();
    }
}

#[test]
fn wrong_bytes_are_named() {
    let object = Object { id: 5, version: 2, size: 100, ..Object::default() };
    let body = contents::body(&object);
    check(&object, &[body.slice(..40), body.slice(40..)]).unwrap();
    let wrong = |parts: &[Bytes]| match check(&object, parts).unwrap_err() {
        SpaceError::Wrong { position, .. } => position,
        other => panic!("{other}"),
    };
    assert_eq!(wrong(&[body.slice(..40), body.slice(41..)]), 40);
    assert_eq!(wrong(&[body.slice(..99)]), 99);
    assert_eq!(wrong(&[]), 0);
}
