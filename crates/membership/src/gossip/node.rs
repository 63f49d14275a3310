//! The tasks of a gossiping node, on a thread of their own: `chitchat` and the tasks around it.
//!
//! `chitchat` detects live nodes by how regularly it hears of them, so it must not wait behind
//! requests. On a worker it would declare its peers dead whenever the worker is busy, and they
//! would declare it dead. Its tasks would run on a worker otherwise; the thread costs little and
//! keeps both apart.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::warning_limiter::WarningLimiter;
use chitchat::{
    ChitchatConfig, ChitchatHandle, ChitchatId, FailureDetectorConfig, NodeState, spawn_chitchat,
};
use fleet::Member;
use tokio::sync::{oneshot, watch};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::facts;
use crate::gossip::seeds::{self, Seed};
use crate::gossip::socket::{SealedTransport, Wire};
use crate::gossip::view::{Complaint, Live, View};
use crate::published::{Published, lock};

/// Interval between two rounds, in each of which a node gossips with up to three others.
pub const ROUND: Duration = Duration::from_millis(500);

/// Silence after which a node counts as dead, as a multiple of the mean of its previous intervals
/// (phi accrual). In a small fleet a node is heard of several times per round, in a large one about
/// once. The mean combines the last intervals and a prior one, so it is about 0.3 to 0.5 s.
/// Measured on one machine, three nodes detect a death after 3.5 to 4.5 s, thirty after 3 to 6 s;
/// on a slow network it takes longer.
const DEAD_AFTER_MEANS: f64 = 9.0;
const INTERVALS: usize = 5;
const PRIOR_INTERVAL: Duration = ROUND;

/// Longer intervals are pauses, which say nothing about the next interval.
const INTERVAL_MAX: Duration = Duration::from_secs(3);

/// How long a dead node is remembered, to be tried now and then. It is reported to other nodes for
/// half as long.
const DEAD_KEPT: Duration = Duration::from_secs(30 * 60);

/// Minimum time between two announced changes of the load.
const LOAD_PAUSE: Duration = Duration::from_secs(1);

/// Minimum time between two announced changes of any other fact.
const TELL_PAUSE: Duration = Duration::from_millis(100);

/// Interval between two lookups of the seeds: without and with other live nodes.
const SEEK_ALONE: Duration = Duration::from_secs(1);
const SEEK: Duration = Duration::from_secs(10);

/// Maximum number of seed addresses that are tried at a time.
const TRIED_MAX: usize = 32;

/// Pause before gossip is restarted after it ended unexpectedly.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// State shared between the thread and its callers.
pub struct Shared {
    pub wire: Arc<Wire>,
    pub view: Mutex<View>,
    pub published: Published,
}

/// Further state of the thread.
pub struct Node {
    pub shared: Arc<Shared>,
    pub fleet: String,
    /// This node, in its first generation.
    pub first: ChitchatId,
    pub seeds: Vec<Seed>,
    pub name_servers: Vec<SocketAddr>,
    /// The facts of this node.
    pub own: watch::Receiver<Member>,
}

/// Rate limits by kind of warning.
#[derive(Default)]
struct Warnings {
    malformed: WarningLimiter,
    seeds: WarningLimiter,
}

impl Node {
    /// Gossips until stopped. If gossip ends by itself, that is logged as an error, and it is
    /// restarted as another generation.
    pub async fn run(self, mut stop: oneshot::Receiver<()>) {
        let mut id = self.first.clone();
        loop {
            let run = async {
                self.run_once(&id).await;
                self.shared.wire.counters.restarts.count();
                sleep(AGAIN_AFTER).await;
            };
            tokio::select! {
                _ = &mut stop => return,
                () = run => {}
            }
            id.generation_id = generation(&self.shared.wire).max(id.generation_id + 1);
            lock(&self.shared.view).begin_again(id.clone());
        }
    }

    async fn run_once(&self, id: &ChitchatId) {
        let known = Arc::new(OnceLock::new());
        let transport = SealedTransport {
            wire: self.shared.wire.clone(),
            own: id.clone(),
            known: known.clone(),
        };
        let own = self.own.borrow().clone();
        let facts = facts::encode(&rounded(own.clone())).unwrap_or_default();
        let facts = facts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let config = config(self.fleet.clone(), id.clone());
        let handle = match spawn_chitchat(config, facts, &transport).await {
            Ok(handle) => Aborting(handle),
            Err(error) => {
                log::error!("cannot start gossip: {error}");
                return;
            }
        };
        let _ = known.set(handle.0.chitchat());
        let warnings = Warnings::default();
        let ended = tokio::select! {
            ended = handle.0.termination_watcher() => ended,
            () = self.tell(&handle.0, own) => return,
            () = self.watch(&handle.0, &warnings) => return,
            () = self.seek(&handle.0, &warnings) => return,
        };
        let why = ended.err().map_or("it was told to".to_owned(), |error| error.to_string());
        log::error!("gossip ended and is restarted: {why}");
    }

