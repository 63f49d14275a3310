//! Plays the scripts of `tests/cookbook` to the configurations of the cookbook, in virtual time.
//! Each recipe of `docs/guide/cookbook.md` has the script with its heading's name. The origin has
//! the addresses that the page names; only paths of files are replaced.
//!
//! Clients have public addresses unless a script says otherwise; those of the forward proxy are in
//! its network. Programs on the machine of the proxy send `from 127.0.0.1`.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use sim::network::Link;
use testkit::scripts::format::{Front, Test};
use testkit::scripts::origin::Origin;
use testkit::scripts::play::play_in_turn;
use testkit::scripts::world::World;

use crate::config::configuration::Config;
use crate::config::file::File;
use crate::config::layers::Layer;
use crate::config::loaded::Loaded;
use crate::simulated_scripts::larder;

/// The port of the proxy.
const PROXY: u16 = 8000;

/// The files of `/srv/www/public`.
const FILES: [(&str, &str); 2] = [("assets/site.css", "styles"), ("robots.txt", "all welcome")];

/// A section of the page.
struct Recipe {
    /// The heading, in lower case, with hyphens.
    name: String,
    text: String,
}

fn in_crate(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn recipes() -> Vec<Recipe> {
    let page = fs::read_to_string(in_crate("../../docs/guide/cookbook.md")).unwrap();
    let sections = page.split("\n## ").skip(1).map(|section| {
        let (heading, rest) = section.split_once('\n').unwrap();
        let words = heading.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 1);
        let name = words.map(str::to_lowercase).collect::<Vec<_>>().join("-");
        let blocks: Vec<&str> = rest.split("```toml\n").skip(1).collect();
        let [block] = blocks[..] else { panic!("{heading}: {} configurations", blocks.len()) };
        Recipe { name, text: block.split("```").next().unwrap_or_default().to_owned() }
    });
    sections.collect()
}

/// Returns the scripts by the name of their recipe.
fn scripts() -> BTreeMap<String, Vec<Test>> {
    let mut scripts = BTreeMap::<String, Vec<Test>>::new();
    for test in testkit::scripts::load(&in_crate("tests/cookbook")) {
        let name = test.place.file.trim_end_matches(".http").to_owned();
        scripts.entry(name).or_default().push(test);
    }
    scripts
}

/// Returns the configuration, which must be one that `check-config` accepts without a warning.
fn checked(recipe: &Recipe, text: &str) -> Config {
    let name = &recipe.name;
    let file = File::parse(name, text).unwrap_or_else(|problems| panic!("{problems}"));
    let loaded = Loaded::build(&file, &Layer::new());
    let Loaded { config, warnings, .. } = loaded.unwrap_or_else(|problems| panic!("{problems}"));
    let all = [warnings, config.warnings(), config.cookie_remark().into_iter().collect()].concat();
    assert!(all.is_empty(), "{name}: {all:?}");
    config
}

/// Returns the ports of the origin servers; that of HTTP if none are named.
fn ports(text: &str) -> Vec<u16> {
    let rests = text.split("http://127.0.0.1:").skip(1);
    let ports = rests.map(|rest| rest.split('"').next().unwrap().parse().unwrap());
    let ports: Vec<u16> = ports.collect();
    if ports.is_empty() { vec![80] } else { ports }
}

/// Plays the script of a recipe. Returns the failures.
async fn play(simulated: simulation::World, recipe: &Recipe, mut tests: Vec<Test>) -> Vec<String> {
    let files = tempfile::tempdir().unwrap();
    for (name, text) in FILES {
        let path = files.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let text = recipe.text.replace("/srv/www/public", &files.path().display().to_string());
    let config = checked(recipe, &text);
    let network = &simulated.network;
    let host = network.host_at("localhost", Ipv4Addr::LOCALHOST.into());
    let [server, client] = match config.is_reverse() {
        true => [host.clone(), network.host_at("client.test", [203, 0, 113, 7].into())],
        false => [
            network.host_at("www.example.org", [198, 51, 100, 80].into()),
            network.host_at("client.test", [10, 1, 0, 7].into()),
        ],
    };
    let listeners = ports(&text).into_iter().map(|port| simulation::listen(&server, port).unwrap());
    let origin = Origin::start_for_one(listeners.collect(), simulated.clock);
    let (_running, address, admin) = larder(&simulated, &host, PROXY, &text).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    if text.contains("try-root") {
        tokio::task::spawn_local(hold_back_time());
    }
    let mut world = World::new(simulated.clock, simulation::network_of(&client));
    let network = network.clone();
    world.network_from = Some(Rc::new(move |client: IpAddr| {
        simulation::network_of(&network.host_at(&client.to_string(), client))
    }));
    if !config.is_reverse() {
        tests.iter_mut().for_each(|test| test.front = Front::Forward);
    }
    let failures = play_in_turn(&world, &tests, &origin, (address, admin)).await;
    failures.iter().map(ToString::to_string).collect()
}

/// Lets virtual time pass forty times as fast as real time, for threads that read real files.
async fn hold_back_time() {
    loop {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let pause = || std::thread::sleep(Duration::from_micros(250));
        tokio::task::spawn_blocking(pause).await.unwrap();
    }
}

#[test]
fn every_recipe_of_the_cookbook_does_what_its_script_says() {
    let (mut scripts, mut failures) = (scripts(), Vec::new());
    for recipe in recipes() {
        let tests = scripts.remove(&recipe.name);
        let tests = tests.unwrap_or_else(|| panic!("no tests/cookbook/{}.http", recipe.name));
        let link = Link { delay: Duration::ZERO..=Duration::from_millis(1), ..Link::default() };
        let play = async |world| play(world, &recipe, tests).await;
        failures.extend(simulation::World::run(1, link, play));
    }
    assert!(scripts.is_empty(), "no recipe for {:?}", scripts.keys());
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
