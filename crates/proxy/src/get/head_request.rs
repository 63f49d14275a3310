//! A HEAD through the cache. The stored response to a GET serves it. If nothing is stored, or it
//! must be validated, the origin is asked with HEAD, because a GET would bring a body that is not
//! needed.
//!
//! The response to a HEAD is stored for later ones (RFC 9110, 9.3.2), under the key that the
//! response to a GET would have, and marked as a response to HEAD. An operation that removes or
//! outdates one thus also reaches the other, and the response to a later GET replaces it. A
//! response to HEAD never replaces one to GET: it updates its fields or ends its lifetime (RFC
//! 9111, 4.3.5).

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use semantics::merge::HeadEffect;
use semantics::packed::Flag;
use semantics::{ExchangeTimes, Spellings, StoredHead, VaryMarker, forwarded, merge};
use store::{FetchToken, Hint, Key, LookupOptions, Refusal};
use tokio::time::timeout;

use crate::fill::registry::{FillRegistry, JoinResult, name_of_head};
use crate::fill::state::{Fill, FillStage};
use crate::get::cache_request::{CacheRequest, HeadRequest, NextAction, ToValidate, miss_status};
use crate::get::collapse::{Collapse, CollapseInput};
use crate::get::fit::{Fit, FitInput};
use crate::object::epoch::new_epoch;
use crate::object::lookup;
use crate::object::lookup::LookupResult;
use crate::object::object_writer::{Judge, ObjectWriter, RefreshResult, StorageKey};
use crate::object::stored_response::StoredResponse;
use crate::observe::cache_status::CacheStatus;
use crate::observe::event::Event;
use crate::observe::outcome::{Outcome, Stale};
use crate::origin::failure::Failure;
use crate::request::upstream_request;
use crate::response::transaction::Transaction;
use crate::response::{failure, pass_through};

struct HeadResponse<'a> {
    token: &'a FetchToken,
    status: StatusCode,
    headers: HeaderMap,
    spellings: Spellings,
    times: ExchangeTimes,
}

/// Running HEAD in the table of fills. Dropping it ends the HEAD; waiting requests look up again.
struct HeadEnding<'a> {
    fills: &'a FillRegistry,
    name: Bytes,
    fill: Arc<Fill>,
    has_answer: bool,
}

impl Drop for HeadEnding<'_> {
    fn drop(&mut self) {
        if self.has_answer {
            self.fill.note_renewal();
        }
        self.fills.remove(&self.name, &self.fill);
        self.fill.publish(FillStage::Absent(self.has_answer), None);
    }
}

