//! The faults: what is broken, whose clients count, and how it is mended.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, prlimit};
use testkit::client::get;
use testkit::larder::Larder;

use crate::network::{Link, ORIGIN, at};
use crate::world::{Change, World};

/// A fault, and its place in a run.
pub struct Fault {
    pub name: &'static str,
    /// Number of nodes.
    pub nodes: usize,
    /// Nodes that run from the beginning; the others join during the fault.
    pub first: &'static [usize],
    /// Nodes whose clients count.
    pub counted: &'static [usize],
    pub change: Change,
    pub during: fn(&World),
    pub after: fn(&World),
    /// A program without which the fault is skipped.
    pub wants: Option<&'static str>,
}

const THREE: &[usize] = &[1, 2, 3];
const FIVE: &[usize] = &[1, 2, 3, 4, 5];
const ALL_BUT_LAST: &[usize] = &[1, 2, 3, 4];
const LAST: usize = 5;

const FAULT: Fault = Fault {
    name: "",
    nodes: 5,
    first: FIVE,
    counted: ALL_BUT_LAST,
    change: Change::Purge,
    during: |_| {},
    after: |world| world.network.heal(),
    wants: None,
};

/// Returns a fault that changes the links between all nodes.
const fn between_all(name: &'static str, during: fn(&World)) -> Fault {
    Fault { name, counted: FIVE, during, ..FAULT }
}

/// Returns a fault of the last of three nodes, which ends and returns.
const fn ending(name: &'static str, during: fn(&World), after: fn(&World)) -> Fault {
    Fault { name, nodes: 3, first: THREE, counted: &[1, 2], during, after, ..FAULT }
}

fn cut(link: &mut Link) {
    *link = Link::CUT;
}

fn start_again(world: &World) {
    let node = world.setups.len();
    world.launch(node);
    world.await_caught_up(node);
}

fn kill(world: &World) {
    world.kill(world.setups.len());
}

/// Every fault, in the order of the table.
pub const FAULTS: &[Fault] = &[
    Fault { name: "none", counted: FIVE, ..FAULT },
    between_all("30% loss", |world| {
        world.network.set_both(FIVE, FIVE, |link| link.loss_percent = 30);
    }),
    between_all("250 ms delay each way", |world| {
        world.network.set_both(FIVE, FIVE, |link| link.delay = Duration::from_millis(250));
    }),
    Fault {
        name: "one-way cut: nothing from a node",
        during: |world| world.network.set(&[LAST], ALL_BUT_LAST, cut),
        ..FAULT
    },
    Fault {
        name: "one-way cut: nothing to a node",
        during: |world| world.network.set(ALL_BUT_LAST, &[LAST], cut),
        ..FAULT
    },
    Fault {
        name: "isolated node",
        during: |world| world.network.set_both(&[LAST], ALL_BUT_LAST, cut),
        ..FAULT
    },
    Fault {
        name: "split 3 and 2",
        counted: THREE,
        during: |world| world.network.set_both(THREE, &[4, 5], cut),
        ..FAULT
    },
    Fault {
        name: "no TCP to a node",
        during: |world| {
            world.network.set(ALL_BUT_LAST, &[LAST], |link| link.passes_tcp = false);
        },
        ..FAULT
    },
    between_all("UDP blocked", |world| {
        world.network.set_both(FIVE, FIVE, |link| link.passes_udp = false);
    }),
    ending("SIGKILL and return", kill, start_again),
    ending("return with an old disk", return_with_an_old_disk, |_| {}),
    ending("return with an empty disk", kill, |world| {
        let _ = fs::remove_file(world.setups[2].cache());
        start_again(world);
    }),
    Fault {
        name: "disk given up",
        nodes: 3,
        first: THREE,
        counted: THREE,
        during: give_up_the_disk,
        after: |_| {},
        ..FAULT
    },
    Fault { wants: Some("faketime"), ..ending("clock step of an hour", step_the_clock, |_| {}) },
    ending("SIGSTOP 15 s", pause, |world| signal(world, Signal::CONT)),
    Fault {
        name: "misses at a node without origin",
        counted: &[LAST],
        during: |world| {
            world.network.set_both(&[LAST], &[ORIGIN], cut);
            world.misses_at.store(LAST, std::sync::atomic::Ordering::SeqCst);
        },
        after: |world| {
            world.misses_at.store(0, std::sync::atomic::Ordering::SeqCst);
            world.network.heal();
        },
        ..FAULT
    },
    Fault {
        name: "two nodes join at once",
        first: THREE,
        counted: THREE,
        during: |world| [4, 5].iter().for_each(|node| world.launch(*node)),
        ..FAULT
    },
    ending("orderly restart", |world| world.stop(3), start_again),
    Fault { name: "PUTs", nodes: 3, first: THREE, counted: THREE, change: Change::Put, ..FAULT },
];

fn signal(world: &World, signal: Signal) {
    world.node(3).as_ref().expect("it runs").signal(signal);
}

fn pause(world: &World) {
    signal(world, Signal::STOP);
    sleep(Duration::from_secs(15));
}

fn return_with_an_old_disk(world: &World) {
    let (cache, old) = (world.setups[2].cache(), world.setups[2].path("old"));
    world.stop(3);
    fs::copy(&cache, &old).expect("a temporary file can be copied");
    start_again(world);
    sleep(Duration::from_secs(4));
    world.kill(3);
    fs::rename(&old, &cache).expect("a temporary file can be renamed");
    start_again(world);
}

/// Limits the size of files that the last node writes until it gives up its disk.
fn give_up_the_disk(world: &World) {
    let pid = world.node(3).as_ref().expect("it runs").pid();
    let limit = Rlimit { current: Some(600 << 10), maximum: Some(600 << 10) };
    prlimit(Some(pid), Resource::Fsize, limit).expect("our own child can be limited");
    for _ in 0..1_500 {
        let _ = get(&world.new_target()).try_send(at(1, 8080));
        if world.node(3).as_ref().is_some_and(|node| node.said().contains("OUT OF USE")) {
            return sleep(Duration::from_secs(12));
        }
    }
}

/// Restarts the last node with a clock that is an hour ahead.
fn step_the_clock(world: &World) {
    world.stop(3);
    let script = world.setups[2].path("start");
    let text = fs::read_to_string(&script).expect("it was written");
    let changed = text.replace(" -n ", " -n faketime -f +3600s ");
    fs::write(&script, changed).expect("our own file");
    start_again(world);
}

/// Returns whether a program is installed.
pub fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Returns the last lines of a node that report errors.
pub fn errors(node: &Larder) -> Vec<String> {
    let said = node.said();
    let errors = said.lines().filter(|line| line.contains("ERROR"));
    errors.map(|line| line.chars().take(200).collect()).collect()
}
