//! The members of the fleet as this node knows them now, ready to be asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fleet::grace::Grace;
use fleet::member::Address;
use fleet::round_trips::RoundTrips;
use fleet::{Member, MemberId, Members, Protocols};
use upstream::settings::endpoint::{At, Endpoint, Http2};
use upstream::settings::tls::Tls;

use crate::peers::tally::Tally;

/// One view of the members: a value, which a request keeps for as long as it lasts.
pub(super) struct Roster {
    pub members: Members,
    /// Owners of keys before the last changes.
    grace: Option<Grace>,
    peers: BTreeMap<MemberId, Arc<Peer>>,
}

/// Where a member is asked, and what came of it.
pub(crate) struct Peer {
    pub endpoint: Arc<Endpoint>,
    /// Protocol spoken with it.
    pub protocol: u16,
    pub tally: Tally,
    round_trips: Mutex<RoundTrips>,
}

impl Peer {
    /// Returns how long it may take to show that it is at work, at least `least`.
    pub fn patience(&self, least: Duration) -> Duration {
        self.known().patience(least)
    }

    /// Notes how long it took to show that it is at work, or was waited for.
    pub fn note_time(&self, took: Duration) {
        self.known().note(took);
    }

    fn known(&self) -> MutexGuard<'_, RoundTrips> {
        self.round_trips.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Roster {
    /// Returns the roster of a node that knows no other node.
    pub fn empty() -> Roster {
        Roster { members: Members::empty(), grace: None, peers: BTreeMap::new() }
    }

    /// Returns the roster that follows this one, with connections to members kept. `started`: when
    /// members started, in milliseconds since 1970, as which it is now `since_1970`.
    ///
    /// Members without a protocol in common with `own` are left out.
    pub fn followed_by(
        &self,
        members: &Members,
        (own, tls): (Protocols, Option<&Tls>),
        started: &BTreeMap<MemberId, u64>,
        (now, since_1970): (Duration, Duration),
        grace: Duration,
    ) -> Roster {
        let members = members.only(|member| own.common(member.protocols).is_some());
        let peer = |member: &Member| {
            let protocol = own.common(member.protocols)?;
            let made = endpoint(&member.address, tls);
            let known = self.peers.get(&member.id);
            let same = known.filter(|known| *known.endpoint == made && known.protocol == protocol);
            let peer = same.cloned().unwrap_or_else(|| {
                let tally = known.map(|known| known.tally.clone()).unwrap_or_default();
                let round_trips = Mutex::default();
                Arc::new(Peer { endpoint: Arc::new(made), protocol, tally, round_trips })
            });
            Some((member.id.clone(), peer))
        };
        let peers = members.iter().filter_map(peer).collect();
        // The first view of all follows nothing.
        let moved = (!self.members.is_empty())
            .then(|| Grace::begin(self.grace.as_ref(), (&self.members, &members), now, grace))
            .flatten();
        let joined = || Grace::derive(&members, started, (now, since_1970), grace);
        let grace = match moved {
            Some(moved) => Some(moved.with(&joined())),
            None if self.members.is_empty() => Some(joined()),
            None => self.grace.clone(),
        };
        Roster { grace, members, peers }
    }

    /// Returns the members before the last changes, while they matter.
    pub fn previous(&self, now: Duration) -> Vec<Members> {
        self.grace.as_ref().map(|grace| grace.previous(now)).unwrap_or_default()
    }

    /// Returns where a member is asked.
    pub fn peer(&self, member: &MemberId) -> Option<&Arc<Peer>> {
        self.peers.get(member)
    }
}

/// Returns the server at a member's address.
pub(super) fn endpoint(address: &Address, tls: Option<&Tls>) -> Endpoint {
    let at = At::Tcp(address.host().to_ascii_lowercase(), address.port());
    Endpoint { at, tls: tls.cloned(), http2: Http2::Off }
}
