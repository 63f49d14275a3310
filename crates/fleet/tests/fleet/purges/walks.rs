//! Long random histories.

use fleet::purges::Consistency;

use crate::fixture::seeds;
use crate::purges::world::{Action, Broken, World};

const STEPS: usize = 150;

/// Traits of one history. Each concentrates it on another kind of trouble.
struct Kind {
    /// How often time passes, among all that can happen.
    ticks: usize,
    purges: usize,
    crashes: usize,
    loses_disk: bool,
    /// A node that gets no pushes.
    deaf: Option<usize>,
    /// Of 10 fetches, how many go to a peer.
    of_peers: usize,
}

impl Kind {
    fn draw(random: &mut fastrand::Rng, nodes: usize) -> Kind {
        Kind {
            ticks: [1, 2, 4][random.usize(..3)],
            purges: [1, 1, 2, 3][random.usize(..4)],
            crashes: [0, 1, 3][random.usize(..3)],
            loses_disk: random.bool(),
            deaf: random.bool().then(|| random.usize(..nodes)),
            of_peers: [0, 5, 10][random.usize(..3)],
        }
    }

    fn actions(&self, world: &World, random: &mut fastrand::Rng) -> Vec<Action> {
        let nodes = world.len();
        let (one, other) = (random.usize(..nodes), random.usize(..nodes));
        // Whose knowledge is old is the one to look at.
        let reader = self.deaf.filter(|_| random.bool()).unwrap_or(one);
        let from = (random.usize(..10) < self.of_peers).then_some(other);
        let mut actions = vec![
            Action::Flush(one),
            Action::Acknowledge(one, other),
            Action::Acknowledged(one, other),
            Action::Request(reader),
            Action::Fetch(reader, from),
            Action::Reply(reader),
            Action::Deliver(reader),
            Action::Start(one),
        ];
        actions.extend((0..world.purges()).map(Action::Tell));
        if random.usize(..8) < self.ticks {
            actions.push(Action::Tick);
        }
        if self.deaf != Some(other) {
            actions.push(Action::Push(one, other));
        }
        let asker = if self.deaf == Some(one) && random.bool() { other } else { one };
        actions.extend([Action::Ask(asker, other), Action::Answer(asker), Action::Answered(asker)]);
        if world.purges() < self.purges && random.usize(..4) == 0 {
            actions.push(Action::Purge(one));
        }
        if world.crashes < self.crashes && world.purges() > 0 && random.usize(..4) == 0 {
            let loses_disk = self.loses_disk && !world.is_any_recovering();
            actions.push(Action::Crash(one, loses_disk));
        }
        actions.retain(|action| world.is_possible(*action));
        actions
    }
}

/// Returns what follows an action soon, where messages are fast.
fn follow_up(action: Action) -> Vec<Action> {
    match action {
        Action::Ask(from, _) => vec![Action::Answer(from), Action::Answered(from)],
        Action::Purge(node) => vec![Action::Flush(node)],
        Action::Push(from, to) => {
            vec![Action::Flush(to), Action::Acknowledge(to, from), Action::Acknowledged(to, from)]
        }
        Action::Fetch(node, _) => vec![Action::Reply(node), Action::Deliver(node)],
        _ => Vec::new(),
    }
}

/// Walks one history; returns its world at the end, or at the first broken promise.
fn walk(seed: u64, nodes: usize, consistency: Consistency, broken: Option<Broken>) -> World {
    let mut random = fastrand::Rng::with_seed(seed);
    let kind = Kind::draw(&mut random, nodes);
    let mut world = World::new(nodes, consistency, broken);
    for _ in 0..STEPS {
        let actions = kind.actions(&world, &mut random);
        let Some(action) = random.choice(actions) else { continue };
        world.act(action);
        if random.usize(..4) > 0 {
            for next in follow_up(action) {
                if world.is_possible(next) {
                    world.act(next);
                }
            }
        }
        if world.wrong.is_some() {
            break;
        }
    }
    world
}

#[test]
fn what_a_promised_purge_concerns_is_never_given_out_again() {
    let mut hits = 0;
    for seed in seeds("what_a_promised_purge_concerns_is_never_given_out_again", 400) {
        for (nodes, consistency) in [
            (2, Consistency::Strict),
            (3, Consistency::Strict),
            (3, Consistency::Bounded),
            (4, Consistency::Strict),
            (5, Consistency::Strict),
        ] {
            let world = walk(seed, nodes, consistency, None);
            assert_eq!(world.wrong, None, "seed {seed}, {nodes} nodes, {consistency:?}");
            hits += world.hits;
        }
    }
    assert!(hits > 0);
}

/// Each rule left out breaks a promise in some history. The searches begin shortly before a seed
/// that shows it; where the walk changes they may have to go further.
#[test]
fn each_rule_is_needed() {
    for (broken, first) in [
        (Broken::Fence, 0),
        (Broken::AgeFromArrival, 30_000),
        (Broken::PeerWithoutVector, 0),
        (Broken::FreshFromPeer, 100_000),
        (Broken::NoWait, 0),
        (Broken::RecoveringCounts, 19_000),
        (Broken::EarlyAcknowledgement, 94_000),
    ] {
        let found = (first..first + 1_000).find(|seed| {
            let nodes = 3 + (seed % 3) as usize;
            walk(*seed, nodes, Consistency::Strict, Some(broken)).wrong.is_some()
        });
        assert!(found.is_some(), "{broken:?} is not noticed in the seeds from {first} on");
    }
}
