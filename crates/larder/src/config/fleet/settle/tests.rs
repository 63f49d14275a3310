//! Tests of fleet configurations: their derived settings, and all refusals.

use std::fs;
use std::time::Duration;

use fleet::FleetSeed;
use fleet::member::State;

use super::*;
use crate::config::file::File;
use crate::config::layers::Layer;
use crate::config::layers::add_flag;
use crate::config::loaded::Loaded;

fn load(text: &str) -> Result<FleetConfig, String> {
    let file = File::parse("larder.toml", text).map_err(|problems| problems.to_string())?;
    let loaded = Loaded::build(&file, &Layer::new()).map_err(|problems| problems.to_string())?;
    Ok(loaded.config.fleet)
}

fn around() -> Surroundings {
    Surroundings {
        machine: "web-1".to_owned(),
        addresses: vec!["127.0.0.1".parse().unwrap(), "10.0.0.7".parse().unwrap()],
        cache_bytes: 10 << 30,
    }
}

fn settle(text: &str) -> FleetSettings {
    let config = load(text).unwrap_or_else(|why| panic!("{text}\n{why}"));
    config.settle(&around()).unwrap_or_else(|why| panic!("{text}\n{why:?}")).unwrap()
}

fn refused(text: &str) -> String {
    load(text).err().unwrap_or_else(|| panic!("{text}"))
}

fn key_file(dir: &tempfile::TempDir) -> String {
    let path = dir.path().join("fleet.key");
    fs::write(&path, (0..32).map(|byte| format!("{byte:02x}")).collect::<String>()).unwrap();
    path.display().to_string()
}

#[test]
fn a_newcomer_says_where_to_listen_and_whom_to_join() {
    let dir = tempfile::tempdir().unwrap();
    let key = key_file(&dir);
    let text = format!(
        "[fleet]\nlisten = ':3130'\njoin = ['web-2:3130', 'srv:_fleet._tcp.a.b']\n\
         key-file = '{key}'"
    );
    let settings = settle(&text);
    assert_eq!((&*settings.name, settings.node.own.id.as_str()), ("larder", "web-1-3130"));
    assert_eq!(settings.node.own.address.to_string(), "10.0.0.7:3130");
    assert_eq!((&*settings.node.own.zone, settings.node.own.weight), ("", 10 << 10));
    assert!(settings.tls.is_some() && settings.node.tls.is_some() && settings.gossip_key.is_some());
    let Discovery::Gossip(seeds) = &settings.discovery else { panic!("{settings:?}") };
    assert_eq!(
        seeds.iter().map(Seed::to_string).collect::<Vec<_>>().join(" "),
        "web-2:3130 srv:_fleet._tcp.a.b"
    );
    assert_eq!(settings.node.classes.iter().count(), 1);
    let said = settings.to_string();
    let expected = "fleet larder: this node is web-1-3130, which listens on [::]:3130 and is \
                    reached at 10.0.0.7:3130, with weight 10240; it joins by web-2:3130, \
                    srv:_fleet._tcp.a.b; connections are encrypted, gossip is sealed; classes: 1";
    assert!(said.starts_with(expected), "{said}");
    let FleetSeed(seed) = settings.node.seed;
    assert_eq!(settings.node.own.state, State::Joining);
    let shown = format!("{settings:?} {settings}");
    assert!(!shown.contains(&seed.to_string()), "{shown}");
}

#[test]
fn nodes_of_one_key_place_alike_and_others_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let secured = format!("[fleet]\nlisten = ':3130'\nkey-file = '{}'", key_file(&dir));
    let seed = |text: &str| settle(text).node.seed;
    assert_eq!(seed(&secured), seed(&format!("{secured}\nnode = 'b'\nname = 'other'")));
    let open = "[fleet]\nlisten = '127.0.0.1:3130'";
    assert_eq!(seed(open), seed(&open.replace("3130", "3131")));
    assert_ne!(seed(open), seed(&format!("{open}\nname = 'other'")));
    assert_ne!(seed(open), seed(&secured));
}

