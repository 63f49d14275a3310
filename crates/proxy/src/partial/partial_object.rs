//! An object stored in parts, as one request uses it: which bytes are stored, and how to get the
//! rest.
//!
//! Guarantee: all returned bytes belong to one representation, the one whose head the request was
//! given. Bytes that cannot be proved to belong to it are never used.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use http::{HeaderMap, Method};
use semantics::range::ByteRange;
use semantics::sparse::Layout;
use semantics::{
    ExchangeTimes, Meta, RequestFacts, StoredHead, VaryMarker, cache_key, merge, partial,
    validators,
};
use store::{FetchToken, Key, Lookup, Source};
use tokio::task::spawn_local;

use crate::body::fill_body::FillBody;
use crate::body::stored_body::EntryBody;
use crate::fill::state::{Failed, Fill, FillStage};
use crate::object::lookup::find_sparse;
use crate::object::object_writer::{Judge, ObjectWriter, RefreshResult};
use crate::object::store::{Entry, Store};
use crate::object::stored_response::StoredResponse;
use crate::observe::event::Event;
use crate::options::Options;
use crate::partial::range_fetch::{OtherResponse, RangeFetch};
use crate::request::context::RequestContext;
use crate::request::upstream_request::UpstreamRequest;
use crate::services::Services;

/// Maximum number of windows that one fetch brings. A single window bounds the bytes it may bring
/// after its client has disconnected; all windows together bound how long it occupies a connection.
const GAP_WINDOWS: u64 = 16;
/// Attempts to open a segment while other requests fetch or evict the same bytes.
const ATTEMPTS: u32 = 4;

/// An object in parts, and the request for its missing ones.
pub(crate) struct PartialObject {
    pub services: Rc<Services>,
    pub options: Arc<Options>,
    pub store: Store,
    /// The request to the origin, without conditions.
    pub upstream_request: UpstreamRequest,
    /// Facts of a GET of the whole object.
    pub facts: RequestFacts,
    pub key: Key,
    pub marker: Option<VaryMarker>,
    pub primary: Key,
    /// Taken when the object was found. Parts removed since then are not stored again.
    pub token: FetchToken,
    pub layout: Layout,
    pub head: StoredHead,
    pub trunk: Option<Rc<StoredResponse>>,
    /// True once reading the trunk has failed.
    pub trunk_is_lost: Cell<bool>,
}

pub(crate) struct Part {
    pub key: Key,
    pub entry: Entry,
    pub range: ByteRange,
}

/// Consecutive bytes from one source.
pub(crate) struct Segment {
    pub body: SegmentBody,
    /// Position after the last byte.
    pub until: u64,
    /// Held while the bytes after the segment are wanted too.
    pub interest: Option<Arc<()>>,
    pub from: SegmentOrigin,
}

