//! Task of a fill: sends a request to the origin, judges the response, and carries the body to the
//! readers and into the store. A fetch belongs to no client, though a client's request may drive it
//! ([`crate::fill::detached`]). It ends when the body does, or when no reader is left and too much
//! of the body is missing.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use fleet::lookup::Keep;
use http::header::HeaderMap;
use http::{Response, StatusCode, header};
use http_body::Body;
use semantics::reuse::Fallback;
use semantics::vary::Vary;
use semantics::{
    ExchangeTimes, Millis, RequestFacts, StoredHead, Time, VaryMarker, age, forwarded,
    one_exchange, reuse, validators,
};
use store::{Hint, Home, Key, Kind, Refusal};
use upstream::connection::origin_body::OriginBody;
use upstream::send::origin::Group;
use upstream::send::origin::VERSION;

use crate::body::peer_body;
use crate::fetch::piggyback_validation;
use crate::fetch::validation::ValidationRequest;
use crate::fill::pump::{Carried, Incoming, Pump, ReaderlessProgress};
use crate::fill::registry::{HitForMiss, name_of_unkept};
use crate::fill::sink::{ByteStream, Sink};
use crate::fill::state::{AskerFields, End, Failed, Fill, FillHead, FillStage};
use crate::object::epoch::new_epoch;
use crate::object::key::named_group;
use crate::object::lookup;
use crate::object::object_writer::{ObjectWriter, StorageKey};
use crate::object::store::{Store, Writer};
use crate::object::stored_response::StoredResponse;
use crate::observe::event::Event;
use crate::observe::outcome::Error;
use crate::options::Options;
use crate::origin::failure::Failure;
use crate::origin::outages::{Attempt, Trial, is_representative};
use crate::peers::asking::Asking;
use crate::peers::origin::FromPeer;
use crate::request::upstream_request;
use crate::request::upstream_request::UpstreamRequest;
use crate::services::Services;

/// One fetch from the origin for a fill, with everything its task needs.
pub(crate) struct FetchTask {
    pub services: Rc<Services>,
    pub options: Arc<Options>,
    pub store: Store,
    pub fill: Arc<Fill>,
    /// Key under which the fill is registered. The response is stored under it too, unless its
    /// `Vary` leads to another key.
    pub key: Key,
    pub primary: Key,
    pub marker: Option<VaryMarker>,
    pub upstream_request: UpstreamRequest,
    pub facts: RequestFacts,
    /// The client's fields, which select the variant.
    pub request: HeaderMap,
    pub stale: Option<Rc<StoredResponse>>,
    /// Errors of the origin that must not replace the stored response.
    pub fallback: Fallback,
    /// True if the client's `Range` is fetched, so that the response may be a part.
    pub ranged: bool,
    /// True to forward the client's own conditions when nothing stored is validated; the response
    /// may then be for this client only.
    pub asks_for_client: bool,
    /// True if the fill is registered, so that other clients may follow it.
    pub joinable: bool,
    pub purpose: FetchPurpose,
    /// Group that the origin named in its response, for the store.
    pub group: Option<u64>,
    /// The plan for asking other nodes before the origin.
    pub asking: Option<Arc<Asking>>,
    /// Tier or node that keeps the response.
    pub home: Home,
    /// True if the request that began the fetch drives it until there is a head, and wants the
    /// body. A response for its client only is handed over to it.
    pub is_driven: bool,
    /// True if the response may be stored. Otherwise only requests that follow the running fill
    /// share it.
    pub is_kept: bool,
    /// Body of a response that is handed over.
    pub handed_over: Option<Box<OriginBody>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchPurpose {
    /// A client waits for the response.
    Client,
    /// No client waits: a stale response was served, and this fetch validates it in the background.
    /// Holds the trial if it retries an origin that failed.
    Behind(Option<Trial>),
    /// No client asked: this validates a neighbour of a validated object
    /// ([`crate::fetch::piggyback_validation`]). Only a 304 or a new response of moderate size is
    /// used; otherwise a request that joined meanwhile fetches for itself.
    Neighbour,
}

/// Size in bytes above which a changed neighbour is not fetched without a reader.
const NEIGHBOUR_MAX: u64 = 1 << 20;

/// Removes a fill from the registry and ends it, however its task ends.
pub(crate) struct FillGuard {
    services: Rc<Services>,
    fill: Arc<Fill>,
    /// Names of the fill in the registry: by the key of the request, and by the key of the response
    /// if that differs.
    keys: [Option<Bytes>; 2],
    pub counted: Event,
}

impl FillGuard {
    /// Removes the fill from the registry. New requests find what it stored.
    pub fn unregister(&mut self) {
        for key in self.keys.iter_mut().filter_map(Option::take) {
            self.services.shared.fills.remove(&key, &self.fill);
        }
    }
}

impl Drop for FillGuard {
    fn drop(&mut self) {
        self.unregister();
        // The head is missing only if the task was dropped.
        if matches!(self.fill.stage(), FillStage::Waiting) {
            let failed = Failed {
                status: StatusCode::SERVICE_UNAVAILABLE,
                reason: Error::Draining,
                text: "The proxy is shutting down.".to_owned(),
                denied: None,
            };
            self.fill.publish(FillStage::Failed(Arc::new(failed)), None);
        }
        // No effect if the body has ended.
        self.fill.end(End::Broken(Error::Draining));
        self.services.observer.count(self.counted, 1);
    }
}

impl FetchTask {
    /// Prevents storing the response whatever its fields say: the client forbids storing any part
    /// of the exchange (RFC 9111, 5.2.1.5).
    pub fn forbid_storing(&mut self) {
        (self.is_kept, self.facts.directives.no_store) = (false, false);
    }

