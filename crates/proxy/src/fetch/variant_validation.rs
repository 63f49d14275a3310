//! Validates all stored variants at once, if the operator permits it
//! ([`semantics::Settings::validate_variants`]): a request that selects no stored variant, or a
//! stale one, asks the origin about all of them. A 304 then names one by its entity tag, and the
//! body is read from the store (RFC 9111, 4.1 and 4.3.1). A copy is stored for later requests like
//! this one. The variant itself is not refreshed, because the request did not select it (4.3.4).

use std::rc::Rc;
use std::sync::Arc;

use http::Response;
use http::header::{ETAG, HeaderValue};
use semantics::ignored_fields::IGNORED;
use semantics::{EntityTag, ExchangeTimes, Millis, StoredHead, coding, merge, validators};
use store::Key;
use upstream::connection::origin_body::OriginBody;

use crate::body::stored_body::EntryBody;
use crate::fetch::fetch_task::{FetchPurpose, FetchTask, FillGuard};
use crate::fill::state::{AskerFields, FillHead};
use crate::object::lookup;
use crate::object::object_writer::{Judge, RefreshResult};
use crate::object::stored_response::StoredResponse;
use crate::object::variants::Variant;
use crate::request::upstream_request;
use crate::rules::request_rules::DECISION;

/// Size in bytes above which a body is sent but not stored a second time.
const COPY_MAX: u64 = 8 << 20;

impl FetchTask {
    /// Remembers the response stored under `key` if it is a variant.
    pub(crate) fn note_variant(&self, key: &Key, head: &StoredHead) {
        if let Some(marker) = &self.marker
            && let Some(variant) = Variant::of(key, head)
        {
            self.services.shared.variants.note(marker.epoch(), variant);
        }
    }

    /// Adds the entity tags of the other stored variants to the request, and returns these
    /// variants. `validated` is the response that the request already asks about.
    pub(crate) fn ask_about_others(&mut self, validated: Option<&StoredResponse>) -> Vec<Variant> {
        let has_tag = |stored: &StoredResponse| stored.head.stored().selected().etag().is_some();
        let asks = self.upstream_request.settings(&self.options).validate_variants
            && !self.ranged
            && self.is_kept
            && self.purpose != FetchPurpose::Neighbour;
        let Some(marker) = self.marker.as_ref().filter(|_| asks) else { return Vec::new() };
        // An origin ignores a date beside entity tags, so a response without a tag is validated
        // alone.
        if !validated.is_none_or(has_tag) {
            return Vec::new();
        }
        let mut others = self.services.shared.variants.of(marker.epoch());
        others.retain(|other| {
            let coding = other.coding.as_ref().map(HeaderValue::as_bytes);
            other.key != self.key && coding::is_taken(&self.request, coding)
        });
        let tags: Vec<HeaderValue> = others.iter().map(|other| other.tag.clone()).collect();
        let asked =
            !tags.is_empty() && validators::ask_about(&mut self.upstream_request.headers, &tags);
        if asked { others } else { Vec::new() }
    }

    /// Returns the other variant that a 304 names, if it is still stored, and its head updated with
    /// the 304.
    pub(crate) async fn selected(
        &mut self,
        others: &[Variant],
        response: &Response<OriginBody>,
        times: ExchangeTimes,
    ) -> Option<(Rc<StoredResponse>, StoredHead)> {
        let (marker, variants) = (self.marker.as_ref()?, &self.services.shared.variants);
        let mut headers = response.headers().clone();
        upstream_request::sanitize_response(
            &self.services,
            &mut headers,
            response.version(),
            false,
        );
        let Some(tag) = headers.get(ETAG).and_then(|tag| EntityTag::parse(tag.as_bytes())) else {
            variants.mute(marker.epoch());
            return None;
        };
        let other = others.iter().find(|other| other.is_named(&tag))?;
        let Some(stored) = lookup::find_variant(&self.store, &other.key, marker).await else {
            variants.forget(marker.epoch(), &other.key);
            return None;
        };
        let old = stored.head.stored();
        if !merge::confirms(old, &headers, times) {
            return None;
        }
        // The decision on the variant stands.
        headers.remove(DECISION);
        headers.remove(IGNORED);
        self.upstream_request.follow(old.status(), old.headers());
        let settings = self.upstream_request.settings(&self.options);
        merge::take_personal(&self.facts, old, &mut headers, times, settings);
        let head = merge::freshen(self.facts.target, old, &headers, times, settings);
        let head = head.spelled(old.spellings().joined(response.body().spellings()));
        Some((stored, head))
    }

    /// Responds with a stored variant, and stores a copy for requests like this one.
    pub(crate) async fn copy(
        &mut self,
        other: &Rc<StoredResponse>,
        head: StoredHead,
        (times, when_asked): (ExchangeTimes, Millis),
        fill_guard: &mut FillGuard,
    ) {
        let settings = self.upstream_request.settings(&self.options);
        let judge = Judge { facts: &self.facts, times, settings };
        let refreshed = judge.refreshed(&head, self.marker.as_ref());
        let is_shared = refreshed == RefreshResult::InPlace;
        let hit_for_miss = self.hit_for_miss_of(&head, when_asked);
        let length = other.entry.len();
        let mut writer = None;
        if is_shared {
            if length <= COPY_MAX {
                writer = self.begin_writing(&head, Some(length), false).await;
            }
            self.note_hit_for_miss(hit_for_miss);
        }
        let headers = head.reply_headers(head.packed().age(times.received));
        let head = FillHead {
            status: head.status(),
            asker_fields: AskerFields::new(headers, head.spellings().clone()),
            shared: is_shared.then_some(head),
            hit_for_miss: hit_for_miss.filter(|_| is_shared),
            key: self.key.clone(),
            stored: writer.is_some(),
            length: Some(length),
            selected: true,
            of_peer: false,
        };
        let body = EntryBody::new(Some(self.store.clone()), other, 0..length, None);
        Box::pin(self.bring(Arc::new(head), writer, body, fill_guard)).await;
    }
}
