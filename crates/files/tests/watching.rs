//! The watcher on a real file system. Every change that affects a lookup voids its stamp, at the
//! latest when the system call that made the change has returned.

#![allow(clippy::unwrap_used)]

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use files::watch::watcher::{Stamp, WatchOptions, Watcher};
use tempfile::TempDir;

const INTERVAL: u64 = 1000;

fn watcher(root: &TempDir, most: usize) -> Watcher {
    let options = WatchOptions { most, interval: Duration::from_millis(INTERVAL) };
    Watcher::new(root.path(), options).unwrap()
}

/// Returns a tree and its watcher.
fn watched(most: usize) -> (TempDir, Watcher) {
    let tree = tree();
    let watcher = watcher(&tree, most);
    (tree, watcher)
}

/// Returns a tree with `a/b/page` and `other/page`.
fn tree() -> TempDir {
    let tree = tempfile::tempdir().unwrap();
    fs::create_dir_all(tree.path().join("a/b")).unwrap();
    fs::create_dir_all(tree.path().join("other")).unwrap();
    fs::write(tree.path().join("a/b/page"), "old").unwrap();
    fs::write(tree.path().join("other/page"), "old").unwrap();
    tree
}

fn stamp(watcher: &Watcher, root: &Path, directory: &str) -> Stamp {
    watcher.stamp(File::open(root).unwrap().as_fd(), &[directory.as_bytes()], 0)
}

/// Returns whether the stamps of `a/b` and of `other` still hold a year after `change`.
fn after(change: impl FnOnce(&Path)) -> (bool, bool) {
    let (tree, watcher) = watched(100);
    let near = stamp(&watcher, tree.path(), "a/b");
    let far = stamp(&watcher, tree.path(), "other");
    change(tree.path());
    let later = 365 * 86_400_000;
    (watcher.holds(near, later), watcher.holds(far, later))
}

#[test]
fn reading_changes_nothing() {
    let held = after(|root| {
        assert_eq!(fs::read(root.join("a/b/page")).unwrap(), b"old");
        assert_eq!(fs::read_dir(root.join("a/b")).unwrap().count(), 1);
        fs::metadata(root.join("a/b/page")).unwrap();
    });
    assert_eq!(held, (true, true));
}

#[test]
fn every_change_of_a_file_is_seen_and_only_in_its_directory() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 12] = [
        ("written in place", |page| fs::write(page, "new").unwrap()),
        ("appended", |page| {
            let mut file = OpenOptions::new().append(true).open(page).unwrap();
            file.write_all(b"x").unwrap();
        }),
        ("a byte overwritten", |page| {
            let mut file = OpenOptions::new().write(true).open(page).unwrap();
            file.rewind().unwrap();
            file.write_all(b"n").unwrap();
        }),
        ("truncated", |page| {
            OpenOptions::new().write(true).open(page).unwrap().set_len(1).unwrap();
        }),
        ("opened for truncation", |page| drop(File::create(page).unwrap())),
        ("replaced", |page| {
            let new = page.with_extension("new");
            fs::write(&new, "new").unwrap();
            fs::rename(new, page).unwrap();
        }),
        ("deleted", |page| fs::remove_file(page).unwrap()),
        ("moved away", |page| fs::rename(page, page.with_extension("old")).unwrap()),
        ("made unreadable", |page| {
            fs::set_permissions(page, fs::Permissions::from_mode(0o000)).unwrap();
        }),
        ("touched", |page| {
            let time = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1);
            File::open(page).unwrap().set_modified(time).unwrap();
        }),
        ("a sibling made", |page| fs::write(page.with_extension("gz"), "packed").unwrap()),
        ("a link made", |page| symlink("/", page.with_extension("link")).unwrap()),
    ];
    for (name, change) in changes {
        assert_eq!(after(|root| change(&root.join("a/b/page"))), (false, true), "{name}");
    }
}