    fn begin(&self) -> FillGuard {
        let name = || match self.is_kept {
            true => self.key.as_bytes().clone(),
            false => name_of_unkept(&self.key),
        };
        let keys = [self.joinable.then(name), None];
        self.services.observer.count(Event::FillBegun, 1);
        let (services, fill) = (self.services.clone(), self.fill.clone());
        FillGuard { services, fill, keys, counted: Event::FillAborted }
    }

    /// Runs a fill whose origin has already responded.
    pub async fn run_answered(
        mut self: Box<Self>,
        response: Response<OriginBody>,
        times: ExchangeTimes,
    ) -> Option<Box<OriginBody>> {
        let mut fill_guard = self.begin();
        self.answered(response, times, &mut fill_guard).await;
        self.handed_over
    }

    async fn answered(
        &mut self,
        response: Response<OriginBody>,
        times: ExchangeTimes,
        fill_guard: &mut FillGuard,
    ) {
        self.upstream_request.follow(response.status(), response.headers());
        let group = response.extensions().get::<Group>();
        self.group = group.map(|group| named_group(&self.primary, group));
        if self.ranged && is_about_the_range(response.status()) {
            return Box::pin(self.part(response, times, fill_guard)).await;
        }
        self.stream(response, times, fill_guard).await;
    }

    /// Runs the fill to its end, then validates the neighbours of the validated object. Returns the
    /// body of a response that is only for the client whose request drives the fill.
    pub async fn run(mut self: Box<Self>) -> Option<Box<OriginBody>> {
        if !piggyback_validation::has(&self) {
            self.fetch().await;
            return self.handed_over;
        }
        // The neighbours are validated after the response has arrived.
        self.is_driven = false;
        let near = piggyback_validation::near(&self);
        let ended = self.fetch().await;
        // Boxed because it rarely runs and would enlarge the future of every fill.
        Box::pin(piggyback_validation::validate_neighbours(&self, near, ended)).await;
        None
    }

    /// Runs the fill to its end. Returns the event to count for it.
    pub async fn fetch(&mut self) -> Event {
        let mut fill_guard = self.begin();
        self.validate_or_fetch(&mut fill_guard).await;
        fill_guard.counted
    }

