//! Requests that wait for another request's fetch, until it ends: fetching on their own would load
//! an origin most when it is slowest.
//!
//! A fetch may hang although the origin would respond now, or would respond to another client. If
//! no head has arrived for a while (`fill.wait`), one of the waiting requests fetches once more on
//! behalf of all. They then wait for both fetches and take the first response. A request that has
//! seen a fetch fail waits for the others that have begun, and begins none; one that has waited as
//! long as a fetch may take gets the failure.
//!
//! Guarantee: of the requests waiting for a key, at most one at a time fetches because of this
//! timeout.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use semantics::VaryMarker;
use tokio::task::spawn_local;
use tokio::time::timeout_at;

use crate::fill::registry::JoinResult;
use crate::fill::state::{Failed, FillStage, Reader};
use crate::get::cache_request::{CacheRequest, NextAction};
use crate::get::fill_response::{FillResponder, Role};
use crate::get::fit::{Fit, FitInput};
use crate::observe::event::Event;
use crate::response::transaction::Transaction;

/// Maximum number of fetches that one request waits for at a time.
const PLACES_MAX: usize = 4;

struct Awaited {
    reader: Reader,
    role: Role,
}

impl CacheRequest<'_> {
    /// Waits at `reader`, which belongs to another request's fill, and responds.
    pub(crate) async fn wait(
        &self,
        mut responder: FillResponder<'_>,
        marker: Option<VaryMarker>,
        reader: Reader,
        mut transaction: Transaction,
    ) -> NextAction {
        let wait = self.context.options.fill.wait;
        let longest = self.context.services.clock.instant() + self.longest_fetch();
        let (mut until, mut has_failed) = (reader.fill().begun() + wait, false);
        let mut places = vec![Awaited { reader, role: Role::Follower }];
        loop {
            let head = poll_fn(|cx| poll_heads(&places, cx));
            let (at, stage) = match has_failed || places.len() >= PLACES_MAX {
                true => head.await,
                false => match timeout_at(until.into(), head).await {
                    Ok(head) => head,
                    Err(_) => {
                        let Some(place) = self.ask_again(&responder, &marker, &mut transaction)
                        else {
                            return NextAction::Retry(transaction);
                        };
                        until = place.reader.fill().begun() + wait;
                        places.push(place);
                        continue;
                    }
                },
            };
            let Awaited { reader, role } = places.swap_remove(at);
            // A fetch without a response leaves the other fetches, unless a stale response may
            // replace it.
            let may_be_stale = responder.to_validate.as_ref();
            let may_be_stale = |failed: &Failed| {
                may_be_stale.is_some_and(|stale| stale.fallback.covers_failure(failed.status))
            };
            let is_void = match stage {
                FillStage::Failed(ref failed) => {
                    has_failed |= failed.denied.is_none();
                    let has_time = self.context.services.clock.instant() < longest;
                    has_time && !may_be_stale(failed)
                }
                FillStage::Absent(_) => true,
                _ => false,
            };
            if is_void && !places.is_empty() {
                continue;
            }
            // What another fetch has brought is found in the store, whether or not others hang.
            let has_come = matches!(
                stage,
                FillStage::Validated(_) | FillStage::Streaming(_) | FillStage::Sparse(_)
            );
            responder.role = role;
            let leads = places.iter().any(|place| matches!(place.role, Role::Leader { .. }));
            match responder.answer_at(stage, reader, transaction).await {
                NextAction::Retry(returned) if !has_come && !places.is_empty() => {
                    transaction = returned;
                }
                NextAction::FetchAlone(returned) if leads => transaction = returned,
                action => return action,
            }
        }
    }

    /// Returns the time after which a fetch of this request without a response has failed.
    fn longest_fetch(&self) -> Duration {
        let limits = &self.context.options.upstream;
        let own = self.context.rule.as_ref().and_then(|rule| rule.actions.as_ref());
        own.map_or(limits.head_timeout, |own| own.timeouts.of(limits).head_timeout)
    }

    /// Begins another fetch beside the slow one, or joins one that another request has begun.
    /// Returns `None` if no fetch can be joined or begun.
    fn ask_again(
        &self,
        responder: &FillResponder<'_>,
        marker: &Option<VaryMarker>,
        transaction: &mut Transaction,
    ) -> Option<Awaited> {
        self.context.look_at_clock();
        let fit = FitInput::by(self.context);
        if fit.facts.directives.no_store || fit.running(&responder.key) == Some(Fit::Alone) {
            return None;
        }
        let (key, asking) = (&responder.key, self.asking());
        let (fill, began) = match self.join_or_begin(key.as_bytes(), key, asking.as_deref()) {
            JoinResult::Running(fill) => (fill, false),
            JoinResult::New(fill) => (fill, true),
            JoinResult::Ended => return None,
        };
        let reader = fill.join()?;
        if !began {
            self.context.services.observer.count(Event::FollowerJoined, 1);
            return Some(Awaited { reader, role: Role::Follower });
        }
        log::debug!("a fetch with waiting requests is slow: one of them fetches again");
        let (place, to_validate) = ((key.clone(), marker.clone()), responder.to_validate.as_ref());
        let mut fetch_task = self.fetch_task(fill, place, to_validate, asking, true);
        transaction.note_upstream(&fetch_task.upstream_request);
        // The fetch is on behalf of all waiting requests; no part of it is for this client alone.
        fetch_task.upstream_request.interim = None;
        fetch_task.asks_for_client = false;
        let ranged = fetch_task.ranged;
        spawn_local(fetch_task.run());
        Some(Awaited { reader, role: Role::Leader { interim: None, ranged } })
    }
}

/// Waits for the first fill that has left the stage of waiting for its head.
fn poll_heads(places: &[Awaited], cx: &mut Context<'_>) -> Poll<(usize, FillStage)> {
    for (at, place) in places.iter().enumerate() {
        if let Poll::Ready(stage) = place.reader.poll_head(cx) {
            return Poll::Ready((at, stage));
        }
    }
    Poll::Pending
}