#[test]
fn configured_values_are_used() {
    let text = "
        [fleet]
        listen = '127.0.0.1:3130'
        advertise = 'localhost:9'
        node = 'a'
        name = 'edge'
        zone = 'rack-1'
        capacity = '0'
        hot-rate = 7
        hot-owners = 2
        offer-rate = '1M'
        hints-memory = '1K'
        policy = 'replicated'

        [purge]
        lease = '20s'
    ";
    let settings = settle(text);
    assert_eq!(
        (&*settings.name, settings.node.own.id.as_str(), &*settings.node.own.zone),
        ("edge", "a", "rack-1")
    );
    assert_eq!(
        (settings.node.own.address.to_string(), settings.node.own.weight),
        ("localhost:9".to_owned(), 0)
    );
    assert_eq!((settings.hotness.per_owner.get(), settings.hotness.owners_max.get()), (7, 2));
    assert_eq!((settings.offer_rate, settings.hints_memory), (1 << 20, 1 << 10));
    assert_eq!(
        (settings.node.purges.patience.lease, settings.node.classes.iter().count()),
        (Duration::from_secs(20), 5)
    );
    assert_eq!(weight(1), 1);
    assert_eq!(weight(u64::MAX), u32::MAX);
    assert_eq!(load("").unwrap().settle(&around()).unwrap().map(|_| ()), None);
}

#[test]
fn listed_members_have_what_the_list_says_of_them() {
    let text = "
        [fleet]
        listen = '127.0.0.1:3130'
        node = 'a'
        members = ['a@127.0.0.1:3130 zone=x capacity=2G', 'b@localhost:3131 capacity=1G']
    ";
    let settings = settle(text);
    assert_eq!((&*settings.node.own.zone, settings.node.own.weight), ("x", 2048));
    assert_eq!(settings.node.own.address.to_string(), "127.0.0.1:3130");
    let Discovery::List(members) = &settings.discovery else { panic!("{settings:?}") };
    assert_eq!((members.len(), members[1].weight), (2, 1024));
    let stranger = load(&text.replace("'a'", "'c'")).unwrap().settle(&around()).unwrap_err();
    assert_eq!(stranger.len(), 1);
    assert!(stranger[0].starts_with("fleet.members: this node, c, is not among"), "{stranger:?}");
}

#[test]
fn contradictions_are_named_with_their_lines() {
    let cases = [
        ("listen = '10.0.0.7:3130'", "larder.toml:2: fleet.listen: 10.0.0.7:3130: without"),
        ("listen = ':3130'", "larder.toml:2: fleet.listen: [::]:3130: without fleet.key-file"),
        ("listen = '127.0.0.1:0'", "larder.toml:2: fleet.listen: expected an IP address"),
        ("listen = 'unix:/x'", "larder.toml:2: fleet.listen: expected an IP address"),
        (
            "listen = '127.0.0.1:1'\njoin = 'web-2:3130'",
            "larder.toml:3: fleet.join: web-2:3130: without fleet.key-file",
        ),
        ("listen = '127.0.0.1:1'\njoin = 'srv:a'", "larder.toml:3: fleet.join: srv:a: without"),
        (
            "listen = '127.0.0.1:1'\nadvertise = '10.0.0.7:1'",
            "larder.toml:3: fleet.advertise: 10.0.0.7:1: without",
        ),
        (
            "listen = '127.0.0.1:1'\nadvertise = '0.0.0.0:1'",
            "larder.toml:3: fleet.advertise: expected an address of this node alone, got 0.0.0.0",
        ),
        ("listen = '127.0.0.1:1'\njoin = 'web-2'", "larder.toml:3: fleet.join: expected host:port"),
        ("certificate = 'a'", "larder.toml:2: fleet.certificate: expected fleet.ca beside it"),
        ("private-key = 'a'", "larder.toml:2: fleet.private-key: expected fleet.certificate"),
        ("ca = 'a'", "larder.toml:2: fleet.ca: expected fleet.certificate beside it"),
        (
            "listen = '127.0.0.1:1'\njoin = 'localhost:2'\nmembers = 'a@localhost:1'",
            "larder.toml:4: fleet.members: expected fleet.join or fleet.members, got both",
        ),
        (
            "listen = '127.0.0.1:1'\nmembers = ['a@localhost:1', 'a@localhost:2']",
            "larder.toml:3: fleet.members: a is given twice",
        ),
        (
            "listen = '127.0.0.1:1'\nmembers = ['a@localhost:1', 'b@localhost:2 capacity=1']",
            "larder.toml:3: fleet.members: expected a capacity for all members or for none",
        ),
        (
            "listen = '127.0.0.1:1'\nzone = 'a'\nmembers = ['a@localhost:1']",
            "larder.toml:3: fleet.zone: applies only to members that discover each other",
        ),
        ("listen = '127.0.0.1:3128'", "larder.toml:2: fleet.listen: 127.0.0.1:3128 cannot be both"),
        ("listen = '127.0.0.1:3129'", "larder.toml:2: fleet.listen: 127.0.0.1:3129 cannot be both"),
        ("policy = 'x'", "larder.toml:2: fleet.policy: expected larder, replicated, "),
        (
            "policy = 'larder'\n[[fleet.class]]\nname = 'a'\nsites = 'a'",
            "larder.toml:2: fleet.policy: expected it or [[fleet.class]] tables, got both",
        ),
        (
            "[[fleet.class]]\nname = 'a'\nsites = 'a'\n[[fleet.class]]\nname = 'b'\nlookup = \
             ['memory', 'disk', 'origin']",
            "larder.toml:5: fleet.class: \"b\": lookup asks no owner",
        ),
        ("[[fleet.class]]\nsites = 'a'", "larder.toml:2: fleet.class.name: is missing"),
        (
            "[[fleet.class]]\nname = 'a'\nsite = 'a'",
            "larder.toml:4: fleet.class.site: there is no such key; did you mean fleet.class.sites",
        ),
        ("class = 1", "larder.toml:2: fleet.class: expected [[fleet.class]] tables"),
        (
            "lisen = 1",
            "larder.toml:2: fleet.lisen: there is no such key; did you mean fleet.listen",
        ),
    ];
    for (text, expected) in cases {
        let said = refused(&format!("[fleet]\n{text}"));
        assert!(said.starts_with(expected), "{text}: {said}");
    }
}

