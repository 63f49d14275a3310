//! Tests of reading files that change in the meantime.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use semantics::range::ByteRange;

use super::*;
use crate::reader::{ReadError, Reader};

const SIZE: usize = 200_000;

fn open(root: &Root) -> Reader {
    let found = root.find(&request(b"/file")).unwrap();
    let Outcome::File(file) = found.outcome else { panic!("{found:?}") };
    file.into_reader(true)
}

/// Creates a file whose last change is older than the kernel's clock tick, and a root.
fn file() -> (Tree, Root, Vec<u8>) {
    let tree = Tree::new();
    let bytes: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
    tree.write(b"file", &bytes);
    let root = Root::open(tree.at(b""), Options::default()).unwrap();
    let version = open(&root).version();
    while !version.is_settled(SystemTime::now()) {
        std::thread::sleep(Duration::from_millis(5));
    }
    (tree, root, bytes)
}

/// Reads to the end in pieces of `length` bytes.
fn rest(reader: &mut Reader, length: usize) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; length];
    loop {
        match reader.read(&mut piece)? {
            0 => return Ok(bytes),
            length => bytes.extend_from_slice(&piece[..length]),
        }
    }
}

#[test]
fn a_file_is_read_in_pieces_of_any_size() {
    let (tree, root, bytes) = file();
    for length in [1_000, 4096, 65_537, SIZE, SIZE + 1, 1 << 20] {
        let mut reader = open(&root);
        assert_eq!(reader.remaining(), SIZE as u64);
        assert_eq!(rest(&mut reader, length).unwrap(), bytes, "{length}");
        assert_eq!(reader.remaining(), 0);
        let mut part = [0; 10];
        reader.read_at(100, &mut part).unwrap();
        assert_eq!(part, bytes[100..110]);
        let past = reader.read_at(SIZE as u64 - 5, &mut part);
        assert!(matches!(past, Err(ReadError::Changed)), "{past:?}");
    }
    tree.write(b"file", b"");
    assert_eq!(rest(&mut open(&root), 10).unwrap(), b"");
}

#[test]
fn a_range_is_read_like_the_whole() {
    let (tree, root, bytes) = file();
    let size = SIZE as u64;
    for (start, end) in [(0, 1), (0, size), (70_000, 140_001), (size - 1, size), (5, 5)] {
        let mut reader = open(&root).within(ByteRange { start, end });
        assert_eq!(reader.remaining(), end - start);
        assert!(rest(&mut reader, 30_000).unwrap() == bytes[start as usize..end as usize]);
    }
    // The part of a range after the end of the file is ignored.
    let range = ByteRange { start: size - 3, end: size + 9 };
    assert_eq!(rest(&mut open(&root).within(range), 10).unwrap(), bytes[SIZE - 3..]);
    // A change outside the range counts as a change.
    let mut reader = open(&root).within(ByteRange { start: 0, end: 10 });
    tree.write(b"file", b"another one");
    let changed = rest(&mut reader, 10);
    assert!(matches!(changed, Err(ReadError::Changed)), "{changed:?}");
}

#[test]
fn any_change_of_a_file_ends_its_reading() {
    type Change = fn(&Path);
    let writable = |path: &Path| OpenOptions::new().write(true).open(path).unwrap();
    let changes: [(&str, Change); 6] = [
        ("a byte", |path| {
            let file = OpenOptions::new().write(true).open(path).unwrap();
            file.write_all_at(b"!", 7).unwrap();
        }),
        ("append", |path| {
            let file = OpenOptions::new().write(true).open(path).unwrap();
            file.write_all_at(b"!", SIZE as u64).unwrap();
        }),
        ("truncate", |path| {
            OpenOptions::new().write(true).open(path).unwrap().set_len(150_000).unwrap();
        }),
        ("truncate to nothing", |path| fs::write(path, "").unwrap()),
        ("permissions", |path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        }),
        ("a byte, and the time set back", |path| {
            let time = fs::metadata(path).unwrap().modified().unwrap();
            let file = OpenOptions::new().write(true).open(path).unwrap();
            file.write_all_at(b"!", 7).unwrap();
            file.set_modified(time).unwrap();
        }),
    ];
    for (name, change) in changes {
        for before in [0, 100_000, SIZE - 1] {
            let (tree, root, _) = file();
            let mut reader = open(&root);
            let mut start = vec![0; before];
            assert_eq!(reader.read(&mut start).unwrap(), before, "{name}");
            change(&tree.at(b"file"));
            assert!(matches!(reader.verify(), Err(ReadError::Changed)), "{name}");
            let end = rest(&mut reader, 30_000);
            assert!(matches!(end, Err(ReadError::Changed)), "{name} after {before}: {end:?}");
            let found = root.version_of(&request(b"/file")).unwrap();
            let Outcome::File(Representation { version, .. }) = found.outcome else {
                panic!("{found:?}")
            };
            assert_ne!(version, reader.version(), "{name}");
            assert_ne!(version.identity(""), reader.version().identity(""), "{name}");
        }
    }
    // Control: opening the file for writing is not a change.
    let (tree, root, bytes) = file();
    let mut reader = open(&root);
    drop(writable(&tree.at(b"file")));
    assert_eq!(rest(&mut reader, 30_000).unwrap(), bytes);
}

