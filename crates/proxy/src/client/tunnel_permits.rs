//! Permits that bound the number of open tunnels.
//!
//! An idle tunnel can hold its permit for up to `client.tunnel-idle`. At the limit, a new tunnel
//! displaces an idle one: the longest-idle tunnel of the client address with the most tunnels.
//!
//! Guarantee: no address can exclude others or end their tunnels by opening many. A new tunnel
//! displaces only tunnels of its own address or of one that has more. An active tunnel is displaced
//! only for an address without any, and only if its own address has more than half of all tunnels.

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

/// Time without a byte after which a tunnel is idle. Also the longest wait for a permit.
const IDLE: Duration = Duration::from_secs(1);

/// `last_moved` of a tunnel that is not open yet.
const NOT_OPEN: u64 = u64::MAX;

/// Tunnels of all workers, open or waiting to open.
#[derive(Debug)]
pub(crate) struct TunnelPermits {
    clock: TokioClock,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    by_id: HashMap<u64, Arc<Holder>>,
}

#[derive(Debug)]
struct Holder {
    /// Client address; in IPv6 its network.
    client: IpAddr,
    since: Instant,
    /// Milliseconds from `since` to the last byte, or [`NOT_OPEN`].
    last_moved: AtomicU64,
    displaced: Notify,
}

/// Permit for one tunnel, released on drop.
#[derive(Debug)]
pub(crate) struct TunnelPermit {
    permits: Arc<TunnelPermits>,
    id: u64,
    holder: Arc<Holder>,
}

/// How the search treats active tunnels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    Spared,
    /// An active tunnel of an address with more than half of all may be displaced for an address
    /// without any.
    Ignored,
}

#[derive(Debug)]
struct DisplaceableTunnel {
    id: u64,
    idle: Duration,
    /// True if the new tunnel is the first of its address and this one's address has more than half
    /// of all.
    has_majority: bool,
}

enum Search {
    Found(TunnelPermit),
    /// A tunnel may be idle after this time.
    Later(Duration),
    Full,
}

impl TunnelPermits {
    /// Creates a set of permits without any tunnels.
    pub fn new(clock: TokioClock) -> TunnelPermits {
        TunnelPermits { clock, taken: Mutex::default() }
    }

    /// Takes a permit for a tunnel of `client`, out of `max`, displacing another tunnel if
    /// necessary. Returns `None` after at most [`IDLE`].
    pub async fn take(
        self: &Arc<TunnelPermits>,
        max: usize,
        client: IpAddr,
    ) -> Option<TunnelPermit> {
        let wait = match self.search(max, client, Activity::Spared) {
            Search::Found(permit) => return Some(permit),
            Search::Later(wait) => wait,
            Search::Full => return None,
        };
        sleep(wait).await;
        match self.search(max, client, Activity::Ignored) {
            Search::Found(permit) => Some(permit),
            Search::Later(_) | Search::Full => None,
        }
    }

    fn search(self: &Arc<TunnelPermits>, max: usize, client: IpAddr, activity: Activity) -> Search {
        let (mut taken, now) = (self.taken(), self.clock.instant());
        let client = network(client);
        if taken.by_id.len() >= max {
            // The limit may have been lowered by a reload.
            let found = taken.idlest(now, client).filter(|_| taken.by_id.len() == max);
            let Some(DisplaceableTunnel { id, idle, has_majority }) = found else {
                return Search::Full;
            };
            if idle < IDLE && !(has_majority && activity == Activity::Ignored) {
                return Search::Later(IDLE - idle);
            }
            if let Some(holder) = taken.by_id.remove(&id) {
                holder.displaced.notify_one();
            }
        }
        let holder = Arc::new(Holder {
            client,
            since: now,
            last_moved: AtomicU64::new(NOT_OPEN),
            displaced: Notify::new(),
        });
        let id = taken.next;
        taken.next += 1;
        taken.by_id.insert(id, holder.clone());
        Search::Found(TunnelPermit { permits: self.clone(), id, holder })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        // Nothing under this lock can panic half-way.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Returns the tunnel to displace for one of `client`. Candidates are tunnels of `client` and
    /// of addresses that have more. Idle tunnels come first, then those of the address with the
    /// most tunnels, then the longest idle. If `client` has no tunnel, an address with more than
    /// half of all comes first, so that idle tunnels of others survive its growth.
    fn idlest(&self, now: Instant, client: IpAddr) -> Option<DisplaceableTunnel> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for holder in self.by_id.values() {
            *counts.entry(holder.client).or_default() += 1;
        }
        let own = counts.get(&client).copied().unwrap_or(0);
        let open = self.by_id.iter().filter_map(|(id, holder)| {
            let (idle, count) = (holder.idle(now)?, counts[&holder.client]);
            let makes_way = holder.client == client || count > own;
            let has_majority = own == 0 && count > self.by_id.len() / 2;
            makes_way.then_some((has_majority, idle >= IDLE, count, idle, *id))
        });
        let (has_majority, _, _, idle, id) = open.max()?;
        Some(DisplaceableTunnel { id, idle, has_majority })
    }
}

