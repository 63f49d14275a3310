//! The same checks for every kind of device: memory, threads and io_uring, on a file and on a block
//! device.

mod support;

use std::io::ErrorKind;

use futures_util::FutureExt;
use futures_util::future::join_all;
use larder_device::{AnyDevice, Counts, Device, IoBuf, MemoryDevice, Ring};
use support::{
    Dice, Loop, frozen, is_pattern, new_file, pattern, ring_or_skip, run, run_parked, skip,
};

const LEN: u64 = 16 << 20;

/// A device with counted operations, and a way to complete abandoned ones.
trait Subject: Device {
    fn counts(&self) -> Counts;

    async fn pause(&self);
}

impl Subject for AnyDevice {
    fn counts(&self) -> Counts {
        self.counters().snapshot()
    }

    async fn pause(&self) {
        tokio::task::yield_now().await;
    }
}

/// A disk in virtual time, and its clock.
struct Simulated(sim::SimDisk, sim::Handle);

impl Device for Simulated {
    fn geometry(&self) -> larder_device::Geometry {
        self.0.geometry()
    }

    async fn read(&self, offset: u64, buf: IoBuf) -> (IoBuf, std::io::Result<()>) {
        self.0.read(offset, buf).await
    }

    async fn write(&self, offset: u64, buf: larder_device::FrozenBuf) -> std::io::Result<()> {
        self.0.write(offset, buf).await
    }

    async fn flush(&self) -> std::io::Result<()> {
        self.0.flush().await
    }
}

impl Subject for Simulated {
    fn counts(&self) -> Counts {
        self.0.counts()
    }

    async fn pause(&self) {
        larder_device::Clock::sleep_until(&self.1, larder_device::Clock::now(&self.1) + 1_000_000)
            .await;
    }
}

/// Runs all checks on a device of [`LEN`] zero bytes. On a `crowded` device operations wait for a
/// place before they begin.
async fn conform(device: &impl Subject, crowded: bool) {
    fresh_bytes_are_zero(device).await;
    reads_see_writes(device).await;
    first_and_last_block(device).await;
    misaligned_and_beyond_the_end(device).await;
    many_at_once(device).await;
    large_transfers(device).await;
    dropped_under_load(device, crowded).await;
    device.flush().await.unwrap();
    let counts = device.counts();
    assert_eq!(counts.in_flight, 0);
    assert!(counts.reads > 0 && counts.bytes_written > 0 && counts.flushes > 0);
}

async fn read(device: &impl Subject, offset: u64, len: usize) -> IoBuf {
    let (buf, result) = device.read(offset, IoBuf::zeroed(len)).await;
    result.unwrap();
    assert_eq!(buf.len(), len);
    buf
}

async fn fresh_bytes_are_zero(device: &impl Subject) {
    let (buf, result) = device.read(0, pattern(65536, 1)).await;
    result.unwrap();
    assert!(is_pattern(&buf, 0));
}

async fn reads_see_writes(device: &impl Subject) {
    device.write(8192, frozen(4096, 7)).await.unwrap();
    assert!(is_pattern(&read(device, 8192, 4096).await, 7));
    device.write(8192, frozen(4096, 8)).await.unwrap();
    assert!(is_pattern(&read(device, 8192, 4096).await, 8));
    let around = read(device, 4096, 12288).await;
    assert!(is_pattern(&around[..4096], 0) && is_pattern(&around[4096..8192], 8));
    assert!(is_pattern(&around[8192..], 0));
}

async fn first_and_last_block(device: &impl Subject) {
    let geometry = device.geometry();
    assert_eq!(geometry.len, LEN);
    assert!(geometry.block.is_power_of_two() && (512..=4096).contains(&geometry.block));
    let block = geometry.block as usize;
    for (offset, what) in [(0, 21), (LEN - block as u64, 22)] {
        device.write(offset, frozen(block, what)).await.unwrap();
        assert!(is_pattern(&read(device, offset, block).await, what));
    }
    let counts = device.counts();
    assert_eq!(counts.errors, 0);
}

