//! Tests of file system costs: the published facts that determine the model, and its consistency
//! after random calls.

use std::future::Future;

use device::{Clock, Nanos};
use fastrand::Rng;

use super::*;
use crate::disk::host_queue::Order;
use crate::disk::sim_disk::Options;
use crate::drives::mechanical::{Config, MechanicalDrive};
use crate::drives::shipped;
use crate::{Executor, Uniform};

const MIB: u64 = 1 << 20;

/// Returns a disk of 64 MiB on which every request takes 1 ms.
fn plain_disk(executor: &Executor) -> SimDisk {
    let drive =
        Uniform { sectors: 64 * MIB / 512, depth: 1, request: 1_000_000, sector: 0, flush: 0 };
    let options = Options { order: Order::Sweep, power_loss: false, ..Options::default() };
    SimDisk::new(executor.handle(), Box::new(drive), options)
}

fn on_plain_disk<F: Future>(parameters: Parameters, body: impl FnOnce(Ffs) -> F) -> F::Output {
    let executor = Executor::new(None, 0);
    let parameters = Parameters { group: 4 * MIB, ..parameters };
    let ffs = Ffs::new(executor.handle(), plain_disk(&executor), parameters).unwrap();
    executor.run(body(ffs))
}

async fn counted<T>(ffs: &Ffs, body: impl Future<Output = io::Result<T>>) -> Counts {
    let before = ffs.counts();
    body.await.unwrap();
    let after = ffs.counts();
    Counts {
        metadata_reads: after.metadata_reads - before.metadata_reads,
        metadata_writes: after.metadata_writes - before.metadata_writes,
        metadata_writes_behind: after.metadata_writes_behind - before.metadata_writes_behind,
        data_reads: after.data_reads - before.data_reads,
        data_read_bytes: after.data_read_bytes - before.data_read_bytes,
        data_writes: after.data_writes - before.data_writes,
        data_writes_behind: after.data_writes_behind - before.data_writes_behind,
        data_written_bytes: after.data_written_bytes - before.data_written_bytes,
        reads_for_write: after.reads_for_write - before.reads_for_write,
        ..Counts::default()
    }
}

async fn put(ffs: &Ffs, path: &str, len: u64) -> io::Result<()> {
    let file = ffs.create(path).await?;
    ffs.write(&file, 0, len).await?;
    ffs.close(file).await
}

async fn get(ffs: &Ffs, path: &str) -> io::Result<()> {
    let file = ffs.open(path).await?;
    ffs.read(&file, 0, ffs.len(&file)).await?;
    ffs.close(file).await
}

async fn squid_directory(ffs: &Ffs) {
    ffs.mkdir("0").await.unwrap();
    ffs.mkdir("0/00").await.unwrap();
}

/// C15: "two disk reads for two-level directory inodes, one read for file inode, one write to the
/// file inode (to update the file access time), and one or more reads for the file data itself".
#[test]
fn a_read_that_misses_the_name_cache_costs_three_reads_and_a_write_of_metadata() {
    let names = |percent| Names::Rate { percent, seed: 1 };
    for (percent, reads, writes) in [(0, 3, 1), (100, 0, 0)] {
        let parameters = Parameters { names: names(percent), ..Parameters::ucfs_ffs(4 * MIB) };
        on_plain_disk(parameters, async |ffs| {
            squid_directory(&ffs).await;
            put(&ffs, "0/00/00000001", 8_192).await.unwrap();
            let cost = counted(&ffs, get(&ffs, "0/00/00000001")).await;
            assert_eq!((cost.metadata_reads, cost.metadata_writes), (reads, writes));
            assert_eq!(cost.data_reads, 0, "it is still in memory");
            for number in 0..1_100 {
                put(&ffs, &format!("0/00/x{number}"), 4_096).await.unwrap();
            }
            let cost = counted(&ffs, get(&ffs, "0/00/00000001")).await;
            assert_eq!((cost.metadata_reads, cost.metadata_writes), (reads, writes));
            assert_eq!((cost.data_reads, cost.data_read_bytes), (1, 8_192));
        });
    }
}

