//! Opening a block device: what the system or another process uses is refused. Alone in its
//! program: a child started meanwhile by another test would keep a copy of the claim for a moment.

mod support;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use device::{Access, CacheFile, Contents, OpenError, OpenOptions};
use support::{Loop, Mount, command, skip};

fn open(path: &Path) -> Result<Arc<CacheFile>, OpenError> {
    CacheFile::open(path, &OpenOptions::default())
}

#[test]
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