async fn misaligned_and_beyond_the_end(device: &impl Subject) {
    let block = device.geometry().block as usize;
    let wrong = [(1, block), (0, block / 2), (LEN, block), (LEN - block as u64, 2 * block)];
    let before = device.counts().errors;
    for (offset, len) in wrong {
        let (buf, result) = device.read(offset, pattern(len, 3)).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(is_pattern(&buf, 3), "the buffer comes back as it was");
        let result = device.write(offset, frozen(len, 3)).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    let huge = device.write(u64::MAX - block as u64 + 1, frozen(block, 3)).await;
    assert_eq!(huge.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(device.counts().errors, before + 9);
    assert_eq!(device.geometry().len, LEN);
}

async fn many_at_once(device: &impl Subject) {
    let place = |index: u64| (1 << 20) + index * 4096;
    let writes = (0..512).map(|index| device.write(place(index), frozen(4096, 100 + index)));
    assert!(join_all(writes).await.iter().all(Result::is_ok));
    let reads = (0..512).map(|index| read(device, place(index), 4096));
    for (index, buf) in join_all(reads).await.iter().enumerate() {
        assert!(is_pattern(buf, 100 + index as u64), "block {index}");
    }
}

async fn large_transfers(device: &impl Subject) {
    device.write(4 << 20, frozen(4 << 20, 31)).await.unwrap();
    assert!(is_pattern(&read(device, 4 << 20, 4 << 20).await, 31));
    assert!(is_pattern(&read(device, 0, 16 << 20).await[4 << 20..8 << 20], 31));
}

/// Drops futures right after their operation began and reuses their memory for other buffers at
/// once. No buffer may change under its owner, and every block has its old or its new contents.
async fn dropped_under_load(device: &impl Subject, crowded: bool) {
    const BLOCKS: u64 = 256;
    let place = |index: u64| (8 << 20) + index * 4096;
    let mut dice = Dice::new();
    let mut owned: Vec<(u64, IoBuf)> = Vec::new();
    let mut expected: Vec<[u64; 2]> = Vec::new();
    for index in 0..BLOCKS {
        device.write(place(index), frozen(4096, 1000 + index)).await.unwrap();
        expected.push([1000 + index; 2]);
    }
    let before = device.counts();
    for round in 0..2000 {
        let index = dice.below(BLOCKS);
        let [old, new] = expected[index as usize];
        match dice.below(4) {
            // A block with a dropped write is not written again: the two might be reordered.
            0 if old == new => {
                let what = 10_000 + round;
                let done = device.write(place(index), frozen(4096, what)).now_or_never();
                expected[index as usize] = [if done.is_some() { what } else { old }, what];
            }
            1 if old == new => {
                device.write(place(index), frozen(4096, 10_000 + round)).await.unwrap();
                expected[index as usize] = [10_000 + round; 2];
            }
            2 => {
                let buf = read(device, place(index), 4096).await;
                assert!(is_pattern(&buf, old) || is_pattern(&buf, new), "block {index}");
            }
            _ => _ = device.read(place(index), IoBuf::zeroed(4096)).now_or_never(),
        }
        owned.push((round, pattern(4096, round)));
        if owned.len() > 64 {
            let (what, buf) = owned.swap_remove(dice.below(64) as usize);
            assert!(is_pattern(&buf, what), "somebody wrote into a buffer not his");
        }
    }
    assert!(owned.iter().all(|(what, buf)| is_pattern(buf, *what)));
    while device.counts().in_flight > 0 {
        device.pause().await;
    }
    let after = device.counts();
    assert_eq!(after.errors, before.errors);
    for (index, [old, new]) in expected.into_iter().enumerate() {
        let buf = read(device, place(index as u64), 4096).await;
        // Operations that began have run to their end, dropped or not; those that waited for a
        // place never began.
        let is_old = is_pattern(&buf, old);
        assert!(is_pattern(&buf, new) || crowded && is_old, "block {index}: old {is_old}");
    }
}

fn conform_on_file(ring: Option<&Ring>, direct: bool) {
    let (_directory, file) = new_file(LEN, direct);
    if direct && !file.is_direct() {
        return skip(&format!("{:?}", file.fallbacks()));
    }
    assert!(file.was_created());
    let device = file.attach(ring).unwrap();
    run(ring, conform(&device, ring.is_some_and(|ring| ring.places() < 512)));
}

#[test]
fn memory() {
    run(None, conform(&AnyDevice::Memory(MemoryDevice::new(LEN, 512)), false));
}

#[test]
fn memory_out_of_order() {
    let device = MemoryDevice::new(LEN, 4096);
    device.shuffle(Some(Dice::new().below(u64::MAX)));
    run(None, conform(&AnyDevice::Memory(device), false));
}

#[test]
fn threads_direct() {
    conform_on_file(None, true);
}

#[test]
fn threads_through_the_page_cache() {
    conform_on_file(None, false);
}

#[test]
fn ring_direct() {
    let Some(ring) = ring_or_skip(4096) else { return };
    conform_on_file(Some(&ring), true);
}

#[test]
fn ring_without_an_event_loop() {
    let Some(ring) = ring_or_skip(4096) else { return };
    let (_directory, file) = new_file(LEN, true);
    let device = file.attach(Some(&ring)).unwrap();
    run_parked(&ring, conform(&device, false));
}

#[test]
fn ring_through_the_page_cache() {
    let Some(ring) = ring_or_skip(4096) else { return };
    conform_on_file(Some(&ring), false);
}

#[test]
fn ring_with_fewer_places_than_operations() {
    let Some(ring) = ring_or_skip(2) else { return };
    conform_on_file(Some(&ring), true);
}

/// Runs the checks on every kind of simulated drive, in the order of arrival and in random order.
#[test]
fn simulated() {
    let uniform = || Box::new(sim::Uniform::fast(LEN)) as Box<dyn sim::drives::Drive>;
    let flash =
        |name| Box::new(sim::drives::flash::named(name).unwrap()) as Box<dyn sim::drives::Drive>;
    for order in [sim::Order::Fifo, sim::Order::Sweep, sim::Order::Nearest] {
        for (seed, drive) in [
            (None, uniform()),
            (Some(1), uniform()),
            (Some(2), flash("nvme_tlc")),
            (Some(3), flash("sata_tlc")),
        ] {
            let executor = sim::Executor::new(seed, 0);
            let options = sim::Options { len: Some(LEN), order, ..sim::Options::default() };
            let disk = sim::SimDisk::new(executor.handle(), drive, options);
            executor.run(conform(&Simulated(disk, executor.handle()), false));
        }
    }
}

fn conform_on_loop_device(ring: Option<&Ring>) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("disk");
    std::fs::File::create(&path).unwrap().set_len(LEN).unwrap();
    let disk = match Loop::over(&path) {
        Ok(disk) => disk,
        Err(reason) => return skip(&reason),
    };
    let file =
        larder_device::CacheFile::open(&disk.0, &larder_device::OpenOptions::default()).unwrap();
    assert_eq!(file.kind(), larder_device::FileKind::BlockDevice);
    assert!(file.is_direct(), "{:?}", file.fallbacks());
    let device = file.attach(ring).unwrap();
    run(ring, conform(&device, ring.is_some()));
}

#[test]
fn ring_on_a_loop_device() {
    let Some(ring) = ring_or_skip(64) else { return };
    conform_on_loop_device(Some(&ring));
}

#[test]
fn threads_on_a_loop_device() {
    conform_on_loop_device(None);
}
