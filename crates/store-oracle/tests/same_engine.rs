//! The engine makes the same decisions on every device. A history with the same order of
//! completions leads to the same operations with the same bytes, the same results and the same
//! counters: in memory, through threads, through io_uring, on a loop device and on a simulated
//! disk.

#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::process::Command;
use std::rc::Rc;
use std::task::{Poll, Waker};

use bytes::Bytes;
use device::{
    AnyDevice, CacheFile, Device, Extent, FrozenBuf, Geometry, IoBuf, ManualClock, MemoryDevice,
    OpenOptions, Operation, OtherDevice, Ring,
};
use fastrand::Rng;
use store::{FormatOptions, Hint, LayoutName, Lookup, Options, Store};
use store_oracle::{any_len, key};
use xxhash_rust::xxh3::xxh3_64;

const LEN: u64 = 8 << 20;
const STEPS: u32 = 400;

/// A device that records its operations and tells when none is under way. One type for all kinds:
/// the engine is compiled once.
struct Recorder {
    device: AnyDevice,
    /// Operation, extent in whole pages, digest of what was written.
    done: RefCell<Vec<(Operation, Extent, u64)>>,
    /// Number of operations whose end was returned to the caller.
    told: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

impl Recorder {
    fn new(device: AnyDevice) -> Recorder {
        let (done, waiting) = (RefCell::default(), RefCell::default());
        Recorder { device, done, told: Cell::new(0), waiting }
    }

    /// Records an operation; returns its number.
    fn begin(&self, operation: Operation, offset: u64, len: usize, written: u64) -> u64 {
        let extent = Extent { offset, len: len as u64 }.aligned(device::WRITE_ALIGN);
        let mut done = self.done.borrow_mut();
        done.push((operation, extent, written));
        done.len() as u64 - 1
    }

