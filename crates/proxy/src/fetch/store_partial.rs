//! Stores an object in parts: after a response to a range of an object that is not stored, or after
//! a fetch of the whole that broke off.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use http::header::HeaderMap;
use http::{Method, Response, StatusCode, header};
use http_body::Body;
use semantics::sparse::Layout;
use semantics::{ExchangeTimes, SparseHead, StoredHead, age, partial, validators};
use store::{Hint, Refusal};
use tokio::task::spawn_local;
use upstream::connection::origin_body::OriginBody;

use crate::fetch::fetch_task::{FetchTask, FillGuard};
use crate::fill::registry::HitForMiss;
use crate::fill::sink::Sink;
use crate::fill::state::{AskerFields, FillHead, FillStage, SparseStage};
use crate::object::epoch::new_epoch;
use crate::observe::event::Event;
use crate::partial::partial_object::PartialObject;
use crate::partial::range_fetch::RangeFetch;
use crate::request::upstream_request;

impl FetchTask {
    /// Restores the client's `Range` if a range is fetched. The proxy's own condition takes
    /// precedence over the client's `If-Range` (RFC 9110, 13.2.2), which is restored only if there
    /// is none.
    pub(crate) fn ask_for_range(&mut self, validates: bool) {
        let names = [header::RANGE, header::IF_RANGE];
        for name in &names[..if validates { 1 } else { 2 }] {
            if let Some(value) = self.request.get(name) {
                self.upstream_request.headers.insert(name.clone(), value.clone());
            }
        }
    }

    /// Runs the fill with the response to a range, a 206 or a 416. Stores the part if permitted,
    /// else passes it to its client.
    pub(crate) async fn part(
        &mut self,
        response: Response<OriginBody>,
        times: ExchangeTimes,
        fill_guard: &mut FillGuard,
    ) {
        let (mut head, body) = response.into_parts();
        upstream_request::sanitize_response(&self.services, &mut head.headers, head.version, true);
        let found = match head.status {
            StatusCode::PARTIAL_CONTENT => self.judge_part(&head.headers, &body, times),
            _ => None,
        };
        let when_asked = age::when_asked(&head.headers, times);
        let Some((part, stored, new_marker)) = found else {
            return self.pass_part(head.status, head.headers, body, fill_guard).await;
        };
        let window = match partial::combines(&stored) {
            true => Some(self.options.fill.part_window),
            // No other part can be combined with this one: use one window for all of it.
            false => u32::try_from(part.length).ok(),
        };
        let Some(window) = window else {
            return self.pass_part(head.status, head.headers, body, fill_guard).await;
        };
        // For a local file too large for the store, ranges cost no more to read than parts.
        let is_unstored = body.is_file() && part.length > self.store.object_max();
        if is_unstored || self.is_too_large(part.length) {
            return self.pass_part(head.status, head.headers, body, fill_guard).await;
        }
        let layout = Layout { epoch: new_epoch(), length: part.length, window };
        let sparse = SparseHead { layout, head: stored };
        let parts = self.parts(&sparse);
        // Other requests find the object as soon as it is stored, so its fill is registered first.
        let Some((key, fill)) = parts.next_fill(part.range.start) else {
            return self.pass_part(head.status, head.headers, body, fill_guard).await;
        };
        let interest = Arc::new(());
        let fetch_task = RangeFetch::new(parts, part.range, &interest, fill.clone(), key);
        if let Err(refusal) = self.store_sparse(&sparse, new_marker).await {
            log::debug!("a part is not stored: {refusal}");
            drop(fetch_task);
            return self.pass_part(head.status, head.headers, body, fill_guard).await;
        }
        let hit_for_miss = self.hit_for_miss_of(&sparse.head, when_asked);
        if let Some(why) = hit_for_miss {
            self.remember_hit_for_miss(why);
        }
        fill_guard.counted = Event::FillStored;
        // Keep the window and the rest of the range wanted until the client that began this has
        // joined.
        let leader = fill.join();
        let (key, marker, epoch) = (self.key.clone(), self.marker.clone(), layout.epoch);
        let stage = SparseStage { key, marker, epoch, hit_for_miss };
        self.fill.publish(FillStage::Sparse(Arc::new(stage)), None);
        fill_guard.unregister();
        let opening = self.fill.clone();
        spawn_local(async move {
            poll_fn(|cx| match opening.poll_interest(cx) {
                true => Poll::Pending,
                false => Poll::Ready(()),
            })
            .await;
            drop((leader, interest));
        });
        fetch_task.carry(body).await;
    }

