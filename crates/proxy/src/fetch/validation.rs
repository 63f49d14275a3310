//! Validation: decides which response a 304 is about, and applies it. A 304 confirms the response
//! stored for the request, selects another stored variant (`fetch::variant_validation`), or
//! confirms the client's own copy (RFC 9111, 4.3.3 and 4.3.4).

use std::rc::Rc;
use std::sync::Arc;

use http::Response;
use http::header::{ETAG, HeaderMap};
use semantics::{EntityTag, ExchangeTimes, StoredHead, age, forwarded, merge, validators};
use store::Refusal;
use upstream::connection::origin_body::OriginBody;

use crate::fetch::fetch_task::{FetchPurpose, FetchTask, FillGuard};
use crate::fill::state::{AskerFields, End, FillHead, FillStage, Validated};
use crate::object::object_writer::{Judge, RefreshResult};
use crate::object::stored_response::StoredResponse;
use crate::object::variants::Variant;
use crate::observe::event::Event;
use crate::request::upstream_request;

/// Stored responses named in one conditional request.
pub(crate) struct ValidationRequest {
    pub validated: Option<Rc<StoredResponse>>,
    /// The variants stored for other requests.
    pub others: Vec<Variant>,
    /// True if the request also asks about the client's own copy.
    pub for_client: bool,
}

impl FetchTask {
    /// Ends the fill with the response that a 304 is about. Returns false if it is about none of
    /// those asked about.
    pub(crate) async fn not_modified(
        &mut self,
        question: ValidationRequest,
        response: Response<OriginBody>,
        times: ExchangeTimes,
        fill_guard: &mut FillGuard,
    ) -> bool {
        let ValidationRequest { validated, others, for_client } = question;
        let headers = response.headers();
        // If several responses were asked about, only an entity tag tells them apart.
        let is_told = others.is_empty() || headers.contains_key(ETAG);
        let confirmed =
            |stale: &&Rc<StoredResponse>| merge::confirms(stale.head.stored(), headers, times);
        if let Some(stale) = validated.as_ref().filter(|_| is_told).filter(confirmed) {
            self.validated(stale, response, times, fill_guard).await;
            return true;
        }
        if self.purpose == FetchPurpose::Neighbour {
            self.leave(fill_guard);
            return true;
        }
        if let Some((other, head)) = self.selected(&others, &response, times).await {
            let when_asked = age::when_asked(response.headers(), times);
            Box::pin(self.copy(&other, head, (times, when_asked), fill_guard)).await;
            return true;
        }
        let is_for_client = for_client && self.is_for_client(response.headers());
        if is_for_client {
            self.answer_condition(response, fill_guard);
        }
        is_for_client
    }

    /// Publishes a 304 that confirms the stored response: the body stays, the head is updated.
    async fn validated(
        &self,
        stale: &StoredResponse,
        mut response: Response<OriginBody>,
        times: ExchangeTimes,
        fill_guard: &mut FillGuard,
    ) {
        let settings = self.upstream_request.settings(&self.options);
        let version = response.version();
        upstream_request::sanitize_response(&self.services, response.headers_mut(), version, false);
        let (facts, old) = (&self.facts, stale.head.stored());
        let update = response.headers_mut();
        let personal = merge::take_personal(facts, old, update, times, settings);
        let head = merge::freshen(facts.target, old, update, times, settings);
        let mut for_asker = merge::for_asker(&head, update, settings);
        for_asker.extend(personal);
        let head = head.spelled(old.spellings().joined(response.body().spellings()));
        let judge = Judge { facts: &self.facts, times, settings };
        let refreshed = self.object_writer().refresh(stale, &head, &judge).await;
        if refreshed == RefreshResult::Elsewhere
            && let Err(refusal) = self.store_elsewhere(stale, &head).await
        {
            log::debug!("a refreshed response was not stored under its new key: {refusal}");
        }
        let shareable = refreshed == RefreshResult::InPlace;
        let hit_for_miss = self.hit_for_miss_of(&head, age::when_asked(response.headers(), times));
        if let Some(why) = hit_for_miss {
            self.remember_hit_for_miss(why);
        }
        if shareable {
            self.fill.note_renewal();
            self.note_variant(&self.key, &head);
        }
        fill_guard.unregister();
        fill_guard.counted = Event::FillValidated;
        let meta = stale.entry.meta().clone();
        let validated = Validated { meta, head, for_asker, shareable, hit_for_miss };
        self.fill.publish(FillStage::Validated(Arc::new(validated)), None);
    }

    /// Moves a validated response to the key that the 304's `Vary` leads to: the 304 named fields
    /// that did not select the stored response (RFC 9111, 3.2). Only removes the response if its
    /// body is not in one piece or it must not be stored again.
    async fn store_elsewhere(
        &self,
        stale: &StoredResponse,
        head: &StoredHead,
    ) -> Result<(), Refusal> {
        let (vary, options) = (head.vary(), &self.options);
        let is_shared = !forwarded::tells_clients_apart(&options.forwarded.add, &vary);
        // A removal between the lookup and the start of the fetch does not overtake the fetch.
        let may_be_stored = is_shared && stale.sparse.is_none() && stale.entry.is_current();
        let body = stale.entry.whole().filter(|_| may_be_stored);
        let place = self.place(&vary).filter(|place| place.new_marker.is_some());
        let (Some(body), Some(place)) = (body, place) else {
            self.store.remove(&self.key).await;
            return Ok(());
        };
        if self.key != self.primary {
            self.store.remove(&self.key).await;
        }
        let (meta, hint) = (head.encode(), self.hint(head, Some(stale.entry.len())));
        let marker = place.new_marker.as_ref();
        let mut writer = self.object_writer().insert(&place.key, marker, meta, hint).await?;
        writer.write(body).await?;
        writer.commit().await
    }

    /// Returns whether a 304 is about the client's own copy.
    fn is_for_client(&self, headers: &HeaderMap) -> bool {
        let tag = headers.get(ETAG).and_then(|tag| EntityTag::parse(tag.as_bytes()));
        tag.is_some_and(|tag| validators::is_named(&self.request, &tag))
    }

    /// Publishes a 304 to the client's own condition: the client's copy is current. It says nothing
    /// about other clients.
    pub fn answer_condition(&self, response: Response<OriginBody>, fill_guard: &mut FillGuard) {
        let (mut parts, body) = response.into_parts();
        upstream_request::sanitize_response(
            &self.services,
            &mut parts.headers,
            parts.version,
            false,
        );
        let (status, headers, key) = (parts.status, parts.headers, self.key.clone());
        let stored = false;
        let (shared, hit_for_miss, length, selected) = (None, None, None, false);
        let head = FillHead {
            status,
            asker_fields: AskerFields::new(headers, body.spellings().clone()),
            shared,
            hit_for_miss,
            key,
            stored,
            length,
            selected,
            of_peer: false,
        };
        fill_guard.unregister();
        fill_guard.counted = Event::FillUnstored;
        self.fill.publish(FillStage::Streaming(Arc::new(head)), None);
        self.fill.end(End::Whole(None));
    }
}
