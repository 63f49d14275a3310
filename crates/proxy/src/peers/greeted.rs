//! Nodes that have said hello lately, whether or not the source of the members has them yet.
//!
//! A node that comes says hello to all others before it uses what it has stored, and a purge must
//! reach it from then on: gossip of it may come later than its hello.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fleet::member::{Address, State};
use fleet::members::MEMBERS_MAX;
use fleet::{Member, MemberId};

/// Time for which a hello counts: twice the interval between two hellos of a node that gossips.
const KEPT: Duration = Duration::from_secs(60);

/// The nodes that have said hello within [`KEPT`]: where each is reached, and when it was heard.
#[derive(Default)]
pub(crate) struct Greeted(Mutex<BTreeMap<MemberId, (Address, Duration)>>);

impl Greeted {
    /// Records the state that a node announces. A node that leaves counts no longer, unless its
    /// name belongs to a node at another address.
    pub fn note(&self, of: &Member, now: Duration) {
        let mut all = self.lock();
        all.retain(|_, (_, at)| now.saturating_sub(*at) < KEPT);
        match of.state {
            State::Leaving => {
                if all.get(&of.id).is_some_and(|(address, _)| *address == of.address) {
                    all.remove(&of.id);
                }
            }
            State::Joining | State::Serving if of.has_cache && all.len() < MEMBERS_MAX => {
                all.insert(of.id.clone(), (of.address.clone(), now));
            }
            State::Joining | State::Serving => {}
        }
    }

    /// Removes a node that is known to leave from another source.
    pub fn left(&self, id: &MemberId) {
        self.lock().remove(id);
    }

    /// Returns the address of each node that has said hello lately.
    pub fn all(&self, now: Duration) -> BTreeMap<MemberId, Address> {
        let all = self.lock();
        let recent = all.iter().filter(|(_, (_, at))| now.saturating_sub(*at) < KEPT);
        recent.map(|(id, (address, _))| (id.clone(), address.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<MemberId, (Address, Duration)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {

    use super::*;

    fn member(state: State) -> Member {
        Member {
            id: "a".parse().unwrap(),
            address: "a.example:1".parse().unwrap(),
            zone: "".into(),
            weight: 1,
            load: 0,
            program: "".into(),
            protocols: fleet::Protocols::OWN,
            policy_version: 0,
            disk_failed: false,
            has_cache: true,
            state,
        }
    }

    #[test]
    fn a_hello_counts_for_a_while_and_until_its_node_leaves() {
        let (greeted, second) = (Greeted::default(), Duration::from_secs);
        greeted.note(&member(State::Joining), second(1));
        assert_eq!(greeted.all(second(60)).len(), 1);
        assert_eq!(greeted.all(second(61)).len(), 0);
        greeted.note(&member(State::Leaving), second(2));
        assert_eq!(greeted.all(second(3)).len(), 0);
        greeted.note(&member(State::Serving), second(4));
        greeted.left(&member(State::Serving).id);
        assert_eq!(greeted.all(second(5)).len(), 0);
    }
}
