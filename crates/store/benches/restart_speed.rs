//! How long a start takes: after an orderly stop and after a kill, with many objects.
//!
//! `cargo bench -p larder-store --bench restart_speed -- FILE OBJECTS [BODY_BYTES [ARM]]`
//!
//! Fills a cache on FILE (created, as large as needed), stops it in order, times the next start to
//! its first hit; then starts it, goes away without a stop, and times the start after that to its
//! first hit and to the end of recovery. The file is removed in the end. ARM is a preset or a
//! layout (`support/arm.rs`).

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]
// A benchmark reads the clock; the crate's ban is for the engine.
#![allow(clippy::disallowed_methods)]

mod support;

use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use device::{AnyDevice, Device};
use larder_store::Lookup;
use support::arm::Arm;
use support::{Engine, objects, processor_seconds};
use tokio::task::LocalSet;

/// What a run works with.
struct Plan {
    path: String,
    objects: usize,
    body_len: usize,
    arm: Arm,
}

/// A cache that has just been opened.
struct Opened {
    store: Engine,
    device: Rc<AnyDevice>,
    started: Instant,
    processor: f64,
}

/// One life of the cache: opened, used by `body`, and left in order or not.
fn life(plan: &Plan, orderly: bool, body: impl AsyncFnOnce(&Opened)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let (started, processor) = (Instant::now(), processor_seconds());
        // Rounded up to slots, with room for a layout that wants a quarter free.
        let record = (plan.body_len + 400).next_multiple_of(512) as u64;
        let size = plan.objects as u64 * record * 3 / 2 + (64 << 20);
        let records = plan.objects * 10 / 9;
        let mut options = plan.arm.options(records, 0);
        options.memory = (256 << 20) + plan.arm.tables(records);
        let format = plan.arm.format(records);
        let (store, device) = support::open(Path::new(&plan.path), size, &format, options).await;
        let opened = Opened { store, device, started, processor };
        body(&opened).await;
        if orderly {
            assert!(opened.store.shutdown().await, "the cache stopped in order");
        }
    });
}

async fn fill(store: &Engine, plan: &Plan) {
    let body = Bytes::from(vec![42; plan.body_len]);
    for number in 0..plan.objects {
        let meta = Bytes::from_static(&[7; 200]);
        let stored = objects::store(store, &objects::key(number), meta, body.clone()).await;
        assert!(stored, "object {number} is stored");
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
}

/// Waits for the first hit and the end of recovery, and tells when they were.
async fn tell_start(opened: &Opened, plan: &Plan, what: &str) {
    let Opened { store, device, started, processor } = opened;
    let mut number = plan.objects;
    loop {
        number = if number == 0 { plan.objects - 1 } else { number - 1 };
        if let Lookup::Hit(_) = store.lookup(&objects::key(number)).await {
            break;
        }
        if number.is_multiple_of(1000) {
            tokio::task::yield_now().await;
        }
    }
    let first = started.elapsed().as_secs_f64();
    while store.stats()[0].recovering {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let stats = &store.stats()[0];
    println!(
        "{what}: first hit after {first:.3} s, index whole after {:.3} s; {:.3} s of processor, \
         {:.3} GB read of {:.3}; {} records",
        started.elapsed().as_secs_f64(),
        processor_seconds() - processor,
        device.counters().snapshot().bytes_read as f64 / 1e9,
        device.geometry().len as f64 / 1e9,
        stats.index_entries,
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|word| word != "--bench");
    let usage = "usage: restart_speed FILE OBJECTS [BODY_BYTES [ARM]]";
    let plan = Plan {
        path: arguments.next().expect(usage),
        objects: arguments.next().expect(usage).parse().expect("a number"),
        body_len: arguments.next().map_or(200, |bytes| bytes.parse().expect("a number")),
        arm: Arm::list(&arguments.next().unwrap_or_else(|| "larder".to_owned())).remove(0),
    };
    let _ = std::fs::remove_file(&plan.path);
    life(&plan, true, async |opened| {
        fill(&opened.store, &plan).await;
        println!(
            "filled with {} objects in {:.1} s, {:.1} s of processor",
            plan.objects,
            opened.started.elapsed().as_secs_f64(),
            processor_seconds() - opened.processor,
        );
    });
    life(&plan, false, async |opened| {
        tell_start(opened, &plan, "after an orderly stop").await;
        let stats = &opened.store.stats()[0];
        println!(
            "index {:.2} bytes for each record at {:.0}% load, tables {:.3}",
            stats.index_bytes as f64 / stats.index_entries as f64,
            stats.index_load * 100.0,
            stats.cluster_table_bytes as f64 / stats.index_entries as f64,
        );
    });
    life(&plan, true, async |opened| tell_start(opened, &plan, "after a kill").await);
    std::fs::remove_file(&plan.path).unwrap();
}