    /// Returns when all earlier operations have returned and all other tasks wait, so that the time
    /// that the device took does not matter.
    async fn end(&self, number: u64) {
        self.wait(|| self.told.get() == number).await;
        turns(8).await;
        self.told.set(number + 1);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    async fn wait(&self, until: impl Fn() -> bool) {
        poll_fn(|context| {
            if until() {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Returns when the background has nothing to do before the clock moves.
    async fn idle(&self) {
        let idle = || self.told.get() == self.done.borrow().len() as u64;
        loop {
            self.wait(idle).await;
            // Tasks woken before run first.
            turns(20).await;
            if idle() {
                return;
            }
        }
    }
}

impl Device for Recorder {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    async fn read(&self, offset: u64, buf: IoBuf) -> (IoBuf, io::Result<()>) {
        let number = self.begin(Operation::Read, offset, buf.len(), 0);
        let result = self.device.read(offset, buf).await;
        self.end(number).await;
        result
    }

    async fn write(&self, offset: u64, buf: FrozenBuf) -> io::Result<()> {
        let number = self.begin(Operation::Write, offset, buf.len(), xxh3_64(&buf));
        let result = self.device.write(offset, buf).await;
        self.end(number).await;
        result
    }

    async fn flush(&self) -> io::Result<()> {
        let number = self.begin(Operation::Flush, 0, 0, 0);
        let result = self.device.flush().await;
        self.end(number).await;
        result
    }
}

/// Yields to all other tasks `left` times.
async fn turns(mut left: u32) {
    poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// All decisions of the engine.
#[derive(PartialEq, Debug)]
struct Decisions {
    operations: Vec<(Operation, Extent, u64)>,
    answers: Vec<String>,
    counters: String,
}

type Spawn = Box<dyn Fn(Pin<Box<dyn Future<Output = ()>>>)>;

/// Runs the history of `seed` on an empty device, one step after another.
async fn play(device: AnyDevice, layout: LayoutName, seed: u64, spawn: Spawn) -> Decisions {
    let device = Rc::new(Recorder::new(device));
    let clock = ManualClock::new(1_700_000_000);
    let format = FormatOptions { layout, ..FormatOptions::default() };
    store::format_with_seed(&*device, &format, [7; 48], 1_700_000_000).await.unwrap();
    let options = Options { memory: 2 << 20, ..Options::default() };
    let store = Store::open(vec![Rc::clone(&device)], clock.clone(), options).await;
    let store = store.unwrap();
    let background = store.clone();
    spawn(Box::pin(async move { background.run_background().await }));
    let mut random = Rng::with_seed(seed);
    let mut answers = Vec::new();
    for step in 0..STEPS {
        device.idle().await;
        clock.advance(random.u64(..300_000_000));
        device.idle().await;
        let key = key(random.u32(..200));
        answers.push(match random.u8(..10) {
            0..6 => {
                let body = Bytes::from(vec![step as u8; any_len(&mut random) as usize]);
                let token = store.begin_fetch(&key);
                let insertion = store.insert(&token, &key, Bytes::from("meta"), Hint::default());
                match insertion.await {
                    Err(refusal) => refusal.to_string(),
                    Ok(mut writer) => match writer.write(body).await {
                        Err(refusal) => refusal.to_string(),
                        Ok(()) => format!("{:?}", writer.commit().await),
                    },
                }
            }
            6 => store.remove(&key).await.to_string(),
            7 => format!("{:?}", store.purge(&key).await),
            _ => match store.lookup(&key).await {
                Lookup::Miss => "miss".to_owned(),
                Lookup::Hit(entry) => format!("{:?} {}", entry.source(), entry.len()),
            },
        });
    }
    device.idle().await;
    let counters = format!("{:?}", store.stats()[0].counters);
    assert!(store.shutdown().await);
    let operations = device.done.take();
    Decisions { operations, answers, counters }
}

/// Runs a history on a real or memory device, with an event loop.
fn on_tokio(ring: Option<&Ring>, device: AnyDevice, layout: LayoutName, seed: u64) -> Decisions {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let driver = ring.cloned().map(|ring| tokio::task::spawn_local(device::drive(ring)));
        let spawn: Spawn = Box::new(|task| _ = tokio::task::spawn_local(task));
        // A task like the background: the two alternate.
        let playing = tokio::task::spawn_local(play(device, layout, seed, spawn));
        let decisions = playing.await.unwrap();
        if let Some(driver) = driver {
            driver.abort();
        }
        decisions
    })
}

fn on_simulation(drive: Box<dyn sim::drives::Drive>, layout: LayoutName, seed: u64) -> Decisions {
    let executor = sim::Executor::new(None, 0);
    let options = sim::Options { len: Some(LEN), ..sim::Options::default() };
    let disk = sim::SimDisk::new(executor.handle(), drive, options);
    let disk = AnyDevice::Other(OtherDevice::new(disk));
    let handle = executor.handle();
    let spawn: Spawn = Box::new(move |task| _ = handle.spawn::<()>(task));
    executor.run(play(disk, layout, seed, spawn))
}

fn losetup(words: &[&str]) -> Result<String, String> {
    let output = Command::new("losetup").args(words).output().map_err(|e| e.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// A loop device, detached when dropped.
struct Loop(String);

impl Loop {
    fn over(file: &Path) -> Result<Loop, String> {
        losetup(&["--find", "--show", file.to_str().unwrap()]).map(Loop)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        _ = losetup(&["--detach", &self.0]);
    }
}

fn same_everywhere(layout: LayoutName) {
    let seed = 5;
    let expected = on_tokio(None, AnyDevice::Memory(MemoryDevice::new(LEN, 512)), layout, seed);
    assert!(expected.operations.len() > 200, "{}", expected.operations.len());
    assert!(expected.answers.iter().any(|answer| answer.starts_with("Disk")));
    let check = |name: &str, found: Decisions| {
        let first = expected.operations.iter().zip(&found.operations).position(|(a, b)| a != b);
        if let Some(first) = first {
            let (a, b) = (&expected.operations[first], &found.operations[first]);
            panic!("{layout} on {name}: operation {first} is {b:?} instead of {a:?}");
        }
        assert!(found == expected, "{layout} on {name}");
    };
    let flash = sim::drives::flash::named("sata_tlc").unwrap();
    check("a simulated disk", on_simulation(Box::new(sim::Uniform::fast(LEN)), layout, seed));
    check("a simulated flash drive", on_simulation(Box::new(flash), layout, seed));
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let create = OpenOptions { create: Some(LEN), ..OpenOptions::default() };
    let ring = Ring::new(64).map_err(|why| eprintln!("SKIPPED: io_uring: {why}")).ok();
    for (name, ring) in [("threads", None), ("io_uring", ring.as_ref())] {
        let file = CacheFile::open(&directory.path().join(name), &create).unwrap();
        check(name, on_tokio(ring, file.attach(ring).unwrap(), layout, seed));
    }
    let image = directory.path().join("disk");
    std::fs::File::create(&image).unwrap().set_len(LEN).unwrap();
    match Loop::over(&image) {
        Err(why) => eprintln!("SKIPPED: a loop device: {why}"),
        Ok(disk) => {
            let file = CacheFile::open(Path::new(&disk.0), &OpenOptions::default()).unwrap();
            check("a loop device", on_tokio(None, file.attach(None).unwrap(), layout, seed));
        }
    }
}

#[test]
fn every_layout_decides_alike_on_every_device() {
    LayoutName::ALL.into_iter().for_each(same_everywhere);
}