/// C15: "Two writes for two-level directory inodes, one write for the file inode and one or more
/// writes for the web object itself."
#[test]
fn a_file_write_costs_three_writes_of_metadata_and_those_of_data() {
    on_plain_disk(Parameters::ucfs_ffs(4 * MIB), async |ffs| {
        squid_directory(&ffs).await;
        let clock = ffs.inner.clock.clone();
        for (len, data) in [(1, 1), (4_096, 1), (6_000, 2), (200_000, 5)] {
            let before = clock.now();
            let cost = counted(&ffs, put(&ffs, &format!("0/00/{len}"), len)).await;
            assert_eq!(cost.metadata_writes, 3);
            assert!((1..=data).contains(&cost.data_writes), "{len}: {}", cost.data_writes);
            assert_eq!(clock.now() - before, (3 + cost.data_writes) * 1_000_000);
            assert_eq!(cost.requests(), 3 + cost.data_writes);
        }
        // Nothing is left for later writes.
        ffs.sync_all().await.unwrap();
        assert_eq!(ffs.counts().metadata_writes_behind, 0);
    });
}

#[test]
fn nothing_waits_for_a_write_on_an_asynchronous_file_system() {
    for parameters in [Parameters::ucfs_ffs(8 * MIB), Parameters::solaris_ufs(8 * MIB)] {
        let parameters =
            Parameters { processor: Processor::default(), ..parameters.asynchronous() };
        on_plain_disk(parameters, async |ffs| {
            squid_directory(&ffs).await;
            put(&ffs, "0/00/before", 100).await.unwrap();
            let clock = ffs.inner.clock.clone();
            let before = clock.now();
            let cost = counted(&ffs, put(&ffs, "0/00/1", 6_000)).await;
            assert_eq!((cost.metadata_writes, cost.data_writes), (0, 0));
            assert_eq!(clock.now(), before);
            ffs.sync_all().await.unwrap();
            assert!(ffs.counts().metadata_writes_behind >= 2);
            assert_eq!(ffs.counts().data_writes_behind, 2);
        });
    }
}

/// The order of a crash-safe file system: a creation writes inode and entry before it returns; a
/// removal writes the removed entry and the cleared pointers.
#[test]
fn synchronous_metadata_of_a_kernel() {
    let parameters = Parameters { data: DataWrites::Behind, ..Parameters::freebsd_ufs(8 * MIB) };
    on_plain_disk(parameters, async |ffs| {
        squid_directory(&ffs).await;
        put(&ffs, "0/00/before", 100).await.unwrap();
        let writes = |cost: Counts| (cost.metadata_writes, cost.requests());
        assert_eq!(writes(counted(&ffs, put(&ffs, "0/00/empty", 0)).await), (2, 2));
        assert_eq!(writes(counted(&ffs, put(&ffs, "0/00/full", 9_000)).await), (2, 2));
        assert_eq!(writes(counted(&ffs, ffs.unlink("0/00/empty")).await), (1, 1));
        // Data that was removed before its write is never written.
        assert_eq!(writes(counted(&ffs, ffs.unlink("0/00/full")).await), (2, 2));
        ffs.audit().unwrap();
    });
}

#[test]
fn a_kernel_reads_what_its_buffers_lack() {
    let own = Parameters { names: Names::Recent { entries: 2 }, ..Parameters::solaris_ufs(MIB) };
    let common = Parameters { metadata_memory: None, ..own };
    // Three directories and two inodes: the file's inode lies with its directory's. Data cannot
    // push out inodes that have memory of their own.
    for (parameters, metadata_reads) in [(common, 5), (own, 3)] {
        on_plain_disk(parameters, async |ffs| {
            squid_directory(&ffs).await;
            put(&ffs, "0/00/1", 24_576).await.unwrap();
            ffs.mkdir("other").await.unwrap();
            for number in 0..100 {
                put(&ffs, &format!("other/{number}"), 30_000).await.unwrap();
            }
            // The three blocks are neighbours.
            let cost = counted(&ffs, get(&ffs, "0/00/1")).await;
            assert_eq!((cost.metadata_reads, cost.data_reads), (metadata_reads, 1));
            let cost = counted(&ffs, get(&ffs, "0/00/1")).await;
            assert_eq!(cost.requests(), 0);
        });
    }
}