    /// Returns the parts of an object that is about to be stored. Uses the token of this fetch, so
    /// an object removed since the fetch began is not stored again.
    fn parts(&self, sparse: &SparseHead) -> Rc<PartialObject> {
        let mut upstream_request = self.upstream_request.clone();
        upstream_request.interim = None;
        validators::remove_conditions(&mut upstream_request.headers);
        Rc::new(PartialObject {
            services: self.services.clone(),
            options: self.options.clone(),
            store: self.store.clone(),
            upstream_request,
            facts: self.facts.clone(),
            key: self.key.clone(),
            marker: self.marker.clone(),
            primary: self.primary.clone(),
            token: self.fill.token().clone(),
            layout: sparse.layout,
            head: sparse.head.clone(),
            trunk: None,
            trunk_is_lost: Cell::new(false),
        })
    }

    /// Reads the part in a 206. Returns the part, the head of the whole response, and whether its
    /// marker is new; `None` if the part must not be kept.
    fn judge_part(
        &mut self,
        headers: &HeaderMap,
        body: &OriginBody,
        times: ExchangeTimes,
    ) -> Option<(partial::Received, StoredHead, bool)> {
        let part = partial::read(headers, body.size_hint().exact())
            .inspect_err(|why| log::debug!("a part is not kept: {why:?}"))
            .ok()?;
        let whole = partial::whole_headers(headers, part.length);
        match self.judge(StatusCode::OK, &whole, times) {
            Ok((head, new_marker)) => {
                Some((part, head.spelled(body.spellings().clone()), new_marker))
            }
            Err(why) => {
                self.remember_hit_for_miss(why);
                None
            }
        }
    }

    async fn store_sparse(&self, sparse: &SparseHead, new_marker: bool) -> Result<(), Refusal> {
        let marker = self.marker.as_ref().filter(|_| new_marker);
        let hint = Hint { size: Some(0), ..self.hint(&sparse.head, None) };
        self.object_writer().insert(&self.key, marker, sparse.encode(), hint).await?.commit().await
    }

    /// Streams the response to the client that asked, and to no other.
    async fn pass_part(
        &mut self,
        status: StatusCode,
        headers: HeaderMap,
        body: OriginBody,
        fill_guard: &mut FillGuard,
    ) {
        let length = body.size_hint().exact();
        let key = self.key.clone();
        let stored = false;
        let (shared, hit_for_miss, selected) = (None, Some(HitForMiss::Range), false);
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
        if self.is_driven {
            return self.hand_over(head, body, fill_guard);
        }
        self.fill.publish(FillStage::Streaming(Arc::new(head)), None);
        fill_guard.unregister();
        let (end, counted) = self.carry(body, &mut Sink::Nowhere, length, None).await;
        fill_guard.counted = counted;
        self.fill.end(end);
    }

    /// Keeps the start of a body that broke off, if the rest can be requested.
    pub(crate) async fn keep_trunk(
        &self,
        sink: &mut Sink,
        head: Option<&StoredHead>,
        length: Option<u64>,
    ) {
        let (Some(head), Some(length)) = (head, length) else { return };
        // Of requests with other methods, only whole responses may be stored (RFC 9111, 3.3).
        let is_get = self.upstream_request.method == Method::GET;
        if !is_get || !partial::resumes(head) || self.fill.token().overtaken() {
            return;
        }
        let window = self.options.fill.part_window;
        let layout = Layout { epoch: new_epoch(), length, window };
        let sparse = SparseHead { layout, head: head.clone() };
        if sink.commit_as(sparse.encode()).await {
            log::debug!("{}: the received start of a body is kept", self.upstream_request.to);
        }
    }
}
