//! Admission: with `admission = "second-hit"`, objects are stored when they are fetched for the
//! second time.

use testkit::larder::Setup;
use testkit::origin::Origin;

fn second_hit() -> Setup {
    Setup::forward().config("[store]\nadmission = 'second-hit'\n")
}

/// Returns the value of a metric that has no labels but the cache's.
fn metric(metrics: &str, name: &str) -> u64 {
    let lines = metrics.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

#[test]
fn what_is_fetched_for_the_second_time_is_stored() {
    let origin = Origin::start();
    let larder = second_hit().start();
    // One is stored as a single record, one in pieces.
    for target in ["/small?size=3000", "/large?size=9000000"] {
        for outcome in ["MISS", "MISS", "HIT"] {
            let reply = larder.get(&origin.url(target));
            reply.verify(target);
            assert!(reply.outcome().starts_with(outcome), "{target}: {}", reply.outcome());
        }
        assert_eq!(origin.fetches(target), 2, "{target}");
    }
    let metrics = larder.metrics();
    assert_eq!(metric(&metrics, "larder_store_not_admitted_total"), 2);
    assert_eq!(metric(&metrics, "larder_store_insertions_total"), 2);
    larder.stop();
}