#[test]
fn a_directory_is_searched_from_its_beginning() {
    let parameters = Parameters {
        names: Names::Recent { entries: 1 },
        processor: Processor { call: 0.0, byte: 0.0, entry: 1_000.0 },
        ..Parameters::solaris_ufs(8 * MIB)
    };
    on_plain_disk(parameters.asynchronous(), async |ffs| {
        let clock = ffs.inner.clock.clone();
        let mut took = Vec::new();
        for number in 0..2_000 {
            let before = clock.now();
            put(&ffs, &format!("{number:08}"), 0).await.unwrap();
            took.push(clock.now() - before);
        }
        assert_eq!(took[1_500], 1_502_000);
        let look = async |name: &str| {
            let before = clock.now();
            get(&ffs, name).await.unwrap();
            clock.now() - before
        };
        let (first, last) = (look("00000001").await, look("00001999").await);
        assert!(first < 40_000 && last > 1_900_000, "{first} {last}");
        // The name cache has it.
        assert_eq!(look("00001999").await, 0);
    });
}

#[test]
fn rows_of_blocks_leave_together() {
    on_plain_disk(Parameters::solaris_ufs(8 * MIB), async |ffs| {
        let file = ffs.create("large").await.unwrap();
        for block in 0..14 {
            ffs.write(&file, block * 8_192, 8_192).await.unwrap();
        }
        // The run is cut where the file changes its group.
        assert_eq!(ffs.counts().data_writes_behind, 3);
        // A write elsewhere sends the gathered run.
        ffs.write(&file, 14 * 8_192, 8_192).await.unwrap();
        ffs.write(&file, 0, 8_192).await.unwrap();
        assert_eq!(ffs.counts().data_writes_behind, 4);
        ffs.close(file).await.unwrap();
        assert_eq!(ffs.counts().data_writes_behind, 5);
        ffs.sync_all().await.unwrap();
        assert_eq!(ffs.counts().data_written_bytes, 16 * 8_192);
    });
}

#[test]
fn dirty_blocks_are_written_after_the_interval() {
    const SECOND: Nanos = 1_000_000_000;
    on_plain_disk(Parameters::ucfs_ffs(8 * MIB).asynchronous(), async |ffs| {
        put(&ffs, "1", 4_000).await.unwrap();
        let clock = ffs.inner.clock.clone();
        clock.sleep_until(29 * SECOND).await;
        assert_eq!(ffs.counts().requests(), 0);
        clock.sleep_until(31 * SECOND).await;
        assert_eq!((ffs.counts().data_writes_behind, ffs.counts().metadata_writes_behind), (1, 1));
    });
    // With shorter steps, each file is written when its own time has come.
    let parameters =
        Parameters { sync_step: SECOND, ..Parameters::ucfs_ffs(8 * MIB).asynchronous() };
    on_plain_disk(parameters, async |ffs| {
        let clock = ffs.inner.clock.clone();
        for number in 0..10 {
            put(&ffs, &format!("{number}"), 4_000).await.unwrap();
            clock.sleep_until((number + 1) * 2 * SECOND + SECOND / 2).await;
        }
        assert_eq!(ffs.counts().requests(), 0);
        clock.sleep_until(40 * SECOND).await;
        assert_eq!(ffs.counts().data_writes_behind, 5);
        clock.sleep_until(60 * SECOND).await;
        assert_eq!(ffs.counts().data_writes_behind, 10);
    });
}

#[test]
fn a_writer_waits_when_too_much_is_dirty() {
    let parameters = Parameters::ucfs_ffs(4 * MIB).asynchronous();
    on_plain_disk(parameters, async |ffs| {
        let clock = ffs.inner.clock.clone();
        let file = ffs.create("1").await.unwrap();
        ffs.write(&file, 0, MIB).await.unwrap();
        assert_eq!(clock.now(), 0);
        ffs.write(&file, MIB, 6 * MIB).await.unwrap();
        assert!(clock.now() > 10_000_000, "{}", clock.now());
        let fragments = ffs.state().buffers.dirty();
        assert!(fragments <= 2 * MIB / 1_024, "{fragments}");
    });
}

/// A page that is changed in part is read first, unless it is in memory or new.
#[test]
fn a_partial_write_reads_the_page() {
    on_plain_disk(Parameters::solaris_ufs(8 * MIB), async |ffs| {
        let device = FileDevice::preallocate(&ffs, "cache", 8 * MIB).unwrap();
        let write = async |offset, len: usize| {
            let cost = counted(&ffs, device.write(offset, IoBuf::zeroed(len).freeze())).await;
            (cost.reads_for_write, cost.data_reads)
        };
        assert_eq!(write(8_192 * 10, 512).await, (1, 1));
        assert_eq!(write(8_192 * 10 + 512, 4_096).await, (0, 0));
        assert_eq!(write(8_192 * 20, 8_192).await, (0, 0));
        assert_eq!(write(8_192 * 30 + 512, 16_384).await, (2, 2));
    });
}