    async fn validate_or_fetch(&mut self, fill_guard: &mut FillGuard) {
        let clock = self.services.clock;
        let requested = clock.time();
        let fields = &mut self.upstream_request.headers;
        let validated = self.stale.clone().filter(|stale| stale.make_conditional(fields));
        // With nothing stored to validate, forward the client's conditions (RFC 9111, 4.3.2).
        let asks_for_client =
            validated.is_none() && self.asks_for_client && validators::keep_questions(fields);
        if validated.is_none() && !asks_for_client {
            validators::remove_conditions(fields);
        }
        if self.ranged {
            self.ask_for_range(validated.is_some());
        }
        if let Some(stale) = &validated {
            self.upstream_request.ask_about(stale.head.stored());
            if let Some(version) = stale.head.stored().headers().get(VERSION)
                && self.upstream_request.to.voucher().is_some()
            {
                self.upstream_request.headers.insert(VERSION, version.clone());
            }
        }
        let others = self.ask_about_others(validated.as_deref());
        let asks_about = validated.is_some() || !others.is_empty();
        let may_ask_again = asks_about || self.ranged || self.asking.is_some();
        let sent = clock.millis();
        let first = match may_ask_again {
            true => self.ask().await,
            false => self.upstream_request.run_last(&self.services, &self.options).await,
        };
        self.note_health(&first, sent);
        let answer = match first {
            Ok(response) if asks_about && response.status() == StatusCode::NOT_MODIFIED => {
                let times = ExchangeTimes { requested, received: clock.time() };
                self.upstream_request.follow(response.status(), response.headers());
                let question = ValidationRequest { validated, others, for_client: asks_for_client };
                if Box::pin(self.not_modified(question, response, times, fill_guard)).await {
                    return;
                }
                // The 304 is about something else: ask again without conditions.
                validators::remove_conditions(&mut self.upstream_request.headers);
                if self.ranged {
                    self.ask_for_range(false);
                }
                self.ask().await
            }
            answer => answer,
        };
        match answer {
            Ok(response)
                if self.purpose == FetchPurpose::Neighbour
                    && response.status() != StatusCode::OK =>
            {
                self.leave(fill_guard);
            }
            Ok(response) if is_final(response.status()) => {
                let times = ExchangeTimes { requested, received: clock.time() };
                self.answered(response, times, fill_guard).await;
            }
            Ok(response) if asks_for_client && response.status() == StatusCode::NOT_MODIFIED => {
                self.answer_condition(response, fill_guard);
            }
            Ok(response) => {
                let status = response.status().as_u16();
                let cause = format!("it answered {status}, which was not requested");
                self.fail(self.upstream_request.bad_response(&self.services, cause), fill_guard);
            }
            Err(failure) => self.fail(failure, fill_guard),
        }
    }

    /// Records, for later requests, whether the origin responded to the request sent at `sent`.
    fn note_health(&self, answer: &Result<Response<OriginBody>, Failure>, sent: u64) {
        let (outages, now) = (&self.services.shared.outages, self.services.clock.millis());
        let hold = self.options.fill.stale_refresh_time;
        let attempt = Attempt {
            scope: self.upstream_request.failure_scope(outages, &self.key),
            sent,
            is_representative: self.is_kept && !self.ranged && is_representative(&self.facts),
            trial: match self.purpose {
                FetchPurpose::Behind(trial) => trial,
                FetchPurpose::Client | FetchPurpose::Neighbour => None,
            },
        };
        match answer {
            Ok(response) => {
                let status = response.status();
                let error = self.fallback.covers(status).then_some(status);
                outages.answered(&attempt, error, now, hold);
            }
            // A neighbour's request opens no connection, so its failure says nothing about the
            // origin.
            Err(_) if self.purpose == FetchPurpose::Neighbour => {}
            Err(failure) => outages.failed(&attempt, failure, now, hold),
        }
    }

