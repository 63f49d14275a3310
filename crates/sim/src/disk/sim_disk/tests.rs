//! Tests of the simulated disk. The conformance tests of `device` check the guarantees that every
//! device makes.

use super::*;
use crate::disk::fault_plan::Fault;
use crate::drives::constant_latency::Uniform;
use crate::time::executor::Executor;

const LEN: u64 = 1 << 20;

fn frozen(len: usize, byte: u8) -> FrozenBuf {
    let mut buf = IoBuf::zeroed(len);
    buf.fill(byte);
    buf.freeze()
}

fn world(order: Order) -> (Executor, SimDisk) {
    let executor = Executor::new(None, 0);
    let mut drive = Uniform::fast(LEN);
    drive.depth = 2;
    let options = Options { order, ..Options::default() };
    let disk = SimDisk::new(executor.handle(), Box::new(drive), options);
    (executor, disk)
}

#[test]
fn operations_take_the_drives_time_and_no_more_at_once_than_it_takes() {
    let (executor, disk) = world(Order::Fifo);
    executor.run(disk.write(0, frozen(4096, 1))).unwrap();
    assert_eq!(executor.handle().now(), 60_800);
    let tasks: Vec<_> = (0..10)
        .map(|index| {
            let disk = disk.clone();
            executor.handle().spawn(async move { disk.write(index * 512, frozen(512, 2)).await })
        })
        .collect();
    executor.run(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(executor.handle().now(), 60_800 + 5 * 60_100);
    assert_eq!(disk.service_time(), 60_800 + 10 * 60_100);
}

#[test]
fn a_dropped_write_is_carried_out() {
    let (executor, disk) = world(Order::Fifo);
    assert_eq!(
        executor.try_run(10, disk.write(0, frozen(512, 9))).unwrap_err(),
        crate::time::executor::Stop::Late
    );
    assert_eq!(disk.counts().in_flight, 1);
    executor.pass(1_000_000);
    assert_eq!(disk.counts().in_flight, 0);
    assert_eq!(disk.peek(Extent { offset: 511, len: 2 }), [9, 0]);
}

#[test]
fn a_kill_keeps_what_completed_and_a_power_loss_what_was_flushed() {
    let (executor, disk) = world(Order::Fifo);
    let byte = |contents: &Contents, offset| {
        let mut byte = [0];
        contents.read(offset, &mut byte);
        byte[0]
    };
    executor.run(disk.write(0, frozen(4096, 1))).unwrap();
    executor.run(disk.flush()).unwrap();
    executor.run(disk.write(8192, frozen(4096, 2))).unwrap();
    _ = executor.try_run(10, disk.write(16_384, frozen(4096, 3)));
    let (mut lost, mut torn, mut kept) = (0, 0, 0);
    for seed in 0..100 {
        let killed = disk.crash_process(seed);
        assert_eq!((byte(&killed, 0), byte(&killed, 8192)), (1, 2));
        let unpowered = disk.crash_power(seed);
        assert_eq!(byte(&unpowered, 0), 1);
        let ends = (byte(&unpowered, 8192), byte(&unpowered, 8192 + 4095));
        match ends {
            (0, 0) => lost += 1,
            (2, 2) => kept += 1,
            _ => torn += 1,
        }
        assert!([0, 3].contains(&byte(&unpowered, 16_384)));
    }
    assert!(lost > 10 && torn > 10 && kept > 10, "{lost} {torn} {kept}");
}

#[test]
fn faults_come_as_planned() {
    let (executor, disk) = world(Order::Fifo);
    let extent = Extent { offset: 4096, len: 1 };
    let faults = vec![
        Fault::Misdirected { after: 1, by: 65_536 },
        Fault::Rot { after: 2, extent, mask: 0x80 },
        Fault::Error { operation: Operation::Read, after: 1, times: 1 },
        Fault::Slow { after: 4, times: 1, by: 1_000_000_000 },
        Fault::Gone { after: 5, times: 2 },
        Fault::Halt { after: 8 },
    ];
    disk.set_plan(FaultPlan { faults });
    executor.run(disk.write(4096, frozen(4096, 1))).unwrap();
    executor.run(disk.write(8192, frozen(4096, 2))).unwrap();
    let (buf, result) = executor.run(disk.read(4096, IoBuf::zeroed(4096)));
    result.unwrap();
    assert_eq!((buf[0], buf[1]), (0x81, 1));
    assert_eq!(disk.peek(Extent { offset: 8192, len: 1 }), [0]);
    assert_eq!(disk.peek(Extent { offset: 8192 + 65_536, len: 1 }), [2]);
    executor.run(disk.read(4096, IoBuf::zeroed(512))).1.unwrap_err();
    let before = executor.handle().now();
    executor.run(disk.read(4096, IoBuf::zeroed(512))).1.unwrap();
    assert!(executor.handle().now() - before > 1_000_000_000);
    executor.run(disk.flush()).unwrap_err();
    executor.run(disk.write(0, frozen(512, 1))).unwrap_err();
    executor.run(disk.flush()).unwrap();
    let halted = executor.try_run(Nanos::MAX, disk.flush()).unwrap_err();
    assert_eq!(halted, crate::time::executor::Stop::Halted);
    assert_eq!(disk.counts().errors, 3);
}

#[test]
fn a_disk_of_a_terabyte_takes_memory_for_what_was_written() {
    let executor = Executor::new(None, 0);
    let len = 1_000_000_000_000 / 4096 * 4096;
    let options = Options { block: 4096, start: 8192, len: Some(len - 8192), ..Options::default() };
    let disk = SimDisk::new(executor.handle(), Box::new(Uniform::fast(len)), options);
    executor.run(disk.write(len - 8192 - 4096, frozen(4096, 5))).unwrap();
    executor.run(disk.write(0, frozen(1 << 20, 0))).unwrap();
    assert_eq!(disk.pages(), 1);
    let (buf, result) = executor.run(disk.read(len - 8192 - 4096, IoBuf::zeroed(4096)));
    result.unwrap();
    assert_eq!(buf[4095], 5);
}

#[test]
fn a_seed_repeats_bit_for_bit() {
    let history = |seed| {
        let executor = Executor::new(Some(seed), 0);
        let disk = SimDisk::new(
            executor.handle(),
            Box::new(Uniform::fast(LEN)),
            Options { order: Order::Nearest, ..Options::default() },
        );
        let tasks: Vec<_> = (0..20)
            .map(|task| {
                let disk = disk.clone();
                executor.handle().spawn(async move {
                    for round in 0..20 {
                        let offset = (task * 31 + round * 17) % 256 * 4096;
                        _ = disk.write(offset, frozen(4096, task as u8)).await;
                        _ = disk.read(offset, IoBuf::zeroed(512)).await;
                    }
                })
            })
            .collect();
        executor.run(async {
            for task in tasks {
                task.await;
            }
        });
        executor.handle().history()
    };
    assert_eq!(history(1), history(1));
    assert_ne!(history(1), history(2));
}
