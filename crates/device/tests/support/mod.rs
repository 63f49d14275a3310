//! Parts shared by the device tests: an event loop like the proxy's, temporary files and block
//! devices, and a seeded generator.
#![allow(dead_code)] // each test file uses its part

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use larder_device::{CacheFile, FrozenBuf, IoBuf, OpenOptions, Ring};

/// Runs `body` on one thread, with `ring` driven through its eventfd as in the proxy: the
/// operations of one turn share a system call.
pub fn run<T>(ring: Option<&Ring>, body: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let driver = ring.cloned().map(|ring| tokio::task::spawn_local(larder_device::drive(ring)));
        tokio::task::yield_now().await; // the driver comes first
        let watchdog = Duration::from_secs(120);
        let output = tokio::time::timeout(watchdog, body).await.expect("the test hangs");
        if let Some(driver) = driver {
            driver.abort();
            _ = driver.await;
        }
        output
    })
}

/// Runs `body` without an event loop: each operation has its own system call, and the thread parks
/// on the ring.
pub fn run_parked<T>(ring: &Ring, body: impl Future<Output = T>) -> T {
    let mut body = pin!(body);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = body.as_mut().poll(&mut context) {
            return output;
        }
        ring.park(Duration::from_millis(100));
    }
}

/// Returns a ring, or prints that the test is skipped and returns `None`.
pub fn ring_or_skip(places: u32) -> Option<Ring> {
    Ring::new(places).map_err(|refusal| skip(&refusal.to_string())).ok()
}

/// Prints that a test did not run.
pub fn skip(reason: &str) {
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    eprintln!("SKIPPED: {test}: {reason}");
}

/// Creates a preallocated file of `len` bytes in a directory that is removed with the first value.
/// The directory is in the build's, because /tmp may be memory without O_DIRECT.
pub fn new_file(len: u64, direct: bool) -> (tempfile::TempDir, Arc<CacheFile>) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("cache");
    let options = OpenOptions { create: Some(len), direct, ..OpenOptions::default() };
    let file = CacheFile::open(&path, &options).unwrap();
    (directory, file)
}

/// A loop device over a file; detached when dropped.
pub struct Loop(pub PathBuf);

impl Loop {
    pub fn over(file: &Path) -> Result<Loop, String> {
        let name = command("losetup", &["--find", "--show", file.to_str().unwrap()])?;
        Ok(Loop(PathBuf::from(name.trim())))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        _ = command("losetup", &["--detach", self.0.to_str().unwrap()]);
    }
}

/// A mounted file system; unmounted when dropped.
pub struct Mount(pub PathBuf);

impl Mount {
    pub fn new(arguments: &[&str], at: &Path) -> Result<Mount, String> {
        let arguments = [arguments, &[at.to_str().unwrap()]].concat();
        command("mount", &arguments).map(|_| Mount(at.to_owned()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        _ = command("umount", &["-l", self.0.to_str().unwrap()]);
    }
}

/// Runs a command; returns its standard output, or the error.
pub fn command(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(format!("{program}: {}", text(&output.stderr)))
    }
}

/// Returns a buffer in which every 8 bytes depend on `what` and on their position.
pub fn pattern(len: usize, what: u64) -> IoBuf {
    let mut buf = IoBuf::zeroed(len);
    for (index, word) in buf.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&word_of(what, index).to_le_bytes());
    }
    buf
}

pub fn frozen(len: usize, what: u64) -> FrozenBuf {
    pattern(len, what).freeze()
}

/// Returns whether `bytes` are the pattern of `what`; zeros are the pattern of 0.
pub fn is_pattern(bytes: &[u8], what: u64) -> bool {
    let mut words = bytes.chunks_exact(8).enumerate();
    words.all(|(index, word)| word == word_of(what, index).to_le_bytes())
}

fn word_of(what: u64, index: usize) -> u64 {
    if what == 0 { 0 } else { what.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index as u64 }
}

/// A small generator; its whole state is the seed.
pub struct Dice(pub u64);

impl Dice {
    /// Returns a generator with the seed DEVICE_SEED, or else one from the clock. Prints the seed,
    /// so that a failure can be replayed.
    pub fn new() -> Dice {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        let seed = std::env::var("DEVICE_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or(now);
        eprintln!("replay with DEVICE_SEED={seed}");
        Dice(seed)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}