    /// Ends the fill without a response; the stored response stays unchanged.
    pub fn leave(&self, fill_guard: &mut FillGuard) {
        fill_guard.unregister();
        self.fill.publish(FillStage::Absent(false), None);
    }

    async fn ask(&self) -> Result<Response<OriginBody>, Failure> {
        self.upstream_request.run(&self.services, &self.options, None).await
    }

    fn fail(&self, failure: Failure, fill_guard: &mut FillGuard) {
        if self.purpose == FetchPurpose::Neighbour {
            return self.leave(fill_guard);
        }
        fill_guard.unregister();
        self.fill.publish(FillStage::Failed(Arc::new(Failed::of(failure))), None);
    }

    /// Makes the next clients of this key fetch for themselves at once.
    pub fn remember_hit_for_miss(&self, why: HitForMiss) {
        self.services.shared.fills.remember(
            &self.key,
            why,
            &self.options.fill,
            self.services.clock.instant(),
        );
    }

    /// Runs the fill with a response that has a body.
    async fn stream(
        &mut self,
        response: Response<OriginBody>,
        times: ExchangeTimes,
        fill_guard: &mut FillGuard,
    ) {
        let request = || self.upstream_request.clone();
        let response =
            peer_body::continued_elsewhere(&self.services, &self.options, request, response).await;
        let (mut parts, body) = response.into_parts();
        let of_peer = parts.extensions.get::<FromPeer>().is_some_and(|from| from.hit);
        upstream_request::sanitize_response(
            &self.services,
            &mut parts.headers,
            parts.version,
            true,
        );
        let (status, headers) = (parts.status, parts.headers);
        let length = body.size_hint().exact();
        let mut writer = None;
        let spellings = body.spellings().clone();
        let (shared, hit_for_miss) = match self.judge(status, &headers, times) {
            Ok((head, new_marker)) => {
                let head = head.spelled(spellings.clone());
                if let Some(home) = self.home_of(&headers, length).filter(|_| self.is_kept) {
                    self.home = home;
                    writer = self.begin_writing(&head, length, new_marker).await;
                }
                let hit_for_miss = self.hit_for_miss_of(&head, age::when_asked(&headers, times));
                self.note_hit_for_miss(hit_for_miss);
                self.remove_superseded(&head, writer.is_some()).await;
                (Some(head), hit_for_miss)
            }
            Err(why) => {
                // All waiting requests get the stored response instead of the error.
                if !self.fallback.covers(status) {
                    self.remember_hit_for_miss(why);
                }
                let is_error = reuse::is_error(status) || self.fallback.covers(status);
                let is_for_all = why != HitForMiss::Personal && !is_error;
                if self.stale.is_some() && is_for_all {
                    // The stored response is no longer the one that the origin sends.
                    self.store.remove(&self.key).await;
                }
                (None, Some(why))
            }
        };
        let (stored, key, selected) = (writer.is_some(), self.key.clone(), false);
        let is_for_one = self.is_driven && !self.facts.has_range && !stored && body.is_file();
        let (shared, hit_for_miss) = match is_for_one {
            // A local file need not be shared: other requests read it themselves.
            true => (None, hit_for_miss.or(Some(HitForMiss::NotStorable))),
            false => (shared, hit_for_miss),
        };
        let head = FillHead {
            status,
            asker_fields: AskerFields::new(headers, spellings),
            shared,
            hit_for_miss,
            key,
            stored,
            length,
            selected,
            of_peer,
        };
        if self.is_driven && head.shared.is_none() {
            return self.hand_over(head, body, fill_guard);
        }
        Box::pin(self.bring(Arc::new(head), writer, body, fill_guard)).await;
    }

