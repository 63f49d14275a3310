//! Decisions on evicted copies, rule by rule.

use std::collections::BTreeSet;
use std::time::Duration;

use fleet::class::{EvictionStep, Preset, Replication};
use fleet::eviction::{EvictedCopy, Fate, MOVES_MAX, Reason, decide};
use fleet::member::State;
use fleet::token_bucket::TokenBucket;
use fleet::{KeyHash, Member, Policy};

use crate::fixture::{member, members};

const COPY: EvictedCopy =
    EvictedCopy { key: KeyHash::from_bits(7), size: 100, last: true, moves: 0 };

/// The paper's class 2, whose evictions are handled, in a fleet where no member owns a document.
fn offer() -> Policy {
    Policy { replication: Replication::All, ..Preset::OfferMedium.policies()[2] }
}

fn busy(name: &str, load: u64) -> Member {
    Member { load, ..member(name) }
}

/// Decides for this node, with a load of 10, in a fleet with `others`.
fn fate(copy: EvictedCopy, policy: Policy, others: Vec<Member>, avoid: &[&str]) -> Fate {
    let me = busy("me", 10);
    let view = members(others.into_iter().chain([me.clone()]).collect());
    let avoid: BTreeSet<_> = avoid.iter().map(|name| name.parse().unwrap()).collect();
    let mut rate = TokenBucket::new(1, 1_000, Duration::ZERO);
    decide(&copy, &policy, &me, &view, &avoid, &mut rate, Duration::ZERO)
}

#[test]
fn the_last_copy_goes_to_the_least_busy_member() {
    let others = || vec![busy("a", 9), busy("b", 3), busy("c", 20)];
    let to = |name: &str, moves| Fate::Offered { to: vec![name.parse().unwrap()], moves };
    assert_eq!(fate(COPY, offer(), others(), &[]), to("b", 1));
    assert_eq!(fate(EvictedCopy { moves: 1, ..COPY }, offer(), others(), &["b"]), to("a", 2));
    // Per unit of weight c has 20 / 8 requests under way and is the least busy.
    let heavy = Member { weight: 8, ..busy("c", 20) };
    assert_eq!(fate(COPY, offer(), vec![busy("b", 3), heavy], &[]), to("c", 1));
}

#[test]
fn an_owner_is_offered_a_copy_by_its_own_step_only() {
    let owned = Policy { replication: Replication::ONE, ..offer() };
    let others = |loads: [u64; 2]| {
        let [owner, reader] = loads;
        vec![Member { weight: 1_000_000, ..busy("owner", owner) }, busy("reader", reader)]
    };
    let to = |names: &[&str]| {
        let to = names.iter().map(|name| name.parse().unwrap()).collect();
        Fate::Offered { to, moves: 1 }
    };
    assert_eq!(fate(COPY, owned, others([0, 9]), &[]), to(&["reader"]));
    assert_eq!(fate(COPY, owned, others([0, 10]), &[]), Fate::Dropped(Reason::AllBusier));
    let eviction = [EvictionStep::Peer, EvictionStep::Owner, EvictionStep::Drop];
    let both = Policy { eviction: eviction.into_iter().collect(), ..owned };
    assert_eq!(fate(COPY, both, others([0, 9]), &[]), to(&["reader", "owner"]));
    assert_eq!(fate(COPY, both, others([99, 10]), &[]), to(&["owner"]));
}

#[test]
fn every_reason_to_drop() {
    let idle = || vec![busy("a", 0)];
    let drop = Fate::Dropped;
    let class_0 = Preset::OfferMedium.policies()[0];
    assert_eq!(fate(COPY, class_0, idle(), &[]), drop(Reason::Class));
    let copy = EvictedCopy { last: false, ..COPY };
    assert_eq!(fate(copy, offer(), idle(), &[]), drop(Reason::NotLast));
    let copy = EvictedCopy { moves: MOVES_MAX, ..COPY };
    assert_eq!(fate(copy, offer(), idle(), &[]), drop(Reason::Unused));
    assert_eq!(fate(COPY, offer(), Vec::new(), &[]), drop(Reason::NoPeer));
    assert_eq!(fate(COPY, offer(), idle(), &["a"]), drop(Reason::NoPeer));
    let leaving = Member { state: State::Leaving, ..busy("a", 0) };
    assert_eq!(fate(COPY, offer(), vec![leaving], &[]), drop(Reason::NoPeer));
    assert_eq!(fate(COPY, offer(), vec![busy("a", 10)], &[]), drop(Reason::AllBusier));
    let copy = EvictedCopy { size: 1_001, ..COPY };
    assert_eq!(fate(copy, offer(), idle(), &[]), drop(Reason::Rate));
}

#[test]
fn copies_of_one_moment_are_spread_over_equals() {
    let others: Vec<_> = (0..4).map(|at| busy(&format!("n{at}"), 1)).collect();
    let chosen: BTreeSet<_> = (0..64)
        .map(|bits| {
            let copy = EvictedCopy { key: KeyHash::from_bits(bits), ..COPY };
            format!("{:?}", fate(copy, offer(), others.clone(), &[]))
        })
        .collect();
    assert_eq!(chosen.len(), 4);
}