    /// Announces this node's facts when they change.
    async fn tell(&self, handle: &ChitchatHandle, first: Member) {
        let mut own = self.own.clone();
        let mut told = rounded(first);
        let now = || self.shared.wire.clock.running();
        let mut load_due = now() + LOAD_PAUSE;
        loop {
            let wanted = rounded(own.borrow_and_update().clone());
            let next = next(&told, wanted.clone(), now() >= load_due);
            if next != told {
                set(handle, &next).await;
                if next.load != told.load {
                    load_due = now() + LOAD_PAUSE;
                }
                told = next;
            }
            sleep(TELL_PAUSE).await;
            tokio::select! {
                changed = own.changed() => if changed.is_err() {
                    // The announcing side is gone, so the node is stopping.
                    return std::future::pending().await;
                },
                () = sleep(load_due.saturating_sub(now())), if wanted.load != told.load => {}
            }
        }
    }

    /// Publishes the live members when they change; checks the time once a second.
    async fn watch(&self, handle: &ChitchatHandle, warnings: &Warnings) {
        let mut live = handle.with_chitchat(|chitchat| chitchat.live_nodes_watcher()).await;
        let mut second = interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let nodes =
                live.borrow_and_update().iter().map(|(id, state)| read(id, state)).collect();
            let now = self.shared.wire.clock.running();
            let complaints = {
                let mut view = lock(&self.shared.view);
                let complaints = view.update(nodes, now);
                self.shared.published.publish(view.members());
                complaints
            };
            complaints.into_iter().for_each(|complaint| warnings.log(complaint, now));
            tokio::select! {
                changed = live.changed() => if changed.is_err() {
                    return std::future::pending().await;
                },
                _ = second.tick() => {}
            }
        }
    }

    /// Gossips with the seeds repeatedly: with all of them while there is no other live node,
    /// otherwise with those that are not known members.
    async fn seek(&self, handle: &ChitchatHandle, warnings: &Warnings) {
        loop {
            let found = seeds::find(&self.seeds, &self.name_servers).await;
            let now = self.shared.wire.clock.running();
            if !found.failed.is_empty()
                && let Some(more) = warnings.seeds.due(now)
            {
                let failed = found.failed.iter().map(|(seed, why)| format!("{seed}: {why}"));
                let failed = failed.collect::<Vec<_>>().join("; ");
                log::warn!("seeds of the fleet cannot be looked up: {failed}{more}");
            }
            let live = handle.with_chitchat(|chitchat| {
                let live = chitchat.live_nodes().map(|node| node.gossip_advertise_addr);
                live.collect::<BTreeSet<_>>()
            });
            let live = live.await;
            for address in some(found.addresses.difference(&live).copied().collect()) {
                // An error means that gossip has ended, which is noticed elsewhere.
                let _ = handle.gossip(address);
            }
            let pause = if live.len() > 1 { SEEK } else { SEEK_ALONE };
            sleep(varied(pause, net::random::random())).await;
        }
    }
}

impl Warnings {
    fn log(&self, complaint: Complaint, now: Duration) {
        match complaint {
            Complaint::Malformed(node, error) => {
                if let Some(more) = self.malformed.due(now) {
                    log::warn!(
                        "the node {} at {} is not a member of the fleet: {error}{more}",
                        node.node_id,
                        node.gossip_advertise_addr
                    );
                }
            }
            Complaint::SameName { name, member, ignored } => log::error!(
                "two nodes of the fleet are named {name}: the one at {ignored} is ignored, because \
                 the one at {member} started first; give each node a unique name (fleet.node)"
            ),
        }
    }
}

/// A handle that stops its gossip on drop.
struct Aborting(ChitchatHandle);

impl Drop for Aborting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns the generation of a node that starts now: a later start has a higher one.
pub fn generation(wire: &Wire) -> u64 {
    u64::try_from(wire.clock.since_1970().as_millis()).unwrap_or(u64::MAX)
}