    /// Ends the fill with a response that is only for the client whose request began and drives it.
    /// That request reads the body itself.
    pub(crate) fn hand_over(
        &mut self,
        head: FillHead,
        body: OriginBody,
        fill_guard: &mut FillGuard,
    ) {
        fill_guard.counted = Event::FillUnstored;
        self.note_not_kept();
        fill_guard.unregister();
        self.fill.publish(FillStage::Streaming(Arc::new(head)), None);
        self.handed_over = Some(Box::new(body));
    }

    /// Records, for the other nodes, that nothing of the response is kept.
    fn note_not_kept(&self) {
        if let Some(asking) = &self.asking {
            asking.note_not_kept();
        }
    }

    /// Removes the response that was to be validated if the new one does not replace it: because it
    /// varies by less and is therefore stored under another key, or because it is not stored here.
    async fn remove_superseded(&self, head: &StoredHead, is_stored: bool) {
        let Some(stale) = &self.stale else { return };
        let is_superseded = match stale.key == self.key {
            true => !is_stored,
            false => stale.marker.as_ref().is_some_and(|marker| marker.covers(&head.vary())),
        };
        if is_superseded {
            self.store.remove(&stale.key).await;
        }
    }

    /// Records whether the next clients of this key should wait for each other.
    pub fn note_hit_for_miss(&self, hit_for_miss: Option<HitForMiss>) {
        match hit_for_miss {
            None => self.services.shared.fills.clear_hit_for_miss(self.key.as_bytes()),
            Some(why) => self.remember_hit_for_miss(why),
        }
    }

    /// Publishes the head of a body and carries the body to its end.
    pub async fn bring(
        &self,
        head: Arc<FillHead>,
        writer: Option<Writer>,
        body: impl ByteStream,
        fill_guard: &mut FillGuard,
    ) {
        let key = self.key.as_bytes();
        let [first, other] = &mut fill_guard.keys;
        if self.joinable && self.is_kept && head.shared.is_some() && first.as_ref() != Some(key) {
            self.services.shared.fills.alias(key, &self.fill);
            *other = Some(key.clone());
        }
        let unfinished = writer.as_ref().map(Writer::unfinished);
        self.fill.publish(FillStage::Streaming(head.clone()), unfinished);
        let mut sink = writer.map_or(Sink::Nowhere, Sink::Open);
        let shared = head.shared.as_ref();
        let (end, counted) = self.carry(body, &mut sink, head.length, shared).await;
        if matches!(end, End::Broken(_)) {
            Box::pin(self.keep_trunk(&mut sink, shared, head.length)).await;
        }
        if let (Event::FillStored, Some(shared)) = (counted, shared) {
            self.fill.note_renewal();
            self.note_variant(&self.key, shared);
        }
        if counted != Event::FillStored {
            self.note_not_kept();
        }
        fill_guard.counted = counted;
        fill_guard.unregister();
        self.fill.end(end);
        sink.drop_when_unneeded(&self.fill).await;
    }

    /// Returns the shared head, and whether its marker is new, if the response may be stored. Sets
    /// `key` to the key of the response, stored or not: requests for another key must not get it.
    pub fn judge(
        &mut self,
        status: StatusCode,
        headers: &HeaderMap,
        times: ExchangeTimes,
    ) -> Result<(StoredHead, bool), HitForMiss> {
        let settings = self.upstream_request.settings(&self.options);
        let head = StoredHead::judged(&self.facts, status, headers, times, settings);
        let head = head.map_err(|why| HitForMiss::of(why, &self.facts))?;
        let head = head.with_body_id(self.may_be_compressed(status, headers).then(new_epoch));
        // An error or a redirect is about the path of this request, which the key lacks.
        let rule = self.upstream_request.rule.as_ref();
        let shares_paths = rule.is_some_and(|rule| rule.key_path.is_some());
        if self.fallback.covers(status) || (shares_paths && !status.is_success()) {
            return Err(HitForMiss::NotStorable);
        }
        let vary = head.vary();
        if forwarded::tells_clients_apart(&self.options.forwarded.add, &vary) {
            return Err(HitForMiss::NotStorable);
        }
        let place = self.place(&vary).ok_or(HitForMiss::NotStorable)?;
        self.key = place.key;
        let is_new = place.new_marker.is_some();
        self.marker = place.new_marker.or(self.marker.take());
        Ok((head, is_new))
    }

