//! Tests of the flash model: it reproduces the figures of the data sheets, and erasures delay
//! reads.

use std::collections::BinaryHeap;

use fastrand::Rng;

use super::*;

/// Runs a closed loop of `depth` requests; returns the requests per second of virtual time.
fn closed(
    drive: &mut Flash,
    depth: usize,
    count: u64,
    mut request: impl FnMut(u64) -> Request,
) -> f64 {
    let mut in_flight = BinaryHeap::new();
    let mut now = 0;
    for number in 0..count {
        if in_flight.len() == depth {
            let Reverse(done) = in_flight.pop().unwrap();
            now = done;
        }
        in_flight.push(Reverse(drive.serve(now, request(number))));
    }
    let end = in_flight.into_iter().map(|Reverse(done)| done).max().unwrap();
    count as f64 * 1e9 / end as f64
}

fn random_4k(operation: Operation, sectors: u64) -> impl FnMut(u64) -> Request {
    let mut random = Rng::with_seed(1);
    move |_| Request { operation, sector: random.u64(..sectors / 8) * 8, sectors: 8 }
}

fn in_sequence(operation: Operation) -> impl FnMut(u64) -> Request {
    move |number| Request { operation, sector: number * 256, sectors: 256 }
}

fn stated(name: &str) -> Value {
    let (_, text) = SHIPPED.iter().find(|(known, _)| *known == name).unwrap();
    serde_json::from_str::<Value>(text).unwrap()["stated"].clone()
}

#[test]
fn the_figures_of_the_data_sheets_come_out() {
    for name in names() {
        let stated = stated(name);
        let check = |what: &str, found: f64| {
            let stated = stated[what].as_f64().unwrap();
            let ratio = found / stated;
            assert!((0.85..1.15).contains(&ratio), "{name} {what}: {found:.0} of {stated}");
        };
        let sectors = named(name).unwrap().sectors();
        let deep = named(name).unwrap().depth();
        let run = |depth, count, request: &mut dyn FnMut(u64) -> Request| {
            closed(&mut named(name).unwrap(), depth, count, request)
        };
        let megabytes = |requests: f64| requests * 131_072.0 / 1e6;
        let (read, write) = (Operation::Read, Operation::Write);
        check("read_4k_depth_1", run(1, 5_000, &mut random_4k(read, sectors)));
        check("write_4k_depth_1", run(1, 20_000, &mut random_4k(write, sectors)));
        check("read_4k_depth_32", run(deep, 100_000, &mut random_4k(read, sectors)));
        check("write_4k_depth_32", run(deep, 200_000, &mut random_4k(write, sectors)));
        check("sequential_read_mb_s", megabytes(run(8, 20_000, &mut in_sequence(read))));
        check("sequential_write_mb_s", megabytes(run(8, 40_000, &mut in_sequence(write))));
        let mut full = named(name).unwrap();
        full.fast_left = 0;
        let sustained = closed(&mut full, 8, 40_000, in_sequence(write));
        check("sustained_write_mb_s", megabytes(sustained));
    }
}

/// Returns the longest of many single reads during writes.
fn longest_read(suspend: Nanos) -> Nanos {
    let mut parameters = named("sata_tlc").unwrap().parameters().clone();
    parameters.suspend = suspend;
    parameters.fast = 0;
    let mut drive = Flash::new(parameters);
    let mut random = Rng::with_seed(2);
    let mut longest = 0;
    for round in 0..40_000 {
        let now = round * 1_000_000;
        let sector = random.u64(..1 << 20) * 8;
        drive.serve(now, Request { operation: Operation::Write, sector, sectors: 256 });
        let read = Request { operation: Operation::Read, sector, sectors: 8 };
        longest = longest.max(drive.serve(now + 300_000, read) - now - 300_000);
    }
    longest
}

#[test]
fn reads_wait_for_erasures_that_cannot_be_suspended() {
    let (waiting, suspending) = (longest_read(0), longest_read(60_000));
    assert!(waiting > 4_000_000, "an erasure takes 5 ms, the longest read took {waiting} ns");
    assert!(suspending < 1_500_000, "with suspension it took {suspending} ns");
}

#[test]
fn a_flush_waits_for_the_buffer_unless_that_is_protected() {
    let mut parameters = named("nvme_tlc").unwrap().parameters().clone();
    let write = Request { operation: Operation::Write, sector: 0, sectors: 8 };
    let flush = Request { operation: Operation::Flush, sector: 0, sectors: 0 };
    for protected in [false, true] {
        parameters.protected = protected;
        let mut drive = Flash::new(parameters.clone());
        let written = drive.serve(0, write);
        let flushed = drive.serve(written, flush) - written;
        assert_eq!(flushed >= parameters.fast_program, !protected, "{flushed}");
    }
}

#[test]
fn dies_read_in_parallel() {
    let mut drive = named("sata_tlc").unwrap();
    let alone = drive.serve(0, Request { operation: Operation::Read, sector: 0, sectors: 8 });
    let mut drive = named("sata_tlc").unwrap();
    let eight = (0..8)
        .map(|die| {
            let sector = die * drive.parameters.page / SECTOR;
            drive.serve(0, Request { operation: Operation::Read, sector, sectors: 8 })
        })
        .max()
        .unwrap();
    assert!(eight < 2 * alone, "eight dies take {eight} ns, one takes {alone}");
}

#[test]
fn a_file_that_describes_no_drive_is_refused() {
    assert!(Parameters::read("[").is_err());
    let (_, good) = SHIPPED[0];
    for (member, bad) in [("channels", "0"), ("bus_mb_s", "0"), ("read_us", "-1"), ("depth", "x")] {
        let mut file: Value = serde_json::from_str(good).unwrap();
        file[member] = serde_json::from_str(bad).unwrap_or(Value::from(bad));
        let error = Parameters::read(&file.to_string()).unwrap_err().to_string();
        assert!(error.contains(member), "{error}");
    }
}
