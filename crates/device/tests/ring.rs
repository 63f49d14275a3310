//! Promises of the ring beyond the conformance of its devices: the ownership of buffers, the number
//! of system calls, and operations that wait for a place.

mod support;

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use larder_device::{Device, IoBuf};
use support::{Loop, frozen, is_pattern, new_file, ring_or_skip, run, run_parked, skip};

#[test]
fn dropping_everything_finishes_what_was_begun() {
    let Some(ring) = ring_or_skip(64) else { return };
    let (_directory, file) = new_file(16 << 20, true);
    let device = file.attach(Some(&ring)).unwrap();
    ring.batch(true); // some are still queued when the ring goes
    for index in 0..64 {
        let begun = device.write(index << 18, frozen(1 << 18, 1 + index)).now_or_never();
        assert!(begun.is_none());
        if index == 40 {
            ring.submit();
        }
    }
    assert_eq!(file.counters().snapshot().in_flight, 64);
    drop((ring, device));
    assert_eq!(file.counters().snapshot().in_flight, 0);
    let mut bytes = vec![0; 1 << 18];
    for index in 0..64 {
        file.read_at(index << 18, &mut bytes).unwrap();
        assert!(is_pattern(&bytes, 1 + index), "write {index}");
    }
}

#[test]
fn operations_of_one_turn_share_system_calls() {
    let Some(ring) = ring_or_skip(256) else { return };
    let (_directory, file) = new_file(1 << 20, true);
    let device = file.attach(Some(&ring)).unwrap();
    let reads = || (0..128).map(|index| device.read(index * 4096, IoBuf::zeroed(4096)));
    run_parked(&ring, join_all(reads()));
    let single = ring.system_calls();
    assert!(single >= 128, "{single} system calls for 128 reads without a driver");
    let results = run(Some(&ring), join_all(reads()));
    assert!(results.iter().all(|(_, result)| result.is_ok()));
    let driven = ring.system_calls() - single;
    assert!(driven < 128, "{driven} system calls for 128 reads with a driver");
}

#[test]
fn one_ring_serves_several_files() {
    let Some(ring) = ring_or_skip(8) else { return };
    let files: Vec<_> = (0..3).map(|_| new_file(1 << 20, true)).collect();
    let devices: Vec<_> = files.iter().map(|(_, file)| file.attach(Some(&ring)).unwrap()).collect();
    run(Some(&ring), async {
        let writes = (0..30).map(|index| {
            devices[index % 3].write(index as u64 / 3 * 4096, frozen(4096, 1 + index as u64))
        });
        assert!(join_all(writes).await.iter().all(Result::is_ok));
    });
    let mut bytes = vec![0; 4096];
    for index in 0..30 {
        files[index % 3].1.read_at(index as u64 / 3 * 4096, &mut bytes).unwrap();
        assert!(is_pattern(&bytes, 1 + index as u64));
    }
}

#[test]
fn a_dropped_operation_passes_its_place_on() {
    let Some(ring) = ring_or_skip(2) else { return };
    let (_directory, file) = new_file(1 << 20, true);
    let device = file.attach(Some(&ring)).unwrap();
    run(Some(&ring), async {
        let mut waiting: Vec<_> = (0..32)
            .map(|index| device.write(index * 4096, frozen(4096, 5)).boxed_local())
            .collect();
        for write in &mut waiting {
            assert!(write.now_or_never().is_none());
        }
        // Two have places. Every second one of the others is dropped.
        let mut index = 0;
        waiting.retain(|_| {
            index += 1;
            index <= 2 || index % 2 == 0
        });
        assert!(join_all(waiting).await.iter().all(Result::is_ok));
    });
    let counts = file.counters().snapshot();
    assert_eq!((counts.in_flight, counts.bytes_written), (0, 17 * 4096));
}

#[test]
fn a_program_without_an_event_loop_parks() {
    let Some(ring) = ring_or_skip(4) else { return };
    let (_directory, file) = new_file(1 << 20, true);
    let device = file.attach(Some(&ring)).unwrap();
    assert_eq!(ring.park(Duration::from_secs(60)), 0, "nothing in flight: no wait");
    run_parked(&ring, async {
        device.write(0, frozen(65536, 9)).await.unwrap();
        device.flush().await.unwrap();
    });
    let mut bytes = vec![0; 65536];
    file.read_at(0, &mut bytes).unwrap();
    assert!(is_pattern(&bytes, 9));
}

/// More operations at once than the block device has places for. The kernel defers some and
/// restarts them when the ring is entered, which yields no completion. A ring that takes that for
/// the end of the due work leaves them all behind.
#[test]
fn a_crowd_of_reads_ends_on_a_device_with_few_places() {
    let Some(ring) = ring_or_skip(256) else { return };
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("disk");
    std::fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
    let disk = match Loop::over(&path) {
        Ok(disk) => disk,
        Err(reason) => return skip(&reason),
    };
    let file =
        larder_device::CacheFile::open(&disk.0, &larder_device::OpenOptions::default()).unwrap();
    let device = file.attach(Some(&ring)).unwrap();
    run(Some(&ring), async {
        for round in 0..200 {
            let reads = (0..256).map(|number| {
                device.read((round * 7 + number * 61) % 2048 * 8192, IoBuf::zeroed(8192))
            });
            assert!(join_all(reads).await.iter().all(|(_, result)| result.is_ok()));
        }
    });
}

#[test]
fn the_readme_shows_the_example() {
    let readme = include_str!("../README.md");
    assert!(readme.contains(include_str!("../examples/copy_block.rs")));
}