/// In a reserved file, only pages that were written before are read first.
#[test]
fn a_partial_write_reads_no_page_that_was_never_written() {
    on_plain_disk(Parameters::solaris_ufs(MIB), async |ffs| {
        let device = FileDevice::reserve(&ffs, "cache", 8 * MIB).unwrap();
        let write = async |offset, len: usize| {
            let cost = counted(&ffs, device.write(offset, IoBuf::zeroed(len).freeze())).await;
            (cost.reads_for_write, cost.data_reads)
        };
        assert_eq!(write(8_192 * 10, 512).await, (0, 0));
        assert_eq!(write(8_192 * 30 + 512, 16_384).await, (0, 0));
        // Everything leaves the memory.
        device.flush().await.unwrap();
        for block in 200..1_000 {
            assert_eq!(write(8_192 * block, 8_192).await, (0, 0));
        }
        assert_eq!(write(8_192 * 10 + 1_024, 512).await, (1, 1));
        assert_eq!(write(8_192 * 11, 512).await, (0, 0));
    });
}

/// A later write does not overtake an earlier one, however short it is, and does not break the runs
/// in which blocks are written.
#[test]
fn writes_to_a_file_are_carried_out_in_the_order_of_the_calls() {
    on_plain_disk(Parameters::solaris_ufs(8 * MIB), async |ffs| {
        let device = Rc::new(FileDevice::reserve(&ffs, "cache", 8 * MIB).unwrap());
        let lengths = [24, 8, 16, 8].map(|kib: usize| kib << 10);
        let mut at = 0;
        let writes = lengths.map(|len| {
            let (device, offset) = (Rc::clone(&device), at);
            at += len as u64;
            ffs.inner.clock.spawn(async move {
                device.write(offset, IoBuf::zeroed(len).freeze()).await.unwrap();
            })
        });
        for write in writes {
            write.await;
        }
        // Seven blocks are the longest run.
        let counts = ffs.counts();
        assert_eq!((counts.data_writes_behind, counts.data_written_bytes), (1, 7 * 8_192));
    });
}

/// A call whose future is dropped, in any state, does not block other calls.
#[test]
fn a_dropped_call_blocks_no_other_call() {
    for patience in [1, 60_000, 500_000, 1_500_000] {
        on_plain_disk(Parameters::solaris_ufs(8 * MIB), async |ffs| {
            let file = Rc::new(ffs.preallocate("file", MIB).unwrap());
            let clock = ffs.inner.clock.clone();
            let give_up = async |call: std::pin::Pin<Box<dyn Future<Output = ()>>>| {
                let (mut call, clock) = (call, clock.clone());
                let until = clock.now() + patience;
                let mut sleep = Box::pin(clock.sleep_until(until));
                std::future::poll_fn(move |context| {
                    let ended = call.as_mut().poll(context).is_ready();
                    let late = sleep.as_mut().poll(context).is_ready();
                    if ended || late {
                        std::task::Poll::Ready(())
                    } else {
                        std::task::Poll::Pending
                    }
                })
                .await;
            };
            for block in 0..4 {
                let (ours, of) = (ffs.clone(), Rc::clone(&file));
                give_up(Box::pin(async move {
                    ours.read(&of, block * 8_192, 512).await.unwrap();
                }))
                .await;
                let (ours, of) = (ffs.clone(), Rc::clone(&file));
                give_up(Box::pin(async move {
                    ours.write(&of, block * 8_192, 512).await.unwrap();
                }))
                .await;
                let (ours, of) = (ffs.clone(), Rc::clone(&file));
                give_up(Box::pin(async move { ours.sync(&of).await.unwrap() })).await;
            }
            ffs.write(&file, 512, 40_000).await.unwrap();
            ffs.read(&file, 0, 65_536).await.unwrap();
            ffs.sync_all().await.unwrap();
            ffs.audit().unwrap();
        });
    }
}

#[test]
fn a_mapped_page_is_read_even_to_be_overwritten() {
    on_plain_disk(Parameters::ucfs_ffs(8 * MIB), async |ffs| {
        let file = ffs.preallocate("mapped/file", MIB).unwrap();
        let touch = async |offset, len, write| {
            let cost = counted(&ffs, ffs.touch_mapped(&file, offset, len, write)).await;
            (cost.data_reads, cost.requests())
        };
        assert_eq!(touch(4_096, 8_192, true).await, (2, 2));
        assert_eq!(touch(8_000, 500, false).await, (0, 0));
        assert_eq!(touch(16_384, 1, false).await, (1, 1));
        assert_eq!(ffs.counts().data_writes_behind, 0);
        ffs.sync_all().await.unwrap();
        assert_eq!(ffs.counts().data_writes_behind, 1);
        assert!(ffs.touch_mapped(&file, MIB, 1, false).await.is_err());
        ffs.audit().unwrap();
    });
}