pub(crate) enum SegmentBody {
    Stored(Box<EntryBody>),
    Fill(Box<FillBody>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentOrigin {
    Stored(Source),
    /// A fetch that another request began.
    Joined,
    /// A fetch that this request began.
    Fetched,
}

pub(crate) enum Unavailable {
    /// The origin has another representation now.
    Changed,
    /// The origin does not send this part, or the attempts to open it are used up.
    Refused,
    /// The origin sent another response to this request's fetch.
    Other(Box<OtherResponse>),
    Failed(Arc<Failed>),
}

impl PartialObject {
    /// Returns the parts of the object that was found for a request.
    pub fn of(
        context: &RequestContext,
        store: &Store,
        primary: &Key,
        stored: &Rc<StoredResponse>,
    ) -> Rc<PartialObject> {
        let layout = stored.sparse.expect("only what is there in parts has parts");
        let mut upstream_request = context.upstream_request();
        upstream_request.method = Method::GET;
        upstream_request.interim = None;
        validators::remove_conditions(&mut upstream_request.headers);
        let facts = context.facts.of_get();
        Rc::new(PartialObject {
            services: context.services.clone(),
            options: context.options.clone(),
            store: store.clone(),
            upstream_request,
            facts,
            key: stored.key.clone(),
            marker: stored.marker.clone(),
            primary: primary.clone(),
            token: store.begin_fetch(primary),
            layout,
            head: stored.head.stored().clone(),
            trunk: (!stored.entry.is_empty()).then(|| stored.clone()),
            trunk_is_lost: Cell::new(false),
        })
    }

    fn part_key(&self, number: u64) -> Option<Key> {
        let bytes = cache_key::part(self.key.as_bytes(), self.layout.epoch, number);
        Key::new(bytes, self.primary.locality())
    }

    /// Returns the stored part of a window, if there is one.
    pub async fn part(&self, number: u64) -> Option<Part> {
        let (key, window) = (self.part_key(number)?, self.layout.window(number)?);
        let Lookup::Hit(entry) = self.store.lookup(&key).await else { return None };
        let Ok(Meta::Part(head)) = Meta::decode(entry.meta()) else { return None };
        let range = ByteRange { start: head.start, end: head.start.checked_add(entry.len())? };
        let inside = window.start <= range.start && range.start < range.end;
        (inside && range.end <= window.end).then_some(Part { key, entry, range })
    }

    /// Returns the position after the trunk.
    fn trunk_end(&self) -> u64 {
        let trunk = self.trunk.as_ref().filter(|_| !self.trunk_is_lost.get());
        trunk.map_or(0, |trunk| trunk.entry.len().min(self.layout.length))
    }

    /// Records that the trunk cannot be read. Its bytes are fetched from now on.
    pub fn lose_trunk(&self) {
        self.trunk_is_lost.set(true);
    }

    /// Returns the segment that the store has from `at` on, up to `end`.
    pub async fn stored(&self, at: u64, end: u64) -> Option<Segment> {
        let trunk_end = self.trunk_end();
        let (key, entry, start, until, _held);
        if at < trunk_end {
            let trunk = self.trunk.as_ref()?;
            (key, entry, start, until) = (trunk.key.clone(), &trunk.entry, 0, trunk_end.min(end));
        } else {
            let part = self.part(self.layout.number(at)).await?;
            if at < part.range.start || at >= part.range.end {
                return None;
            }
            (start, until) = (part.range.start, part.range.end.min(end));
            _held = part.entry;
            (key, entry) = (part.key, &_held);
        }
        let from = SegmentOrigin::Stored(entry.source());
        let body = EntryBody::of_entry(self.store.clone(), key, entry, at - start..until - start);
        let body = SegmentBody::Stored(Box::new(body));
        Some(Segment { body, until, interest: None, from })
    }

    /// Returns the range to fetch so that the bytes from `at` to `end` arrive, or at least the
    /// first of them. Returns `None` if the first has been stored meanwhile.
    async fn gap(&self, at: u64, end: u64) -> Option<ByteRange> {
        let layout = &self.layout;
        let aligned = layout.length >= self.options.fill.aligned_from;
        let number = layout.number(at);
        let mut window = layout.around(at);
        window.start = window.start.max(self.trunk_end().min(at));
        let part = self.part(number).await.map(|part| part.range);
        if part.is_some_and(|part| (part.start..part.end).contains(&at)) {
            return None;
        }
        let mut gap = partial::gap(window, part, ByteRange { start: at, end }, aligned);
        for next in number + 1..number + GAP_WINDOWS {
            let Some(window) = layout.window(next).filter(|window| window.start == gap.end) else {
                break;
            };
            if window.start >= end || self.part(next).await.is_some() {
                break;
            }
            gap.end = if aligned { window.end } else { window.end.min(end) };
        }
        Some(gap)
    }

    /// Opens the bytes from `at` on: from the store, from a running fetch, or from a new one. The
    /// response of a fetch is known to fit before this returns.
    pub async fn open(self: &Rc<Self>, at: u64, end: u64) -> Result<Segment, Unavailable> {
        let mut alone = false;
        for _ in 0..ATTEMPTS {
            if let Some(segment) = self.stored(at, end).await {
                return Ok(segment);
            }
            let Some(key) = self.part_key(self.layout.number(at)) else { break };
            let running = self.services.shared.fills.running(key.as_bytes());
            let (fill, began) = match running.filter(|_| !alone) {
                Some(fill) => (fill, None),
                // Parts of this response cannot be combined, so nothing is fetched. The part may
                // have been stored since the first lookup.
                None if !partial::combines(&self.head) => continue,
                None => {
                    let Some(gap) = self.gap(at, end).await else { continue };
                    self.begin(key, gap, alone)
                }
            };
            let Some(mut reader) = fill.join() else {
                alone = true;
                continue;
            };
            let mut other_response = None;
            let interest = began.map(|(range_fetch, interest)| {
                other_response = Some(range_fetch.other_response());
                spawn_local(range_fetch.fetch());
                interest
            });
            match reader.head().await {
                FillStage::Part(stage) if (stage.range.start..stage.range.end).contains(&at) => {
                    let from = match interest {
                        Some(_) => SegmentOrigin::Fetched,
                        None => SegmentOrigin::Joined,
                    };
                    let until = stage.range.end.min(end);
                    let start = stage.range.start;
                    reader.seek(at - start..until - start);
                    let store = Some(self.store.clone());
                    let body = FillBody::new(reader, store, Some(until - start), false);
                    let body = SegmentBody::Fill(Box::new(body));
                    let interest = interest.or_else(|| stage.interest.upgrade());
                    return Ok(Segment { body, until, interest, from });
                }
                FillStage::Absent(changed) => {
                    return Err(
                        match other_response.and_then(|other_response| other_response.take()) {
                            Some(other_response) => Unavailable::Other(Box::new(other_response)),
                            None if changed => Unavailable::Changed,
                            None => Unavailable::Refused,
                        },
                    );
                }
                FillStage::Failed(failed) if interest.is_some() => {
                    return Err(Unavailable::Failed(failed));
                }
                // The fill brings another part of the window, or another client's request failed.
                _ => alone = true,
            }
        }
        Err(Unavailable::Refused)
    }

    /// Begins a fill for `gap`, registered under `key` unless it is `alone`. Returns the running
    /// fill if one exists by now.
    fn begin(
        self: &Rc<Self>,
        key: Key,
        gap: ByteRange,
        alone: bool,
    ) -> (Arc<Fill>, Option<(RangeFetch, Arc<()>)>) {
        let (fill, began) = match alone {
            true => (Arc::new(self.new_fill()), true),
            false => self.services.shared.fills.join_or_begin(key.as_bytes(), || self.new_fill()),
        };
        if !began {
            return (fill, None);
        }
        let interest = Arc::new(());
        let range_fetch = RangeFetch::new(self.clone(), gap, &interest, fill.clone(), key);
        (fill, Some((range_fetch, interest)))
    }

    fn new_fill(&self) -> Fill {
        let Services { shared, clock, .. } = &*self.services;
        let token = self.store.begin_fetch(&self.primary);
        let share = shared.fill_budget.share(self.primary.locality().site);
        Fill::new(token, clock.instant(), share)
    }

    /// Begins a fill for the window of `at`; `None` if one is running there.
    pub fn next_fill(&self, at: u64) -> Option<(Key, Arc<Fill>)> {
        let key = self.part_key(self.layout.number(at))?;
        let fills = &self.services.shared.fills;
        let (fill, began) = fills.join_or_begin(key.as_bytes(), || self.new_fill());
        began.then_some((key, fill))
    }

    /// Updates the stored head with that of a part that fits (RFC 9111, 3.4).
    pub async fn refresh(&self, update: &HeaderMap, times: ExchangeTimes) {
        let settings = self.upstream_request.settings(&self.options);
        let mut update = update.clone();
        merge::take_personal(&self.facts, &self.head, &mut update, times, settings);
        let head = merge::freshen(self.facts.target, &self.head, &update, times, settings);
        if head == self.head {
            return;
        }
        let judge = Judge { facts: &self.facts, times, settings };
        if judge.refreshed(&head, self.marker.as_ref()) == RefreshResult::ForClient {
            return;
        }
        let Some(current) = self.current().await else { return };
        let (store, token, primary) = (&self.store, &self.token, &self.primary);
        let writer = ObjectWriter { store, token, primary };
        if writer.refresh(&current, &head, &judge).await == RefreshResult::Elsewhere {
            // Requests with other values of these fields have another representation.
            self.store.remove(&self.key).await;
        }
    }

    async fn current(&self) -> Option<Rc<StoredResponse>> {
        let (marker, epoch) = (self.marker.clone(), self.layout.epoch);
        find_sparse(&self.store, &self.key, marker, epoch).await
    }

    /// Removes the object with all its parts on behalf of the fetch of `token`, unless another
    /// object has replaced it.
    pub async fn forget(&self, token: &mut FetchToken) {
        if self.current().await.is_some() {
            self.store.remove_for_fetch(token, &self.key).await;
        }
    }

    pub fn count(&self, event: Event) {
        self.services.observer.count(event, 1);
    }
}