    /// Returns whether the response may be sent compressed, whatever its length.
    fn may_be_compressed(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        let codings = self.options.codings(self.upstream_request.rule.as_deref());
        !codings.is_empty()
            && self.upstream_request.to.voucher().is_none()
            && self.options.may_compress(status, headers)
    }

    /// Returns why waiting requests may not use a response that is stored, if they may not.
    pub fn hit_for_miss_of(&self, head: &StoredHead, when_asked: Millis) -> Option<HitForMiss> {
        let settings = self.upstream_request.settings(&self.options);
        let is_for_all = reuse::is_for_waiters(head.packed(), when_asked, settings);
        (!is_for_all).then_some(HitForMiss::NotFresh)
    }

    /// Returns where a response with this `Vary` is stored; `None` if its key is too long.
    pub fn place(&self, vary: &Vary) -> Option<StorageKey> {
        let found = (&self.key, self.marker.as_ref());
        StorageKey::of(vary, &self.primary, found, &self.request)
    }

    /// Returns the writer of stored objects for this fetch.
    pub fn object_writer(&self) -> ObjectWriter<'_> {
        let (store, token, primary) = (&self.store, self.fill.token(), &self.primary);
        ObjectWriter { store, token, primary }
    }

    /// Opens a writer; `None` if the store refuses.
    pub async fn begin_writing(
        &self,
        head: &StoredHead,
        length: Option<u64>,
        new_marker: bool,
    ) -> Option<Writer> {
        let begun = self.try_begin_writing(head, length, new_marker).await;
        if let Err(refusal) = &begun {
            log::debug!("not stored: {refusal}");
        }
        begun.ok()
    }

    async fn try_begin_writing(
        &self,
        head: &StoredHead,
        length: Option<u64>,
        new_marker: bool,
    ) -> Result<Writer, Refusal> {
        if self.is_older_than_stored(head).await {
            return Err(Refusal::Overtaken);
        }
        let (writer, hint) = (self.object_writer(), self.hint(head, length));
        // The marker leads waiting requests to this fetch, even if the response is too large.
        if let Some(marker) = self.marker.as_ref().filter(|_| new_marker) {
            Box::pin(writer.insert_marker(marker, hint.group)).await?;
        }
        if length.is_some_and(|length| self.is_too_large(length)) {
            return Err(Refusal::TooLarge);
        }
        writer.insert(&self.key, None, head.encode(), hint).await
    }

    /// Returns whether a later response has been stored while the origin was slow with this one.
    async fn is_older_than_stored(&self, head: &StoredHead) -> bool {
        let clock = self.services.clock;
        let (now, waited) = (clock.time(), clock.since(self.fill.begun()).as_millis() as u64);
        // Ages are whole seconds.
        if waited < 1_000 {
            return false;
        }
        let asked = Time::from_unix_millis(now.unix_millis().saturating_sub(waited));
        lookup::has_younger(&self.store, &self.key, head, (asked, now)).await
    }

    /// Returns where the fleet's policy keeps the response on this node, if anywhere.
    fn home_of(&self, headers: &HeaderMap, length: Option<u64>) -> Option<Home> {
        let Some(asking) = &self.asking else { return Some(Home::MemoryAndDisk) };
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        match asking.keep(length, kind) {
            Keep { memory: true, disk: true } => Some(Home::MemoryAndDisk),
            Keep { memory: true, disk: false } => Some(Home::Memory),
            Keep { memory: false, disk: true } => Some(Home::Disk),
            Keep { memory: false, disk: false } => None,
        }
    }

    /// Returns whether the operator's rule excludes an object of `length` bytes from the store.
    pub fn is_too_large(&self, length: u64) -> bool {
        self.upstream_request.store_max().is_some_and(|max| length > max)
    }

