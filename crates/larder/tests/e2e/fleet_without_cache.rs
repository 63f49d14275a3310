//! Fleet nodes that have no cache, or a small one and own nothing: they serve from the others.

use std::path::Path;

use testkit::client::request;
use testkit::fleet_nodes::{Crowd, Fleet, ask, await_whole, fetch, purge, version, view};
use testkit::larder::Larder;
use testkit::origin::Origin;

/// Returns the weight of node `name` in the view of another.
fn weight(at: &Larder, name: &str) -> u64 {
    let view = view(at);
    let members = view["members"].as_array().unwrap();
    members.iter().find(|member| member["name"] == name).unwrap()["weight"].as_u64().unwrap()
}

#[test]
fn a_node_without_a_cache_answers_from_those_that_have_one() {
    let origin = Origin::start();
    let owns_nothing = "[fleet]\ncapacity = \"0\"\n";
    let fleet = Fleet::of(3, &origin)
        .with(1, |setup| setup.flag("cache-size", "8M").config(owns_nothing))
        .with(2, |setup| setup.cache_at(Path::new("none")));
    let nodes = fleet.start();
    let (small, without) = (&nodes[1], &nodes[2]);
    assert!(without.says("this node has no cache: it owns nothing"), "{}", without.said());
    assert!(!without.said().contains("ERROR"), "{}", without.said());
    for node in &nodes {
        assert_eq!([weight(node, "b"), weight(node, "c")], [0, 0]);
    }
    for number in 0..6 {
        let target = format!("/page{number}?size={}", 1 + number * 20_001);
        let outcomes =
            [without, without, small, without].map(|node| fetch(node, &target).outcome());
        assert_eq!(outcomes, ["MISS", "HIT_PEER", "HIT_PEER", "HIT_PEER"], "{target}");
        assert_eq!(origin.fetches(&target), 1, "{target}");
        let head = request("HEAD", &target).send(without.address());
        assert_eq!((head.status, origin.fetches(&target)), (200, 1), "{:?}", head.head);
    }

    // It has nothing that a purge could concern, and is neither waited for nor named.
    let (purged, posted) = ("/purged?size=30000", "/posted?size=30000");
    let versions = |target| [0, 1, 2].map(|at: usize| version(&nodes[at], target));
    assert_eq!([versions(purged), versions(posted)], [[0; 3]; 2]);
    origin.change(purged);
    origin.change(posted);
    assert_eq!([versions(purged), versions(posted)], [[0; 3]; 2]);
    let (code, said) = purge(&nodes[0], purged);
    assert!(code == 0 && said.contains("; and at 1 other node"), "{code} {said}");
    assert_eq!([versions(purged), versions(posted)], [[1; 3], [0; 3]]);
    let (code, said) = purge(without, purged);
    assert!(code == 1 && said.contains("there is no cache at this node"), "{code} {said}");
    // A POST through it invalidates at all nodes.
    let post = request("POST", posted).header("Host", "site.test").body(b"new");
    assert_eq!(post.send(without.address()).status, 200);
    assert_eq!(versions(posted), [1; 3]);

    let (code, said) = ask(&nodes[0], &["fleet", "status", "--check"]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_node_without_a_cache_outlives_the_owner_of_all() {
    let origin = Origin::start();
    let fleet = Fleet::of(2, &origin).with(1, |setup| setup.cache_at(Path::new("none")));
    let mut nodes = fleet.start();
    let target = "/page?size=30000";
    assert_eq!(fetch(&nodes[1], target).outcome(), "MISS");
    // A private response is for the client alone, and bypasses the other nodes.
    let private = "/private?h=Cache-Control:private";
    for _ in 0..2 {
        fetch(&nodes[1], private);
    }
    assert_eq!(origin.fetches(private), 2);
    assert_eq!(fetch(&nodes[1], target).outcome(), "HIT_PEER");
    let crowd = Crowd::at(&[&nodes[1]]);
    nodes.remove(0).kill();
    let alone = &nodes[0];
    fetch(alone, target);
    assert!(crowd.end() >= 10);
    let back = fleet.setups[0].start();
    await_whole(&back, 2);
    await_whole(alone, 2);
    assert!(["MISS", "HIT_PEER"].contains(&&*fetch(alone, target).outcome()));
}
