//! Opening a path: creation, locks, refusals, fallbacks, growth, and a file changed by others.

mod support;

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use larder_device::{
    Access, CacheFile, Contents, Device, Feature, FileKind, IoBuf, OpenError, OpenOptions,
    PathChange,
};
use support::{Mount, command, frozen, is_pattern, new_file, ring_or_skip, run, skip};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn create(path: &Path, len: u64) -> Result<std::sync::Arc<CacheFile>, OpenError> {
    CacheFile::open(path, &OpenOptions { create: Some(len), ..OpenOptions::default() })
}

fn open(path: &Path) -> Result<std::sync::Arc<CacheFile>, OpenError> {
    CacheFile::open(path, &OpenOptions::default())
}

#[test]
fn a_new_file_is_private_whole_and_blank() {
    let directory = directory();
    let path = directory.path().join("cache");
    let file = create(&path, (1 << 20) + 1).unwrap();
    assert!(file.was_created());
    assert_eq!((file.kind(), file.geometry().len), (FileKind::Regular, (1 << 20) + 4096));
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert_eq!(metadata.len(), (1 << 20) + 4096);
    if !file.fallbacks().iter().any(|fallback| fallback.feature == Feature::Allocate) {
        use std::os::unix::fs::MetadataExt;
        assert!(metadata.blocks() * 512 >= 1 << 20, "the space is taken");
    }
    assert_eq!(file.contents().unwrap(), Contents::Blank);
    drop(file);
    let again = create(&path, 1 << 30).unwrap();
    assert!(!again.was_created());
    assert_eq!(again.geometry().len, (1 << 20) + 4096, "an existing file keeps its size");
}

#[test]
fn a_new_file_begins_with_its_mark() {
    let directory = directory();
    let path = directory.path().join("cache");
    let options = OpenOptions { create: Some(1 << 20), mark: b"begun", ..OpenOptions::default() };
    CacheFile::open(&path, &options).unwrap();
    let bytes = fs::read(&path).unwrap();
    assert!(bytes.len() == 1 << 20 && bytes.starts_with(b"begun\0"));
}

#[test]
fn what_others_do_with_the_file_is_noticed() {
    let directory = directory();
    let path = directory.path().join("cache");
    let file = create(&path, 1 << 20).unwrap();
    let moved = directory.path().join("moved");
    let looked = || {
        let found = file.look_at_path();
        assert_eq!(found, file.path_change());
        found
    };
    assert_eq!(looked(), None);
    fs::rename(&path, &moved).unwrap();
    assert_eq!(looked(), Some(PathChange::Removed));
    fs::write(&path, "another").unwrap();
    assert_eq!(looked(), Some(PathChange::Replaced));
    fs::rename(&moved, &path).unwrap();
    assert_eq!(looked(), None);
    fs::File::options().write(true).open(&path).unwrap().set_len(4096).unwrap();
    assert_eq!(looked(), Some(PathChange::Shortened));
}

#[test]
fn a_second_writer_is_refused_and_a_reader_is_not() {
    let directory = directory();
    let path = directory.path().join("cache");
    let first = create(&path, 1 << 20).unwrap();
    let error = open(&path).map(drop).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("in use by another process"));
    let options = OpenOptions { access: Access::ReadOnly, ..OpenOptions::default() };
    let reader = CacheFile::open(&path, &options).unwrap();
    let device = reader.attach(None).unwrap();
    run(None, async {
        device.read(0, IoBuf::zeroed(4096)).await.1.unwrap();
        assert!(device.write(0, frozen(4096, 1)).await.is_err());
    });
    drop(first);
    open(&path).unwrap();
}

#[test]
fn what_is_no_place_for_a_cache_is_named() {
    let directory = directory();
    let error = |path: &Path| create(path, 4096).map(drop).unwrap_err().to_string();
    assert!(error(directory.path()).contains("is a directory"));
    assert!(error(Path::new("/dev/null")).contains("is a character device"));
    let pipe = directory.path().join("pipe");
    command("mkfifo", &[pipe.to_str().unwrap()]).unwrap();
    assert!(error(&pipe).contains("is a pipe"));
    let missing = directory.path().join("no/such/cache");
    assert!(error(&missing).contains("cannot create it"));
    let missing = directory.path().join("cache");
    let error = open(&missing).map(drop).unwrap_err();
    assert!(error.to_string().contains("cannot open it"), "{error}");
    assert!(!missing.exists());
}

#[test]
fn foreign_bytes_are_recognised_and_kept() {
    let directory = directory();
    let path = directory.path().join("file");
    fs::write(&path, "somebody's diary").unwrap();
    let file = create(&path, 1 << 20).unwrap();
    assert!(!file.was_created());
    assert_eq!(file.contents().unwrap(), Contents::Unknown);
    assert_eq!(fs::read(&path).unwrap(), b"somebody's diary");
    drop(file);
    let mut bytes = vec![0; 1 << 20];
    bytes[65536 + 64..][..8].copy_from_slice(b"_BHRfS_M");
    fs::write(&path, &bytes).unwrap();
    let known = open(&path).unwrap().contents().unwrap();
    assert_eq!(known, Contents::Known("a btrfs file system"));
    for (program, name) in [("mkfs.ext4", "an ext2/3/4 file system"), ("mkswap", "swap space")] {
        fs::write(&path, vec![0; 4 << 20]).unwrap();
        match command(program, &[path.to_str().unwrap()]) {
            Ok(_) => {
                let contents = open(&path).unwrap().contents().unwrap();
                assert_eq!(contents, Contents::Known(name));
            }
            Err(reason) => skip(&reason),
        }
    }
}