    /// Returns hints for the store about an object whose body has not arrived.
    pub fn hint(&self, head: &StoredHead, length: Option<u64>) -> Hint {
        let html = head.headers().get(header::CONTENT_TYPE).is_some_and(|content_type| {
            content_type.as_bytes().to_ascii_lowercase().starts_with(b"text/html")
        });
        let kind = if html { Kind::Html } else { Kind::Other };
        // Dates after 2106 or before 1970 count as unknown.
        let modified = head.packed().last_modified().map_or(0, |time| time.unix());
        let stamp = u32::try_from(modified).unwrap_or(0);
        Hint { size: length, kind, stamp, group: self.group, home: self.home }
    }

    /// Carries the body to its end and commits it. Stores trailers with `head`.
    pub async fn carry(
        &self,
        body: impl ByteStream,
        sink: &mut Sink,
        length: Option<u64>,
        head: Option<&StoredHead>,
    ) -> (End, Event) {
        let Services { leases, clock, .. } = &*self.services;
        let fill = &self.fill;
        let mut pump = Pump::new(leases, *clock, &self.options.fill, fill, (&mut *sink, 0))
            .with_store_max(self.upstream_request.store_max());
        let is_wanted = |unwatched: ReaderlessProgress| {
            let ReaderlessProgress { carried, since, is_stored } = unwatched;
            is_stored && self.worth_finishing(carried, since, length)
        };
        let (last, trailers) = match pump.carry(&mut Incoming::new(body), None, is_wanted).await {
            Carried::Complete { last, trailers } => (last, trailers),
            Carried::Broken(why) => return (End::Broken(why), Event::FillAborted),
            Carried::Abandoned => return (End::Broken(Error::Upstream), Event::FillAborted),
        };
        let trailers = trailers.map(|mut trailers| {
            if head.is_some() {
                one_exchange::remove_personal(&mut trailers);
            }
            trailers
        });
        let meta = trailers.as_ref().zip(head).map(|(fields, head)| self.trailed(head, fields));
        pump.commit(fill.token().overtaken(), meta).await;
        fill.push_last(last);
        let counted = match sink {
            Sink::Committed => Event::FillStored,
            Sink::Open(_) | Sink::Refused(_) | Sink::Nowhere => Event::FillUnstored,
        };
        (End::Whole(trailers.map(Arc::new)), counted)
    }

    /// Returns the metadata of a response that ended with trailers.
    fn trailed(&self, head: &StoredHead, trailers: &HeaderMap) -> Bytes {
        let settings = self.upstream_request.settings(&self.options);
        head.clone().with_trailers(trailers, settings).encode()
    }

    /// Returns whether a stored body without readers is fetched to its end: most of it has arrived,
    /// or little is missing. Without a known length, at most `finish_rest` bytes are fetched after
    /// the last reader has left. Background validations always finish; neighbours finish up to
    /// [`NEIGHBOUR_MAX`].
    fn worth_finishing(&self, produced: u64, alone_since: u64, length: Option<u64>) -> bool {
        match self.purpose {
            FetchPurpose::Client => {}
            FetchPurpose::Behind(_) => return true,
            FetchPurpose::Neighbour => return length.unwrap_or(produced) <= NEIGHBOUR_MAX,
        }
        let limits = &self.options.fill;
        match length {
            Some(length) => {
                let share = u128::from(limits.finish_percent) * u128::from(length);
                length.saturating_sub(produced) <= limits.finish_rest
                    || u128::from(produced) * 100 >= share
            }
            None => produced - alone_since <= limits.finish_rest,
        }
    }
}

/// Returns whether a response concerns the range only, not the whole.
fn is_about_the_range(status: StatusCode) -> bool {
    matches!(status, StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE)
}

fn is_final(status: StatusCode) -> bool {
    !status.is_informational() && status != StatusCode::NOT_MODIFIED
}