#[test]
fn a_directory_on_the_way_that_moves_makes_all_void() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 4] = [
        ("moved", |root| fs::rename(root.join("a"), root.join("c")).unwrap()),
        ("moved out", |root| {
            let elsewhere = tempfile::tempdir_in(root.parent().unwrap()).unwrap();
            fs::rename(root.join("a"), elsewhere.path().join("a")).unwrap();
        }),
        ("exchanged", |root| {
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            let (cwd, a, b) = (rustix::fs::CWD, root.join("a"), root.join("other"));
            rustix::fs::renameat_with(cwd, a, cwd, b, flags).unwrap();
        }),
        ("closed", |root| {
            fs::set_permissions(root.join("a"), fs::Permissions::from_mode(0o000)).unwrap();
        }),
    ];
    for (name, change) in changes {
        assert_eq!(after(change), (false, false), "{name}");
    }
    // The same for a removed directory: a process that has it open keeps its watch alive.
    assert_eq!(after(|root| fs::remove_dir_all(root.join("a")).unwrap()), (false, false));
}

#[test]
fn a_directory_that_comes_back_is_watched_again() {
    let (tree, watcher) = watched(100);
    let first = stamp(&watcher, tree.path(), "a/b");
    fs::remove_dir_all(tree.path().join("a/b")).unwrap();
    assert!(!watcher.holds(first, 0));
    // It would appear in the directory above, which is watched.
    let none = stamp(&watcher, tree.path(), "a/b");
    assert!(watcher.holds(none, INTERVAL * 9));
    fs::create_dir(tree.path().join("a/b")).unwrap();
    assert!(!watcher.holds(none, 0));
    let again = stamp(&watcher, tree.path(), "a/b");
    assert!(watcher.holds(again, INTERVAL * 9));
    fs::write(tree.path().join("a/b/new"), "").unwrap();
    assert!(!watcher.holds(again, 0));
}

#[test]
fn without_room_for_watches_stamps_hold_for_a_time() {
    let (tree, watcher) = watched(1);
    let root = stamp(&watcher, tree.path(), "");
    let below = stamp(&watcher, tree.path(), "a/b");
    assert!(watcher.holds(below, INTERVAL - 1) && !watcher.holds(below, INTERVAL));
    assert!(watcher.holds(root, INTERVAL * 9));
    assert_eq!(watcher.stats().refusals, 1);
    // Directories that are looked up again take the watches of those that are not.
    stamp(&watcher, tree.path(), "a/b");
    assert!(!watcher.holds(root, 0));
    let none =
        Watcher::new(tree.path(), WatchOptions { most: 0, interval: Duration::from_millis(1) });
    let none = none.unwrap();
    let timed = stamp(&none, tree.path(), "");
    assert!(none.holds(timed, 0) && !none.holds(timed, 1));
}

#[test]
fn several_directories_are_void_with_any_change() {
    let (tree, watcher) = watched(100);
    let root = File::open(tree.path()).unwrap();
    let both = watcher.stamp(root.as_fd(), &[b"a/b", b""], 0);
    assert!(watcher.holds(both, 0));
    stamp(&watcher, tree.path(), "other");
    fs::write(tree.path().join("other/page"), "new").unwrap();
    assert!(!watcher.holds(both, 0));
}

#[test]
fn lost_events_make_all_void() {
    let (tree, watcher) = watched(100);
    let (near, far) = (stamp(&watcher, tree.path(), "a/b"), stamp(&watcher, tree.path(), "other"));
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    if limit > 1 << 17 {
        eprintln!("SKIPPED: the queue of inotify has room for {limit} events");
        return;
    }
    // The kernel merges equal successive events, so two files alternate.
    let files = ["x", "y"].map(|name| File::create(tree.path().join("a/b").join(name)).unwrap());
    for turn in 0..=limit {
        (&files[turn % 2]).write_all(b"x").unwrap();
    }
    assert!(!watcher.holds(far, 0) && !watcher.holds(near, 0));
    assert_eq!(watcher.stats().overflows, 1);
    assert!(watcher.holds(stamp(&watcher, tree.path(), "other"), INTERVAL * 9));
}

