//! Opening a block device: one that the system or another process uses is refused. These tests have
//! their own program, because a child process started by another test would briefly hold a copy of
//! the claim.

mod support;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use larder_device::{Access, CacheFile, Contents, Feature, OpenError, OpenOptions};
use support::{Loop, Mount, command, skip};

fn open(path: &Path) -> Result<Arc<CacheFile>, OpenError> {
    CacheFile::open(path, &OpenOptions::default())
}

fn a_mounted_or_claimed_block_device_is_refused() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let image = directory.path().join("disk");
    fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
    let disk = match Loop::over(&image) {
        Ok(disk) => disk,
        Err(reason) => return skip(&reason),
    };
    let first = open(&disk.0).unwrap();
    assert_eq!(first.contents().unwrap(), Contents::Blank);
    assert_eq!(first.occupant(), None);
    let error = open(&disk.0).map(drop).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    let options = OpenOptions { access: Access::ReadOnly, ..OpenOptions::default() };
    CacheFile::open(&disk.0, &options).unwrap();
    drop(first);
    if let Err(reason) = command("mkfs.ext4", &["-q", disk.0.to_str().unwrap()]) {
        return skip(&reason);
    }
    let contents = open(&disk.0).unwrap().contents().unwrap();
    assert_eq!(contents, Contents::Known("an ext2/3/4 file system"));
    let place = directory.path().join("a place");
    fs::create_dir(&place).unwrap();
    let mount = Mount::new(&[disk.0.to_str().unwrap()], &place);
    let Ok(_mount) = mount.map_err(|reason| skip(&reason)) else { return };
    let error = open(&disk.0).map(drop).unwrap_err();
    assert!(matches!(error, OpenError::Occupied { .. }), "{error}");
    assert!(error.to_string().contains("/a place"), "{error}");
    let reader = CacheFile::open(&disk.0, &options).unwrap();
    assert!(reader.occupant().is_some_and(|by| by.starts_with("mounted at")));
}

/// ext2 has block maps and no unwritten extents.
fn a_file_system_without_fallocate_is_named_and_its_free_space_respected() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let image = directory.path().join("disk");
    fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
    let disk = match Loop::over(&image) {
        Ok(disk) => disk,
        Err(reason) => return skip(&reason),
    };
    let device = disk.0.to_str().unwrap();
    let made = command("mkfs.ext4", &["-q", "-O", "^extent,^64bit,^has_journal", device]);
    let place = directory.path().join("mounted");
    fs::create_dir(&place).unwrap();
    let mount = made.and_then(|_| Mount::new(&[device], &place));
    let Ok(mount) = mount.map_err(|reason| skip(&reason)) else { return };
    let create = |len| {
        let options = OpenOptions { create: Some(len), ..OpenOptions::default() };
        CacheFile::open(&mount.0.join("cache"), &options)
    };
    let error = create(64 << 20).map(drop).unwrap_err();
    let OpenError::NoSpace { needed, free, .. } = error else { panic!("{error}") };
    assert_eq!(needed, 64 << 20);
    assert!((1 << 20..32 << 20).contains(&free), "{free}");
    assert!(!mount.0.join("cache").exists());
    let file = create(8 << 20).unwrap();
    assert_eq!(file.geometry().len, 8 << 20);
    assert!(file.fallbacks().iter().any(|fallback| fallback.feature == Feature::Allocate));
}

#[test]
fn block_devices() {
    a_mounted_or_claimed_block_device_is_refused();
    a_file_system_without_fallocate_is_named_and_its_free_space_respected();
}
