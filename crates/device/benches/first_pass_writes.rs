//! Measures what preallocation costs: the first writes into fallocated space (unwritten extents,
//! which the file system must convert) against writes into space that was written before; then
//! what a 4 KiB random read costs in CPU, by io_uring and by threads.
//!
//! `cargo bench -p larder-device --bench first_pass_writes -- [DIRECTORY [MEBIBYTES]]`; the
//! file is removed at the end. The figures of the decision on preallocation come from here.

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use larder_device::{AnyDevice, CacheFile, Device, FrozenBuf, IoBuf, OpenOptions, Ring};
use rustix::time::{ClockId, clock_gettime};

/// Bytes between two flushes.
const FLUSH_EVERY: u64 = 64 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).filter(|word| word != "--bench");
    let place = arguments.next().unwrap_or_else(|| ".".to_owned());
    let mebibytes: u64 = arguments.next().map_or(Ok(1024), |text| text.parse())?;
    let directory = tempfile::tempdir_in(Path::new(&place))?;
    let path = directory.path().join("measured");
    for (size, depth) in [(1 << 20, 4), (64 << 10, 4), (64 << 10, 1)] {
        let start = Instant::now();
        let options = OpenOptions { create: Some(mebibytes << 20), ..OpenOptions::default() };
        let file = CacheFile::open(&path, &options)?;
        let fallbacks: Vec<String> = file.fallbacks().iter().map(ToString::to_string).collect();
        println!(
            "{} KiB writes, {depth} at a time, a flush every {} MiB; {mebibytes} MiB created in \
             {:.0} ms {fallbacks:?}",
            size >> 10,
            FLUSH_EVERY >> 20,
            start.elapsed().as_secs_f64() * 1e3,
        );
        for pass in ["first pass, unwritten ", "second pass, written  ", "third pass, written   "] {
            let ring = Ring::new(64).map_err(|refusal| refusal.to_string())?;
            drive(&ring, writes(&file.attach(Some(&ring))?, pass, size, depth))?;
        }
        if size == 64 << 10 && depth == 1 {
            random_reads(&file)?;
        }
        drop(file);
        std::fs::remove_file(&path)?;
    }
    Ok(())
}

/// Sequential writes over the whole device.
async fn writes(device: &AnyDevice, pass: &str, size: u64, depth: usize) -> io::Result<()> {
    let mut bytes = IoBuf::zeroed(size as usize);
    bytes.fill(0x5a);
    let buf: FrozenBuf = bytes.freeze();
    let len = device.geometry().len;
    let (start, cpu) = (Instant::now(), cpu_time());
    let mut in_flight = FuturesUnordered::new();
    let mut flushes: Vec<Duration> = Vec::new();
    for offset in (0..len).step_by(size as usize) {
        if in_flight.len() == depth {
            in_flight.next().await.unwrap_or(Ok(()))?;
        }
        in_flight.push(device.write(offset, buf.clone()));
        if (offset + size).is_multiple_of(FLUSH_EVERY) {
            while let Some(result) = in_flight.next().await {
                result?;
            }
            let begin = Instant::now();
            device.flush().await?;
            flushes.push(begin.elapsed());
        }
    }
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_time() - cpu);
    flushes.sort();
    println!(
        "  {pass} {:7.0} MiB/s {:7.1} us CPU a write; flush: median {:.1} ms, longest {:.1} ms",
        (len >> 20) as f64 / seconds,
        cpu.as_secs_f64() * 1e6 / (len / size) as f64,
        flushes[flushes.len() / 2].as_secs_f64() * 1e3,
        flushes[flushes.len() - 1].as_secs_f64() * 1e3,
    );
    Ok(())
}

fn random_reads(file: &Arc<CacheFile>) -> Result<(), Box<dyn Error>> {
    [1, 4, 32].into_iter().try_for_each(|depth| random_reads_at(file, depth))
}

fn random_reads_at(file: &Arc<CacheFile>, depth: usize) -> Result<(), Box<dyn Error>> {
    println!("4 KiB random reads, 50,000, {depth} at a time");
    let ring = Ring::new(64).map_err(|refusal| refusal.to_string())?;
    let device = file.attach(Some(&ring))?;
    drive(&ring, reads(&device, depth, "io_uring, parked     ", &|| ring.system_calls()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let driver = tokio::task::spawn_local(larder_device::drive(ring.clone()));
        tokio::task::yield_now().await;
        let result = reads(&device, depth, "io_uring, event loop ", &|| ring.system_calls()).await;
        driver.abort();
        result
    })?;
    let device = file.attach(None)?;
    runtime.block_on(reads(&device, depth, "threads, event loop  ", &|| 0))?;
    Ok(())
}

async fn reads(
    device: &AnyDevice,
    depth: usize,
    how: &str,
    system_calls: &dyn Fn() -> u64,
) -> io::Result<()> {
    let blocks = device.geometry().len / 4096;
    let mut state = 1u64;
    let mut place = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) % blocks * 4096
    };
    let total = 50_000;
    let (start, cpu, calls) = (Instant::now(), cpu_time(), system_calls());
    let mut in_flight = FuturesUnordered::new();
    let mut spare: Vec<IoBuf> = (0..depth).map(|_| IoBuf::zeroed(4096)).collect();
    let mut begun = 0;
    loop {
        while begun < total
            && let Some(buf) = spare.pop()
        {
            in_flight.push(device.read(place(), buf));
            begun += 1;
        }
        let Some((buf, result)) = in_flight.next().await else { break };
        result?;
        spare.push(buf);
    }
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_time() - cpu);
    println!(
        "  {how} {:7.0} reads/s {:6.2} us CPU a read, {:.2} ring calls a read",
        f64::from(total) / seconds,
        cpu.as_secs_f64() * 1e6 / f64::from(total),
        (system_calls() - calls) as f64 / f64::from(total),
    );
    Ok(())
}

/// Runs `body` to its end without an event loop.
fn drive<T>(ring: &Ring, body: impl Future<Output = T>) -> T {
    ring.batch(true);
    let mut body = std::pin::pin!(body);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(output) = body.as_mut().poll(&mut context) {
            return output;
        }
        ring.park(Duration::from_secs(1));
    }
}

/// User and system time of all threads of this process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
