//! Problems of a fleet: strangers, two nodes of one name, an old copy of a cache, a node that
//! cannot follow.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustix::process::Signal;
use testkit::client::{get, request};
use testkit::fleet_nodes::{Crowd, Fleet, HOST, ask, await_whole, fetch, purge, version, view};
use testkit::larder::{Larder, Setup};
use testkit::origin::Origin;

/// Writes an authority of this name as `NAME.pem`, and a certificate of it for a node, with its
/// key, as `NAME-node.pem`.
fn issue(directory: &Path, name: &str) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    let authority = params.self_signed(&key).unwrap();
    fs::write(directory.join(format!("{name}.pem")), authority.pem()).unwrap();
    let (issuer, key) = (Issuer::new(params, key), KeyPair::generate().unwrap());
    let node = CertificateParams::new(["node".to_owned()]).unwrap();
    let node = node.signed_by(&key, &issuer).unwrap();
    let path = directory.join(format!("{name}-node.pem"));
    fs::write(path, node.pem() + &key.serialize_pem()).unwrap();
}

/// Sets up a node with a certificate of this authority and without sealed gossip.
fn with_certificate(setup: Setup, directory: &Path, authority: &str) -> Setup {
    let path = |name: &str| directory.join(format!("{name}.pem")).display().to_string();
    setup.without("fleet-key").config(&format!(
        "[fleet]\ncertificate = {:?}\nca = {:?}\n",
        path(&format!("{authority}-node")),
        path(authority)
    ))
}

#[test]
fn a_node_with_a_certificate_of_another_authority_is_kept_out() {
    let origin = Origin::start();
    let fleet = Fleet::of(3, &origin);
    let keys = fleet.keys().to_owned();
    ["ours", "theirs"].iter().for_each(|name| issue(&keys, name));
    let mut fleet = fleet.each(|setup, _| with_certificate(setup, &keys, "ours"));
    let stranger = with_certificate(fleet.setups.pop().unwrap(), &keys, "theirs");
    let nodes = fleet.start();
    let target = "/page?size=50000";
    let outcomes = [0, 1].map(|at: usize| fetch(&nodes[at], target).outcome());
    assert_eq!(origin.fetches(target), 1, "{outcomes:?}");
    let (code, said) = purge(&nodes[0], target);
    assert!(code == 0 && said.contains("; and at 1 other node"), "{code} {said}");

    // Gossip is not sealed, so they hear each other; but no connection is accepted.
    let stranger = stranger.start();
    for node in [&nodes[0], &stranger] {
        let all = || node.said();
        assert!(node.says("is not a node of this fleet: it"), "{}", all());
        assert!(all().contains("authorit") && !all().contains("panicked"), "{}", all());
    }
    for (number, node) in nodes.iter().chain([&stranger]).enumerate() {
        let target = format!("/page{number}?size=9000");
        fetch(node, &target);
        assert_eq!(fetch(node, &target).status, 200);
    }
    // None of its responses is accepted, and it gets none.
    let hits = |node: &Larder| view(node)["members"].clone();
    let asked = hits(&stranger);
    let answered = asked.as_array().unwrap().iter().filter(|member| member["asked"].is_object());
    answered.for_each(|member| {
        assert_eq!([&member["asked"]["hit"], &member["asked"]["fetched"]], [0, 0], "{asked:#}");
    });
}

#[test]
fn of_two_nodes_of_one_name_the_newer_is_not_ready_until_the_other_is_gone() {
    let origin = Origin::start();
    let fleet = Fleet::of(3, &origin).with(2, |setup| setup.flag("fleet-node", "b"));
    let (first, second) = (fleet.addresses[1], fleet.addresses[2]);
    let mut nodes: Vec<Larder> = fleet.setups[..2].iter().map(Setup::launch).collect();
    nodes.iter().for_each(|node| await_whole(node, 2));
    let crowd = Crowd::at(&[&nodes[0], &nodes[1]]);
    let twin = fleet.setups[2].launch();
    let text = format!("two nodes of the fleet are named b: the one at {second} is ignored");
    for node in [&nodes[0], &twin] {
        assert!(node.says(&text), "{}", node.said());
    }
    let why = format!("the node at {first} is named b, too, and started first");
    assert_eq!(view(&twin)["name_in_use"], why);
    let ready = twin.admin_send(get("/readyz"));
    assert_eq!((ready.status, ready.text()), (503, format!("not ready: {why}\n")));
    let (code, said) = ask(&twin, &["fleet", "status", "--check"]);
    assert!(code == 1 && said.contains(&why), "{said}");
    // It can tell no other node of a purge, or of a changed document.
    let (code, said) = purge(&twin, "/page");
    assert!(code == 1 && said.contains(&why), "{code} {said}");
    let put = request("PUT", &format!("{HOST}/page")).body(b"").send(twin.address());
    assert_eq!(put.status, 503);
    nodes.iter().for_each(|node| await_whole(node, 2));
    assert!(crowd.end() >= 20);
    nodes.pop().unwrap().stop();
    await_whole(&nodes[0], 2);
    await_whole(&twin, 2);
    assert!(Crowd::at(&[&twin]).end() >= 10);
}