/// Writers change files in every way while readers keep what they read together with its stamp.
/// Content with a valid stamp is never older than the last change that had returned before.
#[test]
fn content_with_a_valid_stamp_is_never_older_than_the_last_change() {
    let (tree, watcher) = watched(100);
    let page = tree.path().join("a/b/page");
    let write = |version: u64, way: u64| {
        // Eight digits are a single write, so no reader sees half of it.
        let text = format!("{version:08}");
        if way.is_multiple_of(2) {
            let file = OpenOptions::new().write(true).open(&page).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, text.as_bytes(), 0).unwrap();
        } else {
            let new = page.with_extension("new");
            fs::write(&new, text).unwrap();
            fs::rename(new, &page).unwrap();
        }
    };
    write(0, 1);
    let (done, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    let held = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut kept: Option<(Stamp, u64)> = None;
                while !ended.load(Ordering::SeqCst) {
                    let before = done.load(Ordering::SeqCst);
                    if let Some((stamp, version)) = kept
                        && watcher.holds(stamp, 0)
                    {
                        assert!(version >= before, "{version} is served after {before}");
                        held.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let stamp = stamp(&watcher, tree.path(), "a/b");
                    let version = fs::read_to_string(&page).unwrap().parse().unwrap();
                    kept = Some((stamp, version));
                }
            });
        }
        scope.spawn(|| {
            for version in 1..=3000_u64 {
                write(version, version / 7);
                done.store(version, Ordering::SeqCst);
                if version.is_multiple_of(16) {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            ended.store(true, Ordering::SeqCst);
        });
    });
    assert!(held.load(Ordering::Relaxed) > 0, "no stamp ever held");
}

#[test]
fn a_directory_that_is_removed_while_it_is_open_elsewhere_is_not_taken_for_the_next() {
    let (tree, watcher) = watched(100);
    let place = tree.path().join("a/b");
    stamp(&watcher, tree.path(), "a/b");
    // Like a shell whose working directory this is.
    let open = File::open(&place).unwrap();
    fs::remove_dir_all(&place).unwrap();
    fs::create_dir(&place).unwrap();
    let fresh = stamp(&watcher, tree.path(), "a/b");
    // The queue is read in between: the first stamp is void, the next one belongs to the new
    // directory.
    assert!(!watcher.holds(fresh, 0) || watcher.stats().events > 0);
    let fresh = stamp(&watcher, tree.path(), "a/b");
    assert!(watcher.holds(fresh, 0));
    fs::write(place.join("page"), "new").unwrap();
    assert!(!watcher.holds(fresh, 0));
    drop(open);
}

#[test]
fn a_missing_file_is_noticed_when_it_appears() {
    let (tree, watcher) = watched(100);
    let later = 365 * 86_400_000;
    for missing in ["a/none", "a/none/deep/er", "a/b/page/below"] {
        let fresh = stamp(&watcher, tree.path(), missing);
        assert!(watcher.holds(fresh, later), "{missing}");
    }
    let near = stamp(&watcher, tree.path(), "a/none/deep");
    let far = stamp(&watcher, tree.path(), "other");
    fs::create_dir(tree.path().join("a/none")).unwrap();
    assert_eq!((watcher.holds(near, 0), watcher.holds(far, 0)), (false, true));
}