#[test]
fn space_that_is_not_there_is_an_error_with_figures_and_leaves_nothing() {
    let directory = directory();
    let path = directory.path().join("cache");
    let error = create(&path, 1 << 60).map(drop).unwrap_err();
    match error {
        OpenError::NoSpace { needed, free, .. } => {
            assert_eq!(needed, 1 << 60);
            assert!(free < needed);
        }
        // Beyond the largest file of the file system.
        OpenError::TooLarge { len, limit, .. } => assert_eq!((len, limit), (1 << 60, None)),
        error => panic!("{error}"),
    }
    assert!(!path.exists());
}

#[test]
fn a_small_file_system_fills_up() {
    let directory = directory();
    let mount = Mount::new(&["-t", "tmpfs", "-o", "size=8m", "none"], directory.path());
    let Ok(mount) = mount.map_err(|reason| skip(&reason)) else { return };
    let path = mount.0.join("cache");
    let error = create(&path, 64 << 20).map(drop).unwrap_err();
    let OpenError::NoSpace { needed, free, .. } = error else { panic!("{error}") };
    assert_eq!(needed, 64 << 20);
    assert!((1..=8 << 20).contains(&free), "{free}");
    assert!(!path.exists());

    let file = create(&path, 1 << 20).unwrap();
    let error = file.grow(64 << 20).unwrap_err();
    assert!(matches!(error, OpenError::NoSpace { .. }), "{error}");
    assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 20);
    assert_eq!(file.geometry().len, 1 << 20);
    drop(file);
    fs::remove_file(&path).unwrap();

    fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
    let file = open(&path).unwrap();
    for ring in [None, ring_or_skip(4)] {
        let device = file.attach(ring.as_ref()).unwrap();
        run(ring.as_ref(), async {
            device.write(0, frozen(1 << 20, 1)).await.unwrap();
            let result = device.write(8 << 20, frozen(16 << 20, 2)).await;
            assert_eq!(result.unwrap_err().kind(), ErrorKind::StorageFull);
            let (buf, result) = device.read(0, IoBuf::zeroed(1 << 20)).await;
            result.unwrap();
            assert!(is_pattern(&buf, 1), "what was written before is still there");
        });
    }
}

#[test]
fn a_file_grows_while_it_is_in_use() {
    let (_directory, file) = new_file(1 << 20, true);
    let device = file.attach(None).unwrap();
    run(None, async {
        assert!(device.write(1 << 20, frozen(4096, 4)).await.is_err());
        assert_eq!(file.grow(2 << 20).unwrap(), 2 << 20);
        assert_eq!(device.geometry().len, 2 << 20);
        device.write(1 << 20, frozen(4096, 4)).await.unwrap();
        assert_eq!(file.grow(4096).unwrap(), 2 << 20, "never shorter");
        let (buf, result) = device.read(1 << 20, IoBuf::zeroed(4096)).await;
        result.unwrap();
        assert!(is_pattern(&buf, 4));
    });
}

#[test]
fn a_file_shortened_under_us_is_an_error_and_no_more() {
    for ring in [None, ring_or_skip(4)] {
        for direct in [true, false] {
            for len in [1 << 20, (1 << 20) + 100] {
                let (_directory, file) = new_file(4 << 20, direct);
                let device = file.attach(ring.as_ref()).unwrap();
                let other = fs::OpenOptions::new().write(true).open(file.path()).unwrap();
                other.set_len(len).unwrap();
                run(ring.as_ref(), async {
                    device.read(0, IoBuf::zeroed(1 << 20)).await.1.unwrap();
                    for offset in [2 << 20, 1 << 20, (1 << 20) - 4096] {
                        let (buf, result) = device.read(offset, IoBuf::zeroed(65536)).await;
                        assert_eq!(buf.len(), 65536);
                        assert!(result.is_err(), "{offset} of {len}, direct: {direct}");
                    }
                    device.write(2 << 20, frozen(4096, 1)).await.unwrap();
                });
                assert_eq!(file.counters().snapshot().errors, 3);
            }
        }
    }
}

#[test]
fn read_at_takes_any_alignment() {
    let (_directory, file) = new_file(1 << 20, true);
    let mut other = fs::OpenOptions::new().write(true).open(file.path()).unwrap();
    let bytes: Vec<u8> = (0..20_000).map(|index| (index % 251) as u8).collect();
    other.write_all(&bytes).unwrap();
    for (offset, len) in [(0, 1), (1, 5000), (4095, 2), (4096, 4096), (511, 10_000)] {
        let mut into = vec![0; len];
        file.read_at(offset as u64, &mut into).unwrap();
        assert_eq!(into, bytes[offset..offset + len]);
    }
    file.read_at(1 << 20, &mut []).unwrap();
    let error = file.read_at((1 << 20) - 1, &mut [0; 2]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn a_file_system_in_memory_refuses_by_name_and_serves_all_the_same() {
    let directory = directory();
    let mount = Mount::new(&["-t", "ramfs", "none"], directory.path());
    let Ok(mount) = mount.map_err(|reason| skip(&reason)) else { return };
    let path = mount.0.join("cache");
    let file = create(&path, 1 << 20).unwrap();
    let features: Vec<_> = file.fallbacks().iter().map(|fallback| fallback.feature).collect();
    assert_eq!(features, [Feature::Allocate, Feature::Direct]);
    assert!(file.fallbacks().iter().all(|fallback| !fallback.reason.is_empty()));
    assert!(!file.is_direct());
    for ring in [None, ring_or_skip(4)] {
        let device = file.attach(ring.as_ref()).unwrap();
        run(ring.as_ref(), async {
            device.write(4096, frozen(65536, 3)).await.unwrap();
            device.flush().await.unwrap();
            let (buf, result) = device.read(4096, IoBuf::zeroed(65536)).await;
            result.unwrap();
            assert!(is_pattern(&buf, 3));
        });
    }
}
