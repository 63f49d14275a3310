//! Several nodes as one fleet: real processes that find each other, share their caches, purge and
//! change their policy together, while nodes die, leave and come back.

use std::fs;

use rustix::process::Signal;
use testkit::fleet_nodes::{
    Crowd, Fleet, HOST, ask, await_whole, fetch, name, purge, version, view,
};
use testkit::io::eventually;
use testkit::larder::Larder;
use testkit::origin::Origin;

/// Returns the sum of a counter's series that have these labels.
fn counted(node: &Larder, series: &str) -> u64 {
    let metrics = node.metrics();
    let lines = metrics.lines().filter(|line| line.starts_with(series));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

#[test]
fn each_document_is_fetched_once_whichever_node_is_asked() {
    let origin = Origin::start();
    let nodes = Fleet::of(3, &origin).start();
    let mut from_others = 0;
    for number in 0..12 {
        let target = format!("/page{number}?size={}", 1 + number * 7_001);
        for node in &nodes {
            let reply = fetch(node, &target);
            from_others += u64::from(reply.outcome() == "HIT_PEER");
        }
        assert_eq!(origin.fetches(&target), 1, "{target}");
        for (at, node) in nodes.iter().enumerate() {
            let reply = fetch(node, &target);
            let outcome = reply.outcome();
            let fetches = origin.fetches(&target);
            assert!(outcome.starts_with("HIT"), "{target} at {at}: {fetches} {:?}", reply.head);
            from_others += u64::from(outcome == "HIT_PEER");
        }
        assert_eq!(origin.fetches(&target), 1, "{target}");
        let owner = |node: &Larder| {
            let (code, said) = ask(node, &["explain", &format!("{HOST}{target}")]);
            assert_eq!(code, 0, "{said}");
            let line = said.lines().find_map(|line| line.strip_prefix("owner "));
            let owner = line.unwrap_or_else(|| panic!("{said}")).trim();
            let asks = said.lines().find_map(|line| line.strip_prefix("asks ")).unwrap().trim();
            match owner.strip_suffix(", this node") {
                Some(owner) => {
                    assert!(!asks.contains("an owner") && asks.ends_with("the origin"), "{said}");
                    owner.to_owned()
                }
                None => {
                    let step = format!("{owner}, an owner, answers from its store, or");
                    assert!(asks.contains(&step) && asks.ends_with("the origin"), "{said}");
                    owner.to_owned()
                }
            }
        };
        let owners: Vec<String> = nodes.iter().map(owner).collect();
        assert!(owners.iter().all(|other| *other == owners[0]), "{target}: {owners:?}");
    }
    let told = |node| counted(node, "larder_requests_total{outcome=\"HIT_PEER\"");
    let hits = |node| {
        let metrics = Larder::metrics(node);
        let lines = metrics.lines().filter(|line| line.starts_with("larder_fleet_asked_total{"));
        let lines = lines.filter(|line| line.contains("result=\"hit\""));
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum::<u64>()
    };
    assert!(from_others >= 12, "{from_others} of 72");
    assert_eq!(nodes.iter().map(told).sum::<u64>(), from_others);
    assert_eq!(nodes.iter().map(hits).sum::<u64>(), from_others);
    let (code, said) = ask(&nodes[1], &["fleet", "status", "--check"]);
    assert_eq!(code, 0, "{said}");
    for word in ["node b: serving", "*  b", "33.3%", "   c"] {
        assert!(said.contains(word), "{word}: {said}");
    }
}

#[test]
fn edits_for_clients_do_not_reach_other_nodes() {
    let origin = Origin::start();
    let edits = [
        "[[rule]]\nname = 'all'\nhide = ['via', 'age']\nclient-remove = ['x-inner']\n",
        "[[rule]]\nname = 'all'\n",
    ];
    let fleet = Fleet::of(2, &origin).with(0, |setup| setup.config(edits[0]));
    let nodes = fleet.with(1, |setup| setup.config(edits[1])).start();
    let mut from_peer = 0;
    for number in 0..8 {
        let target = format!("/{number}?h=x-inner:1");
        for (at, node) in nodes.iter().enumerate() {
            let reply = fetch(node, &target);
            from_peer += u64::from(at == 1 && reply.outcome() == "HIT_PEER");
            for name in ["x-inner", "via", "age"] {
                assert_eq!(reply.field(name).is_some(), at == 1, "{name} at {at} {:?}", reply.head);
            }
        }
    }
    assert!(from_peer > 0);
}

#[test]
fn nodes_follow_the_decision_of_the_node_that_fetched() {
    let origin = Origin::start();
    let rule = "
        [[fleet.class]]
        name = 'rest'
        copies = 'inclusive'
        [[rule]]
        name = 'all'
        responses = [
            { headers = ['X-Private'], store = false, answer-remove = ['X-Private'] },
            { headers = ['X-Mark'], answer-remove = ['X-Mark'], client-set = ['X-Seen: yes'] },
        ]
    ";
    let nodes = Fleet::of(2, &origin).each(|setup, _| setup.config(rule)).start();
    let mut from_peer = 0;
    for number in 0..8 {
        let private = format!("/{number}?h=x-private:1");
        let marked = format!("/{number}?h=x-mark:1");
        for node in [0, 1, 0, 1] {
            let reply = fetch(&nodes[node], &private);
            assert_eq!(reply.field("x-private"), None, "{:?}", reply.head);
            let reply = fetch(&nodes[node], &marked);
            from_peer += u64::from(reply.outcome() == "HIT_PEER");
            assert_eq!(reply.field("x-mark"), None, "{:?}", reply.head);
            assert!(reply.field("x-seen").is_some(), "{:?}", reply.head);
            assert_eq!(reply.field("larder-rule"), None, "{:?}", reply.head);
        }
        assert_eq!((origin.fetches(&private), origin.fetches(&marked)), (4, 1), "{number}");
    }
    assert!(from_peer > 0);
}

#[test]
fn one_call_purges_at_all_nodes() {
    let origin = Origin::start();
    let nodes = Fleet::of(3, &origin).start();
    let pages = ["/a?size=5000", "/b?size=100000", "/c?size=9&h=xkey:red", "/d?size=50"];
    let read = || pages.map(|page| [0, 1, 2].map(|node: usize| version(&nodes[node], page)));
    assert_eq!(read(), [[0; 3]; 4]);
    pages.iter().for_each(|page| origin.change(page));
    assert_eq!(read(), [[0; 3]; 4], "what is stored is fresh");
    let (code, said) = purge(&nodes[0], pages[0]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("; and at 2 other nodes"), "{said}");
    let (code, said) = ask(&nodes[1], &["purge", "--prefix", &format!("{HOST}/b")]);
    assert!(code == 0 && said.contains("; and at 2 other nodes"), "{code} {said}");
    let (code, said) = ask(&nodes[2], &["purge", "--tag", "red"]);
    assert!(code == 0 && said.contains("; and at 2 other nodes"), "{code} {said}");
    assert_eq!(read(), [[1; 3], [1; 3], [1; 3], [0; 3]]);
    let (code, said) = ask(&nodes[1], &["purge", "--regex", "^/d[?]size=[0-9]+$"]);
    assert!(code == 0 && said.contains("; and at 2 other nodes"), "{code} {said}");
    assert_eq!(read(), [[1; 3]; 4]);
}

#[test]
fn a_purged_tag_is_gone_from_the_copies_of_all_nodes() {
    let origin = Origin::start();
    let class = "[[fleet.class]]\nname = \"rest\"\ncopies = \"inclusive\"\n";
    let nodes = Fleet::of(2, &origin).each(|setup, _| setup.config(class)).start();
    let pages: Vec<_> = (0..8).map(|page| format!("/{page}?size=500&h=xkey:red")).collect();
    let read = |node: usize| -> Vec<u64> {
        pages.iter().map(|page| version(&nodes[node], page)).collect()
    };
    // The second node keeps copies of what the first one has stored, and the other way round.
    for node in [0, 1, 0, 1] {
        assert_eq!(read(node), [0; 8]);
    }
    pages.iter().for_each(|page| origin.change(page));
    let (code, said) = ask(&nodes[0], &["purge", "--tag", "red"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!((read(0), read(1)), (vec![1; 8], vec![1; 8]));
}

#[test]
fn what_a_soft_purge_has_outdated_does_not_become_fresh_at_another_node() {
    let origin = Origin::start();
    let class = "[[fleet.class]]\nname = \"rest\"\ncopies = \"inclusive\"\n";
    let nodes = Fleet::of(2, &origin).each(|setup, _| setup.config(class)).start();
    let cc = "cc=max-age=3600,stale-while-revalidate=600";
    let pages: Vec<_> = (0..8).map(|page| format!("/{page}?size=500&{cc}")).collect();
    let read = || -> Vec<u64> {
        let both = |page: &String| [0, 1].map(|node: usize| version(&nodes[node], page));
        pages.iter().flat_map(both).collect()
    };
    for _ in 0..2 {
        assert_eq!(read(), [0; 16]);
    }
    pages.iter().for_each(|page| origin.change(page));
    let (code, said) = ask(&nodes[0], &["purge", "--all", "--soft"]);
    assert_eq!(code, 0, "{said}");
    // Each node may give its own copy out until it has validated it; none may renew the other's.
    assert!(eventually(|| read() == [1; 16]), "{:?}", read());
}

#[test]
fn a_node_that_dies_is_missed_by_nobody_and_comes_back_without_what_was_purged() {
    let origin = Origin::start();
    let fleet = Fleet::of(3, &origin);
    let mut nodes = fleet.start();
    let (purged, kept) = ("/purged?size=70000", "/kept?size=70000");
    for node in &nodes {
        assert_eq!((version(node, purged), version(node, kept)), (0, 0));
    }
    // The node that dies may be the owner.
    nodes.iter().for_each(Larder::await_written);
    let crowd = Crowd::at(&[&nodes[0], &nodes[1]]);
    nodes.pop().unwrap().kill();
    origin.change(purged);
    origin.change(kept);
    let (code, said) = purge(&nodes[0], purged);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("; and at 1 other node; NOT AT c: "), "{said}");
    assert!(said.contains("larder: not purged everywhere: c"), "{said}");
    assert!(eventually(|| view(&nodes[1])["lost"]["c"].is_string()), "{:#}", view(&nodes[1]));
    let (code, said) = ask(&nodes[1], &["fleet", "status", "--check"]);
    assert!(code == 1 && said.contains("c is lost"), "{code} {said}");
    let back = fleet.setups[2].start();
    // From its first response on: before it has caught up it serves nothing from its cache.
    assert_eq!(version(&back, purged), 1);
    await_whole(&back, 3);
    assert_eq!(version(&back, purged), 1);
    for node in &nodes {
        await_whole(node, 3);
        let versions = (version(node, purged), version(node, kept));
        assert_eq!(versions, (1, 0), "{}\n{:#}", back.said(), view(node));
    }
    assert_eq!(version(&back, kept), 0);
    assert_eq!(origin.fetches(kept), 1);
    assert!(crowd.end() >= 20);
}

#[test]
fn another_policy_is_put_in_force_while_clients_ask() {
    let origin = Origin::start();
    let fleet = Fleet::of(3, &origin);
    let nodes = fleet.start();
    let crowd = Crowd::at(&nodes.iter().collect::<Vec<_>>());
    let set = |policy: &str| ask(&nodes[1], &["fleet", "policy", "set", policy]);
    let (code, said) = set("replicated");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("is in force here and at 2 other nodes"), "{said}");
    let shown = |node| ask(node, &["fleet", "policy", "show"]).1;
    let text = shown(&nodes[1]);
    assert!(text.starts_with("# version ") && !text.starts_with("# version 0\n"), "{text}");
    assert!(nodes.iter().all(|node| shown(node) == text), "{text}");
    assert!(
        text.contains("lookup = [\"memory\", \"disk\", \"origin\"]")
            && text.contains("replication = \"all\"")
    );
    // With this policy each node keeps what it serves, and sends no requests to others.
    let target = "/replicated?size=5000";
    let outcomes: Vec<String> = nodes.iter().map(|node| fetch(node, target).outcome()).collect();
    assert_eq!((outcomes, origin.fetches(target)), (vec!["MISS".to_owned(); 3], 3));

    let path = fleet.setups[0].path("policy.toml");
    let file = path.display().to_string();
    fs::write(&path, "[[class]]\nname = \"x\"\nlookup = \"nowhere\"\n").unwrap();
    let (code, said) = set(&file);
    assert!(code == 1 && said.contains("line 3") && said.contains("nowhere"), "{code} {said}");
    assert_eq!(shown(&nodes[1]), text);
    let (code, said) = set("no-such-preset");
    assert!(code == 2 && said.contains("neither a file nor a preset"), "{code} {said}");
    // The printed policy can be set again, here with one more class.
    let wanted = format!("[[class]]\nname = \"films\"\nsites = [\"films.test\"]\n\n{text}");
    fs::write(&path, wanted).unwrap();
    let (code, said) = set(&file);
    assert_eq!(code, 0, "{said}");
    assert!(shown(&nodes[2]).contains("name = \"films\""), "{}", shown(&nodes[2]));
    assert!(crowd.end() >= 30);
    // Each node announces its version to the others with the next gossip.
    let agreed = || ask(&nodes[0], &["fleet", "status", "--check"]).0 == 0;
    assert!(eventually(agreed), "{}", ask(&nodes[0], &["fleet", "status", "--check"]).1);
}

#[test]
fn a_node_that_is_stopped_has_left() {
    let origin = Origin::start();
    let fleet = Fleet::of(3, &origin);
    let mut nodes = fleet.start();
    let crowd = Crowd::at(&[&nodes[0], &nodes[1]]);
    let target = "/purged?size=70000";
    nodes.iter().for_each(|node| assert_eq!(version(node, target), 0));
    nodes.pop().unwrap().stop();
    // It does not count as lost, and is not reported as unreached in the seconds before it is
    // forgotten.
    origin.change(target);
    let (code, said) = purge(&nodes[0], target);
    assert!(code == 0 && said.contains("; and at 1 other node\n"), "{code} {said}");
    for node in &nodes {
        assert!(eventually(|| view(node)["left"]["c"].is_string()), "{:#}", view(node));
    }
    let status = || ask(&nodes[0], &["fleet", "status", "--check"]);
    let has_left = |(code, said): (i32, String)| code == 0 && said.contains("left: c, it left ");
    assert!(eventually(|| has_left(status())), "{}", status().1);
    let (code, said) = purge(&nodes[0], "/page");
    assert!(code == 0 && said.contains("; and at 1 other node\n"), "{code} {said}");
    let back = fleet.setups[2].start();
    assert_eq!(version(&back, target), 1);
    await_whole(&back, 3);
    assert_eq!(version(&back, target), 1);
    crowd.end();
}

/// Returns how many documents, which a node had in memory, the others fetch from the origin after
/// it was stopped.
fn fetched_after_leaving(offer_rate: &str) -> usize {
    let origin = Origin::start();
    let config = format!("[fleet]\noffer-rate = '{offer_rate}'\n");
    let mut nodes = Fleet::of(3, &origin).each(|setup, _| setup.config(&config)).start();
    let targets: Vec<String> = (0..30).map(|page| format!("/page{page}?size=2000")).collect();
    let fetched = || targets.iter().map(|target| origin.fetches(target)).sum::<usize>();
    // The owner of a document keeps it.
    for target in targets.iter().chain(&targets) {
        nodes.iter().for_each(|node| drop(fetch(node, target)));
    }
    assert_eq!(fetched(), targets.len());
    nodes.pop().unwrap().stop();
    for node in &nodes {
        assert!(eventually(|| view(node)["left"]["c"].is_string()), "{:#}", view(node));
    }
    for target in &targets {
        nodes.iter().for_each(|node| drop(fetch(node, target)));
    }
    fetched() - targets.len()
}

#[test]
fn what_a_node_had_in_memory_is_not_fetched_again_after_it_was_stopped() {
    let (without, with) = (fetched_after_leaving("0"), fetched_after_leaving("32M"));
    // It owned a third of them.
    assert!(without >= 3 && with <= without / 3, "{without} {with}");
}

#[test]
fn a_node_with_another_key_is_kept_out() {
    let origin = Origin::start();
    let fleet = Fleet::of(2, &origin);
    let nodes = fleet.start();
    let other = fleet.other_key();
    let stranger = Fleet::of(3, &origin).each(|setup, _| setup.flag("fleet-key", &other));
    let seed = view(&nodes[0])["members"][0]["address"].as_str().unwrap().to_owned();
    let setup = stranger.setups.into_iter().nth(2).unwrap().flag("join", &seed);
    let stranger = setup.start();
    let line = "it is not sealed with the key of this fleet";
    assert!(nodes[0].says(line), "{}", nodes[0].said());
    let line = "no other node of the fleet that this one understands answers yet: are they at \
                fleet.join, with the same key?";
    assert!(stranger.says(line), "{}", stranger.said());
    assert_eq!(view(&stranger)["members"].as_array().map(Vec::len), Some(1));
    assert_eq!(view(&nodes[0])["members"].as_array().map(Vec::len), Some(2));
    // It still serves its clients.
    fetch(&stranger, "/page");
}

#[test]
fn nodes_that_are_listed_need_no_gossip() {
    let origin = Origin::start();
    let fleet = Fleet::of(3, &origin).each(|setup, addresses| {
        let list = addresses.iter().enumerate();
        let list: Vec<String> = list
            .map(|(node, address)| format!("\"{}@{address} capacity=64M\"", name(node)))
            .collect();
        let setup = setup.without("join");
        setup.config(&format!("[fleet]\nmembers = [{}]\n", list.join(", ")))
    });
    let mut nodes = fleet.start();
    let target = "/page?size=50000";
    nodes.iter().for_each(|node| drop(fetch(node, target)));
    assert_eq!(origin.fetches(target), 1);
    let (code, said) = purge(&nodes[1], target);
    assert!(code == 0 && said.contains("; and at 2 other nodes"), "{code} {said}");
    nodes.pop().unwrap().kill();
    let (code, said) = purge(&nodes[1], target);
    assert!(code == 3 && said.contains("NOT AT c"), "{code} {said}");
    fetch(&nodes[0], target);
    let back = fleet.setups[2].start();
    await_whole(&back, 3);
    let (code, said) = purge(&nodes[1], target);
    assert!(code == 0 && said.contains("; and at 2 other nodes"), "{code} {said}");
}

#[test]
fn a_seed_that_does_not_resolve_is_a_warning() {
    let origin = Origin::start();
    let fleet = Fleet::of(2, &origin);
    let fleet = fleet.each(|setup, _| setup.more("join", "no-such-host.invalid:3130"));
    let nodes = fleet.start();
    assert!(nodes[0].says("no-such-host.invalid"), "{}", nodes[0].said());
    let said = nodes[0].said();
    let line =
        said.lines().find(|line| line.contains("no-such-host.invalid") && line.contains("WARN"));
    assert!(line.is_some(), "{said}");
    fetch(&nodes[0], "/page");
}

#[test]
fn settings_that_contradict_each_other_end_the_start() {
    let origin = Origin::start();
    for (change, words) in [
        (&["fleet", "10.255.255.1:3130"][..], &["10.255.255.1"][..]),
        (&["fleet-node", "b b"], &["fleet-node", "b b"]),
        (&["fleet-key", "/no/such/file"], &["/no/such/file"]),
        (&["join", "nothing"], &["join", "nothing"]),
    ] {
        let fleet = Fleet::of(1, &origin).each(|setup, _| setup.flag(change[0], change[1]));
        let (status, said) = fleet.setups[0].refused();
        assert!(!status.success(), "{change:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{change:?}: {said}");
    }
    let alone = testkit::larder::Setup::forward().start();
    let (code, said) = ask(&alone, &["fleet", "status"]);
    assert!(code == 1 && said.contains("this is not a node of a fleet"), "{code} {said}");
    alone.signal(Signal::TERM);
}
