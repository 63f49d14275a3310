//! Members from an operator's list.
//!
//! Names, addresses, zones and weights are those of the list, whatever a node announces. The
//! exception is a smaller weight, which a node announces that has no cache or whose disks fail.
//! Other facts of a member, and whether it is alive, are learned from the requests of this node. A
//! member enters the view when it is first heard. The first request without a response begins its
//! silence, and being heard ends it. A silence longer than the configured time removes the member
//! from the view. Without requests nothing changes: a member to which no request is sent keeps its
//! state. Users of the list should therefore send requests to the members of [`Membership::lost`]
//! now and then.
//!
//! No clock, no task, no randomness: the same calls give the same views, in the product and in the
//! simulator.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fleet::member::Address;
use fleet::members::InvalidMembers;
use fleet::{Member, MemberId, Members};
use tokio::sync::watch;

use crate::published::{Published, is_own, lock};
use crate::{Lost, Membership, facts};

/// An entry of the list.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Name of the member.
    pub id: MemberId,
    /// Address at which it is reached.
    pub address: Address,
    /// Failure domain of the member.
    pub zone: Arc<str>,
    /// Its share of the keys, relative to the others'.
    pub weight: u32,
}

/// The members of a list.
pub struct StaticList {
    /// Silence after which a member is lost.
    silence: Duration,
    known: Mutex<Known>,
    published: Published,
}

struct Known {
    own: Member,
    others: BTreeMap<MemberId, Other>,
}

struct Other {
    /// Its known facts; before it is first heard, those of the list.
    member: Member,
    /// Its weight in the list.
    weight: u32,
    /// Time of the first missing response since it was last heard.
    silent: Option<Duration>,
    /// Time since which it is not in the view.
    lost: Option<Duration>,
}

impl StaticList {
    /// Returns the members of a list, of which only this node is live. An entry with the name of
    /// `own` is ignored, so that all nodes can use the same list.
    ///
    /// # Errors
    ///
    /// Two entries have the same name, or there are too many.
    pub fn new(
        own: Member,
        list: &[Listed],
        silence: Duration,
        now: Duration,
    ) -> Result<StaticList, InvalidMembers> {
        let others = list.iter().filter(|listed| listed.id != own.id).map(unheard);
        let others: Vec<Member> = others.collect();
        // Checks the names as for every view.
        Members::new(0, others.iter().chain([&own]).cloned().collect())?;
        let published = Published::new(vec![own.clone()])?;
        let others = others.into_iter().map(|member| {
            let (id, weight) = (member.id.clone(), member.weight);
            (id, Other { member, weight, silent: None, lost: Some(now) })
        });
        let known = Mutex::new(Known { own, others: others.collect() });
        Ok(StaticList { silence, known, published })
    }
}

impl Membership for StaticList {
    fn members(&self) -> Members {
        self.published.members()
    }

    fn changes(&self) -> watch::Receiver<Members> {
        self.published.changes()
    }

    fn announce(&self, own: &Member) {
        let mut known = lock(&self.known);
        if is_own(&known.own.id, own) && known.own != *own {
            known.own = own.clone();
            self.published.publish(known.live());
        }
    }

    fn lost(&self) -> Vec<Lost> {
        let known = lock(&self.known);
        let lost = known.others.values().filter_map(|other| {
            other.lost.map(|since| Lost { member: other.member.clone(), since })
        });
        lost.collect()
    }

    fn heard(&self, of: Member, _now: Duration) {
        let mut known = lock(&self.known);
        if known.others.get_mut(&of.id).is_some_and(|other| other.hear(of)) {
            self.published.publish(known.live());
        }
    }

    fn silent(&self, id: &MemberId, now: Duration) {
        if let Some(other) = lock(&self.known).others.get_mut(id) {
            other.silent.get_or_insert(now);
        }
        self.elapse(now);
    }

    fn elapse(&self, now: Duration) {
        let mut known = lock(&self.known);
        // No short circuit: every member needs the time.
        let lost = known.others.values_mut().map(|other| other.lose(now, self.silence));
        if lost.fold(false, std::ops::BitOr::bitor) {
            self.published.publish(known.live());
        }
    }
}

impl Known {
    /// Returns the members of the view.
    fn live(&self) -> Vec<Member> {
        let others = self.others.values().filter(|other| other.lost.is_none());
        others.map(|other| &other.member).chain([&self.own]).cloned().collect()
    }
}

impl Other {
    /// Applies facts that were heard; returns whether the view changes.
    fn hear(&mut self, of: Member) -> bool {
        let Member { address, zone, .. } = self.member.clone();
        let weight = of.weight.min(self.weight);
        let member = Member { address, zone, weight, ..of };
        let changed = self.lost.is_some() || member != self.member;
        *self = Other { member, weight: self.weight, silent: None, lost: None };
        changed
    }

    /// Marks the member as lost if its silence has lasted long enough; returns whether it was in
    /// the view until now.
    fn lose(&mut self, now: Duration, silence: Duration) -> bool {
        let over = self.silent.filter(|since| now.saturating_sub(*since) >= silence);
        let loses = self.lost.is_none() && over.is_some();
        if loses {
            self.lost = over;
        }
        loses
    }
}

/// Returns what is known of a member before it is heard.
fn unheard(listed: &Listed) -> Member {
    let Listed { id, address, zone, weight } = listed.clone();
    facts::unheard(id, address, zone, weight)
}

#[cfg(test)]
mod tests {
    use fleet::member::State;

    use super::*;