#[test]
fn an_old_copy_of_a_cache_brings_nothing_back() {
    let origin = Origin::start();
    // One node owns all documents, and its cache is the one that is copied.
    let owns_nothing = "[fleet]\ncapacity = \"0\"\n";
    let fleet = Fleet::of(2, &origin).with(0, |setup| setup.config(owns_nothing));
    let mut nodes = fleet.start();
    let (there, here, kept) = ("/there?size=40000", "/here?size=40000", "/kept?size=40000");
    for target in [there, here, kept] {
        assert_eq!(versions(&nodes, target), [0, 0]);
    }
    nodes.pop().unwrap().stop();
    let (cache, copy) = (fleet.setups[1].cache(), fleet.setups[1].path("copy"));
    fs::copy(&cache, &copy).unwrap();
    let restore = |nodes: &mut Vec<Larder>| {
        nodes.pop().unwrap().stop();
        fs::copy(&copy, &cache).unwrap();
        nodes.push(fleet.setups[1].start());
    };

    // Purged at the other node: this one then gets the purges that it missed, by name.
    nodes.push(fleet.setups[1].start());
    nodes.iter().for_each(|node| await_whole(node, 2));
    origin.change(there);
    let (code, said) = purge(&nodes[0], there);
    assert!(code == 0 && said.contains("at 1 other node"), "{code} {said}");
    restore(&mut nodes);
    // From the first response on.
    assert_eq!(version(&nodes[1], there), 1);
    nodes.iter().for_each(|node| await_whole(node, 2));
    assert_eq!(versions(&nodes, there), [1, 1]);
    assert_eq!(versions(&nodes, kept), [0, 0]);
    assert_eq!(origin.fetches(kept), 1, "{}", nodes[1].said());

    // Purged at this node: the old copy lacks its log entry, so nothing in it is used.
    origin.change(here);
    let (code, said) = purge(&nodes[1], here);
    assert!(code == 0 && said.contains("at 1 other node"), "{code} {said}");
    restore(&mut nodes);
    assert!(nodes[1].says("the cache is an older one"), "{}", nodes[1].said());
    nodes.iter().for_each(|node| await_whole(node, 2));
    assert_eq!(versions(&nodes, here), [1, 1], "{}", nodes[1].said());
    assert_eq!(versions(&nodes, there), [1, 1]);
}

#[test]
fn what_is_changed_through_a_node_that_has_not_caught_up_is_invalid_there() {
    let origin = Origin::start();
    let owns_nothing = "[fleet]\ncapacity = \"0\"\n";
    let fleet = Fleet::of(2, &origin).with(0, |setup| setup.config(owns_nothing));
    let mut nodes = fleet.start();
    let (changed, kept) = ("/changed?size=40000", "/kept?size=40000");
    assert_eq!([versions(&nodes, changed), versions(&nodes, kept)], [[0; 2]; 2]);
    nodes.pop().unwrap().stop();
    // While the other node hangs, this one uses nothing from its cache.
    nodes[0].signal(Signal::STOP);
    nodes.push(fleet.setups[1].start());
    origin.change(changed);
    let post = request("POST", changed).header("Host", "site.test").body(b"new");
    let status = post.send(nodes[1].address()).status;
    let caught_up = view(&nodes[1])["caught_up"].clone();
    nodes[0].signal(Signal::CONT);
    assert_eq!((status, caught_up), (200, serde_json::Value::Bool(false)));
    nodes.iter().for_each(|node| await_whole(node, 2));
    assert_eq!([versions(&nodes, changed), versions(&nodes, kept)], [[1; 2], [0; 2]]);
    assert_eq!(origin.fetches(kept), 1, "{}", nodes[1].said());
}

/// Returns the versions that two nodes serve.
#[track_caller]
fn versions(nodes: &[Larder], target: &str) -> [u64; 2] {
    [version(&nodes[0], target), version(&nodes[1], target)]
}

#[test]
fn no_policy_changes_anywhere_when_a_node_cannot_follow() {
    let origin = Origin::start();
    let nodes = Fleet::of(3, &origin).start();
    let shown = |at: usize| ask(&nodes[at], &["fleet", "policy", "show"]);
    let before = shown(0);
    // It hangs: it neither refuses nor leaves.
    nodes[2].signal(Signal::STOP);
    let (code, said) = ask(&nodes[0], &["fleet", "policy", "set", "replicated"]);
    nodes[2].signal(Signal::CONT);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("a node cannot follow, and nothing has changed: c: "), "{said}");
    assert!(
        ["it did not answer: ", "no response within"].iter().any(|why| said.contains(why)),
        "{said}"
    );
    nodes.iter().for_each(|node| await_whole(node, 3));
    for at in 0..3 {
        assert_eq!(shown(at), before, "at node {at}");
    }
    let (code, said) = ask(&nodes[0], &["fleet", "policy", "set", "replicated"]);
    assert!(code == 0 && said.contains("at 2 other nodes"), "{code} {said}");
}
