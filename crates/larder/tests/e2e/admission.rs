//! Admission: with `admission = "second-hit"`, objects are stored when they are fetched for the
//! second time.

use testkit::client::get;
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

#[test]
fn a_variant_is_stored_the_second_time_too() {
    let origin = Origin::start();
    let larder = second_hit().start();
    let target = "/page?vary=Accept-Language";
    let ask = |language: &str| {
        let request = get(&origin.url(target)).header("Accept-Language", language);
        larder.send(&request).outcome()
    };
    let outcomes = [ask("en"), ask("en"), ask("en"), ask("de"), ask("de")];
    let hits = outcomes.each_ref().map(|outcome| outcome.starts_with("HIT"));
    // The URL is already known when its second variant is fetched.
    assert_eq!(hits, [false, false, true, false, true], "{outcomes:?}");
    larder.stop();
}

#[test]
fn a_validated_object_stays_and_a_new_version_takes_its_place() {
    let origin = Origin::start();
    let larder = second_hit().start();
    let target = "/news?etag=1&cc=max-age=0";
    let fetch = || {
        let reply = larder.get(&origin.url(target));
        reply.verify(target);
        reply.outcome()
    };
    assert_eq!([fetch(), fetch(), fetch()], ["MISS", "MISS", "REVALIDATED"]);
    let fresh = "/fresh?etag=1&cc=no-cache";
    let outcomes: Vec<_> = (0..3).map(|_| larder.get(&origin.url(fresh)).outcome()).collect();
    assert_eq!(outcomes, ["MISS", "MISS", "REVALIDATED"]);
    origin.change(fresh);
    let outcomes: Vec<_> = (0..2).map(|_| larder.get(&origin.url(fresh)).outcome()).collect();
    assert_eq!(outcomes, ["REFRESHED", "REVALIDATED"]);
    larder.stop();
}
