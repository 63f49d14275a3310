//! Requests that wait for another one's fetch. They wait as long as it may take: asking for
//! themselves would load an origin the most when it is the slowest.
//!
//! But a fetch may be stuck that the origin would answer now, or would answer another client. So
//! when there has been no head for a while (`fill.wait`), one of those who wait asks once more, for
//! all of them; they go on waiting for both fetches, and take what is there first.
//!
//! It promises: of those who wait for a key at most one a time asks because the time is over.

use std::future::poll_fn;
use std::task::{Context, Poll};

use semantics::VaryMarker;
use tokio::task::spawn_local;
use tokio::time::timeout_at;

use crate::fill::state::{Reader, Stage};
use crate::get::cache_request::{CacheRequest, Step};
use crate::get::follower::{Fit, Follower, Role};
use crate::observe::event::Event;
use crate::response::transaction::Transaction;

/// Fetches that one request waits for at a time, at most.
const PLACES_MAX: usize = 4;

/// A request at one of the fetches that it waits for.
struct Place {
    reader: Reader,
    role: Role,
}

impl CacheRequest<'_> {
    /// Waits at `reader`, of a fill that another request began, and answers.
    pub(crate) async fn wait(
        &self,
        mut follow: Follower<'_>,
        marker: Option<VaryMarker>,
        reader: Reader,
        mut account: Transaction,
    ) -> Step {
        let wait = self.visit.options.fill.wait;
        let mut until = reader.fill().begun() + wait;
        let mut places = vec![Place { reader, role: Role::Follower }];
        loop {
            let head = poll_fn(|cx| poll_heads(&places, cx));
            let (at, stage) = match places.len() {
                PLACES_MAX.. => head.await,
                _ => match timeout_at(until.into(), head).await {
                    Ok(head) => head,
                    Err(_) => {
                        let Some(place) = self.ask_again(&follow, &marker, &mut account) else {
                            return Step::Retry(account);
                        };
                        until = place.reader.fill().begun() + wait;
                        places.push(place);
                        continue;
                    }
                },
            };
            let Place { reader, role } = places.swap_remove(at);
            // What fails to bring an answer leaves the others.
            if !places.is_empty() && matches!(stage, Stage::Failed(_) | Stage::Absent(_)) {
                continue;
            }
            follow.role = role;
            let leads = places.iter().any(|place| matches!(place.role, Role::Leader { .. }));
            match follow.answer_at(stage, reader, account).await {
                Step::Retry(returned) if !places.is_empty() => account = returned,
                Step::FetchAlone(returned) if leads => account = returned,
                turn => return turn,
            }
        }
    }

    /// Begins another fetch in the place of the one that takes long, or joins the one that somebody
    /// has begun. `None` when it cannot be joined any more.
    fn ask_again(
        &self,
        follow: &Follower<'_>,
        marker: &Option<VaryMarker>,
        account: &mut Transaction,
    ) -> Option<Place> {
        self.visit.look_at_clock();
        if self.fit(&follow.key) == Some(Fit::Alone) {
            return None;
        }
        let (fill, began) = self.join_or_begin(&follow.key);
        let reader = fill.join()?;
        if !began {
            self.visit.services.observer.count(Event::FollowerJoined, 1);
            return Some(Place { reader, role: Role::Follower });
        }
        log::debug!("a fetch that others wait for takes long: one of them asks again");
        let (key, outdated) = (follow.key.clone(), follow.outdated.as_ref());
        let mut filler = self.filler(fill, key, marker.clone(), outdated, true);
        account.asked(&filler.errand.to, filler.errand.trail.clone());
        // It is for all who wait: nothing of it is for this client alone.
        filler.errand.interim = None;
        filler.asks_for_client = false;
        let ranged = filler.ranged;
        spawn_local(filler.run());
        Some(Place { reader, role: Role::Leader { interim: None, ranged } })
    }
}

/// The first of the fills that has come further than waiting for its head.
fn poll_heads(places: &[Place], cx: &mut Context<'_>) -> Poll<(usize, Stage)> {
    for (at, place) in places.iter().enumerate() {
        if let Poll::Ready(stage) = place.reader.poll_head(cx) {
            return Poll::Ready((at, stage));
        }
    }
    Poll::Pending
}