impl Holder {
    /// Returns the time since the last byte, or `None` if the tunnel is not open yet.
    fn idle(&self, now: Instant) -> Option<Duration> {
        let last = Some(self.last_moved.load(Relaxed)).filter(|last| *last != NOT_OPEN)?;
        let lifetime = now.saturating_duration_since(self.since);
        Some(lifetime.saturating_sub(Duration::from_millis(last)))
    }
}

impl TunnelPermit {
    /// Records that the tunnel opened or moved bytes.
    pub fn note_moved(&self, now: Instant) {
        let millis = now.saturating_duration_since(self.holder.since).as_millis();
        self.holder.last_moved.store(millis as u64, Relaxed);
    }

    /// Completes when another tunnel has taken the permit.
    pub async fn displaced(&self) {
        self.holder.displaced.notified().await;
    }
}

impl Drop for TunnelPermit {
    fn drop(&mut self) {
        self.permits.taken().by_id.remove(&self.id);
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

    async fn open(permits: &Arc<TunnelPermits>, client: [u8; 4]) -> Option<TunnelPermit> {
        let permit = permits.take(4, client.into()).await?;
        permit.note_moved(permits.clock.instant());
        Some(permit)
    }

    async fn is_displaced(permit: &TunnelPermit) -> bool {
        tokio::time::timeout(Duration::ZERO, permit.displaced()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_tunnel_of_the_largest_client_is_displaced() {
        let permits = Arc::new(TunnelPermits::new(TokioClock::system()));
        let lone = open(&permits, B).await.unwrap();
        let mut crowd = Vec::new();
        for _ in 0..3 {
            advance(IDLE).await;
            crowd.push(open(&permits, A).await.unwrap());
        }
        advance(IDLE).await;
        crowd[0].note_moved(permits.clock.instant());
        let opened = open(&permits, C).await.unwrap();
        let mut ended = Vec::new();
        for permit in [&lone, &crowd[0], &crowd[1], &crowd[2], &opened] {
            ended.push(is_displaced(permit).await);
        }
        assert_eq!(ended, [false, false, true, false, false]);
        // Dropping the displaced permit frees nothing.
        drop(crowd.remove(1));
        assert_eq!(permits.taken().by_id.len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn active_and_unopened_tunnels_are_not_displaced() {
        let permits = Arc::new(TunnelPermits::new(TokioClock::system()));
        assert!(permits.take(0, A.into()).await.is_none());
        let opening = permits.take(4, A.into()).await.unwrap();
        let active = [open(&permits, A).await, open(&permits, A).await, open(&permits, A).await];
        let move_on = async {
            for _ in 0..20 {
                active.iter().flatten().for_each(|one| one.note_moved(permits.clock.instant()));
                sleep(IDLE / 4).await;
            }
        };
        let (opened, ()) = tokio::join!(open(&permits, A), move_on);
        assert!(opened.is_none());
        // Soon after their last byte the tunnels are idle; the new one waits for that.
        assert!(open(&permits, A).await.is_some());
        assert!(!is_displaced(&opening).await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_displaces_no_tunnels_of_addresses_with_fewer() {
        let permits = Arc::new(TunnelPermits::new(TokioClock::system()));
        let lone = open(&permits, B).await.unwrap();
        advance(IDLE * 5).await;
        let mut crowd = Vec::new();
        for _ in 0..3 {
            crowd.push(open(&permits, A).await.unwrap());
        }
        let move_on = |for_how_long: u32| {
            let crowd: Vec<_> = crowd.iter().map(|one| one.holder.clone()).collect();
            let clock = permits.clock;
            async move {
                for _ in 0..for_how_long {
                    for holder in &crowd {
                        let lifetime = clock.instant().saturating_duration_since(holder.since);
                        holder.last_moved.store(lifetime.as_millis() as u64, Relaxed);
                    }
                    sleep(IDLE / 4).await;
                }
            }
        };
        let (opened, ()) = tokio::join!(open(&permits, A), move_on(8));
        assert!(opened.is_none() && !is_displaced(&lone).await);
        // An active tunnel is displaced for an address without any, not for one that has one.
        let (opened, ()) = tokio::join!(permits.take(4, C.into()), move_on(8));
        assert!(opened.is_some() && !is_displaced(&lone).await);
        let (again, ()) = tokio::join!(open(&permits, C), move_on(8));
        assert!(again.is_none() && !is_displaced(&lone).await);
    }
}