#[test]
fn flags_are_named_as_they_are_called() {
    let mut flags = Layer::new();
    add_flag(&mut flags, "fleet.listen", &["10.0.0.7:3130".to_owned()]).unwrap();
    let said = Loaded::build(&File::default(), &flags).unwrap_err().to_string();
    assert!(said.starts_with("--fleet: 10.0.0.7:3130: without"), "{said}");
    let mut flags = Layer::new();
    add_flag(&mut flags, "fleet.join", &["a:1".to_owned(), "b:1".to_owned()]).unwrap();
    let said = Loaded::build(&File::default(), &flags).unwrap_err().to_string();
    assert_eq!(said, "--join: expected --fleet, or fleet.listen, beside it");
}

#[test]
fn problems_with_this_machine_are_reported_together() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing").display().to_string();
    let config = load(&format!("[fleet]\nlisten = ':3130'\nkey-file = '{missing}'")).unwrap();
    let around = Surroundings { machine: "localhost".to_owned(), ..around() };
    let said = config.settle(&around).unwrap_err();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("fleet.node: this machine is called \"localhost\""), "{said:?}");
    assert!(said[1].starts_with("fleet.key-file: ") && said[1].contains("No such file"));
    let strict = FleetConfig { consistency: "strict".to_owned(), ..config.clone() };
    let said = strict.settle(&around).unwrap_err();
    assert!(said[1].starts_with("purge.consistency: strict needs to know all nodes"), "{said:?}");
    let named = FleetConfig { node: "a".parse().ok(), ..config };
    let around = Surroundings { addresses: Vec::new(), ..around };
    let said = named.settle(&around).unwrap_err();
    assert!(
        said[0].starts_with("fleet.listen: :: means all addresses of this machine"),
        "{said:?}"
    );
    // Files that nodes share are read even if a flag is to provide the address.
    let said = FleetConfig { listen: None, ..named }.settle(&around).unwrap_err();
    assert!(said[0].starts_with("fleet.key-file: "), "{said:?}");
}

#[test]
fn probably_unintended_settings_cause_warnings() {
    let warnings = |text: &str| load(&format!("[fleet]\n{text}")).unwrap().warnings();
    let cases = [
        ("listen = ':1'\ninsecure = true", "fleet.insecure: ANYONE WHO REACHES [::]:1"),
        ("listen = ':1'\ninsecure = true\nkey-file = 'k'", "fleet.insecure has no effect"),
        (
            "listen = ':1'\ncertificate = 'c'\nca = 'a'",
            "fleet.certificate protects only connections",
        ),
        ("key-file = 'k'", "[fleet] has no effect without fleet.listen"),
    ];
    for (text, expected) in cases {
        let said = warnings(text);
        assert!(said.len() == 1 && said[0].starts_with(expected), "{text}: {said:?}");
    }
    assert!(warnings("listen = ':1'\nkey-file = 'k'").is_empty() && warnings("").is_empty());
}
