//! Places of tunnels, which limit how many are open at a time.
//!
//! An idle tunnel occupies a place without any use, for up to `client.tunnel-idle`. When all places
//! are taken, a new tunnel takes the place of an idle one, so that no client can exclude the others
//! by opening tunnels and leaving them idle: of the client address that has most tunnels, the one
//! that was idle longest ends. An active tunnel never ends for another one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use net::clock::TokioClock;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::client::addresses::network;

/// Time without a byte from which on a tunnel is idle. A new tunnel waits so long for its place.
const IDLE: Duration = Duration::from_secs(1);

/// Milliseconds of a tunnel that is not open yet.
const NOT_OPEN: u64 = u64::MAX;

/// The tunnels of all workers together, open or about to be.
#[derive(Debug)]
pub(crate) struct Places {
    clock: TokioClock,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    by_id: HashMap<u64, Arc<Holder>>,
}

/// The tunnel at a place.
#[derive(Debug)]
struct Holder {
    /// Address of the client, a network in IPv6.
    client: IpAddr,
    since: Instant,
    /// Milliseconds after `since` at which the last byte moved, or [`NOT_OPEN`].
    last_moved: AtomicU64,
    displaced: Notify,
}

/// A tunnel's place, which is freed when it is dropped.
#[derive(Debug)]
pub(crate) struct TunnelPermit {
    places: Arc<Places>,
    id: u64,
    holder: Arc<Holder>,
}

/// The result of the search for a place.
enum Search {
    Found(TunnelPermit),
    /// A tunnel may be idle after so long.
    Later(Duration),
    Full,
}

impl Places {
    /// Makes places that are all free.
    pub fn new(clock: TokioClock) -> Places {
        Places { clock, taken: Mutex::default() }
    }

    /// Takes a place for a tunnel of `client`, where `max` may be taken: a free one, or that of an
    /// idle tunnel. Waits for [`IDLE`] at most; `None` when all tunnels are active.
    pub async fn take(self: &Arc<Places>, max: usize, client: IpAddr) -> Option<TunnelPermit> {
        let wait = match self.search(max, client) {
            Search::Found(permit) => return Some(permit),
            Search::Later(wait) => wait,
            Search::Full => return None,
        };
        sleep(wait).await;
        match self.search(max, client) {
            Search::Found(permit) => Some(permit),
            Search::Later(_) | Search::Full => None,
        }
    }

    fn search(self: &Arc<Places>, max: usize, client: IpAddr) -> Search {
        let (mut taken, now) = (self.taken(), self.clock.instant());
        if taken.by_id.len() >= max {
            // The limit may have been lowered by a reload.
            match taken.idlest(now).filter(|_| taken.by_id.len() == max) {
                Some((id, idle)) if idle >= IDLE => {
                    if let Some(holder) = taken.by_id.remove(&id) {
                        holder.displaced.notify_one();
                    }
                }
                Some((_, idle)) => return Search::Later(IDLE - idle),
                None => return Search::Full,
            }
        }
        let holder = Arc::new(Holder {
            client: network(client),
            since: now,
            last_moved: AtomicU64::new(NOT_OPEN),
            displaced: Notify::new(),
        });
        let id = taken.next;
        taken.next += 1;
        taken.by_id.insert(id, holder.clone());
        Search::Found(TunnelPermit { places: self.clone(), id, holder })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        // Nothing under this lock can panic half-way.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Returns the open tunnel that was idle longest, of the client that has most places and an
    /// open tunnel, and the time for which it was idle.
    fn idlest(&self, now: Instant) -> Option<(u64, Duration)> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for holder in self.by_id.values() {
            *counts.entry(holder.client).or_default() += 1;
        }
        let open = self.by_id.iter().filter_map(|(id, holder)| {
            let idle = holder.idle(now)?;
            Some((idle >= IDLE, counts[&holder.client], idle, *id))
        });
        open.max().map(|(_, _, idle, id)| (id, idle))
    }
}

impl Holder {
    /// Returns the time since the last byte moved; `None` when the tunnel is not open yet.
    fn idle(&self, now: Instant) -> Option<Duration> {
        let last = Some(self.last_moved.load(Relaxed)).filter(|last| *last != NOT_OPEN)?;
        let lifetime = now.saturating_duration_since(self.since);
        Some(lifetime.saturating_sub(Duration::from_millis(last)))
    }
}

impl TunnelPermit {
    /// Notes that the tunnel was opened, or that bytes moved through it.
    pub fn note_moved(&self, now: Instant) {
        let millis = now.saturating_duration_since(self.holder.since).as_millis();
        self.holder.last_moved.store(millis as u64, Relaxed);
    }

    /// Completes when another tunnel has the place.
    pub async fn displaced(&self) {
        self.holder.displaced.notified().await;
    }
}

impl Drop for TunnelPermit {
    fn drop(&mut self) {
        self.places.taken().by_id.remove(&self.id);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const A: [u8; 4] = [192, 0, 2, 1];
    const B: [u8; 4] = [192, 0, 2, 2];
    const C: [u8; 4] = [192, 0, 2, 3];

    async fn open(places: &Arc<Places>, client: [u8; 4]) -> Option<TunnelPermit> {
        let permit = places.take(4, client.into()).await?;
        permit.note_moved(places.clock.instant());
        Some(permit)
    }

    async fn is_displaced(permit: &TunnelPermit) -> bool {
        tokio::time::timeout(Duration::ZERO, permit.displaced()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_tunnel_that_was_idle_longest_of_the_client_with_most_makes_way() {
        let places = Arc::new(Places::new(TokioClock::system()));
        let lone = open(&places, B).await.unwrap();
        let mut crowd = Vec::new();
        for _ in 0..3 {
            advance(IDLE).await;
            crowd.push(open(&places, A).await.unwrap());
        }
        advance(IDLE).await;
        crowd[0].note_moved(places.clock.instant());
        let came = open(&places, C).await.unwrap();
        let mut ended = Vec::new();
        for permit in [&lone, &crowd[0], &crowd[1], &crowd[2], &came] {
            ended.push(is_displaced(permit).await);
        }
        assert_eq!(ended, [false, false, true, false, false]);
        // The displaced permit frees nothing when it goes.
        drop(crowd.remove(1));
        assert_eq!(places.taken().by_id.len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn active_tunnels_and_those_that_are_not_open_yet_stay() {
        let places = Arc::new(Places::new(TokioClock::system()));
        assert!(places.take(0, A.into()).await.is_none());
        let opening = places.take(4, A.into()).await.unwrap();
        let active = [open(&places, A).await, open(&places, A).await, open(&places, A).await];
        let move_on = async {
            for _ in 0..20 {
                active.iter().flatten().for_each(|one| one.note_moved(places.clock.instant()));
                sleep(IDLE / 4).await;
            }
        };
        let (came, ()) = tokio::join!(open(&places, B), move_on);
        assert!(came.is_none());
        // A moment after the last byte they are idle, and the new tunnel waits for that.
        assert!(open(&places, B).await.is_some());
        assert!(!is_displaced(&opening).await);
    }
}
