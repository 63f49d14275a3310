//! Period after a membership change during which former owners are asked.
//!
//! Keys that moved are still on their former owners' disks. During the grace period new owners ask
//! there before they go to the origin; afterwards the documents in use have moved, and asking would
//! only cost time.

use std::time::Duration;

use crate::members::Members;

/// Former members, and the end of the period in which they are asked.
#[derive(Clone, Debug)]
pub struct Grace {
    previous: Members,
    until: Duration,
}

impl Grace {
    /// Starts a grace period of `length` at `now`. Does nothing if both views place every key
    /// alike; a running period then continues.
    pub fn begin(
        previous: &Members,
        current: &Members,
        now: Duration,
        length: Duration,
    ) -> Option<Grace> {
        let moved = !previous.places_like(current);
        moved.then(|| Grace { previous: previous.clone(), until: now.saturating_add(length) })
    }

    /// Returns the former members during the period, for
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
            disk_failed: false,
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