#[test]
fn a_file_that_lost_its_name_goes_when_it_is_closed() {
    on_plain_disk(Parameters::solaris_ufs(8 * MIB), async |ffs| {
        put(&ffs, "1", 50_000).await.unwrap();
        let used = ffs.used();
        let file = ffs.open("1").await.unwrap();
        ffs.unlink("1").await.unwrap();
        ffs.read(&file, 0, 50_000).await.unwrap();
        ffs.audit().unwrap();
        assert_eq!(ffs.used(), used);
        ffs.close(file).await.unwrap();
        assert_eq!(ffs.used(), used - 49 * 1_024);
        ffs.audit().unwrap();
    });
}

#[test]
fn errors_are_those_of_the_calls() {
    on_plain_disk(Parameters::solaris_ufs(8 * MIB), async |ffs| {
        put(&ffs, "1", 10).await.unwrap();
        ffs.mkdir("d").await.unwrap();
        use io::ErrorKind::*;
        assert_eq!(ffs.create("1").await.unwrap_err().kind(), AlreadyExists);
        assert_eq!(ffs.open("2").await.unwrap_err().kind(), NotFound);
        assert_eq!(ffs.create("x/2").await.unwrap_err().kind(), NotFound);
        assert_eq!(ffs.create("1/2").await.unwrap_err().kind(), NotADirectory);
        assert_eq!(ffs.unlink("d").await.unwrap_err().kind(), IsADirectory);
        assert_eq!(ffs.open("d").await.unwrap_err().kind(), IsADirectory);
        assert_eq!(ffs.create("").await.unwrap_err().kind(), InvalidInput);
        let file = ffs.open("1").await.unwrap();
        assert_eq!(ffs.read(&file, 5, 6).await.unwrap_err().kind(), UnexpectedEof);
        let (used, free) = (ffs.used(), ffs.free());
        assert_eq!(ffs.write(&file, 5, 100 * MIB).await.unwrap_err().kind(), StorageFull);
        assert_eq!((ffs.used(), ffs.len(&file)), (used, 10));
        // All free space but two blocks and the indirect ones.
        ffs.write(&file, 0, free - 16 * 8_192).await.unwrap();
        assert_eq!(put(&ffs, "d/3", 500_000).await.unwrap_err().kind(), StorageFull);
        ffs.audit().unwrap();
    });
}

/// One client: makes random calls and compares the results with its own record.
async fn client(ffs: Ffs, number: u64, mut random: Rng, steps: u32) {
    let mut files: Vec<(String, u64)> = Vec::new();
    let home = format!("client-{number}");
    ffs.mkdir(&home).await.unwrap();
    for step in 0..steps {
        let which = random.usize(..files.len().max(1));
        match random.u32(..10) {
            0..4 => {
                let len = 1 << random.u32(..17);
                let len = random.u64(..=len);
                let path = format!("{home}/{step}");
                match put(&ffs, &path, len).await {
                    Ok(()) => files.push((path, len)),
                    Err(error) => {
                        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
                        ffs.unlink(&path).await.unwrap_or(());
                    }
                }
            }
            4..6 if !files.is_empty() => {
                let (path, _) = files.swap_remove(which);
                ffs.unlink(&path).await.unwrap();
            }
            6..8 if !files.is_empty() => {
                let file = ffs.open(&files[which].0).await.unwrap();
                let (offset, len) = (random.u64(..200_000), random.u64(1..20_000));
                if ffs.write(&file, offset, len).await.is_ok() {
                    files[which].1 = files[which].1.max(offset + len);
                }
                ffs.close(file).await.unwrap();
            }
            8 => ffs.audit().unwrap(),
            _ if !files.is_empty() => {
                let (path, len) = &files[which];
                let file = ffs.open(path).await.unwrap();
                assert_eq!(ffs.len(&file), *len);
                let offset = random.u64(..=*len);
                ffs.read(&file, offset, random.u64(..=len - offset)).await.unwrap();
                ffs.close(file).await.unwrap();
            }
            _ => {}
        }
    }
}

