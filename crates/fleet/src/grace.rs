//! For how long former owners are asked after the members changed.
//!
//! Keys that moved are still on the disks of those that owned them: for a while the new owners ask
//! there before the origin. Afterwards what was asked for has moved, and asking would only cost.

use std::time::Duration;

use crate::members::Members;

/// The members before a change, and until when they matter.
#[derive(Clone, Debug)]
pub struct Grace {
    previous: Members,
    until: Duration,
}

impl Grace {
    /// Notes a change at `now`, for `length`. None when both views place every key alike: there is
    /// nothing to ask for then, and a grace that runs goes on.
    pub fn begin(
        previous: &Members,
        current: &Members,
        now: Duration,
        length: Duration,
    ) -> Option<Grace> {
        let moved = !previous.places_like(current);
        moved.then(|| Grace { previous: previous.clone(), until: now.saturating_add(length) })
    }

    /// Returns the former members while they matter, for
    /// [`View::previous`](crate::lookup::View::previous).
    pub fn previous(&self, now: Duration) -> Option<&Members> {
        (now < self.until).then_some(&self.previous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_position::LogPosition;
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
            purges: LogPosition::default(),
            state: State::Serving,
        };
        let view = |load, weight| Members::new(load, vec![member(load, weight)]).unwrap();
        let second = Duration::from_secs;
        let grace = Grace::begin(&view(1, 1), &view(2, 2), second(5), second(60)).unwrap();
        assert_eq!(grace.previous(second(64)).map(Members::version), Some(1));
        assert!(grace.previous(second(65)).is_none());
        assert!(Grace::begin(&view(1, 1), &view(2, 1), second(5), second(60)).is_none());
    }
}