fn config(fleet: String, id: ChitchatId) -> ChitchatConfig {
    ChitchatConfig {
        // The socket already exists.
        listen_addr: id.gossip_advertise_addr,
        chitchat_id: id,
        cluster_id: fleet,
        gossip_interval: ROUND,
        // Seeds are looked up here, more often and in more ways.
        seed_nodes: Vec::new(),
        failure_detector_config: FailureDetectorConfig {
            phi_threshold: DEAD_AFTER_MEANS,
            sampling_window_size: INTERVALS,
            max_interval: INTERVAL_MAX,
            initial_interval: PRIOR_INTERVAL,
            dead_node_grace_period: DEAD_KEPT,
        },
        marked_for_deletion_grace_period: DEAD_KEPT,
        catchup_callback: None,
        extra_liveness_predicate: None,
    }
}

/// Decodes the facts of a live node.
fn read(id: &ChitchatId, state: &NodeState) -> Live {
    let said = state.num_key_values() > 0;
    let facts = said.then(|| id.node_id.parse().ok()).flatten();
    let facts = facts.map(|name| facts::decode(name, |key| state.get(key)));
    Live { node: id.clone(), facts }
}

async fn set(handle: &ChitchatHandle, own: &Member) {
    // A member that cannot be encoded is rejected when it is announced.
    let facts = facts::encode(own).unwrap_or_default();
    handle
        .with_chitchat(|chitchat| {
            let state = chitchat.self_node_state();
            facts.iter().for_each(|(key, value)| state.set(key, value));
        })
        .await;
}

/// Returns the facts to announce next: the wanted ones, but a new load only when it is due.
fn next(told: &Member, wanted: Member, load_due: bool) -> Member {
    let load = if load_due { wanted.load } else { told.load };
    Member { load, ..wanted }
}

/// Rounds the load down to its first four bits, so that small changes are not announced.
fn rounded(own: Member) -> Member {
    let low = (u64::BITS - own.load.leading_zeros()).saturating_sub(4);
    Member { load: own.load >> low << low, ..own }
}

/// Draws the addresses to be tried this time.
fn some(mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    for left in 0..addresses.len().min(TRIED_MAX) {
        let others = (addresses.len() - left) as u64;
        addresses.swap(left, left + (net::random::random() % others) as usize);
    }
    addresses.truncate(TRIED_MAX);
    addresses
}

/// Varies a pause by up to a fifth, so that nodes that started together do not ask at the same
/// time.
fn varied(pause: Duration, random: u64) -> Duration {
    pause.mul_f64(0.8 + 0.4 * (random % 1_000) as f64 / 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(load: u64) -> Member {
        let address = "h:1".parse().unwrap();
        Member { load, ..facts::unheard("a".parse().unwrap(), address, "".into(), 1) }
    }

    #[test]
    fn a_load_is_rounded_to_four_bits() {
        for (load, told) in
            [(0, 0), (15, 15), (16, 16), (17, 16), (1_000, 960), (u64::MAX, 15 << 60)]
        {
            assert_eq!(rounded(own(load)).load, told);
        }
        for load in (0..100_000).step_by(7) {
            let told = rounded(own(load)).load;
            assert!(told <= load && load - told <= load / 8, "{load} is told as {told}");
        }
    }

    #[test]
    fn a_load_waits_and_nothing_else_does() {
        let told = own(1);
        assert_eq!(next(&told, own(2), false), told);
        assert_eq!(next(&told, own(2), true), own(2));
        let heavy = |load| Member { weight: 9, ..own(load) };
        assert_eq!(next(&told, heavy(2), false), heavy(1));
    }

    #[test]
    fn pauses_vary_and_tries_are_few() {
        let second = Duration::from_secs(1);
        let pauses = (0..1_000).map(|random| varied(second, random));
        let (least, most) = (second.mul_f64(0.79), second.mul_f64(1.21));
        assert!(pauses.into_iter().all(|pause| (least..most).contains(&pause)));
        let many: Vec<SocketAddr> = (1..100).map(|port| ([127, 0, 0, 1], port).into()).collect();
        let tried: BTreeSet<_> = some(many.clone()).into_iter().collect();
        assert_eq!(tried.len(), TRIED_MAX);
        assert_eq!(some(many[..3].to_vec()).len(), 3);
        assert_eq!(some(vec![]), []);
    }
}