/// Fills `bytes` with the next bytes, as sent by the kernel.
fn sent(reader: &mut Reader, bytes: &mut [u8]) {
    let socket = tempfile::tempfile().unwrap();
    let mut done = 0;
    while done < bytes.len() as u64 {
        done += reader.send(&socket, bytes.len() as u64 - done).unwrap();
    }
    socket.read_exact_at(bytes, 0).unwrap();
}

#[test]
fn reading_continues_after_the_bytes_that_the_kernel_sent() {
    let (_tree, root, bytes) = file();
    let mut reader = open(&root).tolerant().within(ByteRange { start: 10, end: 190_000 });
    reader.load(50_000);
    assert!(reader.is_cached(50_000));
    let mut start = vec![0; 50_000];
    sent(&mut reader, &mut start);
    assert_eq!(reader.remaining(), 190_000 - 50_010);
    start.extend(rest(&mut reader, 60_000).unwrap());
    assert!(start == bytes[10..190_000]);
}

#[test]
fn a_socket_that_is_full_takes_nothing_and_loses_nothing() {
    let (_tree, root, bytes) = file();
    let (mut near, mut far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    far.set_nonblocking(true).unwrap();
    near.write_all(&[0; 100_000]).unwrap();
    let (mut reader, mut received, mut waits) = (open(&root), Vec::new(), 0);
    while reader.remaining() > 0 {
        match reader.send(&near, 150_000) {
            Ok(_) => {}
            Err(ReadError::Io(why)) if why.kind() == io::ErrorKind::WouldBlock => {
                waits += 1;
                let _ = far.read_to_end(&mut received);
            }
            Err(why) => panic!("{why}"),
        }
    }
    let _ = far.read_to_end(&mut received);
    assert!(received[100_000..] == bytes && waits > 0);
}

#[test]
fn a_tolerant_reading_ends_only_when_bytes_of_the_version_may_be_gone() {
    type Change = fn(&Path);
    let (chmod, link, rename): (Change, Change, Change) = (
        |path| fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap(),
        |path| fs::hard_link(path, path.with_extension("link")).unwrap(),
        |path| fs::rename(path, path.with_extension("moved")).unwrap(),
    );
    let append: Change =
        |path| OpenOptions::new().append(true).open(path).unwrap().set_len(300_000).unwrap();
    let refill_longer: Change = |path| fs::write(path, vec![b'x'; 2 * SIZE]).unwrap();
    let (overwrite, shorten, refill): (Change, Change, Change) = (
        |path| {
            let file = OpenOptions::new().write(true).open(path).unwrap();
            file.write_all_at(b"!", 7).unwrap();
        },
        |path| OpenOptions::new().write(true).open(path).unwrap().set_len(150_000).unwrap(),
        |path| fs::write(path, vec![b'x'; SIZE]).unwrap(),
    );
    for (change, holds) in [
        (chmod, true),
        (link, true),
        (rename, true),
        (append, true),
        (overwrite, false),
        (shorten, false),
        (refill, false),
        (refill_longer, false),
    ] {
        for (before, by_kernel) in
            [(1, false), (100_000, false), (SIZE - 1, false), (100_000, true)]
        {
            let (tree, root, bytes) = file();
            let mut reader = open(&root).tolerant();
            let mut start = vec![0; before];
            match by_kernel {
                true => sent(&mut reader, &mut start),
                false => assert_eq!(reader.read(&mut start).unwrap(), before),
            }
            change(&tree.at(b"file"));
            match rest(&mut reader, 30_000) {
                Ok(end) => assert!(holds && [start, end].concat() == bytes),
                Err(why) => assert!(!holds && matches!(why, ReadError::Changed), "{why:?}"),
            }
        }
    }
    // A file that becomes shorter is detected immediately, not at the end.
    let (tree, root, _) = file();
    let mut reader = open(&root).tolerant();
    fs::write(tree.at(b"file"), "").unwrap();
    assert!(matches!(reader.read(&mut [0; 10]), Err(ReadError::Changed)));
}

/// Returns how many of 64 places of a file are in the kernel's cache.
fn places_in_memory(path: &Path) -> usize {
    use rustix::io::{ReadWriteFlags, preadv2};
    let file = fs::File::open(path).unwrap();
    let step = file.metadata().unwrap().len() / 64;
    let is_there = |place: &u64| {
        let mut byte = [0];
        let mut buffers = [io::IoSliceMut::new(&mut byte)];
        preadv2(&file, &mut buffers, place * step, ReadWriteFlags::NOWAIT).is_ok()
    };
    (0..64).filter(is_there).count()
}

/// The kernel may keep pages that it works on at this moment, so it is told up to five times, each
/// time for another file.
#[test]
fn the_kernel_forgets_what_was_read_if_it_is_told() {
    const TMPFS: i64 = 0x0102_1994;
    let tree = Tree::new();
    let kept = |attempt: usize| {
        let name = format!("file{attempt}");
        tree.write(name.as_bytes(), &vec![7; 20_000_000]);
        fs::File::open(tree.at(name.as_bytes())).unwrap().sync_all().unwrap();
        let root = Root::open(tree.at(b""), Options::default()).unwrap();
        let found = root.find(&request(format!("/{name}").as_bytes())).unwrap();
        let Outcome::File(file) = found.outcome else { panic!("{found:?}") };
        rest(&mut file.into_reader(true), 100_001).unwrap();
        places_in_memory(&tree.at(name.as_bytes()))
    };
    if rustix::fs::statfs(tree.at(b"")).unwrap().f_type == TMPFS {
        eprintln!("SKIPPED: forgetting what was read: the tests' directory is in memory");
        return;
    }
    let places = (0..5).map(kept).find(|places| *places < 8);
    assert!(places.is_some(), "most of 64 places are kept each time");
}

/// One thread changes bytes in place, sometimes in quick succession and then not for a while.
/// Whatever others read for one version is always the same.
#[test]
fn one_version_is_always_the_same_bytes() {
    const VERSIONS: usize = 12;
    let mut rng = fastrand::Rng::with_seed(seed());
    let (tree, root, _) = file();
    let seen: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::default();
    let done = || seen.lock().unwrap().len() >= VERSIONS;
    let read = || {
        while !done() {
            let now = SystemTime::now();
            let mut reader = open(&root);
            let version = reader.version();
            let Ok(bytes) = rest(&mut reader, 8192) else { continue };
            if version.is_settled(now) {
                let mut seen = seen.lock().unwrap();
                let known = seen.entry(version.identity("")).or_insert_with(|| bytes.clone());
                assert!(*known == bytes, "two contents of {version:?}");
            }
        }
    };
    std::thread::scope(|scope| {
        let readers = [scope.spawn(read), scope.spawn(read)];
        let target = OpenOptions::new().write(true).open(tree.at(b"file")).unwrap();
        while readers.iter().any(|reader| !reader.is_finished()) {
            for _ in 0..rng.usize(1..50) {
                target.write_all_at(&[rng.u8(..)], rng.u64(..SIZE as u64)).unwrap();
            }
            std::thread::sleep(Duration::from_millis(rng.u64(..60)));
        }
    });
}

#[test]
fn a_file_that_is_replaced_or_removed_is_read_to_its_end() {
    let changes: [fn(&Tree); 2] = [
        |tree| {
            tree.write(b"new", b"new");
            fs::rename(tree.at(b"new"), tree.at(b"file")).unwrap();
        },
        |tree| fs::remove_file(tree.at(b"file")).unwrap(),
    ];
    for change in changes {
        let (tree, root, bytes) = file();
        let mut reader = open(&root);
        let mut start = vec![0; 100_000];
        reader.read(&mut start).unwrap();
        change(&tree);
        reader.verify().unwrap();
        assert_eq!([start, rest(&mut reader, 30_000).unwrap()].concat(), bytes);
        let found = root.version_of(&request(b"/file")).unwrap();
        assert!(!matches!(found.outcome, Outcome::File(sent) if sent.version == reader.version()));
    }
}
