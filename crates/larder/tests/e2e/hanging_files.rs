//! A file system that hangs below a root: only requests for its files wait.
//!
//! It is one of the kernel's automounter (autofs) whose daemon never responds. Each lookup of a
//! name in it sleeps until the daemon's pipe is closed, like one in a directory of a server that is
//! gone.

use std::ffi::CString;
use std::fs;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::io::ioctl_fionread;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use tempfile::TempDir;
use testkit::client::{Reply, get, request};
use testkit::io::eventually;
use testkit::larder::{Larder, Setup};
use testkit::skip::skipped;

/// Concurrent file checks and reads of one root, as documented in the guide.
const PLACES: usize = 64;

/// A file system that hangs until this is released or dropped.
struct Hanging {
    place: PathBuf,
    /// Both ends of the daemon's pipe.
    daemon: Option<(OwnedFd, OwnedFd)>,
    /// The daemon's process group, which alone does not hang.
    group: Child,
}

impl Hanging {
    fn over(place: &Path) -> Option<Hanging> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut group = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let (write_end, group_number) = (write.as_raw_fd(), group.id());
        let data = format!("fd={write_end},pgrp={group_number},minproto=5,maxproto=5,indirect");
        let data = CString::new(data).unwrap();
        let mounted = mount("larder", place, "autofs", MountFlags::empty(), data.as_c_str());
        if let Err(why) = mounted {
            group.kill().unwrap();
            group.wait().unwrap();
            skipped(&format!("file systems that hang: an automounter's cannot be mounted: {why}"));
            return None;
        }
        Some(Hanging { place: place.to_owned(), daemon: Some((read, write)), group })
    }

    /// Returns whether lookups hang in it, that is, whether the daemon has received requests.
    fn holds_looks(&self) -> bool {
        let asked = self.daemon.as_ref().map(|(read, _)| ioctl_fionread(read).unwrap());
        asked.is_some_and(|bytes| bytes > 0)
    }

    /// Makes every lookup end with an error from now on.
    fn release(&mut self) {
        self.daemon = None;
        // The kernel notices with the next lookup, unless a process that another test is just
        // starting still holds the pipe. Then that lookup hangs until the one after it.
        let (tell, told) = mpsc::channel();
        for number in 0.. {
            let (place, tell) = (self.place.join(format!("more-{number}")), tell.clone());
            thread::spawn(move || {
                let _ = fs::metadata(place);
                let _ = tell.send(());
            });
            if told.recv_timeout(Duration::from_millis(200)).is_ok() {
                return;
            }
        }
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        self.release();
        let undone = unmount(&self.place, UnmountFlags::DETACH);
        self.group.kill().unwrap();
        self.group.wait().unwrap();
        undone.unwrap();
    }
}

/// Two roots, one of which has a directory `hung`.
struct Roots {
    first: TempDir,
    second: TempDir,
    setup: Setup,
}

impl Roots {
    fn new() -> Roots {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for root in [&first, &second] {
            fs::create_dir(root.path().join("hung")).unwrap();
            fs::write(root.path().join("stored"), "stored").unwrap();
            fs::write(root.path().join("large"), vec![b'x'; 8 << 20]).unwrap();
        }
        let setup = Setup::forward().flag("cache-size", "32M").config(&format!(
            "[[site]]\nhosts = [\"a\"]\nroot = {:?}\n[[site]]\nhosts = [\"b\"]\nroot = {:?}\n",
            first.path(),
            second.path()
        ));
        Roots { first, second, setup }
    }
}

fn ask(larder: &Larder, host: &str, path: &str) -> Reply {
    larder.send(&get(path).header("Host", host))
}

fn threads(larder: &Larder) -> usize {
    fs::read_dir(format!("/proc/{}/task", larder.pid().as_raw_nonzero())).unwrap().count()
}

/// Requests many files that hang; the connections stay open.
fn ask_for_hanging(larder: &Larder, count: usize) -> Vec<TcpStream> {
    let one = |number: usize| {
        let mut connection = larder.connect();
        let path = format!("/hung/{number}/file");
        connection.send(get(&path).header("Host", "a").bytes());
        connection.stream().try_clone().unwrap()
    };
    (0..count).map(one).collect()
}

#[test]
fn nobody_but_those_who_ask_for_its_files_waits_for_a_file_system_that_hangs() {
    let roots = Roots::new();
    let larder = roots.setup.start();
    for host in ["a", "b"] {
        assert_eq!(ask(&larder, host, "/stored").text(), "stored");
        assert_eq!(ask(&larder, host, "/stored").outcome(), "HIT_RAM");
    }
    let Some(mut hanging) = Hanging::over(&roots.first.path().join("hung")) else { return };
    // The mount is noticed; stored files can be checked again while slots are free.
    assert!(eventually(|| ask(&larder, "a", "/stored").outcome() == "HIT_RAM"));
    let before = threads(&larder);
    let waiting = ask_for_hanging(&larder, 3 * PLACES);
    assert!(eventually(|| threads(&larder) >= PLACES), "{}", threads(&larder));
    // Known files of the same root, all files of another one, the admin interface, and a reload.
    assert_eq!(ask(&larder, "a", "/stored").outcome(), "HIT_RAM");
    fs::write(roots.second.path().join("new"), "new").unwrap();
    assert_eq!(ask(&larder, "b", "/new").text(), "new");
    assert_eq!(ask(&larder, "b", "/large").len, 8 << 20);
    assert_eq!(larder.admin_send(request("POST", "/reload").body(b"")).status, 200);
    assert!(larder.metrics().contains("larder_files_watches"));
    let most = threads(&larder);
    assert!(most <= before + PLACES + 4, "{before} threads became {most}");
    // Requests of clients that left no longer wait in the queue.
    drop(waiting);
    thread::sleep(Duration::from_millis(300));
    hanging.release();
    assert_eq!(ask(&larder, "a", "/large").len, 8 << 20);
    assert!([403, 404, 500].contains(&ask(&larder, "a", "/hung/x").status));
    larder.stop();
}

#[test]
fn an_orderly_end_does_not_wait_for_a_file_system_that_hangs() {
    let roots = Roots::new();
    let setup = roots.setup;
    let text = fs::read_to_string(setup.path("larder.toml")).unwrap();
    let setup = setup.config(&format!("drain = \"200ms\"\n{text}"));
    let mut larder = setup.start();
    assert_eq!(ask(&larder, "a", "/stored").text(), "stored");
    let Some(hanging) = Hanging::over(&roots.first.path().join("hung")) else { return };
    let _waiting = ask_for_hanging(&larder, 5);
    assert!(eventually(|| hanging.holds_looks()));
    larder.signal(Signal::TERM);
    let status = larder.await_exit();
    assert!(status.is_some_and(|status| status.success()), "{}", larder.said());
    assert!(larder.said().contains("everything is saved"), "{}", larder.said());
    let again = setup.start();
    assert_eq!(ask(&again, "a", "/stored").text(), "stored");
}