/// Runs several clients on a small disk with little memory. A second run must return the same
/// result.
fn life(seed: u64, parameters: Parameters) -> (u64, Nanos, Counts) {
    let executor = Executor::new(Some(seed), 0);
    let parameters = Parameters { group: 4 * MIB, ..parameters };
    let clock = executor.handle();
    let ffs = Ffs::new(clock.clone(), plain_disk(&executor), parameters).unwrap();
    let clients: Vec<_> = (0..3)
        .map(|number| {
            let random = Rng::with_seed(seed * 10 + number);
            clock.spawn(client(ffs.clone(), number, random, 250))
        })
        .collect();
    executor.run(async {
        for client in clients {
            client.await;
        }
        ffs.audit().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        ffs.sync_all().await.unwrap();
        assert_eq!(ffs.state().buffers.dirty(), 0, "seed {seed}");
        let used = ffs.state().buffers.used();
        let memory = parameters.memory + parameters.metadata_memory.unwrap_or(0);
        assert!(used * 1_024 <= memory, "seed {seed}: {used}");
    });
    (clock.history(), clock.now(), ffs.counts())
}

#[test]
fn any_calls_leave_the_books_in_order() {
    for seed in 0..6 {
        let make = [Parameters::ucfs_ffs, Parameters::solaris_ufs, Parameters::freebsd_ufs];
        let parameters = make[seed as usize % 3](2 * MIB);
        let parameters = if seed % 2 == 0 { parameters } else { parameters.asynchronous() };
        let first = life(seed, parameters);
        assert_eq!(first, life(seed, parameters), "seed {seed}");
    }
}

#[test]
fn the_device_has_the_bytes_that_were_written() {
    for seed in 0..4 {
        on_plain_disk(Parameters::solaris_ufs(2 * MIB), async |ffs| {
            let device = FileDevice::preallocate(&ffs, "cache", 4 * MIB).unwrap();
            let mut random = Rng::with_seed(seed);
            let mut plain = vec![0_u8; 4 << 20];
            for step in 0..400 {
                let sectors = random.usize(1..60);
                let at = random.usize(..8_192 - sectors) * 512;
                let range = at..at + sectors * 512;
                if random.bool() {
                    let mut buf = IoBuf::zeroed(range.len());
                    buf.fill(random.u8(..));
                    plain[range].copy_from_slice(&buf);
                    device.write(at as u64, buf.freeze()).await.unwrap();
                } else {
                    let buf = IoBuf::zeroed(range.len());
                    let (buf, result) = device.read(at as u64, buf).await;
                    result.unwrap();
                    assert!(buf[..] == plain[range], "seed {seed} step {step}");
                }
            }
            device.flush().await.unwrap();
            assert_eq!(ffs.state().buffers.dirty(), 0);
            assert!(device.write(256, IoBuf::zeroed(512).freeze()).await.is_err());
            assert!(device.write(4 * MIB, IoBuf::zeroed(512).freeze()).await.is_err());
            ffs.audit().unwrap();
        });
    }
}

/// M11: creating and deleting files on the paper's drive. The bounds are wide: they check the
/// mechanism, which is two or three accesses and their rotations, not a fit.
#[test]
fn files_cost_some_accesses_on_the_drive_of_the_paper() {
    let file = shipped::named("st15150").unwrap().unwrap();
    let drive = MechanicalDrive::new(&file, Config::Shipped).unwrap();
    let executor = Executor::new(None, 0);
    let clock = executor.handle();
    let options = Options { order: Order::Sweep, power_loss: false, ..Options::default() };
    let disk = SimDisk::new(clock.clone(), Box::new(drive), options);
    let ffs = Ffs::new(clock.clone(), disk, Parameters::solaris_ufs(64 * MIB)).unwrap();
    executor.run(async {
        for size in [0, 1_024, 4_096, 10_240] {
            let begun = clock.now();
            for number in 0..64 {
                put(&ffs, &format!("{size}-{number}"), size).await.unwrap();
            }
            let created = clock.now();
            for number in 0..64 {
                ffs.unlink(&format!("{size}-{number}")).await.unwrap();
            }
            let each = |time: Nanos| time as f64 / 64.0 * 1e-6;
            let (create, delete) = (each(created - begun), each(clock.now() - created));
            assert!((10.0..60.0).contains(&create), "{size}: {create}");
            assert!((8.0..40.0).contains(&delete), "{size}: {delete}");
        }
    });
}