/// Directories are moved while watches are being added. A directory with a valid stamp is watched
/// together with all of its parents.
#[test]
fn moved_directories_leave_no_watch_without_those_above() {
    let (tree, watcher) = watched(100);
    let (a, away) = (tree.path().join("a"), tree.path().join("away"));
    let (ended, mut held) = (AtomicBool::new(false), 0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !ended.load(Ordering::SeqCst) {
                    let fresh = stamp(&watcher, tree.path(), "a/b");
                    watcher.holds(fresh, 0);
                }
            });
        }
        let move_away = || fs::rename(&a, &away).unwrap();
        let move_back = || fs::rename(&away, &a).unwrap();
        let end = Instant::now() + Duration::from_secs(1);
        let mut wrong = 0;
        while Instant::now() < end {
            move_away();
            move_back();
            let fresh = stamp(&watcher, tree.path(), "a/b");
            let before = watcher.holds(fresh, 0);
            move_away();
            held += u32::from(before);
            wrong += u32::from(watcher.holds(fresh, 0));
            move_back();
        }
        ended.store(true, Ordering::SeqCst);
        assert_eq!(wrong, 0, "stamps of {held} held after the move");
    });
    assert!(held > 0, "no stamp held before the move");
}

/// A mount that is removed on drop.
struct Mounted(std::path::PathBuf);

impl Mounted {
    fn new(words: &[&str], place: &Path) -> Option<Mounted> {
        let mut mount = Command::new("mount");
        let done = mount.args(words).arg(place).stderr(Stdio::null()).status();
        done.is_ok_and(|status| status.success()).then(|| Mounted(place.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let done = Command::new("umount").arg("--lazy").arg(&self.0).status();
        assert!(done.is_ok_and(|status| status.success()), "{} is still mounted", self.0.display());
    }
}

#[test]
fn mounts_below_the_root_are_noticed_and_watched() {
    let (tree, watcher) = watched(100);
    let place = tree.path().join("a/b");
    let old = stamp(&watcher, tree.path(), "a/b");
    let Some(mounted) = Mounted::new(&["-t", "tmpfs", "tmpfs"], &place) else {
        eprintln!("SKIPPED: mounts below a root: mounting is not permitted here");
        return;
    };
    let seen = |stamp: Stamp| {
        let end = Instant::now() + Duration::from_secs(60);
        while watcher.holds(stamp, 0) && Instant::now() < end {
            watcher.wait(Duration::from_millis(100));
        }
        !watcher.holds(stamp, 0)
    };
    assert!(seen(old));
    // The new file system is watched, and its removal is noticed.
    let fresh = stamp(&watcher, tree.path(), "a/b");
    assert!(watcher.holds(fresh, INTERVAL * 9));
    fs::write(place.join("page"), "new").unwrap();
    assert!(!watcher.holds(fresh, 0));
    let fresh = stamp(&watcher, tree.path(), "a/b");
    assert!(watcher.holds(fresh, INTERVAL * 9));
    drop(mounted);
    assert!(seen(fresh));
    // When a file is mounted over a file, the kernel reports changes elsewhere.
    let (source, page) = (tree.path().join("other/page"), place.join("page"));
    let _mounted = Mounted::new(&["--bind", source.to_str().unwrap()], &page).unwrap();
    watcher.wait(Duration::from_millis(100));
    let by_time = stamp(&watcher, tree.path(), "a/b");
    assert!(watcher.holds(by_time, INTERVAL - 1) && !watcher.holds(by_time, INTERVAL));
    let above = stamp(&watcher, tree.path(), "a");
    assert!(watcher.holds(above, INTERVAL * 9));
}

#[test]
fn giving_up_many_watches_does_not_overflow_the_queue() {
    const MANY: usize = 16_500;
    let (tree, watcher) = watched(MANY + 10);
    let root = File::open(tree.path()).unwrap();
    for number in 0..MANY {
        let name = format!("other/{number}");
        fs::create_dir(tree.path().join(&name)).unwrap();
        watcher.stamp(root.as_fd(), &[name.as_bytes()], 0);
        // Creating an entry is an event.
        if number.is_multiple_of(1000) {
            watcher.wait(Duration::ZERO);
        }
    }
    if watcher.stats().refusals > 0 {
        eprintln!("SKIPPED: many watches: fs.inotify.max_user_watches is too low");
        return;
    }
    watcher.reset();
    watcher.wait(Duration::ZERO);
    assert_eq!((watcher.stats().watches, watcher.stats().overflows), (0, 0));
}
