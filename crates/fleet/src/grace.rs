//! Period after a membership change during which former owners are asked.
//!
//! Keys that moved are still on their former owners' disks. During the grace period new owners ask
//! there before they go to the origin; afterwards the documents in use have moved, and asking would
//! only cost time.
//!
//! A node that has just joined has seen no former view. It derives them: before a member started,
//! those that started earlier were there.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::member::MemberId;
use crate::members::Members;

/// Maximum number of former views that are remembered.
const FORMER_MAX: usize = 16;

/// Former members, the newest view first, each with the end of the period in which they are asked.
#[derive(Clone, Debug)]
pub struct Grace {
    former: Vec<(Members, Duration)>,
}

impl Grace {
    /// Starts a grace period of `length` at `now`, with those of `before` that still run. Returns
    /// `None` if both views place every key alike.
    pub fn begin(
        before: Option<&Grace>,
        (previous, current): (&Members, &Members),
        now: Duration,
        length: Duration,
    ) -> Option<Grace> {
        if previous.places_like(current) {
            return None;
        }
        let mut grace = Grace { former: vec![(previous.clone(), now.saturating_add(length))] };
        let before = before.iter().flat_map(|grace| &grace.former);
        before.filter(|(_, until)| now < *until).for_each(|(view, until)| grace.add(view, *until));
        Some(grace)
    }

    /// Adds the views before each of the members started that did so less than `length` ago.
    /// `started` has the times in milliseconds since 1970, as which it is now `since_1970`.
    pub fn derive(
        members: &Members,
        started: &BTreeMap<MemberId, u64>,
        (now, since_1970): (Duration, Duration),
        length: Duration,
    ) -> Grace {
        let start = |id: &MemberId| started.get(id).map(|at| Duration::from_millis(*at));
        let mut starts: Vec<Duration> = members.iter().filter_map(|m| start(&m.id)).collect();
        starts.sort_unstable();
        starts.dedup();
        let mut grace = Grace { former: Vec::new() };
        let recent = starts.iter().rev().take(FORMER_MAX);
        for at in recent.take_while(|at| since_1970.saturating_sub(**at) < length) {
            let view = members.only(|member| start(&member.id).is_some_and(|start| start < *at));
            if view.iter().any(|member| member.may_own()) {
                let left = length.saturating_sub(since_1970.saturating_sub(*at));
                grace.add(&view, now.saturating_add(left));
            }
        }
        grace
    }

    /// Adds the views of another period.
    pub fn with(mut self, other: &Grace) -> Grace {
        other.former.iter().for_each(|(view, until)| self.add(view, *until));
        self
    }

    fn add(&mut self, view: &Members, until: Duration) {
        let is_known = self.former.iter().any(|(known, _)| known.places_like(view));
        if self.former.len() < FORMER_MAX && !is_known {
            self.former.push((view.clone(), until));
        }
    }

    /// Returns the former members whose period runs, the newest view first, for
    /// [`View::previous`](crate::lookup::View::previous).
    pub fn previous(&self, now: Duration) -> Vec<Members> {
        let running = self.former.iter().filter(|(_, until)| now < *until);
        running.map(|(members, _)| members.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::{Member, State};
    use crate::protocol::Protocols;

    #[test]
    fn former_members_matter_for_a_while_if_keys_moved() {
        let member = |load, weight| Member {
            id: "a".parse().unwrap(),
            address: "h:1".parse().unwrap(),
            zone: "".into(),
            weight,
            load,
            program: "".into(),
            protocols: Protocols::OWN,
            policy_version: 0,
            disk_failed: false,
            has_cache: true,
            state: State::Serving,
        };
        let view = |version, weight| Members::new(version, vec![member(0, weight)]).unwrap();
        let second = Duration::from_secs;
        let begin = |before: Option<&Grace>, previous, current, now| {
            Grace::begin(before, (&previous, &current), second(now), second(60))
        };
        let versions = |grace: &Grace, now| -> Vec<u64> {
            grace.previous(second(now)).iter().map(Members::version).collect()
        };
        let first = begin(None, view(1, 1), view(2, 2), 5).unwrap();
        assert_eq!((versions(&first, 64), versions(&first, 65)), (vec![1], vec![]));
        assert!(begin(None, view(1, 1), view(2, 1), 5).is_none());
        // Another change meanwhile, and then one back.
        let second_one = begin(Some(&first), view(2, 2), view(3, 3), 30).unwrap();
        assert_eq!((versions(&second_one, 64), versions(&second_one, 65)), (vec![2, 1], vec![2]));
        let third = begin(Some(&second_one), view(3, 1), view(4, 2), 40).unwrap();
        assert_eq!(versions(&third, 41), [3, 2], "a view that places alike is known");
        let many = (0..40).fold(first, |grace, weight| {
            begin(Some(&grace), view(9, weight + 9), view(9, weight + 10), 50).unwrap()
        });
        assert_eq!(versions(&many, 51).len(), FORMER_MAX);
    }

    #[test]
    fn a_node_that_has_just_joined_derives_the_views_before_the_last_members_started() {
        let member = |name: &str| Member {
            id: name.parse().unwrap(),
            address: "h:1".parse().unwrap(),
            zone: "".into(),
            weight: 1,
            load: 0,
            program: "".into(),
            protocols: Protocols::OWN,
            policy_version: 0,
            disk_failed: false,
            has_cache: true,
            state: State::Serving,
        };
        let all = Members::new(1, ["a", "b", "c", "d"].map(member).into()).unwrap();
        let started = [("a", 1), ("b", 1_000), ("c", 9_000), ("d", 9_500)];
        let started = started.map(|(name, at)| (name.parse().unwrap(), at)).into();
        let second = Duration::from_secs;
        let grace = Grace::derive(&all, &started, (second(50), second(10)), second(5));
        let names = |now| -> Vec<String> {
            let view = |view: &Members| view.iter().map(|member| member.id.as_str()).collect();
            grace.previous(second(now)).iter().map(view).collect()
        };
        assert_eq!(names(50), ["abc", "ab"]);
        // The third member started a second ago, the fourth half a second.
        assert_eq!((names(54), names(55)), (vec!["abc".to_owned()], vec![]));
        assert_eq!(grace.clone().with(&grace).previous(second(50)).len(), 2);
    }
}