impl CacheRequest<'_> {
    /// Sends a HEAD to the origin. Concurrent requests for the same key wait and look up again,
    /// because its response may be stored by then.
    pub async fn head(&self, ask: HeadRequest, transaction: Transaction) -> NextAction {
        let fit = FitInput::by(self.context);
        let facts = &self.context.facts;
        let is_alone = self.alone
            || facts.has_credentials()
            || (facts.directives.reloads() && !fit.shares_reloads())
            || matches!(CollapseInput::of(&fit, &ask.key, true).decide(), Collapse::Alone);
        if is_alone {
            return Box::pin(self.send_head(ask, transaction)).await;
        }
        let name = name_of_head(&ask.key);
        let fills = &self.context.services.shared.fills;
        let suits = |fill: &Fill| matches!(fit.of(&ask.key, fill), Fit::Follow(_));
        match fills.join_if(&name, self.since, suits, || self.new_fill(None)) {
            JoinResult::Ended => NextAction::Retry(transaction),
            JoinResult::New(fill) => {
                let mut ending = HeadEnding { fills, name, fill, has_answer: false };
                let action = Box::pin(self.send_head(ask, transaction)).await;
                ending.has_answer = true;
                action
            }
            JoinResult::Running(fill) => {
                if let Some(mut reader) = fill.join() {
                    self.context.services.observer.count(Event::FollowerJoined, 1);
                    let wait = self.context.options.fill.wait;
                    let ended = timeout(wait, reader.head()).await;
                    let is_young = fill.began_after(self.context.begun_before);
                    // The client that began the HEAD is gone, or this request wants a response
                    // requested after its arrival: one of the waiting requests asks next.
                    if matches!(ended, Ok(FillStage::Absent(false)))
                        || (ended.is_ok() && facts.directives.reloads() && !is_young)
                    {
                        return NextAction::Retry(transaction);
                    }
                }
                // The response is stored, or this request sends its own HEAD.
                NextAction::FetchAlone(transaction)
            }
        }
    }

    /// Sends a HEAD for a response that is not stored or must be validated. The origin's response
    /// tells whether the stored one is still valid (RFC 9111, 4.3.5).
    async fn send_head(&self, ask: HeadRequest, mut transaction: Transaction) -> NextAction {
        let HeadRequest { key, marker, to_validate } = ask;
        let (context, clock) = (self.context, self.context.services.clock);
        // A validation by HEAD goes to the origin.
        let asking = if to_validate.is_none() { self.asking() } else { None };
        let token = self.store.begin_fetch(self.primary);
        let requested = clock.time();
        let asked = pass_through::ask(context, &mut transaction, None, asking).await;
        if let Some(ToValidate { stored, age, fallback, why }) = &to_validate {
            let stale = match &asked {
                Err(failure @ Failure::Failed(..)) if fallback.covers_failure(failure.status()) => {
                    Some((Stale::Unreachable, None))
                }
                Ok(response) if fallback.covers(response.status()) => {
                    Some((Stale::IfError, Some(response.status().as_u16())))
                }
                _ => None,
            };
            if let Some((stale, fwd_status)) = stale {
                let status = CacheStatus::new(Outcome::Stale(stale)).fwd(*why);
                let status = CacheStatus { fwd_status, ..status };
                let answer = self.stored_answer(stored, status, *age);
                return NextAction::Respond(answer.respond(transaction).await);
            }
        }
        let response = match asked {
            Ok(response) => response,
            Err(failure) => return NextAction::Respond(failure::failed(transaction, failure)),
        };
        let times = ExchangeTimes { requested, received: clock.time() };
        let (mut headers, version) = (response.headers().clone(), response.version());
        upstream_request::sanitize_response(&context.services, &mut headers, version, false);
        let spellings = response.body().spellings().clone();
        let told =
            HeadResponse { token: &token, status: response.status(), headers, spellings, times };
        let (mut status, kept) = match &to_validate {
            None => (miss_status(&marker), self.keep_head(&told, &key, marker.as_ref()).await),
            Some(ToValidate { stored, why, .. }) => {
                let status = CacheStatus::new(Outcome::Refreshed).fwd(*why);
                (status, self.note_head(&told, stored).await)
            }
        };
        if let Some(head) = kept {
            status = status.stored(true).ttl(head.packed().ttl(context.now()));
        }
        NextAction::Respond(pass_through::relay_response(context, transaction, response, status))
    }

    /// Updates the stored response, or marks it outdated, by the response to a HEAD. Returns the
    /// head if it was stored in place of an older response to a HEAD.
    async fn note_head(
        &self,
        told: &HeadResponse<'_>,
        stored: &StoredResponse,
    ) -> Option<StoredHead> {
        // The decision on the stored response stands if a 304 confirms it.
        let decided = match told.status {
            StatusCode::NOT_MODIFIED => stored.head.stored().headers(),
            _ => &told.headers,
        };
        let settings = &*self.context.settings_for(StatusCode::OK, decided);
        if stored.is_of_head() {
            let kept = self.keep_head(told, &stored.key, stored.marker.as_ref()).await;
            if kept.is_none() && told.status != StatusCode::NOT_MODIFIED {
                // The origin no longer sends the stored response.
                self.store.remove(&stored.key).await;
            }
            return kept;
        }
        let (old, length) = (stored.head.stored(), stored.length());
        let HeadResponse { status, headers, spellings, times, .. } = told;
        let facts = self.context.facts.of_get();
        let effect = merge::head_effect(&facts, old, length, *status, headers, *times, settings);
        let judge = Judge { facts: &facts, times: *times, settings };
        let is_kept = |head: &StoredHead| {
            judge.refreshed(head, stored.marker.as_ref()) == RefreshResult::InPlace
        };
        let head = match effect {
            HeadEffect::Refresh(head) if is_kept(&head) => {
                head.spelled(old.spellings().joined(spellings))
            }
            HeadEffect::Refresh(_) | HeadEffect::Outdated => old.clone().expired(),
            HeadEffect::Nothing => return None,
        };
        self.object_writer(told.token).replace(stored, &head).await;
        None
    }

    /// Stores the response to a HEAD for later ones, unless a GET has stored or is about to store a
    /// better one. A response that must be validated at each use is not stored, because a
    /// validation costs as much as a new HEAD. Returns the head if it was stored.
    async fn keep_head(
        &self,
        told: &HeadResponse<'_>,
        key: &Key,
        marker: Option<&VaryMarker>,
    ) -> Option<StoredHead> {
        let context = self.context;
        let HeadResponse { status, headers, spellings, times, .. } = told;
        let settings = &*context.settings_for(*status, headers);
        let head = StoredHead::judged(&context.facts.of_get(), *status, headers, *times, settings);
        let head = head.ok()?.of_head();
        let may_compress =
            context.negotiated.is_on && context.options.may_compress(*status, headers);
        let head = head.spelled(spellings.clone()).with_body_id(may_compress.then(new_epoch));
        let facts = head.packed();
        if !facts.is_fresh(times.received) || facts.is(Flag::NoCache) {
            return None;
        }
        let vary = head.vary();
        if forwarded::tells_clients_apart(&context.options.forwarded.add, &vary) {
            return None;
        }
        let fields = context.headers();
        if context.services.shared.fills.running(key.as_bytes()).is_some() {
            return None;
        }
        match lookup::find(self.store, self.primary, &Method::GET, fields, LookupOptions::default())
            .await?
        {
            LookupResult::Nothing { marker: found, .. } if found.as_ref() == marker => {}
            _ => return None,
        }
        let place = StorageKey::of(&vary, self.primary, (key, marker), fields)?;
        let inserted = self.insert_head(told.token, &place, &head).await;
        inserted
            .inspect_err(|why| log::debug!("the response to a HEAD is not stored: {why}"))
            .ok()?;
        Some(head)
    }

    async fn insert_head(
        &self,
        token: &FetchToken,
        place: &StorageKey,
        head: &StoredHead,
    ) -> Result<(), Refusal> {
        let hint = Hint { size: Some(0), ..Hint::default() };
        let (writer, marker) = (self.object_writer(token), place.new_marker.as_ref());
        writer.insert(&place.key, marker, head.encode(), hint).await?.commit().await
    }

    fn object_writer<'a>(&'a self, token: &'a FetchToken) -> ObjectWriter<'a> {
        ObjectWriter { store: self.store, token, primary: self.primary }
    }
}