    const SILENCE: Duration = Duration::from_secs(5);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn listed(name: &str) -> Listed {
        let address = format!("{name}.example:80").parse().unwrap();
        Listed { id: name.parse().unwrap(), address, zone: "z".into(), weight: 7 }
    }

    fn member(name: &str) -> Member {
        Member { state: State::Serving, ..unheard(&listed(name)) }
    }

    fn list() -> StaticList {
        let all: Vec<_> = ["a", "b", "c"].map(listed).into();
        StaticList::new(member("a"), &all, SILENCE, at(100)).unwrap()
    }

    fn names(list: &StaticList) -> Vec<String> {
        list.members().iter().map(|member| member.id.to_string()).collect()
    }

    fn lost(list: &StaticList) -> Vec<(String, u64)> {
        let lost = list.lost().into_iter();
        lost.map(|lost| (lost.member.id.to_string(), lost.since.as_secs())).collect()
    }

    #[test]
    fn a_member_that_was_never_heard_is_lost_from_the_start() {
        let list = list();
        list.elapse(at(1_000));
        assert_eq!(names(&list), ["a"]);
        assert_eq!(lost(&list), [("b".to_owned(), 100), ("c".to_owned(), 100)]);
        list.silent(&"b".parse().unwrap(), at(1_001));
        assert_eq!(lost(&list)[0].1, 100, "it has not been there since");
    }

    #[test]
    fn silence_begins_with_the_first_failure_and_ends_when_heard() {
        let (list, b) = (list(), "b".parse().unwrap());
        list.heard(member("b"), at(101));
        list.elapse(at(500));
        assert_eq!(names(&list), ["a", "b"], "nobody asked it");
        list.silent(&b, at(500));
        list.silent(&b, at(504));
        assert_eq!(names(&list), ["a", "b"]);
        list.heard(member("b"), at(504));
        list.silent(&b, at(505));
        list.elapse(at(509));
        assert_eq!(names(&list), ["a", "b"], "silent for four seconds");
        list.elapse(at(510));
        assert_eq!(names(&list), ["a"]);
        assert_eq!(lost(&list)[0], ("b".to_owned(), 505));
        list.heard(member("b"), at(511));
        assert_eq!(names(&list), ["a", "b"]);
        assert_eq!(lost(&list).len(), 1);
    }

    #[test]
    fn the_list_says_where_a_member_is_and_what_it_weighs() {
        let list = list();
        let mut said = member("b");
        (said.address, said.weight, said.zone) = ("evil:1".parse().unwrap(), 1_000_000, "y".into());
        (said.load, said.state) = (9, State::Leaving);
        list.heard(said, at(101));
        let view = list.members();
        let b = view.get(&"b".parse().unwrap()).unwrap();
        assert_eq!(*b, Member { load: 9, state: State::Leaving, ..member("b") });
    }

    #[test]
    fn a_member_owns_less_while_it_announces_less() {
        let (list, b) = (list(), "b".parse().unwrap());
        for (said, is) in [(7, 7), (0, 0), (3, 3), (9, 7)] {
            list.heard(Member { weight: said, ..member("b") }, at(101));
            assert_eq!(list.members().get(&b).unwrap().weight, is);
        }
    }

    #[test]
    fn strangers_and_this_node_are_not_heard() {
        let list = list();
        list.heard(member("stranger"), at(101));
        list.heard(Member { load: 5, ..member("a") }, at(101));
        list.silent(&"a".parse().unwrap(), at(101));
        list.silent(&"stranger".parse().unwrap(), at(101));
        list.elapse(at(1_000));
        assert_eq!(names(&list), ["a"]);
        assert_eq!(list.members().version(), 1);
    }

    #[test]
    fn this_node_announces_itself_under_its_name_only() {
        let list = list();
        let mut changes = list.changes();
        list.announce(&Member { load: 3, ..member("a") });
        assert_eq!(changes.borrow_and_update().get(&member("a").id).unwrap().load, 3);
        list.announce(&member("b"));
        assert!(!changes.has_changed().unwrap());
    }

    #[test]
    fn a_list_names_each_once() {
        let twice = [listed("b"), listed("b")];
        assert!(StaticList::new(member("a"), &twice, SILENCE, at(0)).is_err());
    }

    /// Whatever happens, a member is either in the view or lost; it is in the view exactly when a
    /// model that keeps all events says so.
    #[test]
    fn the_view_is_that_of_a_model() {
        let mut random = fastrand::Rng::with_seed(crate::seed());
        let list = list();
        let mut now = 100;
        // For b and c: whether heard, and the first failure since.
        let mut model = [(false, None::<u64>); 2];
        let mut gone = [true; 2];
        for _ in 0..2_000 {
            now += random.u64(0..3);
            let which = random.usize(0..2);
            let name = ["b", "c"][which];
            match random.u8(0..5) {
                0 => {
                    list.heard(member(name), at(now));
                    (model[which], gone[which]) = ((true, None), false);
                }
                1 | 2 => {
                    list.silent(&name.parse().unwrap(), at(now));
                    model[which].1.get_or_insert(now);
                }
                _ => {}
            }
            list.elapse(at(now));
            for (gone, (_, silent)) in gone.iter_mut().zip(model) {
                *gone |= silent.is_some_and(|since| now - since >= SILENCE.as_secs());
            }
            let expected: Vec<_> = ["b", "c"].into_iter().zip(gone).collect();
            let in_view = names(&list);
            let is_lost = lost(&list);
            for (name, gone) in expected {
                assert_eq!(in_view.iter().any(|known| known == name), !gone, "{name} at {now}");
                assert_eq!(is_lost.iter().any(|(known, _)| known == name), gone, "{name} at {now}");
            }
        }
    }
}
