//! The load generator with its origin, before and behind a real cache: every byte is right, and its
//! hits are the requests that its origin did not get.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bench::client::{Protocol, Spacing};
use bench::load::{LoadOptions, PhaseKind, RequestsPerConnection, Sizes, Workload};
use bench::measure::PhaseFigures;
use bench::origin::Options;
use bench::run::{End, Pace, PhasePlan, Session, SessionOptions, Subject};
use testkit::address;
use workload::generator::polymix::PolyMix;

use crate::server::Server;

const SEED: u64 = 17;

/// Returns the figures of a workload's requests through a cache of 64 MiB.
fn run(load: LoadOptions, pace: Pace, end: End) -> PhaseFigures {
    let origin: SocketAddr = address::free();
    let running = Server::start(origin);
    let options = SessionOptions {
        targets: vec![running.address],
        host: running.address.to_string(),
        is_forward: false,
        origin,
        name: "bench".into(),
        answers: Options { seed: SEED, ..Options::default() },
        load,
        connections: 16,
        requests_per_connection: RequestsPerConnection::Zipf(64),
        protocol: Protocol::Http1,
        timeout: Duration::from_secs(30),
        subject: Subject::default(),
    };
    let mut session = Session::new(options, Arc::new(AtomicBool::new(false))).unwrap();
    let plan = PhasePlan { name: "all".into(), kind: PhaseKind::Steady, pace, end };
    let number = session.run(&plan, &mut |_| ()).unwrap();
    session.settle().unwrap();
    let (failures, count) = session.failures();
    assert_eq!(count, 0, "seed {SEED}: {failures:?}");
    session.figures(number)
}

fn load(workload: Workload) -> LoadOptions {
    LoadOptions {
        workload,
        seed: SEED,
        sizes: Sizes::WEB,
        lifetime: 0,
        uncacheable: 0.1,
        ranges: 0.0,
        browser: false,
    }
}

#[test]
fn popular_objects_are_hits_and_every_byte_is_right() {
    let zipf = load(Workload::Zipf { objects: 300, alpha: 0.8, drift: None });
    let figures = run(zipf, Pace::Closed, End::Requests(4_000));
    assert_eq!(figures.answered, 4_000, "seed {SEED}: {:?}", figures.errors);
    // Everything fits, and requests during a fetch wait for it.
    let (hits, offered) = (figures.hit_ratio, figures.offered_hit_ratio);
    assert!((hits - offered).abs() < 0.01, "seed {SEED}: {hits}, offered {offered}");
    assert!(hits > 0.75, "seed {SEED}: {hits}");
    let asked = figures.origin_answers as f64 / 4_000.0;
    assert!((asked - (1.0 - hits)).abs() < 1e-9, "seed {SEED}: {asked} of the origin");
}

#[test]
fn parts_and_objects_that_change_are_right() {
    let zipf = Workload::Zipf { objects: 100, alpha: 0.8, drift: None };
    let changing = LoadOptions { ranges: 0.3, lifetime: 2, ..load(zipf) };
    let pace = Pace::Open { rates: [400.0, 400.0], spacing: Spacing::Poisson };
    let figures = run(changing, pace, End::Requests(2_000));
    let ended = figures.answered + figures.error_count();
    assert!(ended >= 2_000, "seed {SEED}: {ended}");
    // If an object changes between two of its parts, its response must be cut.
    let errors = &figures.errors;
    assert!(errors.keys().all(|kind| kind == "cut short"), "seed {SEED}: {errors:?}");
    // The numbers of hits and of cut responses depend on the speed of the machine.
    assert!(figures.error_count() * 10 < figures.answered, "seed {SEED}: {errors:?}");
    assert!(figures.hit_ratio > 0.05, "seed {SEED}: {}", figures.hit_ratio);
}

#[test]
fn polymix_is_right_with_its_conditions_and_methods() {
    for mix in PolyMix::ALL {
        let mix = PolyMix { frozen_at: Some(2_000), ..mix };
        let figures = run(load(Workload::PolyMix(mix)), Pace::Closed, End::Requests(6_000));
        let (hits, offered) = (figures.hit_ratio, figures.offered_hit_ratio);
        assert!(figures.errors.is_empty(), "seed {SEED}: {:?}", figures.errors);
        // Conditional requests for objects that are not cached can only be answered by the origin.
        assert!((hits - offered).abs() < 0.03, "seed {SEED}: {} {hits}, {offered}", mix.name);
        assert!(hits > 0.35, "seed {SEED}: {} {hits}", mix.name);
    }
}
