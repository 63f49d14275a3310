//! Tests of the memory device.

use std::pin::pin;

use super::*;

fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the operation should complete at once"),
    }
}

fn filled(len: usize, byte: u8) -> FrozenBuf {
    let mut buf = IoBuf::zeroed(len);
    buf.fill(byte);
    buf.freeze()
}

fn byte_at(device: &MemoryDevice, offset: u64) -> u8 {
    device.peek(Extent { offset, len: 1 })[0]
}

#[test]
fn handles_are_send() {
    fn send<T: Send + Sync>(_: T) {}
    send(MemoryDevice::new(4096, 512));
}

#[test]
fn a_process_crash_keeps_completed_writes_and_a_power_loss_flushed_ones() {
    let device = MemoryDevice::new(1 << 20, 4096);
    now(device.write(0, filled(4096, 1))).unwrap();
    now(device.flush()).unwrap();
    now(device.write(0, filled(4096, 2))).unwrap();
    assert_eq!(byte_at(&device.crash_process(), 0), 2);
    let mut seen = [0; 3];
    for seed in 0..64 {
        let after = device.crash_power(seed);
        let bytes = after.peek(Extent { offset: 0, len: 4096 });
        for sector in bytes.chunks(SECTOR) {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "torn within a sector");
        }
        let new = bytes.iter().filter(|byte| **byte == 2).count();
        assert_eq!(new + bytes.iter().filter(|byte| **byte == 1).count(), 4096);
        seen[if new == 0 {
            0
        } else if new == 4096 {
            1
        } else {
            2
        }] += 1;
    }
    assert!(seen.iter().all(|times| *times > 0), "lost, whole and torn all occur: {seen:?}");
}

#[test]
fn a_seed_decides_the_crash() {
    let device = MemoryDevice::new(1 << 20, 512);
    for index in 0..20 {
        now(device.write(index * 4096, filled(4096, 7))).unwrap();
    }
    let all = Extent { offset: 0, len: 1 << 20 };
    assert_eq!(device.crash_power(5).peek(all), device.crash_power(5).peek(all));
    assert_ne!(device.crash_power(5).peek(all), device.crash_power(6).peek(all));
}

#[test]
fn a_flush_covers_what_completed_before_it_began() {
    let device = MemoryDevice::new(1 << 20, 4096);
    now(device.write(0, filled(4096, 1))).unwrap();
    device.hold();
    let mut context = Context::from_waker(Waker::noop());
    let mut flush = pin!(device.flush());
    let mut write = pin!(device.write(4096, filled(4096, 1)));
    assert!(flush.as_mut().poll(&mut context).is_pending());
    assert!(write.as_mut().poll(&mut context).is_pending());
    let held = device.held();
    assert_eq!((held[0].operation, held[1].operation), (Operation::Flush, Operation::Write));
    assert!(device.release(held[1].id) && device.release(held[0].id));
    assert!(!device.release(held[0].id), "released twice");
    assert!(write.poll(&mut context).is_ready() && flush.poll(&mut context).is_ready());
    let survived = (0..64).map(|seed| device.crash_power(seed));
    let (mut first, mut second) = (0, 0);
    for after in survived {
        first += u32::from(byte_at(&after, 0));
        second += u32::from(byte_at(&after, 4096));
    }
    assert_eq!(first, 64);
    assert!((1..64).contains(&second), "a write that overlaps the flush may be lost: {second}");
}

#[test]
fn a_dropped_write_still_happens_when_released() {
    let device = MemoryDevice::new(1 << 20, 4096);
    device.hold();
    {
        let mut write = pin!(device.write(0, filled(4096, 9)));
        assert!(write.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    assert_eq!((byte_at(&device, 0), device.counts().in_flight), (0, 1));
    assert_eq!(byte_at(&device.crash_process(), 0), 0);
    let torn = (0..64).map(|seed| byte_at(&device.crash_process_torn(seed), 0));
    assert!((1..64).contains(&torn.filter(|byte| *byte == 9).count()));
    device.release_all();
    assert_eq!((byte_at(&device, 0), device.counts().in_flight), (9, 0));
}

#[test]
fn faults_hit_the_operation_they_name_and_end() {
    let device = MemoryDevice::new(1 << 20, 4096);
    let error = io::ErrorKind::TimedOut;
    device.inject(Fault { operation: Operation::Write, after: 1, times: 2, error });
    let write = || now(device.write(0, filled(4096, 1))).map_err(|error| error.kind());
    assert!(now(device.flush()).is_ok());
    assert_eq!([write(), write(), write(), write()], [Ok(()), Err(error), Err(error), Ok(())]);
    device.inject(Fault { operation: Operation::Read, after: 0, times: u64::MAX, error });
    for _ in 0..10 {
        assert!(now(device.read(0, IoBuf::zeroed(4096))).1.is_err());
    }
    device.heal();
    assert!(now(device.read(0, IoBuf::zeroed(4096))).1.is_ok());
    let counts = device.counts();
    assert_eq!((counts.errors, counts.reads, counts.writes, counts.flushes), (12, 11, 4, 1));
    assert_eq!((counts.bytes_read, counts.bytes_written), (4096, 8192));
}

#[test]
fn damage_is_seen_by_reads_only() {
    let device = MemoryDevice::new(1 << 20, 4096);
    device.damage_reads(Extent { offset: 5000, len: 2 }, 0x80);
    let (buf, result) = now(device.read(4096, IoBuf::zeroed(4096)));
    assert!(result.is_ok());
    let wrong: Vec<usize> = (0..4096).filter(|index| buf[*index] != 0).collect();
    assert_eq!(wrong, [904, 905]);
    assert_eq!(byte_at(&device, 5000), 0);
}

#[test]
fn shuffled_operations_complete_out_of_order() {
    let device = MemoryDevice::new(1 << 20, 4096);
    device.shuffle(Some(3));
    let mut context = Context::from_waker(Waker::noop());
    let mut writes: Vec<_> =
        (0..8).map(|byte| Box::pin(device.write(0, filled(4096, byte)))).collect();
    let mut order = Vec::new();
    while order.len() < 8 {
        for (index, write) in writes.iter_mut().enumerate() {
            if !order.contains(&index) && write.as_mut().poll(&mut context).is_ready() {
                order.push(index);
            }
        }
    }
    assert!(!order.is_sorted(), "{order:?}");
    assert_eq!(usize::from(byte_at(&device, 0)), order[7], "the last to complete wins");
}
